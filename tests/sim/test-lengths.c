/* test-lengths.c - microbatches of different lengths: their file, costs, times, memory, bound and order. */
#include "error-rig.h"

#include <pipesim/bound.h>
#include <pipesim/setting.h>
#include <pipesim/simulate.h>

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#define P 3
#define M 6

static PsLengths *parse (const char *text, GError **error)
{
  return ps_lengths_parse ("file", text, strlen (text), error);
}

static void test_file (void)
{
  g_autoptr (PsLengths) lengths
      = parse ("# of a packed batch\nfactor, act,w\n1,2,1\r\n\n 0.5,1,3\n1,2,1\n0.5,1,1\n", NULL);
  g_autoptr (PsLengths) tokens = parse ("tokens\n4096\n1\n4096", NULL);

  g_assert_nonnull (lengths);
  g_assert_cmpuint (lengths->n, ==, 4);
  g_assert_cmpuint (lengths->n_lengths, ==, 3);
  g_assert_cmpuint (lengths->of[2], ==, 0);
  g_assert_cmpuint (lengths->of[3], ==, 2);
  g_assert_cmpfloat (lengths->length[1].factors.f, ==, 0.5);
  g_assert_cmpfloat (lengths->length[1].factors.msg, ==, 0.5);
  g_assert_cmpfloat (lengths->length[1].factors.act, ==, 1);
  g_assert_cmpfloat (lengths->length[1].factors.w, ==, 3);
  g_assert_cmpuint (tokens->n_lengths, ==, 2);
  g_assert_cmpuint (tokens->length[0].tokens, ==, 4096);
}

static void test_wrong_files (void)
{
  static const char *const wrong[][2] = {
    { "tokens\n", "file: no microbatches" },
    { "tokens\n1\nx\n", "file:3: tokens: 'x'" },
    { "tokens\n0\n", "file:2: tokens: '0'" },
    { "tokens,f\n1,1\n", "file:1: tokens and images stand without factors" },
    { "images,c\n1,1\n", "file:1: tokens and images stand without factors" },
    { "images\n-1\n", "file:2: images: '-1'" },
    { "factor,time\n1,1\n", "file:1: unknown column 'time'" },
    { "f,b,f\n1,1,1\n", "file:1: column 'f' appears twice" },
    { "f,b\n1\n", "file:2: 1 fields; the first line has 2" },
    { "f\n-1\n", "file:2: f: '-1'" },
    { "f\n0\n", "file:2: f: '0' is not a number from 0.0001 to 10000" },
    { "f\n1e3\n", "file:2: f: '1e3'" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++) {
    g_autoptr (GError) error = NULL;

    g_assert_null (parse (wrong[i][0], &error));
    g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
    g_assert_true (g_str_has_prefix (error->message, wrong[i][1]));
  }
}

/* A setting with a file of one factor for each of M microbatches. */
typedef struct {
  PsSetting *setting;
  char *path;
  guint factor[M];
} Case;

static void case_clear (Case *c)
{
  g_assert_cmpint (g_remove (c->path), ==, 0);
  ps_setting_free (c->setting);
  g_free (c->path);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Case, case_clear)

/* Unlike g_file_set_contents it does not wait for the disk. */
static char *write_file (const char *text)
{
  char *path;
  int file = g_file_open_tmp ("lengths-XXXXXX.csv", &path, NULL);

  g_assert_cmpint (write (file, text, strlen (text)), ==, strlen (text));
  g_assert_true (g_close (file, NULL));
  return path;
}

static void case_init (Case *c, const char *costs, const char *header, const guint *factor)
{
  g_autoptr (GString) text = g_string_new (header);

  for (guint i = 0; i < M; i++)
    g_string_append_printf (text, "\n%u", c->factor[i] = factor[i]);
  c->path = write_file (text->str);
  c->setting = ps_setting_new ();
  c->setting->n_devices = P;
  c->setting->n_microbatches = M;
  c->setting->costs = g_strdup (costs);
  c->setting->lengths = g_strdup (c->path);
}

static PsPrediction *predict (const PsSetting *setting, const char *schedule)
{
  return fine (ps_predict (setting, schedule, &error));
}

#define COSTS "f=3us:4us:6us,b=5us:4us:3us,w=2us:1us:2us,bw=6us,c=1us,o=7us,act=12KiB,wact=4KiB,msg=1KiB"

/* Duration of a step that is in no pair, from scratch. */
static gint64 step_ns (const Case *c, const PsCosts *alike, const PsProgram *program, guint step)
{
  PsOp op = program->schedule->ops[program->op_of[step]];

  return c->factor[op.microbatch] * ps_costs_op (alike, (PsOpKind)op.kind, op.stage)->duration_ns;
}

/* Both ops of a pair: as much overlaps as for the shorter microbatch. */
static gint64 pair_ns (const Case *c, const PsCosts *alike, const PsProgram *program, guint second)
{
  const PsSchedule *schedule = program->schedule;
  PsOp a = schedule->ops[program->op_of[second - 1]], b = schedule->ops[program->op_of[second]];
  PsOp f = a.kind == PS_OP_F ? a : b, back = a.kind == PS_OP_F ? b : a;
  gint64 forward = ps_costs_op (alike, PS_OP_F, f.stage)->duration_ns;
  gint64 backward = ps_costs_op (alike, PS_OP_BW, f.stage)->duration_ns;
  gint64 saved = forward + backward - alike->stage[f.stage].pair_ns;
  gint64 x = c->factor[f.microbatch], y = c->factor[back.microbatch];

  return alike->stage[f.stage].pair_ns < 0
             ? step_ns (c, alike, program, second - 1) + step_ns (c, alike, program, second)
             : x * forward + y * backward - MIN (x * saved, y * saved);
}

/* The times of the prediction against a run of the same order with the time of every op given. */
static void check_times (const Case *c, const PsCosts *alike, const PsPrediction *prediction)
{
  const PsProgram *program = prediction->program;
  g_autofree gint64 *duration = g_new0 (gint64, program->n_steps), *transfer = g_new0 (gint64, program->n_steps);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);

  for (guint i = 0; i < program->n_steps; i++) {
    const PsStep *step = &program->steps[i];
    guint role = program->pair != NULL ? program->pair[i] : PS_PAIR_NONE;

    duration[i] = role == PS_PAIR_FIRST    ? 0
                  : role == PS_PAIR_SECOND ? pair_ns (c, alike, program, i)
                                           : step_ns (c, alike, program, i);
    if (step->input)
      transfer[i] = 1000 * c->factor[program->schedule->ops[program->op_of[i]].microbatch];
  }
  ps_simulate_steps (program, prediction->costs, duration, transfer, simulation);
  g_assert_cmpint (prediction->metrics.makespan_ns, ==, simulation->makespan_ns);
  for (guint d = 0; d < P; d++)
    g_assert_cmpint (prediction->simulation->device[d].busy_ns, ==, simulation->device[d].busy_ns);
  g_assert_cmpint (prediction->lower_bound_ns, <=, prediction->metrics.makespan_ns);
}

/* The memory of the ops of a device, from scratch: F takes act, B and W give it back. */
static void check_memory (const Case *c, const PsPrediction *prediction, guint device)
{
  const PsProgram *program = prediction->program;
  const PsSchedule *schedule = program->schedule;
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  g_autoptr (PsCosts) silent = ps_costs_copy (prediction->costs);
  gint64 level = 0, peak = 0, unit = 4096 / (gint64)(schedule->placement->n_stages / P) / schedule->n_slices;

  memset (silent->message_bytes, 0, (1 + 2 * silent->n_lengths * (gsize)silent->n_stages) * sizeof (gint64));
  ps_simulate (program, silent, simulation);
  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++) {
    static const int change[] = { [PS_OP_F] = 3, [PS_OP_B] = -2, [PS_OP_W] = -1, [PS_OP_BW] = -3 };
    gint64 k = c->factor[schedule->ops[i].microbatch] * unit;

    level += change[schedule->ops[i].kind] > 0 ? change[schedule->ops[i].kind] * k : 0;
    if (schedule->ops[i].paired) /* both take before one gives */
      level += schedule->ops[i + 1].kind == PS_OP_F ? 3 * unit * c->factor[schedule->ops[i + 1].microbatch] : 0;
    peak = MAX (peak, level);
    level += change[schedule->ops[i].kind] < 0 ? change[schedule->ops[i].kind] * k : 0;
    if (i > schedule->first[device] && schedule->ops[i - 1].paired && schedule->ops[i].kind == PS_OP_F)
      level -= 3 * k;
  }
  g_assert_cmpint (simulation->device[device].peak_bytes, ==, peak);
  g_assert_cmpint (simulation->device[device].held_bytes, ==, 0);
}

static void test_times (void)
{
  static const char *const schedules[]
      = { "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "seq1f1b", "pipedream-2bw" };
  const guint factor[M] = { 1, 3, 2, 1, 5, 2 };
  g_auto (Case) c = { 0 };

  case_init (&c, "f=6us,b=5us,w=2us,bw=6us,c=1us,o=7us,act=12KiB,wact=4KiB,msg=1KiB", "factor", factor);
  for (guint i = 0; i < G_N_ELEMENTS (schedules); i++) {
    g_autoptr (PsPrediction) prediction = predict (c.setting, schedules[i]);
    const PsSchedule *schedule = prediction->program->schedule;
    g_autoptr (PsCosts) whole = ps_costs_parse (c.setting->costs, P, schedule->placement->n_stages / P, NULL);
    g_autoptr (PsCosts) alike = ps_costs_slice (whole, schedule->n_slices);

    check_times (&c, alike, prediction);
    for (guint d = 0; d < P; d++)
      check_memory (&c, prediction, d);
  }
}

/* The events engine has the same times where nothing queues, and every schedule stays above the bound where transfers
 * do queue. */
static void test_events (void)
{
  const guint factor[M] = { 1, 3, 2, 1, 5, 2 };
  g_auto (Case) c = { 0 };

  case_init (&c, COSTS, "factor", factor);
  for (guint comm = 0; comm <= PS_CHANNEL_RANK; comm++) {
    g_autoptr (PsPrediction) relaxed = NULL, events = NULL;

    c.setting->comm = PS_CHANNEL_LATENCY;
    relaxed = predict (c.setting, "1f1b");
    c.setting->comm = (PsChannel)comm;
    c.setting->overlap_slowdown = 1 + 1e-12; /* asks for events */
    events = predict (c.setting, "1f1b");
    g_assert_nonnull (events->events);
    if (comm == PS_CHANNEL_LATENCY)
      g_assert_cmpint (events->metrics.makespan_ns, ==, relaxed->metrics.makespan_ns);
    g_assert_cmpint (events->metrics.makespan_ns, >=, relaxed->metrics.makespan_ns);
    g_assert_cmpint (events->lower_bound_ns, <=, events->metrics.makespan_ns);
  }
}

static void test_pairs (void)
{
  static const char *const costs[] = { "f=6us,b=5us,w=2us,c=1us", "f=6us,b=5us,w=2us,c=1us,pair=9us" };
  const guint factor[M] = { 1, 3, 2, 1, 5, 2 };

  for (guint i = 0; i < G_N_ELEMENTS (costs); i++) {
    g_auto (Case) c = { 0 };
    g_autoptr (PsCosts) alike = ps_costs_parse (costs[i], P, 2, NULL);

    case_init (&c, costs[i], "factor", factor);
    g_autoptr (PsPrediction) prediction = predict (c.setting, "dualpipe-v");
    g_assert_nonnull (prediction->program->pair);
    check_times (&c, alike, prediction);
  }
}

/* Microbatches that are alike: as without --lengths, times the factor. */
static void test_alike (void)
{
  static const char *const schedules[] = { "1f1b", "zb-v", "dualpipe-v", "chimera" };

  for (guint factor = 1; factor <= 3; factor += 2) {
    const guint all[M] = { factor, factor, factor, factor, factor, factor };
    g_auto (Case) c = { 0 };

    case_init (&c, "f=6us,b=5us,w=2us,c=1us,pair=9us,act=12KiB,wact=4KiB,msg=1KiB", "factor", all);
    c.setting->n_devices = 2;
    for (guint i = 0; i < G_N_ELEMENTS (schedules); i++) {
      g_autoptr (PsPrediction) with = predict (c.setting, schedules[i]), without = NULL;
      char *kept = g_steal_pointer (&c.setting->lengths);

      without = predict (c.setting, schedules[i]);
      c.setting->lengths = kept;
      g_assert_cmpint (with->metrics.makespan_ns, ==, factor * without->metrics.makespan_ns);
      g_assert_cmpint (with->lower_bound_ns, ==, factor * without->lower_bound_ns);
      g_assert_cmpint (with->metrics.peak_memory_bytes, ==, factor * without->metrics.peak_memory_bytes);
    }
  }
}

/* The bound counts all work, and a single device does nothing else. */
static void test_bound (void)
{
  const guint factor[M] = { 1, 3, 2, 1, 5, 2 };
  g_auto (Case) c = { 0 };

  case_init (&c, "f=1us,b=1us,w=1us", "factor", factor);
  c.setting->n_devices = 1;
  g_autoptr (PsPrediction) prediction = predict (c.setting, "1f1b");
  g_assert_cmpint (prediction->metrics.makespan_ns, ==, 14 * 3000);
  g_assert_cmpint (prediction->lower_bound_ns, ==, 14 * 3000);
}

/* Swaps through all orders of `order` from `first` on; returns the least makespan. */
static gint64 least_of_all (Case *c, guint first)
{
  gint64 least = G_MAXINT64;

  if (first == M) {
    g_auto (Case) permuted = { 0 };

    case_init (&permuted, c->setting->costs, "factor", c->factor);
    g_autoptr (PsPrediction) prediction = predict (permuted.setting, "1f1b");
    return prediction->metrics.makespan_ns;
  }
  for (guint i = first; i < M; i++) {
    guint kept = c->factor[first];

    c->factor[first] = c->factor[i];
    c->factor[i] = kept;
    least = MIN (least, least_of_all (c, first + 1));
    c->factor[i] = c->factor[first];
    c->factor[first] = kept;
  }
  return least;
}

static void test_order (void)
{
  static const guint sorted[][M] = { { 0, 3, 2, 5, 1, 4 }, { 4, 1, 2, 5, 0, 3 } };
  const guint factor[M] = { 1, 3, 2, 1, 5, 2 };
  g_auto (Case) c = { 0 };

  case_init (&c, COSTS, "factor", factor);
  for (guint i = 0; i < 2; i++) {
    c.setting->microbatch_order = i == 0 ? PS_ORDER_ASCENDING : PS_ORDER_DESCENDING;
    g_autoptr (PsPrediction) prediction = predict (c.setting, "1f1b");
    g_assert_cmpmem (prediction->order, M * sizeof (guint), sorted[i], M * sizeof (guint));
  }
  c.setting->microbatch_order = PS_ORDER_BEST;
  g_autoptr (PsPrediction) best = predict (c.setting, "1f1b");
  g_assert_cmpint (best->metrics.makespan_ns, ==, least_of_all (&c, 0));
}

/* Many orders: swaps leave no two microbatches whose exchange would help. */
static void test_many (void)
{
  g_autoptr (GString) text = g_string_new ("factor");
  PsSetting *setting = ps_setting_new ();
  gint64 ns[4];

  for (guint i = 0; i < 12; i++)
    g_string_append_printf (text, "\n%u", 1 + (i * 7) % 12);
  g_autofree char *path = write_file (text->str);
  setting->n_devices = P;
  setting->n_microbatches = 12;
  setting->costs = g_strdup (COSTS);
  setting->lengths = g_strdup (path);
  for (guint i = 0; i < 4; i++) {
    setting->microbatch_order = (PsMicrobatchOrder)i;
    g_autoptr (PsPrediction) prediction = predict (setting, "zb-h1");
    ns[i] = prediction->metrics.makespan_ns;
    g_assert_cmpint (prediction->lower_bound_ns, <=, ns[i]);
  }
  g_assert_cmpint (ns[PS_ORDER_BEST], <, MIN (ns[0], MIN (ns[1], ns[2])));
  ps_setting_free (setting);
  g_assert_cmpint (g_remove (path), ==, 0);
}

/* Tokens of one length are as --sequence, and attention makes twice the tokens more than twice the work. */
static void test_tokens (void)
{
  const guint tokens[M] = { 4096, 4096, 4096, 4096, 4096, 4096 };
  g_auto (Case) c = { 0 };
  g_autoptr (PsPrediction) with = NULL, without = NULL, shorter = NULL;

  case_init (&c, "", "tokens", tokens);
  g_clear_pointer (&c.setting->costs, g_free);
  c.setting->model = g_strdup ("llama-3-8b");
  c.setting->cluster = g_strdup ("h100-80gb");
  c.setting->layout = g_strdup ("even");
  c.setting->sequence = 2048;
  with = predict (c.setting, "1f1b");
  g_clear_pointer (&c.setting->lengths, g_free);
  shorter = predict (c.setting, "1f1b");
  c.setting->sequence = 4096;
  without = predict (c.setting, "1f1b");
  g_assert_cmpint (ABS (with->metrics.makespan_ns - without->metrics.makespan_ns), <=, M * P * 3);
  g_assert_cmpint (ABS (with->metrics.peak_memory_bytes - without->metrics.peak_memory_bytes), <=, 64);
  g_assert_cmpint (with->metrics.makespan_ns, >, 2 * shorter->metrics.makespan_ns);
}

/* What is 0 has no factor: it stays. The last stage sends nothing forward, so its messages are those back. */
static void test_factors (void)
{
  g_autoptr (PsCosts) from
      = fine (ps_costs_parse ("f=2ns:0ns,b=4ns:4ns,w=0ns:3ns,c=5ns,act=8B:0B,msg=2B", 2, 1, &error));
  g_autoptr (PsCosts) to
      = fine (ps_costs_parse ("f=6ns:9ns,b=2ns:8ns,w=7ns:3ns,c=10ns,act=32B:9B,msg=6B", 2, 1, &error));
  PsLengthFactors first = ps_length_factors (from, to, 0), last;

  last = ps_length_factors (from, to, 1);
  g_assert_cmpfloat (first.f, ==, 3);
  g_assert_cmpfloat (first.b, ==, 0.5);
  g_assert_cmpfloat (first.w, ==, 1);
  g_assert_cmpfloat (first.c, ==, 2);
  g_assert_cmpfloat (first.act, ==, 4);
  g_assert_cmpfloat (first.msg, ==, 3);
  g_assert_cmpfloat (last.f, ==, 1);
  g_assert_cmpfloat (last.b, ==, 2);
  g_assert_cmpfloat (last.w, ==, 1);
  g_assert_cmpfloat (last.c, ==, 1); /* there is no boundary after it */
  g_assert_cmpfloat (last.act, ==, 1);
}

/* Three lengths: their table says of each what its own costs do; the least of each time, and of pairs over all that two
 * lengths make; the average over microbatches of lengths 2, 0, 2, 1. */
static void test_joined (void)
{
  static const char *const texts[] = { "f=4us:6us,b=3us:3us,w=2us:2us,c=1us,o=9us,pair=7us:9us,act=8KiB,msg=1KiB",
                                       "f=2us:9us,b=5us:1us,w=2us:4us,c=3us,o=9us,pair=8us:12us,act=16KiB,msg=3KiB",
                                       "f=6us:3us,b=1us:2us,w=8us:1us,c=2us,o=9us,pair=14us:5us,act=4KiB,msg=2KiB" };
  guint16 of[] = { 2, 0, 2, 1 };
  const PsLengths lengths = { .n = 4, .n_lengths = 3, .of = of };
  PsCosts *costs[3];

  for (guint k = 0; k < 3; k++)
    costs[k] = fine (ps_costs_parse (texts[k], 2, 1, &error));
  g_autoptr (PsCosts) joined = ps_costs_join (costs, 3);
  g_autoptr (PsCosts) least = ps_costs_least (joined), average = ps_costs_average (joined, &lengths);
  for (guint stage = 0; stage < 2; stage++) {
    gint64 pair_ns = G_MAXINT64;

    for (PsOpKind kind = 0; kind < PS_N_OP_KINDS; kind++) {
      gint64 sum = 0, smallest = G_MAXINT64;

      for (guint i = 0; i < 4; i++)
        sum += ps_costs_op (costs[of[i]], kind, stage)->duration_ns;
      for (guint k = 0; k < 3; k++)
        smallest = MIN (smallest, ps_costs_op (costs[k], kind, stage)->duration_ns);
      g_assert_cmpint (ps_costs_op (average, kind, stage)->duration_ns, ==, sum / 4);
      g_assert_cmpint (ps_costs_op (least, kind, stage)->duration_ns, ==, smallest);
    }
    for (guint a = 0; a < 3; a++)
      for (guint b = 0; b < 3; b++) {
        guint f = ps_op_index (2, 3, PS_OP_F, a, stage), bw = ps_op_index (2, 3, PS_OP_BW, b, stage);

        pair_ns = MIN (pair_ns, ps_costs_pair_ns (joined, f, bw));
        g_assert_cmpint (ps_costs_pair_ns (joined, f, bw), ==, ps_costs_pair_ns (joined, bw, f));
        if (a == b)
          g_assert_cmpint (ps_costs_pair_ns (joined, f, bw), ==, costs[a]->stage[stage].pair_ns);
      }
    g_assert_cmpint (least->stage[stage].pair_ns, ==, pair_ns);
    g_assert_cmpint (
        average->stage[stage].pair_ns, ==,
        (2 * costs[2]->stage[stage].pair_ns + costs[0]->stage[stage].pair_ns + costs[1]->stage[stage].pair_ns) / 4);
    g_assert_cmpint (ps_costs_op (average, PS_OP_F, stage)->take_bytes, ==, 16 << 10);
  }
  for (guint i = 1; i <= 4; i++) {
    g_assert_cmpint (least->transfer_ns[i], ==,
                     MIN (costs[0]->transfer_ns[i], MIN (costs[1]->transfer_ns[i], costs[2]->transfer_ns[i])));
    g_assert_cmpint (average->transfer_ns[i], ==,
                     (2 * costs[2]->transfer_ns[i] + costs[0]->transfer_ns[i] + costs[1]->transfer_ns[i]) / 4);
    g_assert_cmpint (average->message_bytes[i], ==, costs[1]->message_bytes[i]);
  }
  for (guint k = 0; k < 3; k++) {
    g_autoptr (PsCosts) one = ps_costs_of_length (joined, k);

    for (guint i = 0; i < PS_N_OP_KINDS * 2; i++)
      g_assert_cmpint (one->op[i].duration_ns, ==, costs[k]->op[i].duration_ns);
    g_assert_cmpmem (&one->transfer_ns[1], 4 * sizeof (gint64), &costs[k]->transfer_ns[1], 4 * sizeof (gint64));
    for (guint stage = 0; stage < 2; stage++)
      g_assert_cmpint (one->stage[stage].pair_ns, ==, costs[k]->stage[stage].pair_ns);
  }
  for (guint k = 0; k < 3; k++)
    ps_costs_free (costs[k]);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/lengths/file", test_file);
  g_test_add_func ("/lengths/wrong-files", test_wrong_files);
  g_test_add_func ("/lengths/times", test_times);
  g_test_add_func ("/lengths/events", test_events);
  g_test_add_func ("/lengths/pairs", test_pairs);
  g_test_add_func ("/lengths/alike", test_alike);
  g_test_add_func ("/lengths/bound", test_bound);
  g_test_add_func ("/lengths/order", test_order);
  g_test_add_func ("/lengths/many", test_many);
  g_test_add_func ("/lengths/tokens", test_tokens);
  g_test_add_func ("/lengths/factors", test_factors);
  g_test_add_func ("/lengths/joined", test_joined);
  return g_test_run ();
}
