/* Tests of the families on a V, on waves and in both directions: orders and figures of the upstream generators,
 * PyTorch's action lists, constraints, and that whatever is allowed can run. */
#include "family-case.h"

#include <json-glib/json-glib.h>
#include <math.h>

/* family_orders.jsonl */

/* Which family a row is, and over how many chunks. The rows of ZB-V are the heuristic's at unit costs. */
static const struct
{
  const char *row;
  const char *family;
  guint chunks; /* 0: as many as the row has stages for */
} row_families[] = {
  { "dualpipe", "dualpipe", 1 }, { "dualpipev", "dualpipe-v", 2 }, { "zbv", "zb-v-auto", 2 },
  { "vhalf", "v-half", 2 },      { "vmin", "v-min", 2 },           { "v1f1b", "1f1b-v", 2 },
  { "chimera", "chimera", 1 },   { "hanayo_greedy", "hanayo", 0 },
};

/* Microbatches renamed by their first appearance: Chimera's rows number the two directions in two ways. */
static void
append_op (GString *text, GArray *names, const char *kind, guint stage, guint microbatch, gboolean paired)
{
  guint name = 0;

  while (name < names->len && g_array_index (names, guint, name) != microbatch)
    name++;
  if (name == names->len)
    g_array_append_val (names, microbatch);
  g_string_append_printf (text, "%s%u.%u%s", kind, name, stage, paired ? "+" : " ");
}

static char *
schedule_text (const PsSchedule *schedule)
{
  g_autoptr (GArray) names = g_array_new (FALSE, FALSE, sizeof (guint));
  GString *text = g_string_new (NULL);

  for (guint device = 0; device < schedule->placement->n_devices; device++)
    {
      for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++)
        append_op (text, names, ps_op_kind_name ((PsOpKind)schedule->ops[i].kind), schedule->ops[i].stage,
                   schedule->ops[i].microbatch, schedule->ops[i].paired);
      g_string_append_c (text, '\n');
    }
  return g_string_free (text, FALSE);
}

/* Both ops of a pair carry its number, "F:0:3:p1" "BW:3:5:p1". */
static char *
row_text (JsonArray *order)
{
  g_autoptr (GArray) names = g_array_new (FALSE, FALSE, sizeof (guint));
  GString *text = g_string_new (NULL);

  for (guint device = 0; device < json_array_get_length (order); device++)
    {
      JsonArray *ops = json_array_get_array_element (order, device);
      gboolean open = FALSE;

      for (guint i = 0; i < json_array_get_length (ops); i++)
        {
          g_auto (GStrv) parts = g_strsplit (json_array_get_string_element (ops, i), ":", -1);

          open = parts[3] != NULL && !open;
          append_op (text, names, parts[0], (guint)atoi (parts[1]), (guint)atoi (parts[2]), open);
        }
      g_string_append_c (text, '\n');
    }
  return g_string_free (text, FALSE);
}

static void
check_row_figures (JsonObject *row, const char *family, guint p, guint m, guint v)
{
  gboolean pairs = json_object_has_member (row, "makespan_async_pair_atomic");
  JsonArray *peaks = json_object_get_array_member (row, "peak_act_release_at_W");
  g_auto (Case) test = { 0 };

  /* Two nanoseconds are one unit. */
  simulate_family (&test, family, p, m, v, (Units){ .f = 2, .b = 2, .w = 2, .act = 1, .wact = 1 });
  g_assert_cmpint (test.simulation->makespan_ns, ==,
                   2 * json_object_get_int_member (row, pairs ? "makespan_async_pair_atomic" : "makespan"));
  for (guint device = 0; device < p; device++)
    g_assert_cmpint (test.program->peak_activations[device], ==, json_array_get_int_element (peaks, device));
  if (pairs)
    {
      g_auto (Case) overlap = { 0 }, apart = { 0 };

      simulate_apart (&apart, family, p, m, v, (Units){ .f = 2, .b = 2, .w = 2 });
      g_assert_cmpint (apart.simulation->makespan_ns, ==, 2 * json_object_get_int_member (row, "makespan_async_seq"));
      simulate_family (&overlap, family, p, m, v, (Units){ .f = 2, .b = 2, .w = 2, .pair = 5 });
      g_assert_cmpfloat ((double)overlap.simulation->makespan_ns / 2, ==,
                         json_object_get_double_member (row, "makespan_pair_overlap_2p5"));
    }
}

static void
check_row (JsonObject *row, const char *family, guint chunks)
{
  guint p = (guint)json_object_get_int_member (row, "p"), m = (guint)json_object_get_int_member (row, "m");
  guint v = chunks ? chunks : (guint)json_object_get_int_member (row, "stages") / p;
  g_autoptr (PsSchedule) schedule = fine (generate (family, p, m, v, &error));
  g_autofree char *ours = schedule_text (schedule), *theirs = row_text (json_object_get_array_member (row, "order"));

  g_assert_cmpstr (ours, ==, theirs);
  check_row_figures (row, family, p, m, v);
}

static void
test_orders (void)
{
  g_autofree char *path = reference_path ("family_orders.jsonl"), *text = NULL;
  guint n = 0;

  if (path == NULL)
    return;
  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_autoptr (JsonNode) node = json_from_string (lines[i], NULL);

      if (node == NULL)
        continue;
      JsonObject *row = json_node_get_object (node);
      for (guint k = 0; k < G_N_ELEMENTS (row_families); k++)
        if (g_str_equal (json_object_get_string_member (row, "schedule"), row_families[k].row))
          {
            check_row (row, row_families[k].family, row_families[k].chunks);
            n++;
          }
    }
  g_assert_cmpuint (n, ==, 40);
}

/* Where warm-up and drain overlap (m = p), V-Half is ordered better than the peer's, and V-Min by two chunk ops on 8
 * devices; all else is equal. */
static void
check_peer (const PeerRow *row, const char *family)
{
  g_auto (Case) test = { 0 };

  simulate_family (&test, family, row->p, row->m, 2, row->units);
  g_assert_cmpint (peak_bytes (&test), ==, row->peak);
  if ((g_str_equal (family, "v-half") && row->m == row->p) || (g_str_equal (family, "v-min") && row->p == 8))
    {
      g_assert_cmpint (test.simulation->makespan_ns, <=, row->makespan);
      g_assert_cmpint (test.simulation->max_span_ns, <=, row->span);
      return;
    }
  g_assert_cmpint (test.simulation->makespan_ns, ==, row->makespan);
  g_assert_cmpint (test.simulation->max_span_ns, ==, row->span);
}

static void
test_peers (void)
{
  static const struct
  {
    const char *scheduler, *family;
    PeerCheck check;
    guint n;
  } peers[] = {
    { "zbv_handcrafted", "zb-v", check_peer, 45 },
    { "v_half", "v-half", check_peer, 45 },
    { "v_min", "v-min", check_peer, 45 },
    { "1f1b_v", "1f1b-v", check_peer, 45 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (peers); i++)
    {
      guint n = each_peer_row (peers[i].scheduler, peers[i].family, peers[i].check);

      if (n == 0)
        return;
      g_assert_cmpuint (n, ==, peers[i].n);
    }
}

/* PyTorch's action lists: its I and B are our B and BW. */
static char *
torch_text (const PsSchedule *schedule, guint device)
{
  static const char *const kinds[] = { "F", "I", "W", "B" };
  GString *text = g_string_new (NULL);

  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++)
    {
      PsOp op = schedule->ops[i];
      gboolean second = i > schedule->first[device] && schedule->ops[i - 1].paired;

      g_string_append_printf (text, "%s%s%u%s%u%s",
                              second      ? ";"
                              : text->len ? ","
                                          : "",
                              op.paired ? "(" : "", op.stage, kinds[op.kind], (guint)op.microbatch,
                              second ? ")OVERLAP_F_B" : "");
    }
  return g_string_free (text, FALSE);
}

/* Cells left blank are microbatches that were not asked for. */
static char *
torch_row (const char *row)
{
  g_auto (GStrv) cells = g_strsplit (row, ",", -1);
  GString *text = g_string_new (NULL);

  for (guint i = 0; cells[i] != NULL; i++)
    if (*cells[i])
      g_string_append_printf (text, "%s%s", text->len ? "," : "", cells[i]);
  return g_string_free (text, FALSE);
}

static void
test_pytorch (void)
{
  static const struct
  {
    const char *name, *family;
    guint m;
  } samples[] = {
    { "ZBVZeroBubble", "zb-v", 3 },    { "ZBVZeroBubble", "zb-v", 4 },    { "ZBVZeroBubble", "zb-v", 8 },
    { "ZBVZeroBubble", "zb-v", 10 },   { "ZBVZeroBubble", "zb-v", 16 },   { "DualPipeV", "dualpipe-v", 8 },
    { "DualPipeV", "dualpipe-v", 10 }, { "DualPipeV", "dualpipe-v", 16 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (samples); i++)
    {
      g_autofree char *name = g_strdup_printf ("pytorch/%s_p4_v2_m%u_compute.csv", samples[i].name, samples[i].m);
      g_autofree char *path = reference_path (name), *text = NULL;

      if (path == NULL)
        return;
      g_autoptr (PsSchedule) schedule = fine (generate (samples[i].family, 4, samples[i].m, 2, &error));
      g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
      g_auto (GStrv) rows = g_strsplit (text, "\r\n", -1);
      for (guint device = 0; device < 4; device++)
        {
          g_autofree char *ours = torch_text (schedule, device), *theirs = torch_row (rows[device]);

          g_assert_cmpstr (ours, ==, theirs);
        }
    }
}

/* PyTorch's evaluator takes pairs apart. */
static void
check_torch_makespan (const char *family, guint m, gint64 c, gint64 makespan, const char *in_flight)
{
  g_auto (Case) test = { 0 };

  simulate_apart (&test, family, 4, m, 2, (Units){ .f = 10, .b = 10, .w = 10, .c = c });
  g_assert_cmpint (test.simulation->makespan_ns, ==, makespan);
  g_auto (GStrv) peaks = g_strsplit (in_flight, " ", -1);
  for (guint device = 0; device < 4; device++)
    g_assert_cmpint (test.program->peak_activations[device], ==, atoi (peaks[device]));
}

static void
test_pytorch_makespans (void)
{
  g_autofree char *path = reference_path ("pytorch_makespans.csv"), *text = NULL;
  guint n = 0;

  if (path == NULL)
    return;
  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_auto (GStrv) cells = g_strsplit (lines[i], ",", -1);

      if (g_strv_length (cells) != 7
          || !(g_str_equal (cells[0], "ZBVZeroBubble") || g_str_equal (cells[0], "DualPipeV")))
        continue;
      const char *family = g_str_equal (cells[0], "DualPipeV") ? "dualpipe-v" : "zb-v";
      for (guint k = 0; k < 2; k++)
        check_torch_makespan (family, (guint)atoi (cells[3]), 2 * k,
                              (gint64)lround (10 * g_ascii_strtod (cells[4 + k], NULL)), cells[6]);
      n++;
    }
  g_assert_cmpuint (n, ==, 8);
}

/* Without reference files: the shortest of each, written out. */
static void
test_written_out (void)
{
  assert_order ("zb-v", 2, 3, 2, 1,
                "F0.1 F0.2 F1.1 F1.2 B0.2 W0.2 F2.1 B0.1 W0.1 F2.2 B1.2 W1.2 B1.1 B2.2 B2.1 W1.1 W2.2 W2.1");
  assert_order ("v-half", 2, 4, 2, 0,
                "F0.0 F1.0 F2.0 F0.3 B0.3 W0.3 F1.3 B0.0 B1.3 W1.3 F2.3 W0.0 F3.0 B1.0 B2.3 W2.3 F3.3 B3.3 B2.0 W3.3 "
                "B3.0 W1.0 W2.0 W3.0");
  assert_order ("v-min", 2, 4, 2, 1,
                "F0.1 F0.2 B0.2 B0.1 F1.1 F1.2 W0.2 W0.1 B1.2 B1.1 F2.1 F2.2 W1.2 W1.1 B2.2 B2.1 F3.1 F3.2 W2.2 W2.1 "
                "B3.2 B3.1 W3.2 W3.1");
  assert_order ("1f1b-v", 2, 4, 2, 0,
                "F0.0 F1.0 F2.0 F0.3 BW0.3 F1.3 BW1.3 F3.0 BW0.0 F2.3 BW2.3 BW1.0 F3.3 BW3.3 BW2.0 BW3.0");
  assert_order ("dualpipe", 2, 4, 1, 0, "F0.0 F2.1 F1.0 BW2.1 F3.1+BW0.0 BW3.1 B1.0 W1.0");
  assert_order ("chimera", 2, 4, 1, 1, "F1.0 F0.1 BW0.1 BW1.0 F3.0 F2.1 BW2.1 BW3.0");
  assert_order ("hanayo", 2, 2, 2, 0, "F0.0 F1.0 F0.3 BW0.3 F1.3 BW1.3 BW0.0 BW1.0");
}

/* Bubble in chunk units at F = B = W, and activations of whole devices at the peak. */
static void
check_block (const char *name, guint p, gint64 bubble, guint activations)
{
  guint m = 3 * p, most = 0;
  g_auto (Case) test = { 0 };

  simulate_family (&test, name, p, m, 2, (Units){ .f = 1, .b = 1, .w = 1 });
  for (guint device = 0; device < p; device++)
    most = MAX (most, test.program->peak_activations[device]);
  g_assert_cmpuint (most, ==, 2 * activations);
  g_assert_cmpint (test.simulation->makespan_ns, ==, 6 * m + bubble);
}

static void
test_closed_forms (void)
{
  for (guint p = 4; p <= 64; p *= 2)
    {
      check_block ("v-half", p, 3 * p - 7, p / 2 + 1);
      check_block ("v-min", p, 4 * p - (p % 3 == 1 ? 5 : 7), (p + 4) / 3);
    }
  for (guint p = 5; p <= 14; p++)
    check_block ("v-min", p, 4 * p - (p % 3 == 1 ? 5 : 7), (p + 4) / 3);
  check_block ("1f1b-v", 4, 15, 3);
  check_block ("1f1b-v", 8, 33, 6);
  check_block ("1f1b-v", 16, 75, 11);
  check_block ("1f1b-v", 64, 315, 43);
}

static void
test_constraints (void)
{
  assert_refused ("zb-v", 4, 8, 1, "zb-v: has two chunks per device, not 1");
  assert_refused ("zb-v-auto", 4, 8, 3, "zb-v-auto: has two chunks per device, not 3");
  assert_refused ("dualpipe", 3, 8, 1, "dualpipe: 3 devices; give a multiple of 2, 2 or 4");
  assert_refused ("dualpipe", 4, 9, 1, "dualpipe: 9 microbatches; give a multiple of 2, 8 or 10");
  assert_refused ("dualpipe", 4, 6, 1, "dualpipe: 6 microbatches on 4 devices; give at least 8, two for each device");
  assert_refused ("dualpipe-v", 4, 7, 2,
                  "dualpipe-v: 7 microbatches on 4 devices; give at least 8, two for each device");
  assert_refused ("chimera", 1, 8, 1, "chimera: 1 devices; give a multiple of 2, the least is 2");
  assert_refused ("chimera", 4, 6, 1, "chimera: 6 microbatches; give a multiple of 4, 4 or 8");
  assert_refused ("chimera", 4, 8, 2, "chimera: has one chunk per device, not 2");
  assert_refused ("hanayo", 4, 4, 3, "hanayo: 3 chunks; give a multiple of 2, 2 or 4");
}

static gboolean
check_runs (const char *name, guint p, guint m, guint v)
{
  g_autoptr (GError) error = NULL;
  PsSchedule *schedule = generate (name, p, m, v, &error);

  if (schedule == NULL)
    {
      g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
      return FALSE;
    }
  g_auto (Case) test = { 0 };
  simulate (&test, schedule,
            unit_costs (schedule->placement->n_stages, (Units){ .f = 1, .b = 1, .w = 1, .act = 1, .wact = 1 }));
  for (guint device = 0; device < p; device++)
    g_assert_cmpint (test.simulation->device[device].held_bytes, ==, 0);
  assert_runs_on_all_channels (test.program);
  return TRUE;
}

static void
test_all_settings (void)
{
  static const struct
  {
    const char *name;
    guint v;
    guint n; /* settings that the constraints allow */
  } families[] = {
    { "zb-v", 2, 160 },    { "zb-v-auto", 2, 160 }, { "v-half", 2, 160 }, { "v-min", 2, 160 },  { "1f1b-v", 2, 160 },
    { "dualpipe", 1, 24 }, { "dualpipe-v", 2, 96 }, { "chimera", 1, 20 }, { "hanayo", 2, 160 }, { "hanayo", 4, 160 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    {
      guint n = 0;

      for (guint p = 1; p <= 8; p++)
        for (guint m = 1; m <= 20; m++)
          n += check_runs (families[i].name, p, m, families[i].v);
      g_assert_cmpuint (n, ==, families[i].n);
    }
}

/* Waves of Hanayo that go on are never slower than iterations of m = p one after the other, and hold no more. */
static void
check_waves (GRand *rand, guint p, guint m, guint v)
{
  g_auto (Case) all = { 0 }, one = { 0 };
  Units units = { .f = g_rand_int_range (rand, 1, 10),
                  .b = g_rand_int_range (rand, 1, 10),
                  .w = g_rand_int_range (rand, 1, 10),
                  .c = g_rand_int_range (rand, 0, 5) };

  simulate_family (&all, "hanayo", p, m, v, units);
  simulate_family (&one, "hanayo", p, p, v, units);
  g_assert_cmpint (all.simulation->makespan_ns, <=, (m + p - 1) / p * one.simulation->makespan_ns);
  for (guint device = 0; device < p; device++)
    g_assert_cmpuint (all.program->peak_activations[device], <=, v * MIN (m, p));
}

static void
test_waves (void)
{
  static const gint64 best[][3] = { { 4, 8, 65 }, { 8, 16, 137 }, { 16, 32, 281 } }; /* chunk units, F = B = W = 1 */
  g_autoptr (GRand) rand = g_rand_new_with_seed (4);

  for (guint i = 0; i < G_N_ELEMENTS (best); i++)
    {
      g_auto (Case) test = { 0 };

      simulate_family (&test, "hanayo", (guint)best[i][0], (guint)best[i][1], 2, (Units){ .f = 1, .b = 1, .w = 1 });
      g_assert_cmpint (test.simulation->makespan_ns, ==, best[i][2]);
    }
  for (guint p = 1; p <= 8; p++)
    for (guint m = p; m <= 4 * p; m += 1 + p / 3)
      for (guint v = 2; v <= 6; v += 2)
        check_waves (rand, p, m, v);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/families-v/written-out", test_written_out);
  g_test_add_func ("/families-v/closed-forms", test_closed_forms);
  g_test_add_func ("/families-v/constraints", test_constraints);
  g_test_add_func ("/families-v/all-settings", test_all_settings);
  g_test_add_func ("/families-v/waves", test_waves);
  g_test_add_func ("/families-v/orders", test_orders);
  g_test_add_func ("/families-v/peers", test_peers);
  g_test_add_func ("/families-v/pytorch", test_pytorch);
  g_test_add_func ("/families-v/pytorch-makespans", test_pytorch_makespans);
  return g_test_run ();
}
