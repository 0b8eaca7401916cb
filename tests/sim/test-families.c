/* Tests of schedule.h: orders written out, constraints, and that whatever is allowed can run on every channel model. */
#include "family-case.h"

static void
test_orders (void)
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

static void
assert_group_refused (const char *name, guint p, guint m, guint group, const char *message)
{
  PsFamilySetting setting = { .n_devices = p, .n_microbatches = m, .n_chunks = 2, .group_size = group };

  refused (ps_family_generate (ps_family_find (name), &setting, &error), PS_ERROR_USAGE, message);
}

/* p = 2, m = 4, F, B and W of 1: device 1 has a BW of 2 per microbatch. Two of its W go into the time in which it would
 * wait for the drain of device 0, so the pipeline is 1 shorter. */
static void
test_defer_head (void)
{
  static const struct
  {
    guint n;
    const char *order;
    gint64 makespan_ns;
  } cases[] = {
    { 0, "F:1:0 BW:1:0 F:1:1 BW:1:1 F:1:2 BW:1:2 F:1:3 BW:1:3", 15 },
    { 2, "F:1:0 B:1:0 F:1:1 B:1:1 F:1:2 BW:1:2 F:1:3 BW:1:3 W:1:0 W:1:1", 14 },
    { 9, "F:1:0 B:1:0 F:1:1 B:1:1 F:1:2 B:1:2 F:1:3 B:1:3 W:1:0 W:1:1 W:1:2 W:1:3", 15 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
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

static void
test_constraints (void)
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

static void
check_runs (const PsFamily *family, const PsFamilySetting *setting)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSchedule) schedule = ps_family_generate (family, setting, &error);

  if (schedule == NULL)
    return;
  g_autoptr (PsProgram) program = lower (g_steal_pointer (&schedule));
  assert_runs_on_all_channels (program);
}

static void
test_all_settings (void)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++)
    for (guint p = 1; p <= 6; p++)
      for (guint m = 1; m <= 14; m++)
        for (guint v = 1; v <= 3; v++)
          check_runs (families[i], &(PsFamilySetting){ .n_devices = p, .n_microbatches = m, .n_chunks = v });
}

static void
test_table (void)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++)
    {
      g_assert_true (ps_family_find (families[i]->name) == families[i]);
      g_assert_true (families[i]->description && families[i]->constraints && families[i]->memory
                     && families[i]->source);
      g_assert_cmpuint (families[i]->default_chunks, >=, 1);
    }
  g_assert_null (ps_family_find ("1F1B"));
}

static void
test_weight_versions (void)
{
  PsFamilySetting setting = { .n_devices = 4, .n_microbatches = 8, .n_chunks = 1 };
  g_autoptr (PsSchedule) stashed = reference_generate ("pipedream", &setting);
  g_autoptr (PsSchedule) doubled = reference_generate ("pipedream-2bw", &setting);
  g_autoptr (PsSchedule) flushed = reference_generate ("1f1b", &setting);

  g_assert_true (stashed->asynchronous && doubled->asynchronous && !flushed->asynchronous);
  g_assert_null (flushed->weight_versions);
  for (guint r = 0; r < 4; r++)
    {
      g_assert_cmpuint (stashed->weight_versions[r], ==, 4 - r);
      g_assert_cmpuint (doubled->weight_versions[r], ==, 2);
    }
}

/* The versions count in the peak: device 1 of 4 keeps 3 activations of 5 and 2 further versions of 7 on top of 100. */
static void
test_version_memory (void)
{
  PsFamilySetting setting = { .n_devices = 4, .n_microbatches = 8, .n_chunks = 1 };
  g_autoptr (PsCosts) costs = reference_costs (4, 1, 1, 1, 0, 5, 5);

  for (guint stage = 0; stage < 4; stage++)
    {
      costs->stage[stage].weight_bytes = 100;
      costs->stage[stage].version_bytes = 7;
    }
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) simulation
      = reference_simulate (reference_generate ("pipedream", &setting), costs, &program);
  g_assert_cmpint (simulation->device[1].peak_bytes, ==, 100 + 2 * 7 + 3 * 5);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/families/orders", test_orders);
  g_test_add_func ("/families/defer-head", test_defer_head);
  g_test_add_func ("/families/constraints", test_constraints);
  g_test_add_func ("/families/all-settings", test_all_settings);
  g_test_add_func ("/families/table", test_table);
  g_test_add_func ("/families/weight-versions", test_weight_versions);
  g_test_add_func ("/families/version-memory", test_version_memory);
  return g_test_run ();
}
