/* trace-events.h - the events of JSON traces, of viewers and profilers, one after the other. Private to sim/formats. */
#ifndef PIPESIM_TRACE_EVENTS_H
#define PIPESIM_TRACE_EVENTS_H

#include "json/json-reader.h"

G_BEGIN_DECLS

/* What an event may say; all others of its members are passed over. */
typedef enum
{
  TRACE_PID,
  TRACE_TID,
  TRACE_ID,
  TRACE_TS,       /* ns, rounded from microseconds; absurd ones count as absent, for TRACE_DUR too */
  TRACE_DUR,      /* ns */
  TRACE_CHUNK,    /* of "args", as the following */
  TRACE_START_NS, /* */
  TRACE_END_NS,   /* */
  TRACE_BYTES,
  TRACE_N_NUMBERS
} PsTraceNumber;

typedef enum
{
  TRACE_PHASE,
  TRACE_NAME,
  TRACE_CATEGORY,
  TRACE_ARGS_NAME,
  TRACE_N_TEXTS
} PsTraceText;

typedef struct
{
  guint index;
  guint known; /* bit per PsTraceNumber */
  gint64 number[TRACE_N_NUMBERS];
  GString *text[TRACE_N_TEXTS]; /* "" where absent or no text */
} PsTraceEvent;

/* One file of a trace. */
typedef struct
{
  const char *name; /* what messages call it */
  PsJsonReader json;
  const char *events; /* where their array stands */
  const char *other;  /* where the value of "otherData" stands; NULL */
  gint64 base_ns;     /* "baseTimeNanoseconds" of the file, to which its times are relative; 0 */
  gint64 rank;        /* "rank" of its "distributedInfo"; -1 */
  gint64 n_ranks;     /* "world_size" of its "distributedInfo"; 0 */
  PsTraceEvent event;
} PsTrace;

/* One event of phase X; texts are those of the event. */
typedef struct
{
  gint64 pid;
  gint64 tid;
  gint64 start_ns;
  gint64 end_ns;
  const char *name;
  const char *category;
} PsTraceRange;

/* Finds the array of events, which is the whole text or "traceEvents" of an object. The text must outlive the trace.
 * Errors: PS_ERROR_INPUT. Clear in any case. */
gboolean ps_trace_open (PsTrace *trace, const char *name, const char *text, GError **error);
void ps_trace_clear (PsTrace *trace);

/* Goes back to the first event; gives the next one, NULL behind the last. It is valid until the next call. What is no
 * object comes as an event that says nothing. */
void ps_trace_rewind (PsTrace *trace);
const PsTraceEvent *ps_trace_next (PsTrace *trace);

static inline const char *
ps_trace_text (const PsTraceEvent *event, PsTraceText text)
{
  return event->text[text]->str;
}

/* FALSE where the event does not say it. */
static inline gboolean
ps_trace_number (const PsTraceEvent *event, PsTraceNumber number, gint64 *value)
{
  *value = event->number[number];
  return (event->known & 1U << number) != 0;
}

/* Whether an event is a range with all that it needs. */
gboolean ps_trace_range (const PsTraceEvent *event, PsTraceRange *range);

G_END_DECLS

#endif
