/* accuracy.c - predicts published runs and says how far off the predictions are.
 *
 * accuracy [--rows] [--errors FILE] [--fit [--leave-out NAME] [--half 1|2]] [--pictures FOLDER] FOLDER
 */
#include "classes.h"
#include "datasheet.h"
#include "fit.h"

#include <pipesim/costdb.h>

#include <math.h>
#include <string.h>

static gboolean show_rows, fit;
static char *pictures, *left_out, *only, *constants, *errors_file;
static int half;

static const GOptionEntry entries[]
    = { { "rows", 0, 0, G_OPTION_ARG_NONE, &show_rows, "Prints every row", NULL },
        { "fit", 0, 0, G_OPTION_ARG_NONE, &fit, "Fits the clusters' constants", NULL },
        { "leave-out", 0, 0, G_OPTION_ARG_STRING, &left_out,
          "Fits without the data set whose files begin so, that model or that cluster, and shows it alone", "NAME" },
        { "cluster", 0, 0, G_OPTION_ARG_STRING, &only, "Fits these clusters alone", "NAME,NAME..." },
        { "constants", 0, 0, G_OPTION_ARG_STRING, &constants, "Fits these keys alone", "KEY,KEY..." },
        { "half", 0, 0, G_OPTION_ARG_INT, &half, "Fits every second row, from this one on, and shows the others",
          "1|2" },
        { "errors", 0, 0, G_OPTION_ARG_FILENAME, &errors_file, "Writes data/errors.csv", "FILE" },
        { "pictures", 0, 0, G_OPTION_ARG_FILENAME, &pictures,
          "Writes a database of runs for each data set into this folder", "FOLDER" },
        G_OPTION_ENTRY_NULL };

static PsCluster *find_cluster (GHashTable *clusters, const char *name)
{
  PsCluster *cluster = g_hash_table_lookup (clusters, name);

  if (cluster == NULL) {
    cluster = ps_cluster_load (name, NULL);
    if (cluster != NULL)
      g_hash_table_insert (clusters, g_strdup (name), cluster);
  }
  return cluster;
}

/* Whether `a` gives the speed of its series rather than `b`: it has more microbatches, or runs 1F1B. */
static gboolean is_better_anchor (const Row *a, const Row *b)
{
  guint m = a->setting->n_microbatches, other = b->setting->n_microbatches;

  return m > other || (m == other && g_str_equal (a->schedule, "1f1b") && !g_str_equal (b->schedule, "1f1b"));
}

static Row *find_anchor (const GPtrArray *rows, const Row *row)
{
  Row *anchor = NULL;

  for (guint i = 0; i < rows->len; i++) {
    Row *other = rows->pdata[i];

    if (other->set == row->set && other->reason == NULL && g_str_equal (other->series, row->series)
        && (anchor == NULL || is_better_anchor (other, anchor)))
      anchor = other;
  }
  return anchor;
}

/* The factor on the time of ops with which the row comes out as measured: T is linear in it but for the choice of the
 * longest path. */
static double fitting_speed (Row *row, const PsCluster *cluster)
{
  double speed = 1;

  for (guint i = 0; i < 8; i++) {
    row_predict (row, cluster, speed);
    speed *= row->measured_s / row->predicted_s;
  }
  row_predict (row, cluster, 1);
  return speed;
}

static void predict_from_one (const GPtrArray *rows, guint i, GHashTable *clusters)
{
  Row *row = rows->pdata[i], *anchor;
  double absolute = row->predicted_s;

  if (!row->set->from_one || row->reason != NULL)
    return;
  anchor = find_anchor (rows, row);
  if (anchor == row)
    return;
  const PsCluster *cluster = find_cluster (clusters, row_cluster_name (row));
  row_predict (row, cluster, fitting_speed (anchor, cluster));
  row->from_one_s = row->predicted_s;
  row->predicted_s = absolute;
}

static void predict_all (GPtrArray *rows, GHashTable *clusters)
{
  ps_progress_begin (0);
  for (guint i = 0; i < rows->len; i++) {
    Row *row = rows->pdata[i];
    const PsCluster *cluster = find_cluster (clusters, row_cluster_name (row));

    if (ps_progress_due ())
      ps_progress_show (i, rows->len, "rows", "%s", row->set->title);
    if (cluster == NULL && row->reason == NULL)
      row->reason = g_strdup_printf ("no cluster %s", row_cluster_name (row));
    if (row->reason == NULL)
      row_predict (row, cluster, 1);
  }
  for (guint i = 0; i < rows->len; i++)
    predict_from_one (rows, i, clusters);
  ps_progress_end ();
}

static void print_rows (const GPtrArray *rows)
{
  for (guint i = 0; i < rows->len; i++) {
    const Row *row = rows->pdata[i];

    g_print ("%s | %s | %s | %.4f | %.4f | %+.3f | %+.3f | %+.3f | %s\n", row->set->file, row->series, row->name,
             row->measured_s, row->predicted_s, row->measured_s > 0 ? row->predicted_s / row->measured_s - 1 : 0,
             row->measured_bytes > 0 ? row_stated_bytes (row) / row->measured_bytes - 1 : 0.0,
             row->from_one_s > 0 ? row->from_one_s / row->measured_s - 1 : 0.0, row->reason != NULL ? row->reason : "");
  }
}

static void print_figures (const char *what, const Figures *f)
{
  g_autofree char *rank = isnan (f->rank) ? g_strdup ("-") : g_strdup_printf ("%.2f", f->rank);

  g_print ("| %s | %u | %+.1f | %.1f | %.1f | %.1f | %+.1f | %.1f | %s |\n", what, f->n, 100 * f->bias, 100 * f->mape,
           100 * f->median, 100 * f->p95, 100 * f->worst, 100 * f->constant, rank);
}

static const char *const kinds[] = { "time", "time from one row of a series", "memory" };

static void print_table (const GPtrArray *rows, const char *heading)
{
  g_print ("| %s | rows | bias | mean error | median | 95 %% within | worst | after one factor | rank correlation |\n"
           "|---|---|---|---|---|---|---|---|---|\n",
           heading);
  for (guint s = 0; s < n_data_sets; s++)
    for (FigureKind kind = FIGURE_TIME; kind <= FIGURE_MEMORY; kind++) {
      Figures figures = figures_of (rows, &data_sets[s], kind);
      g_autofree char *what = g_strdup_printf ("%s: %s", data_sets[s].title, kinds[kind]);

      if (figures.n > 0)
        print_figures (what, &figures);
    }
}

/* Whether the fullest GPU of a row keeps to the memory of its cluster, by the rule of setting.h. */
static const char *row_fits (const Row *row, GHashTable *clusters)
{
  gint64 memory = find_cluster (clusters, row_cluster_name (row))->memory_bytes, peak = (gint64)row->predicted_bytes;
  gint64 reserve = ps_memory_reserve (memory, row->model->framework);

  return ps_fits (peak - memory + reserve, reserve);
}

/* The rows of each class, by its name. */
static GHashTable *sort_by_class (const GPtrArray *rows)
{
  GHashTable *classes = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, (GDestroyNotify)g_ptr_array_unref);

  for (guint i = 0; i < rows->len; i++) {
    Row *row = rows->pdata[i];
    GPtrArray *class = row->class != NULL ? g_hash_table_lookup (classes, row->class) : NULL;

    if (row->class == NULL || row->reason != NULL)
      continue;
    if (class == NULL)
      g_hash_table_insert (classes, row->class, class = g_ptr_array_new ());
    g_ptr_array_add (class, row);
  }
  return classes;
}

/* Time by class, and how many of the rows, all of which ran, are predicted to fit. */
static void print_classes (const GPtrArray *rows, GHashTable *clusters)
{
  g_autoptr (GHashTable) classes = sort_by_class (rows);
  g_autoptr (GList) names = g_list_sort (g_hash_table_get_keys (classes), (GCompareFunc)strcmp);

  if (names != NULL)
    g_print ("\n| class | rows | bias | mean error | worst | ran | predicted to fit | tightly | not to |\n"
             "|---|---|---|---|---|---|---|---|---|\n");
  for (GList *l = names; l != NULL; l = l->next) {
    const GPtrArray *class = g_hash_table_lookup (classes, l->data);
    Figures figures = figures_of (class, NULL, FIGURE_TIME);
    guint n_fit = 0, n_tight = 0;

    for (guint i = 0; i < class->len; i++) {
      const char *fits = row_fits (class->pdata[i], clusters);

      n_fit += g_str_equal (fits, "yes");
      n_tight += g_str_equal (fits, "tight");
    }
    g_print ("| %s | %u | %+.1f | %.1f | %+.1f | %u | %u | %u | %u |\n", (char *)l->data, figures.n, 100 * figures.bias,
             100 * figures.mape, 100 * figures.worst, class->len, n_fit, n_tight, class->len - n_fit - n_tight);
  }
}

static void count_reason (GHashTable *counts, const char *reason)
{
  if (reason != NULL)
    g_hash_table_insert (counts, (gpointer)reason,
                         GUINT_TO_POINTER (GPOINTER_TO_UINT (g_hash_table_lookup (counts, reason)) + 1));
}

/* Reasons and how many rows have each. */
static void print_left_out (const GPtrArray *rows, const DataSet *set)
{
  g_autoptr (GHashTable) counts = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint i = 0; i < rows->len; i++) {
    const Row *row = rows->pdata[i];

    if (row->set == set)
      count_reason (counts, row->reason != NULL ? row->reason : row->memory_reason);
  }
  g_autoptr (GList) reasons = g_list_sort (g_hash_table_get_keys (counts), (GCompareFunc)strcmp);
  for (GList *l = reasons; l != NULL; l = l->next)
    g_print ("- %s: %u rows left out: %s\n", set->title, GPOINTER_TO_UINT (g_hash_table_lookup (counts, l->data)),
             (const char *)l->data);
}

/* Rows that ran out of memory must not fit, and the others must. */
static void print_fits (const GPtrArray *rows, GHashTable *clusters)
{
  guint n_out = 0, n_found = 0, n_ran = 0, n_tight = 0, n_fit = 0;

  for (guint i = 0; i < rows->len; i++) {
    const Row *row = rows->pdata[i];

    if (row->reason != NULL || (!row->out_of_memory && row->measured_bytes == 0))
      continue;
    const char *fits = row_fits (row, clusters);
    n_out += row->out_of_memory;
    n_found += row->out_of_memory && g_str_equal (fits, "no");
    n_ran += !row->out_of_memory;
    n_fit += !row->out_of_memory && g_str_equal (fits, "yes");
    n_tight += !row->out_of_memory && g_str_equal (fits, "tight");
  }
  if (n_out > 0)
    g_print ("- %u runs ran out of memory; %u of them are predicted not to fit.\n", n_out, n_found);
  if (n_ran > 0)
    g_print ("- %u runs state their peak memory; %u of them are predicted to fit, %u tightly, %u not to.\n", n_ran,
             n_fit, n_tight, n_ran - n_fit - n_tight);
}

/* One picture for each data set: its rows as runs of a cost database, which pipesim plot draws. */
static gboolean write_pictures (const GPtrArray *rows, GError **error)
{
  for (guint s = 0; s < n_data_sets; s++) {
    g_autofree char *path = g_strdup_printf ("%s/%s.db", pictures, data_sets[s].file);
    g_autoptr (PsCostDb) db = ps_costdb_open (path, PS_COSTDB_WRITE, error);

    if (db == NULL)
      return FALSE;
    for (guint i = 0; i < rows->len; i++) {
      const Row *row = rows->pdata[i];
      double off;
      const PsRunRecord run = { .profile = (char *)"",
                                .schedule = (char *)row->schedule,
                                .device = (char *)row_cluster_name (row),
                                .transport = (char *)"",
                                .n_devices = row->setting->n_devices,
                                .n_chunks = row->setting->n_chunks,
                                .n_microbatches = row->setting->n_microbatches,
                                .n_steps = 1,
                                .predicted_iteration_ns = (gint64)(row->predicted_s * 1e9),
                                .measured_iteration_ns = (gint64)(row->measured_s * 1e9),
                                .check = (char *)"not run",
                                .started = (char *)"" };

      if (row->set == &data_sets[s] && row_error (row, FIGURE_TIME, &off) && !ps_costdb_store_run (db, &run, error))
        return FALSE;
    }
  }
  return TRUE;
}

/* Whether --cluster names it, or nothing. */
static gboolean is_chosen (const char *name)
{
  g_auto (GStrv) names = only != NULL ? g_strsplit (only, ",", -1) : NULL;

  return names == NULL || g_strv_contains ((const char *const *)names, name);
}

/* The other cluster that was fitted with the nearest peak rate. */
static const PsCluster *find_nearest (GHashTable *clusters, const PsCluster *cluster)
{
  const PsCluster *nearest = NULL;
  GHashTableIter iter;
  gpointer name, other;

  g_hash_table_iter_init (&iter, clusters);
  while (g_hash_table_iter_next (&iter, &name, &other))
    if (other != cluster && is_chosen (name)
        && (nearest == NULL
            || ABS (((PsCluster *)other)->peak_flops - cluster->peak_flops)
                   < ABS (nearest->peak_flops - cluster->peak_flops)))
      nearest = other;
  return nearest;
}

static gboolean is_left_out (const Row *row)
{
  return left_out != NULL
         && (g_str_equal (row->set->file, left_out) || g_str_equal (row_cluster_name (row), left_out)
             || (row->model != NULL && g_str_equal (row->model->name, left_out)));
}

/* The same steps on machines of which their datasheets alone are known. Nothing of the data set is. */
static void print_datasheets (const GPtrArray *rows)
{
  for (guint s = 0; s < n_data_sets; s++)
    data_sets[s].network = data_sets[s].split_ring = 0, data_sets[s].kernel_ns = data_sets[s].collective_ns = 0;
  for (guint i = 0; i < rows->len; i++) {
    Row *row = rows->pdata[i];
    g_autoptr (PsCluster) cluster = row->reason == NULL && row->model != NULL ? datasheet_cluster (row) : NULL;

    row->predicted_s = row->from_one_s = row->predicted_bytes = row->last_bytes = 0;
    if (cluster != NULL) {
      row->model->framework = PS_FRAMEWORK_MEGATRON;
      row_predict (row, cluster, 1);
    }
    if (show_rows && row->predicted_s > 0)
      g_print ("%s | %s | %s | %+.3f\n", row->set->file, row->series, row->name,
               row->predicted_s / row->measured_s - 1);
  }
  g_print ("\n");
  print_table (rows, "runs, from datasheet values alone");
}

static void fit_all (GPtrArray *rows, GHashTable *clusters)
{
  g_autofree gboolean *use = g_new (gboolean, rows->len);
  g_auto (GStrv) keys = constants != NULL ? g_strsplit (constants, ",", -1) : NULL;
  GHashTableIter iter;
  gpointer name, cluster;

  for (guint i = 0; i < rows->len; i++)
    use[i] = (half == 0 || i % 2 == (guint)half % 2) && !is_left_out (rows->pdata[i]);
  g_hash_table_iter_init (&iter, clusters);
  while (g_hash_table_iter_next (&iter, &name, &cluster)) {
    if (!is_chosen (name))
      continue;
    double mean = fit_cluster (rows, name, cluster, use, (const char *const *)keys);

    g_print ("%s: %.2f %%\n", (char *)name, 100 * mean);
    fit_print (cluster);
  }
  if (left_out != NULL && g_hash_table_contains (clusters, left_out)) {
    cluster = g_hash_table_lookup (clusters, left_out);
    fit_copy (cluster, find_nearest (clusters, cluster));
  }
  for (guint i = 0; i < rows->len; i++)
    if ((half > 0 || left_out != NULL) && use[i])
      ((Row *)rows->pdata[i])->measured_s = ((Row *)rows->pdata[i])->measured_bytes = 0;
}

int main (int argc, char **argv)
{
  g_autoptr (GOptionContext) context = g_option_context_new ("FOLDER");
  g_autoptr (GPtrArray) others = g_ptr_array_new_with_free_func (g_free), rows = NULL;
  g_autoptr (GHashTable) clusters
      = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)ps_cluster_free);
  g_autoptr (GError) error = NULL;

  ps_log_to_stderr ();
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || argc != 2) {
    g_printerr ("accuracy: %s\n", error != NULL ? error->message : "give one folder of CSV files");
    return 2;
  }
  rows = rows_read (argv[1], others, &error);
  if (rows == NULL) {
    g_printerr ("accuracy: %s\n", error->message);
    return 1;
  }
  predict_all (rows, clusters);
  if (fit) {
    fit_all (rows, clusters);
    predict_all (rows, clusters);
  }
  if (show_rows)
    print_rows (rows);
  print_table (rows, "runs");
  print_classes (rows, clusters);
  g_print ("\n");
  print_fits (rows, clusters);
  for (guint s = 0; s < n_data_sets; s++)
    print_left_out (rows, &data_sets[s]);
  for (guint i = 0; i < others->len; i++)
    g_print ("- %s: not read; no data set is of this kind\n", (const char *)others->pdata[i]);
  if (pictures != NULL && !write_pictures (rows, &error)) {
    g_printerr ("accuracy: %s\n", error->message);
    return 1;
  }
  g_autoptr (Classes) classes = classes_new ();
  classes_take (classes, rows, "file");
  print_datasheets (rows);
  classes_take (classes, rows, "datasheet");
  classes_print (classes);
  g_autofree char *csv = classes_to_csv (classes);
  if (errors_file != NULL && !g_file_set_contents (errors_file, csv, -1, &error)) {
    g_printerr ("accuracy: %s\n", error->message);
    return 1;
  }
  return 0;
}
