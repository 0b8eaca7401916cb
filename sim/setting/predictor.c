/* predictor.c - the steps from a setting to a prediction: the costs of --lengths and the order of its microbatches, the
 * schedule of a name, the costs of its ops, the engine that the setting needs, and the figures. */
#include "options.h"
#include "simulate/simulate-private.h"

#include <pipesim/bound.h>
#include <pipesim/formats.h>
#include <pipesim/model.h>
#include <pipesim/setting.h>

#include <math.h>
#include <string.h>

/* --lengths: microbatches of different lengths */

/* How many lengths costs can have: transfers have an entry for each, and their numbers have 16 bits. */
static guint most_lengths (guint n_stages)
{
  return G_MAXUINT16 / (2 * n_stages);
}

/* --lengths, which must have that number of microbatches. */
static PsLengths *find_lengths (const PsSetting *setting, guint n_microbatches, guint n_stages, GError **error)
{
  g_autoptr (PsLengths) lengths = ps_lengths_read (setting->lengths, error);
  guint most = most_lengths (n_stages);

  if (lengths == NULL)
    return NULL;
  if (lengths->n != n_microbatches)
    return ps_refuse_null (error, PS_ERROR_USAGE, "--lengths %s: has %u microbatches; the schedule has %u",
                           setting->lengths, lengths->n, n_microbatches);
  if (lengths->n_lengths > most)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "--lengths %s: has %u different lengths; with %u stages at most %u are possible",
                           setting->lengths, lengths->n_lengths, n_stages, most);
  return g_steal_pointer (&lengths);
}

/* The setting's costs of the same stages with sequences of that length; NULL: the sequences that it has. */
static PsCosts *costs_of_length (const PsSetting *setting, const PsCosts *whole, guint n_devices,
                                 const PsLength *length, GError **error)
{
  g_autoptr (PsModel) model = ps_setting_model (setting, error);

  if (model == NULL)
    return NULL;
  model->serves = setting->serve != PS_SERVE_NONE;
  model->before = length != NULL ? length->before : 0;
  if (length != NULL && length->images >= 0 && ps_model_encoder_layers (model) == 0)
    return ps_refuse_null (error, PS_ERROR_USAGE, "images: model '%s' trains with none; give --images", model->name);
  if (length != NULL && length->images >= 0)
    model->encoder.images = (guint)length->images;
  if (length != NULL && !ps_model_resize (model, 0, length->tokens, 0, error))
    return NULL;
  return ps_setting_costs_of (setting, model, whole, n_devices, error);
}

/* The costs of a slice: of any, or of each where they are known and there is room for them. */
static GPtrArray *slices_of (const PsCosts *whole, guint n_lengths, guint n_slices)
{
  GPtrArray *slices = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_costs_free);
  gboolean differ = ps_costs_slices (whole, n_slices) != NULL && n_lengths * n_slices <= most_lengths (whole->n_stages);

  for (guint k = 0; k < (differ ? n_slices : 1); k++)
    g_ptr_array_add (slices, differ         ? ps_costs_nth_slice (whole, n_slices, k)
                             : n_slices > 1 ? ps_costs_slice (whole, n_slices)
                                            : ps_costs_copy (whole));
  return slices;
}

/* The costs of n_slices slices of microbatches that are alike, without host times. Slices that are known
 * (PsCosts.slice_parts) each have their own length. */
static PsCosts *slices_costs (const PsCosts *whole, guint n_slices)
{
  g_autoptr (GPtrArray) slices = slices_of (whole, 1, n_slices);

  return slices->len == 1 ? g_ptr_array_steal_index (slices, 0)
                          : ps_costs_join ((PsCosts *const *)slices->pdata, slices->len);
}

/* The same for all lengths. whole are the setting's costs. Checks whether n_microbatches of each length would give
 * exact sums. Tokens and images change modelled costs as --sequence and --images do, and measured costs as the number
 * of floating-point operations and the bytes of the model's formulas. */
static PsCosts *lengths_costs (const PsSetting *setting, const PsLengths *lengths, const PsCosts *whole,
                               guint n_devices, guint n_slices, GError **error)
{
  gboolean serves = setting->serve != PS_SERVE_NONE;
  gboolean modelled = ps_length_is_modelled (&lengths->length[0]) && (!serves || whole->shapes != NULL);
  g_autoptr (PsModel) model = serves && modelled ? ps_setting_model (setting, error) : NULL;
  g_autoptr (GPtrArray) each = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_costs_free);
  g_autoptr (GPtrArray) slices = slices_of (whole, lengths->n_lengths, n_slices);
  g_autofree PsLengthFactors *factors = g_new (PsLengthFactors, whole->n_stages);
  g_autoptr (PsCosts) own = NULL;

  if (modelled && whole->shapes == NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "--lengths %s: tokens and images need the costs of a model; give factors", setting->lengths);
  own = modelled ? costs_of_length (setting, whole, n_devices, NULL, error) : NULL;
  if (modelled && (own == NULL || (serves && model == NULL)))
    return NULL;
  for (guint i = 0; i < lengths->n_lengths; i++) {
    const PsLength *length = &lengths->length[i];
    g_autoptr (PsCosts) longer = modelled ? costs_of_length (setting, whole, n_devices, length, error) : NULL;

    if (modelled && longer == NULL) {
      g_prefix_error (error, serves ? "--chunk: " : "--lengths %s: ", setting->lengths);
      return NULL;
    }
    for (guint stage = 0; stage < whole->n_stages; stage++)
      factors[stage] = modelled ? ps_length_factors (own, longer, stage) : length->factors;
    for (guint k = 0; k < slices->len; k++) {
      PsCosts *scaled = ps_costs_scale (slices->pdata[k], factors);

      g_ptr_array_add (each, scaled);
      if (serves)
        ps_prefill_set_memory (setting, model, whole, length, scaled);
      if (!ps_costs_check (scaled, lengths->n * n_slices, error))
        return NULL;
    }
  }
  return ps_costs_join ((PsCosts *const *)each->pdata, each->len);
}

PsCosts *ps_setting_average (const PsSetting *setting, const PsCosts *costs, guint n_devices, guint n_microbatches,
                             GError **error)
{
  g_autoptr (PsLengths) lengths = NULL;
  g_autoptr (PsCosts) all = NULL;

  if (setting->lengths == NULL)
    return ps_costs_copy (costs);
  lengths = find_lengths (setting, n_microbatches, costs->n_stages, error);
  if (lengths == NULL)
    return NULL;
  all = lengths_costs (setting, lengths, costs, n_devices, 1, error);
  return all == NULL || all->n_lengths == 1 ? g_steal_pointer (&all) : ps_costs_average (all, lengths);
}

/* Gives each slice of the program's microbatches the costs of its length and of its slice. lengths NULL: microbatches
 * are alike, or recomputed ones have the second length; else order says which microbatch of the file each of them is.
 * order NULL: lengths are those of slices. */
static void set_lengths (PsProgram *program, const PsCosts *costs, const PsLengths *lengths, const guint *order)
{
  const PsSchedule *schedule = program->schedule;
  guint n_slices = schedule->n_slices, n = schedule->n_microbatches * n_slices,
        n_classes = costs->n_lengths / (lengths != NULL ? lengths->n_lengths : 1);
  g_autofree guint8 *recomputed = ps_schedule_recomputed (schedule);
  g_autofree guint16 *length = NULL;

  if (costs->n_lengths == 1 && schedule->length == NULL)
    return;
  length = g_new (guint16, ps_schedule_n_cells (schedule));
  for (guint stage = 0; stage < costs->n_stages; stage++)
    for (guint i = 0; i < n; i++)
      length[stage * n + i]
          = (guint16)(recomputed != NULL
                          ? recomputed[stage * n + i]
                          : (lengths != NULL ? lengths->of[order != NULL ? order[i / n_slices] : i] * n_classes : 0)
                                + i % n_slices % n_classes);
  ps_program_set_lengths (program, costs->n_lengths, length);
}

/* --microbatch-order */

#define MAX_ORDERS 5040
#define MAX_SWAP_STEPS 40000000

typedef struct {
  const PsLengths *lengths;
  const PsCosts *costs;
  const gint64 *memory_limit;
  PsProgram *program;
  PsSimulation *simulation;
  guint *order;  /* [n] the order that is tried */
  guint *best;   /* [n] */
  gint64 excess; /* of the best: bytes above the limit */
  gint64 makespan_ns;
  gint64 n_steps; /* left to simulate */
} Search;

/* Simulates search->order; TRUE and kept if it is better than the best. */
static gboolean try_order (Search *search)
{
  const PsSimulation *simulation = search->simulation;
  gint64 excess;

  set_lengths (search->program, search->costs, search->lengths, search->order);
  ps_simulate (search->program, search->costs, search->simulation);
  search->n_steps -= simulation->n_steps;
  excess = ps_simulation_excess (simulation, search->memory_limit, NULL);
  if (excess > search->excess || (excess == search->excess && simulation->makespan_ns >= search->makespan_ns))
    return FALSE;
  search->excess = excess;
  search->makespan_ns = simulation->makespan_ns;
  memcpy (search->best, search->order, search->lengths->n * sizeof *search->best);
  return TRUE;
}

static void swap (Search *search, guint a, guint b)
{
  guint kept = search->order[a];

  search->order[a] = search->order[b];
  search->order[b] = kept;
}

/* Number of different orders, or more than MAX_ORDERS. */
static double count_orders (const PsLengths *lengths)
{
  g_autofree guint *alike = g_new0 (guint, lengths->n_lengths);
  double n = 1;

  for (guint i = 0; i < lengths->n && n <= 1e100; i++)
    n *= (double)(i + 1) / ++alike[lengths->of[i]];
  return n;
}

/* Tries every order of the microbatches from `first` on. Of microbatches with the same length one takes the place. */
static void try_all (Search *search, guint first)
{
  const guint16 *of = search->lengths->of;

  if (first == search->lengths->n)
    try_order (search);
  for (guint i = first; i < search->lengths->n; i++) {
    guint same = first;

    while (same < i && of[search->order[same]] != of[search->order[i]])
      same++;
    if (same < i)
      continue;
    swap (search, first, i);
    try_all (search, first + 1);
    swap (search, first, i);
  }
}

static void improve (Search *search)
{
  const guint16 *of = search->lengths->of;
  guint n = search->lengths->n;
  gboolean better = TRUE;

  while (better) {
    better = FALSE;
    memcpy (search->order, search->best, n * sizeof *search->order);
    for (guint a = 0; a < n; a++)
      for (guint b = a + 1; b < n && search->n_steps > 0; b++) {
        if (of[search->order[a]] == of[search->order[b]])
          continue;
        swap (search, a, b);
        if (try_order (search))
          better = TRUE;
        else
          swap (search, a, b);
      }
  }
}

/* Microbatches of the same rank keep their order. */
static int compare_ranks (gconstpointer a, gconstpointer b, gpointer ranks)
{
  guint i = *(const guint *)a, k = *(const guint *)b;
  gint64 x = ((const gint64 *)ranks)[i], y = ((const gint64 *)ranks)[k];

  return x != y ? (x < y ? -1 : 1) : (i > k) - (i < k);
}

/* Ranks microbatches by the work of F, B and W on all stages, the least first or last. */
static void sort (const PsLengths *lengths, PsMicrobatchOrder by, const PsCosts *costs, guint *order)
{
  g_autofree gint64 *ranks = g_new0 (gint64, lengths->n);
  gint64 sign = by == PS_ORDER_ASCENDING ? 1 : by == PS_ORDER_DESCENDING ? -1 : 0;

  for (guint i = 0; i < lengths->n; i++) {
    guint length = lengths->of[i] * (costs->n_lengths / lengths->n_lengths);

    order[i] = i;
    for (guint k = 0; k < 3 * costs->n_stages; k++)
      ranks[i] += sign
                  * costs
                        ->op[ps_op_index (costs->n_stages, costs->n_lengths, PS_OP_F + k / costs->n_stages, length,
                                          k % costs->n_stages)]
                        .duration_ns;
  }
  qsort_r (order, lengths->n, sizeof *order, compare_ranks, ranks);
}

static void find_best (Search *search)
{
  guint n = search->lengths->n;

  search->simulation = ps_simulation_new (search->program);
  search->best = g_new (guint, n);
  for (PsMicrobatchOrder by = PS_ORDER_GIVEN; by < PS_ORDER_BEST; by++) {
    sort (search->lengths, by, search->costs, search->order);
    try_order (search);
  }
  if (count_orders (search->lengths) <= MAX_ORDERS)
    try_all (search, 0);
  else
    improve (search);
  memcpy (search->order, search->best, n * sizeof *search->order);
  g_free (search->best);
  ps_simulation_free (search->simulation);
}

/* Gives the program's microbatches their lengths in the order asked for. Returns which microbatch of the file each of
 * them is; free with g_free.
 *
 * The best order here is that of the least makespan by the relaxation engine, among orders that keep every device
 * within memory_limit (NULL: none) if there are any. It is exact where the lengths have at most MAX_ORDERS different
 * orders. Otherwise the best of the other three orders is improved by swaps of two microbatches, until none helps or
 * MAX_SWAP_STEPS ops have been simulated. */
static guint *arrange (const PsLengths *lengths, PsMicrobatchOrder order, const PsCosts *costs,
                       const gint64 *memory_limit, PsProgram *program)
{
  Search search = { .lengths = lengths,
                    .costs = costs,
                    .memory_limit = memory_limit,
                    .program = program,
                    .order = g_new (guint, lengths->n),
                    .excess = G_MAXINT64,
                    .makespan_ns = G_MAXINT64,
                    .n_steps = MAX_SWAP_STEPS };

  if (order == PS_ORDER_BEST)
    find_best (&search);
  else
    sort (lengths, order, costs, search.order);
  set_lengths (program, costs, lengths, search.order);
  return search.order;
}

/* Schedules */

#define MAX_TIGHTER 6 /* schedules; nearly always the second leaves enough room */

/* Takes from each device's limit what its peak exceeds the given limit by, times `factor`; FALSE: no peak does.
 * Transfers never queue here: families see costs, not channels. */
static gboolean tighten (const PsSchedule *schedule, const PsFamilySetting *size, gint64 factor, gint64 *limit)
{
  g_autoptr (PsCosts) costs = ps_costs_copy (size->costs);

  ps_costs_add_host_time (costs, schedule->placement->device, schedule->placement->n_copies);
  g_autoptr (PsSimulation) simulation = ps_simulate_schedule (schedule, costs, NULL);
  for (guint d = 0; simulation != NULL && d < simulation->n_devices; d++)
    limit[d] -= factor * MAX (simulation->device[d].peak_bytes - size->memory_limit[d], 0);
  return simulation != NULL && ps_simulation_excess (simulation, size->memory_limit, NULL) > 0;
}

/* A family keeps to its limit but counts the bytes of ops only: the limit sinks until the buffers of messages fit
 * too. If the family finds no schedule at a lower limit, its last one stays. */
static PsSchedule *generate_within (const PsFamily *family, const PsFamilySetting *size, GError **error)
{
  PsSchedule *schedule = ps_family_generate (family, size, error);
  g_autofree gint64 *limit = g_memdup2 (size->memory_limit, size->n_devices * sizeof *limit);
  PsFamilySetting tight = *size;
  gboolean counts = schedule != NULL && limit != NULL && size->costs != NULL;

  tight.memory_limit = limit;
  for (guint i = 0; counts && i < MAX_TIGHTER && tighten (schedule, size, 1 << i, limit); i++) {
    PsSchedule *tighter = ps_family_generate (family, &tight, NULL);

    if (tighter == NULL)
      break;
    ps_schedule_free (schedule);
    schedule = tighter;
  }
  return schedule;
}

static PsSchedule *generate (const PsSetting *setting, const PsFamily *family, const PsCosts *costs,
                             gboolean equal_chunks, GError **error)
{
  g_autofree gint64 *limit = NULL;
  guint n_prompts = setting->serve != PS_SERVE_NONE ? MAX (setting->n_prompt_each, 1) : 0;
  g_autoptr (PsPrefill) prefill = NULL;
  PsFamilySetting size = {
    .n_devices = setting->n_devices,
    .n_microbatches = setting->n_microbatches > 0 ? setting->n_microbatches : n_prompts,
    .n_chunks = setting->n_chunks != 0 ? setting->n_chunks : family->default_chunks,
    .n_slices = setting->n_slices,
    .group_size = setting->group_size,
    .defer_head = setting->defer_head,
    .costs = costs,
    .by_makespan = setting->sync == PS_SYNC_GLOBAL,
  };

  if (size.n_devices == 0 || size.n_microbatches == 0)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "%s: missing; schedule '%s' is generated for -p devices and -m microbatches",
                           size.n_devices == 0 ? "-p/--devices" : "-m/--microbatches", family->name);
  if (n_prompts > 0) {
    prefill = ps_prefill_new (setting, size.n_microbatches, equal_chunks, error);
    if (prefill == NULL)
      return NULL;
    size.n_microbatches = prefill->n_chunks;
    size.prompt = prefill->prompt;
    size.n_prompts = prefill->n;
  }
  if ((costs != NULL && !ps_costs_check (costs, size.n_microbatches, error))
      || (family->uses_costs && !ps_setting_memory_limit (setting, size.n_devices, &limit, NULL, error)))
    return NULL;
  size.memory_limit = limit;
  return generate_within (family, &size, error);
}

static PsSchedule *read_file (const PsSetting *setting, const char *path, GError **error)
{
  g_autoptr (PsSchedule) schedule = ps_format_read (path, error);

  if (schedule == NULL)
    return NULL;
  if (setting->reorder)
    g_clear_pointer (&schedule->posts, g_array_unref);
  const struct {
    const char *option;
    guint given, found;
  } sizes[] = { { "-p", setting->n_devices, schedule->placement->n_devices },
                { "-m", setting->n_microbatches, schedule->n_microbatches },
                { "-v", setting->n_chunks, ps_placement_max_chunks (schedule->placement) },
                { "--slices", setting->n_slices, schedule->n_slices } };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    if (sizes[i].given != 0 && sizes[i].given != sizes[i].found)
      return ps_refuse_null (error, PS_ERROR_USAGE, "%s %u: the schedule of %s has %u", sizes[i].option, sizes[i].given,
                             path, sizes[i].found);
  if (ps_schedule_validate (schedule, error))
    return g_steal_pointer (&schedule);
  g_prefix_error (error, "%s: ", path);
  return NULL;
}

static void refuse_name (const char *name, GError **error)
{
  guint n, n_classes = 0;
  const PsFamily *const *families = ps_family_table (&n);
  g_autofree const char **names = g_new (const char *, n), **classes = g_new (const char *, n);
  g_autofree char *problem = g_strdup_printf ("schedule '%s': no such family or file; families are:", name);
  const char *class = g_str_has_prefix (name, "Schedule") ? name + strlen ("Schedule") : name;

  for (guint i = 0; i < n; i++) {
    names[i] = families[i]->name;
    if (families[i]->torch != NULL)
      classes[n_classes++] = families[i]->torch;
  }
  g_autofree char *family = ps_did_you_mean (name, names, n, ""),
                  *torch = ps_did_you_mean (class, classes, n_classes, "");
  if (*family == '\0' && *torch != '\0')
    ps_refuse (error, PS_ERROR_USAGE, "schedule '%s': no such family or file%s", name, torch);
  else
    ps_refuse_name (error, problem, name, names, n);
}

/* Costs */

/* The costs of a number of devices and chunks, and what follows from them. */
typedef struct {
  guint n_devices, n_chunks, n_microbatches; /* the last moves slices of even work only */
  gboolean even;
  PsCosts *costs; /* this and spread are NULL until they are asked for */
  PsCostSpread *spread;
} SizedCosts;

struct _PsPredictor {
  const PsSetting *setting;
  const PsCosts *given;
  const PsCosts *recomputed; /* the same of microbatches with an R; NULL: they are made for each schedule */
  GPtrArray *sized;          /* of SizedCosts */
  gboolean even;             /* take the even layout where the layout is open */
  gboolean equal_chunks;     /* see ps_prefill_new */
  PsMicrobatchOrder order;
};

static void sized_costs_free (gpointer data)
{
  SizedCosts *sized = data;

  ps_costs_free (sized->costs);
  ps_cost_spread_free (sized->spread);
  g_free (sized);
}

PsPredictor *ps_predictor_new (const PsSetting *setting, const PsCosts *given)
{
  PsPredictor *predictor = g_new0 (PsPredictor, 1);

  predictor->setting = setting;
  predictor->given = given;
  predictor->sized = g_ptr_array_new_with_free_func (sized_costs_free);
  return predictor;
}

void ps_predictor_give_recomputed (PsPredictor *predictor, const PsCosts *recomputed)
{
  predictor->recomputed = recomputed;
}

void ps_predictor_free (PsPredictor *predictor)
{
  if (predictor == NULL)
    return;
  g_ptr_array_unref (predictor->sized);
  g_free (predictor);
}

/* The entry of a size under the current layout. */
static SizedCosts *find_sized (PsPredictor *predictor, guint n_devices, guint n_chunks)
{
  const PsSetting *setting = predictor->setting;
  SizedCosts *sized;

  for (guint i = 0; i < predictor->sized->len; i++) {
    sized = predictor->sized->pdata[i];
    if (sized->n_devices == n_devices && sized->n_chunks == n_chunks && sized->even == predictor->even
        && (!setting->even_work || sized->n_microbatches == setting->n_microbatches))
      return sized;
  }
  sized = g_new0 (SizedCosts, 1);
  *sized = (SizedCosts){ n_devices, n_chunks, setting->n_microbatches, predictor->even, NULL, NULL };
  g_ptr_array_add (predictor->sized, sized);
  return sized;
}

/* The costs that were given, else the setting's, read once for each size. */
static const PsCosts *find_costs (PsPredictor *predictor, guint n_devices, guint n_chunks, GError **error)
{
  PsSetting setting = *predictor->setting;
  SizedCosts *sized;

  if (predictor->given != NULL && predictor->given->n_stages == n_devices * n_chunks)
    return predictor->given;
  if (predictor->even)
    setting.layout = (char *)"even";
  sized = find_sized (predictor, n_devices, n_chunks);
  if (sized->costs == NULL)
    sized->costs = ps_setting_costs (&setting, n_devices, n_chunks, error);
  return sized->costs;
}

/* Measured costs count the weights as they were before a step that is not final yet: steps of asynchronous schedules
 * are final at once. */
static void drop_kept_weights (const PsSetting *setting, const PsSchedule *schedule, PsCosts *costs)
{
  if (setting->db == NULL || setting->sync != PS_SYNC_BYPASS || !schedule->asynchronous)
    return;
  for (guint stage = 0; stage < costs->n_stages; stage++)
    costs->stage[stage].weight_bytes -= costs->stage[stage].version_bytes;
}

/* Where warm ops were measured apart, each kind of op takes what it takes on average, as many ops as are warm. */
static void mix_warm (const PsSchedule *schedule, PsCosts *costs)
{
  guint n_stages = costs->n_stages;
  g_autofree guint *n = g_new0 (guint, PS_N_OP_KINDS * n_stages), *n_warm = g_new0 (guint, PS_N_OP_KINDS * n_stages);

  for (guint device = 0; device < schedule->placement->n_devices; device++)
    for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++) {
      PsOp op = schedule->ops[i], before = schedule->ops[i > 0 ? i - 1 : 0];
      guint cell = op.kind * n_stages + op.stage;

      n[cell]++;
      n_warm[cell] += i > schedule->first[device] && !before.paired && !op.paired && ps_op_is_warm (before, op);
    }
  for (guint i = 0; i < PS_OP_O * n_stages; i++)
    for (guint length = 0; length < costs->n_lengths && n_warm[i] > 0; length++) {
      PsOpCost *op = &costs->op[ps_op_index (n_stages, costs->n_lengths, i / n_stages, length, i % n_stages)];

      op->duration_ns = llrint ((double)op->duration_ns * (1 - (1 - costs->warm[i]) * n_warm[i] / n[i]));
    }
  g_clear_pointer (&costs->warm, g_free);
}

/* Adds the costs of the microbatches that the schedule's R ops recompute, as a second length. */
static PsCosts *add_recomputed (PsPredictor *predictor, const PsSchedule *schedule, const PsCosts *whole, PsCosts *kept,
                                GError **error)
{
  g_autoptr (PsCosts) costs = kept, full = NULL, own = NULL, sliced = NULL;
  guint n_devices = schedule->placement->n_devices;
  const PsCosts *again = whole == predictor->given ? predictor->recomputed : NULL;
  PsCosts *joined;

  if (predictor->setting->lengths != NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "schedule '%s': has R ops, which recompute some microbatches; no --lengths would be right",
                           schedule->name);
  if (predictor->setting->even_work || predictor->setting->n_slice_tokens > 0)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "schedule '%s': has R ops, which recompute some microbatches; --slices %u would be right",
                           schedule->name, schedule->n_slices);
  if (most_lengths (costs->n_stages) < 2)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "schedule '%s': has R ops and %u stages; fewer stages, or no R, would be right",
                           schedule->name, costs->n_stages);
  if (again == NULL) {
    full = ps_setting_full_costs (predictor->setting, whole, n_devices, error);
    again = own = full != NULL ? ps_setting_recomputed (predictor->setting, schedule, whole, full, error) : NULL;
  }
  if (again == NULL)
    return NULL;
  sliced = ps_costs_slice (again, schedule->n_slices);
  if (!ps_costs_check (sliced, schedule->n_microbatches * schedule->n_slices, error))
    return NULL;
  joined = ps_costs_join ((PsCosts *const[]){ costs, sliced }, 2);
  joined->time_origin = again->time_origin;
  joined->memory_origin = again->memory_origin;
  return joined;
}

/* The costs of the schedule's stages. A schedule file may place its stages unevenly; costs describe p * v stages. */
static const PsCosts *whole_costs (PsPredictor *predictor, const PsSchedule *schedule, GError **error)
{
  const PsPlacement *placement = schedule->placement;
  const PsCosts *whole;

  if (placement->n_stages % placement->n_devices != 0)
    return ps_refuse_null (error, PS_ERROR_SCHEDULE,
                           "schedule '%s': %u stages do not divide over %u devices, so they have no costs; a multiple "
                           "of %u would be right",
                           schedule->name, placement->n_stages, placement->n_devices, placement->n_devices);
  whole = find_costs (predictor, placement->n_devices, placement->n_stages / placement->n_devices, error);
  if (whole == NULL
      || (ps_costs_check_placement (whole, placement, error) && ps_costs_check_known (whole, schedule, error)))
    return whole;
  g_prefix_error (error, "schedule '%s': ", schedule->name);
  return NULL;
}

/* Finds the costs of the schedule's slices, with host times, and checks them. lengths may be NULL. fastest: the least
 * that its ops take in any order (ps_setting_fastest_costs), NULL where that is the costs. */
static PsCosts *schedule_costs (PsPredictor *predictor, const PsSchedule *schedule, const PsLengths *lengths,
                                PsCosts **fastest, GError **error)
{
  const PsSetting *setting = predictor->setting;
  const PsPlacement *placement = schedule->placement;
  const PsCosts *whole = whole_costs (predictor, schedule, error);
  guint n_slices = schedule->n_slices;
  g_autoptr (PsCosts) costs = NULL, placed = NULL;

  if (whole == NULL)
    return NULL;
  /* Costs that the predictor keeps gain slices as schedules ask for them. */
  if (predictor->given == NULL && !schedule->forward_only
      && !ps_setting_add_slices (setting, (PsCosts *)whole, placement->n_devices, n_slices, error))
    return NULL;
  if (predictor->given == NULL && (placement->kind == PS_PLACEMENT_CUSTOM || placement->n_copies > 1)) {
    whole = placed = ps_costs_copy (whole);
    if (!ps_setting_place (setting, placement, placed, error))
      return NULL;
  }
  if (lengths != NULL)
    costs = lengths_costs (setting, lengths, whole, placement->n_devices, schedule->forward_only ? 1 : n_slices, error);
  else
    costs = schedule->recomputes ? ps_costs_slice (whole, n_slices) : slices_costs (whole, n_slices);
  if (costs != NULL && schedule->recomputes)
    costs = add_recomputed (predictor, schedule, whole, g_steal_pointer (&costs), error);
  if (costs == NULL || !ps_costs_check (costs, schedule->n_microbatches * n_slices, error))
    return NULL;
  if (costs->warm != NULL || setting->n_speeds > 0)
    *fastest = ps_setting_fastest_costs (setting, placement, costs, 1, NULL);
  if (costs->warm != NULL)
    mix_warm (schedule, costs);
  ps_costs_add_host_time (costs, placement->device, placement->n_copies);
  drop_kept_weights (setting, schedule, costs);
  return g_steal_pointer (&costs);
}

/* Programs */

PsSchedule *ps_predictor_schedule (PsPredictor *predictor, const char *name_or_file, GError **error)
{
  const PsSetting *setting = predictor->setting;
  const PsFamily *family = ps_family_find (ps_family_own_name (name_or_file, setting->n_chunks));
  gboolean costly = family != NULL && family->uses_costs && setting->n_devices > 0 && setting->n_microbatches > 0
                    && ps_setting_source (setting) != NULL;
  const PsCosts *costs = NULL;
  g_autoptr (PsSchedule) schedule = NULL;

  if (costly)
    costs = find_costs (predictor, setting->n_devices,
                        setting->n_chunks > 0 ? setting->n_chunks : family->default_chunks, error);
  if (costly && costs == NULL)
    return NULL;
  if (family != NULL)
    schedule = generate (setting, family, costs, predictor->equal_chunks, error);
  else if (strpbrk (name_or_file, "/.") != NULL || g_file_test (name_or_file, G_FILE_TEST_EXISTS))
    schedule = read_file (setting, name_or_file, error);
  else
    refuse_name (name_or_file, error);
  if (schedule == NULL || !setting->has_placement || schedule->placement->kind == setting->placement)
    return g_steal_pointer (&schedule);
  return ps_refuse_null (error, PS_ERROR_USAGE, "--placement %s: schedule '%s' has placement %s",
                         ps_placement_name (setting->placement), schedule->name,
                         ps_placement_name (schedule->placement->kind));
}

/* Most settings ask for no channels, and their programs for no streams. */
static PsProgram *lower (const PsPredictor *predictor, PsSchedule *schedule, const char *where, GError **error)
{
  PsProgram *program = ps_program_lower_steps (schedule, predictor->setting->comm_order, error);

  if (program == NULL)
    g_prefix_error (error, "%s: ", where);
  return program;
}

PsProgram *ps_predictor_program (PsPredictor *predictor, const char *name_or_file, GError **error)
{
  PsSchedule *schedule = ps_predictor_schedule (predictor, name_or_file, error);
  PsProgram *program = schedule != NULL ? lower (predictor, schedule, name_or_file, error) : NULL;

  if (program != NULL)
    ps_program_add_streams (program);
  return program;
}

/* The engine */

const PsProgram *ps_prediction_hint (const PsPrediction *prediction)
{
  return prediction->hint != NULL ? prediction->hint : prediction->program;
}

/* Runs prediction->program under prediction->costs into prediction->simulation, by the engine that the setting needs.
 * Planning rewrites the program's sends and receives, ready order replaces it by what came of it. memory_limit is
 * [n_devices] or NULL. */
static gboolean simulate (const PsSetting *setting, const gint64 *memory_limit, PsPrediction *prediction,
                          GError **error)
{
  const PsSchedule *schedule = prediction->program->schedule;
  guint n_devices = schedule->placement->n_devices;
  PsCluster *links = NULL;
  double *speed = NULL;
  g_autoptr (PsEvents) events = NULL;

  if (!ps_setting_needs_events (setting)) {
    ps_simulate (prediction->program, prediction->costs, prediction->simulation);
    return TRUE;
  }
  ps_program_add_streams (prediction->program);
  if (!ps_setting_speeds (setting, n_devices, &speed, error))
    return FALSE;
  links = setting->share_links ? ps_setting_cluster (setting, error) : NULL;
  PsEventsSetting *how = prediction->events = g_new (PsEventsSetting, 1);
  *how = ps_setting_events (setting);
  how->speed = speed;
  how->links = links;
  how->memory_limit = g_memdup2 (memory_limit, n_devices * sizeof *memory_limit);
  if ((setting->share_links && links == NULL)
      || (setting->comm_order == PS_COMM_PLANNED && schedule->posts == NULL && ps_setting_transfers_wait (setting)
          && !ps_events_plan (prediction->program, prediction->costs, how, error)))
    return FALSE;
  events = ps_events_new (prediction->program, prediction->costs, how, error);
  if (events == NULL || !ps_events_run (events, prediction->costs, prediction->simulation, error))
    return FALSE;
  if (setting->ready_order == 0)
    return TRUE;
  prediction->hint = prediction->program;
  prediction->program = ps_events_realise (events, &prediction->simulation);
  return TRUE;
}

/* Predictions */

void ps_prediction_free (PsPrediction *prediction)
{
  if (prediction == NULL)
    return;
  if (prediction->events != NULL) {
    ps_cluster_free ((PsCluster *)prediction->events->links);
    g_free ((double *)prediction->events->speed);
    g_free ((gint64 *)prediction->events->memory_limit);
    g_free (prediction->events);
  }
  ps_program_free (prediction->hint);
  ps_costs_free (prediction->costs);
  ps_simulation_free (prediction->simulation);
  ps_program_free (prediction->program);
  ps_metrics_clear (&prediction->metrics);
  ps_prefill_free (prediction->prefill);
  g_free (prediction->first_token_ns);
  g_free (prediction->order);
  g_free (prediction);
}

PsTimeline *ps_prediction_timeline (const PsPrediction *prediction)
{
  PsTimeline *timeline = ps_timeline_from_simulation (prediction->program, prediction->costs, prediction->simulation);

  timeline->iteration_ns = prediction->metrics.iteration_ns;
  timeline->interval = prediction->interval;
  return timeline;
}

/* The prompts of a schedule of F alone. */
static PsPrefill *find_prompts (const PsSetting *setting, const PsSchedule *schedule, gboolean equal_chunks,
                                GError **error)
{
  g_autoptr (PsPrefill) prefill = NULL;
  guint most = most_lengths (schedule->placement->n_stages);

  if (setting->serve == PS_SERVE_NONE || !schedule->forward_only)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "schedule '%s': has %s; --serve prefill, --prompt and --chunk are for forwards alone",
                           schedule->name, schedule->forward_only ? "forwards alone" : "backwards");
  prefill = ps_prefill_new (setting, schedule->n_microbatches, equal_chunks, error);
  for (guint i = 0; prefill != NULL && i < prefill->n; i++)
    if (prefill->slices[i] != ps_schedule_slices (schedule, i))
      return ps_refuse_null (error, PS_ERROR_USAGE, "--chunk: makes %u chunks of prompt %u; schedule '%s' has %u",
                             (guint)prefill->slices[i], i, schedule->name, ps_schedule_slices (schedule, i));
  if (prefill != NULL && prefill->lengths->n_lengths > most)
    return ps_refuse_null (error, PS_ERROR_USAGE, "--prompt: makes %u different chunks; at most %u are possible",
                           prefill->lengths->n_lengths, most);
  return g_steal_pointer (&prefill);
}

/* Sets the costs and their least (schedule_costs), the memory limit, and the order of microbatches that have different
 * lengths. */
static gboolean take_costs (PsPredictor *predictor, PsPrediction *prediction, PsCosts **fastest, gint64 **limit,
                            gint64 *reserve, GError **error)
{
  const PsSetting *setting = predictor->setting;
  const PsSchedule *schedule = prediction->program->schedule;
  const PsPlacement *placement = schedule->placement;
  gboolean serves = setting->serve != PS_SERVE_NONE || schedule->forward_only;
  g_autoptr (PsLengths) read = NULL;
  const PsLengths *lengths = NULL;

  if (serves)
    prediction->prefill = find_prompts (setting, schedule, predictor->equal_chunks, error);
  else if (setting->lengths != NULL)
    read = find_lengths (setting, schedule->n_microbatches, placement->n_stages, error);
  lengths = prediction->prefill != NULL ? prediction->prefill->lengths : read;
  if ((!serves && setting->lengths == NULL) || lengths != NULL)
    prediction->costs = schedule_costs (predictor, schedule, lengths, fastest, error);
  if (prediction->costs == NULL || !ps_setting_memory_limit (setting, placement->n_devices, limit, reserve, error))
    return FALSE;
  if (read != NULL)
    prediction->order = arrange (read, predictor->order, prediction->costs, *limit, prediction->program);
  else
    set_lengths (prediction->program, prediction->costs, lengths, NULL);
  return TRUE;
}

/* Notes when the last stage has taken in each prompt. */
static void note_first_tokens (PsPrediction *prediction)
{
  const PsProgram *program = prediction->program;
  const PsSchedule *schedule = program->schedule;
  double sum_ns = 0;

  prediction->first_token_ns = g_new0 (gint64, schedule->n_microbatches);
  for (guint i = 0; i < ps_schedule_n_ops (schedule); i++)
    if (schedule->ops[i].stage + 1U == schedule->placement->n_stages
        && ps_schedule_ends_prompt (schedule, schedule->ops[i]))
      prediction->first_token_ns[schedule->ops[i].microbatch] = prediction->simulation->end_ns[program->step_of[i] + 1];
  for (guint i = 0; i < prediction->prefill->n; i++)
    sum_ns += (double)prediction->first_token_ns[i];
  prediction->mean_first_token_ns = llround (sum_ns / prediction->prefill->n);
}

/* Simulates the program of the prediction, and works out its figures. */
static gboolean run (PsPredictor *predictor, PsPrediction *prediction, GError **error)
{
  const PsSetting *setting = predictor->setting;
  const PsSchedule *schedule = prediction->program->schedule;
  g_autofree gint64 *limit = NULL;
  gint64 reserve = 0, excess = 0;
  g_autoptr (PsCosts) fastest = NULL;
  const PsProgram *repeated;

  if (!take_costs (predictor, prediction, &fastest, &limit, &reserve, error))
    return FALSE;
  if (prediction->costs->zero >= 3 && schedule->asynchronous)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: never drains, so that the gathers of --zero 3 have no place in it",
                      schedule->name);
  prediction->simulation = ps_simulation_new (prediction->program);
  if (!simulate (setting, limit, prediction, error))
    return FALSE;
  ps_metrics_from_simulation (prediction->program, prediction->simulation, &prediction->metrics);
  if (prediction->prefill != NULL)
    note_first_tokens (prediction);
  repeated = setting->sync == PS_SYNC_BYPASS ? ps_prediction_hint (prediction) : prediction->program;
  if (!ps_iteration_events (repeated, prediction->costs, prediction->simulation, prediction->events, setting->sync,
                            setting->reduce, &prediction->iteration, error))
    return FALSE;
  ps_metrics_set_iteration (&prediction->metrics, prediction->iteration.period_ns);
  prediction->lower_bound_ns = ps_schedule_bound (schedule, fastest != NULL ? fastest : prediction->costs,
                                                  schedule->asynchronous || setting->sync == PS_SYNC_BYPASS);
  for (guint d = 0; limit != NULL && d < prediction->metrics.n_devices; d++)
    excess = MAX (excess, prediction->metrics.device[d].peak_memory_bytes - limit[d]);
  prediction->feasible = excess == 0;
  prediction->fits = ps_fits (excess, reserve);
  return TRUE;
}

/* Whether b is at least as good as a: one that fits the memory limit, then the faster one. */
static gboolean is_as_good (const PsPrediction *b, const PsPrediction *a)
{
  return a->feasible != b->feasible ? b->feasible : b->metrics.iteration_ns <= a->metrics.iteration_ns;
}

/* Predicts the schedule; NULL: that of the name. The best order of microbatches is the best of four: the one that is
 * best by the relaxation engine, and the three others. Even chunks are those of ps_work_cut_even or equal ones,
 * whichever are better. All are priced as the setting asks; some may deadlock. */
static PsPrediction *predict_order (PsPredictor *predictor, const char *name_or_file, const PsSchedule *schedule,
                                    GError **error)
{
  const PsSetting *setting = predictor->setting;
  gboolean any = setting->lengths != NULL && setting->microbatch_order == PS_ORDER_BEST;
  guint n = any ? PS_ORDER_BEST + 1 : setting->even_chunks ? 2 : 1;
  g_autoptr (GError) reason = NULL;
  PsPrediction *best = NULL;

  for (guint i = 0; i < n; i++) {
    g_autoptr (PsPrediction) prediction = g_new0 (PsPrediction, 1);
    PsSchedule *own;

    predictor->order = any ? (PsMicrobatchOrder)i : setting->microbatch_order;
    predictor->equal_chunks = !any && i > 0;
    own = schedule != NULL ? ps_schedule_copy (schedule) : ps_predictor_schedule (predictor, name_or_file, &reason);
    prediction->program = own != NULL ? lower (predictor, own, name_or_file, &reason) : NULL;
    if (prediction->program == NULL || !run (predictor, prediction, &reason))
      g_clear_error (i + 1 < n ? &reason : NULL);
    else if (best == NULL || is_as_good (prediction, best)) {
      ps_prediction_free (best);
      best = g_steal_pointer (&prediction);
    }
  }
  predictor->equal_chunks = FALSE;
  if (best == NULL)
    g_propagate_error (error, g_steal_pointer (&reason));
  return best;
}

static gboolean is_even (const PsPrediction *prediction)
{
  const PsCosts *costs = prediction->costs;

  return costs->shapes == NULL || ps_stage_shapes_are_even (costs->shapes, costs->n_stages);
}

char *ps_prediction_layout (const PsPrediction *prediction)
{
  const PsCosts *costs = prediction->costs;

  if (costs->shapes == NULL)
    return NULL;
  return costs->pattern == NULL && is_even (prediction)
             ? g_strdup ("even")
             : ps_layout_write (costs->pattern, costs->shapes, costs->n_stages);
}

PsPrediction *ps_predictor_predict (PsPredictor *predictor, const char *name_or_file, GError **error)
{
  const PsCostSource *source = ps_setting_source (predictor->setting);
  gboolean open = predictor->given == NULL && predictor->setting->layout == NULL
                  && predictor->setting->costs_from == NULL && source != NULL && source->has_model;
  g_autoptr (GError) reason = NULL;
  g_autoptr (PsPrediction) best = predict_order (predictor, name_or_file, NULL, &reason), even = NULL;

  if (open && (best == NULL || !is_even (best))) {
    predictor->even = TRUE;
    even = predict_order (predictor, name_or_file, NULL, NULL);
    predictor->even = FALSE;
  }
  if (even != NULL && (best == NULL || is_as_good (even, best)))
    return g_steal_pointer (&even);
  if (even != NULL)
    best->even_ns = even->metrics.iteration_ns;
  if (best == NULL)
    g_propagate_error (error, g_steal_pointer (&reason));
  return g_steal_pointer (&best);
}

PsPrediction *ps_predictor_predict_schedule (PsPredictor *predictor, PsSchedule *schedule, GError **error)
{
  PsPrediction *prediction = predict_order (predictor, schedule->name, schedule, error);

  ps_schedule_free (schedule);
  return prediction;
}

gboolean ps_predictor_add_interval (PsPredictor *predictor, PsPrediction *prediction, guint n_steps, GError **error)
{
  const PsSetting *setting = predictor->setting;
  const PsCostSource *source = ps_setting_source (setting);
  const PsProgram *program = ps_prediction_hint (prediction);
  const PsSampling sampling = { .events = prediction->events, .sync = setting->sync, .reduce = setting->reduce };
  const PsPlacement *placement = prediction->program->schedule->placement;
  SizedCosts *sized;

  if (source == NULL || source->spread == NULL || prediction->costs->zero == 3
      || prediction->costs->time_origin == PS_ORIGIN_SIMULATED)
    return TRUE;
  sized = find_sized (predictor, placement->n_devices, placement->n_stages / placement->n_devices);
  if (sized->spread == NULL)
    sized->spread = ps_setting_spread (setting, prediction->costs->shapes, sized->n_devices, sized->n_chunks, error);
  return sized->spread != NULL
         && ps_interval_init (&prediction->interval, program, prediction->costs, sized->spread, &sampling,
                              prediction->metrics.iteration_ns, n_steps, error);
}

PsPrediction *ps_predict (const PsSetting *setting, const char *name_or_file, GError **error)
{
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);

  return ps_predictor_predict (predictor, name_or_file, error);
}
