/* span-index.h - the spans of a timeline by op and device. Private to libpipesim. */
#ifndef PIPESIM_SPAN_INDEX_H
#define PIPESIM_SPAN_INDEX_H

#include <pipesim/timeline.h>

G_BEGIN_DECLS

typedef struct
{
  GHashTable *by_key; /* guint64 -> PsSpan */
  guint64 *keys;
} PsSpanIndex;

/* Of two spans of one op on one device the later in the array counts. spans must stay as they are. */
void ps_span_index_init (PsSpanIndex *index, GArray *spans);
void ps_span_index_clear (PsSpanIndex *index);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsSpanIndex, ps_span_index_clear)

/* NULL: there is none. Whether an op is one of a pair does not count. */
const PsSpan *ps_span_index_find (const PsSpanIndex *index, PsOp op, guint device);

G_END_DECLS

#endif
