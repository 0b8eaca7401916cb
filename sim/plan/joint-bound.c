/* joint-bound.c - relaxed stages. */
#include "joint-bound.h"

#include <pipesim/search.h>
#include <pipesim/setting.h>

void
search_take_stage (PsCosts *costs, const PsCosts *from, guint stage)
{
  ps_costs_copy_stage (costs, stage, from, stage);
  if (costs->shapes != NULL)
    costs->shapes[stage] = from->shapes[stage];
}

static void
set_bytes (PsCosts *costs, PsOpKind kind, guint stage, gint64 change)
{
  ps_costs_op (costs, kind, stage)->take_bytes = MAX (change, 0);
  ps_costs_op (costs, kind, stage)->give_bytes = MAX (-change, 0);
}

guint
search_find_way (const SearchWays *ways, PsRecompute recompute)
{
  guint way = 0;

  while (way < ways->n && (ways->recompute[way] != recompute || ways->offload[way] > 0))
    way++;
  return way;
}

/* No pair whose F is on the stage is shorter: where it has no time of its own, its backward may be on any stage. */
static gint64
least_pair_ns (const PsCosts *costs, guint stage)
{
  gint64 pair_ns = costs->stage[stage].pair_ns;

  return pair_ns >= 0 ? pair_ns : ps_costs_op (costs, PS_OP_F, stage)->duration_ns;
}

/* The R of a stage that is relaxed over its ways and those costs: a microbatch without one keeps that many bytes more
 * than `kept` in each of these. */
static PsOpCost
relax_again (const SearchWays *ways, const PsCosts *costs, guint stage, gint64 kept)
{
  PsOpCost again = { G_MAXINT64, G_MAXINT64, 0 };

  for (guint i = 0; i <= ways->n; i++)
    {
      const PsCosts *way = i < ways->n ? ways->costs[i] : costs;

      again.take_bytes = MIN (again.take_bytes,
                              ps_costs_act_bytes (way, stage) - kept + ps_costs_op (way, PS_OP_R, stage)->take_bytes);
    }
  for (guint i = 0; i <= ways->n; i++)
    {
      const PsCosts *way = i < ways->n ? ways->costs[i] : costs;

      if (ps_costs_act_bytes (way, stage) < kept + again.take_bytes)
        again.duration_ns = MIN (again.duration_ns, ps_costs_op (way, PS_OP_R, stage)->duration_ns);
    }
  return again.take_bytes > 0 ? again : (PsOpCost){ 0 };
}

void
search_relax_stage (const SearchWays *ways, PsCosts *costs, guint stage)
{
  PsStageCost *cost = &costs->stage[stage];
  gint64 least_kept = ps_costs_act_bytes (costs, stage), least_left = ps_costs_wact_bytes (costs, stage);
  gint64 least_pair = least_pair_ns (costs, stage);
  gboolean has_pair = cost->pair_ns >= 0;

  for (guint i = 0; i < ways->n; i++)
    {
      const PsCosts *way = ways->costs[i];

      for (guint kind = 0; kind < PS_OP_R; kind++)
        ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns
            = MIN (ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns,
                   ps_costs_op (way, (PsOpKind)kind, stage)->duration_ns);
      least_pair = MIN (least_pair, least_pair_ns (way, stage));
      has_pair |= way->stage[stage].pair_ns >= 0;
      cost->weight_bytes = MIN (cost->weight_bytes, way->stage[stage].weight_bytes);
      least_kept = MIN (least_kept, ps_costs_act_bytes (way, stage));
      least_left = MIN (least_left, ps_costs_wact_bytes (way, stage));
    }
  cost->pair_ns = has_pair ? least_pair : -1;
  *ps_costs_op (costs, PS_OP_R, stage) = relax_again (ways, costs, stage, least_kept);
  set_bytes (costs, PS_OP_F, stage, least_kept);
  set_bytes (costs, PS_OP_B, stage, least_left - least_kept);
  set_bytes (costs, PS_OP_W, stage, -least_left);
  set_bytes (costs, PS_OP_BW, stage, -least_kept);
}

void
search_mix_stage (PsCosts *costs, const PsCosts *full, guint stage, guint n_slices)
{
  const SearchWays way = { .n = 1, .costs = { (PsCosts *)full } };
  gint64 rounded = 2 * n_slices, longer_ns = G_MAXINT64, bytes = 0;
  PsOpCost *r = ps_costs_op (costs, PS_OP_R, stage);

  if (full != NULL)
    {
      for (PsOpKind kind = PS_OP_B; kind <= PS_OP_BW; kind++)
        if (kind != PS_OP_W)
          longer_ns = MIN (longer_ns, ps_costs_op (full, kind, stage)->duration_ns
                                          - ps_costs_op (costs, kind, stage)->duration_ns);
      bytes = ps_costs_act_bytes (costs, stage) - ps_costs_act_bytes (full, stage);
      search_relax_stage (&way, costs, stage);
    }
  costs->may_recompute = TRUE;
  *r = (PsOpCost){ 0 };
  if (full == NULL || costs->warm != NULL || full->warm != NULL) /* warm ops are not like those of its costs */
    return;
  if (longer_ns > rounded && bytes > rounded)
    *r = (PsOpCost){ longer_ns - rounded, bytes - rounded, 0 };
}

void
search_mix_ways (SearchWays *ways, guint n_slices)
{
  guint none = search_find_way (ways, PS_RECOMPUTE_NONE), full = search_find_way (ways, PS_RECOMPUTE_FULL);

  if (none == ways->n || full == ways->n)
    return;
  for (guint way = 0; way < ways->n; way++)
    for (guint stage = 0; stage < ways->costs[way]->n_stages && way != full; stage++)
      search_mix_stage (ways->costs[way], way == none ? ways->costs[full] : NULL, stage, n_slices);
  ps_costs_free (ways->costs[full]);
  ways->n--;
  ways->costs[full] = ways->costs[ways->n];
  ways->recompute[full] = ways->recompute[ways->n];
  ways->offload[full] = ways->offload[ways->n];
}

gint64
search_bound (const SearchQuestion *question, const PsCosts *costs, gint64 enough)
{
  const PsSetting *setting = question->setting;
  const SearchChoice *choice = question->choice;
  g_autoptr (PsCosts) fastest = ps_setting_fastest_costs (setting, question->placement, costs, choice->n_slices, NULL);
  const PsSearchSetting search = { .placement = question->placement,
                                   .n_microbatches = choice->n_microbatches,
                                   .n_slices = choice->n_slices,
                                   .costs = fastest,
                                   .memory_limit = question->memory_limit,
                                   .objective = ps_sync_objective (setting->sync) };

  return fastest != NULL ? ps_search_bound (&search, enough, NULL) : 0;
}

gint64
search_bound_ways (const SearchQuestion *question, const SearchWays *ways, gint64 enough)
{
  g_autoptr (PsCosts) relaxed = ps_costs_copy (ways->costs[0]);

  for (guint stage = 0; stage < relaxed->n_stages; stage++)
    search_relax_stage (ways, relaxed, stage);
  return ps_setting_place (question->setting, question->placement, relaxed, NULL)
             ? MIN (search_bound (question, relaxed, enough), enough)
             : 0;
}
