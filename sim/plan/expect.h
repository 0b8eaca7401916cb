/* expect.h - a file of predictions and how far each may move: predict --expect. */
#pragma once

#include <pipesim/setting.h>

#define PS_EXPECT_TOLERANCE 0.02 /* of rows that are new */

/* One schedule of one command line. A row is known by these, and by p, m and v. */
typedef struct {
  char *command; /* options of predict, as a shell reads them: "-s 1f1b -p 4 -m 8" */
  char *schedule;
  gint64 n_devices;
  gint64 n_microbatches;
  gint64 n_chunks;
  gint64 iteration_ns;
  gint64 peak_memory_bytes;
  char *fits;       /* ps_fits */
  double tolerance; /* time and memory may move by this part of what is expected, up and down; fits may not change */
} PsExpected;

/* A list of PsExpected. Free with g_ptr_array_unref. */
GPtrArray *ps_expected_new (void);

/* Adds a prediction of the command line, with PS_EXPECT_TOLERANCE. */
void ps_expected_add (GPtrArray *rows, const char *command, const PsPrediction *prediction);

/* The options of a command line that say what is predicted: without --expect, --update, --tolerance and --json. words
 * ends with NULL. Free with g_free. */
char *ps_expected_command (char *const *words);

/* Reads a text of ps_expected_to_json. Errors: PS_ERROR_INPUT "where: ...". */
GPtrArray *ps_expected_parse (const char *where, const char *text, gssize length,
                              GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The text that ps_expected_parse reads. Free with g_free. */
char *ps_expected_to_json (const GPtrArray *rows);

/* Puts rows of some command lines in the place of those that the file had, whose order and tolerances stay; new ones
 * come last. tolerance: of all these rows; below 0: as it is. rows is empty then. */
void ps_expected_update (GPtrArray *file, GPtrArray *rows, char *const *commands, double tolerance);

/* How many figures moved, beyond their tolerance and within. */
typedef struct {
  guint n_beyond, n_within;
} PsMoves;

/* What moved beyond its tolerance between the file's rows of these command lines and the rows predicted now; all: what
 * moved at all. moves is added to. tolerance: of all rows; below 0: each row's own. */
PsTable *ps_expected_compare (const GPtrArray *file, const GPtrArray *rows, char *const *commands, double tolerance,
                              gboolean all, PsMoves *moves);

/* The command lines of the rows, each once. Free with g_strfreev. */
char **ps_expected_commands (const GPtrArray *rows);

/* Whether the file has rows of one of these command lines. */
gboolean ps_expected_holds (const GPtrArray *file, char *const *commands);
