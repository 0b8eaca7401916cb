/* scenarios.c - blocks of scenarios: costs packed into lanes, the walk, and results from the devices' ends. */
#include "scenarios-kernel.h"

#include <string.h>

#define ALIGNMENT 64
#define TILE 64 /* blocks per tile: 8 KiB of durations and 8 KiB of transfers */
#define LANES_32 (PS_SCENARIO_BLOCK_BYTES / sizeof (guint32))
#define LANES_64 (PS_SCENARIO_BLOCK_BYTES / sizeof (gint64))

G_STATIC_ASSERT (LANES_64 == PS_SCENARIO_LANES);

/* All arrays hold blocks of one of the two widths, or half blocks of 32 bits if every op has a time of its own. */
typedef struct
{
  gpointer slots;     /* [n_slots] */
  gpointer ops;       /* [n_op_classes] */
  gpointer transfers; /* [n_transfer_classes] */
  gpointer firsts;    /* [n_devices] duration of each device's first op, if every op has its own */
  gpointer tile_ops;  /* [TILE] or twice as many half blocks */
  gpointer tile_transfers;
} Scratch;

static guint
n_devices (const PsScenarios *scenarios)
{
  return scenarios->recurrence->program->schedule->placement->n_devices;
}

static Scratch *
scratch_new (const PsRecurrence *recurrence, guint devices, gpointer *allocation)
{
  const gsize sizes[]
      = { recurrence->n_slots, recurrence->n_op_classes, recurrence->n_transfer_classes, devices, TILE, TILE };
  Scratch *scratch = g_new0 (Scratch, 1);
  gsize total = 0;
  guint8 *next;

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    total += sizes[i];
  *allocation = g_malloc0 (total * PS_SCENARIO_BLOCK_BYTES + ALIGNMENT);
  next = (guint8 *)*allocation + (ALIGNMENT - (gsize)*allocation % ALIGNMENT);
  scratch->slots = next;
  scratch->ops = next += sizes[0] * PS_SCENARIO_BLOCK_BYTES;
  scratch->transfers = next += sizes[1] * PS_SCENARIO_BLOCK_BYTES;
  scratch->firsts = (gpointer)(next += sizes[2] * PS_SCENARIO_BLOCK_BYTES);
  scratch->tile_ops = (gpointer)(next += sizes[3] * PS_SCENARIO_BLOCK_BYTES);
  scratch->tile_transfers = (gpointer)(next + sizes[4] * PS_SCENARIO_BLOCK_BYTES);
  return scratch;
}

PsScenarios *
ps_scenarios_new (const PsRecurrence *recurrence, guint n)
{
  PsScenarios *scenarios = g_new0 (PsScenarios, 1);
  gsize devices = recurrence->program->schedule->placement->n_devices;

  g_return_val_if_fail (n >= 1, NULL);
  scenarios->recurrence = recurrence;
  scenarios->n = n;
  scenarios->kernel = ps_kernel_best ();
  scenarios->op_ns = g_new0 (gint64, (gsize)recurrence->n_op_classes * n);
  scenarios->transfer_ns = g_new0 (gint64, (gsize)recurrence->n_transfer_classes * n);
  scenarios->makespan_ns = g_new0 (gint64, n);
  scenarios->max_span_ns = g_new0 (gint64, n);
  scenarios->start_ns = g_new0 (gint64, devices * n);
  scenarios->end_ns = g_new0 (gint64, devices * n);
  scenarios->scratch = scratch_new (recurrence, devices, &scenarios->allocation);
  return scenarios;
}

void
ps_scenarios_free (PsScenarios *scenarios)
{
  if (scenarios == NULL)
    return;
  g_free (scenarios->op_ns);
  g_free (scenarios->transfer_ns);
  g_free (scenarios->makespan_ns);
  g_free (scenarios->max_span_ns);
  g_free (scenarios->start_ns);
  g_free (scenarios->end_ns);
  g_free (scenarios->scratch);
  g_free (scenarios->allocation);
  g_free (scenarios);
}

void
ps_scenarios_set_costs (PsScenarios *scenarios, guint scenario, const PsCosts *costs)
{
  const PsRecurrence *recurrence = scenarios->recurrence;

  g_return_if_fail (scenario < scenarios->n);
  for (gsize row = 1; row < recurrence->n_op_classes; row++)
    scenarios->op_ns[row * scenarios->n + scenario] = ps_op_class_duration (&recurrence->op[row], costs);
  for (gsize row = 1; row < recurrence->n_transfer_classes; row++)
    scenarios->transfer_ns[row * scenarios->n + scenario]
        = ps_transfer_class_duration (&recurrence->transfer[row], costs);
}

/* Which integers */

/* Every lane of a class gets its largest cost. */
static void
pack_largest (const gint64 *ns, guint n_classes, guint n, gint64 *packed)
{
  for (gsize row = 0; row < n_classes; row++)
    {
      gint64 largest = 0;

      for (guint i = 0; i < n; i++)
        largest = MAX (largest, ns[row * n + i]);
      for (guint lane = 0; lane < LANES_64; lane++)
        packed[row * LANES_64 + lane] = largest;
    }
}

/* A bound on the end times of all scenarios. */
static gint64
latest_end (PsScenarios *scenarios, const PsScenarioKernel *kernel)
{
  const PsRecurrence *recurrence = scenarios->recurrence;
  const Scratch *scratch = scenarios->scratch;
  const gint64 *slots = scratch->slots;
  gint64 latest = 0;

  pack_largest (scenarios->op_ns, recurrence->n_op_classes, scenarios->n, scratch->ops);
  pack_largest (scenarios->transfer_ns, recurrence->n_transfer_classes, scenarios->n, scratch->transfers);
  memset (scratch->slots, 0, PS_SCENARIO_BLOCK_BYTES);
  kernel->walk_64 (recurrence->steps, recurrence->n_steps, scratch->slots, scratch->ops, scratch->transfers);
  for (guint device = 0; device < n_devices (scenarios); device++)
    latest = MAX (latest, slots[(gsize)recurrence->last_slot[device] * LANES_64]);
  return latest;
}

static gint64
common_divisor (const gint64 *ns, gsize n, gint64 divisor)
{
  for (gsize i = 0; i < n && divisor != 1; i++)
    divisor = ps_common_divisor (divisor, ns[i]);
  return divisor;
}

static void
choose_integers (PsScenarios *scenarios, const PsScenarioKernel *kernel)
{
  const PsRecurrence *recurrence = scenarios->recurrence;
  gint64 latest, divisor;

  scenarios->bits = 64;
  scenarios->unit_ns = 1;
  /* Finding the width would cost as much as one block. */
  if (scenarios->n <= LANES_64)
    return;
  latest = latest_end (scenarios, kernel);
  if (latest <= G_MAXUINT32)
    {
      scenarios->bits = 32;
      return;
    }
  divisor = common_divisor (scenarios->op_ns, (gsize)recurrence->n_op_classes * scenarios->n, 0);
  divisor = common_divisor (scenarios->transfer_ns, (gsize)recurrence->n_transfer_classes * scenarios->n, divisor);
  if (divisor == 0 || latest / divisor > G_MAXUINT32)
    return;
  scenarios->bits = 32;
  scenarios->unit_ns = divisor;
}

/* Packing and unpacking of the block whose first scenario is `first` */

/* The last block's empty lanes repeat the last scenario. */
static void
pack_64 (const gint64 *ns, guint n_classes, guint n, guint first, gint64 *packed)
{
  for (gsize row = 0; row < n_classes; row++)
    for (guint lane = 0; lane < LANES_64; lane++)
      packed[row * LANES_64 + lane] = ns[row * n + MIN (first + lane, n - 1)];
}

/* Quotients are exact and below 2^32, so a product with the inverse is off by less than a half. */
static void
pack_32 (const gint64 *ns, guint n_classes, guint n, guint first, gint64 unit_ns, guint32 *packed)
{
  double inverse = 1.0 / (double)unit_ns;

  for (gsize row = 0; row < n_classes; row++)
    for (guint lane = 0; lane < LANES_32; lane++)
      {
        gint64 value = ns[row * n + MIN (first + lane, n - 1)];

        packed[row * LANES_32 + lane] = (guint32)(unit_ns == 1 ? value : (gint64)((double)value * inverse + 0.5));
      }
}

/* Sets the first start and last end of a device in one lane. */
static void
set_device (PsScenarios *scenarios, guint device, guint scenario, gint64 start_ns, gint64 end_ns)
{
  gsize index = (gsize)device * scenarios->n + scenario;

  scenarios->start_ns[index] = start_ns;
  scenarios->end_ns[index] = end_ns;
}

static gint64
number_at (const PsScenarios *scenarios, gconstpointer numbers, gsize index)
{
  return scenarios->bits == 32 ? ((const guint32 *)numbers)[index] * scenarios->unit_ns
                               : ((const gint64 *)numbers)[index];
}

/* `durations` holds the duration of a device's first op in block row[device], or in block `device` if row is NULL. */
static void
unpack (PsScenarios *scenarios, guint lanes, guint first, gconstpointer durations, const guint32 *row)
{
  const PsRecurrence *recurrence = scenarios->recurrence;
  const Scratch *scratch = scenarios->scratch;
  guint n = MIN (scenarios->n - first, lanes);

  for (gsize device = 0; device < n_devices (scenarios); device++)
    for (guint lane = 0; lane < n; lane++)
      {
        gsize duration = (row != NULL ? row[device] : device) * lanes + lane;
        gsize begin = (gsize)recurrence->first_slot[device] * lanes + lane,
              end = (gsize)recurrence->last_slot[device] * lanes + lane;

        set_device (scenarios, (guint)device, first + lane,
                    number_at (scenarios, scratch->slots, begin) - number_at (scenarios, durations, duration),
                    number_at (scenarios, scratch->slots, end));
      }
}

static void
find_spans (PsScenarios *scenarios)
{
  gsize n = scenarios->n;

  for (gsize i = 0; i < n; i++)
    {
      gint64 start = G_MAXINT64, end = 0, span = 0;

      for (gsize device = 0; device < n_devices (scenarios); device++)
        {
          gint64 device_start = scenarios->start_ns[device * n + i], device_end = scenarios->end_ns[device * n + i];

          start = MIN (start, device_start);
          end = MAX (end, device_end);
          span = MAX (span, device_end - device_start);
        }
      scenarios->makespan_ns[i] = end - start;
      scenarios->max_span_ns[i] = span;
    }
}

/* Running */

static void
run_block_32 (PsScenarios *scenarios, const PsScenarioKernel *kernel, guint first)
{
  const PsRecurrence *recurrence = scenarios->recurrence;
  const Scratch *scratch = scenarios->scratch;

  pack_32 (scenarios->op_ns, recurrence->n_op_classes, scenarios->n, first, scenarios->unit_ns, scratch->ops);
  pack_32 (scenarios->transfer_ns, recurrence->n_transfer_classes, scenarios->n, first, scenarios->unit_ns,
           scratch->transfers);
  kernel->walk_32 (recurrence->steps, recurrence->n_steps, scratch->slots, scratch->ops, scratch->transfers);
  unpack (scenarios, LANES_32, first, scratch->ops, recurrence->first_class);
}

static void
run_block_64 (PsScenarios *scenarios, const PsScenarioKernel *kernel, guint first)
{
  const PsRecurrence *recurrence = scenarios->recurrence;
  const Scratch *scratch = scenarios->scratch;

  pack_64 (scenarios->op_ns, recurrence->n_op_classes, scenarios->n, first, scratch->ops);
  pack_64 (scenarios->transfer_ns, recurrence->n_transfer_classes, scenarios->n, first, scratch->transfers);
  kernel->walk_64 (recurrence->steps, recurrence->n_steps, scratch->slots, scratch->ops, scratch->transfers);
  unpack (scenarios, LANES_64, first, scratch->ops, recurrence->first_class);
}

void
ps_scenarios_run (PsScenarios *scenarios)
{
  const PsScenarioKernel *kernel = ps_scenario_kernel (scenarios->kernel);
  Scratch *scratch = scenarios->scratch;
  guint lanes;

  g_return_if_fail (kernel != NULL);
  choose_integers (scenarios, kernel);
  lanes = scenarios->bits == 32 ? LANES_32 : LANES_64;
  memset (scratch->slots, 0, PS_SCENARIO_BLOCK_BYTES);
  for (guint first = 0; first < scenarios->n; first += lanes)
    if (scenarios->bits == 32)
      run_block_32 (scenarios, kernel, first);
    else
      run_block_64 (scenarios, kernel, first);
  find_spans (scenarios);
}

/* Remembers the durations of those devices' first ops that lie in a tile; returns how many do. */
static guint
keep_firsts (const PsScenarios *scenarios, guint begin, guint n)
{
  const Scratch *scratch = scenarios->scratch;
  gsize size = PS_SCENARIO_LANES * scenarios->bits / 8;
  guint kept = 0;

  for (gsize device = 0; device < n_devices (scenarios); device++)
    {
      guint step = scenarios->recurrence->first_step[device];

      if (scenarios->recurrence->first_slot[device] == 0 || step < begin || step >= begin + n)
        continue;
      memcpy ((guint8 *)scratch->firsts + device * size, (guint8 *)scratch->tile_ops + (step - begin) * size, size);
      kept++;
    }
  return kept;
}

static void
run_block_steps (PsScenarios *scenarios, const PsScenarioKernel *kernel, guint first, PsScenarioFill fill,
                 gpointer data)
{
  const PsRecurrence *recurrence = scenarios->recurrence;
  const Scratch *scratch = scenarios->scratch;
  PsScenarioWalk walk = scenarios->bits == 32 ? kernel->walk_steps_32 : kernel->walk_steps_64;
  guint kept = 0;

  for (guint begin = 0, n; begin < recurrence->n_steps; begin += n)
    {
      n = MIN (recurrence->n_steps - begin, 64 * TILE / scenarios->bits);
      fill (data, begin, n, first, scratch->tile_ops, scratch->tile_transfers);
      walk (&recurrence->steps[begin], n, scratch->slots, scratch->tile_ops, scratch->tile_transfers);
      if (kept < n_devices (scenarios))
        kept += keep_firsts (scenarios, begin, n);
    }
  unpack (scenarios, PS_SCENARIO_LANES, first, scratch->firsts, NULL);
}

void
ps_scenarios_run_steps (PsScenarios *scenarios, guint bits, PsScenarioFill fill, gpointer data)
{
  const PsScenarioKernel *kernel = ps_scenario_kernel (scenarios->kernel);
  Scratch *scratch = scenarios->scratch;

  g_return_if_fail (kernel != NULL && (bits == 32 || bits == 64));
  scenarios->bits = bits;
  scenarios->unit_ns = 1;
  memset (scratch->slots, 0, PS_SCENARIO_BLOCK_BYTES);
  for (guint first = 0; first < scenarios->n; first += PS_SCENARIO_LANES)
    run_block_steps (scenarios, kernel, first, fill, data);
  find_spans (scenarios);
}
