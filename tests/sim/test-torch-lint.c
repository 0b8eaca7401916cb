/* Tests of what formats.h says about schedules for PyTorch's runtime. */
#include "format-io.h"
#include "random-schedule.h"

static void
assert_findings (GPtrArray *findings, guint n, const char *const *expected)
{
  for (guint i = 0; i < findings->len; i++)
    g_test_message ("%s", (const char *)g_ptr_array_index (findings, i));
  g_assert_cmpuint (findings->len, ==, n);
  for (guint i = 0; i < n; i++)
    g_assert_nonnull (strstr (g_ptr_array_index (findings, i), expected[i]));
  g_ptr_array_unref (findings);
}

#define ASSERT_FINDINGS(findings, ...)                                                                                 \
  do                                                                                                                   \
    {                                                                                                                  \
      static const char *const expected[] = { __VA_ARGS__ };                                                           \
      assert_findings (findings, G_N_ELEMENTS (expected), expected);                                                   \
    }                                                                                                                  \
  while (0)

static GPtrArray *
lint_text (const char *text)
{
  return fine (ps_torch_lint_comms ("f", text, strlen (text), &error));
}

static void
test_lint_schedules (void)
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

static void
test_lint_comms (void)
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
static void
test_lint_deadlock (void)
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
static void
test_lint_written (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (23);

  for (guint i = 0; i < 200; i++)
    {
      g_autoptr (PsSchedule) schedule = random_schedule (rand, i % 2);
      g_autoptr (GPtrArray) findings = ps_torch_lint (schedule, NULL);

      for (guint k = 0; k < findings->len; k++)
        {
          g_assert_null (strstr (g_ptr_array_index (findings, k), "deadlock"));
          g_assert_null (strstr (g_ptr_array_index (findings, k), "REDUCE_GRAD"));
          g_assert_null (strstr (g_ptr_array_index (findings, k), "UNSHARD"));
          g_assert_null (strstr (g_ptr_array_index (findings, k), "2.15 refuses"));
        }
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/torch-lint/schedules", test_lint_schedules);
  g_test_add_func ("/torch-lint/comms", test_lint_comms);
  g_test_add_func ("/torch-lint/deadlock", test_lint_deadlock);
  g_test_add_func ("/torch-lint/written", test_lint_written);
  return g_test_run ();
}
