/* otel-trace.h - timelines from OpenTelemetry spans, as Megatron-LM emits them. Private to sim/observe. */
#pragma once

#include "trace-ranks.h"

#include <pipesim/formats.h>

/* Whether the beginning of a text looks like spans: OTLP's JSON or that of the Python SDK's console exporter. */
gboolean ps_otel_recognise (const char *text, gsize length);

/* Reads the spans of one run from n files, each a sequence of JSON objects. A list of PsTimeline. Errors:
 * PS_ERROR_INPUT. */
GPtrArray *ps_otel_read (const char *where, const PsTraceFile *files, guint n, GError **error);
