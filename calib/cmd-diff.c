/* cmd-diff.c - pipesim calib diff: compares two profiles. */
#include "commands.h"

#include "statistics.h"

#include <math.h>

static const PsColumn columns[] = {
  { "what", "what", PS_COLUMN_TEXT },      { "a_ns", "median of A", PS_COLUMN_TIME },
  { "b_ns", "of B", PS_COLUMN_TIME },      { "change", "change", PS_COLUMN_PERCENT },
  { "noise", "noise", PS_COLUMN_PERCENT }, { "a_mhz", "MHz of A", PS_COLUMN_INTEGER },
  { "b_mhz", "of B", PS_COLUMN_INTEGER },  { "verdict", "verdict", PS_COLUMN_TEXT },
};

typedef struct {
  char *db;
  gboolean json;
  char **sides;
} Options;

static const PsOption rows[] = {
  PS_OPTION ("db", 0, PS_FILE (Options, db), "FILE", "A and B are profiles of this cost database",
             .otherwise = "none: they are files"),
  PS_OPTION ("json", 0, PS_FLAG (Options, json), NULL, "Print JSON (pipesim-profile-diff/1)", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("", 0, PS_FILES (Options, sides), "A B", NULL),
  PS_OPTION_END,
};

static const PsCommandHelp help = {
  .arguments = "A B",
  .summary = "Compares the medians of two profiles, files as calib export writes them. Two medians differ beyond noise "
             "if their notches do not overlap; a notch is 1.57 times the distance of the quartiles over the root of n. "
             "The noise is the sum of both notches. A median of fewer than 6 samples has no interval that holds with "
             "95 %, so it gets no verdict. 'As the clock': the medians would not differ beyond noise if the clock "
             "while A was measured had been B's.",
  .examples = "pipesim calib diff a.json b.json\n"
              "pipesim calib diff --db costs.db here quick\n"
              "pipesim calib diff --db costs.db here#1 here --json\n",
};

/* Loads FILE as calib export wrote it, or profile NAME of the database. */
static PsProfileContents *load_side (const Options *options, const char *side, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  if (options->db == NULL)
    return ps_read_file (side, &text, &length, error) ? ps_profile_contents_parse (side, text, length, error) : NULL;
  g_autoptr (PsCostDb) db = ps_costdb_open (options->db, PS_COSTDB_READ, error);
  return db != NULL ? ps_profile_contents_load (db, side, FALSE, error) : NULL;
}

static const char *verdict_of (const PsProfileChange *change)
{
  if (change->a == NULL)
    return "only in B";
  if (change->b == NULL)
    return "only in A";
  if (isnan (change->noise_ns))
    return "too few samples";
  if (!change->beyond_noise)
    return "noise";
  gboolean slower = change->b->time.median_ns > change->a->time.median_ns;
  if (change->by_clock)
    return slower ? "slower, as the clock" : "faster, as the clock";
  return slower ? "slower" : "faster";
}

static void set_side (PsTable *table, const char *time, const char *clock, const PsMeasurement *m)
{
  if (m != NULL)
    ps_table_set_integer (table, time, m->time.median_ns);
  if (m != NULL && ps_measurement_clock_mhz (m) > 0)
    ps_table_set_integer (table, clock, ps_measurement_clock_mhz (m));
}

static void add_row (PsTable *table, const PsProfileChange *change)
{
  g_autofree char *what = ps_calib_describe (change->a != NULL ? change->a : change->b);

  ps_table_add_row (table);
  ps_table_set_text (table, "what", what);
  set_side (table, "a_ns", "a_mhz", change->a);
  set_side (table, "b_ns", "b_mhz", change->b);
  ps_table_set_ratio (table, "change", change->change);
  if (!isnan (change->change))
    ps_table_set_ratio (table, "noise", change->noise_ns / (double)change->a->time.median_ns);
  ps_table_set_text (table, "verdict", verdict_of (change));
}

/* "34 in both, median distance 0.6 %, largest 4.1 %; 3 beyond noise; 0 in one only; 0 of too few samples" */
static char *summarise (const GArray *changes)
{
  g_autofree double *distances = g_new (double, changes->len);
  guint n = 0, n_clock = 0, n_beyond = 0, n_alone = 0, n_few = 0;

  for (guint i = 0; i < changes->len; i++) {
    const PsProfileChange *change = &g_array_index (changes, PsProfileChange, i);

    n_alone += change->a == NULL || change->b == NULL;
    n_beyond += change->beyond_noise;
    n_clock += change->by_clock;
    n_few += change->a != NULL && change->b != NULL && isnan (change->noise_ns);
    if (!isnan (change->change))
      distances[n++] = 100 * fabs (change->change);
  }
  g_autofree char *by_clock = n_clock > 0 ? g_strdup_printf (", %u of them as the clock", n_clock) : g_strdup ("");
  qsort (distances, n, sizeof *distances, ps_compare_double);
  return g_strdup_printf ("%u in both, median distance %.2f %%, largest %.2f %%; %u beyond noise%s; %u in one only; %u "
                          "of too few samples\n",
                          n, n > 0 ? distances[(n - 1) / 2] : 0, n > 0 ? distances[n - 1] : 0, n_beyond, by_clock,
                          n_alone, n_few);
}

/* "here, BLAS 1, 2026-01-01T00:00:00Z"; an imported profile knows its source instead of the libraries. */
static char *describe (const PsProfile *profile)
{
  gboolean imported = *profile->source != '\0';

  return g_strdup_printf ("%s, %s%s, %s", profile->name, imported ? "imported from " : "",
                          imported ? profile->source : profile->libraries, profile->created);
}

static char *to_text (const PsProfileContents *a, const PsProfileContents *b, const PsTable *table,
                      const GArray *changes)
{
  g_autofree char *rows = ps_table_to_text (table);
  g_autofree char *summary = summarise (changes);
  g_autofree char *of_a = describe (a->profile), *of_b = describe (b->profile);

  return g_strdup_printf ("A: %s\nB: %s\n\n%s\n%s", of_a, of_b, rows, summary);
}

static gboolean diff (gpointer base, PsProcesses *processes, GError **error)
{
  const Options *options = base;
  guint n = options->sides != NULL ? g_strv_length (options->sides) : 0;

  if (n != 2)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "two profiles are compared, %u given: files from calib export, or names "
                      "with --db",
                      n);
  g_autoptr (PsProfileContents) a = load_side (options, options->sides[0], error);
  g_autoptr (PsProfileContents) b = a != NULL ? load_side (options, options->sides[1], error) : NULL;

  if (b == NULL)
    return FALSE;
  g_autoptr (GArray) changes = ps_profile_diff (a, b);
  g_autoptr (PsTable) table = ps_table_new (columns, G_N_ELEMENTS (columns));
  for (guint i = 0; i < changes->len; i++)
    add_row (table, &g_array_index (changes, PsProfileChange, i));
  const char *const extra[] = { "a", options->sides[0], "b", options->sides[1], NULL };
  g_autofree char *text
      = options->json ? ps_table_to_json (table, "pipesim-profile-diff/1", extra) : to_text (a, b, table, changes);
  return ps_print (text, error);
}

const PsCalibCommand ps_calib_diff
    = { "diff", "compare two profiles, median by median", &help, rows, sizeof (Options), diff, FALSE };
