/* source-cluster.c - costs modelled for --model on --cluster. */
#include "options.h"

#include <pipesim/setting.h>

#include <string.h>

/* Says which GPUs of a pipeline and its replicas the cluster does not have. */
static void name_missing_gpus (PsCosts *costs, const PsSetting *setting, const PsCluster *cluster, guint n_devices)
{
  guint64 n = (guint64)n_devices * setting->n_tensor * setting->n_context * setting->n_replicas;
  g_autofree char *lacks = ps_cluster_lacks (cluster->n_gpus, n);
  g_autofree char *source = costs->source;

  costs->source = *lacks ? g_strdup_printf ("%s; %" G_GUINT64_FORMAT " GPUs of '%s'%s", source, n, cluster->name, lacks)
                         : g_steal_pointer (&source);
}

static PsCosts *load (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error)
{
  g_autoptr (PsModel) model = ps_setting_given_model (setting, error);
  g_autoptr (PsCluster) cluster = model != NULL ? ps_setting_cluster (setting, error) : NULL;

  if (cluster == NULL || !ps_tensor_check_spread (model, cluster->tensor, setting->n_replicas, error)
      || !ps_cluster_check_size (cluster, (guint64)n_devices * setting->n_replicas, error))
    return NULL;
  guint n_sharing = setting->n_tensor * setting->n_context;
  if (setting->cp_comm == PS_CP_COMM_A2A && model->heads % n_sharing != 0)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "--cp-comm-type a2a: %u GPUs do not divide the %u heads of model '%s'", n_sharing,
                           model->heads, model->name);
  PsCosts *costs = ps_costs_model_stages (model, cluster, setting->known_shapes, n_devices, n_chunks, error);
  if (costs != NULL)
    name_missing_gpus (costs, setting, cluster, n_devices);
  return costs;
}

/* Clusters that ship with pipesim change with its version only. */
static gboolean digest (const char *name, char **digest, GError **error)
{
  g_autoptr (PsCluster) cluster = ps_cluster_load (name, error);
  g_autofree char *contents = NULL;
  gsize length;

  if (strpbrk (name, "/.") != NULL && ps_read_file (name, &contents, &length, NULL))
    *digest = g_compute_checksum_for_data (G_CHECKSUM_SHA256, (const guchar *)contents, length);
  return cluster != NULL;
}

const PsCostSource ps_source_cluster = {
  .option = "cluster",
  .offset = offsetof (PsSetting, cluster),
  .usage = "--model FILE with --cluster FILE",
  .fields = "model and cluster",
  .needs = { { "cluster", offsetof (PsSetting, cluster), "model", offsetof (PsSetting, model), "what to run on it" },
             { "precision", offsetof (PsSetting, precision), "model", offsetof (PsSetting, model),
               "which it gives another number format" } },
  .has_model = TRUE,
  .has_cluster = TRUE,
  .load = load,
  .digest = digest,
};
