/* Tests of the nccl transport's own code over the emulated NCCL, several GPUs in one process. The module is the one in
 * PIPESIM_MODULE_DIR. */
#include "clock.h"
#include "exec/host-rig.h"
#include "run/crew.h"
#include "run/transports.h"

#include <pipesim/base.h>

#include <string.h>

#define N_DEVICES 3
#define MAX_REPLICAS 2
#define MESSAGE_BYTES 96
#define PATIENCE_NS G_GINT64_CONSTANT (60000000000)
#define SHORT_NS G_GINT64_CONSTANT (300000000)

static const PsTransportClass *nccl;

typedef struct Net Net;

/* One device's thread. */
typedef struct {
  Net *net;
  guint replica, index;
  HostDevice device;
  PsTransport *transport;
  GError *error;
} Rank;

/* What a replica's transport reaches the others by. */
typedef struct {
  Net *net;
  guint replica;
} Line;

/* Copies of N_DEVICES devices, each copy with a transport of its own, as if in a process of its own. */
struct Net {
  guint n_replicas;
  gint64 begin_ns; /* before any device has begun */
  PsCrew *crew;
  Line line[MAX_REPLICAS];
  PsTransportGroup group[MAX_REPLICAS];
  PsTransport *transport[MAX_REPLICAS];
  Rank rank[MAX_REPLICAS * N_DEVICES];
  gboolean (*run) (Rank *rank, GError **error);
};

static gboolean exchange (gpointer data, guint device, gconstpointer mine, gsize n_bytes, gpointer all, GError **error)
{
  const Line *line = data;

  return ps_crew_exchange (line->net->crew, line->replica * N_DEVICES + device, mine, n_bytes, all, error);
}

static void fail (gpointer data, GError *error)
{
  ps_crew_fail (((Line *)data)->net->crew, error);
}

static void abort_all (gpointer data)
{
  Net *net = data;

  for (guint i = 0; i < net->n_replicas; i++)
    net->transport[i]->class->abort (net->transport[i]);
}

static gpointer rank_main (gpointer data)
{
  Rank *rank = data;
  const PsTransportClass *class = rank->transport->class;
  GError *error = NULL;

  if (!class->join (rank->transport, rank->index, &rank->device.base, &error) || !rank->net->run (rank, &error))
    ps_crew_fail (rank->net->crew, error);
  class->part (rank->transport, rank->index);
  return NULL;
}

static void net_open (Net *net, guint n_replicas, gsize bytes, gint64 timeout_ns)
{
  static const guint8 uses[N_DEVICES * N_DEVICES] = { 0, 1, 1, 1, 0, 1, 0, 1, 0 }; /* all but 2 to 0 */

  net->n_replicas = n_replicas;
  net->begin_ns = ps_clock_now ();
  net->crew = ps_crew_new (n_replicas * N_DEVICES, NULL, 0);
  for (guint i = 0; i < n_replicas; i++) {
    PsTransportSetting setting = { .n_devices = N_DEVICES,
                                   .message_bytes = bytes,

                                   .timeout_ns = timeout_ns,
                                   .n_here = N_DEVICES,
                                   .local = i * N_DEVICES,
                                   .pipeline = i,
                                   .n_replicas = n_replicas,
                                   .uses = uses,
                                   .group = &net->group[i] };

    net->line[i] = (Line){ .net = net, .replica = i };
    net->group[i] = (PsTransportGroup){ .data = &net->line[i], .exchange = exchange, .fail = fail };
    net->transport[i] = fine (nccl->open (&setting, &error));
  }
  ps_crew_on_failure (net->crew, abort_all, net);
}

/* Runs to the end; the crew's failure, if there is one, goes to *error. All tensors must have been freed. */
static void run_net (guint n_replicas, gsize bytes, gint64 timeout_ns, gboolean (*run) (Rank *rank, GError **error),
                     GError **error)
{
  Net net = { .run = run };
  GThread *threads[MAX_REPLICAS * N_DEVICES];
  guint n = n_replicas * N_DEVICES;

  net_open (&net, n_replicas, bytes, timeout_ns);
  for (guint i = 0; i < n; i++) {
    net.rank[i] = (Rank){ .net = &net,
                          .replica = i / N_DEVICES,
                          .index = i % N_DEVICES,
                          .device = { .base.class = &host_class, .bytes = bytes },
                          .transport = net.transport[i / N_DEVICES] };
    threads[i] = g_thread_new ("rank", rank_main, &net.rank[i]);
  }
  for (guint i = 0; i < n; i++)
    g_thread_join (threads[i]);
  ps_crew_on_failure (net.crew, NULL, NULL);
  for (guint i = 0; i < n_replicas; i++)
    net.transport[i]->class->close (net.transport[i]);
  for (guint i = 0; i < n; i++)
    g_assert_cmpint (g_atomic_int_get (&net.rank[i].device.live), ==, 0);
  ps_crew_check (net.crew, error);
  ps_crew_free (net.crew);
}

static PsOp forward (guint microbatch, guint stage)
{
  return (PsOp){ .kind = PS_OP_F, .stage = (guint16)stage, .microbatch = microbatch };
}

static gboolean send_value (Rank *rank, guint to, PsOp op, int value, gint64 delay_ns, GError **error)
{
  PsTensor *tensor = host_tensor_new (&rank->device.base);

  if (tensor->bytes > 0)
    memset (tensor->data, value, tensor->bytes);
  return rank->transport->class->send (rank->transport, rank->index, to, op, tensor, delay_ns, error);
}

static gboolean announce (Rank *rank, guint from, PsOp op, GError **error)
{
  return rank->transport->class->receive (rank->transport, rank->index, from, op, error);
}

static gboolean expect_value (Rank *rank, guint from, PsOp op, int value, PsTransferTimes *times, GError **error)
{
  PsTensor *tensor
      = rank->transport->class->wait (rank->transport, rank->index, from, op, &rank->device.base, times, error);

  if (tensor == NULL)
    return FALSE;
  g_assert_true (tensor->device == &rank->device.base);
  for (gsize i = 0; i < tensor->bytes; i++)
    g_assert_cmpint (((const guint8 *)tensor->data)[i], ==, value);
  g_assert_cmpint (tensor->ready_ns, ==, times->end_ns);
  g_assert_cmpint (times->end_ns, <=, ps_clock_now ());
  host_tensor_free (tensor);
  return TRUE;
}

/* Ten messages down the devices, waited for backwards, in five steps. */
static gboolean pass_down (Rank *rank, GError **error)
{
  guint own = rank->index;
  PsTransferTimes times;

  for (guint step = 0; step < 5; step++) {
    for (guint i = 0; i < 10; i++)
      if ((own > 0 && !announce (rank, own - 1, forward (i, own - 1), error))
          || (own + 1 < N_DEVICES
              && !send_value (rank, own + 1, forward (i, own), (int)(10 * own + i + step), 0, error)))
        return FALSE;
    for (guint i = 10; own > 0 && i-- > 0;)
      if (!expect_value (rank, own - 1, forward (i, own - 1), (int)(10 * (own - 1) + i + step), &times, error))
        return FALSE;
    if (!rank->transport->class->flush (rank->transport, own, error))
      return FALSE;
  }
  return TRUE;
}

/* Without data a message is not there before it is due. */
static gboolean pass_late (Rank *rank, GError **error)
{
  const gint64 delay_ns = 5000000;
  PsTransferTimes times;

  if (rank->index == 0)
    return send_value (rank, 2, forward (0, 0), 0, delay_ns, error)
           && rank->transport->class->flush (rank->transport, 0, error);
  if (rank->index == 1)
    return TRUE;
  if (!announce (rank, 0, forward (0, 0), error) || !expect_value (rank, 0, forward (0, 0), 0, &times, error))
    return FALSE;
  g_assert_cmpint (times.end_ns, >=, rank->net->begin_ns + delay_ns);
  return TRUE;
}

/* Device d of replica r gives d + 10 r + i / 2: the sum of both is 2 d + 10 + i. */
static gboolean add_up (Rank *rank, GError **error)
{
  float values[50];

  for (guint round = 0; round < 3; round++) {
    for (guint i = 0; i < 50; i++)
      values[i] = (float)rank->index + 10 * (float)rank->replica + (float)i / 2;
    if (!rank->transport->class->sum (rank->transport, rank->index, PS_CIRCLE_WEIGHTS, PS_SUM_WHOLE, values, 50, error))
      return FALSE;
    for (guint i = 0; i < 50; i++)
      g_assert_cmpfloat (values[i], ==, (float)(2 * rank->index + 10 + i));
  }
  return TRUE;
}

/* Device 2 waits for what device 0 never sends; device 1 waits for device 2. */
static gboolean hang (Rank *rank, GError **error)
{
  PsTransferTimes times;

  if (rank->index == 2)
    return announce (rank, 0, forward (7, 3), error) && expect_value (rank, 0, forward (7, 3), 0, &times, error);
  return ps_crew_meet (rank->net->crew, rank->index, &times.end_ns, error);
}

/* Device 0's first message is taken after its second one was posted, which is not. No thread waits for it. */
static gboolean leave_one (Rank *rank, GError **error)
{
  PsCrew *crew = rank->net->crew;
  PsTransferTimes times;

  if (rank->index == 0
      && (!send_value (rank, 1, forward (0, 0), 1, 0, error) || !send_value (rank, 1, forward (1, 0), 2, 0, error)))
    return FALSE;
  if (!ps_crew_meet (crew, rank->index, &times.end_ns, error))
    return FALSE;
  if (rank->index == 1
      && (!announce (rank, 0, forward (0, 0), error) || !expect_value (rank, 0, forward (0, 0), 1, &times, error)))
    return FALSE;
  for (guint i = 0; i < 5000 && ps_crew_check (crew, NULL); i++)
    g_usleep (1000);
  return ps_refuse (error, PS_ERROR_INPUT, "nobody has noticed");
}

/* Device 1 gives up while others wait for it and messages are under way: everybody ends, with its words. */
static gboolean give_up (Rank *rank, GError **error)
{
  PsTransferTimes times;

  if (rank->index == 1) {
    g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "device 1: on strike");
    return FALSE;
  }
  if (rank->index == 0)
    return send_value (rank, 1, forward (0, 0), 1, 0, error)
           && rank->transport->class->flush (rank->transport, 0, error);
  return announce (rank, 1, forward (0, 1), error) && expect_value (rank, 1, forward (0, 1), 0, &times, error);
}

static gboolean wait_unannounced (Rank *rank, GError **error)
{
  PsTransferTimes times;

  return rank->index != 1 || expect_value (rank, 0, forward (4, 0), 0, &times, error);
}

/* What all ranks run, and the error that it ends with; code 0: none. Variables of the emulation: NCCL needs longer than
 * a spin for every post, or never takes a first message. */
static const struct {
  const char *name, *variable;
  guint n_replicas;
  gsize bytes;
  gint64 timeout_ns;
  gboolean (*run) (Rank *rank, GError **error);
  int code;
  const char *message;
} cases[] = {
  { "messages", NULL, 1, MESSAGE_BYTES, PATIENCE_NS, pass_down, 0, NULL },
  { "delay", NULL, 1, 0, PATIENCE_NS, pass_late, 0, NULL },
  { "all-reduce", NULL, 2, MESSAGE_BYTES, PATIENCE_NS, add_up, 0, NULL },
  { "watchdog", NULL, 1, MESSAGE_BYTES, SHORT_NS, hang, PS_ERROR_IO,
    "device 2: RECEIVE F7.3 from device 0: not done after 0.3 s" },
  { "untaken", NULL, 1, MESSAGE_BYTES, SHORT_NS, leave_one, PS_ERROR_IO,
    "device 0: SEND F1.0 to device 1: not done after 0.3 s" },
  { "slow-posts", "PS_EMULATED_POST_US", 1, 0, PATIENCE_NS, pass_late, 0, NULL },
  { "stuck-post", "PS_EMULATED_STUCK_POSTS", 1, MESSAGE_BYTES, SHORT_NS, pass_down, PS_ERROR_IO,
    "*: not ready after 0.3 s" },
  { "abort", NULL, 1, MESSAGE_BYTES, PATIENCE_NS, give_up, PS_ERROR_UNAVAILABLE, "device 1: on strike" },
  { "no-receive", NULL, 1, MESSAGE_BYTES, PATIENCE_NS, wait_unannounced, PS_ERROR_SCHEDULE,
    "device 1: waits for F4.0 from device 0 without a receive" },
};

static void test_case (gconstpointer data)
{
  const guint i = GPOINTER_TO_UINT (data);

  if (cases[i].variable != NULL)
    g_setenv (cases[i].variable, "3000", TRUE);
  for (guint k = 0; k < (cases[i].run == give_up ? 10 : 1); k++) {
    g_autoptr (GError) error = NULL;

    run_net (cases[i].n_replicas, cases[i].bytes, cases[i].timeout_ns, cases[i].run, &error);
    if (cases[i].code == 0)
      g_assert_no_error (error);
    else
      assert_error (&error, (PsError)cases[i].code, cases[i].message);
  }
  if (cases[i].variable != NULL)
    g_unsetenv (cases[i].variable);
}

/* Two GPUs for three devices. */
static void test_shared_gpu (void)
{
  g_autoptr (GError) error = NULL;

  g_setenv ("PS_EMULATED_GPUS", "2", TRUE);
  run_net (1, MESSAGE_BYTES, PATIENCE_NS, pass_down, &error);
  g_setenv ("PS_EMULATED_GPUS", "6", TRUE);
  g_assert_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE);
  g_assert_true (g_str_has_suffix (error->message, "NCCL needs a GPU for each"));
  g_assert_nonnull (strstr (error->message, "shares GPU 0000:00:00.0 with device "));
}

static void test_self_send (void)
{
  HostDevice device = { .base.class = &host_class };
  gint64 samples[5] = { 0 };

  g_test_expect_message (G_LOG_DOMAIN, G_LOG_LEVEL_INFO, "nccl: posting a message of 1000 B holds the host for *");
  fine (nccl->self_send (&device.base, 1000, 5, samples, &error));
  g_test_assert_expected_messages ();
  for (guint i = 0; i < 5; i++)
    g_assert_cmpint (samples[i], >, 0);
}

static void test_no_gpu (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (nccl->available (NULL));
  g_setenv ("PS_EMULATED_GPUS", "0", TRUE);
  g_assert_false (nccl->available (&error));
  g_setenv ("PS_EMULATED_GPUS", "6", TRUE);
  assert_error (&error, PS_ERROR_UNAVAILABLE, "nccl transport: no CUDA-capable device is detected");
}

/* What a receive occupies while it waits is bounded, but not against the user's will; and said. */
static void test_channels (void)
{
  g_autofree char *ours = NULL, *theirs = NULL;

  g_unsetenv ("NCCL_MAX_P2P_NCHANNELS");
  ours = ps_transport_find ("nccl", NULL)->libraries ();
  g_assert_nonnull (strstr (ours, ", NCCL_MAX_P2P_NCHANNELS=4"));
  g_setenv ("NCCL_MAX_P2P_NCHANNELS", "16", TRUE);
  theirs = ps_transport_find ("nccl", NULL)->libraries ();
  g_assert_nonnull (strstr (theirs, ", NCCL_MAX_P2P_NCHANNELS=16"));
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_setenv ("PS_EMULATED_GPUS", "6", TRUE);
  nccl = ps_transport_find ("nccl", NULL);
  g_assert_nonnull (nccl);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *path = g_strconcat ("/nccl/", cases[i].name, NULL);

    g_test_add_data_func (path, GUINT_TO_POINTER (i), test_case);
  }
  g_test_add_func ("/nccl/shared-gpu", test_shared_gpu);
  g_test_add_func ("/nccl/self-send", test_self_send);
  g_test_add_func ("/nccl/no-gpu", test_no_gpu);
  g_test_add_func ("/nccl/channels", test_channels);
  return g_test_run ();
}
