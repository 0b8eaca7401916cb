/* formats-private.h - parts shared by the formats and their table in formats.c. Private to libpipesim. */
#pragma once

#include <pipesim/formats.h>

extern const PsFormat ps_format_native;
extern const PsFormat ps_format_torch_compute;
extern const PsFormat ps_format_torch_comms;
extern const PsFormat ps_format_torch_comms_2_14;
extern const PsFormat ps_format_colossalai;
extern const PsFormat ps_format_chrome_trace;

/* What ps_schedule_validate finds wrong with ops; NULL: nothing. *op is the place of the op on *device, from 0;
 * G_MAXUINT: an op is missing there. Free with g_free. */
char *ps_schedule_find_fault (const PsSchedule *schedule, guint *device, guint *op);

/* First character that is not white space; '\0' if there is none. */
static inline char ps_format_first (const char *text, gsize length)
{
  for (gsize i = 0; i < length; i++)
    if (!g_ascii_isspace (text[i]))
      return text[i];
  return '\0';
}
