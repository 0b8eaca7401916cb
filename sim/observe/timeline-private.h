/* timeline-private.h - functions that the readers of timelines share. Private to libpipesim. */
#pragma once

#include <pipesim/timeline.h>

/* Spans by op and device; of two spans of one op on one device the later counts. Spans must stay as they are. Free with
 * g_hash_table_unref. */
GHashTable *ps_spans_index (const GArray *spans);

/* NULL: there is none. Whether an op is one of a pair does not count. */
const PsSpan *ps_spans_find (GHashTable *index, PsOp op, guint device);

/* The heading of each list of times that Megatron-LM's timers log. */
#define PS_TIMERS_HEADING " across ranks (ms):"
#define PS_OLD_TIMERS_HEADING "time (ms) |" /* until 2022; one line with the timers of one rank */

/* As ps_timelines_load; but where path is a log of these timers, *log is its text, and NULL is returned; and ranks may
 * have been recorded apart. */
GPtrArray *ps_timelines_load_or_log (const char *path, GBytes **log, GError **error);
