/* Tests of prefill: schedules of forwards alone, the chunks of prompts, their costs and memory, and when prompts are
 * in. */
#include "cases.h"
#include "setting-rig.h"

#include <pipesim/simulate.h>

#define MS 1000000
#define MIB (1 << 20)

static PsPrediction *predict (const char *schedule, const char *line)
{
  g_autoptr (PsSetting) setting = parse_good (line);

  return fine (ps_predict (setting, schedule, &error));
}

/* m = 16 equal chunks of t = 1 ms on p = 4 devices. With one stage per device they take (m + p - 1) t, and each device
 * waits (p - 1) t. Two stages of t / 2 on a loop take (2 m + p - 1) t / 2; on a V the last chunk has 2 p stages to go,
 * (2 m + 2 p - 2) t / 2. Where the next prompts follow at once, device 0 of a loop never waits. */
static void test_closed_form (void)
{
  static const struct {
    const char *schedule, *more;
    gint64 first_token_us, iteration_us;
  } cases[] = {
    { "gpipe", "", 19000, 19000 },
    { "interleaved", "", 17500, 17500 },
    { "looped-bfs", "", 17500, 17500 },
    { "zb-v", "", 19000, 19000 },
    { "interleaved", "-v 4", 16750, 16750 },
    { "gpipe", "--sync bypass", 19000, 16000 },
    { "gpipe", "--comm direction", 19000, 19000 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *line = g_strdup_printf (
        "-p 4 --serve prefill --prompt 131072 --chunk 8192 --costs f=16ms,o=9ms,reduce=5ms %s", cases[i].more);
    g_autoptr (PsPrediction) prediction = predict (cases[i].schedule, line);
    double part = 16000.0 / (double)cases[i].iteration_us;

    g_assert_cmpint (prediction->first_token_ns[0], ==, 1000 * cases[i].first_token_us);
    g_assert_cmpint (prediction->metrics.makespan_ns, ==, 1000 * cases[i].first_token_us);
    g_assert_cmpint (prediction->metrics.iteration_ns, ==, 1000 * cases[i].iteration_us);
    g_assert_cmpfloat_with_epsilon (prediction->metrics.bubble_ratio, 1 - part, 1e-12);
    g_assert_cmpint (prediction->lower_bound_ns, <=, 1000 * cases[i].first_token_us);
  }
}

/* Chunks of 4, 3, 2 and 1 tokens at 1 ms each, by hand: a chunk ends on a stage 1 ms per token after both the chunk
 * before it there and itself on the stage before.
 *
 *   stage 0   4  7  9 10        with 1 ms between stages   4  7  9 10
 *   stage 1   8 11 13 14                                   9 12 14 15
 *   stage 2  12 15 17 18                                  14 17 19 20
 *   stage 3  16 19 21 22                                  19 22 24 25
 *
 * Chunks of 1, 2, 3 and 4 end on stage 3 at 4, 9, 15 and 22. A second prompt of 6 has chunks of 4 and 2, which end
 * there at 26 and 28; after a first one of 1, 2 and 3, those of 1 to 4 end at 16, 18, 21 and 28. */
static void test_by_hand (void)
{
  static const struct {
    const char *more;
    gint64 first_token_ms[2];
  } cases[] = {
    { "--prompt 10 --chunk 4:3:2:1 --costs f=10ms", { 22, 0 } },
    { "--prompt 10 --chunk 4:3:2:1 --costs f=10ms,c=1ms", { 25, 0 } },
    { "--prompt 10 --chunk 1:2:3:4 --costs f=10ms", { 22, 0 } },
    { "--prompt 10:6 --chunk 4:3:2:1 --costs f=10ms", { 22, 28 } },
    { "--prompt 6:10 --chunk 1:2:3:4 --costs f=10ms", { 15, 28 } },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *line = g_strconcat ("-p 4 --serve prefill ", cases[i].more, NULL);
    g_autoptr (PsPrediction) prediction = predict ("gpipe", line);

    for (guint k = 0; k < prediction->prefill->n; k++)
      g_assert_cmpint (prediction->first_token_ns[k], ==, cases[i].first_token_ms[k] * MS);
  }
}

/* A stage keeps the keys and values of a prompt's chunks until the last of them has ended: 1 MiB per token here. The
 * longest prompt of 10 MiB and 3 MiB of weights, of which 1 MiB are gradients and optimizer state, is the peak. */
static void test_memory (void)
{
  g_autoptr (PsPrediction) prediction = predict ("gpipe", "-p 4 --serve prefill --prompt 4:10:6 --chunk 3 --costs "
                                                          "f=10ms,act=10MiB,weights=4MiB,grad=512KiB,opt=512KiB");
  g_autoptr (PsMemory) memory = ps_memory_new (prediction->program, prediction->costs, prediction->simulation);

  for (guint d = 0; d < 4; d++) {
    const PsDeviceMemory *device = &memory->device[d];
    const PsMemoryMoment *end = &g_array_index (device->curve, PsMemoryMoment, device->curve->len - 1);

    g_assert_cmpint (device->peak_bytes, ==, 13 * MIB);
    g_assert_cmpint (prediction->simulation->device[d].peak_bytes, ==, 13 * MIB);
    g_assert_cmpint (prediction->simulation->device[d].held_bytes, ==, 3 * MIB);
    g_assert_cmpint (ps_memory_sum (end), ==, 3 * MIB);
    g_assert_cmpint (end->bytes[PS_MEMORY_WEIGHTS], ==, 3 * MIB);
    for (guint i = 0; i < device->alive->len; i++)
      g_assert_cmpuint (g_array_index (device->alive, PsMemoryHolding, i).microbatch, ==, 1);
    g_assert_cmpuint (prediction->program->peak_activations[d], ==, 4);
  }
}

/* Drawn prompts, chunks and times of stages. The recurrence above gives the ends, the largest prompt the peak. No
 * schedule is faster than its lower bound. */
static void test_drawn (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);

  for (guint round = 0; round < 300; round++) {
    guint p = (guint)g_rand_int_range (rand, 1, 7), n = (guint)g_rand_int_range (rand, 1, 5);
    guint chunk = (guint)g_rand_int_range (rand, 1, 9), longest = 0, hop_ns = (guint)g_rand_int_range (rand, 0, 3);
    guint each = 2 * (guint)g_rand_int_range (rand, 1, 500);
    gint64 end[8] = { 0 };
    guint tokens[4];
    g_autoptr (GString) line = g_string_new (NULL);

    for (guint i = 0; i < n; i++) {
      tokens[i] = (guint)g_rand_int_range (rand, 1, 40);
      longest = MAX (longest, tokens[i]);
    }
    g_string_printf (line, "-p %u --serve prefill --chunk %u --costs f=%uns,c=%uns,act=%uKiB --prompt ", p, chunk,
                     each * longest, hop_ns, longest);
    for (guint i = 0; i < n; i++)
      g_string_append_printf (line, "%s%u", i > 0 ? ":" : "", tokens[i]);
    g_autoptr (PsPrediction) prediction = predict ("gpipe", line->str);
    for (guint i = 0; i < n; i++) {
      for (guint done = 0; done < tokens[i]; done += chunk)
        for (guint d = 0; d < p; d++)
          end[d] = MAX (end[d], d > 0 ? end[d - 1] + hop_ns : 0) + (gint64)each * MIN (chunk, tokens[i] - done);
      g_assert_cmpint (prediction->first_token_ns[i], ==, end[p - 1]);
    }
    g_assert_cmpint (prediction->metrics.makespan_ns, ==, end[p - 1]);
    g_assert_cmpint (prediction->lower_bound_ns, <=, end[p - 1]);
    g_assert_cmpint (prediction->metrics.peak_memory_bytes, ==, (gint64)longest << 10);
    for (guint i = 0; i < 3; i++) {
      static const char *const others[] = { "interleaved", "looped-bfs", "zb-v" };
      g_autoptr (PsPrediction) other = predict (others[i], line->str);

      g_assert_cmpint (other->lower_bound_ns, <=, other->metrics.makespan_ns);
      for (guint d = 0; d < p; d++) {
        g_assert_cmpint (other->simulation->device[d].held_bytes, ==, 0);
        g_assert_cmpint (other->metrics.device[d].busy_ns, ==, prediction->metrics.device[d].busy_ns);
      }
    }
  }
}

/* llama-3-8b: a token has 2 x 8 heads x 128 x 2 bytes = 4 KiB of keys and values in each of 32 layers. A GPU of two has
 * half of it. deepseek-v3 keeps 512 + 64 numbers on every GPU. */
static void test_cache (void)
{
  g_autoptr (PsModel) llama = fine (ps_model_load ("llama-3-8b", &error));
  g_autoptr (PsModel) deepseek = fine (ps_model_load ("deepseek-v3", &error));
  const PsStageShape shape = { .first_layer = 8, .n_layers = 8, .head = 1 };

  g_assert_cmpint (ps_tensor_cache_bytes (llama, &shape, 1000, 1), ==, 8 * 1000 * 4096);
  g_assert_cmpint (ps_tensor_cache_bytes (llama, &shape, 1000, 2), ==, 8 * 1000 * 2048);
  g_assert_cmpint (ps_tensor_cache_bytes (llama, &shape, 1000, 16), ==, 8 * 1000 * 512);
  g_assert_cmpint (ps_tensor_cache_bytes (deepseek, &shape, 1000, 8), ==, 8 * 1000 * 576 * 2);
}

/* Modelled: a pipeline of one device takes the sum of its chunks, later ones longer, and holds the weights and all keys
 * and values. The head is that of one token: nearly as fast as no head. */
static void test_modelled (void)
{
  const char *line = "-p 1 --serve prefill --prompt 32768 --chunk 8192 --model llama-3-8b --cluster h100-80gb";
  g_autoptr (PsPrediction) prediction = predict ("gpipe", line);
  const PsCosts *costs = prediction->costs;
  gint64 sum = 0, kept = 0;

  g_assert_cmpuint (costs->n_lengths, ==, 4);
  for (guint k = 0; k < 4; k++) {
    const PsOpCost *f = &costs->op[ps_op_index (1, 4, PS_OP_F, k, 0)];

    g_assert_cmpint (f->duration_ns, >, k > 0 ? f[-1].duration_ns : 0);
    sum += f->duration_ns;
    kept += f->take_bytes - f->give_bytes;
    g_assert_cmpint (costs->op[ps_op_index (1, 4, PS_OP_BW, k, 0)].duration_ns, ==, 0);
  }
  g_assert_cmpint (prediction->first_token_ns[0], ==, sum);
  g_assert_cmpint (kept, ==, 0);
  /* 8.03 G parameters of 2 bytes, 4 GiB of keys and values, and the tensors of one layer. */
  g_assert_cmpint (prediction->metrics.peak_memory_bytes, >, (gint64)(16.06e9) + ((gint64)4 << 30));
  g_assert_cmpint (prediction->metrics.peak_memory_bytes, <, (gint64)(16.06e9) + ((gint64)8 << 30));
}

/* Chunks of even work are never slower than as many of equal length, in 1,000 drawn settings, and faster in most. One
 * device waits for none, so that equal ones are as good. */
static void test_even_work (void)
{
  static const char *const models[] = { "llama-3-8b", "gpt-1.5b", "llama-3-70b", "qwen3-30b-a3b" };
  static const char *const clusters[] = { "h100-80gb", "a100-80gb", "b200-180gb", "mi300x-192gb" };
  g_autoptr (GRand) rand = g_rand_new_with_seed (2);
  guint faster = 0;

  for (guint round = 0, n = n_cases (1000); round < n; round++) {
    guint q = (guint)g_rand_int_range (rand, 2, 13), chunk = 512U << g_rand_int_range (rand, 0, 5);
    g_autofree char *line = g_strdup_printf ("-p %u --serve prefill --prompt %u --model %s --cluster %s --layout even",
                                             1U << g_rand_int_range (rand, 0, 4), q * chunk,
                                             models[g_rand_int_range (rand, 0, G_N_ELEMENTS (models))],
                                             clusters[g_rand_int_range (rand, 0, G_N_ELEMENTS (clusters))]);
    g_autofree char *equal = g_strdup_printf ("%s --chunk %u", line, chunk);
    g_autofree char *even = g_strdup_printf ("%s --chunk even-work:%u", line, q);
    g_autoptr (PsPrediction) a = predict ("gpipe", equal), b = predict ("gpipe", even);

    g_assert_cmpuint (b->prefill->slices[0], ==, q);
    g_assert_cmpint (b->first_token_ns[0], <=, a->first_token_ns[0]);
    faster += b->first_token_ns[0] < a->first_token_ns[0];
  }
  g_test_message ("%u faster", faster);
  g_assert_cmpuint (faster, >, n_cases (1000) * 55 / 100);
}

static void assert_refused (const char *schedule, const char *line, const char *where, const char *value)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSetting) setting = parse (line, &error);
  g_autoptr (PsPrediction) prediction = setting != NULL ? ps_predict (setting, schedule, &error) : NULL;

  g_assert_null (prediction);
  assert_usage (error, where, value);
}

static void test_errors (void)
{
#define COSTS " -p 4 --costs f=1ms"
#define SERVE COSTS " --serve prefill"

  assert_refused ("gpipe", SERVE, "--prompt", "--chunk");
  assert_refused ("gpipe", SERVE " --prompt 8", "--prompt", "--chunk");
  assert_refused ("gpipe", COSTS ",b=1ms,w=1ms --prompt 8 --chunk 2", "--serve", "prefill");
  assert_refused ("gpipe", SERVE " --prompt 8 --chunk 0", "--chunk", "0");
  assert_refused ("gpipe", SERVE " --prompt 8x --chunk 2", "--prompt", "8x");
  assert_refused ("gpipe", SERVE " --prompt 512 --chunk 2", "--prompt 512", "255 chunks");
  assert_refused ("gpipe", SERVE " --prompt 4 --chunk even-work:5", "--prompt 4", "--chunk");
  assert_refused ("1f1b", SERVE " --prompt 8 --chunk 2", "zb-v", "backwards");
  assert_refused ("gpipe", SERVE " --prompt 8 --chunk 2 --recompute full", "--recompute full", "prefill");
  assert_refused ("gpipe", SERVE " --prompt 8 --chunk 2 --slices 4", "--slices 4", "prefill");
  assert_refused ("gpipe", SERVE " --prompt 8 --chunk 2 --replicas 2", "--replicas 2", "prefill");
}

/* A file keeps prompts of different lengths. It has to have the chunks of the options, and they have to be given. */
static void test_file (void)
{
  g_autoptr (PsSetting) setting = parse_good ("-p 2 --serve prefill --prompt 3:5 --chunk 2 --costs f=5ms");
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);
  g_autoptr (PsSchedule) schedule = fine (ps_predictor_schedule (predictor, "gpipe", &error));
  g_autofree char *json = ps_schedule_to_json (schedule), *path = temporary (json);
  g_autoptr (PsSchedule) read = fine (ps_schedule_parse_json ("text", json, -1, &error));
  g_autofree char *again = ps_schedule_to_json (read);
  g_autoptr (PsPrediction) prediction = fine (ps_predict (setting, path, &error));

  g_assert_cmpstr (json, ==, again);
  g_assert_nonnull (strstr (json, "\"slices_of_microbatch\": [2, 3]"));
  g_assert_nonnull (strstr (json, "\"F0.0\", \"F0.0/1\", \"F1.0\", \"F1.0/1\", \"F1.0/2\""));
  g_assert_cmpint (prediction->first_token_ns[1], ==, 10 * MS);
  assert_refused (path, "--serve prefill --prompt 3:5 --chunk 3 --costs f=5ms", "--chunk", "has 2");
  assert_refused (path, "--costs f=5ms,b=1ms,w=1ms", "--serve prefill", "forwards alone");
  g_unlink (path);
}

/* A schedule of F alone needs each F in order; with a backward, all microbatches have as many slices. */
static void test_validate (void)
{
  static const struct {
    const char *slices, *order, *problem; /* NULL: valid */
  } cases[] = {
    { "[2, 1]", "\"F0.0\", \"F0.0/1\", \"F1.0\"", NULL },
    { "[2, 1]", "\"F0.0\", \"F1.0\", \"F0.0/1\"", NULL },
    { "[2, 1]", "\"F0.0\", \"F0.0/1\"", "has no F of microbatch 1" },
    { "[2, 1]", "\"F0.0/1\", \"F0.0\", \"F1.0\"", "comes before the previous slice" },
    { "[2, 1]", "\"F0.0\", \"F0.0/1\", \"F1.0\", \"F1.0/1\"", "no such slice" },
    { "[2, 1]", "\"F0.0\", \"F0.0/1\", \"F1.0\", \"BW1.0\"", "different numbers of slices" },
    { "[2, 2]", "\"F0.0\", \"F0.0/1\", \"F1.0\", \"F1.0/1\", \"BW1.0/1\"", "different numbers of slices" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    g_autofree char *json = g_strdup_printf (
        "{\"format\": \"pipesim-schedule/1\", \"name\": \"x\", \"devices\": 1, \"stages\": 1, \"microbatches\": 2, "
        "\"slices\": 2, \"placement\": [[0]], \"slices_of_microbatch\": %s, \"order\": [[%s]]}",
        cases[i].slices, cases[i].order);
    g_autoptr (PsSchedule) schedule = fine (ps_schedule_parse_json ("text", json, -1, &error));

    g_assert_cmpint (ps_schedule_validate (schedule, &error), ==, cases[i].problem == NULL);
    if (cases[i].problem != NULL)
      g_assert_nonnull (strstr (error->message, cases[i].problem));
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/prefill/closed-form", test_closed_form);
  g_test_add_func ("/prefill/by-hand", test_by_hand);
  g_test_add_func ("/prefill/memory", test_memory);
  g_test_add_func ("/prefill/drawn", test_drawn);
  g_test_add_func ("/prefill/cache", test_cache);
  g_test_add_func ("/prefill/modelled", test_modelled);
  g_test_add_func ("/prefill/even-work", test_even_work);
  g_test_add_func ("/prefill/errors", test_errors);
  g_test_add_func ("/prefill/file", test_file);
  g_test_add_func ("/prefill/validate", test_validate);
  return g_test_run ();
}
