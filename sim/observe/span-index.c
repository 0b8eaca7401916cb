/* span-index.c - finding the spans of a timeline by op and device. */
#include "span-index.h"

/* A hash draws the slots of ops if there are SPARSE times more possible ops than spans. */
#define SPARSE 8

static void
count (PsSpanIndex *index, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      PsOp op = index->spans[i].op;

      index->n_stages = MAX (index->n_stages, op.stage + 1U);
      index->n_microbatches = MAX (index->n_microbatches, op.microbatch + 1U);
      index->n_slices = MAX (index->n_slices, op.slice + 1U);
    }
}

static inline guint64
find_slot (const PsSpanIndex *index, PsOp op)
{
  guint64 stage = ((guint64)op.kind * index->n_slices + op.slice) * index->n_stages + op.stage;
  guint64 number = stage * index->n_microbatches + op.microbatch;

  return index->shift == 0 ? number : number * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15) >> index->shift;
}

void
ps_span_index_init (PsSpanIndex *index, GArray *spans)
{
  *index = (PsSpanIndex){ .spans = (const PsSpan *)(gconstpointer)spans->data, .next = g_new (guint32, spans->len) };
  count (index, spans->len);
  guint64 n_slots = (guint64)PS_N_OP_KINDS * index->n_slices * index->n_stages * index->n_microbatches;
  if (n_slots > (guint64)SPARSE * spans->len)
    {
      guint bits = g_bit_storage (spans->len) + 1;

      index->shift = 64 - bits;
      n_slots = G_GUINT64_CONSTANT (1) << bits;
    }
  index->slots = g_new0 (guint32, n_slots);
  for (guint i = 0; i < spans->len; i++)
    {
      guint32 *slot = &index->slots[find_slot (index, index->spans[i].op)];

      index->next[i] = *slot;
      *slot = i + 1;
    }
}

void
ps_span_index_clear (PsSpanIndex *index)
{
  g_clear_pointer (&index->slots, g_free);
  g_clear_pointer (&index->next, g_free);
}

static inline gboolean
is_span_of (const PsSpan *span, PsOp op, guint device)
{
  return span->device == device && span->op.kind == op.kind && span->op.slice == op.slice && span->op.stage == op.stage
         && span->op.microbatch == op.microbatch;
}

const PsSpan *
ps_span_index_find (const PsSpanIndex *index, PsOp op, guint device)
{
  guint32 i;

  if (op.stage >= index->n_stages || op.microbatch >= index->n_microbatches || op.slice >= index->n_slices)
    return NULL;
  for (i = index->slots[find_slot (index, op)]; i != 0; i = index->next[i - 1])
    if (is_span_of (&index->spans[i - 1], op, device))
      return &index->spans[i - 1];
  return NULL;
}
