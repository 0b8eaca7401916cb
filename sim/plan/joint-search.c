/* joint-search.c - moves over what a search holds fixed: the cut of the model, the devices of stages, and what each
 * stage recomputes and offloads. */
#include "setting-search.h"

#include <string.h>

/* Each change is searched for this part of the time or the moves. */
#define N_TRIALS 40

/* Changes in a row that a bound refuses, until there seem to be no others. */
#define MAX_REFUSED 400

/* The order of a stage that recomputes some microbatches is searched as if each recomputed a part of its activations.
 * The part is 1 / N_PARTS, 2 / N_PARTS, .. or all. */
#define N_PARTS 4

/* The modes of a stage: the setting's recomputation and those worth trying, each with and without offload. */
#define MAX_KINDS (PS_N_RECOMPUTE_SETS + 1)
#define MAX_MODES (2 * MAX_KINDS)

typedef struct {
  guint n;
  PsCosts *costs[MAX_MODES]; /* of all stages in that mode */
  PsRecompute recompute[MAX_MODES];
  double offload[MAX_MODES];
} Modes;

static void modes_clear (gpointer data)
{
  Modes *modes = data;

  for (guint i = 0; i < modes->n; i++)
    ps_costs_free (modes->costs[i]);
}

/* The mode of stages that recompute so and do not offload; modes->n: there is none. */
static guint find_mode (const Modes *modes, PsRecompute recompute)
{
  guint mode = 0;

  while (mode < modes->n && (modes->recompute[mode] != recompute || modes->offload[mode] > 0))
    mode++;
  return mode;
}

/* Bounds: a stage that may be in several modes takes the least of each. docs/bounds.md has the argument. */

static void set_bytes (PsCosts *costs, PsOpKind kind, guint stage, gint64 change)
{
  ps_costs_op (costs, kind, stage)->take_bytes = MAX (change, 0);
  ps_costs_op (costs, kind, stage)->give_bytes = MAX (-change, 0);
}

/* No pair whose F is on the stage is shorter: where it has no time of its own, its backward may be on any stage. */
static gint64 least_pair_ns (const PsCosts *costs, guint stage)
{
  gint64 pair_ns = costs->stage[stage].pair_ns;

  return pair_ns >= 0 ? pair_ns : ps_costs_op (costs, PS_OP_F, stage)->duration_ns;
}

/* Gives a stage the least time of each op, and the least memory after each op, of those costs and of other ones. */
static void relax_stage (PsCosts *costs, const PsCosts *other, guint stage)
{
  PsStageCost *cost = &costs->stage[stage];
  gint64 kept = MIN (ps_costs_act_bytes (costs, stage), ps_costs_act_bytes (other, stage)),
         left = MIN (ps_costs_wact_bytes (costs, stage), ps_costs_wact_bytes (other, stage));
  gboolean has_pair = cost->pair_ns >= 0 || other->stage[stage].pair_ns >= 0;

  cost->pair_ns = has_pair ? MIN (least_pair_ns (costs, stage), least_pair_ns (other, stage)) : -1;
  cost->weight_bytes = MIN (cost->weight_bytes, other->stage[stage].weight_bytes);
  for (PsOpKind kind = PS_OP_F; kind < PS_OP_R; kind++)
    ps_costs_op (costs, kind, stage)->duration_ns
        = MIN (ps_costs_op (costs, kind, stage)->duration_ns, ps_costs_op (other, kind, stage)->duration_ns);
  set_bytes (costs, PS_OP_F, stage, kept);
  set_bytes (costs, PS_OP_B, stage, left - kept);
  set_bytes (costs, PS_OP_W, stage, -left);
  set_bytes (costs, PS_OP_BW, stage, -kept);
}

/* No schedule of stages with these costs on these devices is faster. As ps_search_bound. */
static gint64 bound_costs (const PsSetting *setting, const PsPlacement *placement, const gint64 *memory_limit,
                           const PsCosts *costs)
{
  g_autoptr (PsCosts) fastest = ps_setting_fastest_costs (setting, placement, costs, setting->n_slices, NULL);
  const PsSearchSetting search = { .placement = placement,
                                   .n_microbatches = setting->n_microbatches,
                                   .n_slices = setting->n_slices,
                                   .costs = fastest,
                                   .memory_limit = memory_limit,
                                   .objective = ps_sync_objective (setting->sync) };

  return fastest != NULL ? ps_search_bound (&search) : 0;
}

/* The same, whichever mode each stage is in, and whichever microbatches of it recompute; no more than `enough`, the
 * time of a schedule found. */
static gint64 bound_modes (const PsSetting *setting, const PsPlacement *placement, const gint64 *memory_limit,
                           const Modes *modes, gint64 enough)
{
  g_autoptr (PsCosts) relaxed = ps_costs_copy (modes->costs[0]);

  for (guint mode = 1; mode < modes->n; mode++)
    for (guint stage = 0; stage < relaxed->n_stages; stage++)
      relax_stage (relaxed, modes->costs[mode], stage);
  return ps_setting_place (setting, placement, relaxed, NULL)
             ? MIN (bound_costs (setting, placement, memory_limit, relaxed), enough)
             : 0;
}

/* R ops for the microbatches whose activations do not fit. */

/* The order with an R right before the backwards that are to have one. again: [ps_schedule_cell] 1: has an R. */
static PsSchedule *add_ops (const PsSchedule *order, const guint8 *again)
{
  PsScheduleBuilder *builder
      = ps_schedule_builder_new (order->name, ps_placement_copy (order->placement), order->n_microbatches);
  PsSchedule *schedule;
  guint n;

  for (guint d = 0; d < order->placement->n_devices; d++) {
    for (guint i = order->first[d]; i < order->first[d + 1]; i += n) {
      n = order->ops[i].paired ? 2 : 1;
      for (guint k = i; k < i + n; k++) {
        PsOp op = order->ops[k];

        if (!ps_op_is_backward (op) || !again[ps_schedule_cell (order, op)])
          continue;
        op.kind = PS_OP_R;
        op.paired = 0;
        ps_schedule_builder_add_op (builder, op);
      }
      ps_schedule_builder_add_ops (builder, &order->ops[i], n);
    }
    ps_schedule_builder_next_device (builder);
  }
  schedule = ps_schedule_builder_end (builder);
  schedule->n_slices = order->n_slices;
  schedule->copy = g_memdup2 (order->copy, order->copy != NULL ? order->n_microbatches : 0);
  return schedule;
}

static gint64 price_with (const PsSearchPricing *pricing, const PsSchedule *order, const guint8 *again)
{
  g_autoptr (PsSchedule) schedule = add_ops (order, again);

  return ps_search_price (schedule, (gpointer)pricing);
}

/* Adds R ops to the schedule that was found, on stages where some[stage] is not 0: as few as keep it within the memory
 * limit. given: the costs of its stages without R. The time limit of limits holds for all predictions together. Of the
 * forwards of a device those whose backwards come first keep their activations: they hold them for the shortest part of
 * what is left, so that most can. *found becomes the result; its lower bound is G_MAXINT64, as none is known. FALSE: no
 * choice of R ops fits. */
static gboolean recompute_some (const PsSetting *setting, const PsSearchLimits *limits, const PsCosts *given,
                                const guint8 *some, PsSearchFound *found)
{
  g_autoptr (PsSchedule) order = g_steal_pointer (&found->result->schedule);
  gsize n_cells = ps_schedule_n_cells (order), n = n_cells / order->placement->n_stages;
  guint n_devices = order->placement->n_devices;
  g_autoptr (PsCosts) full = ps_setting_full_costs (setting, given, n_devices, NULL);
  g_autoptr (PsCosts) recomputed = full != NULL ? ps_setting_recomputed (setting, order, given, full, NULL) : NULL;
  g_autofree guint8 *again = g_new0 (guint8, n_cells);
  const PsSearchPricing pricing = { setting, given, recomputed, limits->samples, 0 };
  gint64 until_us = limits->time_limit_ns > 0 ? g_get_monotonic_time () + limits->time_limit_ns / 1000 : G_MAXINT64;
  gint64 price_ns;

  for (gsize cell = 0; cell < n_cells; cell++)
    again[cell] = some[cell / n] > 0;
  price_ns = recomputed != NULL ? price_with (&pricing, order, again) : G_MAXINT64;
  for (guint i = 0; i < ps_schedule_n_ops (order) && price_ns < G_MAXINT64 && g_get_monotonic_time () < until_us
                    && (limits->stop == NULL || g_atomic_int_get (limits->stop) == 0);
       i++) {
    guint8 *has_r = &again[ps_schedule_cell (order, order->ops[i])];
    gint64 without_ns;

    if (!ps_op_is_backward (order->ops[i]) || !*has_r)
      continue;
    *has_r = 0;
    without_ns = price_with (&pricing, order, again);
    *has_r = without_ns > price_ns;
    price_ns = MIN (price_ns, without_ns);
  }
  found->result->schedule = add_ops (order, again);
  found->result->lower_bound_ns = G_MAXINT64;
  found->result->proved_optimal = FALSE;
  return price_ns < G_MAXINT64 && ps_search_take (&pricing, found, NULL);
}

/* Schedules on other devices. */

typedef struct {
  gint64 end_ns;
  guint step;
} Ended;

static int compare_ended (gconstpointer a, gconstpointer b)
{
  const Ended *x = a, *y = b;

  return x->end_ns != y->end_ns ? PS_COMPARE (x->end_ns, y->end_ns) : PS_COMPARE (x->step, y->step);
}

/* The schedule that was found without its R, on the devices of a placement of as many copies. Where it has an R or the
 * devices are others, they run their ops, without pairs, in the order in which they have ended. Free with
 * ps_schedule_free. */
static PsSchedule *carry_over (const PsSearchFound *found, const PsPlacement *placement)
{
  const PsProgram *program = found->prediction->program;
  const PsSchedule *schedule = program->schedule;
  g_autofree Ended *ended = g_new (Ended, program->n_steps);
  PsScheduleBuilder *builder;
  PsSchedule *carried;

  if (!schedule->recomputes
      && memcmp (schedule->placement->device, placement->device, placement->n_stages * sizeof *placement->device) == 0)
    return ps_schedule_copy (found->result->schedule);
  for (guint i = 0; i < program->n_steps; i++)
    ended[i] = (Ended){ found->prediction->simulation->end_ns[i + 1], i };
  qsort (ended, program->n_steps, sizeof *ended, compare_ended);
  builder = ps_schedule_builder_new (schedule->name, ps_placement_copy (placement), schedule->n_microbatches);
  for (guint d = 0; d < placement->n_devices; d++) {
    for (guint i = 0; i < program->n_steps; i++) {
      PsOp op = schedule->ops[program->op_of[ended[i].step]];

      op.paired = 0;
      if (ps_placement_device (placement, ps_schedule_weight_copy (schedule, op.microbatch), op.stage) == d
          && op.kind != PS_OP_R)
        ps_schedule_builder_add_op (builder, op);
    }
    ps_schedule_builder_next_device (builder);
  }
  carried = ps_schedule_builder_end (builder);
  carried->n_slices = schedule->n_slices;
  carried->copy = g_memdup2 (schedule->copy, schedule->n_microbatches * sizeof *schedule->copy);
  return carried;
}

/* The moves. */

/* All that is decided, but for the schedule. */
typedef struct {
  guint *end;             /* [n_stages] first unit of the model after each stage; NULL: stages are given */
  Modes *modes;           /* of these stages, shared by states of the same cut */
  guint8 *mode;           /* [n_stages] of each */
  guint8 *some;           /* [n_stages] above 0: the mode is to keep all, and some microbatches have an R; the order is
                             searched as if all recomputed that many N_PARTS of it */
  PsPlacement *placement; /* the device that holds each */
  PsCosts *costs;         /* of these stages there */
  PsCosts *searched;      /* that the order is searched with; NULL: `costs` */
} State;

typedef struct {
  PsSetting setting;
  PsSearchLimits limits; /* of one trial */
  guint n_stages;
  gint64 *memory_limit;         /* [n_devices]; NULL: none */
  gboolean places;              /* stages may move to other devices */
  gboolean any_chunks;          /* of a device */
  gboolean mixes;               /* microbatches of a stage may differ */
  PsStageShape *units;          /* of the model; NULL: stages are given */
  PsRecompute kinds[MAX_KINDS]; /* the setting's own recomputation, then the others in turn */
  guint n_kinds;
  GRand *random;
  const PsSearchFound *best;
} Joint;

static void state_clear (State *state)
{
  g_clear_pointer (&state->end, g_free);
  if (state->modes != NULL)
    g_rc_box_release_full (g_steal_pointer (&state->modes), modes_clear);
  g_clear_pointer (&state->mode, g_free);
  g_clear_pointer (&state->some, g_free);
  g_clear_pointer (&state->placement, ps_placement_free);
  g_clear_pointer (&state->costs, ps_costs_free);
  g_clear_pointer (&state->searched, ps_costs_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (State, state_clear)

static void joint_clear (Joint *joint)
{
  g_free (joint->memory_limit);
  g_free (joint->units);
  g_clear_pointer (&joint->random, g_rand_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Joint, joint_clear)

static void list_kinds (Joint *joint)
{
  const PsRecompute first = joint->setting.recompute;
  PsRecompute sets[PS_N_RECOMPUTE_SETS];
  guint n_sets = ps_setting_recompute_sets (&joint->setting, sets), own = 0;

  while (own < n_sets && sets[own] != first)
    own++;
  joint->kinds[joint->n_kinds++] = first;
  for (guint i = 1; i <= n_sets; i++)
    if (sets[(own + i) % n_sets] != first)
      joint->kinds[joint->n_kinds++] = sets[(own + i) % n_sets];
}

/* Sets the costs of the state's stages in each mode that the source knows, the setting's own first. FALSE: there are
 * none for that one. */
static gboolean read_modes (const Joint *joint, State *state)
{
  PsSetting setting = joint->setting;
  guint n_devices = setting.n_devices;
  g_autofree PsStageShape *shapes = state->end != NULL ? g_new0 (PsStageShape, joint->n_stages) : NULL;
  Modes *modes = state->modes = g_rc_box_new0 (Modes);

  if (shapes != NULL)
    ps_stage_shapes_join (joint->units, state->end, joint->n_stages, shapes);
  setting.known_shapes = shapes;
  for (guint i = 0; i < (joint->setting.offload > 0 ? 2 * joint->n_kinds : joint->n_kinds); i++) {
    setting.recompute = joint->kinds[i % joint->n_kinds];
    setting.offload = i < joint->n_kinds ? joint->setting.offload : 0;
    PsCosts *costs = i == 0 || shapes != NULL ? ps_setting_costs (&setting, n_devices, joint->setting.n_chunks, NULL)
                                              : ps_setting_costs_alike (&setting, modes->costs[0], n_devices, NULL);
    if (costs == NULL && i == 0)
      return FALSE;
    if (costs == NULL)
      continue;
    modes->recompute[modes->n] = setting.recompute;
    modes->offload[modes->n] = setting.offload;
    modes->costs[modes->n++] = costs;
  }
  return TRUE;
}

/* A stage recomputes some parts of N_PARTS of all that it could. */
static void recompute_part (const Modes *modes, PsCosts *costs, guint stage, guint part)
{
  const PsCosts *none = modes->costs[find_mode (modes, PS_RECOMPUTE_NONE)];
  const PsCosts *full = modes->costs[find_mode (modes, PS_RECOMPUTE_FULL)];
  gint64 bytes = ps_costs_act_bytes (none, stage) - ps_costs_act_bytes (full, stage);
  gint64 longer_ns = ps_costs_op (full, PS_OP_B, stage)->duration_ns - ps_costs_op (none, PS_OP_B, stage)->duration_ns;

  ps_costs_drop (costs, stage, costs->shapes != NULL ? MAX (costs->shapes[stage].n_layers, 1) : 1,
                 MAX (bytes, 0) * part / N_PARTS, MAX (longer_ns, 0) * part / N_PARTS);
}

/* Sets the state's costs. FALSE: it cannot be placed, or a bound says that no schedule of it is better. */
static gboolean compose (const Joint *joint, State *state)
{
  const Modes *modes = state->modes;
  g_autoptr (PsCosts) relaxed = NULL;

  state->costs = ps_costs_copy (modes->costs[0]);
  for (guint stage = 0; stage < joint->n_stages; stage++) {
    const PsCosts *from = modes->costs[state->mode[stage]];

    ps_costs_copy_stage (state->costs, stage, from, stage);
    if (state->costs->shapes != NULL)
      state->costs->shapes[stage] = from->shapes[stage];
  }
  if (!ps_setting_place (&joint->setting, state->placement, state->costs, NULL))
    return FALSE;
  relaxed = ps_costs_copy (state->costs);
  for (guint stage = 0; stage < joint->n_stages; stage++)
    if (state->some[stage] > 0) {
      if (state->searched == NULL)
        state->searched = ps_costs_copy (state->costs);
      recompute_part (modes, state->searched, stage, state->some[stage]);
      relax_stage (relaxed, modes->costs[find_mode (modes, PS_RECOMPUTE_FULL)], stage);
    }
  return joint->limits.samples->objective != PS_SEARCH_TIME
         || bound_costs (&joint->setting, state->placement, joint->memory_limit, relaxed)
                < joint->best->result->price_ns;
}

/* Draws another device for a stage; it gets a stage of that device in return, or none where devices may hold different
 * numbers of stages. FALSE: the draw changes nothing, or leaves a device without stages. */
static gboolean draw_device (const Joint *joint, State *state, guint stage)
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

/* Draws another mode for one or several stages in a row, or lets some of their microbatches recompute. FALSE: the draw
 * changes nothing. */
static gboolean draw_mode (const Joint *joint, State *state, guint first, guint last)
{
  const Modes *modes = state->modes;
  guint8 mode = (guint8)g_rand_int_range (joint->random, 0, (gint32)modes->n + (joint->mixes ? N_PARTS : 0)), some = 0;
  gboolean changes = FALSE;

  if (mode >= modes->n) {
    some = (guint8)(1 + mode - modes->n);
    mode = (guint8)find_mode (modes, PS_RECOMPUTE_NONE);
  }
  for (guint s = first; s < last; s++) {
    changes |= state->mode[s] != mode || state->some[s] != some;
    state->mode[s] = mode;
    state->some[s] = some;
  }
  return changes;
}

/* Draws another device for a stage, another end, or another mode. FALSE: the draw changes nothing, or there are no
 * costs of its stages. */
static gboolean draw_state (const Joint *joint, const State *from, State *state)
{
  guint n = joint->n_stages, stage = (guint)g_rand_int_range (joint->random, 0, (gint32)n);
  guint last = g_rand_boolean (joint->random)
                   ? stage + 1
                   : (guint)g_rand_int_range (joint->random, (gint32)stage + 1, (gint32)n + 1);
  gboolean places = joint->places && (from->modes->n == 1 || g_rand_boolean (joint->random));
  gboolean cuts = from->end != NULL && stage + 1 < n && g_rand_boolean (joint->random) && !places;

  *state = (State){ .end = g_memdup2 (from->end, from->end != NULL ? n * sizeof *from->end : 0),
                    .modes = cuts ? NULL : g_rc_box_acquire (from->modes),
                    .mode = g_memdup2 (from->mode, n),
                    .some = g_memdup2 (from->some, n),
                    .placement = ps_placement_copy (from->placement) };
  if (places)
    return draw_device (joint, state, stage);
  if (!cuts)
    return draw_mode (joint, state, stage, last);
  state->end[stage] += g_rand_boolean (joint->random) ? 1 : -1;
  return state->end[stage] > (stage > 0 ? from->end[stage - 1] : 0) && state->end[stage] < from->end[stage + 1]
         && read_modes (joint, state);
}

/* Gives the setting what all stages do, or each does where they differ. */
static void set_modes (const State *state, guint n, PsSetting *setting)
{
  const Modes *modes = state->modes;
  gboolean kinds_differ = FALSE, ratios_differ = FALSE;

  setting->recompute = modes->recompute[state->mode[0]];
  setting->offload = modes->offload[state->mode[0]];
  setting->recompute_each = g_new (PsRecompute, n);
  setting->offload_each = g_new (double, n);
  for (guint s = 0; s < n; s++) {
    setting->recompute_each[s] = modes->recompute[state->mode[s]];
    setting->offload_each[s] = modes->offload[state->mode[s]];
    kinds_differ |= setting->recompute_each[s] != setting->recompute;
    ratios_differ |= setting->offload_each[s] != setting->offload;
  }
  setting->n_recompute = kinds_differ ? n : 0;
  setting->n_offload = ratios_differ ? n : 0;
}

/* Searches with the state's costs, from the best schedule so far. TRUE: *found is better now. */
static gboolean try_state (Joint *joint, const State *state, PsSearchFound *found)
{
  PsSetting setting = joint->setting;
  PsSearchLimits limits = joint->limits;
  g_autoptr (PsSchedule) start = carry_over (joint->best, state->placement);
  g_auto (PsSearchFound) tried = { 0 };
  gboolean fits;

  limits.start = start;
  limits.placement = state->placement;
  if (!ps_search_try (&setting, &limits, state->searched != NULL ? state->searched : state->costs, &tried, NULL))
    return FALSE;
  if (state->searched != NULL) {
    setting = joint->setting;
    set_modes (state, joint->n_stages, &setting);
    fits = recompute_some (&setting, &joint->limits, state->costs, state->some, &tried);
    g_free (setting.recompute_each);
    g_free (setting.offload_each);
    if (!fits)
      return FALSE;
  }
  if (tried.figure_ns >= joint->best->figure_ns)
    return FALSE;
  ps_search_found_clear (found);
  *found = tried;
  tried = (PsSearchFound){ 0 };
  joint->best = found;
  return TRUE;
}

/* Sets the state that the choice was searched in. Stages may move to other devices where no placement was asked for,
 * and where it may help: devices hold several stages or are not alike. FALSE: the setting is wrong. */
static gboolean joint_init (Joint *joint, State *state, const PsCosts *costs)
{
  const PsSetting *setting = &joint->setting;
  guint n = joint->n_stages, p = setting->n_devices, unit = 0, n_units;
  g_autoptr (PsModel) model = setting->cluster != NULL ? ps_setting_model (setting, NULL) : NULL;
  const Modes *modes;

  state->placement = ps_placement_new (joint->setting.placement, p, joint->setting.n_chunks);
  if (!ps_setting_memory_limit (setting, p, &joint->memory_limit, NULL, NULL))
    return FALSE;
  joint->places = !setting->has_placement && !costs->loop_only && p > 1 && state->placement->n_copies == 1
                  && (n > p || setting->n_speeds > 1 || setting->n_memory_limits > 1);
  state->mode = g_new0 (guint8, n);
  state->some = g_new0 (guint8, n);
  list_kinds (joint);
  if (model != NULL && costs->shapes != NULL && setting->layout == NULL) {
    joint->units = ps_model_units (model, &n_units);
    state->end = g_new0 (guint, n);
    for (guint s = 0; s < n; s++)
      state->end[s] = unit += ps_stage_shape_units (&costs->shapes[s]);
  }
  if (!read_modes (joint, state))
    return FALSE;
  modes = state->modes;
  joint->mixes = ps_costs_slices (modes->costs[0], MAX (joint->setting.n_slices, 1)) == NULL
                 && find_mode (modes, PS_RECOMPUTE_NONE) < modes->n && find_mode (modes, PS_RECOMPUTE_FULL) < modes->n
                 && joint->memory_limit != NULL && !joint->limits.measured;
  return TRUE;
}

gboolean ps_search_joint (PsSetting *setting, gboolean any_chunks, const PsSearchLimits *limits,
                          const PsSearchFound *from, PsSearchFound *found)
{
  const PsCosts *costs = from->prediction->costs;
  g_auto (Joint) joint = { .setting = *setting,
                           .limits = *limits,
                           .best = from,
                           .any_chunks = any_chunks,
                           .n_stages = costs->n_stages,
                           .random = g_rand_new_with_seed ((guint32)limits->seed) };
  g_auto (State) state = { 0 };
  gint64 until_us = g_get_monotonic_time () + limits->time_limit_ns / 1000, bound;

  joint.limits.time_limit_ns = limits->time_limit_ns > 0 ? MAX (limits->time_limit_ns / N_TRIALS, 1000000) : 0;
  joint.limits.moves = limits->moves > 0 ? limits->moves / N_TRIALS + 1 : 0;
  if (!joint_init (&joint, &state, costs))
    return FALSE;
  for (guint refused = 0, n_tried = 0;
       refused < MAX_REFUSED && g_atomic_int_get (limits->stop) == 0
       && (limits->time_limit_ns > 0 ? g_get_monotonic_time () < until_us : n_tried < N_TRIALS);
       refused++) {
    g_auto (State) next = { 0 };

    if (!draw_state (&joint, &state, &next) || !compose (&joint, &next))
      continue;
    refused = 0;
    n_tried++;
    if (!try_state (&joint, &next, found))
      continue;
    state_clear (&state);
    state = next;
    next = (State){ 0 };
  }
  if (joint.best == from)
    return FALSE;
  set_modes (&state, joint.n_stages, setting);
  bound = bound_modes (setting, state.placement, joint.memory_limit, state.modes, found->result->price_ns);
  found->result->lower_bound_ns = MIN (found->result->lower_bound_ns, bound);
  found->result->found_by = "joint moves";
  found->result->proved_optimal = found->result->price_ns <= found->result->lower_bound_ns;
  return TRUE;
}
