/* calibration-plot.c - the picture of a profile. */
#include "calibration-plot.h"

#include "plots.h"

#include <pipesim/cluster.h>

#include <math.h>
#include <string.h>

/* In pixels. */
#define WIDTH 1000
#define MARGINS 74 /* above and below a panel, with its caption and its axis */
#define TOP 62     /* title, and where and how the profile was measured */
#define MESSAGES 330
#define ROW 15      /* of ops, at least */
#define MARK_STEP 8 /* from mark to mark in a row */

#define FIT_STEPS 160
#define MAX_LINES (PS_FIT_MAX_PIECES + 3) /* of the key for a group: name, alpha, pieces, quality */
#define SHIFT 1.05                        /* of one group's points against those of the next, so that both show */

/* Measurements with the same number of busy devices and of sharers of the accelerator, and the same caches. */
typedef struct {
  char *name;      /* "2 busy", "alone, cold" */
  GPtrArray *rows; /* of PsMeasurement, not owned, as the profile has them */
} Group;

static void group_free (gpointer data)
{
  Group *group = data;

  g_free (group->name);
  g_ptr_array_unref (group->rows);
  g_free (group);
}

static char *group_name (const PsMeasurement *m)
{
  GString *name = g_string_new (NULL);

  if (m->subject == PS_SUBJECT_SELF_SEND)
    g_string_append_printf (name, "%s, launching only", m->shape);
  else if (m->devices == 1)
    g_string_append (name, "alone");
  else
    g_string_append_printf (name, "%u busy", m->devices);
  if (m->subject == PS_SUBJECT_TRANSFER && *m->shape != '\0')
    g_string_append_printf (name, ", %s", m->shape);
  if (m->subject == PS_SUBJECT_ALL_REDUCE)
    g_string_append (name, ", all-reduce");
  if (m->sharing > 1)
    g_string_append_printf (name, ", %u sharing", m->sharing);
  if (m->share > 0)
    g_string_append_printf (name, ", share %u", m->share);
  if (m->subject == PS_SUBJECT_OP && m->cache != PS_CACHE_RUN)
    g_string_append_printf (name, ", %s", ps_cache_state_name (m->cache));
  return g_string_free (name, FALSE);
}

/* The groups of messages (ops: FALSE), or of ops. Pairs and the host's times are neither. */
static GPtrArray *find_groups (const PsProfileContents *contents, gboolean ops)
{
  const guint kinds = ops ? 1U << PS_SUBJECT_OP
                          : 1U << PS_SUBJECT_TRANSFER | 1U << PS_SUBJECT_SELF_SEND | 1U << PS_SUBJECT_ALL_REDUCE;
  GPtrArray *groups = g_ptr_array_new_with_free_func (group_free);

  for (guint i = 0, g; i < contents->measurements->len; i++) {
    PsMeasurement *m = contents->measurements->pdata[i];
    g_autofree char *name = group_name (m);

    if (!(kinds & 1U << m->subject))
      continue;
    for (g = 0; g < groups->len && !g_str_equal (((const Group *)groups->pdata[g])->name, name);)
      g++;
    if (g == groups->len) {
      Group *group = g_new0 (Group, 1);

      group->name = g_steal_pointer (&name);
      group->rows = g_ptr_array_new ();
      g_ptr_array_add (groups, group);
    }
    g_ptr_array_add (((Group *)groups->pdata[g])->rows, m);
  }
  return groups;
}

static double at_least_one (gint64 value)
{
  return (double)MAX (value, 1);
}

/* Appends a row of $messages or $ops. */
static void append_measurement (GString *block, double place, const PsMeasurement *m, guint mark, guint32 colour)
{
  g_string_append_printf (block, "%.9g %.9g %.9g %.9g %.9g %u %u\n", place, at_least_one (m->time.median_ns) / 1e9,
                          at_least_one (m->time.q1_ns) / 1e9, at_least_one (m->time.q3_ns) / 1e9,
                          at_least_one (m->time.min_ns) / 1e9, mark, colour);
}

/* The key of messages: the groups, and lines about the fit of each. */
typedef struct {
  GString *script;
  guint n;
} Key;

static void add_key (Key *key, const char *text, guint mark, guint32 colour)
{
  key->n++;
  ps_gnuplot_append_element (key->script, "key_text", key->n, text);
  g_string_append_printf (key->script, "key_mark[%u] = %u\nkey_colour[%u] = %u\n", key->n, mark, key->n, colour);
}

/* Appends the line fitted to a group's measurements to $fits, and its figures to the key. */
static void append_fit (GString *fits, Key *key, const Group *group)
{
  g_autofree gint64 *bytes = g_new (gint64, group->rows->len), *ns = g_new (gint64, group->rows->len);
  PsTransferFit fit;

  for (guint i = 0; i < group->rows->len; i++) {
    const PsMeasurement *m = group->rows->pdata[i];

    bytes[i] = m->bytes;
    ns[i] = MAX (m->time.median_ns, 1);
  }
  ps_transfer_fit (bytes, ns, group->rows->len, &fit);
  double from = at_least_one (bytes[0]), to = at_least_one (bytes[group->rows->len - 1]);
  for (guint i = 0; i <= FIT_STEPS; i++) {
    double size = from * pow (to / from, (double)i / FIT_STEPS);

    g_string_append_printf (fits, "%.9g %.9g\n", size, MAX (ps_transfer_fit_at (&fit, size), 1) / 1e9);
  }
  g_string_append (fits, "\n\n");
  g_autofree char *text = ps_transfer_fit_to_text (&fit);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    add_key (key, lines[i], 0, 0xffffff);
}

static void append_messages (GString *script, const GPtrArray *groups)
{
  g_autoptr (GString) fits = g_string_new ("$fits << EOD\n"), messages = g_string_new ("$messages << EOD\n");
  guint n_fits = 0;
  Key key = { script, 0 };

  ps_gnuplot_append_array (script, "key_text", groups->len * MAX_LINES);
  ps_gnuplot_append_array (script, "key_mark", groups->len * MAX_LINES);
  ps_gnuplot_append_array (script, "key_colour", groups->len * MAX_LINES);
  ps_gnuplot_append_array (script, "fit_colour", groups->len);
  for (guint g = 0; g < groups->len; g++) {
    const Group *group = groups->pdata[g];

    add_key (&key, group->name, ps_plot_series_mark (g), ps_plot_series_colour (g));
    for (guint i = 0; i < group->rows->len; i++) {
      const PsMeasurement *m = group->rows->pdata[i];

      append_measurement (messages, at_least_one (m->bytes) * pow (SHIFT, g), m, ps_plot_series_mark (g),
                          ps_plot_series_colour (g));
    }
    if (group->rows->len < 2)
      continue;
    append_fit (fits, &key, group);
    g_string_append_printf (script, "fit_colour[%u] = %u\n", ++n_fits, ps_plot_series_colour (g));
  }
  g_string_append_printf (script, "%sEOD\n%sEOD\nhas_messages = %d\nn_key = %u\nn_fits = %u\n", messages->str,
                          fits->str, groups->len > 0, key.n, n_fits);
}

/* An op of a shape, as it was measured in each of the groups. */
typedef struct {
  const PsMeasurement **group; /* [groups]; NULL: not measured */
  const PsMeasurement *any;
} Row;

static void row_free (gpointer data)
{
  g_free (((Row *)data)->group);
  g_free (data);
}

static int compare_rows (gconstpointer a, gconstpointer b)
{
  const PsMeasurement *x = (*(const Row *const *)a)->any, *y = (*(const Row *const *)b)->any;
  int order = strcmp (x->shape, y->shape);

  return order != 0 ? order : (int)x->kind - (int)y->kind;
}

/* By shape, then kind. */
static GPtrArray *collect_rows (const GPtrArray *groups)
{
  GPtrArray *rows = g_ptr_array_new_with_free_func (row_free);

  for (guint g = 0; g < groups->len; g++) {
    const GPtrArray *all = ((const Group *)groups->pdata[g])->rows;

    for (guint i = 0; i < all->len; i++) {
      const PsMeasurement *m = all->pdata[i];
      Row *row = NULL;

      for (guint k = 0; k < rows->len && row == NULL; k++) {
        const PsMeasurement *any = ((const Row *)rows->pdata[k])->any;

        row = any->kind == m->kind && g_str_equal (any->shape, m->shape) ? rows->pdata[k] : NULL;
      }
      if (row == NULL) {
        row = g_new0 (Row, 1);
        *row = (Row){ g_new0 (const PsMeasurement *, groups->len), m };
        g_ptr_array_add (rows, row);
      }
      row->group[g] = m;
    }
  }
  g_ptr_array_sort (rows, compare_rows);
  return rows;
}

/* "3 % n = 2": for each group the median absolute deviation over the median. Few samples say nothing about it. */
static char *deviations (const Row *row, guint n_groups)
{
  GString *text = g_string_new (NULL);

  for (guint g = 0; g < n_groups; g++) {
    const PsMeasurement *m = row->group[g];

    g_string_append (text, g ? "  " : "");
    if (m != NULL && m->time.n < PS_MEDIAN_MIN_SAMPLES)
      g_string_append_printf (text, "n = %u", m->time.n);
    else if (m != NULL)
      g_string_append_printf (text, "%.1f %%", 100.0 * (double)m->time.mad_ns / (double)MAX (m->time.median_ns, 1));
    else
      g_string_append_c (text, '-');
  }
  return g_string_free (text, FALSE);
}

/* In each row one group is below the other. */
static void append_ops (GString *script, const GPtrArray *rows, const GPtrArray *groups)
{
  g_string_append_printf (script, "n_rows = %u\nn_groups = %u\n", rows->len, groups->len);
  ps_gnuplot_append_array (script, "op_name", rows->len);
  ps_gnuplot_append_array (script, "op_spread", rows->len);
  ps_gnuplot_append_array (script, "group", groups->len);
  ps_gnuplot_append_array (script, "group_mark", groups->len);
  for (guint g = 0; g < groups->len; g++) {
    ps_gnuplot_append_element (script, "group", g + 1, ((const Group *)groups->pdata[g])->name);
    g_string_append_printf (script, "group_mark[%u] = %u\n", g + 1, ps_plot_series_mark (g));
  }
  for (guint i = 0; i < rows->len; i++) {
    const Row *row = rows->pdata[i];
    g_autofree char *name = g_strdup_printf ("%s of %s", ps_op_kind_name (row->any->kind), row->any->shape);
    g_autofree char *spread = deviations (row, groups->len);

    ps_gnuplot_append_tick (script, "op_name", i + 1, name);
    ps_gnuplot_append_tick (script, "op_spread", i + 1, spread);
  }
  g_string_append (script, "$ops << EOD\n");
  for (guint i = 0; i < rows->len; i++)
    for (guint g = 0; g < groups->len; g++) {
      const Row *row = rows->pdata[i];

      if (row->group[g] != NULL)
        append_measurement (script, i + 0.12 + 0.76 * (g + 0.5) / groups->len, row->group[g], ps_plot_series_mark (g),
                            ps_plot_op_colour (row->any->kind, 0, 1));
    }
  g_string_append (script, "EOD\n");
}

gboolean ps_calibration_plot (const PsPicture *picture, const char *where, const PsProfileContents *contents,
                              GError **error)
{
  const PsProfile *profile = contents->profile;
  gboolean known = *profile->host != '\0';
  g_autoptr (GPtrArray) messages = find_groups (contents, FALSE), ops = find_groups (contents, TRUE);
  g_autoptr (GPtrArray) rows = collect_rows (ops);
  g_autoptr (GString) script = g_string_new (NULL);
  g_autofree char *title = g_strdup_printf ("measured: profile '%s', %s over %s, %s", profile->name, profile->device,
                                            profile->transport, profile->model_name);
  g_autofree char *about = g_strdup_printf ("%s%s%s%sfrom %.10s on", profile->host, known ? ", " : "",
                                            profile->processor, known ? ", " : "", profile->created);
  guint row = picture->terminal ? PS_TERMINAL_ROW * ops->len : MAX (ROW, MARK_STEP * ops->len + 3);
  guint height = TOP + (messages->len > 0 ? MARGINS + MESSAGES : 0) + (rows->len > 0 ? MARGINS + row * rows->len : 0);
  PsPicture sized = *picture;

  if (messages->len + ops->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: profile '%s' holds no measurement", where, profile->name);
  ps_gnuplot_append_text (script, "about", about);
  ps_gnuplot_append_number (script, "ops_height", row * rows->len);
  append_messages (script, messages);
  append_ops (script, rows, ops);
  if (picture->terminal) /* as high as it needs to be */
    sized.height = height;
  return ps_gnuplot_draw (&sized, title, WIDTH, height, script->str, "calibration.gp", error);
}
