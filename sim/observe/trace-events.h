/* trace-events.h - reads the events of JSON traces, of viewers and profilers, one after the other. Private to
 * sim/observe. */
#pragma once

#include "base/json.h"

#include <pipesim/formats.h>

/* Numbers of an event; members that are not listed are ignored. */
typedef enum
{
  TRACE_PID,
  TRACE_TID,
  TRACE_ID,
  TRACE_TS,    /* ns, rounded from microseconds; an absurd TRACE_TS or TRACE_DUR counts as absent */
  TRACE_DUR,   /* ns */
  TRACE_CHUNK, /* of "args", as the next ones */
  TRACE_START_NS,
  TRACE_END_NS,
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
  PsJsonString text[TRACE_N_TEXTS]; /* "" if absent or not a text */
} PsTraceEvent;

/* One file of a trace. */
typedef struct
{
  const char *name; /* its name in messages */
  PsJsonReader json;
  PsJsonStream stream; /* of a packed file, whose events are in memory one at a time; else its unpacker is NULL */
  const char *events;  /* where the array of events begins; of a packed file only whether there is one */
  const char *other;   /* where the value of "otherData" begins; NULL: none */
  char *kept;          /* that value of a packed file */
  gint64 base_ns;      /* "baseTimeNanoseconds" of the file, added to its times; 0: none */
  gint64 rank;         /* "rank" of its "distributedInfo"; -1: none */
  gint64 n_ranks;      /* "world_size" of its "distributedInfo"; 0: none */
  PsTraceEvent event;
} PsTrace;

/* One event of phase X, with texts of that event. */
typedef struct
{
  gint64 pid;
  gint64 tid;
  gint64 start_ns;
  gint64 end_ns;
  const char *name;
  const char *category;
} PsTraceRange;

/* Finds the array of events: the whole text, or "traceEvents" of an object. The file must outlive the trace. Errors:
 * PS_ERROR_INPUT. Clear in any case. */
gboolean ps_trace_open (PsTrace *trace, const PsTraceFile *file, GError **error);
void ps_trace_clear (PsTrace *trace);

/* ps_trace_rewind goes back to the first event. ps_trace_next gives the next one, NULL after the last; it is valid
 * until the next call. An element that is no object counts as an event without members. */
void ps_trace_rewind (PsTrace *trace);
const PsTraceEvent *ps_trace_next (PsTrace *trace);

static inline const char *
ps_trace_text (const PsTraceEvent *event, PsTraceText text)
{
  return event->text[text].text;
}

/* FALSE: the event does not have the number. */
static inline gboolean
ps_trace_number (const PsTraceEvent *event, PsTraceNumber number, gint64 *value)
{
  *value = event->number[number];
  return (event->known & 1U << number) != 0;
}

/* Whether an event is a complete range. */
gboolean ps_trace_range (const PsTraceEvent *event, PsTraceRange *range);
