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

/* "2 busy", "alone, cold". Free with g_free. */
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

/* The groups of messages (ops: FALSE), or of ops, each a GPtrArray of the PsMeasurement with one name, as the profile
 * has them. Pairs and the host's times are neither. */
static GPtrArray *find_groups (const PsProfileContents *contents, gboolean ops)
{
  const guint kinds = ops ? 1U << PS_SUBJECT_OP
                          : 1U << PS_SUBJECT_TRANSFER | 1U << PS_SUBJECT_SELF_SEND | 1U << PS_SUBJECT_ALL_REDUCE;
  GPtrArray *groups = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0, g; i < contents->measurements->len; i++) {
    PsMeasurement *m = contents->measurements->pdata[i];
    g_autofree char *name = group_name (m);

    if (!(kinds & 1U << m->subject))
      continue;
    if (!g_ptr_array_find_with_equal_func (names, name, g_str_equal, &g)) {
      g = groups->len;
      g_ptr_array_add (names, g_steal_pointer (&name));
      g_ptr_array_add (groups, g_ptr_array_new ());
    }
    g_ptr_array_add (groups->pdata[g], m);
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
static void append_fit (GString *fits, Key *key, const GPtrArray *group)
{
  g_autofree gint64 *bytes = g_new (gint64, group->len), *ns = g_new (gint64, group->len);
  PsTransferFit fit;

  for (guint i = 0; i < group->len; i++) {
    const PsMeasurement *m = group->pdata[i];

    bytes[i] = m->bytes;
    ns[i] = MAX (m->time.median_ns, 1);
  }
  ps_transfer_fit (bytes, ns, group->len, &fit);
  double from = at_least_one (bytes[0]), to = at_least_one (bytes[group->len - 1]);
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
    const GPtrArray *group = groups->pdata[g];
    g_autofree char *name = group_name (group->pdata[0]);

    add_key (&key, name, ps_plot_series_mark (g), ps_plot_series_colour (g));
    for (guint i = 0; i < group->len; i++) {
      const PsMeasurement *m = group->pdata[i];

      append_measurement (messages, at_least_one (m->bytes) * pow (SHIFT, g), m, ps_plot_series_mark (g),
                          ps_plot_series_colour (g));
    }
    if (group->len < 2)
      continue;
    append_fit (fits, &key, group);
    g_string_append_printf (script, "fit_colour[%u] = %u\n", ++n_fits, ps_plot_series_colour (g));
  }
  g_string_append_printf (script, "%sEOD\n%sEOD\nhas_messages = %d\nn_key = %u\nn_fits = %u\n", messages->str,
                          fits->str, groups->len > 0, key.n, n_fits);
}

/* The measurement of the same op of the same shape; NULL: there is none. */
static const PsMeasurement *find_op (const GPtrArray *group, const PsMeasurement *op)
{
  for (guint i = 0; i < group->len; i++) {
    const PsMeasurement *m = group->pdata[i];

    if (m->kind == op->kind && g_str_equal (m->shape, op->shape))
      return m;
  }
  return NULL;
}

static int compare_rows (gconstpointer a, gconstpointer b)
{
  const PsMeasurement *x = *(const PsMeasurement *const *)a, *y = *(const PsMeasurement *const *)b;
  int order = strcmp (x->shape, y->shape);

  return order != 0 ? order : (int)x->kind - (int)y->kind;
}

/* A measurement of each op, by shape, then kind. */
static GPtrArray *collect_rows (const GPtrArray *groups)
{
  GPtrArray *rows = g_ptr_array_new ();

  for (guint g = 0; g < groups->len; g++) {
    const GPtrArray *group = groups->pdata[g];

    for (guint i = 0; i < group->len; i++)
      if (find_op (rows, group->pdata[i]) == NULL)
        g_ptr_array_add (rows, group->pdata[i]);
  }
  g_ptr_array_sort (rows, compare_rows);
  return rows;
}

/* "3 % n = 2": for each group the median absolute deviation over the median. Few samples say nothing about it. */
static char *deviations (const PsMeasurement *row, const GPtrArray *groups)
{
  GString *text = g_string_new (NULL);

  for (guint g = 0; g < groups->len; g++) {
    const PsMeasurement *m = find_op (groups->pdata[g], row);

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
    const GPtrArray *group = groups->pdata[g];
    g_autofree char *name = group_name (group->pdata[0]);

    ps_gnuplot_append_element (script, "group", g + 1, name);
    g_string_append_printf (script, "group_mark[%u] = %u\n", g + 1, ps_plot_series_mark (g));
  }
  for (guint i = 0; i < rows->len; i++) {
    const PsMeasurement *row = rows->pdata[i];
    g_autofree char *name = g_strdup_printf ("%s of %s", ps_op_kind_name (row->kind), row->shape);
    g_autofree char *spread = deviations (row, groups);

    ps_gnuplot_append_tick (script, "op_name", i + 1, name);
    ps_gnuplot_append_tick (script, "op_spread", i + 1, spread);
  }
  g_string_append (script, "$ops << EOD\n");
  for (guint i = 0; i < rows->len; i++)
    for (guint g = 0; g < groups->len; g++) {
      const PsMeasurement *m = find_op (groups->pdata[g], rows->pdata[i]);

      if (m != NULL)
        append_measurement (script, i + 0.12 + 0.76 * (g + 0.5) / groups->len, m, ps_plot_series_mark (g),
                            ps_plot_op_colour (m->kind, 0, 1));
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
