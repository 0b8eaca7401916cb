/* cpu-update.c - steps the weights of a stage, for good or to try them out. */
#include "cpu-update.h"

#include <string.h>

#include "train/data.h"
#include "cpu-cut.h"
#include "cpu-kernels.h"
#include "cpu-slot.h"

static guint count_versions (const PsCpuStage *stage)
{
  return MAX (1, stage->context->setting->n_versions);
}

/* The first of the parameters whose optimizer state is here, and how many these are. */
static gsize find_own (const PsCpuStage *stage, gsize *n)
{
  const PsDeviceSetting *setting = stage->context->setting;
  const guint n_shares = setting->sharded ? stage->context->n_replicas : 1,
              own = setting->sharded ? setting->replica : 0;
  const gsize first = ps_share_begin (stage->n_parameters, own, n_shares);

  *n = ps_share_begin (stage->n_parameters, own + 1, n_shares) - first;
  return first;
}

/* Takes n floats, zeros, and gives them to *array. */
static gboolean take_array (PsCpuStage *stage, gsize n, float **array, GError **error)
{
  gsize n_own;

  *array = ps_cpu_memory_take (stage->context->memory, n, PS_USE_STATE);
  if (*array != NULL) {
    memset (*array, 0, n * sizeof (float));
    return TRUE;
  }
  find_own (stage, &n_own);
  return ps_cpu_no_room (stage, "weights, gradients and optimizer state",
                         (count_versions (stage) + 1) * stage->n_parameters + 2 * n_own, error);
}

/* Both moments are one block, so that a share of them is as large as predicted. */
gboolean ps_cpu_stage_take_parameters (PsCpuStage *stage, GError **error)
{
  const guint n_versions = count_versions (stage);
  gsize n_own;

  find_own (stage, &n_own);
  stage->versions = g_new0 (float *, n_versions);
  for (guint i = 0; i < n_versions; i++)
    if (!take_array (stage, stage->n_parameters, &stage->versions[i], error))
      return FALSE;
  if (!take_array (stage, stage->n_parameters, &stage->gradients, error)
      || !take_array (stage, 2 * n_own, &stage->momentum, error))
    return FALSE;
  stage->variance = stage->momentum + n_own;
  stage->weights = stage->versions[0];
  return !stage->context->setting->tentative || take_array (stage, stage->n_parameters, &stage->trial, error);
}

float *ps_cpu_stage_newest (const PsCpuStage *stage)
{
  return stage->versions[stage->n_steps % count_versions (stage)];
}

gboolean ps_cpu_stage_use (PsCpuStage *stage, guint64 version, GError **error)
{
  const guint n_versions = count_versions (stage);

  if (version > stage->n_steps || version + n_versions <= stage->n_steps)
    return ps_refuse (error, PS_ERROR_SCHEDULE,
                      "stage %u: an op needs version %" G_GUINT64_FORMAT
                      " of the weights: the newest is %" G_GUINT64_FORMAT ", and %u are kept",
                      stage->number, version, stage->n_steps, n_versions);
  stage->weights = stage->versions[version % n_versions];
  return TRUE;
}

/* The factor that makes the sum of gradients their mean. */
static float mean_factor (const PsCpuContext *context)
{
  return 1 / (float)(context->n_summed * context->n_replicas);
}

static void adam (const PsCpuStage *stage, float *weights, float *gradients, float *momentum, float *variance, gsize n,
                  float factor, guint64 step)
{
  const PsCpuContext *context = stage->context;

  ps_cpu_adam (weights, gradients, momentum, variance, n, factor,
               ps_data_rate (context->setting->training, context->step), step);
}

/* Makes the next weights in `trial`, a block of them after the other, and leaves all else as it is. */
static void try_step (PsCpuStage *stage)
{
  enum { BLOCK = 1024 };
  float copies[3][BLOCK];

  for (gsize i = 0; i < stage->n_parameters; i += BLOCK) {
    const gsize n = MIN (BLOCK, stage->n_parameters - i);

    memcpy (stage->trial + i, stage->versions[0] + i, n * sizeof (float));
    memcpy (copies[0], stage->gradients + i, n * sizeof (float));
    memcpy (copies[1], stage->momentum + i, n * sizeof (float));
    memcpy (copies[2], stage->variance + i, n * sizeof (float));
    adam (stage, stage->trial + i, copies[0], copies[1], copies[2], n, mean_factor (stage->context),
          stage->n_steps + 1);
  }
  stage->weights = stage->trial;
}

static void take_step (PsCpuStage *stage, float factor)
{
  const float *newest = ps_cpu_stage_newest (stage);
  gsize n_own;
  const gsize first = find_own (stage, &n_own);

  stage->n_steps++;
  stage->weights = ps_cpu_stage_newest (stage);
  if (stage->weights != newest)
    memcpy (stage->weights, newest, stage->n_parameters * sizeof (float));
  adam (stage, stage->weights + first, stage->gradients + first, stage->momentum, stage->variance, n_own, factor,
        stage->n_steps);
  if (n_own < stage->n_parameters)
    memset (stage->gradients, 0, stage->n_parameters * sizeof (float));
}

void ps_cpu_stage_optimize (PsCpuStage *stage)
{
  if (stage->trial != NULL)
    try_step (stage);
  else
    take_step (stage, mean_factor (stage->context));
}

void ps_cpu_stage_settle (PsCpuStage *stage, float scale)
{
  if (scale > 0)
    take_step (stage, mean_factor (stage->context) * scale);
  else
    memset (stage->gradients, 0, stage->n_parameters * sizeof (float));
  stage->weights = ps_cpu_stage_newest (stage);
}

double ps_cpu_stage_norm_square (const PsCpuStage *stage)
{
  return ps_cpu_stage_squares (stage, stage->gradients, mean_factor (stage->context));
}

/* Copies n numbers of this device, the first of which is parameter `first`, to their places in an array of the stage.
 */
static void read_array (const PsCpuStage *stage, const float *from, gsize first, gsize n, float *whole)
{
  if (stage->context->sizes.parts == 1) {
    memcpy (whole + first, from, n * sizeof (float));
    return;
  }
  g_autofree float *own = g_new0 (float, stage->n_parameters);
  memcpy (own + first, from, n * sizeof (float));
  ps_cpu_stage_join (stage, own, whole);
}

/* And back. */
static void write_array (const PsCpuStage *stage, float *to, gsize first, gsize n, const float *whole)
{
  g_autofree float *own = g_new (float, stage->n_parameters);

  ps_cpu_stage_cut (stage, own, whole);
  memcpy (to, own + first, n * sizeof (float));
}

void ps_cpu_stage_read_state (const PsCpuStage *stage, PsStageState *state)
{
  gsize n_own;
  const gsize first = find_own (stage, &n_own);

  g_assert (state->n == stage->n_whole);

  read_array (stage, stage->weights, 0, stage->n_parameters, state->array[PS_STATE_WEIGHTS]);
  read_array (stage, stage->momentum, first, n_own, state->array[PS_STATE_FIRST_MOMENT]);
  read_array (stage, stage->variance, first, n_own, state->array[PS_STATE_SECOND_MOMENT]);
  state->n_updates = stage->n_steps;
}

void ps_cpu_stage_write_state (PsCpuStage *stage, const PsStageState *state)
{
  gsize n_own;
  const gsize first = find_own (stage, &n_own);

  g_assert (state->n == stage->n_whole);

  write_array (stage, stage->weights, 0, stage->n_parameters, state->array[PS_STATE_WEIGHTS]);
  write_array (stage, stage->momentum, first, n_own, state->array[PS_STATE_FIRST_MOMENT]);
  write_array (stage, stage->variance, first, n_own, state->array[PS_STATE_SECOND_MOMENT]);
  stage->n_steps = state->n_updates;
}
