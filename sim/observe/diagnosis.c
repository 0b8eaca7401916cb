/* diagnosis.c - the work of every stage for every microbatch in every iteration, and the parts of it that are slow. */
#include <pipesim/observe.h>
#include <pipesim/answer.h>

#define DEVIATIONS (3 * 1.4826)
#define SLOW_STAGE 1.05
#define SLOW_OTHER 1.1
#define SLOW_OP 1.5
#define SLOW_OP_PART 0.01 /* of the iteration */

static gint64
iteration_time (const GPtrArray *iterations, guint i)
{
  return ((const PsTimeline *)iterations->pdata[i])->iteration_ns;
}

PsIterationSpread
ps_iteration_spread (const GPtrArray *iterations)
{
  guint n = iterations->len;
  g_autofree gint64 *times_ns = g_new (gint64, n);
  PsIterationSpread spread = { .n = n };

  for (guint i = 0; i < n; i++)
    times_ns[i] = iteration_time (iterations, i);
  spread.median_ns = ps_median (times_ns, n); /* sorts them */
  spread.p10_ns = ps_quantile (times_ns, n, 0.1).value_ns;
  spread.p90_ns = ps_quantile (times_ns, n, 0.9).value_ns;
  return spread;
}

guint
ps_median_iteration (const GPtrArray *iterations)
{
  gint64 median_ns = ps_iteration_spread (iterations).median_ns;
  guint i = 0;

  while (iteration_time (iterations, i) != median_ns)
    i++;
  return i;
}

const char *
ps_pass_name (PsPass pass)
{
  static const char *const names[PS_N_PASSES] = { "forward", "backward", "pair" };

  g_return_val_if_fail (pass < PS_N_PASSES, NULL);
  return names[pass];
}

const char *
ps_slow_name (PsSlowKind kind)
{
  static const char *const names[] = { "device", "stage", "microbatch", "iteration", "op" };

  g_return_val_if_fail (kind < G_N_ELEMENTS (names), NULL);
  return names[kind];
}

/* The work of all iterations. A cell is a stage of one weight copy. */
typedef struct
{
  const PsSchedule *schedule;
  guint n_iterations;
  guint n_cells;
  guint n_microbatches;
  gint64 *time_ns;    /* [((iteration * PS_N_PASSES + work) * n_cells + cell) * n_microbatches + microbatch]; 0: none */
  gint64 *typical_ns; /* [work * n_cells + cell] median over iterations and microbatches; 0: none */
  gint64 *scratch;    /* room for the values of one median */
  gint64 iteration_ns;
} Work;

static void
work_clear (Work *work)
{
  g_free (work->time_ns);
  g_free (work->typical_ns);
  g_free (work->scratch);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Work, work_clear)

static gint64 *
time_of (const Work *work, guint iteration, guint kind, guint cell, guint microbatch)
{
  return &work->time_ns[(((gsize)iteration * PS_N_PASSES + kind) * work->n_cells + cell) * work->n_microbatches
                        + microbatch];
}

static void
add_iteration (Work *work, guint iteration, const PsTimeline *timeline)
{
  const GArray *ops = timeline->ops;

  for (guint i = 0; i < ops->len; i++)
    {
      const PsSpan *span = &g_array_index (ops, PsSpan, i);
      PsOp op = span->op;
      gboolean paired = op.paired == 1 && i + 1 < ops->len;
      guint kind = paired ? PS_PASS_PAIR : op.kind == PS_OP_F ? PS_PASS_FORWARD : PS_PASS_BACKWARD;

      if (op.kind == PS_OP_O || op.kind == PS_OP_R || op.microbatch >= work->n_microbatches
          || op.stage >= work->schedule->placement->n_stages)
        continue;
      if (paired && op.kind != PS_OP_F)
        op = span[1].op;
      *time_of (work, iteration, kind,
                ps_schedule_weight_copy (work->schedule, op.microbatch) * work->schedule->placement->n_stages
                    + op.stage,
                op.microbatch)
          += span->end_ns - span->start_ns;
      i += paired;
    }
}

/* The median of the first n values of scratch; 0: there are none. */
static gint64
median_of (const Work *work, gsize n)
{
  return n > 0 ? ps_median (work->scratch, n) : 0;
}

static void
find_typical (Work *work)
{
  for (guint kind = 0; kind < PS_N_PASSES; kind++)
    for (guint cell = 0; cell < work->n_cells; cell++)
      {
        gsize n = 0;

        for (guint k = 0; k < work->n_iterations; k++)
          for (guint m = 0; m < work->n_microbatches; m++)
            if (*time_of (work, k, kind, cell, m) > 0)
              work->scratch[n++] = *time_of (work, k, kind, cell, m);
        work->typical_ns[kind * work->n_cells + cell] = median_of (work, n);
      }
}

static void
work_init (Work *work, const PsSchedule *schedule, const GPtrArray *iterations)
{
  work->schedule = schedule;
  work->n_iterations = iterations->len;
  work->n_cells = schedule->placement->n_copies * schedule->placement->n_stages;
  work->n_microbatches = schedule->n_microbatches;
  work->iteration_ns = ps_iteration_spread (iterations).median_ns;
  work->time_ns = g_new0 (gint64, (gsize)work->n_iterations * PS_N_PASSES * work->n_cells * work->n_microbatches);
  work->typical_ns = g_new0 (gint64, (gsize)PS_N_PASSES * work->n_cells);
  work->scratch = g_new (gint64, (gsize)MAX (work->n_iterations, work->n_cells * PS_N_PASSES) * work->n_microbatches);
  for (guint k = 0; k < work->n_iterations; k++)
    add_iteration (work, k, iterations->pdata[k]);
  find_typical (work);
}

/* The median of n values, and the least value that is slow among them. */
typedef struct
{
  gint64 median_ns;
  double slow_ns;
} Peers;

static Peers
peers_of (const gint64 *values, guint n, double factor)
{
  g_autofree gint64 *sorted = g_memdup2 (values, n * sizeof *values);
  Peers peers = { .median_ns = ps_median (sorted, n) };

  for (guint i = 0; i < n; i++)
    sorted[i] = ABS (values[i] - peers.median_ns);
  double deviation = (double)ps_median (sorted, n);
  peers.slow_ns = MAX ((double)peers.median_ns * factor, (double)peers.median_ns + DEVIATIONS * deviation);
  return peers;
}

static void
add (GArray *found, PsSlow slow)
{
  slow.ratio = slow.ratio > 0 ? slow.ratio : (double)slow.own_ns / (double)MAX (slow.peers_ns, 1);
  g_array_append_val (found, slow);
}

static guint
device_of (const Work *work, guint cell)
{
  return work->schedule->placement->device[cell];
}

/* The microbatches that a cell works for. */
static guint
n_worked (const Work *work, guint kind, guint cell)
{
  guint n = 0;

  for (guint m = 0; m < work->n_microbatches; m++)
    n += *time_of (work, 0, kind, cell, m) > 0;
  return n;
}

/* TRUE if the device holds several cells, and all of them are slow. */
static gboolean
is_slow_device (const Work *work, const gint64 *typical_ns, double slow_ns, guint device)
{
  guint n = 0;

  for (guint cell = 0; cell < work->n_cells; cell++)
    if (device_of (work, cell) == device && typical_ns[cell] > 0)
      {
        if ((double)typical_ns[cell] <= slow_ns)
          return FALSE;
        n++;
      }
  return n > 1;
}

static void
find_slow_stages (const Work *work, guint kind, GArray *found)
{
  const gint64 *typical_ns = &work->typical_ns[kind * work->n_cells];
  g_autofree gint64 *values = g_new (gint64, work->n_cells);
  guint n = 0;

  for (guint cell = 0; cell < work->n_cells; cell++)
    if (typical_ns[cell] > 0)
      values[n++] = typical_ns[cell];
  if (n < 2)
    return;
  Peers peers = peers_of (values, n, SLOW_STAGE);
  for (guint cell = 0; cell < work->n_cells; cell++)
    if ((double)typical_ns[cell] > peers.slow_ns)
      add (found,
           (PsSlow){ .kind = is_slow_device (work, typical_ns, peers.slow_ns, device_of (work, cell)) ? PS_SLOW_DEVICE
                                                                                                      : PS_SLOW_STAGE,
                     .pass = (PsPass)kind,
                     .device = device_of (work, cell),
                     .stage = cell % work->schedule->placement->n_stages,
                     .own_ns = typical_ns[cell],
                     .peers_ns = peers.median_ns,
                     .excess_ns = (typical_ns[cell] - peers.median_ns) * n_worked (work, kind, cell) });
}

/* The rows of the stages of a slow device become one. */
static void
join_devices (GArray *found)
{
  for (guint i = 0; i < found->len; i++)
    for (guint j = found->len; j-- > i + 1;)
      {
        PsSlow *a = &g_array_index (found, PsSlow, i), *b = &g_array_index (found, PsSlow, j);

        if (a->kind != PS_SLOW_DEVICE || b->kind != a->kind || b->pass != a->pass || b->device != a->device)
          continue;
        a->own_ns = MAX (a->own_ns, b->own_ns);
        a->ratio = MAX (a->ratio, b->ratio);
        a->excess_ns += b->excess_ns;
        g_array_remove_index (found, j);
      }
}

/* The time of a microbatch over the typical one, in millionths: the median over stages and iterations. */
static gint64
relative_time (const Work *work, guint kind, guint microbatch, gint64 *excess_ns)
{
  gsize n = 0;

  *excess_ns = 0;
  for (guint cell = 0; cell < work->n_cells; cell++)
    for (guint k = 0; k < work->n_iterations; k++)
      {
        gint64 own_ns = *time_of (work, k, kind, cell, microbatch);
        gint64 typical_ns = work->typical_ns[kind * work->n_cells + cell];

        if (own_ns == 0 || typical_ns == 0)
          continue;
        work->scratch[n++] = (gint64)(1e6 * (double)own_ns / (double)typical_ns);
        *excess_ns += own_ns - typical_ns;
      }
  *excess_ns /= MAX (work->n_iterations, 1);
  return median_of (work, n);
}

static void
find_slow_microbatches (const Work *work, guint kind, GArray *found)
{
  g_autofree gint64 *relative = g_new (gint64, work->n_microbatches);
  g_autofree gint64 *excess_ns = g_new (gint64, work->n_microbatches);

  for (guint m = 0; m < work->n_microbatches; m++)
    relative[m] = relative_time (work, kind, m, &excess_ns[m]);
  Peers peers = peers_of (relative, work->n_microbatches, SLOW_OTHER);
  for (guint m = 0; m < work->n_microbatches && peers.median_ns > 0; m++)
    if ((double)relative[m] > peers.slow_ns)
      add (found, (PsSlow){ .kind = PS_SLOW_MICROBATCH,
                            .pass = (PsPass)kind,
                            .microbatch = m,
                            .ratio = (double)relative[m] / (double)peers.median_ns,
                            .excess_ns = excess_ns[m] });
}

static void
find_slow_iterations (const GPtrArray *iterations, gboolean *slow, GArray *found)
{
  g_autofree gint64 *values = g_new (gint64, iterations->len);

  for (guint k = 0; k < iterations->len; k++)
    values[k] = iteration_time (iterations, k);
  Peers peers = peers_of (values, iterations->len, SLOW_OTHER);
  for (guint k = 0; k < iterations->len; k++)
    {
      slow[k] = (double)values[k] > peers.slow_ns;
      if (slow[k])
        add (found, (PsSlow){ .kind = PS_SLOW_ITERATION,
                              .iteration = k,
                              .own_ns = values[k],
                              .peers_ns = peers.median_ns,
                              .excess_ns = values[k] - peers.median_ns });
    }
}

static void
find_slow_ops (const Work *work, guint kind, guint iteration, GArray *found)
{
  for (guint cell = 0; cell < work->n_cells; cell++)
    for (guint m = 0; m < work->n_microbatches; m++)
      {
        gint64 own_ns = *time_of (work, iteration, kind, cell, m);
        gint64 typical_ns = work->typical_ns[kind * work->n_cells + cell];

        if ((double)own_ns > SLOW_OP * (double)typical_ns
            && (double)(own_ns - typical_ns) > SLOW_OP_PART * (double)work->iteration_ns)
          add (found, (PsSlow){ .kind = PS_SLOW_OP,
                                .pass = (PsPass)kind,
                                .device = device_of (work, cell),
                                .stage = cell % work->schedule->placement->n_stages,
                                .microbatch = m,
                                .iteration = iteration,
                                .own_ns = own_ns,
                                .peers_ns = typical_ns,
                                .excess_ns = own_ns - typical_ns });
      }
}

PS_DEFINE_FALLING_ORDER (compare_excess, PsSlow, excess_ns)

GArray *
ps_slow_parts (const PsSchedule *schedule, const GPtrArray *iterations)
{
  GArray *found = g_array_new (FALSE, FALSE, sizeof (PsSlow));
  g_autofree gboolean *slow = g_new (gboolean, iterations->len);
  g_auto (Work) work = { 0 };

  work_init (&work, schedule, iterations);
  find_slow_iterations (iterations, slow, found);
  for (guint kind = 0; kind < PS_N_PASSES; kind++)
    {
      find_slow_stages (&work, kind, found);
      find_slow_microbatches (&work, kind, found);
      for (guint k = 0; k < iterations->len; k++)
        if (!slow[k])
          find_slow_ops (&work, kind, k, found);
    }
  join_devices (found);
  g_array_sort (found, compare_excess);
  return found;
}

PsCosts *
ps_costs_even (const PsCosts *costs)
{
  PsCosts *even = ps_costs_copy (costs);
  gint64 sum[PS_N_OP_KINDS] = { 0 }, pairs_ns = 0;
  gboolean has_pairs = TRUE;

  for (guint stage = 0; stage < costs->n_stages; stage++)
    {
      for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
        sum[kind] += ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns;
      pairs_ns += costs->stage[stage].pair_ns;
      has_pairs = has_pairs && costs->stage[stage].pair_ns >= 0;
    }
  for (guint stage = 0; stage < costs->n_stages; stage++)
    {
      for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
        ps_costs_op (even, (PsOpKind)kind, stage)->duration_ns = sum[kind] / costs->n_stages;
      even->stage[stage].pair_ns = has_pairs ? pairs_ns / costs->n_stages : -1;
    }
  return even;
}
