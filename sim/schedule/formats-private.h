/* formats-private.h - parts shared by the formats and their table in formats.c. Private to sim/observe and
 * sim/observe. */
#pragma once

#include <pipesim/formats.h>

extern const PsFormat ps_format_native;
extern const PsFormat ps_format_torch_compute;
extern const PsFormat ps_format_torch_comms;
extern const PsFormat ps_format_torch_comms_2_14;
extern const PsFormat ps_format_colossalai;
extern const PsFormat ps_format_chrome_trace;

/* Of each list of times that Megatron-LM's timers log. */
#define PS_TIMERS_HEADING " across ranks (ms):"
#define PS_OLD_TIMERS_HEADING "time (ms) |" /* until 2022; one line with the timers of one rank */

/* As ps_timelines_load; but where path is a log of these timers, *log is its text, and NULL is returned. */
GPtrArray *ps_timelines_load_or_log (const char *path, GBytes **log, GError **error);

/* First character that is not white space; '\0' if there is none. */
static inline char
ps_format_first (const char *text, gsize length)
{
  for (gsize i = 0; i < length; i++)
    if (!g_ascii_isspace (text[i]))
      return text[i];
  return '\0';
}
