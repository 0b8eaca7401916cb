/* Tests of the families with one chunk per device or in loop placement: recorded orders, published figures, closed
 * forms. */
#include "reference.h"

#include <stdio.h>

/* What others call our families. */
typedef struct
{
  const char *theirs;
  const char *ours;
} Name;

static const char *
our_name (const Name *names, guint n, const char *theirs)
{
  for (guint i = 0; i < n; i++)
    if (g_str_equal (names[i].theirs, theirs))
      return names[i].ours;
  return NULL;
}

/* Breadth first is recorded with the backwards in the order of the forwards; ours walks the microbatches in reverse. */
static void
mirror_backwards (PsSchedule *schedule)
{
  for (guint i = 0; i < ps_schedule_n_ops (schedule); i++)
    if (schedule->ops[i].kind == PS_OP_BW)
      schedule->ops[i].microbatch = (schedule->n_microbatches - 1 - schedule->ops[i].microbatch) & G_MAXINT32;
}

static char *
join (JsonArray *order)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < json_array_get_length (order); i++)
    g_string_append_printf (text, "%s%s", i ? " " : "", json_array_get_string_element (order, i));
  return g_string_free (text, FALSE);
}

static void
check_row (JsonObject *row, const char *name)
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
  for (guint device = 0; device < setting.n_devices; device++)
    {
      g_autofree char *expected = join (json_array_get_array_element (orders, device)),
                      *ours = reference_order (schedule, device);

      g_assert_cmpstr (ours, ==, expected);
      g_assert_cmpint (program->peak_activations[device], ==, json_array_get_int_element (peaks, device));
    }
}

static gboolean
check_order (JsonObject *row, gpointer data)
{
  static const Name names[] = { { "gpipe", "gpipe" },           { "1f1b", "1f1b" },       { "i1f1b", "interleaved" },
                                { "looped_bfs", "looped-bfs" }, { "seq1f1b", "seq1f1b" }, { "zbh1", "zb-h1" } };
  const char *name = our_name (names, G_N_ELEMENTS (names), json_object_get_string_member (row, "schedule"));

  if (name != NULL)
    check_row (row, name);
  return name != NULL;
}

static void
test_orders (void)
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
static const char *
pytorch_family (const char *class, guint n_chunks)
{
  return g_str_equal (class, "Interleaved1F1B") && n_chunks == 1
             ? NULL
             : our_name (pytorch_names, G_N_ELEMENTS (pytorch_names), class);
}

/* PyTorch writes I for our B and B for our BW. */
static char *
pytorch_order (const PsSchedule *schedule, guint device)
{
  static const char *const kinds[] = { "F", "I", "W", "B" };
  GString *text = g_string_new (NULL);

  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++)
    {
      PsOp op = schedule->ops[i];

      g_string_append_printf (text, "%s%u%s%u", text->len ? "," : "", (guint)op.stage, kinds[op.kind],
                              (guint)op.microbatch);
    }
  return g_string_free (text, FALSE);
}

/* "GPipe_p4_v1_m8_compute.csv" */
static gboolean
check_pytorch_file (const char *file)
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
  for (guint device = 0; device < setting.n_devices; device++)
    {
      g_autofree char *ours = pytorch_order (schedule, device);

      g_assert_cmpstr (ours, ==, lines[device]);
    }
  return TRUE;
}

static void
test_pytorch_orders (void)
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
static gboolean
check_pytorch_makespan (const ReferenceRow *row, gpointer data)
{
  const char *name = pytorch_family (reference_text (row, "schedule"), reference_count (row, "chunks"));

  if (name == NULL)
    return FALSE;
  PsFamilySetting setting = { .n_devices = reference_count (row, "devices"),
                              .n_microbatches = reference_count (row, "microbatches"),
                              .n_chunks = reference_count (row, "chunks") };
  g_auto (GStrv) peaks = g_strsplit (reference_text (row, "peak_inflight_per_device"), " ", -1);
  for (guint i = 0; i < 2; i++)
    {
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

static void
test_pytorch_makespans (void)
{
  guint n = reference_rows ("pytorch_makespans.csv", check_pytorch_makespan, NULL);

  g_assert_true (n == 0 || n == 33);
}

static gboolean
check_peer (const ReferenceRow *row, gpointer data)
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

static void
test_peers (void)
{
  guint n = reference_rows ("peer_schedulers.csv", check_peer, NULL);

  g_assert_true (n == 0 || n == 198 + 60);
}

/* In units of a chunk's F = B = W = 1. */
typedef struct
{
  guint p;
  guint m;
  guint v;
  guint q;
  guint group;
} Size;

static guint
one (const Size *size, guint r)
{
  return 1;
}

static guint
all (const Size *size, guint r)
{
  return size->m * size->v;
}

static guint
falling (const Size *size, guint r)
{
  return MIN (size->m, size->p - r);
}

static guint
twice_falling (const Size *size, guint r)
{
  return MIN (size->m, 2 * (size->p - r) - 1);
}

static guint
level (const Size *size, guint r)
{
  return MIN (size->m, size->p);
}

static guint
twice_level (const Size *size, guint r)
{
  return MIN (size->m, 2 * size->p - 1);
}

static guint
interleaved (const Size *size, guint r)
{
  if (size->v == 1)
    return falling (size, r);
  return MIN (size->m * size->v, 2 * (size->p - 1 - r) + (size->v - 1) * size->group + 1);
}

static guint
interleaved_level (const Size *size, guint r)
{
  return MIN (size->m * size->v, size->p + (size->v - 1) * size->group);
}

static guint
overlapped (const Size *size, guint r)
{
  return MIN (size->m * size->v, interleaved (size, r) + 1);
}

static guint
interleaved_falling (const Size *size, guint r)
{
  return MIN (size->m * size->v, size->p - r + (size->v - 1) * size->group);
}

static guint
sliced (const Size *size, guint r)
{
  return MIN (size->m * size->q, size->p - r + size->q - 1);
}

static gint64
serial_length (const Size *size)
{
  return 3 * size->m * size->p;
}

static gint64
fused_length (const Size *size)
{
  return 3 * (size->m * size->v * size->q + size->p - 1);
}

static gint64
split_length (const Size *size)
{
  return 3 * size->m * size->v + size->p - 1;
}

/* Each group waits for its next chunk where it is shorter than the pipeline. */
static gint64
grouped_length (const Size *size)
{
  guint wait = size->group < size->p ? (size->p - size->group) * (size->v - 1) : 0;

  return 3 * size->m * size->v + 2 * (size->p - 1) + wait;
}

static gint64
full_length (const Size *size)
{
  return 3 * size->m;
}

/* The closed form of the makespan, or of the longest span, holds from so many microbatches on, in pipeline lengths, and
 * for several chunks where p divides m. */
static const struct
{
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
  { "pipedream", falling, fused_length, FALSE, 0, 1 },
  { "pipedream-2bw", falling, fused_length, FALSE, 0, 1 },
};

/* FALSE where the family refuses the size. */
static gboolean
check_closed_form (guint form, const Size *size)
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
      && (size->v == 1 || (size->m % size->p == 0 && size->m % size->group == 0)))
    g_assert_cmpint (closed_forms[form].span ? simulation->max_span_ns : simulation->makespan_ns, ==,
                     closed_forms[form].length (size));
  return TRUE;
}

/* The smallest group that Megatron-LM's rule allows, with `least` for p. */
static guint
smallest_group (guint least, guint m)
{
  guint group = MIN (least, m);

  while (m % group != 0 && m % group < least)
    group++;
  return group;
}

static void
test_closed_forms (void)
{
  for (guint form = 0; form < G_N_ELEMENTS (closed_forms); form++)
    {
      guint n = 0;

      for (guint p = 1; p <= 6; p++)
        for (guint m = 1; m <= 20; m++)
          for (guint v = 1; v <= 3; v++)
            for (guint q = 1, least = (p + closed_forms[form].parts - 1) / closed_forms[form].parts; q <= 4; q++)
              n += check_closed_form (form, &(Size){ p, m, v, q, smallest_group (least, m) });
      g_assert_cmpuint (n, >=, 100);
    }
}

static guint
check_group (const char *name, guint (*in_flight) (const Size *size, guint r), const Size *size)
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
static void
test_groups (void)
{
  for (guint p = 1; p <= 5; p++)
    for (guint m = 1; m <= 14; m++)
      for (guint v = 1; v <= 3; v++)
        {
          guint expected = 0, half = (p + 1) / 2, shorter = 0, n[4] = { 0 };

          for (guint group = 1; group <= m; group++)
            {
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

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/families-loop/orders", test_orders);
  g_test_add_func ("/families-loop/pytorch-orders", test_pytorch_orders);
  g_test_add_func ("/families-loop/pytorch-makespans", test_pytorch_makespans);
  g_test_add_func ("/families-loop/peers", test_peers);
  g_test_add_func ("/families-loop/closed-forms", test_closed_forms);
  g_test_add_func ("/families-loop/groups", test_groups);
  return g_test_run ();
}
