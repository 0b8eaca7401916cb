/* cache.h - things by key; the ones longest not asked for go when their weights together are too much. A key is a list
 * of numbers. Private to libpipesim. */
#pragma once

#include <glib.h>

typedef struct _PsCache PsCache;
PsCache *ps_cache_new (gsize capacity, GDestroyNotify destroy);
void ps_cache_free (PsCache *cache);

/* An empty key, of guint, to append to: find and add take it as it then is. */
GArray *ps_cache_key (PsCache *cache);
gpointer ps_cache_find (PsCache *cache); /* NULL: not there */
void ps_cache_add (PsCache *cache, gpointer thing /* taken */, gsize weight);
