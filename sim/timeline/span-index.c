/* span-index.c - finding the spans of a timeline by op and device. */
#include "span-index.h"

/* Everything that names an op or transfer within an iteration, in one word. */
static guint64
span_key (PsOp op, guint device)
{
  return (guint64)device << 48 | (guint64)op.kind << 45 | (guint64)op.slice << 37 | (guint64)op.stage << 21
         | op.microbatch;
}

/* g_int64_hash leaves out the upper half, and with it kind and device. */
static guint
hash_key (gconstpointer key)
{
  return (guint)(*(const guint64 *)key * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15) >> 32);
}

void
ps_span_index_init (PsSpanIndex *index, GArray *spans)
{
  index->by_key = g_hash_table_new (hash_key, g_int64_equal);
  index->keys = g_new (guint64, spans->len);
  for (guint i = 0; i < spans->len; i++)
    {
      PsSpan *span = &g_array_index (spans, PsSpan, i);

      index->keys[i] = span_key (span->op, span->device);
      g_hash_table_insert (index->by_key, &index->keys[i], span);
    }
}

void
ps_span_index_clear (PsSpanIndex *index)
{
  g_clear_pointer (&index->by_key, g_hash_table_unref);
  g_clear_pointer (&index->keys, g_free);
}

const PsSpan *
ps_span_index_find (const PsSpanIndex *index, PsOp op, guint device)
{
  guint64 key = span_key (op, device);

  return g_hash_table_lookup (index->by_key, &key);
}
