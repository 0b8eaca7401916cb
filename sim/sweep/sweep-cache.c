/* sweep-cache.c - what was used lately, by key. */
#include "sweep-private.h"

#include <string.h>

typedef struct
{
  guint *key; /* its length, then so many */
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
  GArray *key; /* scratch */
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
  cache->key = g_array_new (FALSE, FALSE, sizeof (guint));
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
  if (!cache)
    return;
  while (cache->recent.tail)
    drop (cache, cache->recent.tail->data);
  g_hash_table_unref (cache->entries);
  g_array_unref (cache->key);
  g_free (cache);
}

static const guint *
full_key (PsCache *cache, const guint *key, guint n)
{
  g_array_set_size (cache->key, 0);
  g_array_append_val (cache->key, n);
  g_array_append_vals (cache->key, key, n);
  return (const guint *)(gconstpointer)cache->key->data;
}

gpointer
ps_cache_find (PsCache *cache, const guint *key, guint n)
{
  Entry *entry = g_hash_table_lookup (cache->entries, full_key (cache, key, n));

  if (!entry)
    return NULL;
  g_queue_unlink (&cache->recent, &entry->link);
  g_queue_push_head_link (&cache->recent, &entry->link);
  return entry->thing;
}

void
ps_cache_add (PsCache *cache, const guint *key, guint n, gpointer thing, gsize weight)
{
  Entry *entry = g_new0 (Entry, 1);

  entry->key = g_memdup2 (full_key (cache, key, n), (n + 1) * sizeof *key);
  entry->thing = thing;
  entry->weight = weight;
  entry->link.data = entry;
  while (cache->recent.tail && cache->weight + weight > cache->capacity)
    drop (cache, cache->recent.tail->data);
  g_hash_table_insert (cache->entries, entry->key, entry);
  g_queue_push_head_link (&cache->recent, &entry->link);
  cache->weight += weight;
}
