/* cli.c - what several commands of the program pipesim share. */
#include "cli.h"

#include <pipesim/plan.h>

#include <math.h>

static void note_unread (const char *path, const PsModel *model)
{
  if (model != NULL && model->unread != NULL)
    g_printerr ("%s: not read: %s\n", path, model->unread);
}

void ps_note_unread (const char *path)
{
  g_autoptr (PsModel) model = path != NULL ? ps_model_load (path, NULL) : NULL;

  note_unread (path, model);
}

void ps_note_assumed (const PsSetting *setting)
{
  g_autoptr (PsCluster) cluster = setting->cluster != NULL ? ps_setting_read_cluster (setting, NULL) : NULL;
  g_autoptr (PsModel) model = cluster != NULL && setting->model != NULL ? ps_setting_read_model (setting, NULL) : NULL;

  if (model != NULL && model->longest > model->sequence && setting->sequence == 0)
    g_printerr ("%s: assumed: sequences of %u tokens, of %u at most; --sequence says others\n", setting->model,
                model->sequence, model->longest);
  if (model != NULL && ps_model_set_precision (model, "--precision", setting->precision, NULL)) {
    const guint bits = ps_number_formats[model->precision].bits;
    const char *key;

    ps_work_peak_flops (cluster, bits, &key);
    if (!g_str_has_suffix (key, bits >= 16 ? "flops" : bits >= 8 ? "fp8" : "fp4"))
      g_printerr (
          "%s: assumed: products of %s at the rate of %s; no peak_flops_fp%u is known, and the GPU may lack them\n",
          setting->cluster, ps_precision_name (model->precision), key, bits);
  }
  if (cluster == NULL || cluster->assumed == NULL)
    return;
  gboolean trained = model != NULL && setting->framework == PS_FRAMEWORK_NONE
                     && ps_setting_framework (setting, model) != model->framework;
  g_printerr ("%s: assumed: %s%s\n", setting->cluster, cluster->assumed, trained ? "; framework megatron" : "");
}

char *ps_describe_errors (const PsSetting *setting)
{
  g_autoptr (PsModel) model
      = setting->cluster != NULL && setting->model != NULL ? ps_setting_model (setting, NULL) : NULL;
  g_autoptr (PsCluster) cluster = model != NULL ? ps_setting_read_cluster (setting, NULL) : NULL;
  g_auto (PsClassErrors) errors = { 0 };

  /* No class is of prefill, nor of ops that were measured. */
  if (cluster == NULL || setting->serve != PS_SERVE_NONE || setting->costs_from != NULL)
    return NULL;
  ps_class_errors_init (&errors, model, setting->n_devices, cluster);
  return ps_class_errors_to_text (&errors);
}

int ps_cmd_run (const PsCmd *command, int argc, char **argv, GError **error)
{
  g_autofree char *options = g_malloc0 (command->size), *text = command->text != NULL ? command->text () : NULL;
  PsSetting **setting = command->setting > 0 ? (PsSetting **)(gpointer)(options + command->setting) : NULL;
  g_autoptr (PsModel) model = NULL;
  g_autoptr (PsCluster) cluster = NULL;
  PsCommandHelp help = command->help;
  g_auto (PsLaunchCommand) launch = { 0 };
  g_autofree char **line = NULL, **named = NULL;
  g_autofree char *from = NULL;
  int code = 0;

  if (text != NULL)
    help.text = text;
  if (setting != NULL) {
    *setting = ps_setting_new ();
    (*setting)->takes_auto = command->takes_auto;
  }
  if (command->launch > 0)
    *(const PsLaunchCommand **)(gpointer)(options + command->launch) = &launch;
  if (command->launch > 0 && argc > 1 && argv[1][0] != '-') {
    argv = named = g_memdup2 (argv, ((gsize)argc + 1) * sizeof *argv);
    argv[1] = from = g_strconcat ("--from=", argv[1], NULL);
  }
  g_auto (GStrv) words = g_strdupv (argv + 1); /* reading options removes them */
  if (command->words > 0)
    *(char ***)(gpointer)(options + command->words) = words;
  gboolean expanded = ps_launch_expand (command->rows, argv, &launch, error);
  if (expanded && launch.words != NULL) {
    argc = (int)g_strv_length (launch.words);
    argv = line = g_memdup2 (launch.words, ((gsize)argc + 1) * sizeof *argv);
  }
  if (expanded && launch.print)
    code = ps_launch_print (&launch, error) ? 0 : 1;
  else if (expanded && ps_command_parse (&help, command->rows, options, &argc, &argv, error)
           && (command->settle == NULL || command->settle (options, error))) {
    ps_launch_note (&launch, setting != NULL && command->launch == 0 ? *setting : NULL); /* else it says so itself */
    if (setting != NULL) {
      /* Read once. Commands report what is wrong with them where they need them. */
      (*setting)->known_model = model = (*setting)->model != NULL ? ps_model_load ((*setting)->model, NULL) : NULL;
      (*setting)->known_cluster = cluster
          = (*setting)->cluster != NULL ? ps_cluster_load ((*setting)->cluster, NULL) : NULL;
      note_unread ((*setting)->model, model);
    }
    code = command->run (command, options, argc, argv, error);
    if (setting != NULL) /* --to may say the framework */
      ps_note_assumed (*setting);
  }
  ps_options_reset (command->rows, options);
  if (command->clear != NULL)
    command->clear (options);
  if (setting != NULL)
    ps_setting_free (*setting);
  return code;
}

const PsOption ps_microbatch_size_rows[] = {
  PS_OPTION ("microbatch-size", 0, PS_COUNT (PsSetting, microbatch_size, 1, PS_MAX_MICROBATCHES), "N",
             "Sequences per microbatch in place of the model's, for modelled costs", .group = PS_GROUP_COSTS,
             .otherwise = "the model's"),
  PS_OPTION_END,
};

const PsOption ps_variation_rows[] = {
  PS_OPTION ("jitter", 0, PS_NUMBER (PsVariation, uncertainty.jitter, 0, PS_MAX_JITTER), "DEVIATION|measured",
             "Relative standard deviation of every op and transfer, e.g. 0.05; measured: that of the samples in --db",
             .given = PS_MEMBER (PsVariation, has_jitter, gboolean), .any = "measured",
             .any_offset = PS_MEMBER (PsVariation, is_measured, gboolean), .group = PS_GROUP_VARIATION,
             .otherwise = "none"),
  PS_OPTION ("straggler", 0, PS_TEXTS (PsVariation, stragglers), "DEVICE:FACTOR[:PROBABILITY]",
             "A device whose ops, O included, take FACTOR times as long, in this part of the iterations, 1 unless "
             "given; may be "
             "repeated",
             .group = PS_GROUP_VARIATION),
  PS_OPTION ("slow-link", 0, PS_TEXTS (PsVariation, slow_links), "A-B:FACTOR[:PROBABILITY]",
             "Two devices whose transfers take FACTOR times as long in both directions (if their link fails: the "
             "detour's FACTOR); "
             "may be repeated",
             .group = PS_GROUP_VARIATION),
  PS_OPTION_END,
};

gboolean ps_variation_finish (PsVariation *variation, const PsSetting *setting, gboolean *varies, GError **error)
{
  guint n_stragglers = variation->stragglers != NULL ? g_strv_length (variation->stragglers) : 0;
  guint n_links = variation->slow_links != NULL ? g_strv_length (variation->slow_links) : 0;

  *varies = variation->has_jitter || variation->is_measured || n_stragglers + n_links > 0;
  if (variation->is_measured && setting->db == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--jitter measured: needs --db FILE, the database that holds the samples");
  variation->slowness = g_new0 (PsSlowness, n_stragglers + n_links + 1);
  for (guint i = 0; i < n_stragglers; i++)
    if (!ps_slowness_parse ("--straggler", variation->stragglers[i], FALSE, &variation->slowness[i], error))
      return FALSE;
  for (guint i = 0; i < n_links; i++)
    if (!ps_slowness_parse ("--slow-link", variation->slow_links[i], TRUE, &variation->slowness[n_stragglers + i],
                            error))
      return FALSE;
  variation->uncertainty.slowness = variation->slowness;
  variation->uncertainty.n_slowness = n_stragglers + n_links;
  return TRUE;
}

char *ps_variation_describe (const PsVariation *variation)
{
  GString *text = g_string_new (NULL);

  if (variation->is_measured)
    g_string_append (text, ", jitter measured");
  else if (variation->has_jitter)
    g_string_append_printf (text, ", jitter %g", variation->uncertainty.jitter);
  for (char **straggler = variation->stragglers; straggler != NULL && *straggler != NULL; straggler++)
    g_string_append_printf (text, ", straggler %s", *straggler);
  for (char **link = variation->slow_links; link != NULL && *link != NULL; link++)
    g_string_append_printf (text, ", slow link %s", *link);
  return g_string_free (text, FALSE);
}

PsSpeed ps_run_speed (const PsSetting *setting, guint n_devices, guint n_microbatches, gint64 iteration_ns)
{
  const PsCostSource *source = ps_setting_source (setting);
  g_autoptr (PsModel) model = source != NULL && source->has_model && setting->serve == PS_SERVE_NONE
                                  ? ps_setting_model (setting, NULL)
                                  : NULL;
  g_autoptr (PsCluster) cluster = setting->cluster != NULL ? ps_setting_read_cluster (setting, NULL) : NULL;
  const double seconds = (double)MAX (iteration_ns, 1) / 1e9;
  PsSpeed speed = { .n_gpus = (double)n_devices * setting->n_tensor * setting->n_context * setting->n_replicas };
  const char *key;

  if (model == NULL)
    return speed;
  const gint64 batch = (gint64)n_microbatches * setting->n_replicas * model->microbatch_size;
  speed.tokens_per_s = (double)batch * model->sequence / seconds;
  if (cluster != NULL)
    speed.mfu
        = ps_layout_step_flops (model, batch)
          / (seconds * speed.n_gpus * ps_work_peak_flops (cluster, ps_number_formats[model->precision].bits, &key));
  return speed;
}

PsFigures ps_prediction_figures (const PsPrediction *prediction)
{
  const PsSchedule *schedule = prediction->program->schedule;
  const PsPrefill *prefill = prediction->prefill;
  double seconds = (double)MAX (prediction->metrics.iteration_ns, 1) / 1e9, tokens = 0;

  for (guint i = 0; prefill != NULL && i < prefill->n; i++)
    tokens += ps_prefill_tokens (prefill, i);
  return (PsFigures){ .schedule = schedule->name,
                      .n_devices = schedule->placement->n_devices,
                      .n_stages = schedule->placement->n_stages,
                      .n_microbatches = schedule->n_microbatches,
                      .n_chunks = ps_placement_max_chunks (schedule->placement),
                      .asynchronous = schedule->asynchronous,
                      .metrics = prediction->metrics,
                      .first_token_ns = prediction->mean_first_token_ns,
                      .prompts_per_s = prefill != NULL ? prefill->n / seconds : 0,
                      .tokens_per_s = tokens / seconds,
                      .lower_bound_ns = prediction->lower_bound_ns,
                      .feasible = prediction->feasible,
                      .fits = prediction->fits };
}
