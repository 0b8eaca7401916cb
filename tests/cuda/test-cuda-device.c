/* test-cuda-device.c - the cuda device computes what the cpu device computes, and gives the same bits however it is
 * run. */
#include "cuda-device-rig.h"
#include "clock.h"

#include <math.h>
#include <string.h>

/* --- the numbers are right --- */

/* Largest |a - b| over the largest |b|. */
static double relative_difference (GArray *a, GArray *b)
{
  double difference = 0, largest = 0;

  g_assert_cmpuint (a->len, ==, b->len);
  for (guint i = 0; i < a->len; i++) {
    const double x = g_array_index (a, float, i), y = g_array_index (b, float, i);

    g_assert_true (isfinite (x));
    difference = MAX (difference, fabs (x - y));
    largest = MAX (largest, fabs (y));
  }
  return difference / largest;
}

/* Losses and gradients of one step on both devices, then the losses of the next. */
static void compare_with_cpu (PsModel model, double loss_tolerance, double gradient_tolerance)
{
  const guint n = 2;
  Rig cuda, cpu;

  rig_open (&cuda, cuda_device, model, 2, n);
  model.precision = PS_PRECISION_FP32;
  rig_open (&cpu, &ps_cpu_device, model, 2, n);
  for (guint step = 0; step < 2; step++) {
    all_microbatches (&cuda);
    all_microbatches (&cpu);
    for (guint i = 0; i < n; i++) {
      const double a = cuda.device->class->loss (cuda.device, i), b = cpu.device->class->loss (cpu.device, i);

      g_test_message ("step %u, microbatch %u: loss %.7g, on the cpu %.7g", step, i, a, b);
      g_assert_cmpfloat (fabs (a - b), <, loss_tolerance * b);
    }
    if (step == 0) {
      g_autoptr (GArray) a = all_gradients (&cuda);
      g_autoptr (GArray) b = all_gradients (&cpu);
      const double difference = relative_difference (a, b);

      g_test_message ("gradients differ by %g of the largest", difference);
      g_assert_cmpfloat (difference, <, gradient_tolerance);
    }
    run_all_stages (&cuda, PS_OP_O, 0);
    run_all_stages (&cpu, PS_OP_O, 0);
  }
  rig_clear (&cuda);
  rig_clear (&cpu);
}

/* fp32: sums of some 100 products in other orders, 100 * 2^-24 = 6e-6. After a step of Adam, whose direction for tiny
 * gradients is the sign of their error, losses are within 1e-4. Also sizes that are no multiples of anything: no fused
 * endings, rows without alignment. bf16: each of the some ten stored values on the way through a layer is off by up to
 * 2^-9 of itself, four layers deep: sqrt (4 * 10) * 2^-9 = 1.2 %, and a gradient has gone both ways: sqrt (2) times
 * that. */
static void test_numbers (void)
{
  PsModel llama = small_model (2, 16, 4, 9);

  llama.mlp = PS_MLP_SWIGLU;
  llama.kv_heads = 2;
  compare_with_cpu (small_model (2, 24, 3, 10), 1e-4, 6e-6);
  compare_with_cpu (small_model (2, 21, 3, 19), 1e-4, 6e-6);
  compare_with_cpu (llama, 1e-4, 6e-6);
  compare_with_cpu (cuda_model (PS_PRECISION_BF16, PS_MLP_GELU), 2e-3, 1.7e-2);
  compare_with_cpu (cuda_model (PS_PRECISION_BF16, PS_MLP_SWIGLU), 2e-3, 1.7e-2);
}

/* Tolerances as above. */
static void test_slices (void)
{
  PsModel gpt = small_model (2, 21, 3, 12), llama = small_model (2, 16, 4, 12);

  llama.mlp = PS_MLP_SWIGLU;
  llama.kv_heads = 2;
  check_slices (cuda_device, gpt, 6e-6);
  check_slices (cuda_device, llama, 6e-6);
  llama = cuda_model (PS_PRECISION_BF16, PS_MLP_SWIGLU);
  check_slices (cuda_device, llama, 1.7e-2);
  llama.layers = 1;
  llama.sequence = 132; /* a slice is longer than a tile */
  check_slices (cuda_device, llama, 1.7e-2);
}

/* Profilers see each op as a range of its own, named as in PyTorch's traces. */
static void test_ranges (void)
{
  const char *(*ranges) (void) = (const char *(*)(void))cuda_probe ("ps_emulator_ranges");
  Rig rig;

  rig_open (&rig, cuda_device, small_model (2, 24, 3, 10), 2, 2);
  forward (&rig, 0);
  backward (&rig, PS_OP_B, 0);
  run_all_stages (&rig, PS_OP_W, 0);
  forward (&rig, 1);
  backward (&rig, PS_OP_BW, 1);
  run_all_stages (&rig, PS_OP_O, 0);
  rig_clear (&rig);
  g_assert_true (g_str_has_suffix (ranges (), "(PP:0F0)(PP:1F0)(PP:1I0)(PP:0I0)(PP:0W0)(PP:1W0)(PP:0F1)(PP:1F1)"
                                              "(PP:1B1)(PP:0B1)(O0.0)(O0.1)"));
}

/* --- the same bits --- */

static const struct {
  PsPrecision precision;
  PsMlp mlp;
} kinds[] = {
  { PS_PRECISION_FP32, PS_MLP_GELU },
  { PS_PRECISION_BF16, PS_MLP_GELU },
  { PS_PRECISION_BF16, PS_MLP_SWIGLU },
};

static void test_b_and_w_equal_bw (void)
{
  for (guint kind = 0; kind < G_N_ELEMENTS (kinds); kind++)
    check_split_backward (cuda_device, cuda_model (kinds[kind].precision, kinds[kind].mlp));
}

static GBytes *after_adopting (Rig *rig, GBytes *choices)
{
  fine (rig->device->class->adopt_choices (rig->device, choices, &error));
  return rig->device->class->choices (rig->device);
}

/* What one process chose another takes over, unless it comes from another library or GPU, whose name is in front; and
 * what is no table is refused. */
static void test_choices (void)
{
  Rig rig;

  rig_open (&rig, cuda_device, small_model (1, 40, 2, 8), 1, 1);
  g_autoptr (GBytes) own = rig.device->class->choices (rig.device);
  const gsize n = g_bytes_get_size (own);
  g_autoptr (GBytes) foreign = altered (own, 0), other = altered (own, n - 1);
  g_autoptr (GBytes) cut = g_bytes_new_from_bytes (own, 0, n - 1);
  g_autoptr (GBytes) with_foreign = after_adopting (&rig, foreign);
  g_autoptr (GBytes) with_other = after_adopting (&rig, other);
  g_autoptr (GBytes) with_own = after_adopting (&rig, own);

  g_assert_true (g_bytes_equal (with_foreign, own));
  g_assert_true (g_bytes_equal (with_other, other));
  g_assert_true (g_bytes_equal (with_own, own));
  refused (rig.device->class->adopt_choices (rig.device, cut, &error), PS_ERROR_INPUT, "*");
  rig_clear (&rig);
}

static GArray *gradients_as (PsDeviceSetting setting)
{
  Rig rig = { .setting = setting };

  rig_open_as (&rig, cuda_device, small_model (1, 56, 2, 8), 1, 1);
  all_microbatches (&rig);
  GArray *gradients = all_gradients (&rig);
  rig_clear (&rig);
  return gradients;
}

static void assert_bits (GArray *a, GArray *b, gboolean equal)
{
  g_assert_cmpuint (a->len, ==, b->len);
  g_assert_cmpint (memcmp (a->data, b->data, a->len * sizeof (float)) == 0, ==, equal);
}

/* Parts of 96 and 32 multiprocessors, of which the smaller one is better off with another algorithm, choose each for
 * itself, whoever comes first; and the whole GPU gives the bits of either when it is told to. */
static void test_parts (void)
{
  static const guint shares[] = { 3, 1 }, many[] = { 96 }, few[] = { 32 };
  const PsDeviceSetting larger = { .n_local = 2, .shares = shares },
                        smaller = { .index = 1, .n_local = 2, .shares = shares };

  g_setenv ("PS_EMULATED_ALGORITHM", "parts", TRUE);
  g_autoptr (GArray) on_larger = gradients_as (larger);
  g_autoptr (GArray) on_smaller = gradients_as (smaller);
  g_autoptr (GArray) as_larger = gradients_as ((PsDeviceSetting){ .parts = many });
  g_autoptr (GArray) as_smaller = gradients_as ((PsDeviceSetting){ .parts = few });

  g_unsetenv ("PS_EMULATED_ALGORITHM");
  assert_bits (on_larger, on_smaller, FALSE);
  assert_bits (on_larger, as_larger, TRUE);
  assert_bits (on_smaller, as_smaller, TRUE);
}

/* --- ops that are captured once and launched as graphs --- */

#define N_MICROBATCHES 3
#define N_STEPS 3

/* On the emulation: graphs made and launched so far; on a GPU nothing, TRUE only there. */
static gboolean count_graphs (guint *captures, guint *launches)
{
  void (*count) (guint *, guint *)
      = (void (*) (guint *, guint *))ps_module_function ("test", "cuda", "ps_emulator_graphs", NULL);

  if (count != NULL)
    count (captures, launches);
  return count != NULL;
}

/* A step with every kind of op: microbatch 0 as B and W, the others as BW. */
static void train (Rig *rig)
{
  for (guint i = 0; i < N_MICROBATCHES; i++)
    forward (rig, i);
  backward (rig, PS_OP_B, 0);
  run_all_stages (rig, PS_OP_W, 0);
  for (guint i = 1; i < N_MICROBATCHES; i++)
    backward (rig, PS_OP_BW, i);
}

static void open_with_graphs (Rig *rig, PsModel model, gboolean graphs)
{
  g_setenv ("PIPESIM_CUDA_GRAPHS", graphs ? "1" : "0", TRUE);
  rig_open (rig, cuda_device, model, 2, N_MICROBATCHES);
  g_unsetenv ("PIPESIM_CUDA_GRAPHS");
}

/* Losses and gradients of the last step. */
static GArray *train_steps (PsModel model, gboolean graphs, double losses[N_MICROBATCHES])
{
  Rig rig;

  open_with_graphs (&rig, model, graphs);
  for (guint step = 1; step <= N_STEPS; step++) {
    train (&rig);
    if (step < N_STEPS)
      run_all_stages (&rig, PS_OP_O, 0);
  }
  for (guint i = 0; i < N_MICROBATCHES; i++)
    losses[i] = rig.device->class->loss (rig.device, i);
  GArray *gradients = all_gradients (&rig);
  rig_clear (&rig);
  return gradients;
}

static PsModel shallow_model (guint kind)
{
  PsModel model = cuda_model (kinds[kind].precision, kinds[kind].mlp);

  model.layers = 2;
  return model;
}

static void test_graph_bits (void)
{
  for (guint kind = 0; kind < G_N_ELEMENTS (kinds); kind++) {
    double one_by_one[N_MICROBATCHES], in_graphs[N_MICROBATCHES];
    g_autoptr (GArray) a = train_steps (shallow_model (kind), FALSE, one_by_one);
    g_autoptr (GArray) b = train_steps (shallow_model (kind), TRUE, in_graphs);

    assert_same_bits (a, b);
    g_assert_cmpmem (one_by_one, sizeof one_by_one, in_graphs, sizeof in_graphs);
  }
}

/* Two stages: N F, one B and one W, N - 1 BW each are launched as graphs in a step, O is not. Where every step takes
 * and gives back the same blocks, the first step captures all, the second those that lie elsewhere than fresh memory
 * did, and from then on nothing is captured. */
static void test_captured_once (void)
{
  const guint per_step = 2 * (2 * N_MICROBATCHES + 1);
  guint captures, launches, captures_after, launches_after;
  Rig rig;

  open_with_graphs (&rig, shallow_model (1), TRUE);
  for (guint step = 0; step < N_STEPS; step++) {
    count_graphs (&captures, &launches);
    train (&rig);
    run_all_stages (&rig, PS_OP_O, 0);
    count_graphs (&captures_after, &launches_after);
    g_test_message ("step %u: %u captured, %u launched", step, captures_after - captures, launches_after - launches);
    g_assert_cmpuint (launches_after - launches, ==, per_step);
    if (step == 0)
      g_assert_cmpuint (captures_after - captures, ==, per_step);
    if (step >= 2)
      g_assert_cmpuint (captures_after - captures, ==, 0);
  }
  rig_clear (&rig);
}

/* Blocks that somebody else holds: ops find others, and are captured again. */
static void test_moved_blocks (void)
{
  const PsModel model = shallow_model (0);
  guint captures = 0, launches = 0, captures_after = 0;
  PsTensor *held[2];
  Rig rig, other;

  open_with_graphs (&other, model, FALSE);
  open_with_graphs (&rig, model, TRUE);
  for (guint step = 0; step < 2; step++)
    train (&rig);
  count_graphs (&captures, &launches);
  for (guint i = 0; i < G_N_ELEMENTS (held); i++)
    held[i] = rig.device->class->tensor_new (rig.device);
  train (&rig);
  if (count_graphs (&captures_after, &launches))
    g_assert_cmpuint (captures_after, >, captures);
  for (guint i = 0; i < G_N_ELEMENTS (held); i++)
    rig.device->class->tensor_free (held[i]);
  for (guint step = 0; step < 3; step++)
    train (&other);

  g_autoptr (GArray) a = all_gradients (&rig);
  g_autoptr (GArray) b = all_gradients (&other);
  assert_same_bits (a, b);
  rig_clear (&rig);
  rig_clear (&other);
}

/* --- two ops at the same time --- */

/* Gradients after an F whose microbatch the B of another one is paired with. */
static GArray *paired_gradients (gboolean pairs)
{
  Rig rig = { .setting = { .pairs = pairs } };
  g_autoptr (GError) error = NULL;
  const PsOp ops[] = { { .kind = PS_OP_F, .microbatch = 1, .paired = 1 }, { .kind = PS_OP_BW } };
  PsTensor *output = NULL;

  rig_open_as (&rig, cuda_device, small_model (2, 16, 2, 8), 1, 2);
  run (&rig, PS_OP_F, 0, 0, NULL);
  if (pairs)
    ((void (*) (guint))cuda_probe ("ps_emulator_meet")) (2);
  for (guint i = 0; i < 2; i++)
    g_assert_true (rig.device->class->run (rig.device, ops[i], NULL, &output, &error));
  if (pairs)
    g_assert_true (((_Bool (*) (void))cuda_probe ("ps_emulator_have_met")) ());
  if (pairs)
    ((void (*) (guint))cuda_probe ("ps_emulator_meet")) (0);
  run (&rig, PS_OP_BW, 0, 1, NULL);
  GArray *gradients = all_gradients (&rig);
  rig_clear (&rig);
  return gradients;
}

/* Both streams have work before either begins; the bits are those of one op after the other. */
static void test_pairs (void)
{
  g_autoptr (GArray) in_turn = paired_gradients (FALSE);
  g_autoptr (GArray) at_once = paired_gradients (TRUE);

  assert_same_bits (in_turn, at_once);
}

/* --- tensors --- */

static void test_tensors (void)
{
  PsModel model = small_model (2, 24, 3, 10);
  g_autoptr (GError) error = NULL;
  Rig rig, cpu;

  rig_open (&rig, cuda_device, model, 2, 1);
  rig_open (&cpu, &ps_cpu_device, model, 2, 1);
  const PsDeviceClass *class = rig.device->class;
  PsTensor *tensor = run (&rig, PS_OP_F, 0, 0, NULL), *expected = run (&cpu, PS_OP_F, 0, 0, NULL);
  PsTensor *other = class->tensor_new (rig.device);
  g_autofree float *values = g_malloc (tensor->bytes);

  g_assert_cmpuint (tensor->bytes, ==, expected->bytes);
  g_assert_true (class->copy (other, tensor, NULL, &error));
  g_assert_true (class->read (other, values, &error));
  for (gsize i = 0; i < tensor->bytes / sizeof (float); i++)
    g_assert_cmpfloat (fabsf (values[i] - ((float *)expected->data)[i]), <, 1e-6f);
  values[3] = 7;
  g_assert_true (class->write (other, values, &error));
  memset (values, 0, tensor->bytes);
  g_assert_true (class->read (other, values, &error));
  g_assert_cmpfloat (values[3], ==, 7);
  g_assert_cmpint (class->op_ns (rig.device), >=, 0);
  class->tensor_free (tensor);
  class->tensor_free (other);
  cpu.device->class->tensor_free (expected);
  rig_clear (&rig);
  rig_clear (&cpu);
}

/* --- ops ahead of the host --- */

static void start_forward (Rig *rig, guint microbatch, PsTimes *times, GError **error)
{
  const PsOp op = { .kind = PS_OP_F, .microbatch = microbatch & 0x7fffffff };
  PsTensor *output = NULL;

  rig->device->class->start (rig->device, op, NULL, &output, times, error);
  g_assert_null (output);
}

/* Where no stream gets on, three ops are started and the next one waits in vain for the first. Later all of them have
 * run, one after the other, by the clock of the host. */
static void test_ahead (void)
{
  void (*meet) (unsigned) = (void (*) (unsigned))cuda_probe ("ps_emulator_meet");
  Rig rig = { .setting = { .ahead = 2, .timeout_ns = 20000000 } };
  g_autoptr (GError) error = NULL;
  PsTimes times[4] = { { 0 } };
  gint64 begin_ns, last_ns;

  rig_open_as (&rig, cuda_device, small_model (1, 24, 3, 10), 1, 4);
  g_assert_true (cuda_device->await (rig.device, &error));
  begin_ns = last_ns = ps_clock_now ();
  meet (2);
  for (guint i = 0; i < 4; i++) {
    g_assert_no_error (error);
    start_forward (&rig, i, &times[i], &error);
  }
  assert_error (&error, PS_ERROR_IO, "stage 0: F0.0: not done after 0.02 s");
  meet (0);
  while (!cuda_device->await (rig.device, NULL))
    g_usleep (1000);
  for (guint i = 0; i < 3; i++) {
    g_assert_cmpint (times[i].start_ns, >=, last_ns);
    g_assert_cmpint (times[i].end_ns, >=, times[i].start_ns);
    last_ns = times[i].end_ns;
  }
  g_assert_cmpint (last_ns, >, begin_ns);
  g_assert_cmpint (last_ns, <=, ps_clock_now ());
  rig_clear (&rig);
}

/* A device gives up a message that another one still copies: its memory is not used again before. */
static void test_taken (void)
{
  void (*meet) (unsigned) = (void (*) (unsigned))cuda_probe ("ps_emulator_meet");
  void (*hold) (int) = (void (*) (int))cuda_probe ("ps_emulator_hold_copies");
  Rig from = { .setting = { .ahead = 2, .timeout_ns = G_GINT64_CONSTANT (10000000000) } }, to = from;
  const PsModel model = small_model (2, 24, 3, 10);
  PsTensor *sent = NULL, *arrived, *next;
  g_autoptr (GError) error = NULL;
  const gint64 until_ns = ps_clock_now () + G_GINT64_CONSTANT (60000000000);
  PsMemoryUse both, one;
  PsTimes times[2];

  rig_open_as (&from, cuda_device, model, 2, 1);
  rig_open_as (&to, cuda_device, model, 2, 1);
  meet (1);
  hold (1);
  cuda_device->start (from.device, (PsOp){ .kind = PS_OP_F }, NULL, &sent, &times[0], &error);
  g_assert_no_error (error);
  arrived = cuda_device->tensor_new (to.device);
  g_assert_true (cuda_device->copy (arrived, sent, &times[1], &error));
  void *block = sent->data;
  cuda_device->tensor_free (sent);
  g_assert_true (cuda_device->await (from.device, &error));
  next = cuda_device->tensor_new (from.device);
  g_assert_true (next->data != block);
  cuda_device->memory (from.device, &both);
  hold (0);
  g_assert_true (cuda_device->await (to.device, &error));
  /* The receiver awaits the end of its copy. The sender looks at an event that the stream reaches right after it. */
  do
    cuda_device->memory (from.device, &one);
  while (one.current[PS_USE_BUFFER] == both.current[PS_USE_BUFFER] && ps_clock_now () < until_ns);
  g_assert_cmpint (both.current[PS_USE_BUFFER], ==, 2 * one.current[PS_USE_BUFFER]);
  cuda_device->tensor_free (next);
  cuda_device->tensor_free (arrived);
  rig_clear (&from);
  rig_clear (&to);
  meet (0);
}

int main (int argc, char **argv)
{
  cuda_init (&argc, &argv);
  cuda_add ("/cuda/numbers", test_numbers);
  cuda_add ("/cuda/slices", test_slices);
  cuda_add_emulated ("/cuda/ranges", test_ranges);
  cuda_add ("/cuda/bits", test_b_and_w_equal_bw);
  cuda_add ("/cuda/graphs/bits", test_graph_bits);
  cuda_add_emulated ("/cuda/graphs/captured-once", test_captured_once);
  cuda_add ("/cuda/graphs/moved-blocks", test_moved_blocks);
  cuda_add_emulated ("/cuda/pairs", test_pairs);
  cuda_add ("/cuda/choices", test_choices);
  cuda_add_emulated ("/cuda/parts", test_parts);
  cuda_add ("/cuda/tensors", test_tensors);
  cuda_add_emulated ("/cuda/ahead", test_ahead);
  cuda_add_emulated ("/cuda/taken", test_taken);
  return g_test_run ();
}
