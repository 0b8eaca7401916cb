/* setting-lengths.c - --lengths and --microbatch-order. */
#include "setting-lengths.h"

#include <pipesim/simulate.h>

#include <string.h>

PsLengths *
ps_lengths_find (const PsSetting *setting, guint n_microbatches, guint n_stages, GError **error)
{
  g_autoptr (PsLengths) lengths = ps_lengths_read (setting->lengths, error);
  guint most = ps_lengths_most (n_stages);

  if (lengths == NULL)
    return NULL;
  if (lengths->n != n_microbatches)
    ps_refuse (error, PS_ERROR_USAGE, "--lengths %s: has %u microbatches; the schedule has %u", setting->lengths,
               lengths->n, n_microbatches);
  else if (lengths->n_lengths > most)
    ps_refuse (error, PS_ERROR_USAGE, "--lengths %s: has %u different lengths; with %u stages at most %u are possible",
               setting->lengths, lengths->n_lengths, n_stages, most);
  else
    return g_steal_pointer (&lengths);
  return NULL;
}

/* A machine that takes 1 ns for 1000 operations and no time for anything else. */
static const PsCluster operations = { .name = (char *)"operations",
                                      .nodes = 1,
                                      .devices_per_node = PS_MAX_DEVICES,
                                      .peak_flops = 1e12,
                                      .efficiency = 1,
                                      .link_bandwidth = 1e9,
                                      .spacing = 1,
                                      .tensor = 1 };

/* The setting's costs of the same stages with sequences of `tokens` tokens; 0: the sequences that it has. */
static PsCosts *
token_costs (const PsSetting *setting, const PsCosts *whole, guint n_devices, guint tokens, GError **error)
{
  guint n_chunks = whole->n_stages / n_devices;
  PsSetting said = *setting;
  g_autoptr (PsModel) model = NULL;

  said.known_shapes = whole->shapes;
  said.sequence = tokens > 0 ? tokens : setting->sequence;
  if (ps_setting_source (setting)->has_cluster)
    return ps_setting_costs (&said, n_devices, n_chunks, error);
  model = ps_setting_model (&said, error);
  if (model == NULL || !ps_model_resize (model, 0, tokens, error))
    return NULL;
  return ps_costs_model_stages (model, &operations, whole->shapes, n_devices, n_chunks, error);
}

/* Sets the factors of each stage for one length. own: token_costs of the setting's own sequences; NULL: not needed. */
static gboolean
set_factors (const PsSetting *setting, const PsLength *length, const PsCosts *whole, const PsCosts *own,
             guint n_devices, PsLengthFactors *factors, GError **error)
{
  g_autoptr (PsCosts) longer = own != NULL ? token_costs (setting, whole, n_devices, length->tokens, error) : NULL;

  if (own != NULL && longer == NULL)
    {
      g_prefix_error (error, "--lengths %s: ", setting->lengths);
      return FALSE;
    }
  for (guint stage = 0; stage < whole->n_stages; stage++)
    factors[stage] = own != NULL ? ps_length_factors (own, longer, stage) : length->factors;
  return TRUE;
}

static gboolean
load_own (const PsSetting *setting, const PsLengths *lengths, const PsCosts *whole, guint n_devices, PsCosts **own,
          GError **error)
{
  *own = NULL;
  if (lengths->length[0].tokens == 0)
    return TRUE;
  if (whole->shapes == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--lengths %s: tokens need the costs of a model; give factors",
                      setting->lengths);
  *own = token_costs (setting, whole, n_devices, 0, error);
  return *own != NULL;
}

/* The costs of a slice: of any, or of each where they are known and there is room for them. */
static GPtrArray *
slices_of (const PsCosts *whole, guint n_lengths, guint n_slices)
{
  GPtrArray *slices = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_costs_free);
  gboolean differ = ps_costs_has_slices (whole, n_slices) && n_lengths * n_slices <= ps_lengths_most (whole->n_stages);

  if (!differ)
    g_ptr_array_add (slices, n_slices > 1 ? ps_costs_slice (whole, n_slices) : ps_costs_copy (whole));
  for (guint k = 0; k < n_slices && differ; k++)
    g_ptr_array_add (slices, ps_costs_nth_slice (whole, n_slices, k));
  return slices;
}

PsCosts *
ps_lengths_costs (const PsSetting *setting, const PsLengths *lengths, const PsCosts *whole, guint n_devices,
                  guint n_slices, GError **error)
{
  g_autoptr (GPtrArray) each = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_costs_free);
  g_autofree PsLengthFactors *factors = g_new (PsLengthFactors, whole->n_stages);
  g_autoptr (GPtrArray) slices = slices_of (whole, lengths->n_lengths, n_slices);
  g_autoptr (PsCosts) own = NULL;

  if (!load_own (setting, lengths, whole, n_devices, &own, error))
    return NULL;
  for (guint i = 0; i < lengths->n_lengths; i++)
    {
      if (!set_factors (setting, &lengths->length[i], whole, own, n_devices, factors, error))
        return NULL;
      for (guint k = 0; k < slices->len; k++)
        {
          PsCosts *scaled = ps_costs_scale (slices->pdata[k], factors);

          g_ptr_array_add (each, scaled);
          if (!ps_costs_check (scaled, lengths->n * n_slices, error))
            return NULL;
        }
    }
  return ps_costs_join ((PsCosts *const *)each->pdata, each->len);
}

PsCosts *
ps_slices_costs (const PsCosts *whole, guint n_slices)
{
  g_autoptr (GPtrArray) slices = slices_of (whole, 1, n_slices);

  if (slices->len == 1)
    return g_ptr_array_steal_index (slices, 0);
  return ps_costs_join ((PsCosts *const *)slices->pdata, slices->len);
}

void
ps_program_set_slices (PsProgram *program, const PsCosts *costs)
{
  const PsSchedule *schedule = program->schedule;
  gsize n = ps_schedule_n_cells (schedule);
  g_autofree guint8 *recomputed = ps_schedule_recomputed (schedule);
  g_autofree guint16 *length = NULL;

  if (costs->n_lengths == 1 && schedule->length == NULL)
    return;
  length = g_new (guint16, n);
  for (gsize i = 0; i < n; i++)
    length[i] = (guint16)(recomputed != NULL ? recomputed[i] : i % schedule->n_slices % costs->n_lengths);
  ps_program_set_lengths (program, costs->n_lengths, length);
}

PsCosts *
ps_setting_average (const PsSetting *setting, const PsCosts *costs, guint n_devices, guint n_microbatches,
                    GError **error)
{
  g_autoptr (PsLengths) lengths = NULL;
  g_autoptr (PsCosts) all = NULL;

  if (setting->lengths == NULL)
    return ps_costs_copy (costs);
  lengths = ps_lengths_find (setting, n_microbatches, costs->n_stages, error);
  if (lengths == NULL)
    return NULL;
  all = ps_lengths_costs (setting, lengths, costs, n_devices, 1, error);
  return all == NULL || all->n_lengths == 1 ? g_steal_pointer (&all) : ps_costs_average (all, lengths);
}

/* The order of microbatches */

typedef struct
{
  const PsLengths *lengths;
  const PsCosts *costs;
  const gint64 *memory_limit;
  PsProgram *program;
  PsSimulation *simulation;
  guint16 *length; /* [ps_schedule_cell] scratch */
  guint *order;    /* [n] the order that is tried */
  guint *best;     /* [n] */
  gint64 excess;   /* of the best: bytes above the limit */
  gint64 makespan_ns;
  gint64 n_steps; /* left to simulate */
} Search;

static void
set_lengths (const Search *search, const guint *order)
{
  guint n_slices = search->program->schedule->n_slices, n = search->lengths->n * n_slices,
        n_classes = search->costs->n_lengths / search->lengths->n_lengths;

  for (guint i = 0; i < n; i++)
    search->length[i] = (guint16)(search->lengths->of[order[i / n_slices]] * n_classes + i % n_slices % n_classes);
  for (guint stage = 1; stage < search->costs->n_stages; stage++)
    memcpy (&search->length[stage * n], search->length, n * sizeof *search->length);
  ps_program_set_lengths (search->program, search->costs->n_lengths, search->length);
}

/* Simulates search->order; TRUE and kept if it is better than the best. */
static gboolean
try_order (Search *search)
{
  const PsSimulation *simulation = search->simulation;
  gint64 excess = 0;

  set_lengths (search, search->order);
  ps_simulate (search->program, search->costs, search->simulation);
  search->n_steps -= simulation->n_steps;
  for (guint d = 0; search->memory_limit != NULL && d < simulation->n_devices; d++)
    excess += MAX (simulation->device[d].peak_bytes - search->memory_limit[d], 0);
  if (excess > search->excess || (excess == search->excess && simulation->makespan_ns >= search->makespan_ns))
    return FALSE;
  search->excess = excess;
  search->makespan_ns = simulation->makespan_ns;
  memcpy (search->best, search->order, search->lengths->n * sizeof *search->best);
  return TRUE;
}

static void
swap (Search *search, guint a, guint b)
{
  guint kept = search->order[a];

  search->order[a] = search->order[b];
  search->order[b] = kept;
}

/* Number of different orders, or more than PS_MAX_ORDERS. */
static double
count_orders (const PsLengths *lengths)
{
  g_autofree guint *alike = g_new0 (guint, lengths->n_lengths);
  double n = 1;

  for (guint i = 0; i < lengths->n && n <= 1e100; i++)
    n *= (double)(i + 1) / ++alike[lengths->of[i]];
  return n;
}

/* Tries every order of the microbatches from `first` on. Of microbatches with the same length one takes the place. */
static void
try_all (Search *search, guint first)
{
  const guint16 *of = search->lengths->of;

  if (first == search->lengths->n)
    try_order (search);
  for (guint i = first; i < search->lengths->n; i++)
    {
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

static void
improve (Search *search)
{
  const guint16 *of = search->lengths->of;
  guint n = search->lengths->n;
  gboolean better = TRUE;

  while (better)
    {
      better = FALSE;
      memcpy (search->order, search->best, n * sizeof *search->order);
      for (guint a = 0; a < n; a++)
        for (guint b = a + 1; b < n && search->n_steps > 0; b++)
          {
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

/* The work of a microbatch of that length on all stages. */
static gint64
work_ns (const PsCosts *costs, guint length)
{
  gint64 sum = 0;

  for (guint kind = PS_OP_F; kind <= PS_OP_W; kind++)
    for (guint s = 0; s < costs->n_stages; s++)
      sum += costs->op[ps_op_index (costs->n_stages, costs->n_lengths, kind, length, s)].duration_ns;
  return sum;
}

typedef struct
{
  const PsLengths *lengths;
  gint64 *work_ns; /* [n_lengths] */
  int sign;
} Sorting;

/* Microbatches of the same work keep their order. */
static int
compare_work (gconstpointer a, gconstpointer b, gpointer data)
{
  const Sorting *sorting = data;
  guint i = *(const guint *)a, k = *(const guint *)b;
  gint64 x = sorting->work_ns[sorting->lengths->of[i]], y = sorting->work_ns[sorting->lengths->of[k]];

  return x != y ? sorting->sign * (x < y ? -1 : 1) : (i > k) - (i < k);
}

static void
sort (const PsLengths *lengths, PsMicrobatchOrder by, const PsCosts *costs, guint *order)
{
  g_autofree gint64 *work = g_new (gint64, lengths->n_lengths);
  Sorting sorting = { lengths, work, by == PS_ORDER_DESCENDING ? -1 : 1 };

  for (guint i = 0; i < lengths->n; i++)
    order[i] = i;
  for (guint k = 0; k < lengths->n_lengths; k++)
    work[k] = work_ns (costs, k * (costs->n_lengths / lengths->n_lengths));
  if (by == PS_ORDER_ASCENDING || by == PS_ORDER_DESCENDING)
    qsort_r (order, lengths->n, sizeof *order, compare_work, &sorting);
}

static void
find_best (Search *search)
{
  guint n = search->lengths->n;

  search->simulation = ps_simulation_new (search->program);
  search->best = g_new (guint, n);
  for (PsMicrobatchOrder by = PS_ORDER_GIVEN; by < PS_ORDER_BEST; by++)
    {
      sort (search->lengths, by, search->costs, search->order);
      try_order (search);
    }
  if (count_orders (search->lengths) <= PS_MAX_ORDERS)
    try_all (search, 0);
  else
    improve (search);
  memcpy (search->order, search->best, n * sizeof *search->order);
  g_free (search->best);
  ps_simulation_free (search->simulation);
}

guint *
ps_lengths_arrange (const PsLengths *lengths, PsMicrobatchOrder order, const PsCosts *costs, const gint64 *memory_limit,
                    PsProgram *program)
{
  g_autofree guint16 *length = g_new (guint16, ps_schedule_n_cells (program->schedule));
  Search search = { .lengths = lengths,
                    .costs = costs,
                    .memory_limit = memory_limit,
                    .program = program,
                    .length = length,
                    .order = g_new (guint, lengths->n),
                    .excess = G_MAXINT64,
                    .makespan_ns = G_MAXINT64,
                    .n_steps = PS_MAX_SWAP_STEPS };

  if (order == PS_ORDER_BEST)
    find_best (&search);
  else
    sort (lengths, order, costs, search.order);
  set_lengths (&search, search.order);
  return search.order;
}
