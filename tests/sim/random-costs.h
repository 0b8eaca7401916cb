/* random-costs.h - costs drawn at random, small enough that many things happen at one instant. */
#pragma once

#include <pipesim/costs.h>

/* Ops, transfers and half of the pairs take multiples of unit_ns below limit units; the other pairs take what their ops
 * take. Nothing needs memory. */
static inline PsCosts *random_times (GRand *rand, guint n_stages, gint64 unit_ns, gint32 limit)
{
  PsCosts *costs = ps_costs_new (n_stages);

  for (guint i = 0; i < PS_N_OP_KINDS * n_stages; i++)
    costs->op[i].duration_ns = unit_ns * g_rand_int_range (rand, 0, limit);
  for (guint i = 1; i <= 2 * n_stages; i++)
    costs->transfer_ns[i] = unit_ns * g_rand_int_range (rand, 0, limit);
  for (guint stage = 0; stage < n_stages; stage++)
    costs->stage[stage].pair_ns = g_rand_boolean (rand) ? unit_ns * g_rand_int_range (rand, 0, limit) : -1;
  return costs;
}

/* Multiples of unit_ns; in half of the cases none. device is the placement's. */
static inline void random_host_times (GRand *rand, PsCosts *costs, gint64 unit_ns, const guint16 *device,
                                      guint n_copies)
{
  if (g_rand_boolean (rand))
    return;
  costs->op_ns = unit_ns * g_rand_int_range (rand, 0, 20);
  costs->post_ns = unit_ns * g_rand_int_range (rand, 0, 20);
  ps_costs_add_host_time (costs, device, n_copies);
}

static inline void random_sizes (GRand *rand, PsCosts *costs)
{
  for (guint i = 1; i <= 2 * costs->n_stages; i++)
    costs->message_bytes[i] = g_rand_int_range (rand, 0, 100);
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    gint64 act = g_rand_int_range (rand, 0, 1000);

    ps_costs_set_memory (costs, stage, act, g_rand_int_range (rand, 0, (gint32)act + 1));
    costs->stage[stage].weight_bytes = g_rand_int_range (rand, 0, 1000);
  }
}

/* Messages of no known size, so that peaks are those of ops alone. */
static inline void forget_messages (PsCosts *costs)
{
  for (guint i = 1; i <= 2 * costs->n_stages; i++)
    costs->message_bytes[i] = 0;
}

/* Both; transfers last at least `least`. */
static inline PsCosts *random_costs (GRand *rand, guint n_stages, gint32 least)
{
  PsCosts *costs = random_times (rand, n_stages, 1, g_rand_boolean (rand) ? 4 : 100);

  for (guint i = 1; i <= 2 * n_stages; i++)
    costs->transfer_ns[i] += least;
  random_sizes (rand, costs);
  return costs;
}
