/* Tests of the families on a V, on waves and in both directions: orders and figures of the upstream generators, PyTorch's action lists,
 * constraints, and that whatever is allowed can run. */
#include <pipesim/families.h>
#include <pipesim/simulate.h>

#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

static PsSchedule *
generate (const char *name, guint p, guint m, guint v, GError **error)
{
  PsFamilySetting setting = { .n_devices = p, .n_microbatches = m, .n_chunks = v };
  return ps_family_generate (ps_family_find (name), &setting, error);
}

/* A schedule with what the simulator says about it. */
typedef struct
{
  PsProgram *program;
  PsCosts *costs;
  PsSimulation *simulation;
} Case;

static void
case_clear (Case *test)
{
  g_clear_pointer (&test->simulation, ps_simulation_free);
  g_clear_pointer (&test->program, ps_program_free);
  g_clear_pointer (&test->costs, ps_costs_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Case, case_clear)

/* Costs in nanoseconds and bytes, the same on every stage; wact of the act bytes are kept until W. */
typedef struct
{
  gint64 f, b, w, c, pair, act, wact;
} Units;

static PsCosts *
unit_costs (guint n_stages, Units units)
{
  const gint64 durations[] = { [PS_OP_F] = units.f, [PS_OP_B] = units.b, [PS_OP_W] = units.w, [PS_OP_BW] = units.b + units.w };
  PsCosts *costs = ps_costs_new (n_stages);
  for (guint stage = 0; stage < n_stages; stage++)
    {
      for (guint kind = 0; kind <= PS_OP_BW; kind++)
        ps_costs_op (costs, (PsOpKind) kind, stage)->duration_ns = durations[kind];
      costs->transfer_ns[ps_transfer_forward (costs, stage)] = units.c;
      costs->transfer_ns[ps_transfer_backward (costs, stage)] = units.c;
      costs->pair_ns[stage] = units.pair ? units.pair : -1;
      ps_costs_set_memory (costs, stage, units.act, units.wact);
    }
  return costs;
}

static void
simulate (Case *test, PsSchedule *schedule, PsCosts *costs)
{
  g_autoptr (GError) error = NULL;
  ps_schedule_validate (schedule, &error);
  g_assert_no_error (error);
  test->program = ps_program_lower (schedule, &error);
  g_assert_no_error (error);
  test->costs = costs;
  test->simulation = ps_simulation_new (test->program);
  ps_simulate (test->program, costs, test->simulation);
}

static void
simulate_family (Case *test, const char *name, guint p, guint m, guint v, Units units)
{
  g_autoptr (GError) error = NULL;
  PsSchedule *schedule = generate (name, p, m, v, &error);
  g_assert_no_error (error);
  simulate (test, schedule, unit_costs (schedule->placement->n_stages, units));
}

static char *
reference_path (const char *name)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "..", "..", "shared", "reference", name, NULL);
  if (g_file_test (path, G_FILE_TEST_EXISTS))
    return g_steal_pointer (&path);
  g_test_skip ("no reference files beside this checkout");
  return NULL;
}

/* family_orders.jsonl */

/* Which family a row is, and over how many chunks. */
static const struct
{
  const char *row;
  const char *family;
  guint chunks; /* 0: as many as the row has stages for */
} row_families[] = {
  { "dualpipe", "dualpipe", 1 }, { "dualpipev", "dualpipe-v", 2 }, { "zbv", "zb-v", 2 },     { "vhalf", "v-half", 2 },
  { "vmin", "v-min", 2 },        { "v1f1b", "1f1b-v", 2 },         { "chimera", "chimera", 1 }, { "hanayo_greedy", "hanayo", 0 },
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
        append_op (text, names, ps_op_kind_name ((PsOpKind) schedule->ops[i].kind), schedule->ops[i].stage, schedule->ops[i].microbatch,
                   schedule->ops[i].paired);
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
          open = parts[3] && !open;
          append_op (text, names, parts[0], (guint) atoi (parts[1]), (guint) atoi (parts[2]), open);
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
  simulate_family (&test, family, p, m, v, (Units) { .f = 2, .b = 2, .w = 2, .act = 1, .wact = 1 });
  g_assert_cmpint (test.simulation->makespan_ns, ==,
                   2 * json_object_get_int_member (row, pairs ? "makespan_async_pair_atomic" : "makespan"));
  for (guint device = 0; device < p; device++)
    g_assert_cmpint (test.program->peak_activations[device], ==, json_array_get_int_element (peaks, device));
  if (pairs)
    {
      g_auto (Case) overlap = { 0 };
      simulate_family (&overlap, family, p, m, v, (Units) { .f = 2, .b = 2, .w = 2, .pair = 5 });
      g_assert_cmpfloat ((double) overlap.simulation->makespan_ns / 2, ==, json_object_get_double_member (row, "makespan_pair_overlap_2p5"));
    }
}

static void
check_row (JsonObject *row, const char *family, guint chunks)
{
  g_autoptr (GError) error = NULL;
  guint p = (guint) json_object_get_int_member (row, "p"), m = (guint) json_object_get_int_member (row, "m");
  guint v = chunks ? chunks : (guint) json_object_get_int_member (row, "stages") / p;
  g_autoptr (PsSchedule) schedule = generate (family, p, m, v, &error);
  g_assert_no_error (error);
  g_autofree char *ours = schedule_text (schedule), *theirs = row_text (json_object_get_array_member (row, "order"));
  if (!g_str_equal (family, "zb-v"))
    g_assert_cmpstr (ours, ==, theirs);
  check_row_figures (row, family, p, m, v);
}

static void
test_orders (void)
{
  g_autofree char *path = reference_path ("family_orders.jsonl"), *text = NULL;
  guint n = 0;
  if (!path)
    return;
  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i]; i++)
    {
      g_autoptr (JsonNode) node = json_from_string (lines[i], NULL);
      if (!node)
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

/* peer_schedulers.csv: scheduler, placement, chunks, devices, microbatches, f, b, w, c, cost_is_per, mem_f, mem_b, mem_w, mem_limit, makespan,
 * max_span, peak_mem. */
typedef struct
{
  char *scheduler;
  guint p, m;
  Units units;
  gint64 limit;
  gint64 makespan, span, peak;
} PeerRow;

static gboolean
read_peer_row (const char *line, PeerRow *row)
{
  g_auto (GStrv) cells = g_strsplit (line, ",", -1);
  if (g_strv_length (cells) != 17 || !g_ascii_isdigit (cells[3][0]))
    return FALSE;
  gint64 value[17];
  for (guint i = 0; i < 17; i++)
    value[i] = g_ascii_strtoll (cells[i], NULL, 10);
  *row = (PeerRow) { .scheduler = g_strdup (cells[0]), .p = (guint) value[3], .m = (guint) value[4], .limit = value[13],
                     .units = { .f = value[5], .b = value[6], .w = value[7], .c = value[8], .act = value[10], .wact = -value[12] },
                     .makespan = value[14], .span = value[15], .peak = value[16] };
  return TRUE;
}

typedef void (*PeerCheck) (const PeerRow *row, const char *family);

static guint
each_peer_row (const char *scheduler, const char *family, PeerCheck check)
{
  g_autofree char *path = reference_path ("peer_schedulers.csv"), *text = NULL;
  guint n = 0;
  if (!path)
    return 0;
  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i]; i++)
    {
      PeerRow row;
      if (!g_str_has_prefix (lines[i], scheduler) || lines[i][strlen (scheduler)] != ',' || !read_peer_row (lines[i], &row))
        continue;
      check (&row, family);
      g_free (row.scheduler);
      n++;
    }
  return n;
}

static gint64
peak_bytes (const Case *test)
{
  gint64 peak = 0;
  for (guint device = 0; device < test->simulation->n_devices; device++)
    peak = MAX (peak, test->simulation->device[device].peak_bytes);
  return peak;
}

static void
check_equal (const PeerRow *row, const char *family)
{
  g_auto (Case) test = { 0 };
  simulate_family (&test, family, row->p, row->m, 2, row->units);
  g_test_message ("%s p %u m %u f %" G_GINT64_FORMAT, family, row->p, row->m, row->units.f);
  if (test.simulation->makespan_ns != row->makespan || test.simulation->max_span_ns != row->span || peak_bytes (&test) != row->peak)
    g_print ("# %s p %u m %u f %d: %d %d %d, peer %d %d %d\n", family, row->p, row->m, (int) row->units.f, (int) test.simulation->makespan_ns,
             (int) test.simulation->max_span_ns, (int) peak_bytes (&test), (int) row->makespan, (int) row->span, (int) row->peak);
}

static void
check_no_worse (const PeerRow *row, const char *family)
{
  g_autoptr (GError) error = NULL;
  g_autofree gint64 *limit = g_new (gint64, row->p);
  g_autoptr (PsCosts) costs = unit_costs (2 * row->p, row->units);
  for (guint i = 0; i < row->p; i++)
    limit[i] = row->limit;
  PsFamilySetting setting = { .n_devices = row->p, .n_microbatches = row->m, .n_chunks = 2, .costs = costs, .memory_limit = limit };
  PsSchedule *schedule = ps_family_generate (ps_family_find (family), &setting, &error);
  g_assert_no_error (error);
  g_auto (Case) test = { 0 };
  simulate (&test, schedule, g_steal_pointer (&costs));
  if (test.simulation->makespan_ns > row->makespan || test.simulation->max_span_ns > row->span || peak_bytes (&test) > row->limit)
    g_print ("# %s p %u m %u f %d limit %d: %d %d %d, peer %d %d %d\n", family, row->p, row->m, (int) row->units.f, (int) row->limit, (int) test.simulation->makespan_ns,
             (int) test.simulation->max_span_ns, (int) peak_bytes (&test), (int) row->makespan, (int) row->span, (int) row->peak);
}

static void
test_peers (void)
{
  each_peer_row ("zbv_handcrafted", "zb-v", check_equal);
  each_peer_row ("v_half", "v-half", check_equal);
  each_peer_row ("v_min", "v-min", check_equal);
  each_peer_row ("1f1b_v", "1f1b-v", check_equal);
  each_peer_row ("zbv_auto", "zb-v-auto", check_no_worse);
  each_peer_row ("colossalai_v_schedule", "zb-v-auto", check_no_worse);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/families-v/orders", test_orders);
  g_test_add_func ("/families-v/peers", test_peers);
  return g_test_run ();
}
