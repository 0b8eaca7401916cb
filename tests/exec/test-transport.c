/* Tests of transport: the table, and the transports that carry host memory, within one process. */
#include "clock.h"
#include "error-rig.h"
#include "run/transports.h"

#include <string.h>

/* What the tests are run with. */
typedef struct {
  const char *name, *class;
  gsize message_bytes;
  const char *late, *untaken; /* the ends of errors about device 1; NULL: what is not taken leaves all the same */
} Variant;

/* MPI sends short messages in another way than long ones. */
static const Variant variants[] = {
  { "transport/threads-", "threads", 64, "device 1", "its messages to be taken" },
  { "transport-mpi/short-", "mpi", 64, "device 1 of rank 0", NULL },
  { "transport-mpi/long-", "mpi", 9000, "device 1 of rank 0", "device 1 of rank 0 to take F0.0" },
};

/* A device that only counts its tensors. */
typedef struct {
  PsDevice base;
  gint live;
  gsize bytes;
} CountingDevice;

static PsTensor *counting_tensor_new (PsDevice *device)
{
  CountingDevice *counting = (CountingDevice *)device;
  PsTensor *tensor = g_new0 (PsTensor, 1);

  tensor->device = device;
  tensor->bytes = counting->bytes;
  tensor->data = g_malloc0 (counting->bytes);
  counting->live++;
  return tensor;
}

static void counting_tensor_free (PsTensor *tensor)
{
  ((CountingDevice *)tensor->device)->live--;
  g_free (tensor->data);
  g_free (tensor);
}

static const PsDeviceClass counting_class
    = { .name = "counting", .tensor_new = counting_tensor_new, .tensor_free = counting_tensor_free };

/* n_devices <= 3 of them and a transport between them. */
typedef struct {
  CountingDevice device[3];
  PsTransport *transport;
} Net;

static void net_open (Net *net, gconstpointer variant, gint64 timeout_ns)
{
  const Variant *with = variant;
  PsTransportSetting setting = {
    .n_devices = 3, .message_bytes = with->message_bytes, .timeout_ns = timeout_ns, .n_here = 3, .n_replicas = 1
  };
  g_autoptr (GError) error = NULL;

  net->transport = fine (ps_transport_find (with->class, NULL)->open (&setting, &error));
  for (guint i = 0; i < 3; i++) {
    net->device[i] = (CountingDevice){ .base.class = &counting_class, .bytes = with->message_bytes };
    if (net->transport->class->join != NULL)
      net->transport->class->join (net->transport, i, &net->device[i].base, &error);
    g_assert_no_error (error);
  }
}

/* Every tensor must have been freed. */
static void net_close (Net *net)
{
  net->transport->class->close (net->transport);
  for (guint i = 0; i < 3; i++)
    g_assert_cmpint (net->device[i].live, ==, 0);
}

static PsOp forward (guint microbatch, guint stage)
{
  return (PsOp){ .kind = PS_OP_F, .stage = (guint16)stage, .microbatch = microbatch };
}

static void send_value (Net *net, guint from, guint to, PsOp op, int value, gint64 delay_ns)
{
  PsTensor *tensor = counting_tensor_new (&net->device[from].base);

  memset (tensor->data, value, tensor->bytes);
  gboolean sent = fine (net->transport->class->send (net->transport, from, to, op, tensor, delay_ns, &error));
  g_assert_true (sent);
}

static void announce (Net *net, guint at, guint from, PsOp op)
{
  g_assert_true (net->transport->class->receive (net->transport, at, from, op, NULL));
}

static PsTransferTimes expect_value (Net *net, guint at, guint from, PsOp op, int value)
{
  PsTransferTimes times = { 0 };
  PsTensor *tensor
      = fine (net->transport->class->wait (net->transport, at, from, op, &net->device[at].base, &times, &error));

  g_assert_nonnull (tensor);
  g_assert_true (tensor->device == &net->device[at].base);
  for (gsize i = 0; i < tensor->bytes; i++)
    g_assert_cmpint (((const guint8 *)tensor->data)[i], ==, value);
  g_assert_cmpint (times.end_ns, >=, tensor->ready_ns);
  counting_tensor_free (tensor);
  return times;
}

static void test_table (void)
{
  guint n = 0;
  const PsTransportClass *const *table = ps_transport_table (&n);

  g_assert_cmpuint (n, >=, 1);
  g_assert_true (ps_transport_find (table[0]->name, NULL) == table[0]);
  refused (ps_transport_find ("pigeon", &error), PS_ERROR_USAGE,
           "--transport: 'pigeon' is no transport; there are threads, mpi, nccl");
}

static void test_order (gconstpointer variant)
{
  Net net;

  net_open (&net, variant, 0);
  for (guint i = 0; i < 10; i++) {
    send_value (&net, 0, 1, forward (i, 0), (int)i, 0);
    announce (&net, 1, 0, forward (i, 0));
  }
  for (guint i = 0; i < 10; i++)
    expect_value (&net, 1, 0, forward (i, 0), (int)i);
  net_close (&net);
}

/* Announced before and after the send, from two senders, waited for backwards. */
static void test_out_of_order (gconstpointer variant)
{
  Net net;

  net_open (&net, variant, 0);
  for (guint i = 0; i < 8; i += 2)
    announce (&net, 2, 0, forward (i, 0));
  for (guint i = 0; i < 8; i++) {
    send_value (&net, 0, 2, forward (i, 0), (int)i, 0);
    send_value (&net, 1, 2, forward (i, 0), 100 + (int)i, 0);
    announce (&net, 2, 1, forward (i, 0));
  }
  for (guint i = 1; i < 8; i += 2)
    announce (&net, 2, 0, forward (i, 0));
  for (guint i = 8; i-- > 0;) {
    expect_value (&net, 2, 0, forward (i, 0), (int)i);
    expect_value (&net, 2, 1, forward (i, 0), 100 + (int)i);
  }
  g_assert_true (net.transport->class->flush (net.transport, 0, NULL));
  g_assert_true (net.transport->class->flush (net.transport, 1, NULL));
  net_close (&net);
}

/* Kind, stage, microbatch and slice all belong to the name; B and BW are one. */
static void test_names (gconstpointer variant)
{
  const PsOp op[] = { { .kind = PS_OP_F, .stage = 1, .microbatch = 2, .slice = 3 },
                      { .kind = PS_OP_B, .stage = 1, .microbatch = 2, .slice = 3 },
                      { .kind = PS_OP_F, .stage = 2, .microbatch = 2, .slice = 3 },
                      { .kind = PS_OP_F, .stage = 1, .microbatch = 1, .slice = 3 },
                      { .kind = PS_OP_F, .stage = 1, .microbatch = 2, .slice = 0 } };
  const PsOp fused = { .kind = PS_OP_BW, .stage = 7, .microbatch = 1 },
             gradient = { .kind = PS_OP_B, .stage = 7, .microbatch = 1 };
  Net net;

  net_open (&net, variant, 0);
  send_value (&net, 0, 1, fused, 99, 0);
  for (guint i = 0; i < G_N_ELEMENTS (op); i++) {
    send_value (&net, 0, 1, op[i], (int)i, 0);
    announce (&net, 1, 0, op[i]);
  }
  for (guint i = G_N_ELEMENTS (op); i-- > 0;)
    expect_value (&net, 1, 0, op[i], (int)i);
  announce (&net, 1, 0, gradient);
  expect_value (&net, 1, 0, gradient, 99);
  net_close (&net);
}

/* The same name in two steps: first sent, first received. */
static void test_repeated_name (gconstpointer variant)
{
  Net net;

  net_open (&net, variant, 0);
  for (int i = 0; i < 3; i++) {
    send_value (&net, 0, 1, forward (0, 0), i, 0);
    announce (&net, 1, 0, forward (0, 0));
  }
  for (int i = 0; i < 3; i++)
    expect_value (&net, 1, 0, forward (0, 0), i);
  net_close (&net);
}

/* Nobody receives 20 sends: all keep the sender's tensor. Each taken one goes home and is freed with the sender's next
 * call. */
static void test_many_sends (gconstpointer variant)
{
  Net net;

  net_open (&net, variant, 0);
  for (guint i = 0; i < 20; i++)
    send_value (&net, 0, 1, forward (i, 0), (int)i, 0);
  for (guint i = 0; i < 20; i++)
    announce (&net, 1, 0, forward (i, 0));
  for (guint i = 0; i < 6; i++)
    expect_value (&net, 1, 0, forward (i, 0), (int)i);
  g_assert_cmpint (net.device[0].live, ==, 20);
  send_value (&net, 0, 1, forward (20, 0), 20, 0);
  g_assert_cmpint (net.device[0].live, ==, 15);
  announce (&net, 1, 0, forward (20, 0));
  for (guint i = 6; i < 21; i++)
    expect_value (&net, 1, 0, forward (i, 0), (int)i);
  g_assert_true (net.transport->class->flush (net.transport, 0, NULL));
  g_assert_cmpint (net.device[0].live, ==, 0);
  net_close (&net);
}

/* Messages nobody took go with the transport. */
static void test_close_with_messages (gconstpointer variant)
{
  Net net;

  net_open (&net, variant, 0);
  for (guint i = 0; i < 5; i++)
    send_value (&net, 0, 1, forward (i, 0), 1, 0);
  announce (&net, 1, 0, forward (0, 0));
  net_close (&net);
}

static void test_timeout (gconstpointer variant)
{
  Net net;
  PsTransferTimes times;
  g_autoptr (GError) error = NULL, flush_error = NULL;
  const Variant *v = variant;

  net_open (&net, variant, 20000000);
  announce (&net, 2, 1, forward (3, 1));
  g_assert_null (net.transport->class->wait (net.transport, 2, 1, forward (3, 1), &net.device[2].base, &times, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_IO);
  g_assert_true (g_str_has_prefix (error->message, "device 2: waited 0.02 s for F3.1 from "));
  g_assert_cmpstr (strstr (error->message, "device 1"), ==, v->late);
  send_value (&net, 0, 1, forward (0, 0), 1, 0);
  g_assert_cmpint (net.transport->class->flush (net.transport, 0, &flush_error), ==, v->untaken == NULL);
  if (v->untaken != NULL) {
    g_assert_error (flush_error, PS_ERROR, PS_ERROR_IO);
    g_assert_cmpstr (strstr (flush_error->message, " for ") + strlen (" for "), ==, v->untaken);
  }
  net_close (&net);
}

static void test_wait_without_receive (gconstpointer variant)
{
  Net net;
  PsTransferTimes times;

  net_open (&net, variant, 0);
  send_value (&net, 0, 1, forward (0, 0), 1, 0);
  refused (net.transport->class->wait (net.transport, 1, 0, forward (0, 0), &net.device[1].base, &times, &error),
           PS_ERROR_SCHEDULE, "device 1: waits for F0.0 from device 0 without a receive");
  net_close (&net);
}

/* Lower bounds only: 15 ms for a receiver that waits, and for one that comes late the time when the message could be
 * used. */
static void test_delay (gconstpointer variant)
{
  const gint64 delay_ns = 15000000;
  Net net;

  net_open (&net, variant, 0);
  send_value (&net, 0, 1, forward (0, 0), 1, delay_ns);
  announce (&net, 1, 0, forward (0, 0));
  PsTransferTimes times = expect_value (&net, 1, 0, forward (0, 0), 1);
  g_assert_cmpint (times.end_ns - times.start_ns, >=, delay_ns);
  g_assert_cmpint (ps_clock_now (), >=, times.start_ns + delay_ns);

  send_value (&net, 0, 1, forward (1, 0), 2, delay_ns);
  announce (&net, 1, 0, forward (1, 0));
  ps_clock_sleep_until (ps_clock_now () + 2 * delay_ns);
  times = expect_value (&net, 1, 0, forward (1, 0), 2);
  g_assert_cmpint (times.end_ns - times.start_ns, >=, delay_ns);
  if (net.transport->class == &ps_threads_transport) /* only there nobody has to notice that it has come */
    g_assert_cmpint (times.end_ns, <=, ps_clock_now () - delay_ns);

  /* The receiver copies a thread's message, and the copy is the transfer even if the receiver comes late. */
  send_value (&net, 0, 1, forward (2, 0), 3, 0);
  announce (&net, 1, 0, forward (2, 0));
  gint64 called_ns = ps_clock_now ();
  times = expect_value (&net, 1, 0, forward (2, 0), 3);
  if (net.transport->class == &ps_threads_transport && net.device[0].bytes > 0)
    g_assert_true (times.start_ns >= called_ns && times.end_ns > times.start_ns);
  net_close (&net);
}

static gpointer wait_for_ever (gpointer data)
{
  Net *net = data;
  PsTransferTimes times;
  GError *error = NULL;

  g_assert_null (
      net->transport->class->wait (net->transport, 1, 0, forward (0, 0), &net->device[1].base, &times, &error));
  return error;
}

static gpointer wait_for_delay (gpointer data)
{
  Net *net = data;
  PsTransferTimes times;
  GError *error = NULL;

  g_assert_null (
      net->transport->class->wait (net->transport, 2, 0, forward (0, 0), &net->device[2].base, &times, &error));
  return error;
}

static void assert_aborted (GError *error)
{
  g_assert_error (error, PS_ERROR, PS_ERROR_IO);
  g_assert_cmpstr (error->message, ==, "run aborted");
  g_error_free (error);
}

/* Wakes one that waits for a message and one that sleeps through an hour's delay; every later call fails. */
static void test_abort (gconstpointer variant)
{
  Net net;
  GThread *waiter, *sleeper;
  PsTransferTimes times;
  GError *error[3] = { NULL };

  net_open (&net, variant, 0);
  announce (&net, 1, 0, forward (0, 0));
  announce (&net, 2, 0, forward (0, 0));
  send_value (&net, 0, 2, forward (0, 0), 1, G_GINT64_CONSTANT (3600000000000));
  waiter = g_thread_new ("waiter", wait_for_ever, &net);
  sleeper = g_thread_new ("sleeper", wait_for_delay, &net);
  g_usleep (10000);
  net.transport->class->abort (net.transport);
  assert_aborted (g_thread_join (waiter));
  assert_aborted (g_thread_join (sleeper));

  g_assert_false (net.transport->class->send (net.transport, 0, 1, forward (0, 0),
                                              counting_tensor_new (&net.device[0].base), 0, &error[0]));
  assert_aborted (error[0]);
  g_assert_false (net.transport->class->receive (net.transport, 1, 0, forward (1, 0), &error[1]));
  assert_aborted (error[1]);
  g_assert_null (
      net.transport->class->wait (net.transport, 1, 0, forward (1, 0), &net.device[1].base, &times, &error[2]));
  assert_aborted (error[2]);
  error[0] = NULL;
  g_assert_false (net.transport->class->flush (net.transport, 0, &error[0]));
  assert_aborted (error[0]);
  net_close (&net);
}

typedef struct {
  Net *net;
  guint self;
  guint other;
} Traffic;

#define N_TRAFFIC 2000

/* Sends in bursts of 7 and receives each burst backwards, so that order varies. */
static gpointer exchange (gpointer data)
{
  const Traffic *traffic = data;
  Net *net = traffic->net;

  for (guint first = 0; first < N_TRAFFIC; first += 7) {
    guint n = MIN (7, N_TRAFFIC - first);

    for (guint i = 0; i < n; i++) {
      announce (net, traffic->self, traffic->other, forward (first + i, traffic->other));
      send_value (net, traffic->self, traffic->other, forward (first + i, traffic->self),
                  (int)((first + i + traffic->self) % 251), 0);
    }
    for (guint i = n; i-- > 0;)
      expect_value (net, traffic->self, traffic->other, forward (first + i, traffic->other),
                    (int)((first + i + traffic->other) % 251));
  }
  g_assert_true (net->transport->class->flush (net->transport, traffic->self, NULL));
  return NULL;
}

static void test_two_way (gconstpointer variant)
{
  Net net;
  Traffic there = { &net, 0, 1 }, back = { &net, 1, 0 };

  net_open (&net, variant, 0);
  GThread *thread = g_thread_new ("there", exchange, &there);
  exchange (&back);
  g_thread_join (thread);
  net_close (&net);
}

/* Names make the tags of MPI, of which there are 2^31 at most: 9 pairs of devices x 256 stages x 8 slices x 6 kinds
 * leave less than 20,000 microbatches. */
static void test_tags (gconstpointer variant)
{
  Net net;

  net_open (&net, variant, 0);
  refused (net.transport->class->receive (net.transport, 1, 0, forward (20000, 0), &error), PS_ERROR_UNAVAILABLE,
           "mpi transport: too many messages: MPI has tags up to *");
  refused (net.transport->class->send (net.transport, 0, 1, forward (20000, 0),
                                       counting_tensor_new (&net.device[0].base), 0, &error),
           PS_ERROR_UNAVAILABLE, "mpi transport: too many messages: MPI has tags up to *");
  net_close (&net);
}

static void test_unavailable (gconstpointer variant)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (ps_transport_find (((const Variant *)variant)->class, &error));
  g_test_skip (error->message);
}

static void add_tests (const Variant *variant)
{
  static const struct {
    const char *name;
    GTestDataFunc function;
  } tests[] = {
    { "order", test_order },
    { "out-of-order", test_out_of_order },
    { "names", test_names },
    { "repeated-name", test_repeated_name },
    { "close-with-messages", test_close_with_messages },
    { "timeout", test_timeout },
    { "wait-without-receive", test_wait_without_receive },
    { "delay", test_delay },
    { "abort", test_abort },
    { "two-way", test_two_way },
  };
  gboolean available = ps_transport_find (variant->class, NULL) != NULL;

  for (guint i = 0; i < G_N_ELEMENTS (tests); i++) {
    g_autofree char *path = g_strdup_printf ("/%s%s", variant->name, tests[i].name);

    g_test_add_data_func (path, variant, available ? tests[i].function : test_unavailable);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/transport/table", test_table);
  for (guint i = 0; i < G_N_ELEMENTS (variants); i++)
    add_tests (&variants[i]);
  g_test_add_data_func ("/transport/threads-many-sends", &variants[0], test_many_sends);
  g_test_add_data_func ("/transport-mpi/tags", &variants[1],
                        ps_transport_find ("mpi", NULL) != NULL ? test_tags : test_unavailable);
  return g_test_run ();
}
