/* native.c - our own schedule file as a format. */
#include "formats-private.h"

static gboolean
recognise (const char *text, gsize length)
{
  return ps_format_first (text, length) == '{';
}

static PsSchedule *
read_native (const char *where, const char *text, gsize length, GError **error)
{
  return ps_schedule_parse_json (where, text, (gssize)length, error);
}

static char *
write_native (const PsSchedule *schedule, G_GNUC_UNUSED GError **error)
{
  return ps_schedule_to_json (schedule);
}

const PsFormat ps_format_native = {
  .name = "native",
  .description = "pipesim's own JSON, which holds everything",
  .recognise = recognise,
  .read = read_native,
  .write = write_native,
};
