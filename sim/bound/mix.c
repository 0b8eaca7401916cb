/* mix.c - how many microbatches of a device recompute: R saves memory over time, and takes time. */
#include "mix.h"

#include "ways.h"

/* Slices and speeds round R and the ops that it is part of apart, by less than this many ns or bytes. */
#define ROUNDED 2

/* All stages of a device together. */
typedef struct
{
  const PsMix *mix;
  gint64 n;            /* forwards */
  gint64 n_again;      /* of microbatches that may have an R */
  gint64 forward;      /* longest F */
  gint64 kept;         /* least bytes that an F keeps, with an R.. */
  gint64 kept_all;     /* ..and without */
  gint64 most_dropped; /* bytes of any R */
  gint64 again;        /* shortest R */
  PsByteTime area;     /* of all microbatches, without R */
} Device;

PsOpCost
ps_mix_again (const PsCosts *costs, guint stage)
{
  const PsOpCost *r = ps_costs_op (costs, PS_OP_R, stage);
  guint i = ps_op_index (costs->n_stages, costs->n_lengths, PS_OP_R, 0, stage);
  gint64 duration_ns = r->duration_ns - ps_host_time_sum (ps_costs_host_time (costs, i)) - ROUNDED,
         bytes = r->take_bytes + MIN (ps_costs_act_bytes (costs, stage), 0) - ROUNDED; /* bounds take no act below 0 */

  if (!costs->may_recompute || duration_ns <= 0 || bytes <= 0 || ps_costs_have_pair_times (costs))
    return (PsOpCost){ 0 };
  return (PsOpCost){ duration_ns, bytes, 0 };
}

static Device
add_up (const PsMix *mix)
{
  Device device = { .mix = mix, .kept = G_MAXINT64, .kept_all = G_MAXINT64, .again = G_MAXINT64 };

  for (guint i = 0; i < mix->n_stages; i++)
    {
      const PsMixStage *stage = &mix->stage[i];
      gint64 dropped = stage->again.take_bytes;

      device.n += stage->n;
      device.forward = MAX (device.forward, stage->forward);
      device.kept = MIN (device.kept, stage->kept);
      device.kept_all = MIN (device.kept_all, stage->kept + dropped);
      device.area += stage->n * stage->area;
      if (dropped == 0)
        continue;
      device.n_again += stage->n;
      device.most_dropped = MAX (device.most_dropped, dropped);
      device.again = MIN (device.again, stage->again.duration_ns);
    }
  return device;
}

/* How many forwards fit at once, where `pending` of them at most have an R yet to come. */
static gint64
most_forwards (const Device *device, gint64 pending)
{
  PsByteTime room = device->mix->room, most = device->n;

  if (device->kept > 0)
    most = MIN (most, room / device->kept);
  if (device->kept_all > 0)
    most = MIN (most, (room + (PsByteTime)pending * device->most_dropped) / device->kept_all);
  return (gint64)most;
}

PS_DEFINE_FALLING_ORDER (compare_saved, PsMixStage, saved)

/* Returns the bytes times time that n R ops save at most. `stages` begins with the stage whose R saves most. */
static PsByteTime
most_saved (const PsMixStage *stages, gint64 n)
{
  PsByteTime saved = 0;

  for (; n > 0; n -= stages->n, stages++)
    saved += MIN (n, stages->n) * stages->saved;
  return saved;
}

/* The end if n_again microbatches have an R, in which they hold `area`. Before the first gradient the device starts as
 * many F as fit beside each other, and R are of no use there. */
static gint64
end_with (const Device *device, gint64 n_again, PsByteTime area)
{
  const PsMix *mix = device->mix;
  PsByteTime forwards = (PsByteTime)most_forwards (device, n_again) * device->forward,
             full = (area + mix->room - 1) / mix->room,
             busy = MAX (mix->gradient - forwards, mix->begin) + mix->load + (PsByteTime)n_again * device->again;

  return (gint64)MIN (MAX (full, busy), G_MAXINT64);
}

gint64
ps_mix_bound (const PsMix *mix)
{
  g_autofree PsMixStage *stages = g_memdup2 (mix->stage, mix->n_stages * sizeof *stages);
  const Device device = add_up (mix);
  gint64 least = G_MAXINT64;

  qsort (stages, mix->n_stages, sizeof *stages, compare_saved);
  for (gint64 n = 0; n <= device.n_again && mix->begin + mix->load + n * device.again < least; n++)
    least = MIN (least, end_with (&device, n, device.area + mix->empty - most_saved (stages, n)));
  return least;
}
