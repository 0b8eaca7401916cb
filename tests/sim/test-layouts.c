/* test-layouts.c - the best layouts, by hand and against predicting everything. */
#include "folder-rig.h"
#include "costdb-rig.h"
#include "cases.h"

#include <pipesim/plan.h>
#include <pipesim/setting.h>

#include <string.h>

#define CLUSTER                                                                                                        \
  "[cluster]\nnodes = 1\ndevices_per_node = 4\nmemory = 4GiB\npeak_flops = 1e12\nefficiency = 0.5\n"                   \
  "link_latency = 20us\nlink_bandwidth = 5GB/s\n"

static char *write_cluster (const char *name, const char *text)
{
  char *path = g_build_filename (folder, name, NULL);

  fine (g_file_set_contents (path, text, -1, &error));
  return path;
}

static char *cluster_file (void)
{
  return write_cluster ("c.ini", CLUSTER);
}

static PsLayouts *find (const PsLayoutQuestion *question)
{
  return fine (ps_layouts_find (question, &error));
}

static const PsLayout *at (const PsLayouts *layouts, guint i)
{
  g_assert_cmpuint (i, <, layouts->best->len);
  return &g_array_index (layouts->best, PsLayout, i);
}

/* tiny-gpt: 8 layers, h 192, s 128, V 512, f = 4h, k = a. A layer's F + B + W of a sequence is s h (72 h + 12 s), the
 * head's 6 s h V:
 *   8 * 128 * 192 * (13824 + 1536) + 6 * 128 * 192 * 512 = 3019898880 + 75497472 = 3095396352 */
static void test_flops (void)
{
  g_autoptr (PsModel) model = ps_model_load ("tiny-gpt", NULL);

  g_assert_cmpfloat (ps_layout_step_flops (model, 1), ==, 3095396352.0);
  g_assert_cmpfloat (ps_layout_step_flops (model, 32), ==, 32 * 3095396352.0);
}

/* More GPUs than one pipeline can have devices. */
static void test_large (void)
{
  char *schedules[] = { (char *)"1f1b", NULL };
  const PsLayoutQuestion question = { .given.model = "llama-3-405b",
                                      .given.cluster = "h100-80gb",
                                      .n_gpus = 1 << 17,
                                      .tensor = 8,
                                      .context = 1,
                                      .zero = 1,
                                      .global_batch = 1 << 17,
                                      .reserve = PS_LAYOUT_USUAL_RESERVE,
                                      .schedules = schedules,
                                      .top = 1 };
  g_autoptr (PsLayouts) layouts = find (&question);
  const PsLayout *best = &g_array_index (layouts->best, PsLayout, 0);

  g_assert_cmpuint (best->setting.n_devices * best->setting.n_tensor * best->setting.n_replicas, ==, 1 << 17);
}

/* 80 GB: a sixteenth is 5 GB, as much as driver and NCCL. 180 GB: 11.25 GB and 5 GB; 1.6 GB: twice a sixteenth. A plan
 * within so much memory less the reserve is the plan within the rest. */
static void test_reserve (void)
{
  const gint64 gb = 1000 * 1000 * 1000;
  g_autofree char *cluster = cluster_file ();
  PsLayoutQuestion question = { .given.model = "tiny-gpt", .given.cluster = cluster, .global_batch = 8, .top = 50 };
  g_autoptr (PsLayouts) all = NULL, some = NULL, rest = NULL, usual = NULL;

  g_assert_cmpint (ps_memory_reserve (80 * gb, PS_FRAMEWORK_NONE), ==, 10 * gb);
  g_assert_cmpint (ps_memory_reserve (80 * gb, PS_FRAMEWORK_MEGATRON), ==, 5 * gb);
  g_assert_cmpint (ps_memory_reserve (180 * gb, PS_FRAMEWORK_NONE), ==, 180 * gb / 16 + 5 * gb);
  g_assert_cmpint (ps_memory_reserve (16 * gb / 10, PS_FRAMEWORK_NONE), ==, 2 * gb / 10);
  all = find (&question);
  question.reserve = ((gint64)4 << 30) - (64 << 20);
  some = find (&question);
  question.reserve = 0;
  question.memory_limit = 64 << 20;
  rest = find (&question);
  g_assert_cmpint (some->memory_limit, ==, 64 << 20);
  g_assert_cmpuint (some->n_fit, ==, rest->n_fit);
  g_assert_cmpuint (all->n_too_large, <, some->n_too_large);
  for (guint i = 0; i < some->best->len; i++)
    g_assert_cmpint (at (some, i)->peak_memory_bytes, <=, 64 << 20);
  question.reserve = PS_LAYOUT_USUAL_RESERVE;
  usual = find (&question);
  g_assert_cmpint (usual->reserve, ==, 8 << 20);
  question.reserve = 64 << 20;
  refused (ps_layouts_find (&question, &error), PS_ERROR_USAGE,
           "--reserve 67108864B: leaves nothing of the memory of a GPU");
}

/* DeepSpeed runs 1f1b alone: its layouts come first, in order, and as many of the rest after them. One device has one
 * chunk, also where only interleaved is asked for, which Megatron-LM then runs as 1F1B. */
static void test_runner (void)
{
  char *interleaved[] = { (char *)"interleaved", NULL };
  g_autofree char *cluster = cluster_file ();
  PsLayoutQuestion question
      = { .given.model = "tiny-gpt", .given.cluster = cluster, .global_batch = 8, .top = 3, .runner = "deepspeed" };
  g_autoptr (PsLayouts) layouts = find (&question), single = NULL;
  guint n_run = 0;

  for (guint i = 0; i < layouts->best->len; i++) {
    const PsLayout *layout = at (layouts, i);

    g_assert_true (layout->not_run == (i >= 3));
    g_assert_true (layout->not_run || g_str_equal (layout->schedule, "1f1b")
                   || (g_str_equal (layout->schedule, "interleaved") && layout->setting.n_chunks == 1));
    g_assert_true (i % 3 == 0 || at (layouts, i - 1)->step_ns <= layout->step_ns);
    n_run += !layout->not_run;
  }
  g_assert_cmpuint (n_run, ==, 3);
  g_assert_cmpuint (layouts->best->len, ==, 6);
  question.runner = "megatron";
  question.schedules = interleaved;
  question.top = 20;
  single = find (&question);
  for (guint i = 0; i < single->best->len; i++)
    g_assert_true (at (single, i)->setting.n_devices > 1
                   || (at (single, i)->setting.n_chunks == 1 && !at (single, i)->not_run));
}

/* Slices of a long sequence are cut to even work where that is faster; the command says how, and has that step. A
 * runner that has no word for it, or a short sequence, has equal ones. */
static void test_even_work (void)
{
  char *sliced[] = { (char *)"seq1f1b", NULL };
  g_autofree char *cluster = cluster_file ();
  g_autofree char *model = write_cluster ("long.ini", "[model]\nlayers = 8\nhidden = 192\nheads = 6\nsequence = 16384\n"
                                                      "feed_forward = 768\nvocabulary = 512\nmicrobatch_size = 1\n"
                                                      "precision = fp32\nmlp = gelu\nflash_attention = true\n");
  PsLayoutQuestion question = { .given.model = model,
                                .given.cluster = cluster,
                                .global_batch = 1,
                                .schedules = sliced,
                                .top = 9,
                                .context = 1,
                                .tensor = 1,
                                .memory_limit = (gint64)1 << 40 };
  g_autoptr (PsLayouts) layouts = find (&question), run = NULL, brief = NULL;
  const PsLayout *best = at (layouts, 0);
  g_autoptr (PsPredictor) predictor = ps_predictor_new (&best->setting, NULL);
  g_autoptr (PsPrediction) even = fine (ps_predictor_predict (predictor, "seq1f1b", &error));
  g_autofree char *command = ps_layout_command (best);

  g_assert_cmpuint (best->setting.n_devices, ==, 4);
  g_assert_cmpuint (best->setting.n_slices, ==, 4);
  g_assert_nonnull (strstr (command, " --slices even-work:4 "));
  g_assert_cmpint (even->metrics.iteration_ns, ==, best->step_ns);
  question.runner = "megatron";
  run = find (&question);
  question.runner = NULL;
  question.given.model = "tiny-gpt";
  brief = find (&question);
  for (guint i = 0; i < run->best->len; i++)
    g_assert_cmpuint (at (run, i)->setting.even_work, ==, 0);
  for (guint i = 0; i < brief->best->len; i++)
    g_assert_cmpuint (at (brief, i)->setting.even_work, ==, 0);
  g_assert_cmpint (best->step_ns, <, at (run, 0)->step_ns);
}

/* One GPU that reaches half of its peak: a step of 4 sequences takes 4 * 3095396352 / 5e11 s = 24763170.8 ns but for
 * the rounding of single ops, the MFU is the efficiency, 4 * 128 tokens over the step are 20676 per second. With full
 * recomputation the layers' forwards, 4 * 8 * 128 * 192 * (24 h + 4 s) = 4 * 1006632960 more, do not count as useful.
 */
static void test_one_gpu (void)
{
  g_autofree char *cluster = cluster_file ();
  char *schedules[] = { "1f1b", NULL };
  PsLayoutQuestion question = { .given.model = "tiny-gpt",
                                .given.cluster = cluster,
                                .n_gpus = 1,
                                .global_batch = 4,
                                .schedules = schedules,
                                .zero = TRUE,
                                .top = 100 };
  g_autoptr (PsLayouts) layouts = find (&question);
  const PsLayout *first = at (layouts, 0), *last = at (layouts, layouts->best->len - 1);

  /* b = 1, 2, 4, and three recomputations */
  g_assert_cmpuint (layouts->n_settings, ==, 9);
  g_assert_cmpuint (layouts->n_fit, ==, 9);
  g_assert_cmpint (llabs (first->step_ns - 24763171), <=, 8);
  g_assert_cmpfloat_with_epsilon (first->mfu, 0.5, 1e-6);
  g_assert_cmpfloat_with_epsilon (first->tokens_per_second, 512 / 0.0247631708, 0.1);
  g_assert_cmpuint (first->setting.n_replicas, ==, 1);
  g_assert_cmpuint (ps_setting_zero (&first->setting), ==, 0);
  g_assert_cmpstr (first->costs_origin, ==, "modelled");
  g_assert_cmpint (first->confidence, ==, PS_CONFIDENCE_LOW);
  g_assert_cmpint (last->setting.recompute, ==, PS_RECOMPUTE_FULL);
  g_assert_cmpfloat_with_epsilon (last->mfu, 0.5 * 3095396352 / (3095396352 + 1006632960.0), 1e-6);
}

/* Runs of a100-80gb in 16 bits were published, and none in the 32 bits that tiny-gpt has. */
static void test_confidence (void)
{
  char *schedules[] = { "1f1b", NULL };
  PsLayoutQuestion question = { .given.model = "tiny-gpt",
                                .given.cluster = "a100-80gb",
                                .n_gpus = 1,
                                .global_batch = 1,
                                .schedules = schedules,
                                .top = 1 };
  g_autoptr (PsLayouts) unknown = find (&question);

  question.given.precision = "bf16";
  g_autoptr (PsLayouts) known = find (&question);
  g_assert_cmpint (at (unknown, 0)->confidence, ==, PS_CONFIDENCE_LOW);
  g_assert_cmpint (at (known, 0)->confidence, ==, PS_CONFIDENCE_MEDIUM);
}

/* Numbers of chunks of interleaved on p devices: 1 on a device alone; else 2, its own, and others that are powers of
 * two, or that cut the layers, or these with embedding and loss, evenly. */
static guint count_chunks (guint p, guint layers)
{
  guint n = p > 1;

  for (guint v = 3; p > 1 && v <= 20; v++)
    n += p * v <= layers + 2 && (v == 4 || v == 8 || layers % (p * v) == 0 || (layers + 2) % (p * v) == 0);
  return n;
}

/* The settings of a space, counted by hand; none is predicted, as no weights fit. */
static void test_space (void)
{
  static const struct {
    guint n_gpus, per_node, layers, heads, sequence, experts;
    gint64 global_batch;
    gboolean flash;
  } cases[] = {
    { 1, 4, 8, 8, 128, 0, 1, FALSE },       { 4, 4, 8, 8, 128, 0, 8, FALSE },    { 16, 8, 12, 16, 128, 0, 15, TRUE },
    { 12, 4, 5, 4, 8191, 0, 16, TRUE },     { 16, 16, 6, 16, 8192, 0, 3, TRUE }, { 16, 16, 6, 16, 20480, 0, 2, TRUE },
    { 64, 8, 12, 8, 128, 7, 2, FALSE },     { 64, 8, 12, 8, 128, 8, 64, TRUE },  { 128, 8, 4, 8, 16384, 128, 1, TRUE },
    { 128, 8, 126, 2, 16384, 96, 4, TRUE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    const guint n = cases[i].n_gpus, sequence = cases[i].sequence, experts = cases[i].experts;
    guint b = 1, expected = 0;
    g_autofree char *cluster_text = g_strdup_printf (
        "[cluster]\nnodes = 64\ndevices_per_node = %u\nmemory = 1KiB\npeak_flops = 1e12\nefficiency = 0.5\n"
        "link_latency = 20us\nlink_bandwidth = 5GB/s\nnetwork_latency = 20us\nnetwork_bandwidth = 5GB/s\n",
        cases[i].per_node);
    g_autofree char *more
        = experts ? g_strdup_printf ("experts = %u\nactive_experts = 1\nexpert_feed_forward = 64\n", experts)
                  : g_strdup ("");
    g_autofree char *model_text = g_strdup_printf (
        "[model]\nlayers = %u\nhidden = 256\nheads = %u\nsequence = %u\nfeed_forward = 1024\nvocabulary = 512\n"
        "microbatch_size = 1\nprecision = bf16\nmlp = swiglu\nflash_attention = %s\n%s",
        cases[i].layers, cases[i].heads, sequence, cases[i].flash ? "true" : "false", more);
    g_autofree char *cluster = write_cluster ("space.ini", cluster_text),
                    *model = write_cluster ("model.ini", model_text);
    char *schedules[] = { (char *)"1f1b", (char *)"interleaved", NULL };
    PsLayoutQuestion question = { .given.model = model,
                                  .given.cluster = cluster,
                                  .n_gpus = n,
                                  .global_batch = cases[i].global_batch,
                                  .zero = 1,
                                  .schedules = schedules,
                                  .top = 1 };
    g_autoptr (PsLayouts) layouts = find (&question);

    for (; b < 5 && 1 << b <= cases[i].global_batch; b++) /* 1, 2, 4, 8, 16 */
      ;
    for (guint p = 1; p <= MIN (n, cases[i].layers + 2); p++)
      for (guint t = 1; t <= 8; t *= 2)
        for (guint c = 1; c == 1 || c <= sequence / 4096; c *= 2)
          for (guint e = 4; e <= 64; e *= 2) /* 4 stands for 1 */
          {
            gboolean fits = n % (p * t * c) == 0 && cases[i].per_node % t == 0 && cases[i].heads % t == 0
                            && sequence % t == 0 && sequence % c == 0;
            gboolean shares = e == 4 || (e <= experts && experts % e == 0 && n / p % e == 0);

            if (fits && shares)
              expected += b * 3 * (1 + count_chunks (p, cases[i].layers)); /* 3 sets of modules to recompute */
          }
    g_test_message ("%u: %u settings", i, expected);
    g_assert_cmpuint (layouts->n_settings, ==, expected);
    g_assert_cmpuint (layouts->n_hopeless + layouts->n_impossible, ==, expected);
    g_assert_cmpuint (layouts->best->len, ==, 0);
  }
}

static void check_same (const PsLayouts *a, const PsLayouts *b)
{
  g_assert_cmpuint (a->best->len, ==, b->best->len);
  for (guint i = 0; i < a->best->len; i++) {
    const PsLayout *x = at (a, i), *y = at (b, i);

    g_assert_cmpstr (x->schedule, ==, y->schedule);
    g_assert_cmpint (x->step_ns, ==, y->step_ns);
    g_assert_true (x->setting.n_devices == y->setting.n_devices && x->setting.n_tensor == y->setting.n_tensor
                   && x->setting.n_chunks == y->setting.n_chunks && x->microbatch_size == y->microbatch_size
                   && x->setting.recompute == y->setting.recompute);
  }
  g_assert_cmpuint (a->n_fit, ==, b->n_fit);
  g_assert_cmpuint (a->n_too_large, ==, b->n_too_large);
  g_assert_cmpuint (a->n_outrun, ==, b->n_outrun);
  g_assert_cmpuint (a->n_impossible, ==, b->n_impossible);
}

/* Counts included: what is left out must not depend on who was faster. */
static void test_threads (void)
{
  g_autofree char *cluster = cluster_file ();
  PsLayoutQuestion question
      = { .given.model = "tiny-gpt", .given.cluster = cluster, .n_gpus = 4, .global_batch = 16, .top = 12 };
  g_autoptr (PsLayouts) one = find (&question);

  g_assert_cmpuint (one->n_outrun, >, 0);
  for (guint i = 0; i < one->best->len; i++) /* nobody cuts the model of a single device into chunks */
    g_assert_true (at (one, i)->setting.n_devices > 1 || at (one, i)->setting.n_chunks == 1);
  for (guint i = 1; i < one->best->len; i++) /* of equally fast ones first the one of fewer devices, ... */
  {
    const PsLayout *a = at (one, i - 1), *b = at (one, i);
    const gint64 steps[][2] = { { a->step_ns, b->step_ns },
                                { a->setting.n_devices, b->setting.n_devices },
                                { a->setting.n_tensor, b->setting.n_tensor },
                                { a->microbatch_size, b->microbatch_size },
                                { a->setting.recompute, b->setting.recompute },
                                { 0, strcmp (b->schedule, a->schedule) },
                                { a->setting.n_chunks, b->setting.n_chunks } };
    guint k = 0;

    while (k < G_N_ELEMENTS (steps) && steps[k][0] == steps[k][1])
      k++;
    g_assert_true (k < G_N_ELEMENTS (steps) && steps[k][0] < steps[k][1]);
  }
  for (guint jobs = 2; jobs <= 5; jobs += 3) {
    question.n_jobs = jobs;
    g_autoptr (PsLayouts) several = find (&question);
    check_same (one, several);
  }
}

/* Both bounds do save something here. */
static void test_bounds (void)
{
  g_autofree char *cluster = cluster_file ();
  PsLayoutQuestion question
      = { .given.model = "tiny-gpt", .given.cluster = cluster, .n_gpus = 4, .global_batch = 16, .top = 3 };
  g_autoptr (PsLayouts) roomy = find (&question);

  g_assert_cmpint (roomy->memory_limit, ==, (gint64)4 << 30);
  g_assert_cmpuint (roomy->n_outrun, >, 0);
  g_assert_cmpuint (roomy->n_hopeless, ==, 0);
  question.memory_limit = (gint64)40 << 20;
  g_autoptr (PsLayouts) tight = find (&question);
  g_assert_cmpuint (tight->n_hopeless, >, 0);
}

/* The step of the best layout on n GPUs; G_MAXINT64: there is none. */
static gint64 best_step (PsLayoutQuestion question, guint n)
{
  question.n_gpus = n;
  g_autoptr (PsLayouts) layouts = find (&question);
  return layouts->best->len > 0 && !at (layouts, 0)->not_run ? at (layouts, 0)->step_ns : G_MAXINT64;
}

/* Against the steps on 1, 2, 4 and all multiples of 4: the fewest are the first of them that are fast enough. A
 * step does not get shorter with every number. */
static void check_fewest (PsLayoutQuestion question)
{
  enum { MOST = 15 };
  gint64 steps[MOST + 2];
  guint n_slower = 0;

  for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
    steps[i] = best_step (question, i < 2 ? i + 1 : 4 * (i - 1));
  for (guint i = 1; i < G_N_ELEMENTS (steps); i++)
    n_slower += steps[i] > steps[i - 1];
  g_assert_cmpuint (n_slower, >, 0);
  for (guint i = 0; i < 2 * G_N_ELEMENTS (steps); i++) {
    question.slowest_ns = steps[i / 2] - i % 2;
    guint first = 0;
    while (first < G_N_ELEMENTS (steps) && steps[first] > question.slowest_ns)
      first++;
    if (first == G_N_ELEMENTS (steps) || steps[i / 2] == G_MAXINT64)
      continue;
    g_autoptr (PsLayouts) least = fine (ps_layouts_find_least (&question, &error));
    g_assert_cmpuint (least->n_gpus, ==, first < 2 ? first + 1 : 4 * (first - 1));
    g_assert_cmpint (at (least, 0)->step_ns, ==, steps[first]);
    g_assert_cmpint (least->slowest_ns, ==, question.slowest_ns);
  }
}

#define WIDE CLUSTER "network_latency = 20us\nnetwork_bandwidth = 2GB/s\n"

static void test_fewest (void)
{
  char *schedules[] = { (char *)"1f1b", (char *)"interleaved", NULL };
  g_autofree char *cluster = write_cluster ("wide.ini", WIDE), *single = cluster_file ();
  PsLayoutQuestion question
      = { .given.model = "tiny-gpt", .given.cluster = cluster, .global_batch = 24, .schedules = schedules, .top = 1 };

  check_fewest (question);
  question.memory_limit = 40 << 20;
  check_fewest (question);
  question.runner = "deepspeed";
  check_fewest (question);
  question.runner = NULL;
  /* 24 sequences of 128 tokens: 3072 tokens make 1000 steps of 24 days, so one takes 2073.6 s. */
  question.tokens = 3072 * 1000;
  question.days = 24;
  g_autoptr (PsLayouts) slow = fine (ps_layouts_find_least (&question, &error));
  g_assert_cmpint (slow->step_tokens, ==, 3072);
  g_assert_cmpint (slow->slowest_ns, ==, G_GINT64_CONSTANT (2073600000000));
  question.memory_limit = 0;
  question.slowest_ns = 1000;
  g_autoptr (PsLayouts) none = fine (ps_layouts_find_least (&question, &error));
  g_assert_cmpuint (none->best->len, ==, 0);
  question.given.cluster = single; /* no network: one node */
  g_autoptr (PsLayouts) node = fine (ps_layouts_find_least (&question, &error));
  g_assert_cmpuint (node->n_gpus, ==, 4);
  g_assert_cmpuint (node->n_sizes, ==, 3);
  question.given.db = "x.db";
  refused (ps_layouts_find_least (&question, &error), PS_ERROR_USAGE,
           "--db: the fewest GPUs need modelled costs; measured ones hold for one number");
  question.given.db = NULL;
  question.tokens = 0;
  refused (ps_layouts_find_least (&question, &error), PS_ERROR_USAGE,
           "--days: needs --tokens N, those of the whole training");
}

/* The layout on p devices of 2 GPUs with b = 2 and full recomputation. */
static char *command_of (const PsLayoutQuestion *question, guint p)
{
  g_autoptr (PsLayouts) layouts = find (question);

  for (guint i = 0; i < layouts->best->len; i++)
    if (at (layouts, i)->setting.n_devices == p && at (layouts, i)->microbatch_size == 2
        && at (layouts, i)->setting.recompute == PS_RECOMPUTE_FULL)
      return ps_layout_command (at (layouts, i));
  g_assert_not_reached ();
}

/* A memory limit is said where it was asked for, and --zero and --adjacent-replicas where there are replicas. */
static void test_command (void)
{
  g_autoptr (PsModel) tiny = ps_model_load ("tiny-gpt", NULL);
  g_autofree char *text = ps_model_to_text (tiny), *model = write_cluster ("a b.ini", text), *cluster = cluster_file ();
  char *schedules[] = { (char *)"1f1b", NULL };
  PsLayoutQuestion question = { .given.model = model,
                                .given.cluster = cluster,
                                .n_gpus = 4,
                                .tensor = 2,
                                .context = 1,
                                .zero = 1,
                                .global_batch = 8,
                                .memory_limit = 1 << 30,
                                .schedules = schedules,
                                .top = 100 };
  g_autofree char *sources = g_strdup_printf ("--microbatch-size 2 --model '%s' --cluster %s", model, cluster);
  g_autofree char *pipeline = command_of (&question, 2), *replicas = command_of (&question, 1);
  g_autofree char *two = g_strdup_printf ("pipesim predict --schedule 1f1b -p 2 -m 4 -v 1 %s --layout even "
                                          "--recompute full --tensor 2 --memory-limit 1073741824B",
                                          sources);
  g_autofree char *one = g_strdup_printf ("pipesim predict --schedule 1f1b -p 1 -m 2 -v 1 %s --layout even "
                                          "--recompute full --replicas 2 --tensor 2 --zero 1 --memory-limit "
                                          "1073741824B",
                                          sources);

  g_assert_cmpstr (pipeline, ==, two);
  g_assert_cmpstr (replicas, ==, one);
  question.runner = "megatron";
  question.memory_limit = 0;
  question.reserve = PS_LAYOUT_USUAL_RESERVE;
  g_autofree char *placed = command_of (&question, 1), *single = command_of (&question, 2);
  g_assert_nonnull (strstr (placed, " --adjacent-replicas"));
  g_assert_null (strstr (single, " --adjacent-replicas"));
  g_assert_null (strstr (single, " --memory-limit"));
}

/* Measured: tiny-gpt's own microbatches of 2 sequences, so that m = 4, and F and BW, 10 and 30 us, of one device with
 * all layers: 4 * 40 us and O, 5 us, which the iteration holds too. */
static void test_measured (void)
{
  g_autofree char *cluster = cluster_file (), *path = path_of ("costs.db");
  char *schedules[] = { "1f1b", NULL };
  const gint64 times[] = {
    [PS_OP_F] = 10000, [PS_OP_B] = 15000, [PS_OP_W] = 15000, [PS_OP_BW] = 30000, [PS_OP_R] = 10000, [PS_OP_O] = 5000
  };
  PsCostDb *db = open_db (path, PS_COSTDB_WRITE);
  gint64 profile = begin (db, "x");
  PsLayoutQuestion question = { .given.db = path,
                                .given.cluster = cluster,
                                .n_gpus = 1,
                                .global_batch = 8,
                                .schedules = schedules,
                                .zero = TRUE,
                                .top = 2 };

  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
    store (db, profile, new_op ((PsOpKind)kind, "layers=8,embedding,head", 1, times[kind]));
  ps_costdb_close (db);
  g_autoptr (PsLayouts) layouts = find (&question);
  g_assert_cmpstr (at (layouts, 0)->costs_origin, ==, "measured");
  g_assert_cmpint (at (layouts, 0)->confidence, ==, PS_CONFIDENCE_HIGH);
  g_assert_cmpuint (at (layouts, 0)->setting.n_microbatches, ==, 4);
  g_assert_cmpuint (at (layouts, 0)->microbatch_size, ==, 2);
  g_assert_cmpint (at (layouts, 0)->step_ns, ==, 165000);
  remove_database (path);
  g_unlink (cluster);
}

static void check_refused (const PsLayoutQuestion *question, const char *wanted)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsLayouts) layouts = ps_layouts_find (question, &error);

  g_assert_null (layouts);
  g_assert_nonnull (error);
  if (strstr (error->message, wanted) == NULL || strchr (error->message, '\n') != NULL)
    g_error ("'%s' is not in '%s'", wanted, error->message);
}

/* Measured with all layers on one device, in microbatches of b sequences. */
static void store_model (PsCostDb *db, const char *name, const char *model_name, guint b, gint64 bw_ns)
{
  g_autoptr (PsProfile) profile = new_profile (name);
  g_autoptr (PsModel) model = ps_model_load (model_name, NULL);
  g_autofree char *shape = g_strdup_printf ("layers=%u,embedding,head", model->layers);
  gint64 id = 0;

  model->microbatch_size = b;
  g_free (profile->model_name);
  g_free (profile->model_digest);
  g_free (profile->model_text);
  profile->model_name = g_strdup (model_name);
  profile->model_digest = ps_model_digest (model);
  profile->model_text = ps_model_to_text (model);
  g_assert_true (ps_costdb_begin_profile (db, profile, &id, NULL));
  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
    store (db, id, new_op ((PsOpKind)kind, shape, 1, kind == PS_OP_BW ? bw_ns : 10000));
}

/* Two profiles of tiny-gpt: 8 microbatches of one sequence take 8 * (10 + 40) us and O, 10 us; 2 of four take
 * 2 * (10 + 120) us and O. Beside another model in the database it has to be said which is meant. */
static void test_profiles (void)
{
  g_autofree char *cluster = cluster_file (), *path = path_of ("several.db"), *command = NULL;
  char *schedules[] = { "1f1b", NULL };
  PsCostDb *db = open_db (path, PS_COSTDB_WRITE);
  PsLayoutQuestion question = {
    .given.db = path, .given.cluster = cluster, .n_gpus = 1, .global_batch = 8, .schedules = schedules, .top = 4
  };
  g_autoptr (PsLayouts) layouts = NULL, named = NULL;

  store_model (db, "b1", "tiny-gpt", 1, 40000);
  store_model (db, "b4", "tiny-gpt", 4, 120000);
  layouts = find (&question);
  g_assert_cmpint (at (layouts, 0)->step_ns, ==, 270000);
  g_assert_cmpstr (at (layouts, 0)->setting.profile, ==, "b4");
  g_assert_cmpuint (at (layouts, 0)->microbatch_size, ==, 4);
  g_assert_cmpuint (at (layouts, 0)->setting.n_microbatches, ==, 2);
  g_assert_cmpint (at (layouts, 2)->step_ns, ==, 410000);
  g_assert_cmpstr (at (layouts, 2)->setting.profile, ==, "b1");
  command = ps_layout_command (at (layouts, 2));
  g_assert_nonnull (strstr (command, " --profile b1 --memory-limit"));
  store_model (db, "other", "gpt-1.5b", 1, 1000);
  ps_costdb_close (db);
  check_refused (&question, "holds profiles of several models, 'tiny-gpt' and 'gpt-1.5b' among them");
  question.given.model = "tiny-gpt";
  named = find (&question);
  g_assert_cmpint (at (named, 0)->step_ns, ==, 270000);
  question.given.model = "llama-3-8b";
  check_refused (&question, "holds no profile of model 'llama-3-8b'");
}

static void test_errors (void)
{
  char *wrong[] = { "1f2b", NULL };

  check_refused (&(PsLayoutQuestion){ .given.model = "tiny-gpt" }, "--cluster: missing");
  check_refused (&(PsLayoutQuestion){ .given.cluster = "cpu-cores" }, "--model: missing");
  check_refused (&(PsLayoutQuestion){ .given.cluster = "cpu-cores", .given.model = "tiny-gpt" },
                 "--global-batch: missing");
  check_refused (
      &(PsLayoutQuestion){
          .given.cluster = "cpu-cores", .given.model = "tiny-gpt", .given.profile = "x", .global_batch = 1 },
      "--profile: needs --db");
  check_refused (
      &(PsLayoutQuestion){
          .given.cluster = "cpu-cores", .given.model = "tiny-gpt", .global_batch = 1, .n_gpus = 6, .tensor = 4 },
      "--tensor 4: does not divide the 6 GPUs");
  check_refused (
      &(PsLayoutQuestion){ .given.cluster = "cpu-cores", .given.model = "tiny-gpt", .global_batch = 1, .tensor = 4 },
      "--tensor 4: does not divide heads 6 of model 'tiny-gpt'");
  check_refused (
      &(PsLayoutQuestion){ .given.cluster = "cpu-cores", .given.db = "x.db", .global_batch = 1, .tensor = 2 },
      "--tensor: needs modelled costs");
  check_refused (&(PsLayoutQuestion){ .given.cluster = "cpu-cores", .given.model = "a,b", .global_batch = 1 },
                 "'a,b' has one of");
  check_refused (
      &(PsLayoutQuestion){
          .given.cluster = "cpu-cores", .given.model = "tiny-gpt", .given.precision = "fp9", .global_batch = 1 },
      "--precision: 'fp9'");
  check_refused (
      &(PsLayoutQuestion){
          .given.cluster = "cpu-cores", .given.db = "x.db", .given.precision = "bf16", .global_batch = 1 },
      "--precision: needs --model FILE");
  check_refused (&(PsLayoutQuestion){ .given.cluster = "cpu-cores", .given.model = "no-such", .global_batch = 1 },
                 "'no-such'");
  check_refused (&(PsLayoutQuestion){ .given.cluster = "no-such", .given.model = "tiny-gpt", .global_batch = 1 },
                 "'no-such'");
  check_refused (
      &(PsLayoutQuestion){
          .given.cluster = "cpu-cores", .given.model = "tiny-gpt", .global_batch = 1, .schedules = wrong },
      "'1f2b' is no family");
}

/* Layouts against predicting everything. */

/* Against everything, one at a time */

typedef struct {
  guint p, t, b, v; /* v 0: the family's own */
  PsRecompute recompute;
} Choice;

static PsSetting *setting_of (const PsLayoutQuestion *question, const Choice *choice)
{
  PsSetting *setting = ps_setting_new ();
  guint d = question->n_gpus / (choice->p * choice->t);

  setting->model = g_strdup (question->given.model);
  setting->cluster = g_strdup (question->given.cluster);
  setting->n_devices = choice->p;
  setting->n_tensor = choice->t;
  setting->n_chunks = choice->v;
  setting->n_replicas = d;
  setting->zero = question->zero && d > 1;
  setting->microbatch_size = choice->b;
  setting->n_microbatches = (guint)question->global_batch / (choice->b * d);
  setting->recompute = choice->recompute;
  setting->memory_limit = g_memdup2 (&question->memory_limit, sizeof question->memory_limit);
  setting->n_memory_limits = 1;
  return setting;
}

static void try_one (const PsLayoutQuestion *question, const Choice *choice, GArray *times)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  if (question->global_batch % (choice->b * (question->n_gpus / (choice->p * choice->t))) != 0)
    return;
  g_autoptr (PsSetting) setting = setting_of (question, choice);
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL); /* reads model and cluster once */
  for (guint i = 0; i < n; i++)
    if (!families[i]->slices_by_p
        && (choice->p > 1 ? choice->v != families[i]->default_chunks : families[i]->default_chunks == 1)) {
      g_autoptr (PsPrediction) prediction = ps_predictor_predict (predictor, families[i]->name, NULL);

      if (prediction != NULL && prediction->feasible && !prediction->program->schedule->asynchronous)
        g_array_append_val (times, prediction->metrics.iteration_ns);
    }
}

static void try_families (const PsLayoutQuestion *question, Choice choice, GArray *times)
{
  static const PsRecompute kinds[] = { PS_RECOMPUTE_NONE, PS_RECOMPUTE_SELECTIVE, PS_RECOMPUTE_FULL };

  for (choice.b = 1; choice.b <= 16; choice.b *= 2)
    for (guint kind = 0; kind < G_N_ELEMENTS (kinds); kind++) {
      choice.recompute = kinds[kind];
      try_one (question, &choice, times);
    }
}

/* A single device runs schedules of one chunk. tiny-gpt has 8 layers, so that no other number of chunks than 1, 2, 4
 * and 8 cuts them evenly; 5 chunks of 2 devices cut these with embedding and loss. It has 6 heads: 4 GPUs cannot share
 * them. Its 128 tokens are too few for slices (PS_LAYOUT_SLICE). */
static GArray *try_all (const PsLayoutQuestion *question)
{
  static const guint chunks[] = { 0, 1, 2, 4, 5, 8 };
  GArray *times = g_array_new (FALSE, FALSE, sizeof (gint64));

  for (guint p = 1; p <= question->n_gpus; p++)
    for (guint t = 1; p * t <= question->n_gpus; t *= 2)
      for (guint i = 0; i < G_N_ELEMENTS (chunks) && question->n_gpus % (p * t) == 0; i++)
        if (p * chunks[i] <= 10 && (p == 1) == (chunks[i] == 1) && (chunks[i] != 5 || p <= 2)
            && (question->tensor == 0 || t == question->tensor))
          try_families (question, (Choice){ .p = p, .t = t, .v = chunks[i] }, times);
  g_array_sort (times, ps_compare_int64);
  return times;
}

static void check_against_all (const PsLayoutQuestion *question)
{
  g_autoptr (PsLayouts) layouts = find (question);
  g_autoptr (GArray) times = try_all (question);

  g_assert_cmpuint (layouts->best->len, ==, MIN (times->len, question->top));
  for (guint i = 0; i < layouts->best->len; i++) {
    g_assert_cmpint (at (layouts, i)->step_ns, ==, g_array_index (times, gint64, i));
    g_assert_cmpint (at (layouts, i)->peak_memory_bytes, <=, question->memory_limit);
    g_assert_cmpuint (at (layouts, i)->setting.n_devices * at (layouts, i)->setting.n_tensor
                          * at (layouts, i)->setting.n_replicas,
                      ==, question->n_gpus);
  }
  g_assert_cmpuint (layouts->n_settings, ==,
                    layouts->n_fit + layouts->n_too_large + layouts->n_hopeless + layouts->n_outrun
                        + layouts->n_impossible);
  g_assert_cmpuint (layouts->n_fit, <=, times->len);
}

static void test_everything (void)
{
  g_autofree char *cluster = cluster_file ();
  PsLayoutQuestion question
      = { .given.model = "tiny-gpt", .given.cluster = cluster, .n_gpus = 4, .global_batch = 8, .top = 12 };
  const struct {
    gint64 memory_limit;
    gboolean zero;
    guint tensor;
  } cases[] = { { 22 << 20, TRUE, 2 },  { 22 << 20, TRUE, 0 }, { (gint64)4 << 30, TRUE, 0 },
                { 40 << 20, FALSE, 0 }, { 40 << 20, TRUE, 0 }, { 1 << 20, TRUE, 0 } /* nothing fits */ };

  for (guint i = 0; i < n_cases (G_N_ELEMENTS (cases)); i++) {
    question.memory_limit = cases[i].memory_limit;
    question.zero = cases[i].zero;
    question.tensor = cases[i].tensor;
    check_against_all (&question);
  }
}

/* Folded by hand from all settings in their order: the first of each layout, and the schedules near it. */
static void check_folded (const PsLayouts *every, const PsLayouts *folded)
{
  g_autoptr (GPtrArray) rows = g_ptr_array_new (), near = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; i < every->best->len; i++) {
    const PsLayout *one = at (every, i), *row = NULL;
    guint k = 0;

    for (; k < rows->len && row == NULL; k++) {
      const PsLayout *other = rows->pdata[k];

      if (one->setting.n_devices == other->setting.n_devices && one->setting.n_tensor == other->setting.n_tensor
          && one->setting.n_replicas == other->setting.n_replicas)
        row = other;
    }
    if (row == NULL) {
      g_ptr_array_add (rows, (gpointer)one);
      g_ptr_array_add (near, g_strconcat (one->schedule, ", ", NULL));
    } else if ((one->setting.n_devices > 1 || g_str_equal (one->schedule, "1f1b"))
               && one->step_ns <= row->step_ns + row->step_ns / 100) {
      g_autofree char *before = near->pdata[k - 1], *name = g_strconcat (one->schedule, ", ", NULL);
      g_autofree char *padded = g_strconcat (", ", before, NULL), *wanted = g_strconcat (", ", name, NULL);

      near->pdata[k - 1] = g_strconcat (before, strstr (padded, wanted) == NULL ? name : "", NULL);
    }
  }
  for (guint i = 0; i < folded->best->len; i++) {
    const PsLayout *row = at (folded, i), *wanted = rows->pdata[i];
    g_autofree char *names = g_strjoin (", ", row->schedule, row->near, NULL);
    g_autofree char *all = g_strconcat (names, ", ", NULL);

    g_assert_cmpint (row->step_ns, ==, wanted->step_ns);
    g_assert_cmpuint (row->setting.n_devices, ==, wanted->setting.n_devices);
    g_assert_cmpstr (all, ==, near->pdata[i]);
  }
  g_assert_cmpuint (folded->best->len, ==, MIN (rows->len, 3));
}

static void test_fold (void)
{
  g_autofree char *cluster = cluster_file ();
  PsLayoutQuestion question = { .given.model = "tiny-gpt", .given.cluster = cluster, .n_gpus = 4, .global_batch = 16 };
  const gint64 limits[] = { (gint64)4 << 30, 40 << 20, 22 << 20 };

  for (guint i = 0; i < G_N_ELEMENTS (limits); i++) {
    g_autoptr (PsLayouts) every = NULL, folded = NULL;

    question.memory_limit = limits[i];
    question.top = 5000;
    question.fold = FALSE;
    every = find (&question);
    question.top = 3;
    question.fold = TRUE;
    folded = find (&question);
    check_folded (every, folded);
  }
}

/* Where bytes take time O does, too, and less of it in more replicas with --zero 1. */
static void test_memory_bandwidth (void)
{
  g_autofree char *cluster = write_cluster ("memory.ini", CLUSTER "memory_bandwidth = 10GB/s\n");
  PsLayoutQuestion question
      = { .given.model = "tiny-gpt", .given.cluster = cluster, .n_gpus = 4, .global_batch = 8, .top = 12 };

  for (guint i = 0; i < n_cases (2); i++) {
    question.memory_limit = i == 0 ? 40 << 20 : (gint64)4 << 30;
    question.zero = i == 0;
    check_against_all (&question);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/layouts/flops", test_flops);
  g_test_add_func ("/layouts/reserve", test_reserve);
  g_test_add_func ("/layouts/large", test_large);
  g_test_add_func ("/layouts/even-work", test_even_work);
  g_test_add_func ("/layouts/one-gpu", test_one_gpu);
  g_test_add_func ("/layouts/confidence", test_confidence);
  g_test_add_func ("/layouts/space", test_space);
  g_test_add_func ("/layouts/threads", test_threads);
  g_test_add_func ("/layouts/bounds", test_bounds);
  g_test_add_func ("/layouts/fewest", test_fewest);
  g_test_add_func ("/layouts/command", test_command);
  g_test_add_func ("/layouts/errors", test_errors);
  g_test_add_func ("/layouts/measured", test_measured);
  g_test_add_func ("/layouts/profiles", test_profiles);
  g_test_add_func ("/layouts/runner", test_runner);
  g_test_add_func ("/layouts/fold", test_fold);
  g_test_add_func ("/layouts/everything", test_everything);
  g_test_add_func ("/layouts/memory-bandwidth", test_memory_bandwidth);
  return run_in_folder ();
}
