/* Tests of setting.h and setting.h: predictions of settings. */
#include "setting-rig.h"

#include <pipesim/simulate.h>

/* 1F1B without transfers takes (m + p - 1) (f + b + w) = (8 + 3) * 6 ms and is busy for 8 * 6 ms on each device. Device
 * 0 keeps p = 4 microbatches. */
static void test_predict (void)
{
  g_autoptr (PsSetting) setting
      = parse_good ("-p 4 -m 8 --costs f=1ms,b=2ms,w=3ms,act=10MiB,weights=1MiB --memory-limit 41MiB");
  g_autoptr (PsPrediction) prediction = fine (ps_predict (setting, "1f1b", &error));

  g_assert_cmpint (prediction->metrics.makespan_ns, ==, 66000000);
  g_assert_cmpint (prediction->metrics.iteration_ns, ==, 66000000);
  g_assert_cmpfloat_with_epsilon (prediction->metrics.bubble_ratio, 3.0 / 11, 1e-12);
  g_assert_cmpint (prediction->metrics.device[2].busy_ns, ==, 48000000);
  g_assert_cmpint (prediction->metrics.peak_memory_bytes, ==, 41 << 20);
  g_assert_cmpint (prediction->lower_bound_ns, <=, 66000000);
  g_assert_cmpint (prediction->lower_bound_ns, >=, 48000000);
  g_assert_true (prediction->feasible);
}

/* The same with 1.5 ms for the all-reduce and 1 ms for O: zb-h2 on 4 devices, m = 8, F = B = W = 1 ms has spans of 24
 * ms and no bubble in them. */
static void test_training (void)
{
  g_autoptr (PsSetting) setting = parse_good (
      "-p 4 -m 8 --costs f=1ms,b=1ms,w=1ms,o=1ms,reduce=1500us --replicas 2 --sync bypass --reduce exposed");
  g_autoptr (PsPrediction) prediction = fine (ps_predict (setting, "zb-h2", &error));

  g_assert_cmpint (prediction->metrics.makespan_ns, ==, 27000000);
  g_assert_cmpint (prediction->metrics.iteration_ns, ==, 26500000);
  g_assert_cmpfloat_with_epsilon (prediction->metrics.bubble_ratio, 1 - 24 / 26.5, 1e-12);
  g_assert_cmpuint (prediction->iteration.n_iterations, ==, 1);
}

/* DESIGN's example: p = 8, v = 2, m = 16, chunk ops of 1 and c = 0.2 take 123.0 with a channel for each direction and
 * 194.6 with one stream for each device; planned they take 123.0 again. A device of half the speed, or one at a time on
 * blocking devices, takes longer still. */
static void test_channels (void)
{
  static const struct {
    const char *options;
    gint64 makespan_us;
  } cases[] = {
    { "--comm latency", 123000 },
    { "--comm direction", 123000 },
    { "--comm pair", 123000 },
    { "--comm rank", 194600 },
    { "--comm rank --comm-order planned", 123000 },
    { "--comm direction --comm-order deferred", 123000 },
    { "--comm rank --eager 1KiB", 194600 }, /* sizes are not known */
    { "--comm direction --speed 1:1:1:1:1:1:1:1", 123000 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *line = g_strdup_printf ("-p 8 -m 16 -v 2 --costs f=2ms,b=2ms,w=2ms,c=200us %s", cases[i].options);
    g_autoptr (PsSetting) setting = parse_good (line);
    g_autoptr (PsPrediction) prediction = fine (ps_predict (setting, "interleaved", &error));

    g_assert_cmpint (prediction->metrics.makespan_ns, ==, cases[i].makespan_us * 1000);
  }
}

/* Two devices, one at half the speed: f 1, bw 2; F0.0 1, c 0.1, F0.1 2, BW0.1 4, c 0.1, BW0.0 2: 9.2 and no schedule of
 * one microbatch is faster. With an unequal number of speeds there is no answer. */
static void test_speed (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSetting) setting = parse_good ("-p 2 -m 1 --costs f=1ms,bw=2ms,c=100us --speed 1:0.5");
  g_autoptr (PsPrediction) prediction = fine (ps_predict (setting, "gpipe", &error));

  g_assert_cmpint (prediction->metrics.makespan_ns, ==, 9200000);
  g_assert_cmpint (prediction->lower_bound_ns, <=, 9200000);
  g_assert_cmpint (prediction->lower_bound_ns, >, 9200000 / 2);
  g_autoptr (PsSetting) wrong = parse_good ("-p 3 -m 1 --costs f=1ms,bw=2ms --speed 1:0.5");
  g_autoptr (PsPrediction) none = ps_predict (wrong, "gpipe", &error);
  g_assert_null (none);
  g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
  g_assert_cmpstr (error->message, ==, "--speed: 2 factors for 3 devices; one factor, or 3, would be right");
}

/* A limit counts messages on every channel: device r of 1F1B on four devices holds 4 - r activations of 10 MiB, a
 * message of 1 MiB that it sends, one that it receives. */
static void test_buffers (void)
{
  static const char *const channels[] = { "latency", "direction", "pair", "rank" };

  for (gsize i = 0; i < G_N_ELEMENTS (channels); i++) {
    g_autofree char *line = g_strdup_printf (
        "-p 4 -m 8 --costs f=1ms,bw=2ms,c=1ms,act=10MiB,msg=1MiB --comm %s --memory-limit 41MiB", channels[i]);
    g_autoptr (PsSetting) setting = parse_good (line);
    g_autoptr (PsPrediction) prediction = fine (ps_predict (setting, "1f1b", &error));

    g_assert_cmpint (prediction->metrics.peak_memory_bytes, >=, 42 << 20);
    g_assert_false (prediction->feasible);
  }
}

/* Families that fill a limit leave room for messages. */
static void test_room_for_buffers (void)
{
  static const char *const families[] = { "zb-auto", "zb-v-auto" };

  for (guint mib = 4; mib <= 10; mib++)
    for (guint i = 0; i < G_N_ELEMENTS (families); i++) {
      g_autofree char *line = g_strdup_printf ("-p 4 -m 8 --costs "
                                               "f=1ms,b=1ms,w=1ms,c=100us,act=1MiB,wact=512KiB,msg=100KiB "
                                               "--memory-limit %uMiB",
                                               mib);
      g_autoptr (PsSetting) setting = parse_good (line);
      g_autoptr (PsPrediction) prediction = ps_predict (setting, families[i], NULL);

      g_assert_true (prediction->feasible);
    }
}

/* No iteration is shorter than the bound beside it, whether devices meet or not. */
static void test_bound_of_iterations (void)
{
  static const char *const costs[]
      = { "f=1ms,b=1ms,w=1ms,c=100us", "f=3ms,b=2ms,w=1ms,c=1ms,o=2ms", "f=1ms,bw=1500us" };
  guint n, n_asynchronous = 0;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n * G_N_ELEMENTS (costs) * 2; i++) {
    g_autofree char *line = g_strdup_printf ("-p 4 -m 8 --costs %s --sync %s", costs[i / n % G_N_ELEMENTS (costs)],
                                             i % 2 ? "bypass" : "global");
    g_autoptr (PsSetting) setting = parse_good (line);
    g_autoptr (PsPrediction) prediction = ps_predict (setting, families[i % n]->name, NULL);

    g_assert_nonnull (prediction);
    g_assert_cmpint (prediction->lower_bound_ns, <=, prediction->metrics.iteration_ns);
    g_assert_cmpint (prediction->lower_bound_ns, >, prediction->metrics.iteration_ns / 6);
    n_asynchronous += prediction->program->schedule->asynchronous;
  }
  g_assert_cmpuint (n_asynchronous, >=, 12);
}

/* Without --memory-limit the memory of the cluster is the limit, 4 GiB here, less two sixteenths of it. */
static void test_cluster_memory (void)
{
  g_autoptr (PsSetting) given = parse_good ("--model tiny-gpt --cluster cpu-cores --memory-limit 1MiB:2MiB");
  g_autoptr (PsSetting) shipped = parse_good ("-p 2 -m 4 --model tiny-gpt --cluster cpu-cores");
  g_autoptr (PsSetting) large = parse_good ("-p 4 -m 8 --model llama-3-70b --cluster cpu-cores");
  g_autoptr (PsSetting) none = parse_good ("-p 2 -m 4 --costs f=1ms,bw=2ms");
  g_autoptr (PsPrediction) small = ps_predict (shipped, "1f1b", NULL), too_large = ps_predict (large, "1f1b", NULL);
  g_autofree gint64 *a = NULL, *b = NULL, *c = NULL;
  gint64 reserve;

  g_assert_true (ps_setting_memory_limit (given, 2, &a, NULL, NULL));
  g_assert_cmpint (a[1], ==, 2 << 20);
  g_assert_true (ps_setting_memory_limit (shipped, 2, &b, &reserve, NULL));
  g_assert_cmpint (b[0], ==, (gint64)7 << 29);
  g_assert_cmpint (b[1], ==, (gint64)7 << 29);
  g_assert_cmpint (reserve, ==, (gint64)1 << 29);
  g_assert_true (ps_setting_memory_limit (none, 2, &c, NULL, NULL));
  g_assert_null (c);
  g_assert_true (small->feasible);
  g_assert_false (too_large->feasible);
}

/* What touches the reserve of the cluster's 79.18 GiB only is tight. A limit that is given has no reserve, and 5 GB
 * less is reserved where the framework's habits count them. */
static void test_fits (void)
{
  static const struct {
    const char *line, *fits;
  } cases[] = {
    { "-v 3 --tensor 2", "yes" },
    { "-v 3", "tight" },
    { "-v 3 --memory-limit 79.18GiB", "yes" },
    { "-v 3 --memory-limit 74GiB", "no" },
    { "-v 3 --framework megatron", "no" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *line = g_strconcat ("-p 4 -m 8 --model llama-3-8b --cluster h100-80gb ", cases[i].line, NULL);
    g_autoptr (PsSetting) setting = parse_good (line);
    g_autoptr (PsPrediction) prediction = ps_predict (setting, "interleaved", NULL);

    g_assert_cmpstr (prediction->fits, ==, cases[i].fits);
    g_assert_cmpint (prediction->feasible, ==, g_str_equal (cases[i].fits, "yes"));
  }
  g_assert_cmpstr (ps_fits (0, 0), ==, "yes");
  g_assert_cmpstr (ps_fits (1, 0), ==, "no");
  g_assert_cmpstr (ps_fits (5, 5), ==, "tight");
  g_assert_cmpstr (ps_fits (6, 5), ==, "no");
}

/* More GPUs than the cluster has are said: p t c d against its 32. */
static void test_missing_gpus (void)
{
  static const struct {
    const char *line, *lacks;
  } cases[] = {
    { "-p 4 --tensor 8", NULL },
    { "-p 4 --tensor 8 --replicas 2", "64 GPUs of 'h100-80gb' (which has 32; more nodes like its own are assumed)" },
    { "-p 2 --tensor 4 --context 2 --replicas 8192", "131072 GPUs" },
    { "-p 5 --tensor 8", "40 GPUs" },
    { "-p 1 --tensor 8 --context 8", "64 GPUs" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *line = g_strconcat ("-m 8 --model llama-3-8b --cluster h100-80gb ", cases[i].line, NULL);
    g_autoptr (PsSetting) setting = parse_good (line);
    g_autoptr (PsPrediction) prediction = ps_predict (setting, "1f1b", NULL);

    g_assert_cmpint (strstr (prediction->costs->source, "which has") != NULL, ==, cases[i].lacks != NULL);
    g_assert_true (cases[i].lacks == NULL || strstr (prediction->costs->source, cases[i].lacks) != NULL);
  }
}

/* What the sources of costs cannot answer. */
static void test_training_refused (void)
{
  static const struct {
    const char *line, *where, *value;
  } cases[] = {
    { "--costs f=1ms,bw=1ms --replicas 2", "--replicas 2: command line", "reduce=TIME" },
    { "--costs f=1ms,bw=1ms,reduce=1ms,weights=1MiB --replicas 2 --zero 1", "--zero 1: command line", "opt=SIZE" },
    { "--costs f=1ms,bw=1ms --offload 0.5", "--offload: command line", "host=TIME" },
    { "--costs f=1ms,bw=1ms --recompute selective", "--recompute selective: command line", "keep" },
    { "--costs f=1ms,bw=1ms --recompute full:none", "--recompute: 2 kinds for 4 stages", "one kind, or 4," },
    { "--costs f=1ms,bw=1ms,host=1ms --offload 1:0:1", "--offload: 3 ratios for 4 stages", "one ratio, or 4," },
    { "--model tiny-gpt --cluster cpu-cores --offload 1", "--offload: model 'tiny-gpt'", "host_bandwidth" },
    { "--costs f=1ms,bw=1ms,host=1ms --offload-modules moe_act", "--offload-modules moe_act: command line", "RATIO" },
    { "--model tiny-gpt --cluster a100-80gb --offload-modules moe_act", "--offload-modules moe_act: model 'tiny-gpt'",
      "has no moe_act; it has qkv_linear+core_attn+attn_proj" },
    { "--model tiny-gpt --cluster cpu-cores --offload-modules core_attn", "--offload: model 'tiny-gpt'",
      "host_bandwidth" },
    { "--costs f=1ms,bw=1ms --recompute mlp", "--recompute mlp: command line", "keep" },
    { "--costs f=1ms,bw=1ms --recompute full:layers=2", "--recompute full:layers=2: command line", "keep" },
    { "--model tiny-gpt --cluster a100-80gb --recompute moe", "--recompute moe: model 'tiny-gpt' has no moe",
      "it has core_attn+mlp" },
    { "--model tiny-gpt --cluster cpu-cores --replicas 2", "cluster 'cpu-cores'", "network_bandwidth" },
    { "--model tiny-gpt --cluster a100-80gb --tensor 4", "cluster 'a100-80gb'", "network_bandwidth" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (PsSetting) setting = parse_good (cases[i].line);

    g_assert_null (ps_setting_costs (setting, 4, 1, &error));
    assert_usage (error, cases[i].where, cases[i].value);
  }
}

/* tiny-gpt has 8 layers: 2 on each of 4 devices, with 34sbh + 5as^2b each at 4 bytes; full recomputation keeps sbh
 * elements of each layer. A middle stage's F takes one layer's rest on top, and B and BW take a forward longer. */
static void test_training_of_models (void)
{
  g_autoptr (PsSetting) plain = parse_good ("--model tiny-gpt --cluster a100-80gb");
  g_autoptr (PsSetting) full
      = parse_good ("--model tiny-gpt --cluster a100-80gb --recompute full --replicas 2 --zero 1");
  g_autoptr (PsSetting) selective
      = parse_good ("--model tiny-gpt --cluster a100-80gb --recompute selective --offload 0.5");
  g_autoptr (PsCosts) a = ps_setting_costs (plain, 4, 1, NULL), b = ps_setting_costs (full, 4, 1, NULL);
  g_autoptr (PsCosts) c = ps_setting_costs (selective, 4, 1, NULL);
  gint64 tokens = 128 * 2, boundary = tokens * 192 * 4, scores = 5 * tokens * 128 * 6 * 2;
  gint64 layer = ps_costs_op (a, PS_OP_F, 1)->take_bytes / 2;

  g_assert_cmpint (layer, ==, 34 * tokens * 192 * 2 + scores);
  g_assert_cmpint (ps_costs_op (b, PS_OP_F, 1)->take_bytes, ==, 2 * boundary + (layer - boundary));
  g_assert_cmpint (ps_costs_op (b, PS_OP_F, 1)->give_bytes, ==, layer - boundary);
  g_assert_cmpint (ps_costs_op (b, PS_OP_BW, 1)->duration_ns, ==,
                   ps_costs_op (a, PS_OP_BW, 1)->duration_ns + ps_costs_op (a, PS_OP_F, 1)->duration_ns);
  g_assert_cmpint (b->stage[1].state.optimizer_bytes, ==, a->stage[1].state.optimizer_bytes / 2);
  g_assert_cmpint (b->stage[1].weight_bytes, ==, a->stage[1].weight_bytes - a->stage[1].state.optimizer_bytes / 2);
  g_assert_cmpint (b->stage[1].reduce_ns, >, 0);
  {
    g_autoptr (PsSetting) open = parse_good ("--model tiny-gpt --cluster a100-80gb --replicas 2");
    g_autoptr (PsSetting) none = parse_good ("--model tiny-gpt --cluster a100-80gb --replicas 2 --zero 0");
    g_autoptr (PsCosts) d = ps_setting_costs (open, 4, 1, NULL), e = ps_setting_costs (none, 4, 1, NULL);

    g_assert_cmpint (d->stage[1].state.optimizer_bytes, ==, a->stage[1].state.optimizer_bytes / 2);
    g_assert_cmpint (e->stage[1].state.optimizer_bytes, ==, a->stage[1].state.optimizer_bytes);
    g_assert_false (ps_setting_zero (plain));
  }
  /* Selective drops the scores, and half of what is left goes to the host. */
  g_assert_cmpint (ps_costs_op (c, PS_OP_F, 1)->take_bytes - ps_costs_op (c, PS_OP_F, 1)->give_bytes, ==,
                   layer - scores);
}

static void test_predict_memory_limit (void)
{
  static const struct {
    const char *limit;
    gboolean feasible;
  } cases[] = {
    /* Device r needs 1 MiB + (4 - r) 10 MiB. */
    { "40.9MiB", FALSE },
    { "41MiB:31MiB:21MiB:11MiB", TRUE },
    { "41MiB:31MiB:21MiB:10MiB", FALSE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *line = g_strdup_printf (
        "-p 4 -m 8 --costs f=1ms,b=2ms,w=3ms,act=10MiB,weights=1MiB --memory-limit %s", cases[i].limit);
    g_autoptr (PsSetting) setting = parse_good (line);
    g_autoptr (PsPrediction) prediction = ps_predict (setting, "1f1b", NULL);

    g_assert_cmpint (prediction->feasible, ==, cases[i].feasible);
  }
}

static void test_predict_refused (void)
{
  static const struct {
    const char *line, *where, *value;
  } cases[] = {
    { "-p 4 -m 8", "--costs", "--db" },
    { "-p 4 -m 8 --costs f=1ms,b=1ms,w=1ms --memory-limit 1B:2B", "--memory-limit", "4" },
    { "-p 4 -m 8 --costs f=1ms:1ms,b=1ms,w=1ms", "f has 2 values", "4" },
    { "-p 4 -m 8 --costs f=-1ms,b=1ms,w=1ms", "f", "'-1ms'" },
    { "-p 4 -m 8 --costs f=nan,b=1ms,w=1ms", "f", "'nan'" },
    { "-p 4 -m 8 --costs f=1e30s,b=1ms,w=1ms", "f", "'1e30s'" },
    /* Each op is within bounds, but a thousand of each on every device is not. */
    { "-p 16 -m 1024 --costs f=1000000s,b=1000000s,w=1000000s", "stage", "1024" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (PsSetting) setting = parse_good (cases[i].line);
    g_autoptr (GError) error = NULL;

    g_test_message ("%s", cases[i].line);
    g_assert_null (ps_predict (setting, "1f1b", &error));
    assert_usage (error, cases[i].where, cases[i].value);
  }
}

/* Three stages on two devices have no cost per device. */
static void test_predict_uneven (void)
{
  g_autoptr (PsSetting) setting = parse_good ("--costs f=1ms,bw=2ms");
  g_autofree char *path = temporary (
      "{\"format\": \"pipesim-schedule/1\", \"name\": \"odd\", \"devices\": 2, \"stages\": 3, \"microbatches\": 1,"
      " \"slices\": 1, \"placement\": [[0, 1, 1]],"
      " \"order\": [[\"F0.0\", \"BW0.0\"], [\"F0.1\", \"F0.2\", \"BW0.2\", \"BW0.1\"]]}");

  refused (ps_predict (setting, path, &error), PS_ERROR_SCHEDULE, "*3 stages do not divide over 2 devices*");
  g_unlink (path);
}

static gint64 net_bytes (const PsCosts *costs, PsOpKind kind, guint stage)
{
  const PsOpCost *op = ps_costs_op (costs, kind, stage);

  return op->take_bytes - op->give_bytes;
}

/* Slices of a modelled stage of 8 layers. F of slices of even work takes the same time within 1 %, and all slices take
 * the time of the whole, but for kernels that are smaller. Messages go by tokens. What the slices of a microbatch keep
 * is given back. The last B makes the gradients of the keys and values of all slices before, 2 x 1024 elements of 2
 * bytes for a token and layer; with full recomputation F keeps these keys and values, too. */
static void test_slices (void)
{
  static const char *const cuts[] = { "4", "even-work:4", "32768:16384:8192:8192", "4 --attention-exchange" };

  for (guint i = 0; i < G_N_ELEMENTS (cuts); i++)
    for (guint full = 0; full < 2; full++) {
      g_autofree char *line = g_strdup_printf ("-p 4 -m 4 --model llama-3-8b --cluster h100-80gb --sequence 65536 "
                                               "--layout even --slices %s --recompute %s",
                                               cuts[i], full ? "full" : "none");
      g_autoptr (PsSetting) setting = parse_good (line);
      g_autoptr (PsCosts) costs = fine (ps_setting_costs (setting, 4, 1, &error));
      const PsSliceParts *parts = ps_costs_slices (costs, 4);
      gint64 sum = 0, low = G_MAXINT64, high = 0, bytes = 0, fused = 0;
      guint tokens = 0;

      g_assert_nonnull (parts);
      for (guint k = 0; k < 4; tokens += parts->tokens[k++]) {
        g_autoptr (PsCosts) slice = ps_costs_nth_slice (costs, 4, k);
        gint64 ns = ps_costs_op (slice, PS_OP_F, 1)->duration_ns, keys = 8 * 2 * 1024 * 2 * (gint64)parts->tokens[k];
        gint64 earlier = 8 * 2 * 1024 * 2 * (gint64)tokens;

        sum += ns;
        low = MIN (low, ns);
        high = MAX (high, ns);
        bytes += net_bytes (slice, PS_OP_F, 1) + net_bytes (slice, PS_OP_B, 1) + net_bytes (slice, PS_OP_W, 1);
        fused += net_bytes (slice, PS_OP_F, 1) + net_bytes (slice, PS_OP_BW, 1);
        g_assert_cmpint (slice->message_bytes[ps_transfer_forward (slice, 1)], ==, (gint64)parts->tokens[k] * 4096 * 2);
        if (full) /* the inputs of 8 layers as well */
          g_assert_cmpint (net_bytes (slice, PS_OP_F, 1), ==,
                           8 * 4096 * 2 * (gint64)parts->tokens[k] + (k < 3 ? keys : 0));
        g_assert_cmpint (net_bytes (slice, PS_OP_F, 1) + net_bytes (slice, PS_OP_BW, 1), ==, k < 3 ? -keys : earlier);
      }
      g_assert_cmpuint (tokens, ==, 65536);
      g_assert_cmpint (bytes, ==, 0);
      g_assert_cmpint (fused, ==, 0);
      g_assert_cmpfloat_with_epsilon ((double)sum / (double)ps_costs_op (costs, PS_OP_F, 1)->duration_ns, 1, 0.01);
      if (i == 1)
        g_assert_cmpfloat ((double)high, <=, 1.01 * (double)low);
      if (i == 3)
        g_assert_cmpint (high - low, <=, 1);
      g_autoptr (PsPrediction) prediction = fine (ps_predict (setting, "seq1f1b", &error));
      g_assert_cmpint (prediction->metrics.makespan_ns, >=, prediction->lower_bound_ns);
    }
  g_autoptr (PsSetting) given = parse_good ("-p 2 -m 2 --costs f=1ms,bw=2ms --slices even-work:2");
  refused (ps_predict (given, "seq1f1b", &error), PS_ERROR_USAGE, "--slices: * are of no model*");
  g_autoptr (PsSetting) shared = parse_good ("-p 2 -m 2 --costs f=1ms,bw=2ms --slices 2 --attention-exchange");
  refused (ps_predict (shared, "seq1f1b", &error), PS_ERROR_USAGE, "--attention-exchange: is known of modelled*");
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/setting-predict/predict", test_predict);
  g_test_add_func ("/setting-predict/training", test_training);
  g_test_add_func ("/setting-predict/channels", test_channels);
  g_test_add_func ("/setting-predict/speed", test_speed);
  g_test_add_func ("/setting-predict/slices", test_slices);
  g_test_add_func ("/setting-predict/buffers", test_buffers);
  g_test_add_func ("/setting-predict/room-for-buffers", test_room_for_buffers);
  g_test_add_func ("/setting-predict/bound-of-iterations", test_bound_of_iterations);
  g_test_add_func ("/setting-predict/cluster-memory", test_cluster_memory);
  g_test_add_func ("/setting-predict/training-refused", test_training_refused);
  g_test_add_func ("/setting-predict/training-of-models", test_training_of_models);
  g_test_add_func ("/setting-predict/fits", test_fits);
  g_test_add_func ("/setting-predict/missing-gpus", test_missing_gpus);
  g_test_add_func ("/setting-predict/predict-memory-limit", test_predict_memory_limit);
  g_test_add_func ("/setting-predict/predict-refused", test_predict_refused);
  g_test_add_func ("/setting-predict/predict-uneven", test_predict_uneven);
  return g_test_run ();
}
