/* cache.c - things by key, within a limit of their weights. */
#include "cache.h"

#include <string.h>

typedef struct
{
  guint *key; /* its length, then the numbers */
  gpointer thing;
  gsize weight;
  GList link;
} Entry;

struct _PsCache
{
  GHashTable *entries; /* key -> Entry */
  GQueue recent;       /* of Entry, the last one used first */
  gsize capacity;
  gsize weight;
  GDestroyNotify destroy;
  GArray *key; /* of the next find and add: the length, then the numbers */
};

static guint
hash_key (gconstpointer data)
{
  const guint *key = data;
  guint hash = 2166136261U;

  for (guint i = 0; i <= key[0]; i++)
    hash = (hash ^ key[i]) * 16777619U;
  return hash;
}

static gboolean
same_key (gconstpointer a, gconstpointer b)
{
  const guint *x = a, *y = b;

  return x[0] == y[0] && memcmp (x, y, (x[0] + 1) * sizeof *x) == 0;
}

PsCache *
ps_cache_new (gsize capacity, GDestroyNotify destroy)
{
  PsCache *cache = g_new0 (PsCache, 1);

  cache->entries = g_hash_table_new (hash_key, same_key);
  cache->capacity = capacity;
  cache->destroy = destroy;
  cache->key = g_array_new (FALSE, TRUE, sizeof (guint));
  ps_cache_key (cache);
  g_queue_init (&cache->recent);
  return cache;
}

static void
drop (PsCache *cache, Entry *entry)
{
  g_hash_table_remove (cache->entries, entry->key);
  g_queue_unlink (&cache->recent, &entry->link);
  cache->weight -= entry->weight;
  cache->destroy (entry->thing);
  g_free (entry->key);
  g_free (entry);
}

void
ps_cache_free (PsCache *cache)
{
  if (cache == NULL)
    return;
  while (cache->recent.tail != NULL)
    drop (cache, cache->recent.tail->data);
  g_hash_table_unref (cache->entries);
  g_array_unref (cache->key);
  g_free (cache);
}

GArray *
ps_cache_key (PsCache *cache)
{
  return g_array_set_size (cache->key, 1);
}

static const guint *
whole_key (PsCache *cache)
{
  g_array_index (cache->key, guint, 0) = cache->key->len - 1;
  return (const guint *)(gconstpointer)cache->key->data;
}

gpointer
ps_cache_find (PsCache *cache)
{
  Entry *entry = g_hash_table_lookup (cache->entries, whole_key (cache));

  if (entry == NULL)
    return NULL;
  g_queue_unlink (&cache->recent, &entry->link);
  g_queue_push_head_link (&cache->recent, &entry->link);
  return entry->thing;
}

void
ps_cache_add (PsCache *cache, gpointer thing, gsize weight)
{
  Entry *entry = g_new0 (Entry, 1);

  entry->key = g_memdup2 (whole_key (cache), cache->key->len * sizeof *entry->key);
  entry->thing = thing;
  entry->weight = weight;
  entry->link.data = entry;
  while (cache->recent.tail != NULL && cache->weight + weight > cache->capacity)
    drop (cache, cache->recent.tail->data);
  g_hash_table_insert (cache->entries, entry->key, entry);
  g_queue_push_head_link (&cache->recent, &entry->link);
  cache->weight += weight;
}
