/* search-joint.c - moves over what a search holds fixed. */
#include "search-joint.h"

#include "joint-bound.h"
#include "search-recompute.h"

#include <pipesim/setting.h>

#include <string.h>

/* Each change is searched for this part of the time or the moves. */
#define N_TRIALS 40

/* Changes in a row that a bound refuses, until there seem to be no others. */
#define MAX_REFUSED 400

/* The order of a stage that recomputes some microbatches is searched as if each recomputed a part of its activations.
 * The part is 1 / N_PARTS, 2 / N_PARTS, .. or all. */
#define N_PARTS 4

/* All that is decided, but for the schedule. */
typedef struct
{
  guint *end;             /* [n_stages] first unit of the model after each stage; NULL: stages are given */
  guint8 *of;             /* [n_stages] the way that each is run */
  guint8 *some;           /* [n_stages] above 0: the way is to keep all, and some microbatches have an R; the order is
                             searched as if all recomputed that many N_PARTS of it */
  PsPlacement *placement; /* the device that holds each */
  PsCosts *costs;         /* of these stages there */
  PsCosts *searched;      /* in place of these for the order; NULL: they are the same */
} State;

typedef struct
{
  PsSetting setting;
  const SearchChoice *choice;
  SearchLimits limits; /* of one trial */
  guint n_stages;
  SearchQuestion question; /* its placement is that of the state in hand */
  gboolean places;         /* stages may move to other devices */
  PsStageShape *units;
  guint n_units;
  PsStageShape *shapes; /* scratch, [n_stages] */
  guint *read;          /* [n_stages] the cut that was asked for last */
  SearchWays ways;      /* of that cut */
  guint *read_before;   /* the cut before it */
  SearchWays ways_before;
  PsModel *model; /* NULL: stages are given */
  GRand *random;
  gboolean any_chunks; /* of a device */
  gboolean may_mix;    /* microbatches of a stage may differ, so bounds allow for it */
  gboolean mixes;      /* and draws try it: it helps only under a memory limit */
  const SearchFound *best;
} Joint;

static void
ways_clear (SearchWays *ways)
{
  for (guint i = 0; i < ways->n; i++)
    ps_costs_free (ways->costs[i]);
  ways->n = 0;
}

static void
state_clear (State *state)
{
  g_clear_pointer (&state->end, g_free);
  g_clear_pointer (&state->of, g_free);
  g_clear_pointer (&state->some, g_free);
  g_clear_pointer (&state->placement, ps_placement_free);
  g_clear_pointer (&state->costs, ps_costs_free);
  g_clear_pointer (&state->searched, ps_costs_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (State, state_clear)

static void
joint_clear (Joint *joint)
{
  ways_clear (&joint->ways);
  ways_clear (&joint->ways_before);
  g_free (joint->question.memory_limit);
  g_free (joint->units);
  g_free (joint->shapes);
  g_free (joint->read);
  g_free (joint->read_before);
  ps_model_free (joint->model);
  g_clear_pointer (&joint->random, g_rand_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Joint, joint_clear)

/* Reads the costs of the stages in each way that the source knows. shapes NULL: they are those of the first way, the
 * setting's own. FALSE: there are none for that one. */
static gboolean
read_stages (const Joint *joint, const PsStageShape *shapes, SearchWays *ways)
{
  PsSetting setting = joint->setting;
  guint n_devices = setting.n_devices;

  setting.known_shapes = shapes;
  for (guint i = 0; i < SEARCH_MAX_WAYS; i++)
    {
      setting.recompute = (joint->setting.recompute + i) % 3;
      setting.offload = i < 3 ? joint->setting.offload : 0;
      if (i >= 3 && joint->setting.offload == 0)
        break;
      PsCosts *costs = i == 0 || shapes != NULL ? ps_setting_costs (&setting, n_devices, joint->choice->n_chunks, NULL)
                                                : ps_setting_costs_alike (&setting, ways->costs[0], n_devices, NULL);
      if (costs == NULL && i == 0)
        return FALSE;
      if (costs == NULL)
        continue;
      ways->recompute[ways->n] = setting.recompute;
      ways->offload[ways->n] = setting.offload;
      ways->costs[ways->n++] = costs;
    }
  return TRUE;
}

/* A stage recomputes some parts of N_PARTS of all that it could. */
static void
recompute_part (const Joint *joint, PsCosts *costs, guint stage, guint part)
{
  const PsCosts *none = joint->ways.costs[search_find_way (&joint->ways, PS_RECOMPUTE_NONE)];
  const PsCosts *full = joint->ways.costs[search_find_way (&joint->ways, PS_RECOMPUTE_FULL)];
  gint64 bytes = ps_costs_act_bytes (none, stage) - ps_costs_act_bytes (full, stage);
  gint64 longer_ns = ps_costs_op (full, PS_OP_B, stage)->duration_ns - ps_costs_op (none, PS_OP_B, stage)->duration_ns;

  ps_costs_drop (costs, stage, costs->shapes != NULL ? MAX (costs->shapes[stage].n_layers, 1) : 1,
                 MAX (bytes, 0) * part / N_PARTS, MAX (longer_ns, 0) * part / N_PARTS);
}

static gboolean
compose (const Joint *joint, State *state)
{
  state->costs = ps_costs_copy (joint->ways.costs[0]);
  for (guint stage = 0; stage < joint->n_stages; stage++)
    search_take_stage (state->costs, joint->ways.costs[state->of[stage]], stage);
  if (!ps_setting_place (&joint->setting, state->placement, state->costs, NULL))
    return FALSE;
  for (guint stage = 0; stage < joint->n_stages; stage++)
    if (state->some[stage] > 0)
      {
        if (state->searched == NULL)
          state->searched = ps_costs_copy (state->costs);
        recompute_part (joint, state->searched, stage, state->some[stage]);
      }
  return TRUE;
}

static void
swap_cuts (Joint *joint)
{
  SearchWays ways = joint->ways;
  guint *read = joint->read;

  joint->ways = joint->ways_before;
  joint->ways_before = ways;
  joint->read = joint->read_before;
  joint->read_before = read;
}

/* As read_stages, for a cut. The last two cuts are kept: most draws keep the cut of the state. */
static gboolean
read_ways (Joint *joint, const guint *end)
{
  SearchWays *ways = &joint->ways;
  gsize size = joint->n_stages * sizeof *end;

  if (ways->n > 0 && (end == NULL || memcmp (end, joint->read, size) == 0))
    return TRUE;
  swap_cuts (joint);
  if (ways->n > 0 && memcmp (end, joint->read, size) == 0)
    return TRUE;
  ways_clear (ways);
  if (end != NULL)
    {
      memcpy (joint->read, end, size);
      ps_stage_shapes_join (joint->units, end, joint->n_stages, joint->shapes);
    }
  return read_stages (joint, end != NULL ? joint->shapes : NULL, ways);
}

/* No schedule of the state's stages where they are is faster, whatever they recompute and offload. */
static gint64
bound_state (Joint *joint, const State *state, gint64 enough)
{
  SearchQuestion question = joint->question;

  question.placement = state->placement;
  if (joint->may_mix)
    search_mix_ways (&joint->ways, joint->choice->n_slices);
  return search_bound_ways (&question, &joint->ways, enough);
}

/* Draws another device for a stage; it gets a stage of that device in return, or none where devices may hold different
 * numbers of stages. FALSE: the draw changes nothing, or leaves a device without stages. */
static gboolean
draw_device (const Joint *joint, State *state, guint stage)
{
  guint n = joint->n_stages;
  g_autofree guint16 *device = g_memdup2 (state->placement->device, n * sizeof *device);
  guint16 from = device[stage], to = (guint16)g_rand_int_range (joint->random, 0, (gint32)joint->setting.n_devices);
  guint other = (guint)g_rand_int_range (joint->random, 0, (gint32)n);
  gboolean moves = joint->any_chunks && g_rand_boolean (joint->random), holds = FALSE;

  if (!moves)
    to = device[other];
  device[stage] = to;
  if (!moves)
    device[other] = from;
  for (guint s = 0; s < n; s++)
    holds |= device[s] == from;
  ps_placement_free (state->placement);
  state->placement = ps_placement_new_custom (joint->setting.n_devices, n, 1, device);
  return holds && from != to;
}

/* Draws another end for a stage, another device, or another way for one or several in a row; in some ways microbatches
 * differ. FALSE: the draw changes nothing. */
static gboolean
draw (Joint *joint, const State *from, State *state)
{
  guint n = joint->n_stages, stage = (guint)g_rand_int_range (joint->random, 0, (gint32)n);
  guint last = g_rand_boolean (joint->random)
                   ? stage + 1
                   : (guint)g_rand_int_range (joint->random, (gint32)stage + 1, (gint32)n + 1);
  gboolean changes = FALSE;
  guint8 way, some = 0;
  gboolean places = joint->places && (joint->ways.n == 1 || g_rand_boolean (joint->random));
  gboolean cuts = from->end != NULL && stage + 1 < n && g_rand_boolean (joint->random);

  state->of = g_memdup2 (from->of, n);
  state->some = g_memdup2 (from->some, n);
  state->end = g_memdup2 (from->end, from->end != NULL ? n * sizeof *from->end : 0);
  state->placement = ps_placement_copy (from->placement);
  if (places)
    return draw_device (joint, state, stage);
  if (cuts)
    {
      guint begin = stage > 0 ? from->end[stage - 1] : 0;

      state->end[stage] += g_rand_boolean (joint->random) ? 1 : -1;
      return state->end[stage] > begin && state->end[stage] < from->end[stage + 1];
    }
  way = (guint8)g_rand_int_range (joint->random, 0, (gint32)joint->ways.n + (joint->mixes ? N_PARTS : 0));
  if (way >= joint->ways.n)
    {
      some = (guint8)(1 + way - joint->ways.n);
      way = (guint8)search_find_way (&joint->ways, PS_RECOMPUTE_NONE);
    }
  for (guint s = stage; s < last; s++)
    {
      changes |= state->of[s] != way || state->some[s] != some;
      state->of[s] = way;
      state->some[s] = some;
    }
  return changes;
}

/* Gives the setting what all stages do, or each does where they differ. */
static void
set_ways (const Joint *joint, const State *state, PsSetting *setting)
{
  const SearchWays *ways = &joint->ways;
  guint n = joint->n_stages;
  gboolean kinds_differ = FALSE, ratios_differ = FALSE;

  setting->recompute = ways->recompute[state->of[0]];
  setting->offload = ways->offload[state->of[0]];
  setting->recompute_each = g_new (PsRecompute, n);
  setting->offload_each = g_new (double, n);
  for (guint s = 0; s < n; s++)
    {
      setting->recompute_each[s] = ways->recompute[state->of[s]];
      setting->offload_each[s] = ways->offload[state->of[s]];
      kinds_differ |= setting->recompute_each[s] != setting->recompute;
      ratios_differ |= setting->offload_each[s] != setting->offload;
    }
  setting->n_recompute = kinds_differ ? n : 0;
  setting->n_offload = ratios_differ ? n : 0;
}

/* Lets as few microbatches recompute as fit into memory with that order. */
static gboolean
recompute_some (const Joint *joint, const State *state, SearchFound *tried)
{
  PsSetting setting = joint->setting;
  gboolean fits;

  set_ways (joint, state, &setting);
  fits = search_recompute (&setting, &joint->limits, state->costs, state->some, tried);
  g_free (setting.recompute_each);
  g_free (setting.offload_each);
  return fits;
}

/* Searches with the state's costs, from the schedule found so far. TRUE: *found is better now. */
static gboolean
try_state (Joint *joint, State *state, SearchFound *found)
{
  PsSetting setting = joint->setting;
  SearchLimits limits = joint->limits;
  g_autoptr (PsSchedule) start = search_carry_over (joint->best, state->placement);
  g_auto (SearchFound) tried = { 0 };

  limits.start = start;
  limits.placement = state->placement;
  if (!search_try (&setting, joint->choice, &limits, state->searched != NULL ? state->searched : state->costs, &tried,
                   NULL)
      || (state->searched != NULL && !recompute_some (joint, state, &tried))
      || tried.figure_ns >= joint->best->figure_ns)
    return FALSE;
  search_found_clear (found);
  *found = tried;
  tried = (SearchFound){ 0 };
  joint->best = found;
  return TRUE;
}

/* Whether a schedule of these stages can be better, as far as a bound tells. */
static gboolean
may_help (const Joint *joint, const State *state)
{
  SearchQuestion question = joint->question;
  const PsCosts *full = joint->ways.costs[search_find_way (&joint->ways, PS_RECOMPUTE_FULL) % joint->ways.n];
  g_autoptr (PsCosts) costs = ps_costs_copy (state->costs);

  for (guint stage = 0; stage < joint->n_stages; stage++)
    search_mix_stage (costs, state->some[stage] > 0 ? full : NULL, stage, joint->choice->n_slices);
  question.placement = state->placement;
  return joint->limits.samples->objective != SEARCH_TIME
         || search_bound (&question, costs, G_MAXINT64) < joint->best->result->price_ns;
}

static gboolean
differ (const gint64 *limit, const double *speed, guint n)
{
  for (guint d = 1; d < n; d++)
    if ((limit != NULL && limit[d] != limit[0]) || (speed != NULL && speed[d] != speed[0]))
      return TRUE;
  return FALSE;
}

/* Lets stages move to other devices where no placement was asked for, and where it may help: devices hold several
 * stages or are not alike. FALSE: the setting's speeds are wrong. */
static gboolean
open_placement (Joint *joint, const PsPlacement *placement, const PsCosts *costs)
{
  const PsSetting *setting = &joint->setting;
  guint p = setting->n_devices;
  g_autofree double *speed = NULL;

  if (!ps_setting_speeds (setting, p, &speed, NULL))
    return FALSE;
  joint->places = !setting->has_placement && !costs->loop_only && p > 1 && placement->n_copies == 1
                  && (costs->n_stages > p || differ (joint->question.memory_limit, speed, p));
  return TRUE;
}

static gboolean
joint_init (Joint *joint, State *state, const PsCosts *costs)
{
  PsSetting *setting = &joint->setting;
  guint n = joint->n_stages;
  g_autoptr (PsModel) model = setting->cluster != NULL ? ps_setting_model (setting, NULL) : NULL;

  state->placement = ps_placement_new (joint->choice->placement, setting->n_devices, joint->choice->n_chunks);
  if (!ps_setting_memory_limit (setting, setting->n_devices, &joint->question.memory_limit, NULL, NULL)
      || !open_placement (joint, state->placement, costs))
    return FALSE;
  state->of = g_new0 (guint8, n);
  state->some = g_new0 (guint8, n);
  if (model != NULL && costs->shapes != NULL && setting->layout == NULL)
    {
      guint unit = 0;

      joint->model = g_steal_pointer (&model);
      joint->units = ps_model_units (joint->model, &joint->n_units);
      joint->shapes = g_new0 (PsStageShape, n);
      joint->read = g_new0 (guint, n);
      joint->read_before = g_new0 (guint, n);
      state->end = g_new0 (guint, n);
      for (guint s = 0; s < n; s++)
        state->end[s] = unit
            += costs->shapes[s].embedding + costs->shapes[s].n_layers + costs->shapes[s].n_mtp + costs->shapes[s].head;
    }
  if (!read_ways (joint, state->end))
    return FALSE;
  joint->may_mix = !ps_costs_has_slices (joint->ways.costs[0], MAX (joint->choice->n_slices, 1))
                   && search_find_way (&joint->ways, PS_RECOMPUTE_NONE) < joint->ways.n
                   && search_find_way (&joint->ways, PS_RECOMPUTE_FULL) < joint->ways.n;
  joint->mixes = joint->may_mix && joint->question.memory_limit != NULL && !joint->limits.measured;
  return TRUE;
}

/* Takes the draw over if it is better. *refused counts draws that a bound refuses. */
static gboolean
take_turn (Joint *joint, State *state, SearchFound *found, guint *refused)
{
  g_auto (State) next = { 0 };

  *refused += 1;
  if (!read_ways (joint, state->end) || !draw (joint, state, &next) || !read_ways (joint, next.end))
    return FALSE;
  if (!compose (joint, &next) || !may_help (joint, &next))
    return FALSE;
  *refused = 0;
  if (!try_state (joint, &next, found))
    return FALSE;
  state_clear (state);
  *state = next;
  next = (State){ 0 };
  return TRUE;
}

gboolean
search_joint (PsSetting *setting, const SearchChoice *choice, gboolean any_chunks, const SearchLimits *limits,
              const SearchFound *from, SearchFound *found)
{
  const PsCosts *costs = from->prediction->costs;
  g_auto (Joint) joint = { .setting = *setting,
                           .choice = choice,
                           .limits = *limits,
                           .best = from,
                           .any_chunks = any_chunks,
                           .n_stages = costs->n_stages,
                           .question = { .setting = setting, .choice = choice },
                           .random = g_rand_new_with_seed ((guint32)limits->seed) };
  g_auto (State) state = { 0 };
  gint64 until_us = g_get_monotonic_time () + limits->time_limit_ns / 1000;
  guint refused = 0, n_tried = 0;
  gboolean better = FALSE;

  joint.limits.time_limit_ns = limits->time_limit_ns > 0 ? MAX (limits->time_limit_ns / N_TRIALS, 1000000) : 0;
  joint.limits.moves = limits->moves > 0 ? limits->moves / N_TRIALS + 1 : 0;
  if (!joint_init (&joint, &state, costs))
    return FALSE;
  while (refused < MAX_REFUSED && g_atomic_int_get (limits->stop) == 0
         && (limits->time_limit_ns > 0 ? g_get_monotonic_time () < until_us : n_tried < N_TRIALS))
    {
      better |= take_turn (&joint, &state, found, &refused);
      n_tried += refused == 0;
    }
  if (!better || !read_ways (&joint, state.end))
    return FALSE;
  set_ways (&joint, &state, setting);
  found->result->lower_bound_ns
      = MIN (found->result->lower_bound_ns, bound_state (&joint, &state, found->result->price_ns));
  found->result->found_by = "joint moves";
  found->result->proved_optimal = found->result->price_ns <= found->result->lower_bound_ns;
  return TRUE;
}
