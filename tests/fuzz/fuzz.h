/* fuzz.h - what all fuzz targets share. Each defines LLVMFuzzerTestOneInput: libFuzzer calls it (./run fuzz), and so
 * does main.c with the corpus and mutations of it. */
#pragma once

#include <pipesim/formats.h>
#include <pipesim/observe.h>

#include <stddef.h>
#include <glib/gstdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

/* Input as a text that ends with NUL, and free of others. Free with g_free. */
static inline char *fuzz_text (const uint8_t *data, size_t size)
{
  char *text = g_strndup ((const char *)data, size);

  return text;
}

/* Every failure must set an error of one line, in a domain of ours; nothing may fail twice. */
static inline void fuzz_check_error (gboolean ok, GError **error)
{
  g_assert_true (ok == (*error == NULL));
  if (*error != NULL) {
    g_assert_true ((*error)->domain == PS_ERROR);
    g_assert_cmpuint (strlen ((*error)->message), >, 0);
  }
  g_clear_error (error);
}

/* Takes a timeline that is checked through what follows: samples of its ops and messages, and its schedule. */
static inline void fuzz_observe (PsTimeline *timeline)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) timelines = g_ptr_array_new ();
  g_autoptr (PsObserved) observed = ps_observed_new ();

  if ((gsize)timeline->n_stages * timeline->n_microbatches > 1 << 16)
    return;
  g_ptr_array_add (timelines, timeline);
  g_assert_true (ps_observed_add (observed, "fuzz", timelines, NULL));
  g_autoptr (PsSchedule) schedule = ps_timeline_schedule (timeline, &error);
  fuzz_check_error (schedule != NULL, &error);
}

/* A timeline of a trace must be a native one, too: its ops do not overlap, and no time is absurd. */
static inline void fuzz_check_timeline (const PsTimeline *timeline)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *json = ps_timeline_to_json (timeline);
  g_autoptr (PsTimeline) again = ps_timeline_parse_json ("again", json, -1, &error);
  g_auto (PsMetrics) metrics = { 0 };

  g_assert_no_error (error);
  ps_metrics_from_timeline (again, &metrics);
  fuzz_observe (again);
}

static inline char *fuzz_path (void)
{
  return g_strdup_printf ("%s/pipesim-fuzz-%d", g_get_tmp_dir (), (int)getpid ());
}

static inline void fuzz_file_remove (void)
{
  g_autofree char *path = fuzz_path ();

  g_unlink (path);
}

/* Writes input into a file of this process, for readers that want a path. */
static inline const char *fuzz_file (const uint8_t *data, size_t size)
{
  static char *path;

  if (path == NULL) {
    path = fuzz_path ();
    atexit (fuzz_file_remove);
  }
  g_assert_true (
      g_file_set_contents_full (path, (const char *)data, (gssize)size, G_FILE_SET_CONTENTS_NONE, 0600, NULL));
  return path;
}

/* Whether tables for all its ops stay small enough to go on with a schedule. */
static inline gboolean fuzz_is_small (const PsSchedule *schedule)
{
  return (gsize)schedule->placement->n_stages * schedule->n_microbatches * schedule->n_slices <= 1 << 16
         && schedule->placement->n_devices <= 256;
}

/* Takes a schedule through everything that follows reading, and through this format and back. */
static inline void fuzz_schedule (PsSchedule *schedule, const PsFormat *format)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSchedule) again = NULL;
  g_autofree char *text = NULL, *text_again = NULL;

  if (!fuzz_is_small (schedule) || !ps_schedule_validate (schedule, NULL))
    return;
  text = format->write (schedule, &error);
  fuzz_check_error (text != NULL, &error);
  if (text != NULL) {
    again = format->read ("again", text, strlen (text), &error);
    g_assert_no_error (error);
    text_again = format->write (again, &error);
    g_assert_cmpstr (text, ==, text_again);
  }
  g_ptr_array_unref (ps_torch_lint (schedule, NULL));
  g_autoptr (PsProgram) program = ps_program_lower (ps_schedule_copy (schedule), PS_COMM_ASAP, &error);
  fuzz_check_error (program != NULL, &error);
}

/* One input for a reader of schedules. */
static inline void fuzz_format (const char *name, const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  const PsFormat *format = ps_format_find (name, NULL);
  g_autofree char *text = fuzz_text (data, size);
  g_autoptr (PsSchedule) schedule = format->read ("fuzz", text, strlen (text), &error);

  fuzz_check_error (schedule != NULL, &error);
  if (schedule != NULL)
    fuzz_schedule (schedule, format);
}
