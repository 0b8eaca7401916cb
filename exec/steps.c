/* steps.c - rows on standard output, and lines in a file of losses. */
#include "steps.h"

#include "device/data.h"

#include <pipesim/option.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The length of the old lines that belong to steps up to n_done. */
static gsize
old_lines (const char *text, guint n_done)
{
  const char *end = text + strlen (PS_LOSSES_HEAD);

  for (const char *next = strchr (end, '\n'); next != NULL && strtoul (end, NULL, 10) <= n_done;
       next = strchr (end, '\n'))
    end = next + 1;
  return (gsize)(end - text);
}

/* The lines that a new file of losses begins with. */
static char *
first_lines (const char *path, guint n_done, GError **error)
{
  g_autofree char *text = NULL;

  if (n_done == 0 || !g_file_test (path, G_FILE_TEST_EXISTS))
    return g_strdup (PS_LOSSES_HEAD);
  if (!ps_read_file (path, &text, NULL, error))
    return NULL;
  if (g_str_has_prefix (text, PS_LOSSES_HEAD))
    return g_strndup (text, old_lines (text, n_done));
  return ps_refuse_null (error, PS_ERROR_INPUT, "--losses: %s: does not begin with '%.*s'", path,
                         (int)strlen (PS_LOSSES_HEAD) - 1, PS_LOSSES_HEAD);
}

gboolean
ps_step_log_open (PsStepLog *log, const char *path, guint n_done, GError **error)
{
  g_autofree char *head = path != NULL ? first_lines (path, n_done, error) : NULL;

  log->losses = -1;
  if (path == NULL)
    return TRUE;
  if (head == NULL || !ps_write_file (path, head, -1, error))
    return FALSE;
  log->losses = open (path, O_WRONLY | O_APPEND | O_CLOEXEC);
  return log->losses >= 0 || ps_refuse (error, PS_ERROR_IO, "--losses: %s: %s", path, g_strerror (errno));
}

/* One write for each line, so that a run that is killed leaves whole lines. */
static gboolean
write_line (PsStepLog *log, const PsStepReport *step)
{
  char loss[G_ASCII_DTOSTR_BUF_SIZE], rate[G_ASCII_DTOSTR_BUF_SIZE];
  g_autofree char *line = g_strdup_printf (
      "%u,%s,%s,%" G_GINT64_FORMAT "\n", step->number, g_ascii_dtostr (loss, sizeof loss, step->loss),
      g_ascii_dtostr (rate, sizeof rate, ps_data_rate (log->training, step->number - 1)), step->iteration_ns);
  const gsize n = strlen (line);

  if (log->losses < 0 || write (log->losses, line, n) == (gssize)n)
    return TRUE;
  return ps_refuse (&log->failure, PS_ERROR_IO, "--losses: %s", g_strerror (errno));
}

static gboolean
print_row (PsStepLog *log, const PsStepReport *step)
{
  g_autofree char *time = ps_format_time (step->iteration_ns);
  g_autofree char *loss = isnan (step->loss) ? g_strdup ("-") : g_strdup_printf ("%.5f", step->loss);
  g_autofree char *row = g_strdup_printf ("%4u  %9s  %9s\n", step->number, time, loss);
  g_autofree char *text
      = log->n_printed++ > 0 ? NULL : g_strconcat (log->title, "\n\nstep  iteration  mean loss\n", row, NULL);

  return ps_print (text != NULL ? text : row, &log->failure);
}

gboolean
ps_step_log_add (PsStepLog *log, const PsStepReport *step)
{
  if (log->failure != NULL)
    return FALSE;
  if (log->counted > 0)
    g_printerr (PS_CLEAR_LINE "step %u of %u", step->number, log->counted);
  if (log->counted > 0 && step->number == log->counted)
    g_printerr (PS_CLEAR_LINE);
  return write_line (log, step) && (!log->rows || print_row (log, step));
}

void
ps_step_log_close (PsStepLog *log)
{
  if (log->losses >= 0)
    close (log->losses);
  log->losses = -1;
  g_clear_error (&log->failure);
}
