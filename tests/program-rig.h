/* program-rig.h - for tests that run pipesim's programs: a folder to run them in, their exit code, and what they print.
 */
#pragma once

#include "folder-rig.h"

#include <string.h>
#include <sys/wait.h>

/* For g_test_add: each test has a new folder. */
typedef struct {
  char *folder;
} InFolder;

static inline void make_folder (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  fixture->folder = g_dir_make_tmp ("pipesim-test-XXXXXX", NULL);
}

static inline void clear_folder (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  remove_folder (fixture->folder);
  g_free (fixture->folder);
}

static inline guint count_files (const char *folder)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  guint n = 0;

  while (g_dir_read_name (dir) != NULL)
    n++;
  return n;
}

/* How often part stands in text. */
static inline guint count (const char *text, const char *part)
{
  guint n = 0;

  for (const char *at = strstr (text, part); at != NULL; at = strstr (at + 1, part))
    n++;
  return n;
}

/* FALSE, and the test is skipped, where there is no such program. */
static inline gboolean have_program (const char *name)
{
  g_autofree char *path = g_find_program_in_path (name);

  if (path == NULL) {
    g_autofree char *reason = g_strdup_printf ("%s is not installed", name);

    g_test_skip (reason);
  }
  return path != NULL;
}

/* Runs argv in the folder and returns the exit code; printed and talk are what it wrote to standard output and error,
 * NULL where nobody wants to know. environment NULL: that of the test. */
static inline int run_argv (const char *folder, char **argv, char **environment, char **printed, char **talk)
{
  GSpawnFlags flags = printed != NULL ? G_SPAWN_SEARCH_PATH : G_SPAWN_SEARCH_PATH | G_SPAWN_STDOUT_TO_DEV_NULL;
  g_autoptr (GError) error = NULL;
  int status;

  /* The end also of tests that go on after a failed assertion: all that follows would fail. */
  if (!g_spawn_sync (folder, argv, environment, flags, NULL, NULL, printed, talk, &status, &error))
    g_error ("%s", error->message);
  g_assert_true (WIFEXITED (status));
  return WEXITSTATUS (status);
}

/* The same for one of pipesim's programs and the rest of its command line, quoted as for a shell. */
static inline int run_program (const char *folder, const char *program, const char *arguments, char **environment,
                               char **printed, char **talk)
{
  g_autofree char *path = g_build_filename (g_getenv ("PIPESIM_BINDIR"), program, NULL);
  g_autofree char *line = g_strconcat (path, " ", arguments, NULL);
  g_auto (GStrv) argv = NULL;

  fine (g_shell_parse_argv (line, NULL, &argv, &error));
  return run_argv (folder, argv, environment, printed, talk);
}

/* %P and %M stand for a predicted and a measured timeline, fixtures. Free with g_free. */
static inline char *with_timelines (const char *arguments)
{
  g_autofree char *predicted = g_test_build_filename (G_TEST_DIST, "fixtures", "timeline-predicted.json", NULL);
  g_autofree char *measured = g_test_build_filename (G_TEST_DIST, "fixtures", "timeline-measured.json", NULL);
  GString *line = g_string_new (arguments);

  g_string_replace (line, "%P", predicted, 0);
  g_string_replace (line, "%M", measured, 0);
  return g_string_free (line, FALSE);
}

/* A command line that must be refused: with that exit code, one line that begins with the program's name as users know
 * it ("pipesim plot") and goes on like `talk`, a pattern with * and ?, and no file more than before. */
static inline void check_refused (const char *folder, const char *program, const char *arguments, int code,
                                  const char *talk)
{
  g_autofree char *name = g_strdelimit (g_strdup (program), "-", ' '), *said = NULL;
  g_autofree char *wanted = g_strdup_printf ("%s: %s\n", name, talk);
  guint before = count_files (folder);

  g_assert_cmpint (run_program (folder, program, arguments, NULL, NULL, &said), ==, code);
  if (!g_pattern_match_simple (wanted, said))
    g_assert_cmpstr (said, ==, wanted);
  g_assert_cmpuint (count (said, "\n"), ==, 1);
  g_assert_cmpuint (count_files (folder), ==, before);
}

typedef struct {
  const char *arguments; /* as with_timelines takes them */
  int code;
  const char *talk;
} Refusal;

static inline void check_refusals (const char *folder, const char *program, const Refusal *refusals, gsize n)
{
  for (gsize i = 0; i < n; i++) {
    g_autofree char *line = with_timelines (refusals[i].arguments);

    check_refused (folder, program, line, refusals[i].code, refusals[i].talk);
  }
}
