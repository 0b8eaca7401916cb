/* progress.c - the line that says how far long work is. One line for the program: it has one standard error. */
#include "progress.h"

#include <pipesim/base.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define EVERY_US (G_USEC_PER_SEC / 5)
#define USUAL_COLUMNS 80
#define CLEAR_LINE "\r\033[K"

static gboolean allowed;
static atomic_bool shown;
static _Atomic gint64 next_us = G_MAXINT64; /* when a line is due */
static gint64 begin_us, limit_ns;

void ps_progress_end (void)
{
  if (atomic_exchange (&shown, FALSE))
    fputs (CLEAR_LINE, stderr);
}

void ps_progress_allow (gboolean allow)
{
  static gboolean wipes;
  const char *terminal = g_getenv ("TERM");

  allowed = allow && isatty (STDERR_FILENO) && terminal != NULL && !g_str_equal (terminal, "dumb");
  if (allowed && !wipes)
    wipes = atexit (ps_progress_end) == 0;
}

void ps_progress_begin (gint64 time_limit_ns)
{
  limit_ns = time_limit_ns;
  begin_us = g_get_monotonic_time ();
  next_us = allowed ? begin_us + EVERY_US : G_MAXINT64;
}

gboolean ps_progress_due (void)
{
  gint64 due_us = next_us;

  if (due_us == G_MAXINT64)
    return FALSE;
  gint64 now_us = g_get_monotonic_time ();
  return now_us >= due_us && atomic_compare_exchange_strong (&next_us, &due_us, now_us + EVERY_US);
}

/* ", 12 s left". */
static char *format_left (guint64 done, guint64 total)
{
  double seconds = (double)(g_get_monotonic_time () - begin_us) / G_USEC_PER_SEC;
  double left = limit_ns > 0                ? MAX ((double)limit_ns / 1e9 - seconds, 0)
                : done > 0 && done <= total ? seconds / (double)done * (double)(total - done)
                                            : -1;

  if (left < 0)
    return g_strdup ("");
  if (left < 100)
    return g_strdup_printf (", %.0f s left", left);
  return left < 6000 ? g_strdup_printf (", %.0f min left", left / 60) : g_strdup_printf (", %.1f h left", left / 3600);
}

void ps_progress_show (guint64 done, guint64 total, const char *units, const char *format, ...)
{
  struct winsize window = { 0 };
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_autofree char *left = format_left (done, total);
  g_autofree char *count = total > 0 && units != NULL
                               ? g_strdup_printf ("%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " %s%s", done, total,
                                                  units, *text ? ", " : "")
                               : g_strdup ("");
  g_autofree char *whole = g_strconcat (count, text, left, NULL), *line = g_utf8_make_valid (whole, -1);
  glong columns = ioctl (STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : USUAL_COLUMNS;
  *g_utf8_offset_to_pointer (line, MIN (columns - 1, g_utf8_strlen (line, -1))) = '\0';
  g_printerr ("%s", g_strdelimit (line, "\n\t", ' '));
  atomic_store (&shown, TRUE);
}
