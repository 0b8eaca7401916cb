/* test-intervals.c - intervals of predictions hold as many runs as they say, on machines whose truth is known. */
#include "cases.h"
#include "lower.h"

#include <pipesim/answer.h>
#include <pipesim/philox.h>
#include <pipesim/simulate.h>

#include <math.h>

#define N_STAGES 3
#define N_MICROBATCHES 4
#define N_SAMPLES 60 /* of a row in a calibration */
#define N_READINGS 6
#define N_KINDS 3  /* F, B and W */
#define N_SHAPES 2 /* stages after the first share their rows */
#define N_ROWS (N_KINDS * N_SHAPES + 1)
#define HOUR 3600.0

/* A machine, and the number of its calibrations. All deviations are relative. */
typedef struct {
  const char *name;
  guint n_calibrations;
  double noise;      /* log-normal, of every op */
  double drift;      /* of the whole machine */
  double drift_time; /* seconds until it has forgotten the drift */
  double own;        /* of each row from process to process */
  double slow;       /* factor of every op while the machine is throttled; 0: never */
  double slow_time;  /* mean seconds of a throttled spell, and of one that is not */
  double fast_time;
  double second;    /* factor of every second op, at random; 0: none */
  gint64 step_ns;   /* of the clock; 0: 1 ns */
  gboolean watched; /* the sentinel is read before and after the run, and the interval is that of the slowdown */
} Machine;

static const Machine machines[] = {
  { .name = "known cost", .n_calibrations = 1 },
  { .name = "noise", .n_calibrations = 1, .noise = 0.05 },
  { .name = "much noise", .n_calibrations = 1, .noise = 0.3 },
  { .name = "noise, 3 calibrations", .n_calibrations = 3, .noise = 0.05 },
  { .name = "drift over seconds", .n_calibrations = 1, .noise = 0.02, .drift = 0.03, .drift_time = 2 },
  { .name = "drift over seconds, 3 calibrations", .n_calibrations = 3, .noise = 0.02, .drift = 0.03, .drift_time = 2 },
  { .name = "drift over minutes, 2 calibrations", .n_calibrations = 2, .noise = 0.02, .drift = 0.03, .drift_time = 60 },
  { .name = "drift over minutes, 4 calibrations", .n_calibrations = 4, .noise = 0.02, .drift = 0.03, .drift_time = 60 },
  { .name = "drift over hours, 4 calibrations", .n_calibrations = 4, .noise = 0.02, .drift = 0.03, .drift_time = HOUR },
  { .name = "processes differ", .n_calibrations = 3, .noise = 0.02, .own = 0.03 },
  { .name = "processes differ and drift",
    .n_calibrations = 3,
    .noise = 0.02,
    .own = 0.03,
    .drift = 0.02,
    .drift_time = 60 },
  { .name = "throttling", .n_calibrations = 2, .noise = 0.02, .slow = 1.2, .slow_time = 5, .fast_time = 10 },
  { .name = "bimodal", .n_calibrations = 2, .noise = 0.01, .second = 1.3 },
  { .name = "quantised clock", .n_calibrations = 1, .noise = 0.01, .step_ns = 100000 },
  { .name = "machine_slowdown", .n_calibrations = 1, .noise = 0.02, .drift = 0.1, .drift_time = HOUR, .watched = TRUE },
};

/* The state of a machine that goes through time. */
typedef struct {
  const Machine *machine;
  guint64 luck;
  double drift;
  gboolean throttled;
  double own[N_ROWS]; /* logarithms */
  guint moment;
} State;

static double uniform (State *state)
{
  return ((double)(ps_splitmix_next (&state->luck) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal (State *state)
{
  return sqrt (-2 * log (uniform (state))) * cos (2 * G_PI * uniform (state));
}

/* Drift forgets itself exponentially; throttling comes and goes at random moments. */
static void wait (State *state, double seconds)
{
  const Machine *machine = state->machine;

  if (machine->drift > 0) {
    double kept = exp (-seconds / machine->drift_time);

    state->drift = kept * state->drift + sqrt (1 - kept * kept) * machine->drift * normal (state);
  }
  if (machine->slow > 0) {
    double rate = 1 / machine->slow_time + 1 / machine->fast_time, part = 1 / machine->fast_time / rate;
    double after = part + (state->throttled - part) * exp (-seconds * rate);

    state->throttled = uniform (state) < after;
  }
}

static void start_process (State *state)
{
  for (guint row = 0; row < N_ROWS; row++)
    state->own[row] = state->machine->own * normal (state);
}

static gint64 true_time (guint row)
{
  static const gint64 times[N_ROWS] = { 1100000, 1900000, 900000, 1000000, 2000000, 1000000, 200000 };

  return times[row];
}

static gint64 take_sample (State *state, guint row)
{
  const Machine *machine = state->machine;
  double log_time = state->own[row] + state->drift + machine->noise * normal (state), factor = exp (log_time);
  gint64 step = MAX (machine->step_ns, 1);

  factor *= state->throttled ? machine->slow : 1;
  factor *= machine->second > 0 && uniform (state) < 0.5 ? machine->second : 1;
  /* A clock that steps shows a time too short or too long, but right on average. */
  return (gint64)floor ((double)true_time (row) * factor / (double)step + (step > 1 ? uniform (state) : 0.5)) * step;
}

static gint64 median_of (const gint64 *values, guint n)
{
  g_autofree gint64 *copy = g_memdup2 (values, n * sizeof *values);

  return ps_median (copy, n);
}

static PsMeasurement *new_measurement (void)
{
  PsMeasurement *m = g_new0 (PsMeasurement, 1);

  m->samples_ns = g_new0 (gint64, N_SAMPLES);
  return m;
}

static void finish_measurement (PsMeasurement *m)
{
  g_autofree gint64 *distances = g_new (gint64, m->n_samples);

  m->time.n = m->n_samples;
  m->time.median_ns = median_of (m->samples_ns, m->n_samples);
  for (guint i = 0; i < m->n_samples; i++)
    distances[i] = ABS (m->samples_ns[i] - m->time.median_ns);
  m->time.mad_ns = median_of (distances, m->n_samples);
}

#define N_READ 11 /* samples of a reading */

/* Moments are numbers that count up. */
static PsSentinel *read_sentinel (State *state)
{
  gint64 samples[N_READ];
  PsSentinel *sentinel = g_new0 (PsSentinel, 1);

  for (guint i = 0; i < N_READ; i++)
    samples[i] = take_sample (state, 0);
  *sentinel = (PsSentinel){ .what = g_strdup ("F"),
                            .median_ns = median_of (samples, N_READ),
                            .n = N_READ,
                            .taken = g_strdup_printf ("%04u", state->moment++) };
  return sentinel;
}

/* A rotation takes six seconds; readings of the sentinel lie between it and other work. */
static void calibrate (State *state, GPtrArray *rows, GPtrArray *sentinels)
{
  GPtrArray *readings = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_sentinel_free);

  start_process (state);
  for (guint row = 0; row < N_ROWS; row++)
    g_ptr_array_add (rows->pdata[row], new_measurement ());
  g_ptr_array_add (readings, read_sentinel (state));
  for (guint i = 0; i < N_SAMPLES; i++) {
    wait (state, 0.1);
    for (guint row = 0; row < N_ROWS; row++) {
      GPtrArray *calibrations = rows->pdata[row];
      PsMeasurement *m = calibrations->pdata[calibrations->len - 1];

      m->samples_ns[m->n_samples++] = take_sample (state, row);
    }
  }
  for (guint row = 0; row < N_ROWS; row++)
    finish_measurement (g_ptr_array_index ((GPtrArray *)rows->pdata[row], sentinels->len));
  for (guint i = 1; i < N_READINGS; i++) {
    g_ptr_array_add (readings, read_sentinel (state));
    wait (state, 5);
  }
  g_ptr_array_add (sentinels, readings);
}

static guint row_of (PsOpKind kind, guint stage)
{
  return kind + N_KINDS * MIN (stage, N_SHAPES - 1);
}

static PsCosts *costs_of (GPtrArray *rows, guint calibration)
{
  PsCosts *costs = ps_costs_new (N_STAGES);
  const PsMeasurement *transfer = g_ptr_array_index ((GPtrArray *)rows->pdata[N_ROWS - 1], calibration);

  for (PsOpKind kind = PS_OP_F; kind <= PS_OP_W; kind++)
    for (guint stage = 0; stage < N_STAGES; stage++) {
      const PsMeasurement *m = g_ptr_array_index ((GPtrArray *)rows->pdata[row_of (kind, stage)], calibration);

      ps_costs_op (costs, kind, stage)->duration_ns = m->time.median_ns;
    }
  for (guint i = 1; i <= 2 * N_STAGES; i++)
    costs->transfer_ns[i] = transfer->time.median_ns;
  return costs;
}

static GArray *relative_samples (GPtrArray *rows, guint row, guint calibration)
{
  const PsMeasurement *m = g_ptr_array_index ((GPtrArray *)rows->pdata[row], calibration);
  GArray *samples = g_array_new (FALSE, FALSE, sizeof (double));

  for (guint i = 0; i < m->n_samples; i++) {
    double sample = (double)m->samples_ns[i] / (double)m->time.median_ns;

    g_array_append_val (samples, sample);
  }
  return samples;
}

static PsCostSpread *spread_of (GPtrArray *rows, GPtrArray *sentinels)
{
  PsCostSpread *spread = g_new0 (PsCostSpread, 1);

  spread->n_stages = N_STAGES;
  spread->n_rows = N_ROWS;
  spread->largest = 3;
  spread->deviation = g_new0 (double, N_ROWS);
  spread->row = g_new (guint, PS_N_OP_KINDS * N_STAGES + 1);
  spread->op = g_new0 (GArray *, PS_N_OP_KINDS * N_STAGES);
  for (guint i = 0; i < PS_N_OP_KINDS * N_STAGES; i++) {
    PsOpKind kind = (PsOpKind)(i / N_STAGES);

    spread->row[i] = kind <= PS_OP_W ? row_of (kind, i % N_STAGES) : PS_NO_ROW;
    if (kind <= PS_OP_W)
      spread->op[i] = relative_samples (rows, spread->row[i], sentinels->len - 1);
  }
  spread->row[PS_N_OP_KINDS * N_STAGES] = N_ROWS - 1;
  spread->transfer = relative_samples (rows, N_ROWS - 1, sentinels->len - 1);
  ps_cost_spread_set_runs (spread, rows, sentinels);
  return spread;
}

/* The median iteration time of a run. */
static gint64 run_program (State *state, const PsProgram *program, const PsCosts *costs)
{
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  g_autofree gint64 *times = g_new0 (gint64, 2 * (gsize)program->n_steps);
  gint64 iterations[PS_INTERVAL_STEPS];

  start_process (state);
  for (guint step = 0; step < PS_INTERVAL_STEPS; step++) {
    for (guint i = 0; i < program->n_steps; i++) {
      PsOp op = program->schedule->ops[program->op_of[i]];

      times[i] = take_sample (state, row_of (op.kind, op.stage));
      times[program->n_steps + i] = program->message_of[i] ? take_sample (state, N_ROWS - 1) : 0;
    }
    ps_simulate_steps (program, costs, times, times + program->n_steps, simulation);
    iterations[step] = simulation->makespan_ns;
    wait (state, 0.1);
  }
  return median_of (iterations, PS_INTERVAL_STEPS);
}

/* The same between two readings of the sentinel. Brings the interval to the speed of that time, against the
 * calibration's readings, where the machine is watched. */
static gint64 run_watched (State *state, const PsProgram *program, const PsCosts *costs, GPtrArray *readings,
                           PsInterval *interval)
{
  g_autoptr (GPtrArray) measurements = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free);
  g_autoptr (GPtrArray) moments = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free);

  for (guint i = 0; i < readings->len; i++) {
    g_ptr_array_add (measurements, new_measurement ());
    ((PsMeasurement *)measurements->pdata[i])->taken = g_strdup (((const PsSentinel *)readings->pdata[i])->taken);
  }
  g_ptr_array_add (readings, read_sentinel (state));
  g_ptr_array_add (moments, new_measurement ());
  ((PsMeasurement *)moments->pdata[0])->taken = g_strdup_printf ("%04u", state->moment++);
  gint64 ns = run_program (state, program, costs);
  g_ptr_array_add (readings, read_sentinel (state));
  if (state->machine->watched) {
    PsSlowdown slowdown;

    ps_sentinel_slowdown (readings, measurements, moments, &slowdown);
    *interval = ps_interval_at_speed (interval, slowdown);
  }
  return ns;
}

typedef struct {
  guint inside;      /* runs between p10 and p90 */
  guint inside_wide; /* between low and high */
} Coverage;

static void try_machine (State *state, const PsProgram *program, Coverage *coverage)
{
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  g_autoptr (GPtrArray) sentinels = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  const PsSampling sampling = { 0 };
  PsInterval interval;

  for (guint row = 0; row < N_ROWS; row++)
    g_ptr_array_add (rows, g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free));
  for (guint i = 0; i < state->machine->n_calibrations; i++) {
    wait (state, 10 * HOUR);
    calibrate (state, rows, sentinels);
  }
  g_autoptr (PsCosts) costs = costs_of (rows, sentinels->len - 1);
  g_autoptr (PsCostSpread) spread = spread_of (rows, sentinels);
  g_autoptr (PsSimulation) simulation = simulated (program, costs);
  fine (ps_interval_init (&interval, program, costs, spread, &sampling, simulation->makespan_ns, PS_INTERVAL_STEPS,
                          &error));
  wait (state, 10 * HOUR);
  gint64 run = run_watched (state, program, costs, sentinels->pdata[sentinels->len - 1], &interval);
  coverage->inside += interval.p10_ns <= run && run <= interval.p90_ns;
  coverage->inside_wide += interval.low_ns <= run && run <= interval.high_ns;
}

static void test_machine (gconstpointer data)
{
  const Machine *machine = data;
  g_autoptr (PsProgram) program = lower_family ("zb-h1", N_STAGES, N_MICROBATCHES, 0);
  Coverage coverage = { 0 };
  guint n = n_cases (1000);

  for (guint seed = 1; seed <= n; seed++) {
    State state = { .machine = machine, .luck = seed * 1000003 };

    try_machine (&state, program, &coverage);
  }
  g_test_message ("%s: p10-p90 holds %u of %u runs, the 95 %% interval %u", machine->name, coverage.inside, n,
                  coverage.inside_wide);
  g_assert_cmpuint (coverage.inside, >=, n * 75 / 100);
  g_assert_cmpuint (coverage.inside_wide, >=, n * 93 / 100);
  /* Where drift is all that matters, the interval is no wider than it must be. */
  if (machine->drift > machine->noise && machine->own == 0 && !machine->watched)
    g_assert_cmpuint (coverage.inside, <=, n * 91 / 100);
}

/* Bounds at e^-0.06, e^-0.03, e^0.03 and e^0.06 of 1 s; the machine is slower by 1.2, known to 0.04 in logarithms. Of a
 * normal distribution 80 % lie within 1.2816 deviations, and 95 % within 1.96:
 *
 *   p90   1.2 e^sqrt (0.03^2 + (1.2816 * 0.04)^2) = 1.2 e^0.059396 = 1.27343
 *   high  1.2 e^sqrt (0.06^2 + (1.96 * 0.04)^2)   = 1.2 e^0.098724 = 1.32451 */
static void test_slowed (void)
{
  const PsInterval interval
      = { .low_ns = 941764534, .p10_ns = 970445534, .p50_ns = 1000000000, .p90_ns = 1030454534, .high_ns = 1061836547 };
  PsInterval slower = ps_interval_at_speed (&interval, (PsSlowdown){ .factor = 1.2, .error = 0.04 });

  g_assert_cmpfloat_with_epsilon ((double)slower.low_ns / 1e9, 1.44 / 1.324514, 1e-5);
  g_assert_cmpfloat_with_epsilon ((double)slower.p10_ns / 1e9, 1.44 / 1.273433, 1e-5);
  g_assert_cmpint (slower.p50_ns, ==, 1200000000);
  g_assert_cmpfloat_with_epsilon ((double)slower.p90_ns / 1e9, 1.273433, 1e-5);
  g_assert_cmpfloat_with_epsilon ((double)slower.high_ns / 1e9, 1.324514, 1e-5);
}

/* One F whose logarithm is anywhere from 0.3 to 0.7, and nothing else that differs: so is the iteration's. The median
 * of n iterations spreads sqrt (pi / 2 / n) as far about the same middle, and that of two 1 / sqrt (2) as far. */
static void test_steps (void)
{
  static const struct {
    guint n_steps;
    double factor;
  } rows[] = { { 1, 1 }, { 2, M_SQRT1_2 }, { 3, 0.72360 }, { 4, 0.62666 }, { 100, 0.12533 }, { 2500, 0.025066 } };
  const PsFamilySetting family = { .n_devices = 1, .n_microbatches = 1, .n_chunks = 1 };
  g_autoptr (PsProgram) program = lower (ps_family_generate (ps_family_find ("gpipe"), &family, NULL));
  g_autoptr (PsCosts) costs = ps_costs_new (1);
  g_autoptr (GArray) samples = g_array_new (FALSE, FALSE, sizeof (double));
  GArray *op[PS_N_OP_KINDS] = { [PS_OP_F] = samples };
  guint row[PS_N_OP_KINDS + 1];
  double deviation = 0;
  const PsCostSpread spread
      = { .n_stages = 1, .op = op, .largest = 2.1, .row = row, .deviation = &deviation, .freedom = 3 };
  const PsSampling sampling = { .n_samples = 1 };

  for (guint i = 0; i < G_N_ELEMENTS (row); i++)
    row[i] = PS_NO_ROW;
  for (guint i = 0; i < 1000; i++) {
    double sample = exp (0.5 + ((i + 0.5) / 1000 - 0.5) * 0.4);

    g_array_append_val (samples, sample);
  }
  ps_costs_op (costs, PS_OP_F, 0)->duration_ns = 1000000000;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    PsInterval interval;

    fine (ps_interval_init (&interval, program, costs, &spread, &sampling, 1000000000, rows[i].n_steps, &error));
    const double logs[] = { log ((double)interval.low_ns / 1e9), log ((double)interval.p10_ns / 1e9),
                            log ((double)interval.p50_ns / 1e9), log ((double)interval.p90_ns / 1e9),
                            log ((double)interval.high_ns / 1e9) };
    const double wanted[] = { -0.19, -0.16, 0, 0.16, 0.19 };
    for (guint k = 0; k < G_N_ELEMENTS (logs); k++)
      g_assert_cmpfloat_with_epsilon (logs[k], 0.5 + wanted[k] * rows[i].factor,
                                      0.025 * (k == 2 ? 1 : rows[i].factor) + 0.02);
    g_assert_cmpfloat_with_epsilon ((logs[4] - logs[0]) / rows[i].factor, 0.38, 0.02);
    g_assert_cmpfloat_with_epsilon ((logs[3] - logs[1]) / rows[i].factor, 0.32, 0.03);
  }

  /* The machine's drift widens p10-p90, and not what rows of one machine are told apart by. */
  PsCostSpread drift = spread;
  PsInterval still, drifting;

  drift.common = 0.3;
  fine (ps_interval_init (&still, program, costs, &spread, &sampling, 1000000000, 1, &error));
  fine (ps_interval_init (&drifting, program, costs, &drift, &sampling, 1000000000, 1, &error));
  g_assert_cmpfloat_with_epsilon ((double)still.own_p10_ns, (double)still.p10_ns, 0.01 * (double)still.p10_ns);
  g_assert_cmpint (drifting.own_p10_ns, ==, still.own_p10_ns);
  g_assert_cmpint (drifting.own_p90_ns, ==, still.own_p90_ns);
  g_assert_cmpint (drifting.p90_ns - drifting.p10_ns, >, 2 * (still.p90_ns - still.p10_ns));
}

/* A class with rows has its own interval; without, the widest of such layers, which says so. */
static void test_classes (void)
{
  g_autoptr (PsModel) dense = ps_model_load ("llama-3-8b", NULL), experts = ps_model_load ("deepseek-v3", NULL);
  g_autoptr (PsCluster) b200 = ps_cluster_load ("b200-180gb", NULL), cores = ps_cluster_load ("cpu-cores", NULL);
  g_auto (PsClassErrors) own = { 0 }, other = { 0 }, all = { 0 };

  ps_class_errors_init (&own, dense, 1, b200);
  g_assert_cmpstr (own.name, ==, "b200-180gb, 16 bits, dense");
  g_assert_cmpuint (own.n_rows, >=, 3);
  g_assert_true (own.p10 < own.p90);
  experts->precision = PS_PRECISION_NVFP4;
  ps_class_errors_init (&other, experts, 4, b200);
  g_assert_cmpuint (other.n_rows, ==, 0);
  g_assert_true (other.p10 < 0 && other.p90 > 0);
  ps_class_errors_init (&all, dense, 4, cores);
  g_assert_true (all.p10 <= own.p10 && all.p90 >= own.p90);
  g_assert_cmpstr (ps_class_layers (experts, 4), ==, "experts");
  g_assert_cmpstr (ps_class_layers (experts, 1), ==, "experts with p = 1");
  g_autofree char *text = ps_class_errors_to_text (&all);
  g_assert_true (g_str_has_suffix (
      text, "of a predicted one (no published runs of cpu-cores, 16 bits, dense: the widest of such layers)"));
  all.p10 = -0.2;
  all.p90 = 0.25;
  g_autofree char *numbers = ps_class_errors_to_text (&all);
  g_assert_true (g_str_has_prefix (numbers, "8 of 10 measured steps are 0.80 to 1.25 of a predicted one ("));
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/intervals/slowed", test_slowed);
  g_test_add_func ("/intervals/steps", test_steps);
  g_test_add_func ("/intervals/classes", test_classes);
  for (guint i = 0; i < G_N_ELEMENTS (machines); i++) {
    g_autofree char *path = g_strdup_printf ("/intervals/%s", machines[i].name);

    g_test_add_data_func (path, &machines[i], test_machine);
  }
  return g_test_run ();
}
