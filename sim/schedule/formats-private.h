/* formats-private.h - parts shared by the formats and their table in formats.c. Private to libpipesim. */
#pragma once

#include <pipesim/formats.h>

extern const PsFormat ps_format_native;
extern const PsFormat ps_format_torch_compute;
extern const PsFormat ps_format_torch_comms;
extern const PsFormat ps_format_torch_comms_2_14;
extern const PsFormat ps_format_colossalai;
extern const PsFormat ps_format_chrome_trace;

/* First character that is not white space; '\0' if there is none. */
static inline char ps_format_first (const char *text, gsize length)
{
  for (gsize i = 0; i < length; i++)
    if (!g_ascii_isspace (text[i]))
      return text[i];
  return '\0';
}
