/* trace-rig.h - traces as text, their timelines, and what spans have to be. */
#pragma once

#include "error-rig.h"

#include <pipesim/formats.h>

#include <string.h>

static inline GPtrArray *
parse_all (const char *where, const char *const *names, const char *const *texts, guint n, GError **error)
{
  g_autofree PsTraceFile *files = g_new (PsTraceFile, n);

  for (guint i = 0; i < n; i++)
    files[i] = (PsTraceFile){ .name = names[i], .text = texts[i], .length = strlen (texts[i]) };
  return ps_timelines_parse (where, files, n, error);
}

static inline PsTimeline *
parse (const char *where, const char *const *names, const char *const *texts, guint n, GError **error)
{
  GPtrArray *timelines = parse_all (where, names, texts, n, error);

  return timelines != NULL ? ps_timelines_median (timelines) : NULL;
}

static inline PsTimeline *
parse_one (const char *text, GError **error)
{
  const char *name = "trace.json";

  return parse (name, &name, &text, 1, error);
}

static inline void
assert_span (const PsTimeline *timeline, guint i, guint device, const char *op, gint64 start_ns, gint64 end_ns)
{
  const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);
  char name[48];

  g_assert_cmpuint (span->device, ==, device);
  g_assert_cmpstr (ps_op_format (span->op, name), ==, op);
  g_assert_cmpint (span->start_ns, ==, start_ns);
  g_assert_cmpint (span->end_ns, ==, end_ns);
}

#define RANGE(cat, name, pid, tid, ts, dur)                                                                            \
  "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":" #pid ",\"tid\":" #tid ",\"ts\":" #ts              \
  ",\"dur\":" #dur "}"
