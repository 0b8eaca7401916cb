/* transfers.c - chooses the messages to time: many sizes one by one, and a few sizes in each way of sharing the
 * machine. */
#include "transfers.h"

#include "game.h"
#include "links.h"
#include "clock.h"
#include "rotation.h"
#include "watch.h"

#define SMALLEST_BYTES 8

/* Some twenty sizes together get about the time of two rotations. */
#define TIME_SHARE 10

static const char *const shapes[PS_N_WAYS] = { "", "both-ways", "pairs=2", "beside-compute", "" };

GArray *ps_transfer_sizes (gint64 boundary_bytes)
{
  GArray *sizes = g_array_new (FALSE, FALSE, sizeof (gint64));
  gint64 previous = 0;

  for (gint64 size = SMALLEST_BYTES; previous < 4 * boundary_bytes; size *= 2) {
    if (previous < boundary_bytes && boundary_bytes < size)
      g_array_append_val (sizes, boundary_bytes);
    g_array_append_val (sizes, size);
    previous = size;
  }
  return sizes;
}

static gboolean measure_order (const PsCalibration *calibration, const PsGameOrder *order, PsMeasurement *measurement,
                               GError **error)
{
  PsSamplingRule rule = calibration->rule;
  PsSampler sampler;

  rule.time_limit_ns /= TIME_SHARE;
  ps_game_tell_others (calibration, order);
  ps_sampler_init (&sampler, &rule);
  gboolean ok = ps_game_play (calibration, order, &sampler, &measurement->during, error);
  if (ok)
    ps_sampler_finish (&sampler, measurement);
  measurement->taken = ps_moment_now ();
  ps_sampler_clear (&sampler);
  return ok;
}

static gboolean answer_rotation (const PsCalibration *calibration, const PsGameOrder *order, GError **error)
{
  g_autoptr (PsCut) cut = ps_cut_new (calibration, (guint)order->n_chunks, error);

  if (cut == NULL)
    return FALSE;
  cut->n_slices = (guint)order->n_slices;
  return ps_calibrate_ops (calibration, cut, (guint)order->first, (guint)order->n_busy, (PsCacheState)order->cache,
                           error);
}

gboolean ps_answer_transfers (const PsCalibration *calibration, GError **error)
{
  for (;;) {
    PsGameOrder order;
    PsSampler none = { .stop = "elsewhere" };
    PsCondition unused;

    calibration->processes->receive (calibration->processes, 0, &order, sizeof order, 0);
    if (order.bytes == 0 && order.way != PS_N_WAYS)
      return TRUE;
    if (!(order.way == PS_N_WAYS ? answer_rotation (calibration, &order, error)
                                 : ps_game_play (calibration, &order, &none, &unused, error)))
      return FALSE;
  }
}

void ps_end_transfers (const PsCalibration *calibration)
{
  const PsGameOrder end = { .bytes = 0 };

  ps_game_tell_others (calibration, &end);
}

/* FALSE where the transport needs an accelerator for each device and devices of this process have to share one. */
static gboolean has_accelerators (const PsCalibration *calibration)
{
  return !calibration->transport->exclusive || (calibration->device->splits && calibration->sharing == 1);
}

/* Whether two devices of this process can add up numbers, as both weight copies of a stage do. */
static gboolean can_add_up (const PsCalibration *calibration)
{
  const PsDeviceClass *device = calibration->device;

  return !calibration->transport->spans_processes && device->gradient_memory != NULL && device->write == NULL
         && calibration->n_local >= 2;
}

/* How many devices are busy in that way; 0: it needs more than there are here. */
static guint busy_devices (const PsCalibration *calibration, PsWay way)
{
  const PsTransportClass *transport = calibration->transport;
  guint n_ranks = calibration->processes != NULL ? ps_processes_n_ranks (calibration->processes) : 0;
  guint n_local = calibration->n_local, n_players = MAX (n_ranks, 2);

  switch (way) {
  case PS_WAY_TWO_PAIRS:
    return n_ranks >= 4 || (n_ranks == 0 && n_local >= 4 && has_accelerators (calibration)) ? 4 : 0;
  case PS_WAY_BESIDE_COMPUTE:
    if (ps_game_load_is_own (calibration))
      return 2;
    return n_local > n_players ? n_local - n_players + 2 : 0;
  case PS_WAY_ALL_REDUCE:
    return transport->sum == NULL ? 0 : n_ranks > 0 ? n_ranks : can_add_up (calibration) ? 2 : 0;
  default:
    return 2;
  }
}

/* shape: of the measurement. link: the two devices of a way with one pair. */
static gboolean calibrate_message (const PsCalibration *calibration, PsWay way, const char *shape, const guint *link,
                                   gint64 bytes, gboolean *watched, GError **error)
{
  g_autoptr (PsMeasurement) measurement = g_new0 (PsMeasurement, 1);
  const PsGameOrder order = { .bytes = bytes,
                              .way = way,
                              .n_pairs = way == PS_WAY_ALL_REDUCE  ? 0
                                         : way == PS_WAY_TWO_PAIRS ? 2
                                                                   : 1,
                              .link = { (gint32)link[0], (gint32)link[1] } };
  gboolean wanted;

  measurement->subject = way == PS_WAY_ALL_REDUCE ? PS_SUBJECT_ALL_REDUCE : PS_SUBJECT_TRANSFER;
  measurement->shape = g_strdup (shape);
  measurement->bytes = bytes;
  measurement->devices = busy_devices (calibration, way);
  measurement->sharing = calibration->sharing;
  if (measurement->devices == 0)
    return TRUE;
  if (!calibration->wanted (measurement, calibration->data, &wanted, error))
    return FALSE;
  if (!wanted)
    return TRUE;
  if ((!*watched && !ps_watch (calibration, error)) || !measure_order (calibration, &order, measurement, error))
    return FALSE;
  *watched = TRUE;
  return calibration->sink (measurement, calibration->data, error);
}

/* Over the first link. */
static gboolean calibrate_size (const PsCalibration *calibration, PsWay way, gint64 bytes, gboolean *watched,
                                GError **error)
{
  static const guint first[2] = { 0, 1 };

  return calibrate_message (calibration, way, shapes[way], first, bytes, watched, error);
}

/* All sizes over the first link of each further class, and one size over the links to look at. */
static gboolean calibrate_links (const PsCalibration *calibration, GArray *sizes, gboolean *watched, GError **error)
{
  g_autoptr (GArray) links = ps_calib_links (calibration->places, calibration->known);
  gint64 boundary = ps_model_boundary_bytes (calibration->model);

  for (guint i = 0; i < links->len; i++) {
    const PsCalibLink *link = &g_array_index (links, PsCalibLink, i);
    const guint ends[2] = { link->a, link->b };

    for (guint k = 0; k < sizes->len && link->first && *link->shape; k++)
      if (!calibrate_message (calibration, PS_WAY_ONE_BY_ONE, link->shape, ends, g_array_index (sizes, gint64, k),
                              watched, error))
        return FALSE;
    if (link->sampled && !calibrate_message (calibration, PS_WAY_ONE_BY_ONE, link->key, ends, boundary, watched, error))
      return FALSE;
  }
  return TRUE;
}

gboolean ps_calibrate_transfers (const PsCalibration *calibration, GError **error)
{
  const PsModel *model = calibration->model;
  gint64 boundary = ps_model_boundary_bytes (model);
  const gint64 few[] = { SMALLEST_BYTES, boundary / 4 / SMALLEST_BYTES * SMALLEST_BYTES, boundary };
  const PsStageShape share = { .n_layers = model->layers / calibration->n_devices };
  gint64 gradients = ps_model_stage_parameters (model, &share) * (gint64)sizeof (float), size = boundary;
  g_autoptr (GArray) sizes = ps_transfer_sizes (boundary);
  gboolean watched = FALSE;

  for (guint i = 0; i < sizes->len; i++)
    if (!calibrate_size (calibration, PS_WAY_ONE_BY_ONE, g_array_index (sizes, gint64, i), &watched, error))
      return FALSE;
  if (!calibrate_links (calibration, sizes, &watched, error))
    return FALSE;
  for (guint i = 0; i < (PS_N_WAYS - 1) * G_N_ELEMENTS (few); i++) {
    PsWay way = (PsWay)(PS_WAY_BOTH_WAYS + i / G_N_ELEMENTS (few));
    guint k = i % G_N_ELEMENTS (few);

    if ((k == 0 || few[k] > few[k - 1]) && !calibrate_size (calibration, way, few[k], &watched, error))
      return FALSE;
  }
  /* Doubled, so that a model of that boundary has sizes that every device takes. */
  while (size < gradients && size <= G_MAXINT / 2)
    size *= 2;
  return size == boundary || calibrate_size (calibration, PS_WAY_ALL_REDUCE, size, &watched, error);
}
