/* Tests of iterations.h. */
#include <pipesim/iterations.h>

#include "random-schedule.h"
#include "reference.h"

typedef struct
{
  PsProgram *program;
  PsCosts *costs;
  PsSimulation *simulation;
} Case;

static void
case_clear (Case *test)
{
  ps_simulation_free (test->simulation);
  ps_program_free (test->program);
  ps_costs_free (test->costs);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Case, case_clear)

static void
predict (Case *test, const char *family, guint p, guint m, guint v, const char *costs)
{
  g_autoptr (GError) error = NULL;
  const PsFamilySetting setting = { .n_devices = p, .n_microbatches = m, .n_chunks = v };
  test->costs = ps_costs_parse (costs, p, v, &error);
  g_assert_no_error (error);
  test->simulation = reference_simulate (reference_generate (family, &setting), test->costs, &test->program);
}

static PsIteration
iterate (const Case *test, PsSync sync, PsReduce reduce)
{
  return ps_iteration (test->program, test->costs, test->simulation, sync, reduce);
}

#define US G_GINT64_CONSTANT (1000)

/* p = 4, m = 8, F = B = W = 1 us: 1F1B's makespan is (m + p - 1) 3 = 33 us, and every device holds one stage. O = 2 us.
 * All-reduce 5 us: device 0 ends last, so nothing of its all-reduce is hidden. */
static void
test_global (void)
{
  g_auto (Case) test = { 0 };
  predict (&test, "1f1b", 4, 8, 1, "f=1us,b=1us,w=1us,o=2us,reduce=5us");
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_EXPOSED).period_ns, ==, (33 + 5 + 2) * US);
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED).period_ns, ==, (33 + 5 + 2) * US);
  g_assert_cmpuint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED).n_iterations, ==, 1);
  /* Device 3 ends at 27 us, three backwards before device 0 at 33 us: an all-reduce of 5 us on it alone is hidden, one
   * of 10 us sticks out by 27 + 10 - 33 = 4 us. */
  g_assert_cmpint (test.simulation->device[3].end_ns, ==, 27 * US);
  for (guint stage = 0; stage < 3; stage++)
    test.costs->reduce_ns[stage] = 0;
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED).period_ns, ==, (33 + 2) * US);
  test.costs->reduce_ns[3] = 10 * US;
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_EXPOSED).period_ns, ==, (33 + 4 + 2) * US);
}

/* Chimera, p = 2: both devices hold both stages, end at the same time, and sum the two copies of each: 2 * 5 us. */
static void
test_two_copies (void)
{
  g_auto (Case) test = { 0 };

  predict (&test, "chimera", 2, 2, 1, "f=1us,b=1us,w=1us,reduce=1us,reduce2=5us");
  g_assert_cmpint (test.simulation->device[0].end_ns, ==, test.simulation->device[1].end_ns);
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_EXPOSED).period_ns, ==,
                   test.simulation->makespan_ns + 10 * US);
}

/* Two chunks per device: breadth first ends all backwards of the upper chunk before those of the lower one begin.
 * p = 1, m = 3, v = 2, chunk ops of 1 us: F 0..6, backwards of stage 1 end at 6 + 3 * 2 = 12, of stage 0 at 18 us.
 * All-reduces of 4 us each: overlapped, stage 1's runs 12..16 and stage 0's 18..22; exposed 18..26. One of 8 us for
 * stage 1 ends at 20, so stage 0's begins there: 20..24. O is 2 us in all. */
static void
test_overlapped_reduce (void)
{
  g_auto (Case) test = { 0 };
  predict (&test, "looped-bfs", 1, 3, 2, "f=2us,b=2us,w=2us,reduce=8us,o=2us");
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED).period_ns, ==, (22 + 2) * US);
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_EXPOSED).period_ns, ==, (26 + 2) * US);
  /* One device alone has nobody to meet. */
  g_assert_cmpint (iterate (&test, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED).period_ns, ==, (22 + 2) * US);
  g_assert_cmpint (iterate (&test, PS_SYNC_BYPASS, PS_REDUCE_EXPOSED).period_ns, ==, (26 + 2) * US);
  test.costs->reduce_ns[1] = 8 * US;
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED).period_ns, ==, (24 + 2) * US);
  g_assert_cmpint (iterate (&test, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED).period_ns, ==, (24 + 2) * US);
}

/* ZB-H2 with F = B = W = 1 us and m >= 2p has no bubble in any span: bypassed, an iteration is m (F + B + W) of work,
 * and O beside it. Globally synchronised the ramp of (p - 1) F stays. */
static void
test_zero_bubble (void)
{
  for (guint p = 2; p <= 8; p += 2)
    {
      g_auto (Case) test = { 0 };
      guint m = 3 * p;
      predict (&test, "zb-h2", p, m, 1, "f=1us,b=1us,w=1us,o=3us");
      g_assert_cmpint (test.simulation->max_span_ns, ==, 3 * m * US);
      PsIteration iteration = iterate (&test, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED);
      g_assert_cmpint (iteration.period_ns, ==, (3 * m + 3) * US);
      g_assert_cmpuint (iteration.n_iterations, ==, 1);
      g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED).period_ns, ==, (3 * m + p - 1 + 3) * US);
    }
}

/* 1F1B is held by its round trip. Bypassed, device 0 starts again after its last backward, the end of everything: the
 * makespan again. */
static void
test_1f1b_gains_nothing (void)
{
  g_auto (Case) test = { 0 };
  predict (&test, "1f1b", 4, 8, 1, "f=1us,b=1us,w=1us,c=100ns");
  g_assert_cmpint (iterate (&test, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED).period_ns, ==, test.simulation->makespan_ns);
}

/* Two devices, one microbatch: device 0 runs F 0..1 and BW, device 1 F, BW. With transfers of 1 us and ops F 1, BW 2:
 * F0 0-1, F1 2-3, BW1 3-5, BW0 6-8. The state of device 0 is known at 8 us only, and device 1 may step its optimizer
 * (10 us) then: its next F would be ready at 10 us (F0 again 8-9, transfer), but waits until 18 us. Period 16 us: from
 * device 1's step to the next, 18: F1 18-19, BW1 19-21, BW0 22-24, step of device 1 24-34. */
static void
test_state_is_handed_down (void)
{
  g_auto (Case) test = { 0 };
  predict (&test, "1f1b", 2, 1, 1, "f=1us:1us,bw=2us:2us,c=1us,o=0:10us");
  g_assert_cmpint (test.simulation->makespan_ns, ==, 8 * US);
  g_assert_cmpint (iterate (&test, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED).period_ns, ==, 16 * US);
}

/* PipeDream's steady state: a device is never idle but for the slowest stage: m times its F + BW. */
static void
test_pipedream (void)
{
  static const char *const families[] = { "pipedream", "pipedream-2bw" };
  for (guint i = 0; i < 2; i++)
    for (guint m = 4; m <= 9; m++)
      {
        g_auto (Case) even = { 0 }, uneven = { 0 };
        predict (&even, families[i], 4, m, 1, "f=1us,b=1us,w=1us");
        g_assert_cmpint (iterate (&even, PS_SYNC_GLOBAL, PS_REDUCE_EXPOSED).period_ns, ==, 3 * m * US);
        g_assert_cmpint (iterate (&even, PS_SYNC_BYPASS, PS_REDUCE_EXPOSED).period_ns, ==, 3 * m * US);
        predict (&uneven, families[i], 4, m, 1, "f=1us:2us:1us:1us,bw=2us:4us:3us:1us,o=1us:5us:0:0");
        /* Stage 1: 6 us per microbatch, and 5 us for its step. */
        g_assert_cmpint (iterate (&uneven, PS_SYNC_GLOBAL, PS_REDUCE_EXPOSED).period_ns, ==, (6 * m + 5) * US);
      }
}

/* 1F1B in its steady state with transfer time c: p microbatches are under way, and one of them takes p F and p BW and 2
 * (p - 1) transfers before device 0 can start the one p behind it: F + BW + 2 c (p - 1) / p each. m = 6 and p = 4: six
 * microbatches take 6 * 3000 + 6 * 2 * 300 * 3 / 4 = 20700 ns; c = 301: 20709; c = 305 ns: 20745; m = 5, c = 301: 5 *
 * 3000 + 5 * 2 * 301 * 3 / 4 = 17257.5 ns, repeated exactly after two iterations. */
static void
test_round_trip (void)
{
  static const struct
  {
    guint m;
    const char *costs;
    gint64 period_ns;
    guint n_iterations;
  } cases[] = {
    { 6, "f=1us,b=1us,w=1us,c=300ns", 20700, 1 },
    { 6, "f=1us,b=1us,w=1us,c=301ns", 20709, 1 },
    { 5, "f=1us,b=1us,w=1us,c=301ns", 17258, 2 },
    { 4, "f=1us,b=1us,w=1us,c=301ns", 13806, 1 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_auto (Case) test = { 0 };
      predict (&test, "pipedream", 4, cases[i].m, 1, cases[i].costs);
      PsIteration iteration = iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED);
      g_assert_cmpint (iteration.period_ns, ==, cases[i].period_ns);
      g_assert_cmpuint (iteration.n_iterations, ==, cases[i].n_iterations);
    }
}

/* The all-reduce of an asynchronous schedule: exposed it stands in front of each step; overlapped it has the whole next
 * round to hide in, and bounds the period only where it is longer than that. m = 4: 12 us of work. */
static void
test_asynchronous_reduce (void)
{
  g_auto (Case) test = { 0 };
  predict (&test, "pipedream-2bw", 2, 4, 1, "f=1us,b=1us,w=1us,reduce=5us");
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_EXPOSED).period_ns, ==, 17 * US);
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED).period_ns, ==, 12 * US);
  test.costs->reduce_ns[1] = 30 * US;
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED).period_ns, ==, 30 * US);
}

/* Another way to the same numbers: one iteration after the other, each from the devices' ready times that the one
 * before left, with a fixed point over the devices' orders inside. */
typedef struct
{
  const PsSchedule *schedule;
  const PsCosts *costs;
  PsReduce reduce;
  gint64 *end;   /* [n_ops] of this iteration */
  gint64 *ready; /* [n_devices] */
} Unrolled;

static gint64
unrolled_arrival (const Unrolled *run, PsOp op)
{
  guint n_stages = run->schedule->placement->n_stages;
  gboolean forward = op.kind == PS_OP_F;
  if (op.kind == PS_OP_W || op.stage == (forward ? 0 : n_stages - 1))
    return 0;
  guint from = forward ? op.stage - 1U : op.stage + 1U;
  for (guint i = 0; i < ps_schedule_n_ops (run->schedule); i++)
    {
      PsOp other = run->schedule->ops[i];
      gboolean backward = other.kind == PS_OP_B || other.kind == PS_OP_BW;
      if (other.stage != from || other.microbatch != op.microbatch || !(forward ? other.kind == PS_OP_F : backward))
        continue;
      gboolean local = ps_schedule_device (run->schedule, from, op.microbatch)
                       == ps_schedule_device (run->schedule, op.stage, op.microbatch);
      guint transfer = forward ? 1 + from : 1 + n_stages + from;
      return run->end[i] + (local ? 0 : run->costs->transfer_ns[transfer]);
    }
  g_assert_not_reached ();
}

static gboolean
unrolled_relax (Unrolled *run, guint device)
{
  const PsSchedule *schedule = run->schedule;
  gint64 clock = run->ready[device];
  gboolean changed = FALSE;
  for (guint i = schedule->first[device], n; i < schedule->first[device + 1]; i += n)
    {
      gint64 duration = 0;
      n = schedule->ops[i].paired ? 2 : 1;
      for (guint k = 0; k < n; k++)
        {
          clock = MAX (clock, unrolled_arrival (run, schedule->ops[i + k]));
          duration
              += ps_costs_op (run->costs, (PsOpKind)schedule->ops[i + k].kind, schedule->ops[i + k].stage)->duration_ns;
        }
      clock += duration;
      for (guint k = 0; k < n; k++)
        {
          changed |= run->end[i + k] != clock;
          run->end[i + k] = clock;
        }
    }
  return changed;
}

/* When the gradients of all stages of a device are reduced: stages in the order in which their last ops stand. */
static gint64
unrolled_reduced (const Unrolled *run, guint device)
{
  const PsSchedule *schedule = run->schedule;
  guint n_stages = schedule->placement->n_stages, end = schedule->first[device + 1];
  gint64 own = end > schedule->first[device] ? run->end[end - 1] : run->ready[device];
  gint64 time = run->reduce == PS_REDUCE_EXPOSED ? own : 0;
  g_autofree guint *last = g_new0 (guint, n_stages);
  for (guint i = schedule->first[device]; i < end; i++)
    if (schedule->ops[i].kind == PS_OP_W || schedule->ops[i].kind == PS_OP_BW)
      last[schedule->ops[i].stage] = i + 1;
  for (guint i = schedule->first[device]; i < end; i++)
    for (guint stage = 0; stage < n_stages; stage++)
      if (last[stage] == i + 1)
        time
            = MAX (time, run->end[i])
              + (run->schedule->placement->n_copies == 2 ? run->costs->copies_ns[stage] : run->costs->reduce_ns[stage]);
  return MAX (own, time);
}

static void
unrolled_iterate (Unrolled *run)
{
  guint n_devices = run->schedule->placement->n_devices;
  gint64 state = 0;
  gboolean changed = TRUE;
  memset (run->end, 0, ps_schedule_n_ops (run->schedule) * sizeof *run->end);
  while (changed)
    {
      changed = FALSE;
      for (guint device = 0; device < n_devices; device++)
        changed |= unrolled_relax (run, device);
    }
  for (guint device = 0; device < n_devices; device++)
    {
      state = MAX (state, unrolled_reduced (run, device));
      run->ready[device] = state;
      for (guint stage = 0; stage < run->schedule->placement->n_stages; stage++)
        if (run->schedule->placement->device[stage] == device)
          run->ready[device] += ps_costs_op (run->costs, PS_OP_O, stage)->duration_ns;
    }
}

static PsCosts *
random_costs (GRand *rand, guint n_stages)
{
  PsCosts *costs = ps_costs_new (n_stages);
  gint32 scale = g_rand_boolean (rand) ? 8 : 1000;
  for (guint i = 0; i < PS_N_OP_KINDS * n_stages; i++)
    costs->op[i].duration_ns = g_rand_int_range (rand, 0, scale);
  for (guint i = 1; i <= 2 * n_stages; i++)
    costs->transfer_ns[i] = g_rand_int_range (rand, 0, scale);
  for (guint stage = 0; stage < n_stages; stage++)
    {
      costs->reduce_ns[stage] = g_rand_boolean (rand) ? g_rand_int_range (rand, 0, 3 * scale) : 0;
      costs->copies_ns[stage] = g_rand_boolean (rand) ? g_rand_int_range (rand, 0, 3 * scale) : 0;
    }
  return costs;
}

#define UNROLLED 50

/* How far the slowest device got in the last n of the unrolled iterations, where every device got as far in the n
 * before them. */
static gboolean
repeats (gint64 (*ready)[4], guint n_devices, guint n, gint64 *total_ns)
{
  *total_ns = 0;
  for (guint device = 0; device < n_devices; device++)
    {
      gint64 growth = ready[UNROLLED - 1][device] - ready[UNROLLED - 1 - n][device];
      if (growth != ready[UNROLLED - 1 - n][device] - ready[UNROLLED - 1 - 2 * n][device])
        return FALSE;
      *total_ns = MAX (*total_ns, growth);
    }
  return TRUE;
}

/* Whether 50 iterations showed the period. */
static gboolean
check_unrolled (GRand *rand, gboolean pairs)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSchedule) schedule = random_schedule (rand, pairs);
  g_autoptr (PsCosts) costs = random_costs (rand, schedule->placement->n_stages);
  g_autofree gint64 *end = g_new0 (gint64, ps_schedule_n_ops (schedule));
  guint n_devices = schedule->placement->n_devices;
  PsReduce reduce = g_rand_boolean (rand) ? PS_REDUCE_OVERLAPPED : PS_REDUCE_EXPOSED;
  gint64 ready[UNROLLED][4], clock[4] = { 0 }, total_ns;
  Unrolled run = { schedule, costs, reduce, end, clock };
  for (guint i = 0; i < UNROLLED; i++)
    {
      unrolled_iterate (&run);
      memcpy (ready[i], clock, sizeof clock);
    }
  g_autoptr (PsProgram) program = ps_program_lower (ps_schedule_copy (schedule), PS_COMM_ASAP, &error);
  g_assert_no_error (error);
  PsIteration iteration = ps_iteration (program, costs, NULL, PS_SYNC_BYPASS, reduce);
  if (iteration.n_iterations > UNROLLED / 2 - 1 || !repeats (ready, n_devices, iteration.n_iterations, &total_ns))
    return FALSE;
  g_assert_cmpint (iteration.period_ns, ==,
                   (2 * total_ns + iteration.n_iterations) / (2 * (gint64)iteration.n_iterations));
  for (guint n = 2; n <= iteration.n_iterations; n++)
    g_assert_false (total_ns % n == 0 && iteration.n_iterations % n == 0);
  return TRUE;
}

static void
test_unrolled (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);
  guint shown = 0;
  for (guint i = 0; i < 1000; i++)
    shown += check_unrolled (rand, i % 2 == 1);
  g_test_message ("%u of 1000 random schedules repeat exactly within %d iterations", shown, UNROLLED);
  g_assert_cmpuint (shown, >=, 900);
}

/* The same with channels: between the devices' walks over their streams every message looks when its data exists and
 * when its turn has come on either end, until nothing moves any more. */
typedef struct
{
  const PsProgram *program;
  const PsCosts *costs;
  const PsEventsSetting *setting;
  gint64 *end;       /* [n_steps] */
  gint64 (*turn)[2]; /* [n_steps] on the sender's and the receiver's end of a step's message */
  gint64 *sent;      /* [n_steps] */
  gint64 *received;  /* [n_steps] */
  gint64 ready[4];
  gint64 busy[4][16]; /* ends of channels: [device][0], [device][peer] or [device][2 peer + type] */
} Queued;

static guint
queued_end (const Queued *run, guint peer, gboolean receives)
{
  switch (run->setting->channel)
    {
    case PS_CHANNEL_RANK:
      return 0;
    case PS_CHANNEL_PAIR:
      return peer;
    default:
      return 2 * peer + receives;
    }
}

static guint
queued_consumer (const Queued *run, PsOp producer)
{
  for (guint i = 0; i < run->program->n_steps; i++)
    {
      PsOp op = run->program->steps[i].input ? ps_program_producer (run->program, i) : (PsOp){ .kind = PS_OP_O };
      if (op.kind == producer.kind && op.stage == producer.stage && op.microbatch == producer.microbatch)
        return i;
    }
  g_assert_not_reached ();
}

static gint64
queued_walk (Queued *run, guint device, gint64 *busy)
{
  const PsProgram *program = run->program;
  guint op = program->schedule->first[device];
  gint64 clock = run->ready[device];
  for (guint i = program->first[device]; i < program->first[device + 1]; i++)
    {
      const PsInstruction *instruction = &program->instructions[i];
      gboolean receives = instruction->type == PS_INSTRUCTION_RECEIVE;
      if (instruction->type == PS_INSTRUCTION_COMPUTE)
        {
          guint step = program->step_of[op++];
          clock = MAX (clock, run->received[step]) + ps_step_duration (program, run->costs, step);
          run->end[step] = clock;
        }
      if (instruction->type != PS_INSTRUCTION_SEND && !receives)
        continue;
      guint step = queued_consumer (run, instruction->op), end = queued_end (run, instruction->peer, receives);
      gint64 over = receives ? run->received[step] : run->sent[step];
      run->turn[step][receives]
          = MAX (run->setting->channel == PS_CHANNEL_LATENCY ? 0 : busy[end], run->setting->blocking ? clock : 0);
      busy[end] = over;
      clock = run->setting->blocking ? MAX (clock, over) : clock;
    }
  return clock;
}

static gboolean
queued_messages (Queued *run)
{
  const PsProgram *program = run->program;
  gboolean changed = FALSE;
  for (guint i = 0; i < program->n_steps; i++)
    {
      const PsStep *step = &program->steps[i];
      if (step->input == 0)
        continue;
      gboolean eager = run->costs->message_bytes[step->transfer] > 0
                       && run->costs->message_bytes[step->transfer] <= run->setting->eager_bytes;
      gint64 start = MAX (run->end[step->input - 1], run->turn[i][0]);
      gint64 sent = (eager ? start : MAX (start, run->turn[i][1])) + run->costs->transfer_ns[step->transfer];
      gint64 received = eager ? MAX (sent, run->turn[i][1]) : sent;
      changed |= sent != run->sent[i] || received != run->received[i];
      run->sent[i] = sent;
      run->received[i] = received;
    }
  return changed;
}

static void
queued_iterate (Queued *run)
{
  const PsPlacement *placement = run->program->schedule->placement;
  gint64 busy[4][16], clock[4], state = 0;
  memset (run->sent, 0, run->program->n_steps * sizeof *run->sent);
  memset (run->received, 0, run->program->n_steps * sizeof *run->received);
  do
    {
      memcpy (busy, run->busy, sizeof busy);
      for (guint device = 0; device < placement->n_devices; device++)
        clock[device] = queued_walk (run, device, busy[device]);
    }
  while (queued_messages (run));
  memcpy (run->busy, busy, sizeof busy);
  for (guint device = 0; device < placement->n_devices; device++)
    {
      state = MAX (state, clock[device]);
      run->ready[device] = state;
      for (guint stage = 0; stage < placement->n_stages; stage++)
        if (placement->device[stage] == device)
          run->ready[device] += ps_costs_op (run->costs, PS_OP_O, stage)->duration_ns;
    }
}

/* A setting whose durations are known beforehand, and costs without all-reduces, with messages of some size. */
static PsCosts *
random_queue (GRand *rand, guint n_stages, PsEventsSetting *setting)
{
  PsCosts *costs = random_costs (rand, n_stages);
  memset (costs->reduce_ns, 0, n_stages * sizeof *costs->reduce_ns);
  for (guint i = 1; i <= 2 * n_stages; i++)
    costs->message_bytes[i] = g_rand_int_range (rand, 0, 100);
  *setting = (PsEventsSetting){ .channel = (PsChannel)random_below (rand, 4),
                                .eager_bytes = g_rand_boolean (rand) ? 50 : 0,
                                .blocking = random_below (rand, 4) == 0 };
  return costs;
}

static gboolean
check_queued (GRand *rand, gboolean pairs)
{
  g_autoptr (GError) error = NULL;
  PsEventsSetting setting;
  g_autoptr (PsSchedule) schedule = random_schedule (rand, pairs);
  g_autoptr (PsCosts) costs = random_queue (rand, schedule->placement->n_stages, &setting);
  guint n_devices = schedule->placement->n_devices;
  g_autoptr (PsProgram) program = ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, &error);
  g_assert_no_error (error);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  if (!ps_events_simulate (program, costs, &setting, simulation, NULL))
    return FALSE; /* blocking programs may deadlock */
  guint n = program->n_steps;
  g_autofree gint64 *end = g_new0 (gint64, n), *sent = g_new0 (gint64, n), *received = g_new0 (gint64, n);
  g_autofree gint64 (*turn)[2] = g_malloc0 (n * sizeof *turn);
  Queued run = { program, costs, &setting, end, turn, sent, received, { 0 }, { { 0 } } };
  gint64 ready[UNROLLED][4], total_ns;
  for (guint i = 0; i < UNROLLED; i++)
    {
      queued_iterate (&run);
      memcpy (ready[i], run.ready, sizeof run.ready);
      for (guint step = 0; i == 0 && step < n; step++)
        g_assert_cmpint (end[step], ==, simulation->end_ns[step + 1]);
    }
  PsIteration iteration;
  g_assert_true (ps_iteration_events (program, costs, simulation, &setting, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED,
                                      &iteration, &error));
  if (iteration.n_iterations > UNROLLED / 2 - 1 || !repeats (ready, n_devices, iteration.n_iterations, &total_ns))
    return FALSE;
  g_assert_cmpint (iteration.period_ns, ==,
                   (2 * total_ns + iteration.n_iterations) / (2 * (gint64)iteration.n_iterations));
  return TRUE;
}

static void
test_channels (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (23);
  guint shown = 0;
  for (guint i = 0; i < 600; i++)
    shown += check_queued (rand, i % 2 == 1);
  g_test_message ("%u of 600 random schedules run and repeat exactly within %d iterations", shown, UNROLLED);
  g_assert_cmpuint (shown, >=, 500);
}

/* PipeDream on two devices, F + BW = 3 us, transfers of 5 us, m = 4. With two microbatches under way each waits for its
 * round trip, 2 * 3 + 2 * 5 us, so one takes 8 us; a channel for each direction is held for 5 us of that. One that
 * carries both takes them in turn, and device 0 works between them: gradient, BW and F, activation, 5 + 3 + 5 = 13 us.
 * Transfers that take no time still take their turns. */
static void
test_asynchronous_channels (void)
{
  static const gint64 period_us[]
      = { [PS_CHANNEL_LATENCY] = 32, [PS_CHANNEL_DIRECTION] = 32, [PS_CHANNEL_PAIR] = 52, [PS_CHANNEL_RANK] = 52 };
  for (guint channel = 0; channel < G_N_ELEMENTS (period_us); channel++)
    {
      const PsEventsSetting setting = { .channel = (PsChannel)channel };
      g_auto (Case) slow = { 0 }, free = { 0 };
      PsIteration iteration;
      predict (&slow, "pipedream", 2, 4, 1, "f=1us,bw=2us,c=5us");
      g_assert_true (ps_iteration_events (slow.program, slow.costs, NULL, &setting, PS_SYNC_GLOBAL,
                                          PS_REDUCE_OVERLAPPED, &iteration, NULL));
      g_assert_cmpint (iteration.period_ns, ==, period_us[channel] * US);
      predict (&free, "pipedream", 4, 6, 1, "f=1us,bw=2us");
      g_assert_true (ps_iteration_events (free.program, free.costs, NULL, &setting, PS_SYNC_GLOBAL,
                                          PS_REDUCE_OVERLAPPED, &iteration, NULL));
      g_assert_cmpint (iteration.period_ns, >=, 18 * US);
      if (channel == PS_CHANNEL_LATENCY || channel == PS_CHANNEL_DIRECTION)
        g_assert_cmpint (iteration.period_ns, ==, 18 * US);
    }
}

/* What is run round by round, because durations might depend on what else goes on, finds the same period where they do
 * not: nobody sends while it computes when transfers take no time, and of messages that do not queue none overtakes. */
static void
test_entangled (void)
{
  static const PsEventsSetting settings[] = { { .overlap_slowdown = 3 }, { .window = 1 } };
  g_autoptr (GRand) rand = g_rand_new_with_seed (31);
  guint repeated = 0;
  for (guint i = 0; i < 200; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsSchedule) schedule = random_schedule (rand, FALSE);
      guint n_stages = schedule->placement->n_stages;
      g_autoptr (PsCosts) costs = random_costs (rand, n_stages);
      g_autoptr (PsProgram) program = ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, &error);
      g_assert_no_error (error);
      if (i % 2 == 0)
        memset (costs->transfer_ns, 0, (1 + 2 * n_stages) * sizeof *costs->transfer_ns);
      PsIteration known = ps_iteration (program, costs, NULL, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED), found;
      g_assert_true (ps_iteration_events (program, costs, NULL, &settings[i % 2], PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED,
                                          &found, &error));
      if (found.n_iterations == 0)
        continue;
      g_assert_cmpint (found.period_ns, ==, known.period_ns);
      g_assert_cmpuint (found.n_iterations % known.n_iterations, ==, 0);
      repeated++;
    }
  g_assert_cmpuint (repeated, >=, 180);

  g_auto (Case) endless = { 0 };
  g_autoptr (GError) error = NULL;
  PsIteration iteration;
  predict (&endless, "pipedream", 2, 4, 1, "f=1us,bw=2us");
  g_assert_false (ps_iteration_events (endless.program, endless.costs, NULL, &settings[0], PS_SYNC_GLOBAL,
                                       PS_REDUCE_OVERLAPPED, &iteration, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_SCHEDULE);
}

/* An endless asynchronous run, another way: PipeDream of n m microbatches is n iterations of m; in the long run every
 * further 60 of them add as much to the makespan: any pattern of 1 to 5 devices repeats in 60. */
static gint64
run_for (guint p, guint m, const PsCosts *costs)
{
  const PsFamilySetting setting = { .n_devices = p, .n_microbatches = m, .n_chunks = 1 };
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) simulation
      = reference_simulate (reference_generate ("pipedream", &setting), costs, &program);
  return simulation->makespan_ns;
}

static void
test_endless (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);
  for (guint i = 0; i < 100; i++)
    {
      guint p = 1 + random_below (rand, 5), m = p + random_below (rand, 8);
      g_auto (Case) test = { 0 };
      predict (&test, "pipedream", p, m, 1, "f=0,bw=0");
      ps_costs_free (test.costs);
      test.costs = random_costs (rand, p);
      for (guint stage = 0; stage < p; stage++)
        ps_costs_op (test.costs, PS_OP_O, stage)->duration_ns = test.costs->reduce_ns[stage] = 0;
      PsIteration iteration = iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED);
      gint64 total_ns = run_for (p, 160 * m, test.costs) - run_for (p, 100 * m, test.costs);
      g_assert_cmpuint (60 % iteration.n_iterations, ==, 0);
      g_assert_cmpint (iteration.period_ns, ==, (2 * total_ns + 60) / 120);
    }
}

/* Tables 5 and 8 of arXiv 2401.10241 count the span of ZB-H2: their rates are those of the bypassed iteration where it
 * takes no longer. Nothing may take longer than the longest span, whatever the schedule, on a loop: see the note at
 * PS_SYNC_BYPASS. */
static gboolean
check_costs (const ReferenceRow *row, gpointer data)
{
  static const char *const families[] = { "zb-h2", "zb-h1", "1f1b", "eager-1f1b", "gpipe", "zb-auto" };
  guint p = reference_count (row, "devices"), m = reference_count (row, "microbatches");
  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    {
      g_auto (Case) test = { 0 };
      g_autofree char *costs
          = g_strdup_printf ("f=%sms,b=%sms,w=%sms,c=%sms", reference_text (row, "f_ms"), reference_text (row, "b_ms"),
                             reference_text (row, "w_ms"), reference_text (row, "comm_ms"));
      predict (&test, families[i], p, m, 1, costs);
      PsIteration bypass = iterate (&test, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED);
      PsIteration global = iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED);
      g_assert_cmpint (bypass.period_ns, <=, test.simulation->max_span_ns);
      g_assert_cmpint (bypass.period_ns, >=, test.simulation->device[0].busy_ns);
      g_assert_cmpint (global.period_ns, ==, test.simulation->makespan_ns);
    }
  return TRUE;
}

static void
test_published_costs (void)
{
  guint n = reference_rows ("zero_bubble_costs.csv", check_costs, NULL);
  if (n)
    g_assert_cmpuint (n, ==, 9);
}

/* More of anything never makes an iteration shorter. */
static void
test_monotone (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (29);
  for (guint i = 0; i < 200; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsSchedule) schedule = random_schedule (rand, FALSE);
      guint n_stages = schedule->placement->n_stages;
      g_autoptr (PsCosts) costs = random_costs (rand, n_stages);
      g_autoptr (PsProgram) program = ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, &error);
      g_assert_no_error (error);
      gint64 before = ps_iteration (program, costs, NULL, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED).period_ns;
      gint64 exposed = ps_iteration (program, costs, NULL, PS_SYNC_BYPASS, PS_REDUCE_EXPOSED).period_ns;
      g_assert_cmpint (exposed, >=, before);
      guint stage = random_below (rand, n_stages);
      gint64 *what[]
          = { &costs->reduce_ns[stage], &costs->transfer_ns[1 + stage],
              &ps_costs_op (costs, PS_OP_O, stage)->duration_ns, &ps_costs_op (costs, PS_OP_F, stage)->duration_ns };
      *what[random_below (rand, G_N_ELEMENTS (what))] += 500;
      g_assert_cmpint (ps_iteration (program, costs, NULL, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED).period_ns, >=, before);
    }
}

static void
test_names (void)
{
  PsSync sync;
  PsReduce reduce;
  g_assert_true (ps_sync_parse ("bypass", &sync) && sync == PS_SYNC_BYPASS);
  g_assert_true (ps_sync_parse (ps_sync_name (PS_SYNC_GLOBAL), &sync) && sync == PS_SYNC_GLOBAL);
  g_assert_false (ps_sync_parse ("", &sync));
  g_assert_true (ps_reduce_parse (ps_reduce_name (PS_REDUCE_EXPOSED), &reduce) && reduce == PS_REDUCE_EXPOSED);
  g_assert_false (ps_reduce_parse ("hidden", &reduce));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/iterations/global", test_global);
  g_test_add_func ("/iterations/two-copies", test_two_copies);
  g_test_add_func ("/iterations/overlapped-reduce", test_overlapped_reduce);
  g_test_add_func ("/iterations/zero-bubble", test_zero_bubble);
  g_test_add_func ("/iterations/1f1b-gains-nothing", test_1f1b_gains_nothing);
  g_test_add_func ("/iterations/state-is-handed-down", test_state_is_handed_down);
  g_test_add_func ("/iterations/pipedream", test_pipedream);
  g_test_add_func ("/iterations/round-trip", test_round_trip);
  g_test_add_func ("/iterations/asynchronous-reduce", test_asynchronous_reduce);
  g_test_add_func ("/iterations/unrolled", test_unrolled);
  g_test_add_func ("/iterations/channels", test_channels);
  g_test_add_func ("/iterations/asynchronous-channels", test_asynchronous_channels);
  g_test_add_func ("/iterations/entangled", test_entangled);
  g_test_add_func ("/iterations/endless", test_endless);
  g_test_add_func ("/iterations/published-costs", test_published_costs);
  g_test_add_func ("/iterations/monotone", test_monotone);
  g_test_add_func ("/iterations/names", test_names);
  return g_test_run ();
}
