/* random-costs.h - costs drawn at random, small enough that many things happen at one instant. */
#ifndef PIPESIM_TESTS_RANDOM_COSTS_H
#define PIPESIM_TESTS_RANDOM_COSTS_H

#include <pipesim/costs.h>

/* Transfers last at least `least`. */
static inline PsCosts *
random_costs (GRand *rand, guint n_stages, gint32 least)
{
  PsCosts *costs = ps_costs_new (n_stages);
  gint32 range = g_rand_boolean (rand) ? 4 : 100;
  for (guint i = 0; i < PS_N_OP_KINDS * n_stages; i++)
    costs->op[i].duration_ns = g_rand_int_range (rand, 0, range);
  for (guint i = 1; i <= 2 * n_stages; i++)
    {
      costs->transfer_ns[i] = g_rand_int_range (rand, least, least + range);
      costs->message_bytes[i] = g_rand_int_range (rand, 0, 100);
    }
  for (guint stage = 0; stage < n_stages; stage++)
    {
      gint64 act = g_rand_int_range (rand, 0, 1000);
      ps_costs_set_memory (costs, stage, act, g_rand_int_range (rand, 0, (gint32)act + 1));
      costs->weight_bytes[stage] = g_rand_int_range (rand, 0, 1000);
      costs->pair_ns[stage] = g_rand_int_range (rand, -1, range);
    }
  return costs;
}

#endif
