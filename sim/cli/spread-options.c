/* spread-options.c - what may vary, as the user says it. */
#include "predict-spread.h"

#define DEFAULT_SAMPLES 10000
#define MAX_JOBS 1024

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
  PS_OPTION (
      "slow-link", 0, PS_TEXTS (PsVariation, slow_links), "A-B:FACTOR[:PROBABILITY]",
      "Two devices whose transfers take FACTOR times as long, both ways (if their link fails: the detour's FACTOR); "
      "may be repeated",
      .group = PS_GROUP_VARIATION),
  PS_OPTION_END,
};

const PsOption ps_spread_rows[] = {
  PS_OPTION ("samples", 0, PS_COUNT (PsSpreadOptions, sampling.n_samples, 1, PS_MAX_SAMPLES), "N",
             "Number of iterations to simulate with varying costs", .otherwise = "10000", .group = PS_GROUP_VARIATION),
  PS_OPTION_INCLUDE (PsSpreadOptions, variation, ps_variation_rows),
  PS_OPTION ("tornado", 0, PS_FLAG (PsSpreadOptions, tornado), NULL,
             "Show which part's spread moves the iteration most", .group = PS_GROUP_VARIATION),
  PS_OPTION ("seed", 0, PS_INTEGER (PsSpreadOptions, seed, 0, 0), "N", "Seed of the random numbers",
             .given = PS_MEMBER (PsSpreadOptions, has_seed, gboolean), .initial = 1, .group = PS_GROUP_VARIATION),
  PS_OPTION ("jobs", 0, PS_COUNT (PsSpreadOptions, sampling.n_jobs, 1, MAX_JOBS), "N",
             "Threads that sample; their number changes no figure", .otherwise = "one per processor",
             .group = PS_GROUP_VARIATION),
  PS_OPTION_END,
};

void
ps_variation_clear (PsVariation *variation)
{
  g_free (variation->slowness);
}

void
ps_spread_options_clear (PsSpreadOptions *options)
{
  ps_variation_clear (&options->variation);
}

static gboolean
read_slowness (PsVariation *variation, GError **error)
{
  guint n_stragglers = variation->stragglers != NULL ? g_strv_length (variation->stragglers) : 0;
  guint n_links = variation->slow_links != NULL ? g_strv_length (variation->slow_links) : 0;

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

gboolean
ps_variation_finish (PsVariation *variation, const PsSetting *setting, gboolean *varies, GError **error)
{
  *varies = variation->has_jitter || variation->is_measured || variation->stragglers != NULL
            || variation->slow_links != NULL;
  if (variation->is_measured && setting->db == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--jitter measured: needs --db FILE, the database that holds the samples");
  return !*varies || read_slowness (variation, error);
}

char *
ps_variation_describe (const PsVariation *variation)
{
  g_autoptr (GString) text = g_string_new (NULL);

  if (variation->is_measured)
    g_string_append (text, ", jitter measured");
  else if (variation->has_jitter)
    g_string_append_printf (text, ", jitter %g", variation->uncertainty.jitter);
  for (char **straggler = variation->stragglers; straggler != NULL && *straggler != NULL; straggler++)
    g_string_append_printf (text, ", straggler %s", *straggler);
  for (char **link = variation->slow_links; link != NULL && *link != NULL; link++)
    g_string_append_printf (text, ", slow link %s", *link);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* Options that make no sense together, or alone. */
static gboolean
check_combination (const PsSpreadOptions *options, gboolean varies, gboolean all, GError **error)
{
  const char *message = NULL;

  if (!varies
      && (options->sampling.n_samples > 0 || options->has_seed || options->sampling.n_jobs > 0 || options->tornado))
    message = "--samples: nothing varies; give --jitter, --straggler or --slow-link";
  else if (options->tornado && all)
    message = "--tornado: is of one schedule, not of several";
  if (message != NULL)
    g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE, message);
  return message == NULL;
}

gboolean
ps_spread_options_finish (PsSpreadOptions *options, const PsSetting *setting, gboolean all, GError **error)
{
  gboolean varies;

  if (!ps_variation_finish (&options->variation, setting, &varies, error)
      || !check_combination (options, varies, all, error))
    return FALSE;
  options->sampling.seed = (guint64)options->seed;
  if (varies && options->sampling.n_samples == 0)
    options->sampling.n_samples = DEFAULT_SAMPLES;
  if (options->sampling.n_jobs == 0)
    options->sampling.n_jobs = g_get_num_processors ();
  return TRUE;
}
