/* random-schedule.h - schedules that can run, drawn at random: some device that can go on appends an op whose inputs
 * exist, until all is done. Placement, splitting of backwards and pairs are random too. */
#pragma once

#include <pipesim/schedule.h>

typedef struct {
  GRand *rand;
  PsPlacement *placement;
  guint m;
  guint8 *seen;   /* [stage * m + microbatch] bits of op kinds */
  guint8 *split;  /* [stage * m + microbatch] B and W rather than BW */
  GArray **order; /* [n_devices] */
} RandomSchedule;

static inline guint random_below (GRand *rand, guint n)
{
  return (guint)g_rand_int_range (rand, 0, (gint32)n);
}

static inline gboolean random_ready (const RandomSchedule *random, PsOp op)
{
  const guint8 *seen = &random->seen[op.stage * random->m + op.microbatch];
  gboolean forward = *seen & 1 << PS_OP_F, backward = *seen & (1 << PS_OP_B | 1 << PS_OP_BW);
  gboolean last = op.stage + 1U == random->placement->n_stages;

  switch (op.kind) {
  case PS_OP_F:
    return !forward && (op.stage == 0 || (seen[-(int)random->m] & 1 << PS_OP_F));
  case PS_OP_W:
    return (*seen & 1 << PS_OP_B) && !(*seen & 1 << PS_OP_W);
  default:
    return forward && !backward && (last || (seen[random->m] & (1 << PS_OP_B | 1 << PS_OP_BW)));
  }
}

/* One op that could be next on some device. */
static inline gboolean random_pick (RandomSchedule *random, guint device, PsOp *op)
{
  guint n_stages = random->placement->n_stages;

  for (guint tries = 0; tries < 50; tries++) {
    guint stage = random_below (random->rand, n_stages), microbatch = random_below (random->rand, random->m);
    PsOpKind backward = random->split[stage * random->m + microbatch] ? PS_OP_B : PS_OP_BW;
    const PsOpKind kinds[] = { PS_OP_F, backward, PS_OP_W };

    *op = (PsOp){ .kind = (guint8)kinds[random_below (random->rand, 3)],
                  .stage = (guint16)stage,
                  .microbatch = microbatch & G_MAXINT32 };
    if (ps_placement_device (random->placement, 0, stage) == device && random_ready (random, *op))
      return TRUE;
  }
  return FALSE;
}

static inline void random_place (RandomSchedule *random, guint device, PsOp op)
{
  g_array_append_val (random->order[device], op);
  random->seen[op.stage * random->m + op.microbatch] |= (guint8)(1 << op.kind);
}

static inline gboolean random_is_pair (PsOp a, PsOp b)
{
  return (a.kind == PS_OP_F) != (b.kind == PS_OP_F) && a.kind != PS_OP_W && b.kind != PS_OP_W
         && (a.stage != b.stage || a.microbatch != b.microbatch);
}

static inline guint random_step (RandomSchedule *random, gboolean pairs)
{
  guint device = random_below (random->rand, random->placement->n_devices);
  PsOp a, b;

  if (!random_pick (random, device, &a))
    return 0;
  gboolean paired = pairs && random_pick (random, device, &b) && random_is_pair (a, b);
  a.paired = paired;
  random_place (random, device, a);
  if (paired)
    random_place (random, device, b);
  return paired ? 2 : 1;
}

static inline PsPlacement *random_placement (GRand *rand)
{
  guint n_devices = 1 + random_below (rand, 4), n_stages = n_devices + random_below (rand, 5);
  g_autofree guint16 *device = g_new (guint16, n_stages);

  for (guint stage = 0; stage < n_stages; stage++)
    device[stage] = (guint16)(stage < n_devices ? stage : random_below (rand, n_devices));
  return ps_placement_new_custom (n_devices, n_stages, 1, device);
}

static inline PsSchedule *random_schedule (GRand *rand, gboolean pairs)
{
  RandomSchedule random = { .rand = rand, .placement = random_placement (rand), .m = 1 + random_below (rand, 5) };
  guint cells = random.placement->n_stages * random.m, left = 0;

  random.seen = g_new0 (guint8, cells);
  random.split = g_new0 (guint8, cells);
  random.order = g_new (GArray *, random.placement->n_devices);
  for (guint i = 0; i < cells; i++)
    left += 2 + (random.split[i] = (guint8)random_below (rand, 2));
  for (guint device = 0; device < random.placement->n_devices; device++)
    random.order[device] = g_array_new (FALSE, FALSE, sizeof (PsOp));
  while (left > 0)
    left -= random_step (&random, pairs);
  guint n_devices = random.placement->n_devices;
  PsScheduleBuilder *builder = ps_schedule_builder_new ("random", random.placement, random.m);
  for (guint device = 0; device < n_devices; device++) {
    for (guint i = 0; i < random.order[device]->len; i++)
      ps_schedule_builder_add_op (builder, g_array_index (random.order[device], PsOp, i));
    ps_schedule_builder_next_device (builder);
    g_array_unref (random.order[device]);
  }
  g_free (random.order);
  g_free (random.seen);
  g_free (random.split);
  return ps_schedule_builder_end (builder);
}
