/* cmd-show.c - pipesim calib show: prints a whole profile. */
#include "commands.h"

#include "links.h"
#include "provenance.h"
#include "statistics.h"

#include <pipesim/cluster.h>

#include <math.h>
#include <string.h>

typedef struct {
  char *db;
  char *profile;
  PsColumnChoice columns;
} Options;

static const PsOption rows[] = {
  PS_OPTION ("db", 0, PS_FILE (Options, db), "FILE", "Cost database", .otherwise = ""),
  PS_OPTION ("profile", 0, PS_TEXT (Options, profile), "NAME", "Profile to show", .otherwise = "the only one"),
  PS_OPTION_TABLE (Options, columns, "pipesim-measurements/1"),
  PS_OPTION_END,
};

static const PsCommandHelp help = {
  .summary = "Shows the measurements of a profile.",
  .examples = "pipesim calib show --db costs.db --profile here#1\n"
              "pipesim calib show --db costs.db --profile here\n"
              "pipesim calib show --db costs.db --profile here --json\n",
};

/* Names and facts of the database may hold anything. */
static void G_GNUC_PRINTF (2, 3) append_line (GString *text, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *raw = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_autofree char *line = ps_format_line (raw), *fitted = ps_fit_sentence (line, 120);
  g_string_append (text, fitted);
}

/* "sentinel F of layers=1: 9 readings, moved by 0.8 % at most around these measurements" */
static void append_sentinels (GString *text, GPtrArray *sentinels, GPtrArray *measurements)
{
  if (sentinels->len == 0)
    return;
  const PsSentinel *first = sentinels->pdata[0];
  double shift = ps_sentinel_shifts (sentinels, measurements, NULL);
  if (isnan (shift))
    append_line (text, "sentinel %s: %u readings, all of too few samples to say whether it moved", first->what,
                 sentinels->len);
  else
    append_line (text, "sentinel %s: %u readings, moved by %.1f %% at most around these measurements", first->what,
                 sentinels->len, 100 * shift);
}

/* Appends "busy, 3 of 20 ops differ from those alone beyond noise, 2 of them as the clock", if clocks are known. */
static void append_clocks (GString *text, GPtrArray *measurements)
{
  guint n = 0, n_beyond = 0, n_clock = 0;

  for (guint i = 0; i < measurements->len; i++) {
    const PsMeasurement *busy = measurements->pdata[i];
    PsMeasurement key = *busy;

    key.devices = 1;
    const PsMeasurement *alone = busy->devices > 1 ? ps_measurement_find (measurements, &key) : NULL;
    if (busy->subject != PS_SUBJECT_OP || alone == NULL || ps_measurement_clock_mhz (alone) == 0
        || ps_measurement_clock_mhz (busy) == 0)
      continue;
    PsProfileChange change = ps_measurement_compare (alone, busy);
    n++;
    n_beyond += change.beyond_noise;
    n_clock += change.by_clock;
  }
  if (n > 0)
    append_line (text, "busy, %u of %u ops differ from those alone beyond noise, %u of them as the clock", n_beyond, n,
                 n_clock);
}

/* Returns the number in a shape that ends in ",blocks=8"; -1: nothing held multiprocessors. */
static gint64 blocks_of (const PsMeasurement *m)
{
  const char *found = m->subject == PS_SUBJECT_OP ? strstr (m->shape, ",blocks=") : NULL;

  return found != NULL ? g_ascii_strtoll (found + strlen (",blocks="), NULL, 10) : -1;
}

/* Appends "ops take 1.07 times as long while 8 multiprocessors are held (--overlap-slowdown 1.07 --overlap-waiting)",
 * for each number in ascending order: of all ops that were measured both so and with none held. */
static void append_blocks (GString *text, GPtrArray *measurements)
{
  for (gint64 n = 0, next = 0; next < G_MAXINT64; n = next) {
    gint64 held_ns = 0, alone_ns = 0;

    next = G_MAXINT64;
    for (guint i = 0; i < measurements->len; i++)
      for (guint k = 0; k < measurements->len; k++) {
        const PsMeasurement *alone = measurements->pdata[i], *held = measurements->pdata[k];

        if (blocks_of (held) > n)
          next = MIN (next, blocks_of (held));
        if (n == 0 || blocks_of (alone) != 0 || blocks_of (held) != n || alone->kind != held->kind
            || alone->cache != held->cache
            || strncmp (alone->shape, held->shape, strlen (alone->shape) - strlen ("0")) != 0)
          continue;
        alone_ns += alone->time.median_ns;
        held_ns += held->time.median_ns;
      }
    double slowdown = alone_ns > 0 ? (double)held_ns / (double)alone_ns : 0;
    if (alone_ns > 0)
      append_line (text,
                   "ops take %.2f times as long while %" G_GINT64_FORMAT " multiprocessors are held"
                   " (--overlap-slowdown %.2f --overlap-waiting)",
                   slowdown, n, MAX (slowdown, 1));
  }
}

/* TRUE if two messages went the same way; their sizes may differ. */
static gboolean is_alike (const PsMeasurement *a, const PsMeasurement *b)
{
  return a->subject == b->subject && g_str_equal (a->shape, b->shape) && a->devices == b->devices
         && a->sharing == b->sharing;
}

/* Collects the messages that went the same way as `first`, by size. Collects none unless `first` is the first of
 * them. */
static void collect_sizes (GPtrArray *measurements, const PsMeasurement *first, GArray *bytes, GArray *ns)
{
  for (guint i = 0; i < measurements->len; i++) {
    const PsMeasurement *m = measurements->pdata[i];
    gint64 time = MAX (m->time.median_ns, 1);

    if (m->subject == PS_SUBJECT_OP || !is_alike (m, first))
      continue;
    if (bytes->len == 0 && m != first)
      return;
    g_array_append_val (bytes, m->bytes);
    g_array_append_val (ns, time);
  }
}

/* "fit of transfers, 2 busy, 1 sharing: alpha 12 us, 0.125 ns/B (8 GB/s), R² 0.98, within 4.0 % of the medians" */
static void append_fits (GString *text, GPtrArray *measurements)
{
  for (guint i = 0; i < measurements->len; i++) {
    const PsMeasurement *m = measurements->pdata[i];
    g_autoptr (GArray) bytes = g_array_new (FALSE, FALSE, sizeof (gint64));
    g_autoptr (GArray) ns = g_array_new (FALSE, FALSE, sizeof (gint64));

    collect_sizes (measurements, m, bytes, ns);
    if (bytes->len < 2)
      continue;
    PsTransferFit fit;
    ps_transfer_fit ((gint64 *)(gpointer)bytes->data, (gint64 *)(gpointer)ns->data, bytes->len, &fit);
    g_autofree char *fitted = ps_transfer_fit_to_text (&fit);
    g_autoptr (GString) line = g_string_new (fitted);
    g_string_replace (line, "\n", ", ", 0);
    append_line (text, "fit of %s%s%s, %u busy, %u sharing: %s of the medians",
                 m->subject == PS_SUBJECT_TRANSFER ? "transfers" : ps_subject_name (m->subject), *m->shape ? " " : "",
                 m->shape, m->devices, m->sharing, line->str);
    if (bytes->len > 2)
      append_line (
          text, "  a size left out and interpolated between its neighbours is off by %.1f %%, the median over sizes",
          100 * ps_interpolation_error ((gint64 *)(gpointer)bytes->data, (gint64 *)(gpointer)ns->data, bytes->len));
  }
}

static char *to_text (const PsProfileContents *contents, PsTable *table)
{
  const PsProfile *profile = contents->profile;
  GPtrArray *measurements = contents->measurements;
  g_autofree char *rows = ps_table_to_text (table);
  GString *text = g_string_new (NULL);

  if (*profile->source)
    append_line (text, "profile '%s': imported %s from %s%s%s", profile->name, profile->created, profile->source,
                 *profile->model_name ? "; model " : "; stages without a model", profile->model_name);
  else {
    append_line (text, "profile '%s': %s%s%s over %s, model %s, measured by pipesim %s from %s", profile->name,
                 profile->device, *profile->shares ? " with shares " : "", profile->shares, profile->transport,
                 profile->model_name, profile->version, profile->created);
    append_line (text, "host %s, %s, %s, %s", profile->host, profile->processor, profile->kernel, profile->libraries);
  }
  append_sentinels (text, contents->sentinels, measurements);
  append_clocks (text, measurements);
  append_blocks (text, measurements);
  g_string_append_printf (text, "\n%s", rows);
  append_fits (text, measurements);
  g_autofree char *shapes = ps_shape_error_to_text (measurements);
  if (*shapes)
    append_line (text, "%s", shapes);
  g_autofree char *links = ps_calib_links_to_text (profile->places, measurements);
  g_string_append (text, links);
  return g_string_free (text, FALSE);
}

static char *to_json (const PsProfileContents *contents, PsTable *table)
{
  const PsProfile *profile = contents->profile;
  guint n;
  double shape_error = ps_shape_error (contents->measurements, &n);
  g_autofree char *shapes = n > 0 ? g_strdup_printf ("%.6f", shape_error) : g_strdup ("null");
  g_autofree char *links = ps_calib_links_to_json (profile->places, contents->measurements);
  const char *extra[2 * PS_N_PROFILE_TEXTS + 1] = { NULL };
  const char *const values[] = { "shape_error", shapes, "links", links, NULL };

  for (guint i = 0; i < PS_N_PROFILE_TEXTS; i++) {
    extra[2 * i] = ps_profile_texts[i].key;
    extra[2 * i + 1] = G_STRUCT_MEMBER (char *, profile, ps_profile_texts[i].offset);
  }
  return ps_table_to_json_with (table, "pipesim-measurements/1", extra, values);
}

static gboolean show (gpointer base, PsProcesses *processes, GError **error)
{
  const Options *options = base;
  g_autoptr (PsCostDb) db = ps_costdb_open (options->db, PS_COSTDB_READ, error);
  g_autoptr (PsProfileContents) contents
      = db != NULL ? ps_profile_contents_load (db, options->profile, FALSE, error) : NULL;

  if (contents == NULL)
    return FALSE;
  g_autoptr (PsTable) table = ps_calib_table (contents->measurements);
  if (!ps_calib_table_choose (table, &options->columns, error))
    return FALSE;
  g_autofree char *text = options->columns.json ? to_json (contents, table) : to_text (contents, table);
  return ps_print (text, error);
}

const PsCalibCommand ps_calib_show
    = { "show", "show the measurements of a profile", &help, rows, sizeof (Options), show, FALSE };
