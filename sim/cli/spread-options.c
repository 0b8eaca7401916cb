/* spread-options.c - what may vary, as the user says it. */
#include "predict-spread.h"

#define DEFAULT_SAMPLES 10000
#define MAX_JOBS 1024

void
ps_spread_options_add (PsSpreadOptions *options, GOptionContext *context)
{
  const GOptionEntry entries[] = {
    { "samples", 0, 0, G_OPTION_ARG_STRING, &options->samples,
      "Simulate this many iterations with varying costs (10000)", "N" },
    { "jitter", 0, 0, G_OPTION_ARG_STRING, &options->jitter,
      "Relative standard deviation of every op and transfer, e.g. 0.05; measured: as the samples in --db spread",
      "DEVIATION|measured" },
    { "straggler", 0, 0, G_OPTION_ARG_STRING_ARRAY, &options->stragglers,
      "A device whose ops take FACTOR times as long, in that part of the iterations (1); may be repeated",
      "DEVICE:FACTOR[:PROBABILITY]" },
    { "slow-link", 0, 0, G_OPTION_ARG_STRING_ARRAY, &options->slow_links,
      "Likewise transfers between two devices, both ways; a failed link is one with a detour; may be repeated",
      "A-B:FACTOR[:PROBABILITY]" },
    { "tornado", 0, 0, G_OPTION_ARG_NONE, &options->tornado, "Show which part's spread moves the iteration most",
      NULL },
    { "seed", 0, 0, G_OPTION_ARG_STRING, &options->seed, "Seed of the random numbers (1)", "N" },
    { "jobs", 0, 0, G_OPTION_ARG_STRING, &options->jobs, "Threads that sample (one per processor); changes no figure",
      "N" },
    G_OPTION_ENTRY_NULL,
  };

  g_option_context_add_main_entries (context, entries, NULL);
}

void
ps_spread_options_clear (PsSpreadOptions *options)
{
  g_free (options->samples);
  g_free (options->jitter);
  g_free (options->seed);
  g_free (options->jobs);
  g_strfreev (options->stragglers);
  g_strfreev (options->slow_links);
  g_free (options->slowness);
}

static gboolean
read_jitter (PsSpreadOptions *options, const PsSetting *setting, GError **error)
{
  const char *text = options->jitter;

  options->is_measured = g_strcmp0 (text, "measured") == 0;
  if (options->is_measured && setting->db == NULL)
    {
      g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE,
                           "--jitter measured: needs --db FILE, the database that holds the samples");
      return FALSE;
    }
  if (text == NULL || options->is_measured)
    return TRUE;
  return ps_parse_number ("--jitter", text, 0, PS_MAX_JITTER, &options->uncertainty.jitter, error);
}

static gboolean
read_slowness (PsSpreadOptions *options, GError **error)
{
  guint n_stragglers = options->stragglers ? g_strv_length (options->stragglers) : 0;
  guint n_links = options->slow_links ? g_strv_length (options->slow_links) : 0;

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

static gboolean
read_number (const char *where, const char *text, gint64 low, gint64 high, gint64 otherwise, gint64 *value,
             GError **error)
{
  *value = otherwise;
  return text == NULL || ps_parse_integer (where, text, low, high, value, error);
}

static gboolean
read_sampling (PsSpreadOptions *options, GError **error)
{
  gint64 samples, seed, jobs;

  if (!read_number ("--samples", options->samples, 1, PS_MAX_SAMPLES, DEFAULT_SAMPLES, &samples, error)
      || !read_number ("--seed", options->seed, 0, G_MAXINT64, 1, &seed, error)
      || !read_number ("--jobs", options->jobs, 1, MAX_JOBS, g_get_num_processors (), &jobs, error))
    return FALSE;
  options->sampling = (PsSampling){ .n_samples = (guint)samples, .seed = (guint64)seed, .n_jobs = (guint)jobs };
  return TRUE;
}

/* Options that make no sense together, or alone. */
static gboolean
check_combination (const PsSpreadOptions *options, gboolean varies, gboolean all, GError **error)
{
  const char *message = NULL;

  if (!varies && (options->samples || options->seed || options->jobs || options->tornado))
    message = "--samples: nothing varies; give --jitter, --straggler or --slow-link";
  else if (options->tornado && all)
    message = "--tornado: is of one schedule, not of several";
  if (message)
    g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE, message);
  return message == NULL;
}

gboolean
ps_spread_options_finish (PsSpreadOptions *options, const PsSetting *setting, gboolean all, GError **error)
{
  gboolean varies = options->jitter || options->stragglers || options->slow_links;

  if (!check_combination (options, varies, all, error))
    return FALSE;
  return !varies
         || (read_jitter (options, setting, error) && read_slowness (options, error) && read_sampling (options, error));
}
