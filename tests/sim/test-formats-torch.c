/* Tests of PyTorch's formats and of what its runtime would refuse. */
#include "format-io.h"
#include "observe/trace-private.h"
#include "random-schedule.h"

#include <pipesim/schedule.h>
#include <stdlib.h>

/* PyTorch's files: the fixtures are a choice of those in the reference folders, which a checkout of its own lacks. */
typedef struct {
  const char *path;
  const char *format; /* of *_comms.csv */
} Folder;

static const Folder folders[] = {
  { "fixtures/torch", "torch-comms-2.14" },
  { "fixtures/torch-2.15", "torch-comms" },
  { "../../shared/reference/pytorch", "torch-comms-2.14" },
  { "../../shared/reference/pytorch-2.15", "torch-comms" },
};

/* PyTorch lowers what its compute form holds, and we give back what we have read. */
static void check_sample (const Folder *folder, const char *text, const char *compute_text)
{
  g_autoptr (PsSchedule) comms = read_as (folder->format, text);
  g_autofree char *comms_again = write_as (folder->format, comms), *raised = write_as ("torch-compute", comms);
  g_autoptr (PsSchedule) compute = read_as ("torch-compute", raised);
  g_autofree char *lowered = write_as (folder->format, compute);
  g_autoptr (GError) error = NULL;

  g_assert_cmpstr (comms_again, ==, text);
  g_assert_cmpstr (lowered, ==, text);
  if (compute_text != NULL)
    g_assert_cmpstr (raised, ==, compute_text);
  g_assert_cmpstr (ps_format_recognise ("test", text, strlen (text), &error)->name, ==, folder->format);
}

/* Which of our families PyTorch's classes are. */
static const struct {
  const char *class;
  const char *family;
} classes[] = {
  { "GPipe", "gpipe" },
  { "1F1B", "1f1b" },
  { "Interleaved1F1B", "interleaved" },
  { "LoopedBFS", "looped-bfs" },
  { "InterleavedZeroBubble", "interleaved-zb" },
  { "ZBVZeroBubble", "zb-v" },
  { "DualPipeV", "dualpipe-v" },
};

static const PsFamily *family_of (const char *class)
{
  for (guint i = 0; i < G_N_ELEMENTS (classes); i++)
    if (g_str_equal (classes[i].class, class))
      return ps_family_find (classes[i].family);
  return NULL;
}

/* TRUE when the class is one of our families; then its order is PyTorch's. */
static gboolean check_family (const Folder *folder, const char *name, const char *text)
{
  g_auto (GStrv) parts = g_strsplit (name, "_", -1);
  const PsFamily *family = family_of (parts[0]);
  PsFamilySetting setting = { .n_devices = (guint)atoi (parts[1] + 1), .n_chunks = (guint)atoi (parts[2] + 1) };

  if (family == NULL || (g_str_equal (parts[0], "Interleaved1F1B") && setting.n_chunks == 1)) /* then ours is 1F1B */
    return FALSE;
  setting.n_microbatches = (guint)atoi (parts[3] + 1);
  g_autoptr (PsSchedule) schedule = fine (ps_family_generate (family, &setting, &error));
  g_autofree char *comms = write_as (folder->format, schedule);
  g_assert_cmpstr (comms, ==, text);
  return TRUE;
}

static void test_samples (gconstpointer data)
{
  const Folder *folder = data;
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, folder->path, NULL);
  g_autoptr (GDir) directory = g_dir_open (path, 0, NULL);
  guint n = 0, of_families = 0;
  const char *name;

  if (directory == NULL) {
    g_test_skip ("no reference files beside this checkout");
    return;
  }
  while ((name = g_dir_read_name (directory)) != NULL)
    if (g_str_has_suffix (name, "_comms.csv")) {
      g_autofree char *file = g_build_filename (path, name, NULL), *text = NULL, *compute = NULL;
      g_autoptr (GString) other = g_string_new (file);

      g_test_message ("%s", name);
      g_string_replace (other, "_comms.csv", "_compute.csv", 0);
      g_assert_true (g_file_get_contents (file, &text, NULL, NULL));
      g_file_get_contents (other->str, &compute, NULL, NULL);
      check_sample (folder, text, compute);
      of_families += check_family (folder, name, text);
      n++;
    }
  g_assert_cmpuint (n, >=, 6);
  g_assert_cmpuint (of_families, >=, 5);
}

/* A worked example: two ranks, two microbatches. Rank 0 takes the first turn of each round; a receive is noted the
 * moment its send is. */
static void test_worked (void)
{
  static const char compute[] = "0F0,0F1,0I0,0W0,0B1\r\n"
                                "1F0,1I0,1F1,1W0,1B1\r\n";
  /* round: 0UNSHARD 1UNSHARD | 0F0 -> 1RECV_F0, then rank 1 takes its turn: 1F0 | 0F1 -> 1RECV_F1; 1I0 -> 0RECV_B0 |
   * 0I0; 1F1 | 0W0; 1W0 | rank 0 waits; 1B1 -> 0RECV_B1; | 0B1; 1REDUCE_GRAD | ... Then rank 0 waits for its sends once
   * their gradients are there, rank 1 at its end. */
  static const char comms[] = "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0WAIT_SEND_F0,0W0,0RECV_B1,0B1,"
                              "0WAIT_SEND_F1,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD\r\n"
                              "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1I0,1SEND_B0,1F1,1W0,1B1,1SEND_B1,1REDUCE_GRAD,"
                              "1WAIT_REDUCE_GRAD,1RESHARD,1WAIT_SEND_B0,1WAIT_SEND_B1\r\n";
  g_autoptr (PsSchedule) schedule = read_as ("torch-compute", compute);
  g_autofree char *lowered = write_as ("torch-comms", schedule);

  g_assert_cmpstr (lowered, ==, comms);
  g_assert_cmpuint (schedule->placement->n_devices, ==, 2);
  g_assert_cmpuint (schedule->n_microbatches, ==, 2);
  g_assert_cmpint (schedule->ops[2].kind, ==, PS_OP_B);
  g_assert_cmpint (schedule->ops[4].kind, ==, PS_OP_BW);
  g_assert_cmpstr (schedule->name, ==, "test");
}

/* Four stages on one rank: three have their weights gathered at a time. Before 0F1 the pair fills the window with
 * both its stages, so that all four are. */
static void test_worked_weights (void)
{
  static const char compute[] = "0F0,1F0,2F0,3F0,0F1,1F1,(2F1;3B0)OVERLAP_F_B,3F1,2B0,1B0,0B0,3B1,2B1,1B1,0B1\r\n";
  static const char comms[]
      = "0UNSHARD,1UNSHARD,2UNSHARD,0F0,0RESHARD,3UNSHARD,1F0,1RESHARD,0UNSHARD,2F0,2RESHARD,1UNSHARD,3F0,"
        "2UNSHARD,0F1,0RESHARD,1F1,(2F1;3B0)OVERLAP_F_B,3F1,3RESHARD,0UNSHARD,2B0,2RESHARD,3UNSHARD,1B0,"
        "1RESHARD,2UNSHARD,0B0,0RESHARD,1UNSHARD,3B1,3REDUCE_GRAD,3RESHARD,0UNSHARD,2B1,2REDUCE_GRAD,"
        "2RESHARD,1B1,1REDUCE_GRAD,1RESHARD,0B1,0REDUCE_GRAD,0RESHARD\r\n";
  g_autoptr (PsSchedule) schedule = read_as ("torch-compute", compute);
  g_autofree char *lowered = write_as ("torch-comms-2.14", schedule);

  g_assert_cmpstr (lowered, ==, comms);
}

/* Pairs, a V, blanks, spaces, quotes, bare newlines and a missing one at the end. */
static void test_lenient (void)
{
  static const char text[] = "0F0, 0F1,,\"3F0\",( 3F1 ; 3B0 )OVERLAP_F_B,0B0,3B1,0B1\n"
                             "1F0,2F0,1F1,2F1,,2B0,1B0,2B1,1B1,";
  g_autoptr (PsSchedule) schedule = read_as ("torch-compute", text);
  g_autofree char *again = write_as ("torch-compute", schedule);

  g_assert_cmpint (schedule->placement->kind, ==, PS_PLACEMENT_V);
  g_assert_true (schedule->ops[3].paired && !schedule->ops[4].paired);
  g_assert_cmpstr (again, ==,
                   "0F0,0F1,3F0,(3F1;3B0)OVERLAP_F_B,0B0,3B1,0B1\r\n"
                   "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\r\n");
}

/* Nothing is lost on the way to the other release and back. */
static void test_releases (void)
{
  g_autofree char *path
      = g_test_build_filename (G_TEST_DIST, "fixtures", "torch", "ZBVZeroBubble_p4_v2_m3_comms.csv", NULL);
  g_autofree char *old = NULL, *new = NULL, *again = NULL;
  g_autoptr (PsSchedule) before = NULL, after = NULL;

  g_assert_true (g_file_get_contents (path, &old, NULL, NULL));
  before = read_as ("torch-comms", old);
  new = write_as ("torch-comms", before);
  after = read_as ("torch-comms", new);
  again = write_as ("torch-comms-2.14", after);
  g_assert_nonnull (strstr (new, "WAIT_SEND_F0"));
  g_assert_cmpstr (again, ==, old);
}

static void assert_refused (const char *text, const char *message)
{
  g_autoptr (GError) read_error = NULL, lint_error = NULL;
  g_autoptr (PsSchedule) schedule = format_named ("torch-comms")->read ("f", text, strlen (text), &read_error);
  GPtrArray *findings = ps_torch_lint_comms ("f", text, strlen (text), &lint_error);

  g_assert_null (schedule);
  g_assert_null (findings);
  assert_error (&read_error, PS_ERROR_INPUT, message);
  g_assert_cmpstr (lint_error->message, ==, message);
}

/* Two stages of a V on rank 0, two on rank 1: F0 of stage 0 and B0 of stage 3 go the same way. */
static void test_mispaired (void)
{
  assert_refused ("0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0\n"
                  "2RECV_B0,1RECV_F0,1F0,2F0,2SEND_F0,2B0,1B0,1SEND_B0",
                  "f:2:1: 2RECV_B0: PyTorch would hand it 0SEND_F0, which rank 0 sends in its turn");
  assert_refused ("0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2\n"
                  "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F2,1RECV_F1,1F1,1B1,1SEND_B1,1F2,1B2,1SEND_B2",
                  "f:2:5: 1RECV_F2: PyTorch would hand it 0SEND_F1, which rank 0 sends in its turn");
}

static void test_waits_refused (void)
{
  static const char other[] = "\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1WAIT_SEND_B0";
  static const char *const cases[][2] = {
    { "0F0,0SEND_F0,0RECV_B0,0B0", "f:1:2: 0SEND_F0: has no WAIT_SEND after it, which PyTorch 2.15 wants" },
    { "0F0,0WAIT_SEND_F0,0SEND_F0,0RECV_B0,0B0", "f:1:2: 0WAIT_SEND_F0: waits for a send that is not under way" },
    { "0F0,0SEND_F0,0WAIT_SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0",
      "f:1:6: 0WAIT_SEND_F0: waits for a send that is not under way" },
    { "0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0,0REDUCE_GRAD",
      "f:1:6: 0REDUCE_GRAD: has no 0WAIT_REDUCE_GRAD after it, which PyTorch 2.15 wants" },
    { "0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0,0WAIT_REDUCE_GRAD",
      "f:1:6: 0WAIT_REDUCE_GRAD: waits for a reduction that is not under way" },
    { "0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0,0REDUCE_GRAD,0REDUCE_GRAD",
      "f:1:7: 0REDUCE_GRAD: comes before the wait for the reduction of stage 0" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *text = g_strconcat (cases[i][0], other, NULL);

    assert_refused (text, cases[i][1]);
  }
}

/* Ids that no table has room for. */
static void test_too_large (void)
{
  g_autoptr (GString) text = g_string_new ("0F1048575");

  for (guint stage = 1; stage < 65; stage++)
    g_string_append_printf (text, ",%uF0", stage);
  assert_refused (text->str, "f:1: stages and microbatches make 68157440 forwards, more than 67108864 ops; "
                             "microbatches go up to 1048575");
}

/* The program of a file is the file's: its receives are where they were planned, not where PyTorch would put them. */
static void test_own_order (void)
{
  static const char *const formats[] = { "torch-comms", "torch-comms-2.14" };
  PsFamilySetting setting = { .n_devices = 3, .n_microbatches = 8, .n_chunks = 2 };

  for (guint order = PS_COMM_DEFERRED; order <= PS_COMM_PLANNED; order++)
    for (guint i = 0; i < G_N_ELEMENTS (formats); i++) {
      g_autoptr (GError) error = NULL;
      PsSchedule *zb_v = ps_family_generate (ps_family_find ("zb-v"), &setting, NULL);
      g_autoptr (PsProgram) program = order == PS_COMM_DEFERRED ? ps_program_lower_untagged (zb_v, &error)
                                                                : ps_program_lower (zb_v, PS_COMM_PLANNED, &error);
      g_autofree char *text = format_named (formats[i])->write_program (program, &error), *again = NULL;
      g_autoptr (PsSchedule) schedule = read_as (formats[i], text);

      again = write_as (formats[i], schedule);
      g_assert_cmpstr (again, ==, text);
      g_autoptr (PsProgram) own = fine (ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, &error));
      g_assert_cmpmem (own->instructions, own->first[3] * sizeof (PsInstruction), program->instructions,
                       program->first[3] * sizeof (PsInstruction));
    }
}

/* The largest stage and microbatch that there can be, and the next; numbers so long that 64 bits would lose them. */
static void test_numbers (void)
{
  static const struct {
    const char *cell;
    guint stage, microbatch;
    const char *problem;
  } rows[] = {
    { "16383F1048575", 16383, 1048575, NULL },
    { "0F0", 0, 0, NULL },
    { "00016383W0001048575", 16383, 1048575, NULL },
    { "16384F0", 0, 0, "begins with no stage number" },
    { "99999F0", 0, 0, "begins with no stage number" },
    { "18446744073709551617F0", 0, 0, "begins with no stage number" },
    { "340282366920938463463374607431768211457F0", 0, 0, "begins with no stage number" },
    { "0F1048576", 0, 0, "has no microbatch number" },
    { "0F9999999", 0, 0, "has no microbatch number" },
    { "0F18446744073709551617", 0, 0, "has no microbatch number" },
    { "0F", 0, 0, "has no microbatch number" },
    { "0F1x", 0, 0, "goes on after the end" },
    { "0UNSHARD1", 0, 0, "goes on after the end" },
    { "3REDUCE_GRAD", 3, 0, NULL },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    PsTorchAction actions[2];
    guint n;
    const char *problem = ps_torch_cell_parse (rows[i].cell, strlen (rows[i].cell), actions, &n);

    g_assert_cmpint (problem == NULL, ==, rows[i].problem == NULL);
    if (problem != NULL) {
      g_assert_true (g_str_has_prefix (problem, rows[i].problem));
      continue;
    }
    g_assert_cmpuint (n, ==, 1);
    g_assert_cmpuint (actions[0].stage, ==, rows[i].stage);
    g_assert_cmpuint (actions[0].microbatch, ==, rows[i].microbatch);
  }
}

/* Cells in quotes are what is within; a quote at one end is none. */
static void test_quotes (void)
{
  static const char *const wrong[]
      = { "\"0F0,0B0", "0F0\",0B0", "x0F0\",0B0", "\"0F0x,0B0", "\",0B0", "\"\"0F0\"\",0B0" };
  static const char right[] = "\"0F0\",\" 0B0 \",\"\"";
  g_autoptr (PsSchedule) schedule = read_as ("torch-compute", right);

  g_assert_cmpuint (ps_schedule_n_ops (schedule), ==, 2);
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++) {
    g_autoptr (PsSchedule) none = format_named ("torch-compute")->read ("f", wrong[i], strlen (wrong[i]), NULL);

    g_assert_null (none);
  }
}

/* Of m microbatches rank 0 sends all in order, and rank 1 receives the n-th and the next the other way round: the n-th
 * receive gets what it should not. */
static void test_ordinals (void)
{
  const guint m = 25;

  for (guint n = 1; n < m; n++) {
    g_autoptr (GString) first = g_string_new (NULL), second = g_string_new (NULL);

    for (guint k = 0; k < m; k++) {
      g_string_append_printf (first, "%s0F%u,0SEND_F%u", k ? "," : "", k, k);
      g_string_append_printf (second, "%s1RECV_F%u", k ? "," : "", k + 1 == n ? k + 1 : k == n ? k - 1 : k);
    }
    for (guint k = 0; k < m; k++) {
      g_string_append_printf (first, ",0RECV_B%u,0B%u", k, k);
      g_string_append_printf (second, ",1F%u,1B%u,1SEND_B%u", k, k, k);
    }
    g_autofree char *text = g_strdup_printf ("%s\n%s", first->str, second->str);
    g_autofree char *message = g_strdup_printf (
        "f:2:%u: 1RECV_F%u: PyTorch would hand it 0SEND_F%u, which rank 0 sends in its turn", n, n, n - 1);
    assert_refused (text, message);
  }
}

/* Names of ranges: what PyTorch's runtime, its GPipe and Megatron-LM write, alone or as the end of a path. */
static void test_range_names (void)
{
  static const struct {
    const char *name;
    gint naming; /* -1: the name is none */
    PsTorchType type;
    guint stage, microbatch;
  } rows[] = {
    { "PP:3I7", PS_RANGES_NAMED, TORCH_I, 3, 7 },
    { "PP:2SEND_B4", PS_RANGES_NAMED, TORCH_SEND_B, 2, 4 },
    { "PP:x", -1, 0, 0, 0 },
    { "3I7", -1, 0, 0, 0 },
    { "Forward 0", PS_RANGES_OF_RANK, TORCH_F, 0, 0 },
    { "Backward 1048575", PS_RANGES_OF_RANK, TORCH_B, 0, 1048575 },
    { "Backward 1048576", -1, 0, 0, 0 },
    { "Forward -1", -1, 0, 0, 0 },
    { "Forward", -1, 0, 0, 0 },
    { "forward_step", PS_RANGES_COUNTED, TORCH_F, 0, 0 },
    { "a.b.forward_step", PS_RANGES_COUNTED, TORCH_F, 0, 0 },
    { "a b:backward_step", PS_RANGES_COUNTED, TORCH_B, 0, 0 },
    { "x/forward-compute", PS_RANGES_COUNTED, TORCH_F, 0, 0 },
    { "backward-compute", PS_RANGES_COUNTED, TORCH_B, 0, 0 },
    { "my_forward_step", -1, 0, 0, 0 },
    { "forward_step_2", -1, 0, 0, 0 },
    { "nv.mcore.microbatch.forward", PS_RANGES_COUNTED, TORCH_F, 0, 0 },
    { "megatron.microbatch.backward", PS_RANGES_COUNTED, TORCH_B, 0, 0 },
    { "megatron.p2p.send_forward", PS_RANGES_COUNTED, TORCH_SEND_F, 0, 0 },
    { "megatron.p2p.recv_forward", PS_RANGES_COUNTED, TORCH_RECV_F, 0, 0 },
    { "megatron.p2p.send_backward", PS_RANGES_COUNTED, TORCH_SEND_B, 0, 0 },
    { "megatron.p2p.recv_backward", PS_RANGES_COUNTED, TORCH_RECV_B, 0, 0 },
    { "", -1, 0, 0, 0 },
  };
  static const struct {
    const char *name;
    gboolean mark, update;
  } marks[] = { { "Optimizer.step#SGD.step", TRUE, TRUE }, { "megatron.optimizer_step", TRUE, TRUE },
                { "optimizer_step", TRUE, TRUE },          { "my_optimizer_step", FALSE, FALSE },
                { "ProfilerStep#3", TRUE, FALSE },         { "megatron.train_step", TRUE, FALSE },
                { "x.training.iteration", TRUE, FALSE },   { "Optimizer.zero_grad#SGD", FALSE, FALSE },
                { "ProfilerStep", FALSE, FALSE } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    PsRangeName parsed;

    g_assert_cmpint (ps_range_name_parse (rows[i].name, &parsed), ==, rows[i].naming >= 0);
    if (rows[i].naming < 0)
      continue;
    g_assert_cmpint (parsed.naming, ==, rows[i].naming);
    g_assert_cmpuint (parsed.n, ==, 1);
    g_assert_cmpint (parsed.actions[0].type, ==, rows[i].type);
    g_assert_cmpuint (parsed.actions[0].stage, ==, rows[i].stage);
    g_assert_cmpuint (parsed.actions[0].microbatch, ==, rows[i].microbatch);
  }
  for (guint i = 0; i < G_N_ELEMENTS (marks); i++) {
    g_assert_cmpint (ps_range_name_is_mark (marks[i].name), ==, marks[i].mark);
    g_assert_cmpint (ps_range_name_is_update (marks[i].name), ==, marks[i].update);
  }
}

/* Tests of what formats.h says about schedules for PyTorch's runtime. */

static const char *what_of (const GPtrArray *findings, guint i)
{
  return ((const PsFinding *)findings->pdata[i])->what;
}

static void assert_findings (GPtrArray *findings, guint n, const char *const *expected)
{
  for (guint i = 0; i < findings->len; i++)
    g_test_message ("%s", what_of (findings, i));
  g_assert_cmpuint (findings->len, ==, n);
  for (guint i = 0; i < n; i++)
    g_assert_nonnull (strstr (what_of (findings, i), expected[i]));
  g_ptr_array_unref (findings);
}

#define ASSERT_FINDINGS(findings, ...)                                                                                 \
  do {                                                                                                                 \
    static const char *const expected[] = { __VA_ARGS__ };                                                             \
    assert_findings (findings, G_N_ELEMENTS (expected), expected);                                                     \
  } while (0)

static GPtrArray *lint_text (const char *text)
{
  return fine (ps_torch_lint_comms ("f", text, strlen (text), &error));
}

static void test_lint_schedules (void)
{
  g_autoptr (PsSchedule) loop = small_schedule (PS_PLACEMENT_LOOP, 2, 1), v = small_schedule (PS_PLACEMENT_V, 2, 2);
  g_autoptr (PsSchedule) wave = small_schedule (PS_PLACEMENT_WAVE, 2, 3);
  g_autoptr (PsSchedule) two = small_schedule (PS_PLACEMENT_BIDIRECTIONAL, 2, 1);
  GPtrArray *none = ps_torch_lint (loop, NULL);

  g_assert_cmpuint (none->len, ==, 0);
  g_ptr_array_unref (none);
  ASSERT_FINDINGS (ps_torch_lint (v, NULL), "only under the schedule name ZBVZeroBubble or DualPipeV");
  ASSERT_FINDINGS (ps_torch_lint (wave, NULL), "placement wave: torchtitan cannot load it");
  ASSERT_FINDINGS (ps_torch_lint (two, NULL), "a stage lies on two devices");
  two->recomputes = TRUE;
  ASSERT_FINDINGS (ps_torch_lint (two, NULL), "a stage lies on two devices", "recomputation (R)");
  loop->weight_versions = g_new (guint, 2);
  loop->weight_versions[0] = 2;
  loop->weight_versions[1] = 1;
  ASSERT_FINDINGS (ps_torch_lint (loop, NULL), "several weight versions");
  loop->asynchronous = TRUE;
  ASSERT_FINDINGS (ps_torch_lint (loop, NULL), "asynchronous");
  /* Lists that are given are looked at in place of those that would be written. */
  g_autoptr (PsSchedule) one = small_schedule (PS_PLACEMENT_LOOP, 1, 1);
  ASSERT_FINDINGS (ps_torch_lint (one, "0UNSHARD,0F0,0B0,0RESHARD"), "rank 0: no 0REDUCE_GRAD after the last backward");
}

#define OLD "no waits for sends and reductions: PyTorch 2.15 refuses the file"

static void test_lint_comms (void)
{
  ASSERT_FINDINGS (lint_text ("0UNSHARD,0F0,0B0,0RESHARD"), OLD,
                   "rank 0: no 0REDUCE_GRAD after the last backward of stage 0");
  ASSERT_FINDINGS (lint_text ("0UNSHARD,0F0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0B0,0RESHARD"), "rank 0: no 0REDUCE_GRAD");
  ASSERT_FINDINGS (lint_text ("0UNSHARD,0F0,0RESHARD,0B0,0REDUCE_GRAD"), OLD,
                   "rank 0: cell 4: stage 0 is used without 0UNSHARD");
  /* A stage is named once, each for itself. */
  ASSERT_FINDINGS (lint_text ("0UNSHARD,0F0,0RESHARD,0F1,0B0,0B1,0REDUCE_GRAD"), OLD,
                   "rank 0: cell 4: stage 0 is used without 0UNSHARD");
  ASSERT_FINDINGS (lint_text ("0F0,1UNSHARD,1F0,1B0,1RESHARD,0B0,0F1,1F1,1B1,0B1,1REDUCE_GRAD,0REDUCE_GRAD"), OLD,
                   "stage 0 is used without 0UNSHARD", "stage 1 is used without 1UNSHARD");
  /* The receive of 0B0 comes before 0F1. */
  ASSERT_FINDINGS (lint_text ("0UNSHARD,0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
                              "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD"),
                   OLD, "receives posted before computations that do not need them: 1, most on rank 0 (1)");
}

/* Rank 0 sends F1 before it receives B0; rank 1 sends B0 before it receives F1. Over one channel each waits for the
 * other's first; over one channel per direction they pass. */
static void test_lint_deadlock (void)
{
  ASSERT_FINDINGS (lint_text ("0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0WAIT_SEND_F0,0RECV_B1,0B1,"
                              "0WAIT_SEND_F1,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD\n"
                              "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1REDUCE_GRAD,"
                              "1WAIT_REDUCE_GRAD,1RESHARD,1WAIT_SEND_B0,1WAIT_SEND_B1"),
                   "with one communicator per pair of ranks (the default): deadlock: device 0 instruction",
                   "with one in-order stream per rank: deadlock: device 0 instruction");
  /* No channels help: rank 0 sends F0 after the backward that needs it to have arrived. */
  ASSERT_FINDINGS (
      lint_text ("0UNSHARD,0F0,0RECV_B0,0B0,0SEND_F0,0WAIT_SEND_F0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD\n"
                 "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1RESHARD,1WAIT_SEND_B0"),
      "TORCH_DISTRIBUTED_PIPELINE_PER_EDGE_P2P=1): deadlock: device 0", "the default): deadlock", "per rank: deadlock");
}

/* What we write never deadlocks, in whatever way transfers share channels. */
static void test_lint_written (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (23);

  for (guint i = 0; i < 200; i++) {
    g_autoptr (PsSchedule) schedule = random_schedule (rand, i % 2);
    g_autoptr (GPtrArray) findings = ps_torch_lint (schedule, NULL);

    for (guint k = 0; k < findings->len; k++) {
      g_assert_null (strstr (what_of (findings, k), "deadlock"));
      g_assert_null (strstr (what_of (findings, k), "REDUCE_GRAD"));
      g_assert_null (strstr (what_of (findings, k), "UNSHARD"));
      g_assert_null (strstr (what_of (findings, k), "2.15 refuses"));
    }
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/formats-torch/fixtures-2.14", &folders[0], test_samples);
  g_test_add_data_func ("/formats-torch/fixtures-2.15", &folders[1], test_samples);
  g_test_add_data_func ("/formats-torch/reference-2.14", &folders[2], test_samples);
  g_test_add_data_func ("/formats-torch/reference-2.15", &folders[3], test_samples);
  g_test_add_func ("/formats-torch/worked", test_worked);
  g_test_add_func ("/formats-torch/worked-weights", test_worked_weights);
  g_test_add_func ("/formats-torch/lenient", test_lenient);
  g_test_add_func ("/formats-torch/releases", test_releases);
  g_test_add_func ("/formats-torch/mispaired", test_mispaired);
  g_test_add_func ("/formats-torch/waits-refused", test_waits_refused);
  g_test_add_func ("/formats-torch/too-large", test_too_large);
  g_test_add_func ("/formats-torch/own-order", test_own_order);
  g_test_add_func ("/formats-torch/numbers", test_numbers);
  g_test_add_func ("/formats-torch/quotes", test_quotes);
  g_test_add_func ("/formats-torch/ordinals", test_ordinals);
  g_test_add_func ("/formats-torch/range-names", test_range_names);
  g_test_add_func ("/torch-lint/schedules", test_lint_schedules);
  g_test_add_func ("/torch-lint/comms", test_lint_comms);
  g_test_add_func ("/torch-lint/deadlock", test_lint_deadlock);
  g_test_add_func ("/torch-lint/written", test_lint_written);
  return g_test_run ();
}
