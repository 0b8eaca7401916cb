/* span-index.h - the spans of a timeline by op and device. Private to libpipesim. */
#pragma once

#include <pipesim/timeline.h>

/* Spans of a slot form a list. Neighbouring microbatches have neighbouring slots, so that a walk over a timeline stays
 * in near memory. Where few of the possible ops are there, slots are drawn by a hash. */
typedef struct
{
  const PsSpan *spans;
  guint n_stages; /* each count is one more than the largest there is */
  guint n_microbatches;
  guint n_slices;
  guint shift;    /* of the hash; 0: each op has its own slot */
  guint32 *slots; /* 1 + the latest span of the slot; 0: none */
  guint32 *next;  /* [n_spans] the same for the rest of the list */
} PsSpanIndex;

/* Of two spans of one op on one device the later in the array counts. spans must stay as they are. */
void ps_span_index_init (PsSpanIndex *index, GArray *spans);
void ps_span_index_clear (PsSpanIndex *index);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsSpanIndex, ps_span_index_clear)

/* NULL: there is none. Whether an op is one of a pair does not count. */
const PsSpan *ps_span_index_find (const PsSpanIndex *index, PsOp op, guint device);
