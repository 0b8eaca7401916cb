/* fit.c - coordinate descent over the constants of a cluster. */
#include "fit.h"

#include <math.h>

typedef struct {
  const char *key;
  gsize offset;
  gboolean is_time; /* gint64 nanoseconds; else double */
  double high;
} Constant;

#define PART(key, member)                                                                                              \
  {                                                                                                                    \
    key, G_STRUCT_OFFSET (PsCluster, member), FALSE, 1                                                                 \
  }
#define TIME(key, member)                                                                                              \
  {                                                                                                                    \
    key, G_STRUCT_OFFSET (PsCluster, member), TRUE, 1e9                                                                \
  }

static const Constant constants[] = {
  PART ("efficiency", efficiency),
  PART ("efficiency_fp8", efficiency_fp8),
  PART ("efficiency_mxfp8", efficiency_mxfp8),
  PART ("efficiency_fp4", efficiency_fp4),
  PART ("memory_efficiency", memory_efficiency),
  PART ("scores_efficiency", scores_efficiency),
  { "attention_efficiency", G_STRUCT_OFFSET (PsCluster, attention_efficiency), FALSE, 2 },
  PART ("unaligned", unaligned),
  PART ("unaligned_scores", unaligned_scores),
  { "product_depth", G_STRUCT_OFFSET (PsCluster, product_depth), FALSE, 2000 },
  { "tensor_overlap", G_STRUCT_OFFSET (PsCluster, tensor_overlap), FALSE, 0.99 },
  { "link_bandwidth", G_STRUCT_OFFSET (PsCluster, link_bandwidth), FALSE, 1e12 },
  TIME ("launch_time", launch_ns),
  TIME ("kernel_time", kernel_ns),
  TIME ("step_time", step_ns),
  { "optimizer_passes", G_STRUCT_OFFSET (PsCluster, optimizer_passes), FALSE, 20 },
};

static double loss (GPtrArray *rows, const char *name, const PsCluster *cluster, const gboolean *use)
{
  double sum = 0, n_sets = 0;

  for (guint s = 0; s < n_data_sets; s++) {
    double errors = 0, n = 0, error;

    for (guint i = 0; i < rows->len; i++) {
      Row *row = rows->pdata[i];

      if (row->set != &data_sets[s] || row->reason != NULL || !use[i] || !g_str_equal (row_cluster_name (row), name))
        continue;
      row_predict (row, cluster, 1);
      if (row_error (row, FIGURE_TIME, &error)) {
        errors += ABS (error);
        n++;
      }
    }
    sum += n > 0 ? errors / n : 0;
    n_sets += n > 0;
  }
  return n_sets > 0 ? sum / n_sets : 0;
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
    G_STRUCT_MEMBER (gint64, cluster, constant->offset) = llrint (value);
  else
    G_STRUCT_MEMBER (double, cluster, constant->offset) = MIN (value, constant->high);
}

double fit_cluster (GPtrArray *rows, const char *name, PsCluster *cluster, const gboolean *use)
{
  g_autoptr (GPtrArray) own = own_times ();
  double best = loss (rows, name, cluster, use);

  for (double step = 1.15; step > 1.004; step = sqrt (step))
    for (guint again = 0; again < 2; again++)
      for (guint i = 0; i < G_N_ELEMENTS (constants) + own->len; i++)
        for (double factor = step; factor != 0; factor = factor > 1 ? 1 / step : 0)
          for (;;) {
            double before = get (cluster, own, i), now;

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

void fit_print (const PsCluster *cluster)
{
  g_autoptr (GPtrArray) own = own_times ();

  for (guint i = 0; i < G_N_ELEMENTS (constants); i++)
    g_print ("%s = %.4g%s\n", constants[i].key, get (cluster, own, i) / (constants[i].is_time ? 1e3 : 1),
             constants[i].is_time ? "us" : "");
  for (guint i = 0; i < own->len; i++)
    g_print ("of a data set: %.4gus\n", get (cluster, own, G_N_ELEMENTS (constants) + i) / 1e3);
}
