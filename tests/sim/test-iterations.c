/* Tests of simulate.h: numbers worked by hand, published ones, and what no schedule has. */
#include "family-case.h"

#include <pipesim/simulate.h>

static PsIteration iterate (const Case *test, PsSync sync, PsReduce reduce)
{
  return ps_iteration (test->program, test->costs, test->simulation, sync, reduce);
}

#define US G_GINT64_CONSTANT (1000)

/* p = 4, m = 8, F = B = W = 1 us: 1F1B's makespan is (m + p - 1) 3 = 33 us, and every device holds one stage. O = 2 us.
 * All-reduce 5 us: device 0 ends last, so nothing of its all-reduce is hidden. */
static void test_global (void)
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
    test.costs->stage[stage].reduce_ns = 0;
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED).period_ns, ==, (33 + 2) * US);
  test.costs->stage[3].reduce_ns = 10 * US;
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_EXPOSED).period_ns, ==, (33 + 4 + 2) * US);
}

/* Chimera, p = 2: both devices hold both stages, end at the same time, and sum the two copies of each: 2 * 5 us. */
static void test_two_copies (void)
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
static void test_overlapped_reduce (void)
{
  g_auto (Case) test = { 0 };

  predict (&test, "looped-bfs", 1, 3, 2, "f=2us,b=2us,w=2us,reduce=8us,o=2us");
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED).period_ns, ==, (22 + 2) * US);
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_EXPOSED).period_ns, ==, (26 + 2) * US);
  /* One device alone has nobody to meet. */
  g_assert_cmpint (iterate (&test, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED).period_ns, ==, (22 + 2) * US);
  g_assert_cmpint (iterate (&test, PS_SYNC_BYPASS, PS_REDUCE_EXPOSED).period_ns, ==, (26 + 2) * US);
  test.costs->stage[1].reduce_ns = 8 * US;
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED).period_ns, ==, (24 + 2) * US);
  g_assert_cmpint (iterate (&test, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED).period_ns, ==, (24 + 2) * US);
}

/* ZB-H2 with F = B = W = 1 us and m >= 2p has no bubble in any span: bypassed, an iteration is m (F + B + W) of work,
 * and O beside it. Globally synchronised the ramp of (p - 1) F stays. */
static void test_zero_bubble (void)
{
  for (guint p = 2; p <= 8; p += 2) {
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
static void test_1f1b_gains_nothing (void)
{
  g_auto (Case) test = { 0 };

  predict (&test, "1f1b", 4, 8, 1, "f=1us,b=1us,w=1us,c=100ns");
  g_assert_cmpint (iterate (&test, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED).period_ns, ==, test.simulation->makespan_ns);
}

/* Two devices, one microbatch: device 0 runs F 0..1 and BW, device 1 F, BW. With transfers of 1 us and ops F 1, BW 2:
 * F0 0-1, F1 2-3, BW1 3-5, BW0 6-8. The state of device 0 is known at 8 us only, and device 1 may step its optimizer
 * (10 us) then: its next F would be ready at 10 us (F0 again 8-9, transfer), but waits until 18 us. Period 16 us: from
 * device 1's step to the next, 18: F1 18-19, BW1 19-21, BW0 22-24, step of device 1 24-34. */
static void test_state_is_handed_down (void)
{
  g_auto (Case) test = { 0 };

  predict (&test, "1f1b", 2, 1, 1, "f=1us:1us,bw=2us:2us,c=1us,o=0:10us");
  g_assert_cmpint (test.simulation->makespan_ns, ==, 8 * US);
  g_assert_cmpint (iterate (&test, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED).period_ns, ==, 16 * US);
}

/* PipeDream's steady state: a device is never idle but for the slowest stage: m times its F + BW. */
static void test_pipedream (void)
{
  static const char *const families[] = { "pipedream", "pipedream-2bw" };

  for (guint i = 0; i < 2; i++)
    for (guint m = 4; m <= 9; m++) {
      g_auto (Case) even = { 0 }, uneven = { 0 };

      predict (&even, families[i], 4, m, 1, "f=1us,b=1us,w=1us");
      g_assert_cmpint (iterate (&even, PS_SYNC_GLOBAL, PS_REDUCE_EXPOSED).period_ns, ==, 3 * m * US);
      g_assert_cmpint (iterate (&even, PS_SYNC_BYPASS, PS_REDUCE_EXPOSED).period_ns, ==, 3 * m * US);
      predict (&uneven, families[i], 4, m, 1, "f=1us:2us:1us:1us,bw=2us:4us:3us:1us,o=1us:5us:0:0");
      /* Stage 1: 6 us per microbatch, and 5 us for its step: PipeDream steps after each microbatch. */
      g_assert_cmpint (iterate (&uneven, PS_SYNC_GLOBAL, PS_REDUCE_EXPOSED).period_ns, ==,
                       (6 * m + 5 * (i == 0 ? m : 1)) * US);
    }
}

/* 1F1B in its steady state with transfer time c: p microbatches are under way, and one of them takes p F and p BW and 2
 * (p - 1) transfers before device 0 can start the one p after it: F + BW + 2 c (p - 1) / p each. m = 6 and p = 4: six
 * microbatches take 6 * 3000 + 6 * 2 * 300 * 3 / 4 = 20700 ns; c = 301: 20709; c = 305 ns: 20745; m = 5, c = 301: 5 *
 * 3000 + 5 * 2 * 301 * 3 / 4 = 17257.5 ns, whole after two iterations. */
static void test_round_trip (void)
{
  static const struct {
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

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_auto (Case) test = { 0 };

    predict (&test, "pipedream", 4, cases[i].m, 1, cases[i].costs);
    PsIteration iteration = iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED);
    g_assert_cmpint (iteration.period_ns, ==, cases[i].period_ns);
    g_assert_cmpuint (iteration.n_iterations, ==, cases[i].n_iterations);
  }
}

/* The all-reduce of an asynchronous schedule: exposed it stands before each step; overlapped it has the whole next
 * round to hide in, and bounds the period only where it is longer than that. m = 4: 12 us of work. */
static void test_asynchronous_reduce (void)
{
  g_auto (Case) test = { 0 };

  predict (&test, "pipedream-2bw", 2, 4, 1, "f=1us,b=1us,w=1us,reduce=5us");
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_EXPOSED).period_ns, ==, 17 * US);
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED).period_ns, ==, 12 * US);
  test.costs->stage[1].reduce_ns = 30 * US;
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED).period_ns, ==, 30 * US);
}

/* PipeDream adds up the gradients of every microbatch: 4 * (3 + 5) us exposed, 4 * 5 us on the channel overlapped. */
static void test_single_reduce (void)
{
  g_auto (Case) test = { 0 };

  predict (&test, "pipedream", 2, 4, 1, "f=1us,b=1us,w=1us,reduce=5us");
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_EXPOSED).period_ns, ==, 32 * US);
  g_assert_cmpint (iterate (&test, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED).period_ns, ==, 20 * US);
}

/* PipeDream on two devices, F + BW = 3 us, transfers of 5 us, m = 4. With two microbatches under way each waits for its
 * round trip, 2 * 3 + 2 * 5 us, so one takes 8 us; a channel for each direction is held for 5 us of that. One that
 * carries both takes them in turn, and device 0 works between them: gradient, BW and F, activation, 5 + 3 + 5 = 13 us.
 * Transfers that take no time still take their turns. */
static void test_asynchronous_channels (void)
{
  static const gint64 period_us[]
      = { [PS_CHANNEL_LATENCY] = 32, [PS_CHANNEL_DIRECTION] = 32, [PS_CHANNEL_PAIR] = 52, [PS_CHANNEL_RANK] = 52 };

  for (guint channel = 0; channel < G_N_ELEMENTS (period_us); channel++) {
    const PsEventsSetting setting = { .comm = (PsChannel)channel };
    g_auto (Case) slow = { 0 }, free = { 0 };
    PsIteration iteration;

    predict (&slow, "pipedream", 2, 4, 1, "f=1us,bw=2us,c=5us");
    g_assert_true (ps_iteration_events (slow.program, slow.costs, NULL, &setting, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED,
                                        &iteration, NULL));
    g_assert_cmpint (iteration.period_ns, ==, period_us[channel] * US);
    predict (&free, "pipedream", 4, 6, 1, "f=1us,bw=2us");
    g_assert_true (ps_iteration_events (free.program, free.costs, NULL, &setting, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED,
                                        &iteration, NULL));
    g_assert_cmpint (iteration.period_ns, >=, 18 * US);
    if (channel == PS_CHANNEL_LATENCY || channel == PS_CHANNEL_DIRECTION)
      g_assert_cmpint (iteration.period_ns, ==, 18 * US);
  }
}

/* Rounds of an asynchronous schedule overlap, so that durations which depend on what else goes on are refused. */
static void test_asynchronous_slowdown (void)
{
  const PsEventsSetting setting = { .overlap_slowdown = 3 };
  g_auto (Case) endless = { 0 };
  PsIteration iteration;

  predict (&endless, "pipedream", 2, 4, 1, "f=1us,bw=2us");
  refused (ps_iteration_events (endless.program, endless.costs, NULL, &setting, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED,
                                &iteration, &error),
           PS_ERROR_SCHEDULE, "pipedream: never drains: *its steady state is not known");
}

/* Tables 5 and 8 of arXiv 2401.10241 count the span of ZB-H2: their rates are those of the bypassed iteration where it
 * takes no longer. Nothing may take longer than the longest span, whatever the schedule, on a loop: see the note at
 * PS_SYNC_BYPASS. */
static gboolean check_costs (const ReferenceRow *row, gpointer data)
{
  static const char *const families[] = { "zb-h2", "zb-h1", "1f1b", "eager-1f1b", "gpipe", "zb-auto" };
  guint p = reference_count (row, "devices"), m = reference_count (row, "microbatches");

  for (guint i = 0; i < G_N_ELEMENTS (families); i++) {
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

static void test_published_costs (void)
{
  guint n = reference_rows ("zero_bubble_costs.csv", check_costs, NULL);

  if (n)
    g_assert_cmpuint (n, ==, 9);
}

/* F of 1 us, BW of 2 us, O of none: two busy devices repeat 12 us. From its F0 to its B3 device 0 runs 5 F and 5 BW, of
 * which an F and a BW are those of its neighbours. With O of 1 us after each BW there are 4 O between them. */
static void test_times (void)
{
  static const struct {
    const char *costs;
    gint64 makespan_ns;
  } cases[] = { { "f=1us,bw=2us", 15 * US }, { "f=1us,bw=2us,o=1us", 19 * US } };

  for (guint k = 0; k < G_N_ELEMENTS (cases); k++) {
    g_auto (Case) test = { 0 };

    predict (&test, "pipedream", 2, 4, 1, cases[k].costs);
    ps_iteration_times (test.program, test.costs, NULL, test.simulation);
    g_assert_cmpint (test.simulation->makespan_ns, ==, cases[k].makespan_ns);
    for (guint i = 0; i < test.program->n_steps; i++)
      g_assert_cmpint (test.simulation->end_ns[i + 1], >, test.simulation->end_ns[test.program->steps[i].input]);
  }
}

static void test_names (void)
{
  PsSync sync;
  PsReduce reduce;

  g_assert_true (ps_sync_parse ("x", "bypass", &sync, NULL) && sync == PS_SYNC_BYPASS);
  g_assert_true (ps_sync_parse ("x", ps_sync_name (PS_SYNC_GLOBAL), &sync, NULL) && sync == PS_SYNC_GLOBAL);
  g_assert_false (ps_sync_parse ("x", "", &sync, NULL));
  g_assert_true (ps_reduce_parse ("x", ps_reduce_name (PS_REDUCE_EXPOSED), &reduce, NULL)
                 && reduce == PS_REDUCE_EXPOSED);
  g_assert_false (ps_reduce_parse ("x", "hidden", &reduce, NULL));
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/iterations/global", test_global);
  g_test_add_func ("/iterations/two-copies", test_two_copies);
  g_test_add_func ("/iterations/overlapped-reduce", test_overlapped_reduce);
  g_test_add_func ("/iterations/zero-bubble", test_zero_bubble);
  g_test_add_func ("/iterations/1f1b-gains-nothing", test_1f1b_gains_nothing);
  g_test_add_func ("/iterations/state-is-handed-down", test_state_is_handed_down);
  g_test_add_func ("/iterations/pipedream", test_pipedream);
  g_test_add_func ("/iterations/single-reduce", test_single_reduce);
  g_test_add_func ("/iterations/round-trip", test_round_trip);
  g_test_add_func ("/iterations/asynchronous-reduce", test_asynchronous_reduce);
  g_test_add_func ("/iterations/asynchronous-channels", test_asynchronous_channels);
  g_test_add_func ("/iterations/asynchronous-slowdown", test_asynchronous_slowdown);
  g_test_add_func ("/iterations/published-costs", test_published_costs);
  g_test_add_func ("/iterations/times", test_times);
  g_test_add_func ("/iterations/names", test_names);
  return g_test_run ();
}
