/* Tests of the families: the catalogue, orders in loop placement, and orders on a V. */
#include "family-case.h"
#include "reference.h"

#include <stdio.h>
#include <json-glib/json-glib.h>
#include <math.h>

static void test_orders (void)
{
  assert_order ("naive", 2, 2, 1, 1, "F0.1 BW0.1 F1.1 BW1.1");
  assert_order ("gpipe", 2, 3, 1, 0, "F0.0 F1.0 F2.0 BW0.0 BW1.0 BW2.0");
  assert_order ("1f1b", 3, 4, 1, 0, "F0.0 F1.0 F2.0 BW0.0 F3.0 BW1.0 BW2.0 BW3.0");
  assert_order ("1f1b", 3, 4, 1, 2, "F0.2 BW0.2 F1.2 BW1.2 F2.2 BW2.2 F3.2 BW3.2");
  assert_order ("eager-1f1b", 3, 4, 1, 1, "F0.1 F1.1 F2.1 BW0.1 F3.1 BW1.1 BW2.1 BW3.1");
  assert_order ("pipedream", 3, 4, 1, 1, "F0.1 F1.1 BW0.1 F2.1 BW1.1 F3.1 BW2.1 BW3.1");
  assert_order ("looped-bfs", 2, 2, 2, 1, "F0.1 F1.1 F0.3 F1.3 BW1.3 BW0.3 BW1.1 BW0.1");
  assert_order ("seq1f1b", 2, 2, 1, 0,
                "F0.0 F0.0/1 F0.0/2 F0.0/3 F1.0 BW0.0/3 F1.0/1 BW0.0/2 F1.0/2 BW0.0/1 F1.0/3 BW0.0 BW1.0/3 BW1.0/2 "
                "BW1.0/1 BW1.0");
  /* Slices a, b of a microbatch go through both chunks, then those of the next; warm-up 2 + 2 + 1 on device 0. */
  assert_order ("slimpipe", 2, 2, 2, 0,
                "F0.0 F0.0/1 F0.2 F0.2/1 F1.0 F1.0/1 BW0.2/1 F1.2 BW0.2 F1.2/1 BW0.0/1 BW0.0 BW1.2/1 BW1.2 BW1.0/1 "
                "BW1.0");
  assert_order ("slimpipe", 2, 2, 2, 1,
                "F0.1 F0.1/1 F0.3 F0.3/1 BW0.3/1 F1.1 BW0.3 F1.1/1 BW0.1/1 F1.3 BW0.1 F1.3/1 BW1.3/1 BW1.3 BW1.1/1 "
                "BW1.1");
  assert_order ("zb-h1", 3, 4, 1, 0, "F0.0 F1.0 F2.0 B0.0 W0.0 F3.0 B1.0 W1.0 B2.0 W2.0 B3.0 W3.0");
  assert_order ("zb-h1", 3, 4, 1, 2, "F0.2 B0.2 F1.2 B1.2 F2.2 B2.2 W0.2 F3.2 B3.2 W1.2 W2.2 W3.2");
  assert_order ("zb-h2", 3, 4, 1, 1, "F0.1 F1.1 F2.1 B0.1 F3.1 B1.1 B2.1 W0.1 B3.1 W1.1 W2.1 W3.1");
  assert_order ("interleaved-zb", 2, 2, 2, 1, "F0.1 F1.1 F0.3 B0.3 F1.3 B1.3 W0.3 B0.1 W1.3 B1.1 W0.1 W1.1");
  /* p = 2, v = 2, m = 4, groups of 2: forwards (chunk, microbatch) 00 01 10 11 02 03 12 13, warm-up 2 + 2 on device 0
   */
  assert_order ("interleaved", 2, 4, 2, 0,
                "F0.0 F1.0 F0.2 F1.2 F2.0 BW0.2 F3.0 BW1.2 F2.2 BW0.0 F3.2 BW1.0 BW2.2 BW3.2 BW2.0 BW3.0");
  assert_order ("interleaved", 3, 4, 1, 0, "F0.0 F1.0 F2.0 BW0.0 F3.0 BW1.0 BW2.0 BW3.0"); /* v = 1: 1F1B */
  assert_order ("interleaved", 3, 4, 1, 2, "F0.2 BW0.2 F1.2 BW1.2 F2.2 BW2.2 F3.2 BW3.2");
  /* One more forward in the warm-up, so that no forward waits for the backward before it. */
  assert_order ("interleaved-overlap", 2, 4, 2, 0,
                "F0.0 F1.0 F0.2 F1.2 F2.0 F3.0+BW0.2 F2.2+BW1.2 F3.2+BW0.0 BW1.0 BW2.2 BW3.2 BW2.0 BW3.0");
  assert_order ("interleaved-overlap", 2, 4, 2, 1,
                "F0.1 F1.1 F0.3 F1.3+BW0.3 F2.1+BW1.3 F3.1+BW0.1 F2.3+BW1.1 F3.3+BW2.3 BW3.3 BW2.1 BW3.1");
  assert_order ("interleaved-overlap-w", 2, 2, 2, 1, "F0.1 F1.1 F0.3 F1.3+B0.3 W0.3 B1.3 W1.3 B0.1 W0.1 B1.1 W1.1");
  /* m = 5, p = 2: groups of 3 (5 mod 3 = 2 >= p), then 2 */
  assert_order (
      "interleaved", 2, 5, 2, 1,
      "F0.1 F1.1 F2.1 F0.3 BW0.3 F1.3 BW1.3 F2.3 BW2.3 F3.1 BW0.1 F4.1 BW1.1 F3.3 BW2.1 F4.3 BW3.3 BW4.3 BW3.1 BW4.1");
}

static void assert_group_refused (const char *name, guint p, guint m, guint group, const char *message)
{
  PsFamilySetting setting = { .n_devices = p, .n_microbatches = m, .n_chunks = 2, .group_size = group };

  refused (ps_family_generate (ps_family_find (name), &setting, &error), PS_ERROR_USAGE, message);
}

/* p = 2, m = 4, F, B and W of 1: device 1 has a BW of 2 per microbatch. Two of its W go into the time in which it would
 * wait for the drain of device 0, so the pipeline is 1 shorter. */
static void test_defer_head (void)
{
  static const struct {
    guint n;
    const char *order;
    gint64 makespan_ns;
  } cases[] = {
    { 0, "F:1:0 BW:1:0 F:1:1 BW:1:1 F:1:2 BW:1:2 F:1:3 BW:1:3", 15 },
    { 2, "F:1:0 B:1:0 F:1:1 B:1:1 F:1:2 BW:1:2 F:1:3 BW:1:3 W:1:0 W:1:1", 14 },
    { 9, "F:1:0 B:1:0 F:1:1 B:1:1 F:1:2 B:1:2 F:1:3 B:1:3 W:1:0 W:1:1 W:1:2 W:1:3", 15 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    PsFamilySetting setting = { .n_devices = 2, .n_microbatches = 4, .n_chunks = 1, .defer_head = cases[i].n };
    PsSchedule *schedule = reference_generate ("1f1b", &setting);
    g_autofree char *first = reference_order (schedule, 0), *last = reference_order (schedule, 1);
    g_autoptr (PsCosts) costs = reference_costs (2, 1, 1, 1, 0, 1, 1);
    g_autoptr (PsProgram) program = NULL;
    g_autoptr (PsSimulation) simulation = reference_simulate (schedule, costs, &program);

    g_assert_cmpuint (program->schedule->defer_head, ==, cases[i].n);
    g_assert_cmpstr (first, ==, "F:0:0 F:0:1 BW:0:0 F:0:2 BW:0:1 F:0:3 BW:0:2 BW:0:3");
    g_assert_cmpstr (last, ==, cases[i].order);
    g_assert_cmpint (simulation->makespan_ns, ==, cases[i].makespan_ns);
  }
}

static void test_constraints (void)
{
  PsFamilySetting deferred = { .n_devices = 4, .n_microbatches = 8, .n_chunks = 1, .defer_head = 3 };
  g_autoptr (GError) error = NULL;

  g_assert_null (ps_family_generate (ps_family_find ("zb-h1"), &deferred, &error));
  g_assert_cmpstr (error->message, ==, "zb-h1: has no W of the head to put off; leave out --defer-head 3");
  assert_refused ("interleaved-overlap", 4, 8, 1, "interleaved-overlap: has two chunks per device or more, not 1");
  assert_refused ("1f1b", 4, 8, 2, "1f1b: has one chunk per device, not 2");
  assert_refused ("pipedream-2bw", 4, 3, 1,
                  "pipedream-2bw: 3 microbatches on 4 devices; give at least 4, so that two versions of the weights "
                  "serve them all");
  assert_group_refused ("interleaved", 4, 10, 7,
                        "interleaved: groups of 7 are not allowed; give 6, N from p to m with m mod N = 0 or >= p");
  assert_group_refused ("interleaved-zb", 4, 3, 2,
                        "interleaved-zb: groups of 2 are not allowed; give 3, N from p to m with m mod N = 0 or >= p");
  assert_refused ("gpipe", 0, 8, 1, "gpipe: 0 devices; give 1 to 4096");
  assert_refused ("gpipe", 5000, 8, 1, "gpipe: 5000 devices; give 1 to 4096");
  assert_refused ("gpipe", 4, 0, 1, "gpipe: 0 microbatches on 4 stages; give 1 to 5592405");
  assert_refused ("gpipe", 4, 1000000000, 1, "gpipe: 1000000000 microbatches on 4 stages; give 1 to 5592405");
  assert_refused ("interleaved", 4096, 4096, 5, "interleaved: 5 chunks on 4096 devices; give 1 to 16384 stages in all");
}

static void check_runs (const PsFamily *family, const PsFamilySetting *setting)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSchedule) schedule = ps_family_generate (family, setting, &error);

  if (schedule == NULL)
    return;
  g_autoptr (PsProgram) program = lower (g_steal_pointer (&schedule));
  assert_runs_on_all_channels (program);
}

static void test_all_settings (void)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++)
    for (guint p = 1; p <= 6; p++)
      for (guint m = 1; m <= 14; m++)
        for (guint v = 1; v <= 3; v++)
          check_runs (families[i], &(PsFamilySetting){ .n_devices = p, .n_microbatches = m, .n_chunks = v });
}

static void test_table (void)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++) {
    g_assert_true (ps_family_find (families[i]->name) == families[i]);
    g_assert_true (families[i]->description && families[i]->constraints && families[i]->memory && families[i]->source);
    g_assert_cmpuint (families[i]->default_chunks, >=, 1);
  }
}

/* Every name leads to the family that has it, and to no other. */
static void test_names (void)
{
  guint n, n_torch = 0;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++) {
    g_autofree char *upper = g_ascii_strup (families[i]->name, -1);
    g_autofree char *class = g_strconcat ("Schedule", families[i]->torch, NULL);
    g_auto (GStrv) also = g_strsplit (families[i]->also != NULL ? families[i]->also : "", " ", -1);

    n_torch += families[i]->torch != NULL;
    g_assert_true (ps_family_find (upper) == families[i]);
    g_assert_true (families[i]->torch == NULL || ps_family_find (families[i]->torch) == families[i]);
    g_assert_true (families[i]->torch == NULL || ps_family_find (class) == families[i]);
    for (guint k = 0; also[k] != NULL; k++)
      g_assert_true (ps_family_find (also[k]) == families[i]);
  }
  g_assert_cmpuint (n_torch, ==, 7);
  g_assert_cmpstr (ps_family_own_name ("ScheduleInterleaved1F1B", 2), ==, "interleaved");
  g_assert_cmpstr (ps_family_own_name ("ScheduleInterleaved1F1B", 1), ==, "eager-1f1b");
  g_assert_cmpstr (ps_family_own_name ("interleaved", 1), ==, "interleaved");
  g_assert_cmpstr (ps_family_own_name ("1f1b.json", 1), ==, "1f1b.json");
  g_assert_null (ps_family_find ("Schedule"));
  g_assert_null (ps_family_find (""));
}

static void test_weight_versions (void)
{
  PsFamilySetting setting = { .n_devices = 4, .n_microbatches = 8, .n_chunks = 1 };
  g_autoptr (PsSchedule) stashed = reference_generate ("pipedream", &setting);
  g_autoptr (PsSchedule) doubled = reference_generate ("pipedream-2bw", &setting);
  g_autoptr (PsSchedule) flushed = reference_generate ("1f1b", &setting);

  g_assert_true (stashed->asynchronous && doubled->asynchronous && !flushed->asynchronous);
  g_assert_null (flushed->weight_versions);
  for (guint r = 0; r < 4; r++) {
    g_assert_cmpuint (stashed->weight_versions[r], ==, 4 - r);
    g_assert_cmpuint (doubled->weight_versions[r], ==, 2);
  }
}

/* The versions count in the peak: device 1 of 4 keeps 3 activations of 5 and 2 further versions of 7 on top of 100. */
static void test_version_memory (void)
{
  PsFamilySetting setting = { .n_devices = 4, .n_microbatches = 8, .n_chunks = 1 };
  g_autoptr (PsCosts) costs = reference_costs (4, 1, 1, 1, 0, 5, 5);

  for (guint stage = 0; stage < 4; stage++) {
    costs->stage[stage].weight_bytes = 100;
    costs->stage[stage].version_bytes = 7;
  }
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) simulation
      = reference_simulate (reference_generate ("pipedream", &setting), costs, &program);
  g_assert_cmpint (simulation->device[1].peak_bytes, ==, 100 + 2 * 7 + 3 * 5);
}

/* Tests of the families with one chunk per device or in loop placement: recorded orders, published figures, closed
 * forms. */

/* What others call our families. */
typedef struct {
  const char *theirs;
  const char *ours;
} Name;

static const char *our_name (const Name *names, guint n, const char *theirs)
{
  for (guint i = 0; i < n; i++)
    if (g_str_equal (names[i].theirs, theirs))
      return names[i].ours;
  return NULL;
}

/* Breadth first is recorded with the backwards in the order of the forwards; ours walks the microbatches in reverse. */
static void mirror_backwards (PsSchedule *schedule)
{
  for (guint i = 0; i < ps_schedule_n_ops (schedule); i++)
    if (schedule->ops[i].kind == PS_OP_BW)
      schedule->ops[i].microbatch = (schedule->n_microbatches - 1 - schedule->ops[i].microbatch) & G_MAXINT32;
}

static char *join (JsonArray *order)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < json_array_get_length (order); i++)
    g_string_append_printf (text, "%s%s", i ? " " : "", json_array_get_string_element (order, i));
  return g_string_free (text, FALSE);
}

static void check_row (JsonObject *row, const char *name)
{
  PsFamilySetting setting = {
    .n_devices = (guint)json_object_get_int_member (row, "p"),
    .n_microbatches = (guint)json_object_get_int_member (row, "m"),
    .n_chunks = (guint)json_object_get_int_member_with_default (row, "v", 1),
    .n_slices = (guint)json_object_get_int_member_with_default (row, "q", 0),
    .group_size = (guint)json_object_get_int_member_with_default (row, "group", 0),
  };
  PsSchedule *schedule = reference_generate (name, &setting);
  g_autoptr (PsCosts) costs = reference_costs (setting.n_devices * setting.n_chunks, 1, 1, 1, 0, 1, 1);
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) simulation = reference_simulate (schedule, costs, &program);
  JsonArray *peaks = json_object_get_array_member (row, "peak_act_release_at_W"),
            *orders = json_object_get_array_member (row, "order");

  g_assert_cmpint (simulation->makespan_ns, ==, json_object_get_int_member (row, "makespan"));
  if (g_str_equal (name, "looped-bfs"))
    mirror_backwards (schedule);
  for (guint device = 0; device < setting.n_devices; device++) {
    g_autofree char *expected = join (json_array_get_array_element (orders, device)),
                    *ours = reference_order (schedule, device);

    g_assert_cmpstr (ours, ==, expected);
    g_assert_cmpint (program->peak_activations[device], ==, json_array_get_int_element (peaks, device));
  }
}

static gboolean check_order (JsonObject *row, gpointer data)
{
  static const Name names[] = { { "gpipe", "gpipe" },           { "1f1b", "1f1b" },       { "i1f1b", "interleaved" },
                                { "looped_bfs", "looped-bfs" }, { "seq1f1b", "seq1f1b" }, { "zbh1", "zb-h1" } };
  const char *name = our_name (names, G_N_ELEMENTS (names), json_object_get_string_member (row, "schedule"));

  if (name != NULL)
    check_row (row, name);
  return name != NULL;
}

static void test_orders_loop (void)
{
  guint n = reference_orders (check_order, NULL);

  g_assert_true (n == 0 || n == 35);
}

static const Name pytorch_names[] = {
  { "GPipe", "gpipe" },
  { "1F1B", "1f1b" },
  { "Interleaved1F1B", "interleaved" },
  { "LoopedBFS", "looped-bfs" },
  { "InterleavedZeroBubble", "interleaved-zb" },
};

/* PyTorch's Interleaved1F1B of one chunk has twice the warm-up of 1F1B, which is ours and Megatron-LM's. */
static const char *pytorch_family (const char *class, guint n_chunks)
{
  return g_str_equal (class, "Interleaved1F1B") && n_chunks == 1
             ? NULL
             : our_name (pytorch_names, G_N_ELEMENTS (pytorch_names), class);
}

/* PyTorch writes I for our B and B for our BW. */
static char *pytorch_order (const PsSchedule *schedule, guint device)
{
  static const char *const kinds[] = { "F", "I", "W", "B" };
  GString *text = g_string_new (NULL);

  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++) {
    PsOp op = schedule->ops[i];

    g_string_append_printf (text, "%s%u%s%u", text->len ? "," : "", (guint)op.stage, kinds[op.kind],
                            (guint)op.microbatch);
  }
  return g_string_free (text, FALSE);
}

/* "GPipe_p4_v1_m8_compute.csv" */
static gboolean check_pytorch_file (const char *file)
{
  char theirs[32];
  PsFamilySetting setting = { 0 };

  if (!g_str_has_suffix (file, "_compute.csv")
      || sscanf (file, "%31[^_]_p%u_v%u_m%u", theirs, &setting.n_devices, &setting.n_chunks, &setting.n_microbatches)
             != 4)
    return FALSE;
  const char *name = pytorch_family (theirs, setting.n_chunks);
  if (name == NULL)
    return FALSE;
  g_autofree char *path = g_build_filename ("pytorch", file, NULL);
  g_auto (GStrv) lines = reference_lines (path);
  g_autoptr (PsSchedule) schedule = reference_generate (name, &setting);
  for (guint device = 0; device < setting.n_devices; device++) {
    g_autofree char *ours = pytorch_order (schedule, device);

    g_assert_cmpstr (ours, ==, lines[device]);
  }
  return TRUE;
}

static void test_pytorch_orders (void)
{
  g_autofree char *path = reference_path ("pytorch");

  if (path == NULL)
    return;
  g_autoptr (GDir) directory = g_dir_open (path, 0, NULL);
  const char *file;
  guint n = 0;
  while ((file = g_dir_read_name (directory)) != NULL)
    n += check_pytorch_file (file);
  g_assert_cmpuint (n, ==, 33);
}

/* F = I = W = 1 and B = 2 per chunk; times are tenths. */
static gboolean check_pytorch_makespan (const ReferenceRow *row, gpointer data)
{
  const char *name = pytorch_family (reference_text (row, "schedule"), reference_count (row, "chunks"));

  if (name == NULL)
    return FALSE;
  PsFamilySetting setting = { .n_devices = reference_count (row, "devices"),
                              .n_microbatches = reference_count (row, "microbatches"),
                              .n_chunks = reference_count (row, "chunks") };
  g_auto (GStrv) peaks = g_strsplit (reference_text (row, "peak_inflight_per_device"), " ", -1);
  for (guint i = 0; i < 2; i++) {
    g_autoptr (PsCosts) costs = reference_costs (setting.n_devices * setting.n_chunks, 10, 10, 10, i ? 2 : 0, 1, 1);
    g_autoptr (PsProgram) program = NULL;
    g_autoptr (PsSimulation) simulation = reference_simulate (reference_generate (name, &setting), costs, &program);

    g_assert_cmpint (simulation->makespan_ns, ==,
                     llround (10 * reference_number (row, i ? "makespan_comm0.2" : "makespan_comm0")));
    for (guint device = 0; device < setting.n_devices; device++)
      g_assert_cmpuint (program->peak_activations[device], ==, g_ascii_strtoull (peaks[device], NULL, 10));
  }
  return TRUE;
}

static void test_pytorch_makespans (void)
{
  guint n = reference_rows ("pytorch_makespans.csv", check_pytorch_makespan, NULL);

  g_assert_true (n == 0 || n == 33);
}

static gboolean check_peer (const ReferenceRow *row, gpointer data)
{
  static const Name names[] = {
    { "1f1b_hand", "1f1b" }, { "1f1b_interleaved", "interleaved" }, { "zb_h1_hand", "zb-h1" }, { "zb_h2_hand", "zb-h2" }
  };
  const char *scheduler = reference_text (row, "scheduler");
  gboolean grouped = g_str_has_prefix (scheduler, "gis_group");
  const char *name = grouped ? "gis" : our_name (names, G_N_ELEMENTS (names), scheduler);

  if (name == NULL)
    return FALSE;
  PsFamilySetting setting
      = { .n_devices = reference_count (row, "devices"),
          .n_microbatches = reference_count (row, "microbatches"),
          .n_chunks = reference_count (row, "chunks"),
          .group_size = grouped ? (guint)g_ascii_strtoull (scheduler + strlen ("gis_group"), NULL, 10) : 0 };
  g_autoptr (PsCosts) costs = reference_peer_costs (row, setting.n_devices * setting.n_chunks);
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) simulation = reference_simulate (reference_generate (name, &setting), costs, &program);
  g_assert_cmpint (simulation->makespan_ns, ==, reference_integer (row, "makespan"));
  g_assert_cmpint (simulation->max_span_ns, ==, reference_integer (row, "max_span"));
  /* For m = p their interleaved lists are counted with warm-up forwards that do not exist: more than all there are. */
  gint64 everything = (gint64)setting.n_microbatches * setting.n_chunks * reference_integer (row, "mem_f");
  g_assert_cmpint (reference_peak (simulation), ==, MIN (everything, reference_integer (row, "peak_mem")));
  return TRUE;
}

static void test_peers (void)
{
  guint n = reference_rows ("peer_schedulers.csv", check_peer, NULL);

  g_assert_true (n == 0 || n == 198 + 60);
}

/* In units of a chunk's F = B = W = 1. */
typedef struct {
  guint p;
  guint m;
  guint v;
  guint q;
  guint group;
} Size;

static guint one (const Size *size, guint r)
{
  return 1;
}

static guint all (const Size *size, guint r)
{
  return size->m * size->v;
}

static guint falling (const Size *size, guint r)
{
  return MIN (size->m, size->p - r);
}

static guint twice_falling (const Size *size, guint r)
{
  return MIN (size->m, 2 * (size->p - r) - 1);
}

static guint level (const Size *size, guint r)
{
  return MIN (size->m, size->p);
}

static guint twice_level (const Size *size, guint r)
{
  return MIN (size->m, 2 * size->p - 1);
}

static guint interleaved (const Size *size, guint r)
{
  if (size->v == 1)
    return falling (size, r);
  return MIN (size->m * size->v, 2 * (size->p - 1 - r) + (size->v - 1) * size->group + 1);
}

static guint interleaved_level (const Size *size, guint r)
{
  return MIN (size->m * size->v, size->p + (size->v - 1) * size->group);
}

static guint overlapped (const Size *size, guint r)
{
  return MIN (size->m * size->v, interleaved (size, r) + 1);
}

static guint interleaved_falling (const Size *size, guint r)
{
  return MIN (size->m * size->v, size->p - r + (size->v - 1) * size->group);
}

static guint sliced (const Size *size, guint r)
{
  return MIN (size->m * size->q, size->p - r + size->q - 1);
}

/* One microbatch, q slices of v chunks, and some more. */
static guint slim (const Size *size, guint r)
{
  return size->v == 1 ? sliced (size, r) : MIN (size->m * size->v * size->q, 2 * (size->p - 1 - r) + size->v * size->q);
}

static gint64 serial_length (const Size *size)
{
  return 3 * size->m * size->p;
}

static gint64 fused_length (const Size *size)
{
  return 3 * (size->m * size->v * size->q + size->p - 1);
}

static gint64 split_length (const Size *size)
{
  return 3 * size->m * size->v + size->p - 1;
}

/* Each group waits for its next chunk where it is shorter than the pipeline. */
static gint64 grouped_length (const Size *size)
{
  guint wait = size->group < size->p ? (size->p - size->group) * (size->v - 1) : 0;

  return 3 * size->m * size->v + 2 * (size->p - 1) + wait;
}

static gint64 full_length (const Size *size)
{
  return 3 * size->m;
}

/* The closed form of the makespan, or of the longest span, holds from so many microbatches on, in pipeline lengths, and
 * for several chunks where p divides m. */
static const struct {
  const char *name;
  guint (*in_flight) (const Size *size, guint r);
  gint64 (*length) (const Size *size);
  gboolean span;
  guint pipelines;
  guint parts; /* groups that a pipeline holds */
} closed_forms[] = {
  { "naive", one, serial_length, FALSE, 0, 1 },
  { "gpipe", all, fused_length, FALSE, 0, 1 },
  { "1f1b", falling, fused_length, FALSE, 0, 1 },
  { "eager-1f1b", twice_falling, fused_length, FALSE, 0, 1 },
  { "interleaved", interleaved, fused_length, FALSE, 1, 1 },
  { "interleaved-overlap", overlapped, fused_length, FALSE, 1, 1 },
  { "interleaved-overlap-w", overlapped, grouped_length, FALSE, 1, 1 },
  { "looped-bfs", all, fused_length, FALSE, 1, 1 },
  { "zb-h1", level, split_length, FALSE, 1, 1 },
  { "zb-h2", twice_level, full_length, TRUE, 2, 1 },
  { "interleaved-zb", interleaved_level, split_length, FALSE, 1, 1 },
  { "gis", interleaved_falling, grouped_length, FALSE, 1, 2 },
  { "seq1f1b", sliced, fused_length, FALSE, 0, 1 },
  { "slimpipe", slim, fused_length, FALSE, 0, 1 },
  { "pipedream", falling, fused_length, FALSE, 0, 1 },
  { "pipedream-2bw", falling, fused_length, FALSE, 0, 1 },
};

/* FALSE where the family refuses the size. */
static gboolean check_closed_form (guint form, const Size *size)
{
  PsFamilySetting setting
      = { .n_devices = size->p, .n_microbatches = size->m, .n_chunks = size->v, .n_slices = size->q };
  PsSchedule *schedule = ps_family_generate (ps_family_find (closed_forms[form].name), &setting, NULL);

  if (schedule == NULL)
    return FALSE;
  g_autoptr (PsCosts) costs = reference_costs (size->p * size->v, 1, 1, 1, 0, 1, 1);
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) simulation = reference_simulate (schedule, costs, &program);
  for (guint r = 0; r < size->p; r++)
    g_assert_cmpuint (program->peak_activations[r], ==, closed_forms[form].in_flight (size, r));
  assert_runs_on_all_channels (program);
  if (size->m >= closed_forms[form].pipelines * size->p
      && (size->v == 1 || size->q > 1 || (size->m % size->p == 0 && size->m % size->group == 0)))
    g_assert_cmpint (closed_forms[form].span ? simulation->max_span_ns : simulation->makespan_ns, ==,
                     closed_forms[form].length (size));
  return TRUE;
}

/* The smallest group that Megatron-LM's rule allows, with `least` for p. */
static guint smallest_group (guint least, guint m)
{
  guint group = MIN (least, m);

  while (m % group != 0 && m % group < least)
    group++;
  return group;
}

static void test_closed_forms (void)
{
  for (guint form = 0; form < G_N_ELEMENTS (closed_forms); form++) {
    guint n = 0;

    for (guint p = 1; p <= 6; p++)
      for (guint m = 1; m <= 20; m++)
        for (guint v = 1; v <= 3; v++)
          for (guint q = 1, least = (p + closed_forms[form].parts - 1) / closed_forms[form].parts; q <= 4; q++)
            n += check_closed_form (form, &(Size){ p, m, v, q, smallest_group (least, m) });
    g_assert_cmpuint (n, >=, 100);
  }
}

static guint check_group (const char *name, guint (*in_flight) (const Size *size, guint r), const Size *size)
{
  PsFamilySetting setting
      = { .n_devices = size->p, .n_microbatches = size->m, .n_chunks = size->v, .group_size = size->group };
  PsSchedule *schedule = ps_family_generate (ps_family_find (name), &setting, NULL);

  if (schedule == NULL)
    return 0;
  g_autoptr (PsCosts) costs = reference_costs (size->p * size->v, 1, 1, 1, 0, 1, 1);
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) simulation = reference_simulate (schedule, costs, &program);
  g_assert_cmpint (simulation->makespan_ns, >=, 3 * size->m * size->v);
  assert_runs_on_all_channels (program);
  for (guint r = 0; r < size->p; r++)
    g_assert_cmpuint (program->peak_activations[r], ==, in_flight (size, r));
  return 1;
}

/* Of the groups up to m, those from p on go that divide m or leave p or more; of GIS's those from p / 2 on too. */
static void test_groups (void)
{
  for (guint p = 1; p <= 5; p++)
    for (guint m = 1; m <= 14; m++)
      for (guint v = 1; v <= 3; v++) {
        guint expected = 0, half = (p + 1) / 2, shorter = 0, n[4] = { 0 };

        for (guint group = 1; group <= m; group++) {
          shorter += group == m || (group >= half && (m % group == 0 || m % group >= half));
          n[2] += check_group ("gis", interleaved_falling, &(Size){ p, m, v, 1, group });
          expected += group == m || (group >= p && (m % group == 0 || m % group >= p));
          n[0] += check_group ("interleaved", interleaved, &(Size){ p, m, v, 1, group });
          n[1] += check_group ("interleaved-zb", interleaved_level, &(Size){ p, m, v, 1, group });
          n[3] += check_group ("interleaved-overlap", overlapped, &(Size){ p, m, v, 1, group });
        }
        g_assert_cmpuint (n[0], ==, expected);
        g_assert_cmpuint (n[1], ==, expected);
        g_assert_cmpuint (n[3], ==, v > 1 ? expected : 0);
        g_assert_cmpuint (n[2], ==, shorter);
      }
}

/* Tests of the families on a V, on waves and in both directions: orders and figures of the upstream generators,
 * PyTorch's action lists, constraints, and that whatever is allowed can run. */

/* family_orders.jsonl */

/* Which family a row is, and over how many chunks. The rows of ZB-V are the heuristic's at unit costs. */
static const struct {
  const char *row;
  const char *family;
  guint chunks; /* 0: as many as the row has stages for */
} row_families[] = {
  { "dualpipe", "dualpipe", 1 }, { "dualpipev", "dualpipe-v", 2 }, { "zbv", "zb-v-auto", 2 },
  { "vhalf", "v-half", 2 },      { "vmin", "v-min", 2 },           { "v1f1b", "1f1b-v", 2 },
  { "chimera", "chimera", 1 },   { "hanayo_greedy", "hanayo", 0 },
};

/* Microbatches renamed by their first appearance: Chimera's rows number the two directions in two ways. */
static void append_op (GString *text, GArray *names, const char *kind, guint stage, guint microbatch, gboolean paired)
{
  guint name = 0;

  while (name < names->len && g_array_index (names, guint, name) != microbatch)
    name++;
  if (name == names->len)
    g_array_append_val (names, microbatch);
  g_string_append_printf (text, "%s%u.%u%s", kind, name, stage, paired ? "+" : " ");
}

static char *schedule_text (const PsSchedule *schedule)
{
  g_autoptr (GArray) names = g_array_new (FALSE, FALSE, sizeof (guint));
  GString *text = g_string_new (NULL);

  for (guint device = 0; device < schedule->placement->n_devices; device++) {
    for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++)
      append_op (text, names, ps_op_kind_name ((PsOpKind)schedule->ops[i].kind), schedule->ops[i].stage,
                 schedule->ops[i].microbatch, schedule->ops[i].paired);
    g_string_append_c (text, '\n');
  }
  return g_string_free (text, FALSE);
}

/* Both ops of a pair carry its number, "F:0:3:p1" "BW:3:5:p1". */
static char *row_text (JsonArray *order)
{
  g_autoptr (GArray) names = g_array_new (FALSE, FALSE, sizeof (guint));
  GString *text = g_string_new (NULL);

  for (guint device = 0; device < json_array_get_length (order); device++) {
    JsonArray *ops = json_array_get_array_element (order, device);
    gboolean open = FALSE;

    for (guint i = 0; i < json_array_get_length (ops); i++) {
      g_auto (GStrv) parts = g_strsplit (json_array_get_string_element (ops, i), ":", -1);

      open = parts[3] != NULL && !open;
      append_op (text, names, parts[0], (guint)atoi (parts[1]), (guint)atoi (parts[2]), open);
    }
    g_string_append_c (text, '\n');
  }
  return g_string_free (text, FALSE);
}

static void check_row_figures (JsonObject *row, const char *family, guint p, guint m, guint v)
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
  if (pairs) {
    g_auto (Case) overlap = { 0 }, apart = { 0 };

    simulate_apart (&apart, family, p, m, v, (Units){ .f = 2, .b = 2, .w = 2 });
    g_assert_cmpint (apart.simulation->makespan_ns, ==, 2 * json_object_get_int_member (row, "makespan_async_seq"));
    simulate_family (&overlap, family, p, m, v, (Units){ .f = 2, .b = 2, .w = 2, .pair = 5 });
    g_assert_cmpfloat ((double)overlap.simulation->makespan_ns / 2, ==,
                       json_object_get_double_member (row, "makespan_pair_overlap_2p5"));
  }
}

static void check_row_v (JsonObject *row, const char *family, guint chunks)
{
  guint p = (guint)json_object_get_int_member (row, "p"), m = (guint)json_object_get_int_member (row, "m");
  guint v = chunks ? chunks : (guint)json_object_get_int_member (row, "stages") / p;
  g_autoptr (PsSchedule) schedule = fine (generate (family, p, m, v, &error));
  g_autofree char *ours = schedule_text (schedule), *theirs = row_text (json_object_get_array_member (row, "order"));

  g_assert_cmpstr (ours, ==, theirs);
  check_row_figures (row, family, p, m, v);
}

static void test_orders_v (void)
{
  g_autofree char *path = reference_path ("family_orders.jsonl"), *text = NULL;
  guint n = 0;

  if (path == NULL)
    return;
  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++) {
    g_autoptr (JsonNode) node = json_from_string (lines[i], NULL);

    if (node == NULL)
      continue;
    JsonObject *row = json_node_get_object (node);
    for (guint k = 0; k < G_N_ELEMENTS (row_families); k++)
      if (g_str_equal (json_object_get_string_member (row, "schedule"), row_families[k].row)) {
        check_row_v (row, row_families[k].family, row_families[k].chunks);
        n++;
      }
  }
  g_assert_cmpuint (n, ==, 40);
}

/* Where warm-up and drain overlap (m = p), V-Half is ordered better than the peer's, and V-Min by two chunk ops on 8
 * devices; all else is equal. */
static void check_peer_v (const PeerRow *row, const char *family)
{
  g_auto (Case) test = { 0 };

  simulate_family (&test, family, row->p, row->m, 2, row->units);
  g_assert_cmpint (peak_bytes (&test), ==, row->peak);
  if ((g_str_equal (family, "v-half") && row->m == row->p) || (g_str_equal (family, "v-min") && row->p == 8)) {
    g_assert_cmpint (test.simulation->makespan_ns, <=, row->makespan);
    g_assert_cmpint (test.simulation->max_span_ns, <=, row->span);
    return;
  }
  g_assert_cmpint (test.simulation->makespan_ns, ==, row->makespan);
  g_assert_cmpint (test.simulation->max_span_ns, ==, row->span);
}

static void test_peers_v (void)
{
  static const struct {
    const char *scheduler, *family;
    PeerCheck check;
    guint n;
  } peers[] = {
    { "zbv_handcrafted", "zb-v", check_peer_v, 45 },
    { "v_half", "v-half", check_peer_v, 45 },
    { "v_min", "v-min", check_peer_v, 45 },
    { "1f1b_v", "1f1b-v", check_peer_v, 45 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (peers); i++) {
    guint n = each_peer_row (peers[i].scheduler, peers[i].family, peers[i].check);

    if (n == 0)
      return;
    g_assert_cmpuint (n, ==, peers[i].n);
  }
}

/* PyTorch's action lists: its I and B are our B and BW. */
static char *torch_text (const PsSchedule *schedule, guint device)
{
  static const char *const kinds[] = { "F", "I", "W", "B" };
  GString *text = g_string_new (NULL);

  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++) {
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
static char *torch_row (const char *row)
{
  g_auto (GStrv) cells = g_strsplit (row, ",", -1);
  GString *text = g_string_new (NULL);

  for (guint i = 0; cells[i] != NULL; i++)
    if (*cells[i])
      g_string_append_printf (text, "%s%s", text->len ? "," : "", cells[i]);
  return g_string_free (text, FALSE);
}

static void test_pytorch (void)
{
  static const struct {
    const char *name, *family;
    guint m;
  } samples[] = {
    { "ZBVZeroBubble", "zb-v", 3 },    { "ZBVZeroBubble", "zb-v", 4 },    { "ZBVZeroBubble", "zb-v", 8 },
    { "ZBVZeroBubble", "zb-v", 10 },   { "ZBVZeroBubble", "zb-v", 16 },   { "DualPipeV", "dualpipe-v", 8 },
    { "DualPipeV", "dualpipe-v", 10 }, { "DualPipeV", "dualpipe-v", 16 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (samples); i++) {
    g_autofree char *name = g_strdup_printf ("pytorch/%s_p4_v2_m%u_compute.csv", samples[i].name, samples[i].m);
    g_autofree char *path = reference_path (name), *text = NULL;

    if (path == NULL)
      return;
    g_autoptr (PsSchedule) schedule = fine (generate (samples[i].family, 4, samples[i].m, 2, &error));
    g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
    g_auto (GStrv) rows = g_strsplit (text, "\r\n", -1);
    for (guint device = 0; device < 4; device++) {
      g_autofree char *ours = torch_text (schedule, device), *theirs = torch_row (rows[device]);

      g_assert_cmpstr (ours, ==, theirs);
    }
  }
}

/* PyTorch's evaluator takes pairs apart. */
static void check_torch_makespan (const char *family, guint m, gint64 c, gint64 makespan, const char *in_flight)
{
  g_auto (Case) test = { 0 };

  simulate_apart (&test, family, 4, m, 2, (Units){ .f = 10, .b = 10, .w = 10, .c = c });
  g_assert_cmpint (test.simulation->makespan_ns, ==, makespan);
  g_auto (GStrv) peaks = g_strsplit (in_flight, " ", -1);
  for (guint device = 0; device < 4; device++)
    g_assert_cmpint (test.program->peak_activations[device], ==, atoi (peaks[device]));
}

static void test_pytorch_makespans_v (void)
{
  g_autofree char *path = reference_path ("pytorch_makespans.csv"), *text = NULL;
  guint n = 0;

  if (path == NULL)
    return;
  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++) {
    g_auto (GStrv) cells = g_strsplit (lines[i], ",", -1);

    if (g_strv_length (cells) != 7 || !(g_str_equal (cells[0], "ZBVZeroBubble") || g_str_equal (cells[0], "DualPipeV")))
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
static void test_written_out (void)
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
static void check_block (const char *name, guint p, gint64 bubble, guint activations)
{
  guint m = 3 * p, most = 0;
  g_auto (Case) test = { 0 };

  simulate_family (&test, name, p, m, 2, (Units){ .f = 1, .b = 1, .w = 1 });
  for (guint device = 0; device < p; device++)
    most = MAX (most, test.program->peak_activations[device]);
  g_assert_cmpuint (most, ==, 2 * activations);
  g_assert_cmpint (test.simulation->makespan_ns, ==, 6 * m + bubble);
}

static void test_closed_forms_v (void)
{
  for (guint p = 4; p <= 64; p *= 2) {
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

static void test_constraints_v (void)
{
  assert_refused ("zb-v", 4, 8, 1, "zb-v: has two chunks per device, not 1");
  assert_refused ("zb-v-auto", 4, 8, 3, "zb-v-auto: has two chunks per device, not 3");
  assert_refused ("dualpipe", 3, 8, 1, "dualpipe: 3 devices; give a multiple of 2, such as 2 or 4");
  assert_refused ("dualpipe", 4, 9, 1, "dualpipe: 9 microbatches; give a multiple of 2, such as 8 or 10");
  assert_refused ("dualpipe", 4, 6, 1, "dualpipe: 6 microbatches on 4 devices; give at least 8, two for each device");
  assert_refused ("dualpipe-v", 4, 7, 2,
                  "dualpipe-v: 7 microbatches on 4 devices; give at least 8, two for each device");
  assert_refused ("chimera", 1, 8, 1, "chimera: 1 devices; give a multiple of 2");
  assert_refused ("chimera", 4, 6, 1, "chimera: 6 microbatches; give a multiple of 4, such as 4 or 8");
  assert_refused ("chimera", 4, 8, 2, "chimera: has one chunk per device, not 2");
  assert_refused ("hanayo", 4, 4, 3, "hanayo: 3 chunks; give a multiple of 2, such as 2 or 4");
}

static gboolean check_runs_v (const char *name, guint p, guint m, guint v)
{
  g_autoptr (GError) error = NULL;
  PsSchedule *schedule = generate (name, p, m, v, &error);

  if (schedule == NULL) {
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

static void test_all_settings_v (void)
{
  static const struct {
    const char *name;
    guint v;
    guint n; /* settings that the constraints allow */
  } families[] = {
    { "zb-v", 2, 160 },    { "zb-v-auto", 2, 160 }, { "v-half", 2, 160 }, { "v-min", 2, 160 },  { "1f1b-v", 2, 160 },
    { "dualpipe", 1, 24 }, { "dualpipe-v", 2, 96 }, { "chimera", 1, 20 }, { "hanayo", 2, 160 }, { "hanayo", 4, 160 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (families); i++) {
    guint n = 0;

    for (guint p = 1; p <= 8; p++)
      for (guint m = 1; m <= 20; m++)
        n += check_runs_v (families[i].name, p, m, families[i].v);
    g_assert_cmpuint (n, ==, families[i].n);
  }
}

/* Waves of Hanayo that go on are never slower than iterations of m = p one after the other, and hold no more. */
static void check_waves (GRand *rand, guint p, guint m, guint v)
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

static void test_waves (void)
{
  static const gint64 best[][3] = { { 4, 8, 65 }, { 8, 16, 137 }, { 16, 32, 281 } }; /* chunk units, F = B = W = 1 */
  g_autoptr (GRand) rand = g_rand_new_with_seed (4);

  for (guint i = 0; i < G_N_ELEMENTS (best); i++) {
    g_auto (Case) test = { 0 };

    simulate_family (&test, "hanayo", (guint)best[i][0], (guint)best[i][1], 2, (Units){ .f = 1, .b = 1, .w = 1 });
    g_assert_cmpint (test.simulation->makespan_ns, ==, best[i][2]);
  }
  for (guint p = 1; p <= 8; p++)
    for (guint m = p; m <= 4 * p; m += 1 + p / 3)
      for (guint v = 2; v <= 6; v += 2)
        check_waves (rand, p, m, v);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/families/orders", test_orders);
  g_test_add_func ("/families/defer-head", test_defer_head);
  g_test_add_func ("/families/constraints", test_constraints);
  g_test_add_func ("/families/all-settings", test_all_settings);
  g_test_add_func ("/families/table", test_table);
  g_test_add_func ("/families/names", test_names);
  g_test_add_func ("/families/weight-versions", test_weight_versions);
  g_test_add_func ("/families/version-memory", test_version_memory);
  g_test_add_func ("/families-loop/orders", test_orders_loop);
  g_test_add_func ("/families-loop/pytorch-orders", test_pytorch_orders);
  g_test_add_func ("/families-loop/pytorch-makespans", test_pytorch_makespans);
  g_test_add_func ("/families-loop/peers", test_peers);
  g_test_add_func ("/families-loop/closed-forms", test_closed_forms);
  g_test_add_func ("/families-loop/groups", test_groups);
  g_test_add_func ("/families-v/written-out", test_written_out);
  g_test_add_func ("/families-v/closed-forms", test_closed_forms_v);
  g_test_add_func ("/families-v/constraints", test_constraints_v);
  g_test_add_func ("/families-v/all-settings", test_all_settings_v);
  g_test_add_func ("/families-v/waves", test_waves);
  g_test_add_func ("/families-v/orders", test_orders_v);
  g_test_add_func ("/families-v/peers", test_peers_v);
  g_test_add_func ("/families-v/pytorch", test_pytorch);
  g_test_add_func ("/families-v/pytorch-makespans", test_pytorch_makespans_v);
  return g_test_run ();
}
