/* chrome-trace-read.h - reads timelines from Chrome traces. Private to sim/observe. */
#pragma once

#include "trace-events.h"

#include <pipesim/timeline.h>

/* Reads a trace that ps_timeline_to_chrome_trace wrote. Errors: PS_ERROR_INPUT "NAME: traceEvents[3]: ...". */
PsTimeline *ps_chrome_trace_read (PsTrace *trace, GError **error);
