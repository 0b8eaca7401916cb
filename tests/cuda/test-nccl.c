/* Tests of the nccl transport's own code over the emulated NCCL, several GPUs in one process. The module is the one in
 * PIPESIM_MODULE_DIR. */
#include "clock.h"
#include "error-rig.h"
#include "run/crew.h"
#include "run/transports.h"

#include <pipesim/base.h>

#include <string.h>

#define N_DEVICES 3
#define MAX_REPLICAS 2
#define MESSAGE_BYTES 96
#define PATIENCE_NS G_GINT64_CONSTANT (60000000000)

/* A device in host memory that counts its tensors. */
typedef struct {
  PsDevice base;
  gint live; /* atomic */
  gsize bytes;
} HostDevice;

static PsTensor *host_tensor_new (PsDevice *device)
{
  HostDevice *host = (HostDevice *)device;
  PsTensor *tensor = g_new0 (PsTensor, 1);

  tensor->device = device;
  tensor->bytes = host->bytes;
  tensor->data = host->bytes > 0 ? g_malloc0 (host->bytes) : NULL;
  g_atomic_int_inc (&host->live);
  return tensor;
}

static void host_tensor_free (PsTensor *tensor)
{
  g_atomic_int_add (&((HostDevice *)tensor->device)->live, -1);
  g_free (tensor->data);
  g_free (tensor);
}

static const PsDeviceClass host_class
    = { .name = "host", .tensor_new = host_tensor_new, .tensor_free = host_tensor_free };

static const PsTransportClass *nccl;

typedef struct Net Net;

/* One device's thread. */
typedef struct {
  Net *net;
  guint replica, index;
  HostDevice device;
  PsTransport *transport;
  GError *error;
} Player;

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
  Player player[MAX_REPLICAS * N_DEVICES];
  gboolean (*play) (Player *player, GError **error);
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

static gpointer player_main (gpointer data)
{
  Player *player = data;
  const PsTransportClass *class = player->transport->class;
  GError *error = NULL;

  if (!class->join (player->transport, player->index, &player->device.base, &error)
      || !player->net->play (player, &error))
    ps_crew_fail (player->net->crew, error);
  class->part (player->transport, player->index);
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

/* Plays to the end; the crew's failure, if there is one, goes to *error. All tensors must have been freed. */
static void run_net (guint n_replicas, gsize bytes, gint64 timeout_ns,
                     gboolean (*play) (Player *player, GError **error), GError **error)
{
  Net net = { .play = play };
  GThread *threads[MAX_REPLICAS * N_DEVICES];
  guint n = n_replicas * N_DEVICES;

  net_open (&net, n_replicas, bytes, timeout_ns);
  for (guint i = 0; i < n; i++) {
    net.player[i] = (Player){ .net = &net,
                              .replica = i / N_DEVICES,
                              .index = i % N_DEVICES,
                              .device = { .base.class = &host_class, .bytes = bytes },
                              .transport = net.transport[i / N_DEVICES] };
    threads[i] = g_thread_new ("player", player_main, &net.player[i]);
  }
  for (guint i = 0; i < n; i++)
    g_thread_join (threads[i]);
  ps_crew_on_failure (net.crew, NULL, NULL);
  for (guint i = 0; i < n_replicas; i++)
    net.transport[i]->class->close (net.transport[i]);
  for (guint i = 0; i < n; i++)
    g_assert_cmpint (g_atomic_int_get (&net.player[i].device.live), ==, 0);
  ps_crew_check (net.crew, error);
  ps_crew_free (net.crew);
}

static PsOp forward (guint microbatch, guint stage)
{
  return (PsOp){ .kind = PS_OP_F, .stage = (guint16)stage, .microbatch = microbatch };
}

static gboolean send_value (Player *player, guint to, PsOp op, int value, gint64 delay_ns, GError **error)
{
  PsTensor *tensor = host_tensor_new (&player->device.base);

  if (tensor->bytes > 0)
    memset (tensor->data, value, tensor->bytes);
  return player->transport->class->send (player->transport, player->index, to, op, tensor, delay_ns, error);
}

static gboolean announce (Player *player, guint from, PsOp op, GError **error)
{
  return player->transport->class->receive (player->transport, player->index, from, op, error);
}

static gboolean expect_value (Player *player, guint from, PsOp op, int value, PsTransferTimes *times, GError **error)
{
  PsTensor *tensor
      = player->transport->class->wait (player->transport, player->index, from, op, &player->device.base, times, error);

  if (tensor == NULL)
    return FALSE;
  g_assert_true (tensor->device == &player->device.base);
  for (gsize i = 0; i < tensor->bytes; i++)
    g_assert_cmpint (((const guint8 *)tensor->data)[i], ==, value);
  g_assert_cmpint (tensor->ready_ns, ==, times->end_ns);
  g_assert_cmpint (times->end_ns, <=, ps_clock_now ());
  host_tensor_free (tensor);
  return TRUE;
}

/* Ten messages down the devices, waited for backwards, in five steps. */
static gboolean pass_down (Player *player, GError **error)
{
  guint own = player->index;
  PsTransferTimes times;

  for (guint step = 0; step < 5; step++) {
    for (guint i = 0; i < 10; i++)
      if ((own > 0 && !announce (player, own - 1, forward (i, own - 1), error))
          || (own + 1 < N_DEVICES
              && !send_value (player, own + 1, forward (i, own), (int)(10 * own + i + step), 0, error)))
        return FALSE;
    for (guint i = 10; own > 0 && i-- > 0;)
      if (!expect_value (player, own - 1, forward (i, own - 1), (int)(10 * (own - 1) + i + step), &times, error))
        return FALSE;
    if (!player->transport->class->flush (player->transport, own, error))
      return FALSE;
  }
  return TRUE;
}

static void test_messages (void)
{
  g_autoptr (GError) error = NULL;

  run_net (1, MESSAGE_BYTES, PATIENCE_NS, pass_down, &error);
  g_assert_no_error (error);
}

/* Without data a message is not there before it is due. */
static gboolean pass_late (Player *player, GError **error)
{
  const gint64 delay_ns = 5000000;
  PsTransferTimes times;

  if (player->index == 0)
    return send_value (player, 2, forward (0, 0), 0, delay_ns, error)
           && player->transport->class->flush (player->transport, 0, error);
  if (player->index == 1)
    return TRUE;
  if (!announce (player, 0, forward (0, 0), error) || !expect_value (player, 0, forward (0, 0), 0, &times, error))
    return FALSE;
  g_assert_cmpint (times.end_ns, >=, player->net->begin_ns + delay_ns);
  return TRUE;
}

static void test_delay (void)
{
  g_autoptr (GError) error = NULL;

  run_net (1, 0, PATIENCE_NS, pass_late, &error);
  g_assert_no_error (error);
}

/* Device d of replica r gives d + 10 r + i / 2: the sum of both is 2 d + 10 + i. */
static gboolean add_up (Player *player, GError **error)
{
  float values[50];

  for (guint round = 0; round < 3; round++) {
    for (guint i = 0; i < 50; i++)
      values[i] = (float)player->index + 10 * (float)player->replica + (float)i / 2;
    if (!player->transport->class->sum (player->transport, player->index, PS_CIRCLE_WEIGHTS, PS_SUM_WHOLE, values, 50,
                                        error))
      return FALSE;
    for (guint i = 0; i < 50; i++)
      g_assert_cmpfloat (values[i], ==, (float)(2 * player->index + 10 + i));
  }
  return TRUE;
}

static void test_all_reduce (void)
{
  g_autoptr (GError) error = NULL;

  run_net (2, MESSAGE_BYTES, PATIENCE_NS, add_up, &error);
  g_assert_no_error (error);
}

/* Device 2 waits for what device 0 never sends; device 1 waits for device 2. */
static gboolean hang (Player *player, GError **error)
{
  PsTransferTimes times;

  if (player->index == 2)
    return announce (player, 0, forward (7, 3), error) && expect_value (player, 0, forward (7, 3), 0, &times, error);
  return ps_crew_meet (player->net->crew, player->index, &times.end_ns, error);
}

static void test_watchdog (void)
{
  g_autoptr (GError) error = NULL;

  run_net (1, MESSAGE_BYTES, G_GINT64_CONSTANT (300000000), hang, &error);
  assert_error (&error, PS_ERROR_IO, "device 2: RECEIVE F7.3 from device 0: not done after 0.3 s");
}

/* Device 0's first message is taken after its second one was posted, which is not. No thread waits for it. */
static gboolean leave_one (Player *player, GError **error)
{
  PsCrew *crew = player->net->crew;
  PsTransferTimes times;

  if (player->index == 0
      && (!send_value (player, 1, forward (0, 0), 1, 0, error) || !send_value (player, 1, forward (1, 0), 2, 0, error)))
    return FALSE;
  if (!ps_crew_meet (crew, player->index, &times.end_ns, error))
    return FALSE;
  if (player->index == 1
      && (!announce (player, 0, forward (0, 0), error) || !expect_value (player, 0, forward (0, 0), 1, &times, error)))
    return FALSE;
  for (guint i = 0; i < 5000 && ps_crew_check (crew, NULL); i++)
    g_usleep (1000);
  return ps_refuse (error, PS_ERROR_INPUT, "nobody has noticed");
}

static void test_untaken (void)
{
  g_autoptr (GError) error = NULL;

  run_net (1, MESSAGE_BYTES, G_GINT64_CONSTANT (300000000), leave_one, &error);
  assert_error (&error, PS_ERROR_IO, "device 0: SEND F1.0 to device 1: not done after 0.3 s");
}

/* NCCL needs longer than a spin for every post. */
static void test_slow_posts (void)
{
  g_autoptr (GError) error = NULL;

  g_setenv ("PS_EMULATED_POST_US", "3000", TRUE);
  run_net (1, 0, PATIENCE_NS, pass_late, &error);
  g_unsetenv ("PS_EMULATED_POST_US");
  g_assert_no_error (error);
}

/* The other ends live, but NCCL never takes a first message. */
static void test_stuck_post (void)
{
  g_autoptr (GError) error = NULL;

  g_setenv ("PS_EMULATED_STUCK_POSTS", "1", TRUE);
  run_net (1, MESSAGE_BYTES, G_GINT64_CONSTANT (300000000), pass_down, &error);
  g_unsetenv ("PS_EMULATED_STUCK_POSTS");
  assert_error (&error, PS_ERROR_IO, "*: not ready after 0.3 s");
}

/* Device 1 gives up while others wait for it and messages are under way: everybody ends, with its words. */
static gboolean give_up (Player *player, GError **error)
{
  PsTransferTimes times;

  if (player->index == 1) {
    g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "device 1: on strike");
    return FALSE;
  }
  if (player->index == 0)
    return send_value (player, 1, forward (0, 0), 1, 0, error)
           && player->transport->class->flush (player->transport, 0, error);
  return announce (player, 1, forward (0, 1), error) && expect_value (player, 1, forward (0, 1), 0, &times, error);
}

static void test_abort (void)
{
  for (guint i = 0; i < 10; i++) {
    g_autoptr (GError) error = NULL;

    run_net (1, MESSAGE_BYTES, PATIENCE_NS, give_up, &error);
    assert_error (&error, PS_ERROR_UNAVAILABLE, "device 1: on strike");
  }
}

static gboolean wait_unannounced (Player *player, GError **error)
{
  PsTransferTimes times;

  return player->index != 1 || expect_value (player, 0, forward (4, 0), 0, &times, error);
}

static void test_no_receive (void)
{
  g_autoptr (GError) error = NULL;

  run_net (1, MESSAGE_BYTES, PATIENCE_NS, wait_unannounced, &error);
  assert_error (&error, PS_ERROR_SCHEDULE, "device 1: waits for F4.0 from device 0 without a receive");
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
  g_test_add_func ("/nccl/messages", test_messages);
  g_test_add_func ("/nccl/delay", test_delay);
  g_test_add_func ("/nccl/all-reduce", test_all_reduce);
  g_test_add_func ("/nccl/watchdog", test_watchdog);
  g_test_add_func ("/nccl/untaken", test_untaken);
  g_test_add_func ("/nccl/slow-posts", test_slow_posts);
  g_test_add_func ("/nccl/stuck-post", test_stuck_post);
  g_test_add_func ("/nccl/abort", test_abort);
  g_test_add_func ("/nccl/no-receive", test_no_receive);
  g_test_add_func ("/nccl/shared-gpu", test_shared_gpu);
  g_test_add_func ("/nccl/self-send", test_self_send);
  g_test_add_func ("/nccl/no-gpu", test_no_gpu);
  g_test_add_func ("/nccl/channels", test_channels);
  return g_test_run ();
}
