/* Tests of simulate.h: numbers worked out by hand. */
#include "folder-rig.h"
#include "reference.h"

#include <pipesim/simulate.h>

#include <string.h>

/* A family's program under these costs with what the engine says about it. */
typedef struct {
  PsProgram *program;
  PsCosts *costs;
  PsSimulation *simulation;
} Case;

static void case_clear (Case *test)
{
  ps_program_free (test->program);
  ps_costs_free (test->costs);
  ps_simulation_free (test->simulation);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Case, case_clear)

static void case_init (Case *test, const char *family, guint p, guint m, const char *costs, PsCommOrder order)
{
  g_autoptr (GError) error = NULL;

  test->program = ps_program_lower (
      reference_generate (family, &(PsFamilySetting){ .n_devices = p, .n_microbatches = m, .n_chunks = 1 }), order,
      &error);
  g_assert_no_error (error);
  test->costs = fine (ps_costs_parse (costs, p, 1, &error));
  test->simulation = ps_simulation_new (test->program);
}

static void case_run (Case *test, const PsEventsSetting *setting)
{
  fine (ps_events_simulate (test->program, test->costs, setting, test->simulation, &error));
}

static guint find_step (const PsProgram *program, PsOpKind kind, guint microbatch, guint stage)
{
  for (guint i = 0; i < program->n_steps; i++) {
    PsOp op = program->schedule->ops[program->op_of[i]];

    if (op.kind == kind && op.stage == stage && op.microbatch == microbatch)
      return i;
  }
  g_assert_not_reached ();
}

static void assert_op (const Case *test, PsOpKind kind, guint microbatch, guint stage, gint64 start, gint64 end)
{
  guint step = find_step (test->program, kind, microbatch, stage);

  g_assert_cmpint (test->simulation->start_ns[step], ==, start);
  g_assert_cmpint (test->simulation->end_ns[step + 1], ==, end);
}

/* The transfer into the forward of that microbatch on that stage. */
static void assert_transfer (const Case *test, guint microbatch, guint stage, gint64 start, gint64 end)
{
  guint step = find_step (test->program, PS_OP_F, microbatch, stage);

  g_assert_cmpint (test->simulation->transfer_start_ns[step], ==, start);
  g_assert_cmpint (test->simulation->transfer_end_ns[step], ==, end);
}

/* GPipe, three devices, f = 2, c = 1. The stream of device 1: RECEIVE F0.0, F0.1, SEND F0.1, RECEIVE F1.0, ... F0.0
 * ends at 2 and is on its way until 3; F0.1 runs from 3 to 5; its result is on its way from 5 to 6. F1.0 ends at 4.
 * With a channel per pair it is there at 5, when F0.1 ends. With one stream per device it waits for SEND F0.1: from 6
 * to 7. */
static void test_rendezvous (void)
{
  g_auto (Case) test = { 0 };

  case_init (&test, "gpipe", 3, 2, "f=2ns,b=2ns,w=2ns,c=1ns", PS_COMM_ASAP);
  case_run (&test, &(PsEventsSetting){ .comm = PS_CHANNEL_PAIR });
  assert_transfer (&test, 1, 1, 4, 5);
  assert_op (&test, PS_OP_F, 1, 1, 5, 7);
  assert_op (&test, PS_OP_F, 1, 2, 8, 10);
  case_run (&test, &(PsEventsSetting){ .comm = PS_CHANNEL_RANK });
  assert_transfer (&test, 0, 2, 5, 6);
  assert_transfer (&test, 1, 1, 6, 7);
  assert_transfer (&test, 1, 2, 9, 10);
  assert_op (&test, PS_OP_F, 1, 2, 10, 12);
}

/* The same with eager messages: F1.0 leaves device 0 at 4 and arrives at 5, and is received when the turn of device 1's
 * stream has come, at 6, in no time. Messages of more bytes than the threshold stay a rendezvous. */
static void test_eager (void)
{
  g_auto (Case) test = { 0 };

  case_init (&test, "gpipe", 3, 2, "f=2ns,b=2ns,w=2ns,c=1ns,msg=64B", PS_COMM_ASAP);
  case_run (&test, &(PsEventsSetting){ .comm = PS_CHANNEL_RANK, .eager_bytes = 64 });
  assert_transfer (&test, 1, 1, 4, 6);
  assert_op (&test, PS_OP_F, 1, 1, 6, 8);
  case_run (&test, &(PsEventsSetting){ .comm = PS_CHANNEL_RANK, .eager_bytes = 63 });
  assert_op (&test, PS_OP_F, 1, 1, 7, 9);
}

/* GPipe, two devices, bw = 4. Device 0: F0 [0 2], SEND [2 3], F1 [3 5]. Device 1: F0 [3 5], SEND/RECEIVE F1 [5 6], F1
 * [6 8], BW0 [8 12], SEND [12 13], BW1 [13 17], SEND [17 18]. Device 0: BW0 [13 17], RECEIVE [17 18], BW1 [18 22]. Its
 * span counts ops alone: what device 1 sends after its last op is no part of device 1's. */
static void test_blocking (void)
{
  g_auto (Case) test = { 0 };

  case_init (&test, "gpipe", 2, 2, "f=2ns,b=2ns,w=2ns,c=1ns", PS_COMM_ASAP);
  case_run (&test, &(PsEventsSetting){ .blocking = TRUE });
  assert_op (&test, PS_OP_F, 1, 0, 3, 5);
  assert_transfer (&test, 1, 1, 5, 6);
  assert_op (&test, PS_OP_F, 1, 1, 6, 8);
  assert_op (&test, PS_OP_BW, 0, 0, 13, 17);
  assert_op (&test, PS_OP_BW, 1, 0, 18, 22);
  g_assert_cmpint (test.simulation->makespan_ns, ==, 22);
  g_assert_cmpint (test.simulation->device[1].end_ns, ==, 17);
}

/* Device 1 at 0.8: f = 4 takes 5 there. 0.3: 13.33 is rounded to 13. */
static void test_speed (void)
{
  static const double speed[] = { 1, 0.8 }, slow[] = { 1, 0.3 };
  g_auto (Case) test = { 0 };

  case_init (&test, "gpipe", 2, 1, "f=4ns,b=4ns,w=4ns,c=1ns", PS_COMM_ASAP);
  case_run (&test, &(PsEventsSetting){ .speed = speed });
  assert_op (&test, PS_OP_F, 0, 0, 0, 4);
  assert_op (&test, PS_OP_F, 0, 1, 5, 10);
  assert_op (&test, PS_OP_BW, 0, 1, 10, 20);
  assert_op (&test, PS_OP_BW, 0, 0, 21, 29);
  case_run (&test, &(PsEventsSetting){ .speed = slow });
  assert_op (&test, PS_OP_F, 0, 1, 5, 18);
}

/* GPipe, two devices, f = 4, c = 2, ops half as fast beside a transfer. F0.0 [0 4], its transfer [4 6]. F1.0 starts at
 * 4 and has 1 done at 6; the other 3 end at 9. Its transfer [9 11]. F0.1 starts at 6 and has 3 done at 9; the fourth
 * takes 2: 11. F1.1 starts at 11, beside nothing: 15. */
static void test_overlap (void)
{
  g_auto (Case) test = { 0 };

  case_init (&test, "gpipe", 2, 2, "f=4ns,b=4ns,w=4ns,c=2ns", PS_COMM_ASAP);
  case_run (&test, &(PsEventsSetting){ .overlap_slowdown = 2 });
  assert_op (&test, PS_OP_F, 1, 0, 4, 9);
  assert_op (&test, PS_OP_F, 0, 1, 6, 11);
  assert_op (&test, PS_OP_F, 1, 1, 11, 15);
  /* BW0.1 [15 23], its gradient [23 25]. BW1.1 starts at 23, has 1 done at 25 and ends at 32, its gradient [32 34].
   * BW0.0 starts at 25, has 7 done at 32 and the eighth at 34. */
  assert_op (&test, PS_OP_BW, 1, 1, 23, 32);
  assert_op (&test, PS_OP_BW, 0, 0, 25, 34);
  assert_op (&test, PS_OP_BW, 1, 0, 34, 42);
  g_assert_cmpint (test.simulation->device[0].busy_ns, ==, 4 + 5 + 9 + 8);
}

/* 1F1B, two devices. F0.0 [0 9], its transfer [9 11]. F1.0 has 1 done at 11 and ends at 19, its transfer [19 21]. F0.1
 * [11 15]. Device 1 then posts its receive of F1 and runs BW0.1 beside it: 3 of 5 are done at 21, and it ends at 23.
 * Its gradient [23 25] slows F1.1 down, which starts at 23. A receive that is posted right before F1.1, or that slows
 * nothing down while it waits, leaves BW0.1 with 4 done at 19: it ends at 21. */
static void test_overlap_waiting (void)
{
  static const struct {
    PsCommOrder order;
    gboolean waiting;
    gint64 end_ns;
  } rows[] = { { PS_COMM_ASAP, TRUE, 23 }, { PS_COMM_ASAP, FALSE, 21 }, { PS_COMM_DEFERRED, TRUE, 21 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_auto (Case) test = { 0 };

    case_init (&test, "1f1b", 2, 2, "f=9ns:4ns,b=3ns:3ns,w=2ns:2ns,c=2ns", rows[i].order);
    case_run (&test, &(PsEventsSetting){ .overlap_slowdown = 2, .overlap_waiting = rows[i].waiting });
    assert_op (&test, PS_OP_F, 1, 0, 9, 19);
    assert_op (&test, PS_OP_F, 0, 1, 11, 15);
    assert_op (&test, PS_OP_BW, 0, 1, 15, rows[i].end_ns);
    assert_op (&test, PS_OP_F, 1, 1, rows[i].end_ns, rows[i].end_ns + 5);
  }
}

/* A device starts at its ready time at the earliest. */
static void test_ready_time (void)
{
  static const gint64 ready[] = { 5, 20 };
  g_auto (Case) test = { 0 };

  case_init (&test, "gpipe", 2, 1, "f=2ns,b=2ns,w=2ns,c=1ns", PS_COMM_ASAP);
  for (guint ready_order = 0; ready_order < 2; ready_order++) {
    case_run (&test, &(PsEventsSetting){ .ready_ns = ready, .ready_order = ready_order });
    assert_op (&test, PS_OP_F, 0, 0, 5, 7);
    assert_transfer (&test, 0, 1, 7, 8);
    assert_op (&test, PS_OP_F, 0, 1, 20, 22);
    g_assert_cmpint (test.simulation->makespan_ns, ==, 22 + 4 + 1 + 4 - 5);
  }
}

static PsCluster *load_cluster (const char *keys)
{
  g_autofree char *path = path_of ("c.ini");
  g_autofree char *text
      = g_strdup_printf ("[cluster]\nnodes = 2\ndevices_per_node = 3\npeak_flops = 1e12\nefficiency = 1\n"
                         "link_latency = 0\nlink_bandwidth = 1000GB/s\n%s\n",
                         keys);

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  return fine (ps_cluster_load (path, &error));
}

/* Stages 0 .. 5 on devices 0 3 1 4 2 5: every forward of an even stage goes from node 0 to node 1, those of odd ones
 * come back. Nothing takes time but what the test says: ends of forwards by microbatch and stage, transfers of 1000 B
 * that take 1000 ns from the even stages. */
static void links_init (Case *test)
{
  static const guint16 devices[] = { 0, 3, 1, 4, 2, 5 };
  PsScheduleBuilder *builder = ps_schedule_builder_new ("links", ps_placement_new_custom (6, 6, 1, devices), 3);

  for (guint device = 0; device < 6; device++) {
    for (guint k = 0; k < 6; k++)
      ps_schedule_builder_add (builder, k < 3 ? PS_OP_F : PS_OP_BW, device < 3 ? 2 * device : 2 * (device - 3) + 1,
                               k % 3);
    ps_schedule_builder_next_device (builder);
  }
  test->program = ps_program_lower (ps_schedule_builder_end (builder), PS_COMM_ASAP, NULL);
  test->costs = ps_costs_new (6);
  test->simulation = ps_simulation_new (test->program);
  for (guint stage = 0; stage < 6; stage += 2) {
    test->costs->transfer_ns[ps_transfer_forward (test->costs, stage)] = 1000;
    test->costs->message_bytes[ps_transfer_forward (test->costs, stage)] = 1000;
  }
}

/* Three messages meet at 10000: microbatch 2 from stage 0, 1 from stage 2, 0 from stage 4. */
static void links_run (Case *test, const PsCluster *cluster, PsChannel channel)
{
  g_autofree gint64 *durations = g_new0 (gint64, test->program->n_steps);

  durations[find_step (test->program, PS_OP_F, 0, 4)] = 8000; /* there at 2000 */
  durations[find_step (test->program, PS_OP_F, 1, 0)] = 5000;
  durations[find_step (test->program, PS_OP_F, 1, 2)] = 4000; /* there at 6000 */
  durations[find_step (test->program, PS_OP_F, 2, 0)] = 5000;
  case_run (test, &(PsEventsSetting){ .comm = channel, .links = cluster, .duration_ns = durations });
}

/* One port of 1 byte per ns for the node, and the message from stage 4 slow by itself: 0.2 per ns. Max-min: that one
 * keeps its 0.2, the others get (1 - 0.2) / 2 = 0.4 each and not a third: 1000 / 0.4 = 2500. A port for each device:
 * nothing is shared. Of two at 1 byte per ns, from the time when they meet: 0.5 each. */
static void test_links (void)
{
  g_autoptr (PsCluster) node = load_cluster ("network_latency = 0\nnetwork_bandwidth = 1GB/s\nnic = node");
  g_autoptr (PsCluster) gpu = load_cluster ("network_latency = 0\nnetwork_bandwidth = 1GB/s\nnic = gpu");
  g_auto (Case) test = { 0 };

  links_init (&test);
  test.costs->transfer_ns[ps_transfer_forward (test.costs, 4)] = 5000;
  for (guint channel = 0; channel < n_channels (); channel++) {
    links_run (&test, node, (PsChannel)channel);
    assert_transfer (&test, 0, 1, 0, 1000);
    assert_transfer (&test, 2, 1, 10000, 12500);
    assert_transfer (&test, 1, 3, 10000, 12500);
    assert_transfer (&test, 0, 5, 10000, 15000);
    links_run (&test, gpu, (PsChannel)channel);
    assert_transfer (&test, 2, 1, 10000, 11000);
    assert_transfer (&test, 1, 3, 10000, 11000);
  }
  /* All three alike: a third each until the end. */
  test.costs->transfer_ns[ps_transfer_forward (test.costs, 4)] = 1000;
  links_run (&test, node, PS_CHANNEL_LATENCY);
  assert_transfer (&test, 2, 1, 10000, 13000);
  /* Without known sizes nothing is shared. */
  memset (test.costs->message_bytes, 0, 13 * sizeof (gint64));
  links_run (&test, node, PS_CHANNEL_LATENCY);
  assert_transfer (&test, 2, 1, 10000, 11000);
}

/* Transfers take 200 ns of latency, which is nobody's bandwidth, and 800 ns at 1.25 bytes per ns, the whole port. The
 * message from stage 0 starts at 10300 here, when those from stages 2 and 4 have moved bytes for 100 ns at 0.625 each:
 * at 10500 it joins them, until then they have moved 187.5; at 5/12 the other 812.5 take 1950: 12450. Then 187.5 are
 * left of the late one, at the full rate: 150 more. */
static void test_latency (void)
{
  g_autoptr (PsCluster) node = load_cluster ("network_latency = 200ns\nnetwork_bandwidth = 1.25GB/s\nnic = node");
  g_auto (Case) test = { 0 };

  links_init (&test);
  g_autofree gint64 *durations = g_new0 (gint64, test.program->n_steps);
  durations[find_step (test.program, PS_OP_F, 0, 4)] = 8000;
  durations[find_step (test.program, PS_OP_F, 1, 0)] = 5000;
  durations[find_step (test.program, PS_OP_F, 1, 2)] = 4000;
  durations[find_step (test.program, PS_OP_F, 2, 0)] = 5300;
  case_run (&test, &(PsEventsSetting){ .links = node, .duration_ns = durations });
  assert_transfer (&test, 1, 3, 10000, 12450);
  assert_transfer (&test, 0, 5, 10000, 12450);
  assert_transfer (&test, 2, 1, 10300, 12600);
}

/* 1F1B with receives before their consumers, one channel per pair: device 1 wants to send B0.1 when device 0 wants
 * to send F1.0 or F2.0, and neither is received before. */
static void test_deadlock (void)
{
  g_auto (Case) test = { 0 };

  case_init (&test, "1f1b", 2, 3, "f=2ns,b=2ns,w=2ns,c=1ns", PS_COMM_DEFERRED);
  refused (ps_events_simulate (test.program, test.costs, &(PsEventsSetting){ .comm = PS_CHANNEL_PAIR }, test.simulation,
                               &error),
           PS_ERROR_SCHEDULE,
           "1f1b: deadlock: device 0 instruction 4 (RECEIVE B0.1 from device 1) after device 0 instruction 3 "
           "(SEND F1.0 to device 1) waits for device 1 instruction 5 (RECEIVE F1.0 from device 0) after device 1 "
           "instruction 4 (SEND B0.1 to device 0) waits for device 0 instruction 4 (RECEIVE B0.1 from device 1)");
}

/* GPipe, three devices, f = 2, c = 3, one stream per device, messages as they come. F0.0 [2 5]. F1.0 exists at 4 and
 * F2.0 at 6, but device 1's stream is busy: F1.0 [5 8]. F0.1 runs from 5 to 7. At 8 F2.0 is the older one: [8 11], then
 * F0.1 [11 14]. In program order SEND F0.1 stands before RECEIVE F1.0, [7 10], and that of F2.0. */
static void test_free_messages (void)
{
  g_auto (Case) test = { 0 };

  case_init (&test, "gpipe", 3, 3, "f=2ns,b=2ns,w=2ns,c=3ns", PS_COMM_ASAP);
  case_run (&test, &(PsEventsSetting){ .comm = PS_CHANNEL_RANK, .ready_order = 1 });
  assert_transfer (&test, 1, 1, 5, 8);
  assert_transfer (&test, 2, 1, 8, 11);
  assert_transfer (&test, 0, 2, 11, 14);
  case_run (&test, &(PsEventsSetting){ .comm = PS_CHANNEL_RANK });
  assert_transfer (&test, 0, 2, 7, 10);
  assert_transfer (&test, 1, 1, 10, 13);
}

/* Chimera, two devices: F0.0 on device 0 and F1.0 of the second copy on device 1 end at 2, and each goes to the other
 * device. Eager messages that come as they are hold their sender's end alone, so both leave at once; others share the
 * pair's channel. */
static void test_free_eager (void)
{
  g_auto (Case) test = { 0 };

  case_init (&test, "chimera", 2, 2, "f=2ns,b=2ns,w=2ns,c=3ns,msg=64B", PS_COMM_ASAP);
  case_run (&test, &(PsEventsSetting){ .comm = PS_CHANNEL_PAIR, .ready_order = 1, .eager_bytes = 64 });
  assert_transfer (&test, 0, 1, 2, 5);
  assert_transfer (&test, 1, 1, 2, 5);
  case_run (&test, &(PsEventsSetting){ .comm = PS_CHANNEL_PAIR, .ready_order = 1 });
  assert_transfer (&test, 0, 1, 5, 8);
  assert_transfer (&test, 1, 1, 2, 5);
}

/* The input of F0.1 takes 100 ns, that of F1.1 one. In order device 1 waits for the first; with ready_order 2 it runs
 * the second meanwhile. In 1F1B's order, F0 BW0 F1 BW1, the two forwards together need twice act: then only if the
 * limit is that high. */
static void test_ready_order (void)
{
  static const gint64 tight[] = { 16, 8 }, wide[] = { 16, 16 };
  g_auto (Case) test = { 0 };

  case_init (&test, "1f1b", 2, 2, "f=2ns,b=2ns,w=2ns,c=1ns,act=8B", PS_COMM_ASAP);
  g_autofree gint64 *transfers = g_new (gint64, test.program->n_steps);
  for (guint i = 0; i < test.program->n_steps; i++)
    transfers[i] = 1;
  transfers[find_step (test.program, PS_OP_F, 0, 1)] = 100;
  PsEventsSetting setting = { .ready_order = 1, .transfer_ns = transfers };
  case_run (&test, &setting);
  assert_op (&test, PS_OP_F, 0, 1, 102, 104);
  assert_op (&test, PS_OP_F, 1, 1, 108, 110);
  setting.ready_order = 3;
  case_run (&test, &setting);
  assert_op (&test, PS_OP_F, 1, 1, 5, 7);
  assert_op (&test, PS_OP_F, 0, 1, 102, 104);
  setting.memory_limit = tight;
  case_run (&test, &setting);
  assert_op (&test, PS_OP_F, 1, 1, 108, 110);
  setting.memory_limit = wide;
  case_run (&test, &setting);
  assert_op (&test, PS_OP_F, 1, 1, 5, 7);
}

static void assert_excluded (const Case *test, PsEventsSetting setting, const char *message)
{
  g_autoptr (GError) error = NULL;
  PsEvents *events = ps_events_new (test->program, test->costs, &setting, &error);

  g_assert_null (events);
  g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
  g_assert_nonnull (strstr (error->message, message));
}

static void test_settings (void)
{
  static const double speed[] = { 1, 0 };
  g_auto (Case) test = { 0 };

  case_init (&test, "gpipe", 2, 1, "f=2ns,b=2ns,w=2ns,c=1ns", PS_COMM_ASAP);
  assert_excluded (&test, (PsEventsSetting){ .blocking = TRUE, .ready_order = 2 }, "ready order");
  assert_excluded (&test, (PsEventsSetting){ .overlap_slowdown = 0.5 }, "from 1 to 8");
  assert_excluded (&test, (PsEventsSetting){ .overlap_waiting = TRUE, .ready_order = 2 }, "ready order");
  assert_excluded (&test, (PsEventsSetting){ .speed = speed }, "from 0.001 to 1000");
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/events/rendezvous", test_rendezvous);
  g_test_add_func ("/events/eager", test_eager);
  g_test_add_func ("/events/blocking", test_blocking);
  g_test_add_func ("/events/speed", test_speed);
  g_test_add_func ("/events/overlap", test_overlap);
  g_test_add_func ("/events/overlap-waiting", test_overlap_waiting);
  g_test_add_func ("/events/ready-time", test_ready_time);
  g_test_add_func ("/events/links", test_links);
  g_test_add_func ("/events/latency", test_latency);
  g_test_add_func ("/events/deadlock", test_deadlock);
  g_test_add_func ("/events/free-messages", test_free_messages);
  g_test_add_func ("/events/free-eager", test_free_eager);
  g_test_add_func ("/events/ready-order", test_ready_order);
  g_test_add_func ("/events/settings", test_settings);
  return run_in_folder ();
}
