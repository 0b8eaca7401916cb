/* trace-ranks.h - the ranges of all ranks of a run, as any kind of trace yields them, become timelines. Private to
 * sim/observe. */
#pragma once

#include "range-names.h"
#include <pipesim/timeline.h>

/* One op, or one pair: a range with two ops. All times of a rank count from one instant. */
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
  guint number;
  GArray *ranges;  /* of PsRankRange, in any order; after the cut by start, without nested ones */
  GArray *posts;   /* of PsSpan; devices are set later */
  GArray *waits;   /* of PsSpan: waits outside of ranges; with post where the wait is for a receive */
  GArray *links;   /* of PsSpan with post: when a device worked on one end of a message */
  GArray *updates; /* of PsSpan: O after each iteration, in any order */
  GArray *marks;   /* gint64: instants between two iterations, in any order; none: not known */
  GArray *starts;  /* guint: first range of each complete iteration */
  guint n;         /* ranges of an iteration */
} PsRank;

PsRank *ps_rank_new (const char *name);

void ps_rank_free (gpointer rank);

/* The number after "rank" in the name of a file, else -1. */
gint64 ps_rank_of_path (const char *path);

/* Adds a range that computes from its start to its end and waits for nothing. */
void ps_rank_add_range (PsRank *rank, const PsRangeName *name, gint64 start_ns, gint64 end_ns);

/* Adds the post or wait that a name other than that of a range stands for, if it stands for one. */
void ps_rank_add_span (PsRank *rank, const PsRangeName *name, gint64 start_ns, gint64 end_ns);

/* Adds a range between two iterations; update: it updates the weights. */
void ps_rank_add_mark (PsRank *rank, gboolean update, gint64 start_ns, gint64 end_ns);

/* In a rank whose ranges are in order: the number of the first range that starts after that time; and the one before
 * it, if it has not ended then, else NULL. */
guint ps_rank_first_after (const PsRank *rank, gint64 time_ns);

PsRankRange *ps_rank_range_at (const PsRank *rank, gint64 time_ns);

/* One more than the last stage. */
guint ps_ranks_count_stages (GPtrArray *ranks);

/* The first step: sorts the ranges of each rank (of PsRank), drops those inside another, and finds the stages and
 * microbatches that names do not tell. naming: that of all names. PS_RANGES_OF_RANK: the stage is the rank's number.
 * PS_RANGES_COUNTED: the orders of 1F1B, GPipe and Megatron's interleaved 1F1B are known, where one group of p
 * microbatches follows the other; posts and waits get the op next to them. Errors: PS_ERROR_INPUT. */
gboolean ps_ranks_number (GPtrArray *ranks, PsRangeNaming naming, GError **error);

/* Adds a remark after those that the timeline has. NULL: none. */
void ps_timeline_add_remark (PsTimeline *timeline, const char *remark);

/* The second step: drops ranks from the list whose ops an earlier one does, too, and cuts them into iterations; each
 * complete one becomes a PsTimeline of the list, in order. An op that comes again begins a new iteration. A range waits
 * only if another rank sends its message. source: where the times come from; the number of the iteration is added.
 * Errors: PS_ERROR_INPUT. */
GPtrArray *ps_ranks_to_timelines (const char *where, const char *source, GPtrArray *ranks, GError **error);
