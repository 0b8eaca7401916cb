/* torch-trace.h - the ranges of PyTorch profiler traces, and timelines from them. Private to sim/formats. */
#ifndef PIPESIM_TORCH_TRACE_H
#define PIPESIM_TORCH_TRACE_H

#include "torch-actions.h"
#include "trace-events.h"

#include <pipesim/timeline.h>

G_BEGIN_DECLS

/* One range; a pair is one range with two actions. On a processor a range includes the time that it waits before it
 * computes, and with GPipe its messages. */
typedef struct
{
  gint64 start_ns;
  gint64 end_ns;
  gint64 compute_start_ns; /* the timeline is made of these two */
  gint64 compute_end_ns;
  guint n;
  PsTorchAction actions[2];
} PsTorchRange;

/* One rank: its ranges and, after the cut, its complete iterations. */
typedef struct
{
  const char *name; /* of its file */
  GArray *ranges;   /* of PsTorchRange; after the cut sorted by start, without nested ones */
  GArray *starts;   /* guint: first range of each complete iteration */
  guint n;          /* ranges of an iteration */
} PsTorchRank;

void ps_torch_rank_free (gpointer rank);

/* Whether a range of this name is a rank's action: "PP:0F0", or "Forward 0" and "Backward 0" of ScheduleGPipe. */
gboolean ps_torch_trace_names (const char *name);

/* Reads traces with ranges of actions: one run in n files. */
PsTimeline *ps_torch_trace_read (const char *where, PsTrace *traces, guint n, GError **error);

/* Cuts ranks (of PsTorchRank) into iterations and makes the median one a timeline. Its source says everything but the
 * ranks. */
PsTimeline *ps_torch_trace_timeline (const char *where, GPtrArray *ranks, gboolean gpu, GError **error);

G_END_DECLS

#endif
