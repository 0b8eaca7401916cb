/* trace-private.h - JSON traces: the events of viewers and profilers. Private to sim/formats. */
#ifndef PIPESIM_TRACE_PRIVATE_H
#define PIPESIM_TRACE_PRIVATE_H

#include "json-text.h"

#include <pipesim/formats.h>

G_BEGIN_DECLS

/* One file of a trace. */
typedef struct
{
  const char *name; /* what messages call it */
  JsonParser *parser;
  JsonObject *head; /* NULL where the file is a bare array of events */
  JsonArray *events;
} Trace;

/* One event of phase X. */
typedef struct
{
  gint64 pid;
  gint64 tid;
  gint64 start_ns;
  gint64 end_ns;
  const char *name;
  const char *category;
} TraceRange;

gboolean ps_trace_open (Trace *trace, const char *name, const char *text, GError **error);
void ps_trace_clear (Trace *trace);

/* The object of an event; NULL for what is none. */
JsonObject *ps_trace_event (const Trace *trace, guint i);

/* Values of an event, absent or of another type: FALSE or "". */
gboolean ps_trace_integer (JsonObject *event, const char *key, gint64 *value);
const char *ps_trace_text (JsonObject *event, const char *key);

/* Microseconds, rounded to nanoseconds. FALSE where they are absent or absurd. */
gboolean ps_trace_time (JsonObject *event, const char *key, gint64 *ns);

/* Whether an event is a range with all that it needs. */
gboolean ps_trace_range (JsonObject *event, TraceRange *range);

/* Whether any range is an action of PyTorch's runtime. */
gboolean ps_trace_is_torch (const Trace *trace);

/* Traces with "PP:" ranges, one run in n files. */
PsTimeline *ps_torch_trace_read (const char *where, const Trace *traces, guint n, GError **error);

/* A trace that ps_timeline_to_chrome_trace wrote. */
PsTimeline *ps_chrome_trace_read (const Trace *trace, GError **error);

G_END_DECLS

#endif
