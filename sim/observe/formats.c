/* formats.c - the table of schedule formats, and the choice of the one that a file is in. */
#include "schedule/formats-private.h"

#define HEAD_BYTES (1 << 20) /* in which a trace says that it is one */

/* If two formats recognise a text, the first reads it. */
static const PsFormat *const formats[] = {
  &ps_format_native,        &ps_format_torch_comms, &ps_format_torch_comms_2_14,
  &ps_format_torch_compute, &ps_format_colossalai,  &ps_format_chrome_trace,
};

const PsFormat *const *ps_format_table (guint *n)
{
  *n = G_N_ELEMENTS (formats);
  return formats;
}

const PsFormat *ps_format_find (const char *name, GError **error)
{
  return ps_table_find ("--to", "format", name, formats, G_N_ELEMENTS (formats), error);
}

const PsFormat *ps_format_recognise (const char *where, const char *text, gsize length, GError **error)
{
  if (g_strstr_len (text, (gssize)MIN (length, HEAD_BYTES), "\"traceEvents\"") != NULL)
    return ps_refuse_null (error, PS_ERROR_INPUT,
                           "%s: is a trace, which has times and no schedule; diagnose, compare, plot and --costs-from "
                           "read it",
                           where);
  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    if (formats[i]->recognise != NULL && formats[i]->recognise (text, length))
      return formats[i];
  return ps_refuse_null (error, PS_ERROR_INPUT, "%s: %s", where,
                         ps_format_first (text, length) ? "is no schedule: neither JSON nor the CSV of PyTorch"
                                                        : "is empty");
}

PsSchedule *ps_format_read (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  if (!ps_read_file (path, &text, &length, error))
    return NULL;
  const PsFormat *format = ps_format_recognise (path, text, length, error);
  PsSchedule *schedule = format != NULL ? format->read (path, text, length, error) : NULL;
  if (schedule != NULL && schedule->origin == NULL)
    schedule->origin = g_strdup_printf ("read from %s (%s)", path, format->name);
  return schedule;
}
