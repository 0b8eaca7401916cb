/* spread-options.c - what may vary, as the user says it. */
#include "predict-spread.h"

#define DEFAULT_SAMPLES 10000
#define MAX_JOBS 1024

const PsOption ps_spread_rows[] = {
  PS_OPTION ("samples", 0, PS_COUNT (PsSpreadOptions, sampling.n_samples, 1, PS_MAX_SAMPLES), "N",
             "Number of iterations to simulate with varying costs", .otherwise = "10000", .group = PS_GROUP_VARIATION),
  PS_OPTION ("jitter", 0, PS_NUMBER (PsSpreadOptions, uncertainty.jitter, 0, PS_MAX_JITTER), "DEVIATION|measured",
             "Relative standard deviation of every op and transfer, e.g. 0.05; measured: that of the samples in --db",
             .given = PS_MEMBER (PsSpreadOptions, has_jitter, gboolean), .any = "measured",
             .any_offset = PS_MEMBER (PsSpreadOptions, is_measured, gboolean), .group = PS_GROUP_VARIATION,
             .otherwise = "none"),
  PS_OPTION (
      "straggler", 0, PS_TEXTS (PsSpreadOptions, stragglers), "DEVICE:FACTOR[:PROBABILITY]",
      "A device whose ops take FACTOR times as long, in this part of the iterations, 1 unless given; may be repeated",
      .group = PS_GROUP_VARIATION),
  PS_OPTION ("slow-link", 0, PS_TEXTS (PsSpreadOptions, slow_links), "A-B:FACTOR[:PROBABILITY]",
             "Two devices whose transfers, both ways, take FACTOR times as long; a failed link is one with a detour; "
             "may be repeated",
             .group = PS_GROUP_VARIATION),
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
ps_spread_options_clear (PsSpreadOptions *options)
{
  g_free (options->slowness);
}

static gboolean
read_slowness (PsSpreadOptions *options, GError **error)
{
  guint n_stragglers = options->stragglers != NULL ? g_strv_length (options->stragglers) : 0;
  guint n_links = options->slow_links != NULL ? g_strv_length (options->slow_links) : 0;

  options->slowness = g_new0 (PsSlowness, n_stragglers + n_links + 1);
  for (guint i = 0; i < n_stragglers; i++)
    if (!ps_slowness_parse ("--straggler", options->stragglers[i], FALSE, &options->slowness[i], error))
      return FALSE;
  for (guint i = 0; i < n_links; i++)
    if (!ps_slowness_parse ("--slow-link", options->slow_links[i], TRUE, &options->slowness[n_stragglers + i], error))
      return FALSE;
  options->uncertainty.slowness = options->slowness;
  options->uncertainty.n_slowness = n_stragglers + n_links;
  return TRUE;
}

/* Options that make no sense together, or alone. */
static gboolean
check_combination (const PsSpreadOptions *options, const PsSetting *setting, gboolean varies, gboolean all,
                   GError **error)
{
  const char *message = NULL;

  if (!varies
      && (options->sampling.n_samples > 0 || options->has_seed || options->sampling.n_jobs > 0 || options->tornado))
    message = "--samples: nothing varies; give --jitter, --straggler or --slow-link";
  else if (options->is_measured && setting->db == NULL)
    message = "--jitter measured: needs --db FILE, the database that holds the samples";
  else if (options->tornado && all)
    message = "--tornado: is of one schedule, not of several";
  if (message != NULL)
    g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE, message);
  return message == NULL;
}

gboolean
ps_spread_options_finish (PsSpreadOptions *options, const PsSetting *setting, gboolean all, GError **error)
{
  gboolean varies
      = options->has_jitter || options->is_measured || options->stragglers != NULL || options->slow_links != NULL;

  if (!check_combination (options, setting, varies, all, error) || (varies && !read_slowness (options, error)))
    return FALSE;
  options->sampling.seed = (guint64)options->seed;
  if (varies && options->sampling.n_samples == 0)
    options->sampling.n_samples = DEFAULT_SAMPLES;
  if (options->sampling.n_jobs == 0)
    options->sampling.n_jobs = g_get_num_processors ();
  return TRUE;
}
