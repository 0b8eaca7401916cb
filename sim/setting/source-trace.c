/* source-trace.c - costs as runs show them, by --costs-from. */
#include <pipesim/observe.h>
#include <pipesim/setting.h>

extern const PsCostSource ps_source_cluster;

char **ps_costs_from_paths (const char *text)
{
  return g_strsplit (text, g_file_test (text, G_FILE_TEST_EXISTS) ? "\n" : ":", -1);
}

static PsObserved *read_runs (const PsSetting *setting, GError **error)
{
  g_auto (GStrv) paths = ps_costs_from_paths (setting->costs_from);
  g_autoptr (PsObserved) observed = ps_observed_new ();
  g_autoptr (PsModel) model = NULL;

  if (!ps_observed_load (observed, (const char *const *)paths, g_strv_length (paths), error))
    return NULL;
  if (setting->model != NULL) {
    model = ps_model_load (setting->model, error);
    if (model == NULL || !ps_observed_estimate (observed, model, error))
      return NULL;
  }
  return g_steal_pointer (&observed);
}

static PsCosts *load (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error)
{
  g_autoptr (PsObserved) observed = read_runs (setting, error);
  PsCosts *costs = observed != NULL ? ps_observed_costs (observed, n_devices, n_chunks, error) : NULL;

  if (costs != NULL)
    ps_observed_tell_warm (observed, costs);
  return costs;
}

/* Gives modelled costs the times of the ops of runs. What nobody saw, O, stays. */
static void take_ops (PsCosts *costs, PsCosts *seen, gboolean adds_tensor)
{
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    PsStageCost *cost = &costs->stage[stage];
    gint64 tensor_ns = adds_tensor ? cost->tensor_ns : 0;

    for (PsOpKind kind = 0; kind < PS_N_OP_KINDS; kind++) {
      gint64 ns = ps_costs_op (seen, kind, stage)->duration_ns;

      if (kind != PS_OP_O || ns > 0)
        ps_costs_op (costs, kind, stage)->duration_ns = ns + (kind == PS_OP_W || kind == PS_OP_O ? 0 : tensor_ns);
    }
    if (ps_costs_op (seen, PS_OP_O, stage)->duration_ns > 0)
      cost->step_ns = 0;
    cost->pair_ns = seen->stage[stage].pair_ns + (seen->stage[stage].pair_ns >= 0 ? 2 * tensor_ns : 0);
    cost->unknown = seen->stage[stage].unknown;
  }
  costs->op_ns = seen->op_ns;
  costs->post_ns = seen->post_ns;
  costs->warm = g_steal_pointer (&seen->warm);
  costs->time_origin = seen->time_origin;
}

/* Durations are those of runs, all else is modelled. */
static PsCosts *load_with_cluster (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error)
{
  g_autoptr (PsObserved) observed = read_runs (setting, error);
  g_autoptr (PsCosts) seen = observed != NULL ? ps_observed_costs (observed, n_devices, n_chunks, error) : NULL;
  PsCosts *costs = seen != NULL ? ps_source_cluster.load (setting, n_devices, n_chunks, error) : NULL;

  if (costs == NULL)
    return NULL;
  ps_observed_tell_warm (observed, seen);
  take_ops (costs, seen, observed->apart && setting->n_tensor * setting->n_context > 1);
  observed->links = costs->source;
  costs->source = ps_observed_describe (observed);
  return costs;
}

static PsCostSpread *spread (const PsSetting *setting, G_GNUC_UNUSED guint n_devices, G_GNUC_UNUSED guint n_chunks,
                             GError **error)
{
  g_autoptr (PsObserved) observed = read_runs (setting, error);

  return observed != NULL ? ps_observed_spread (observed) : NULL;
}

static void add_samples (GChecksum *checksum, GArray *const *lists, guint n)
{
  for (guint i = 0; i < n; i++) {
    g_checksum_update (checksum, (const guchar *)&lists[i]->len, sizeof lists[i]->len);
    g_checksum_update (checksum, (const guchar *)lists[i]->data, lists[i]->len * sizeof (gint64));
  }
}

/* The digest is of the samples, for the files say much else. */
static gboolean digest (const char *text, char **digest, GError **error)
{
  g_auto (GStrv) paths = ps_costs_from_paths (text);
  g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);
  g_autoptr (PsObserved) observed = ps_observed_new ();

  if (!ps_observed_load (observed, (const char *const *)paths, g_strv_length (paths), error))
    return FALSE;
  add_samples (checksum, observed->op, PS_N_OP_KINDS * observed->n_stages);
  add_samples (checksum, observed->pair, observed->n_stages);
  add_samples (checksum, observed->transfer, 1 + 2 * observed->n_stages);
  add_samples (checksum, &observed->host, 1);
  add_samples (checksum, &observed->message, 1);
  add_samples (checksum, &observed->send, 1);
  add_samples (checksum, &observed->receive, 1);
  *digest = g_strdup (g_checksum_get_string (checksum));
  return TRUE;
}

static const PsCostSource with_cluster = {
  .option = "costs-from",
  .offset = offsetof (PsSetting, costs_from),
  .has_model = TRUE,
  .has_cluster = TRUE,
  .load = load_with_cluster,
  .spread = spread,
};

const PsCostSource ps_source_trace = {
  .option = "costs-from",
  .offset = offsetof (PsSetting, costs_from),
  .usage = "--costs-from PATH",
  .fields = "costs-from",
  .load = load,
  .digest = digest,
  .spread = spread,
  .with_cluster = &with_cluster,
};
