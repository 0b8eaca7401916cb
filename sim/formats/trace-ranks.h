/* trace-ranks.h - the ranges of all ranks of a run, as any kind of trace yields them, become timelines. Private to
 * sim/formats. */
#ifndef PIPESIM_TRACE_RANKS_H
#define PIPESIM_TRACE_RANKS_H

#include <pipesim/timeline.h>

G_BEGIN_DECLS

/* One op, or one pair: a range with two ops. All times of a run count from one instant. */
typedef struct
{
  gint64 start_ns; /* with the time that it waits */
  gint64 end_ns;
  gint64 compute_start_ns; /* the timeline's op lasts from here */
  gint64 compute_end_ns;
  gint64 wait_start_ns; /* the rank waits for the range's message from here; wait_end_ns: not at all, or not known */
  gint64 wait_end_ns;
  guint n;
  PsOp ops[2];
} PsRankRange;

/* One rank; the last two members are filled by ps_ranks_to_timelines. */
typedef struct
{
  const char *name; /* of its file, for messages */
  GArray *ranges;   /* of PsRankRange, in any order; after the cut by start, without nested ones */
  GArray *posts;    /* of PsSpan; devices are set later */
  GArray *waits;    /* of PsSpan: waits outside of ranges */
  GArray *starts;   /* guint: first range of each complete iteration */
  guint n;          /* ranges of an iteration */
} PsRank;

PsRank *ps_rank_new (const char *name);
void ps_rank_free (gpointer rank);

/* Cuts ranks (of PsRank) into iterations; each complete one becomes a PsTimeline of the list, in order. An op that
 * comes again begins a new iteration. source: where the times come from; the number of the iteration is added. A range
 * waits only if another rank sends its message. Errors: PS_ERROR_INPUT. */
GPtrArray *ps_ranks_to_timelines (const char *where, const char *source, GPtrArray *ranks, GError **error);

G_END_DECLS

#endif
