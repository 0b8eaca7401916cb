/* lengths.c - the tokens of each microbatch of a run. */
#include "lengths.h"

#include <pipesim/setting.h>

static gboolean
check (const PsSetting *setting, const PsLengths *lengths, const PsSchedule *schedule, const PsRunSetting *run,
       GError **error)
{
  if (!run->device->lengths)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "--lengths: device %s runs microbatches that are alike",
                      run->device->name);
  if (schedule->n_slices > 1)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "--lengths: sequences of different lengths cannot be sliced");
  if (lengths->n != schedule->n_microbatches)
    return ps_refuse (error, PS_ERROR_USAGE, "--lengths %s: has %u microbatches; the schedule has %u", setting->lengths,
                      lengths->n, schedule->n_microbatches);
  if (setting->microbatch_order != PS_ORDER_GIVEN && ps_setting_source (setting) == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--microbatch-order: needs costs, which say how long microbatches take");
  for (guint i = 0; i < lengths->n_lengths; i++)
    if (lengths->length[i].tokens == 0)
      return ps_refuse (error, PS_ERROR_USAGE, "--lengths %s: has factors; device %s needs tokens", setting->lengths,
                        run->device->name);
    else if (lengths->length[i].tokens > run->model->sequence)
      return ps_refuse (error, PS_ERROR_USAGE, "--lengths %s: %u tokens are more than the model's sequence of %u",
                        setting->lengths, lengths->length[i].tokens, run->model->sequence);
  return TRUE;
}

gboolean
ps_run_lengths (const PsSetting *setting, const PsSchedule *schedule, PsRunSetting *run, GError **error)
{
  g_autoptr (PsLengths) lengths = NULL;
  guint *tokens;

  if (setting->lengths == NULL)
    return TRUE;
  lengths = ps_lengths_read (setting->lengths, error);
  if (lengths == NULL || !check (setting, lengths, schedule, run, error))
    return FALSE;
  run->n_tokens = lengths->n;
  run->tokens = tokens = g_new (guint, lengths->n);
  for (guint i = 0; i < lengths->n; i++)
    tokens[i] = lengths->length[schedule->length != NULL ? schedule->length[i] : lengths->of[i]].tokens;
  return TRUE;
}
