/* setting-search-rig.h - searches under a setting, as the command makes them, and schedules of two devices in which
 * some microbatches of a stage have an R. */
#pragma once

#include "plan/setting-search.h"
#include "setting-rig.h"

#define MOVES 2000

/* NULL: a limit that nothing keeps to. */
static inline PsSearchResult *search (PsSearchPricing *pricing, const PsPlacement *placement, guint64 moves)
{
  const PsSetting *setting = pricing->setting;
  g_autofree gint64 *limit = NULL;

  g_assert_true (ps_setting_memory_limit (setting, placement->n_devices, &limit, NULL, NULL));
  PsSearchSetting search = { .placement = placement,
                             .n_microbatches = setting->n_microbatches,
                             .costs = pricing->given,
                             .memory_limit = limit,
                             .objective = setting->sync == PS_SYNC_BYPASS ? PS_OBJECTIVE_SPAN : PS_OBJECTIVE_MAKESPAN,
                             .price = ps_search_price,
                             .generate = ps_search_generate,
                             .price_data = pricing,
                             .price_is_free = pricing->samples != NULL,
                             .price_bound_ns = ps_search_price_bound (pricing, placement, pricing->given),
                             .seed = 1,
                             .move_limit = moves,
                             .n_threads = 1 };

  return ps_search (&search, NULL);
}

/* Schedules with R. */

#define P 2
#define M 4

/* Whether a microbatch of a stage has an R: a bit of a mask for each cell. */
static inline gboolean has_r (guint mask, PsOp op)
{
  return mask >> (op.stage * M + op.microbatch) & 1;
}

/* The family's schedule with an R right before each backward that the mask names. */
static inline PsSchedule *schedule_with (const char *family, guint mask)
{
  const PsFamily *found = ps_family_find (family);
  const PsFamilySetting setting = { .n_devices = P, .n_microbatches = M, .n_chunks = found->default_chunks };
  g_autoptr (PsSchedule) order = ps_family_generate (found, &setting, NULL);
  PsScheduleBuilder *builder = ps_schedule_builder_new (family, ps_placement_copy (order->placement), M);

  for (guint d = 0; d < P; d++) {
    for (guint i = order->first[d]; i < order->first[d + 1]; i++) {
      PsOp op = order->ops[i];

      if (ps_op_is_backward (op) && has_r (mask, op))
        ps_schedule_builder_add (builder, PS_OP_R, op.stage, op.microbatch);
      ps_schedule_builder_add_op (builder, op);
    }
    ps_schedule_builder_next_device (builder);
  }
  PsSchedule *schedule = ps_schedule_builder_end (builder);
  schedule->copy = g_memdup2 (order->copy, order->copy != NULL ? M : 0);
  return schedule;
}

static inline PsPrediction *predict_given (const PsSetting *setting, const PsCosts *given, const char *family,
                                           guint mask)
{
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, given);
  g_autoptr (GError) error = NULL;
  PsPrediction *prediction = ps_predictor_predict_schedule (predictor, schedule_with (family, mask), &error);

  g_assert_no_error (error);
  return prediction;
}

static inline PsPrediction *predict (const PsSetting *setting, const char *family, guint mask)
{
  return predict_given (setting, NULL, family, mask);
}

/* What the rules say for f, b, w, r, c in us and act, wact, keep in KiB. */
typedef struct {
  gint64 f, b, w, r, c, act, wact, keep;
} Draw;

static inline PsSetting *draw (GRand *random, gint64 limit, Draw *draw)
{
  gint64 act = g_rand_int_range (random, 2, 20);
  g_autofree char *line = NULL;

  *draw = (Draw){ g_rand_int_range (random, 1, 20),
                  g_rand_int_range (random, 1, 20),
                  g_rand_int_range (random, 1, 20),
                  g_rand_int_range (random, 1, 20),
                  g_rand_int_range (random, 0, 20),
                  act,
                  g_rand_int_range (random, 0, (gint32)act + 1),
                  g_rand_int_range (random, 0, (gint32)act + 1) };
  line = g_strdup_printf ("-p 2 -m 4 --costs f=%" G_GINT64_FORMAT "us:%" G_GINT64_FORMAT "us,b=%" G_GINT64_FORMAT
                          "us:%" G_GINT64_FORMAT "us,w=%" G_GINT64_FORMAT "us:%" G_GINT64_FORMAT
                          "us,r=%" G_GINT64_FORMAT "us:%" G_GINT64_FORMAT "us,c=%" G_GINT64_FORMAT
                          "us,act=%" G_GINT64_FORMAT "KiB:%" G_GINT64_FORMAT "KiB,wact=%" G_GINT64_FORMAT
                          "KiB:%" G_GINT64_FORMAT "KiB,keep=%" G_GINT64_FORMAT "KiB:%" G_GINT64_FORMAT "KiB",
                          draw->f, draw->f, draw->b, draw->b, draw->w, draw->w, draw->r, draw->r, draw->c, draw->act,
                          draw->act, draw->wact, draw->wact, draw->keep, draw->keep);
  PsSetting *setting = parse_good (line);
  if (limit > 0) {
    setting->memory_limit = g_new (gint64, 1);
    setting->memory_limit[0] = limit;
    setting->n_memory_limits = 1;
  }
  return setting;
}
