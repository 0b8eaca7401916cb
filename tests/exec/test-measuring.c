/* Tests of runs that measure: streams that somebody wrote run as they stand, step after step, until their owner has
 * seen enough. */
#include "error-rig.h"

#include "run/runtime.h"
#include "run/transports.h"
#include "train/devices.h"

#include <pipesim/model.h>

#define N_STEPS 4

/* What was seen, and how the run ends. */
typedef struct {
  guint n_steps;
  guint fail_at; /* step; 0: none */
  guint n_ops, n_sends, n_waits;
  gint64 state_bytes; /* of stage 1 */
  gint64 held_bytes;  /* that ops of the last step have taken and not given */
} Seen;

/* Ops have times one after the other, and a message comes after it was sent. */
static void look_at (const PsMeasuredStep *step, Seen *seen)
{
  gint64 last_ns = 0;
  guint device = 0;

  seen->held_bytes = 0;
  for (guint i = 0; i < step->events->len; i++) {
    const PsMeasuredEvent *event = &g_array_index (step->events, PsMeasuredEvent, i);

    if (event->device != device)
      last_ns = 0;
    device = event->device;
    if (event->instruction.type == PS_INSTRUCTION_COMPUTE) {
      g_assert_cmpint (event->times.start_ns, >=, last_ns);
      g_assert_cmpint (event->times.end_ns, >=, event->times.start_ns);
      last_ns = event->times.end_ns;
      seen->held_bytes += event->take_bytes - event->give_bytes;
      seen->n_ops++;
    }
    seen->n_sends += event->instruction.type == PS_INSTRUCTION_SEND;
    if (event->instruction.type != PS_INSTRUCTION_WAIT)
      continue;
    g_assert_cmpint (event->times.end_ns, >=, event->times.start_ns);
    g_assert_cmpint (event->times.start_ns, >, 0);
    seen->n_waits++;
  }
}

static gboolean see (const PsMeasuredStep *step, gpointer data, gboolean *more, GError **error)
{
  Seen *seen = data;

  g_assert_cmpuint (step->number, ==, seen->n_steps);
  look_at (step, seen);
  seen->state_bytes = step->state_bytes[1];
  *more = ++seen->n_steps < N_STEPS;
  return seen->fail_at == 0 || seen->n_steps < seen->fail_at
         || ps_refuse (error, PS_ERROR_INPUT, "seen enough of step %u", step->number);
}

static gboolean run (GArray *const *streams, guint n_devices, Seen *seen, GError **error)
{
  static const PsStageShape shapes[]
      = { { .n_layers = 1, .embedding = TRUE }, { .n_layers = 1 }, { .n_layers = 1, .head = TRUE } };
  const PsMeasuring measuring = { .n_local = n_devices, .step = see, .data = seen };
  g_autoptr (PsModel) model = ps_model_load ("tiny-gpt", NULL);
  const PsRunSetting setting = { .device = &ps_cpu_device,
                                 .transport = &ps_threads_transport,
                                 .model = model,
                                 .shapes = shapes,
                                 .n_steps = 1,
                                 .n_replicas = 1,
                                 .seed = 1,
                                 .measuring = &measuring };

  return ps_measuring_run (streams, n_devices, 3, 4, 1, &setting, error);
}

static GArray *new_stream (void)
{
  return g_array_new (FALSE, FALSE, sizeof (PsInstruction));
}

static void add (GArray *stream, PsInstructionType type, PsOpKind kind, guint stage, guint peer)
{
  ps_stream_add (stream, type, (PsOp){ .kind = (guint8)kind, .stage = (guint16)stage }, peer);
}

/* The middle stage runs alone, though no other device makes its inputs or takes its outputs; memory is as before at the
 * end of each step. */
static void test_ops (void)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_F, PS_OP_BW, PS_OP_O };
  g_autoptr (GArray) stream = new_stream ();
  Seen seen = { 0 };

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    add (stream, PS_INSTRUCTION_COMPUTE, kinds[i], 1, 0);
  fine (run (&stream, 1, &seen, &error));
  g_assert_cmpuint (seen.n_steps, ==, N_STEPS);
  g_assert_cmpuint (seen.n_ops, ==, N_STEPS * G_N_ELEMENTS (kinds));
  g_assert_cmpint (seen.state_bytes, >, 0);
  g_assert_cmpint (seen.held_bytes, ==, 0);
}

static void add_ping_pong (GArray **streams)
{
  for (guint i = 0; i < 2; i++) {
    streams[i] = new_stream ();
    add (streams[i], PS_INSTRUCTION_RECEIVE, i == 0 ? PS_OP_B : PS_OP_F, 1 - i, 1 - i);
    if (i == 0)
      add (streams[i], PS_INSTRUCTION_SEND, PS_OP_F, 0, 1);
    add (streams[i], PS_INSTRUCTION_WAIT, i == 0 ? PS_OP_B : PS_OP_F, 1 - i, 1 - i);
    if (i == 1)
      add (streams[i], PS_INSTRUCTION_SEND, PS_OP_B, 1, 0);
  }
}

/* A message there and back in each step, without any op or stage. */
static void test_messages (void)
{
  GArray *streams[2];
  Seen seen = { 0 };

  add_ping_pong (streams);
  fine (run (streams, 2, &seen, &error));
  g_assert_cmpuint (seen.n_ops, ==, 0);
  g_assert_cmpuint (seen.n_sends, ==, 2 * N_STEPS);
  g_assert_cmpuint (seen.n_waits, ==, 2 * N_STEPS);
  g_assert_cmpint (seen.state_bytes, ==, 0);
  g_array_unref (streams[0]);
  g_array_unref (streams[1]);
}

/* Its owner ends a run with an error. */
static void test_error (void)
{
  GArray *streams[2];
  Seen seen = { .fail_at = 2 };

  add_ping_pong (streams);
  refused (run (streams, 2, &seen, &error), PS_ERROR_INPUT, "seen enough of step 1");
  g_assert_cmpuint (seen.n_steps, ==, 2);
  g_array_unref (streams[0]);
  g_array_unref (streams[1]);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/measuring/ops", test_ops);
  g_test_add_func ("/measuring/messages", test_messages);
  g_test_add_func ("/measuring/error", test_error);
  return g_test_run ();
}
