/* torch-trace.h - timelines from PyTorch profiler traces. Private to sim/observe. */
#pragma once

#include "trace-events.h"

#include <pipesim/timeline.h>

/* Whether a range of this name is a rank's action: "PP:0F0", or "Forward 0" and "Backward 0" of ScheduleGPipe. */
gboolean ps_torch_trace_names (const char *name);

/* Reads traces with ranges of actions: one run in n files. A list of PsTimeline, one per iteration. */
GPtrArray *ps_torch_trace_read (const char *where, PsTrace *traces, guint n, GError **error);
