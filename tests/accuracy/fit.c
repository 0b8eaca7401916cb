/* fit.c - coordinate descent over the constants of a cluster. */
#include "fit.h"

#include <math.h>
#include <string.h>

typedef struct {
  const char *key;
  gsize offset;
  gboolean is_time; /* gint64 nanoseconds; else double */
  double low, high; /* what hardware can be */
} Constant;

#define PART(key, member, low, high)                                                                                   \
  {                                                                                                                    \
    key, G_STRUCT_OFFSET (PsCluster, member), FALSE, low, high                                                         \
  }
#define TIME(key, member, low, high)                                                                                   \
  {                                                                                                                    \
    key, G_STRUCT_OFFSET (PsCluster, member), TRUE, low, high                                                          \
  }

/* Only those that a cluster's file states are fitted. */
static const Constant constants[] = {
  PART ("efficiency", efficiency, 0.3, 0.9),
  PART ("efficiency_fp8", efficiency_fp8, 0.3, 0.9),
  PART ("efficiency_mxfp8", efficiency_mxfp8, 0.3, 0.9),
  PART ("efficiency_fp4", efficiency_fp4, 0.2, 0.9),
  PART ("memory_efficiency", memory_efficiency, 0.6, 0.92),
  PART ("scores_efficiency", scores_efficiency, 0.1, 1),
  PART ("attention_efficiency", attention_efficiency, 0.4, 1.5),
  PART ("unaligned", unaligned, 0.05, 1),
  PART ("unaligned_scores", unaligned_scores, 0.05, 1),
  PART ("product_depth", product_depth, 20, 400),
  PART ("tensor_overlap", tensor_overlap, 0, 0.95),
  PART ("alltoall_efficiency", alltoall_efficiency, 0.4, 1),
  TIME ("launch_time", launch_ns, 5e3, 1e5),
  TIME ("kernel_time", kernel_ns, 1e3, 1e4),
  TIME ("step_time", step_ns, 1e6, 1e8),
  PART ("optimizer_passes", optimizer_passes, 1, 4),
};

/* Rows with which a class of a data set has its full weight. */
#define FULL_CLASS 10

/* Adds the mean errors without sign of the classes of the set's rows on the cluster, by their weights. */
static void add_set_loss (GPtrArray *rows, const DataSet *set, const char *name, const PsCluster *cluster,
                          const gboolean *use, double *sum, double *weights)
{
  g_autoptr (GHashTable) classes = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, (GDestroyNotify)g_array_unref);
  GHashTableIter iter;
  gpointer value;
  double error;

  for (guint i = 0; i < rows->len; i++) {
    Row *row = rows->pdata[i];
    const char *class = row->class != NULL ? row->class : "";

    if (row->set != set || set->unfitted || row->reason != NULL || !use[i]
        || !g_str_equal (row_cluster_name (row), name))
      continue;
    row_predict (row, cluster, 1);
    if (!row_error (row, FIGURE_TIME, &error))
      continue;
    GArray *errors = g_hash_table_lookup (classes, class);
    if (errors == NULL)
      g_hash_table_insert (classes, (gpointer) class, errors = g_array_new (FALSE, FALSE, sizeof (double)));
    error = ABS (error);
    g_array_append_val (errors, error);
  }
  g_hash_table_iter_init (&iter, classes);
  while (g_hash_table_iter_next (&iter, NULL, &value)) {
    const GArray *errors = value;
    double weight = MIN (errors->len, FULL_CLASS);

    for (guint i = 0; i < errors->len; i++)
      *sum += weight * g_array_index (errors, double, i) / errors->len;
    *weights += weight;
  }
}

static double loss (GPtrArray *rows, const char *name, const PsCluster *cluster, const gboolean *use)
{
  double sum = 0, weights = 0;

  for (guint s = 0; s < n_data_sets; s++)
    add_set_loss (rows, &data_sets[s], name, cluster, use, &sum, &weights);
  return weights > 0 ? sum / weights : 0;
}

/* The times that data sets have in place of the cluster's. */
static GPtrArray *own_times (void)
{
  GPtrArray *times = g_ptr_array_new ();

  for (guint s = 0; s < n_data_sets; s++) {
    if (data_sets[s].kernel_ns > 0)
      g_ptr_array_add (times, &data_sets[s].kernel_ns);
    if (data_sets[s].collective_ns > 0)
      g_ptr_array_add (times, &data_sets[s].collective_ns);
  }
  return times;
}

static double get (const PsCluster *cluster, const GPtrArray *own, guint i)
{
  const Constant *constant = &constants[i];

  if (i >= G_N_ELEMENTS (constants))
    return (double)*(gint64 *)own->pdata[i - G_N_ELEMENTS (constants)];
  return constant->is_time ? (double)G_STRUCT_MEMBER (gint64, cluster, constant->offset)
                           : G_STRUCT_MEMBER (double, cluster, constant->offset);
}

static void set (PsCluster *cluster, const GPtrArray *own, guint i, double value)
{
  const Constant *constant = &constants[i];

  if (i >= G_N_ELEMENTS (constants))
    *(gint64 *)own->pdata[i - G_N_ELEMENTS (constants)] = llrint (value);
  else if (constant->is_time)
    G_STRUCT_MEMBER (gint64, cluster, constant->offset) = llrint (CLAMP (value, constant->low, constant->high));
  else
    G_STRUCT_MEMBER (double, cluster, constant->offset) = CLAMP (value, constant->low, constant->high);
}

/* Whether the key is one of `keys` (NULL: all), and in the cluster's file. */
static gboolean is_fitted (const char *name, const char *const *keys, const char *key)
{
  g_autofree char *text = ps_shipped_text ("clusters", name), *line = g_strdup_printf ("\n%s = ", key);

  return (keys == NULL || g_strv_contains (keys, key)) && text != NULL && strstr (text, line) != NULL;
}

double fit_cluster (GPtrArray *rows, const char *name, PsCluster *cluster, const gboolean *use, const char *const *keys)
{
  g_autoptr (GPtrArray) own = own_times ();
  double best = loss (rows, name, cluster, use);

  for (double step = 1.15; step > 1.004; step = sqrt (step))
    for (guint again = 0; again < 2; again++)
      for (guint i = 0; i < G_N_ELEMENTS (constants) + own->len; i++)
        for (double factor = step; factor != 0; factor = factor > 1 ? 1 / step : 0)
          for (;;) {
            double before = get (cluster, own, i), now;

            if (i < G_N_ELEMENTS (constants) ? !is_fitted (name, keys, constants[i].key) : keys != NULL)
              break;
            set (cluster, own, i, before * factor);
            now = get (cluster, own, i) != before ? loss (rows, name, cluster, use) : best;
            if (now >= best) {
              set (cluster, own, i, before);
              break;
            }
            best = now;
          }
  return best;
}

void fit_copy (PsCluster *cluster, const PsCluster *from)
{
  for (guint i = 0; i < G_N_ELEMENTS (constants); i++)
    set (cluster, NULL, i, get (from, NULL, i));
}

void fit_print (const PsCluster *cluster)
{
  g_autoptr (GPtrArray) own = own_times ();

  for (guint i = 0; i < G_N_ELEMENTS (constants); i++)
    g_print ("%s = %.4g%s\n", constants[i].key, get (cluster, own, i) / (constants[i].is_time ? 1e3 : 1),
             constants[i].is_time ? "us" : "");
  for (guint i = 0; i < own->len; i++)
    g_print ("of a data set: %.4gus\n", get (cluster, own, G_N_ELEMENTS (constants) + i) / 1e3);
}
