/* Tests of answer.h: worked examples by hand. */
#include "explain-rig.h"

/* "F0.0 0-1, >F0.0 1-2": ops and transfers (after '>', by producer) with times in milliseconds. */
static char *path_text (const Case *test)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < test->explanation->path->len; i++) {
    const PsPathPart *part = &g_array_index (test->explanation->path, PsPathPart, i);
    gboolean transfer = part->kind == PS_PATH_TRANSFER;
    PsOp op = transfer ? ps_program_producer (test->program, part->step)
                       : test->program->schedule->ops[test->program->op_of[part->step]];
    char name[48];

    g_string_append_printf (text, "%s%s%s %g-%g", i ? ", " : "", transfer ? ">" : "", ps_op_format (op, name),
                            (double)part->start_ns / 1e6, (double)part->end_ns / 1e6);
  }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void check_idle (const Case *test, guint device, const double *expected_ms)
{
  for (guint i = 0; i < PS_IDLE_UNEXPLAINED; i++)
    g_assert_cmpint (test->explanation->idle_ns[device * PS_N_IDLE + i], ==, (gint64)(expected_ms[i] * 1e6));
}

/* 1F1B p = 2, m = 2, f = 1, bw = 2, c = 1 (ms), as worked out in test-simulate.c:
 * device 0: F0 0-1, F1 1-2, BW0 6-8, BW1 9-11. device 1: F0 2-3, BW0 3-5, F1 5-6, BW1 6-8.
 * Backwards from BW1 of stage 0 (9-11): its gradient travelled 8-9, BW1 of stage 1 6-8, F1 5-6, BW0 3-5, F0 2-3, the
 * activation 1-2, F0 of stage 0. Lengths: 1 + 1 + 1 + 2 + 1 + 2 + 1 + 2 = 11.
 * Slack: F1 of stage 0 ends at 2, its activation is there at 3 and needed at 5: 2. BW0 of stage 0 ends at 8 and BW1
 * starts at 9: 1. All others lie on the path.
 * Idle of device 0: 2-6 for BW0: its producer ends at 5 (3 backward), then 1 transfer; 8-9: the producer ends at 8 (0),
 * 1 transfer. Of device 1: 2 warm-up, 3 drain. */
static void test_1f1b (void)
{
  g_auto (Case) test = { 0 };

  explain_family (&test, "1f1b", 2, 2, "f=1ms,bw=2ms,c=1ms");
  g_autofree char *path = path_text (&test);
  g_assert_cmpstr (path, ==, "F0.0 0-1, >F0.0 1-2, F0.1 2-3, BW0.1 3-5, F1.1 5-6, BW1.1 6-8, >B1.1 8-9, BW1.0 9-11");
  static const struct {
    PsOpKind kind;
    guint stage, microbatch;
    gint64 slack_ns;
  } slacks[] = { { PS_OP_F, 0, 0, 0 }, { PS_OP_F, 0, 1, 2000000 }, { PS_OP_BW, 0, 0, 1000000 }, { PS_OP_BW, 0, 1, 0 },
                 { PS_OP_F, 1, 0, 0 }, { PS_OP_F, 1, 1, 0 },       { PS_OP_BW, 1, 0, 0 },       { PS_OP_BW, 1, 1, 0 } };
  for (guint i = 0; i < test.program->n_steps; i++)
    for (guint k = 0; k < G_N_ELEMENTS (slacks); k++) {
      PsOp op = test.program->schedule->ops[test.program->op_of[i]];

      if (op.kind == slacks[k].kind && op.stage == slacks[k].stage && op.microbatch == slacks[k].microbatch)
        g_assert_cmpint (test.explanation->slack_ns[i], ==, slacks[k].slack_ns);
    }
  check_idle (&test, 0, (const double[]){ 0, 0, 3, 2, 0, 0, 0, 0 });
  check_idle (&test, 1, (const double[]){ 2, 0, 0, 0, 0, 3, 0, 0 });
}

/* With o of 1 and 3 ms (lists: per stage) device 0 waits 2 ms at the optimizer. */
static void test_synchronisation (void)
{
  g_auto (Case) test = { 0 };

  explain_family (&test, "1f1b", 2, 2, "f=1ms,bw=2ms,c=1ms,o=1ms:3ms");
  check_idle (&test, 0, (const double[]){ 0, 0, 3, 2, 0, 0, 2, 0 });
  check_idle (&test, 1, (const double[]){ 2, 0, 0, 0, 0, 3, 0, 0 });
}

/* Several causes at once: gpipe p = 2, m = 2, f = bw = 1 (ms), c = 0. Stage 0: F0.0 0-1, F1.0 1-2, BW0.0 4-5, BW1.0
 * 5-6; stage 1: F0.1 1-2, F1.1 2-3, BW0.1 3-4, BW1.1 4-5. Backwards from BW1.0: BW0.0 and BW1.1 both end at 5, the own
 * device's op counts. BW0.0 starts with the gradient of BW0.1 (3-4), that after F1.1 (2-3), for which F0.1 and F1.0
 * both end at 2: the own device's again, and F0.1 starts with the activation of F0.0. A second run gives the same. */
static void test_ties (void)
{
  g_auto (Case) a = { 0 }, b = { 0 };

  explain_family (&a, "gpipe", 2, 2, "f=1ms,bw=1ms");
  explain_family (&b, "gpipe", 2, 2, "f=1ms,bw=1ms");
  g_autofree char *first = path_text (&a), *second = path_text (&b);
  g_assert_cmpstr (first, ==, second);
  g_assert_cmpstr (first, ==, "F0.0 0-1, F0.1 1-2, F1.1 2-3, BW0.1 3-4, BW0.0 4-5, BW1.0 5-6");
}

/* Both devices end at 5: W0.1 3-5, and W0.0 4-5 after the gradient of B0.1 2-3. The path is that of the first device.
 */
static void test_two_last (void)
{
  g_auto (Case) test = { 0 };

  explain_family (&test, "zb-h1", 2, 1, "f=1ms,b=1ms,w=1ms:2ms");
  g_autofree char *path = path_text (&test);
  g_assert_cmpstr (path, ==, "F0.0 0-1, F0.1 1-2, B0.1 2-3, B0.0 3-4, W0.0 4-5");
}

/* f = 1, bw = 2, c = 1, p = 2, m = 2 again, of which the path holds F: 3 x 1 ms, BW: 3 x 2 ms, transfers 2 x 1 ms;
 * stage 0: F0, BW1 = 3 ms, stage 1: 6 ms. Taking x less time saves x of that as long as the path stays critical, the
 * rest follows from the path through what else there is: BW shorter by s: the path is 11 - 6 s. Others: F0.0 F1.0 (2) >
 * (1) F1.1 (1) ... F1.1 starts at max (5 - 2 s, 3): at s = 1 both 3: never later than the path. BW0 of stage 0 after
 * F1.0 or its gradient: 5 - 2 s + 1 = 6 - 2 s, ends 8 - 4 s; BW1 starts at max (8 - 4 s, 9 - 4 s). So it always stays
 * critical: least = 5. */
static void test_what_if (void)
{
  g_auto (Case) test = { 0 };

  explain_family (&test, "1f1b", 2, 2, "f=1ms,bw=2ms,c=1ms");
  g_autoptr (GArray) what_ifs = ps_what_if (test.program, test.costs, NULL, 0, 0.1, 100, NULL);
  static const struct {
    const char *part;
    gint64 iteration_ns, least_ns;
    double change_point;
  } rows[] = {
    { "BW", 10400000, 5000000, 1 }, { "stage 1", 10400000, 0, 0 },        { "F", 10700000, 8000000, 1 },
    { "stage 0", 10700000, 0, 0 },  { "link 0-1", 10800000, 9000000, 1 },
  };
  g_assert_cmpuint (what_ifs->len, ==, G_N_ELEMENTS (rows));
  for (guint i = 0; i < what_ifs->len; i++) {
    const PsWhatIf *what_if = &g_array_index (what_ifs, PsWhatIf, i);
    g_autofree char *name = ps_part_format (&what_if->part);

    g_assert_cmpstr (name, ==, rows[i].part);
    g_assert_cmpint (what_if->iteration_ns, ==, rows[i].iteration_ns);
    g_assert_cmpfloat_with_epsilon (what_if->gain, 1 - (double)rows[i].iteration_ns / 11e6, 1e-12);
    if (rows[i].least_ns == 0)
      continue;
    g_assert_cmpint (what_if->least_ns, ==, rows[i].least_ns);
    g_assert_cmpfloat (what_if->change_point, ==, rows[i].change_point);
  }
}

/* gpipe p = 2, m = 4, c = 0, f = 1:3, bw = 2:1 (ms): device 0 runs F 0-1, 1-2, 2-3, 3-4; device 1 F 1-4, 4-7, 7-10,
 * 10-13 and BW 13-14 to 16-17; BW of stage 0 start at 14: 14-16, 16-18, 18-20, 20-22. Path: F0.0 (1), four F of stage 1
 * (12), a BW of stage 1 (1), four BW of stage 0 (8): 22, of which stage 1 is 13: 22 - 13 s. Against it stands the path
 * over all F of stage 0 (4), one F and one BW of stage 1 and four BW of stage 0 (8): 4 + 4 (1 - s) + 8 = 16 - 4 s. They
 * meet where 6 = 9 s: s = 2 / 3. With s = 1 device 0 alone is left: 12. */
static void test_change_point (void)
{
  g_auto (Case) test = { 0 };

  explain_family (&test, "gpipe", 2, 4, "f=1ms:3ms,bw=2ms:1ms");
  g_assert_cmpint (test.simulation->makespan_ns, ==, 22000000);
  g_autoptr (GArray) what_ifs = ps_what_if (test.program, test.costs, NULL, 1000000, 0.5, 100, NULL);
  gboolean found = FALSE;
  for (guint i = 0; i < what_ifs->len; i++) {
    const PsWhatIf *what_if = &g_array_index (what_ifs, PsWhatIf, i);

    if (what_if->part.kind != PS_PART_STAGE || what_if->part.a != 1)
      continue;
    found = TRUE;
    /* 22 - 13 / 2, and 1 ms beyond the makespan. */
    g_assert_cmpint (what_if->iteration_ns, ==, 16500000);
    g_assert_cmpint (what_if->least_ns, ==, 13000000);
    g_assert_cmpfloat_with_epsilon (what_if->change_point, 2.0 / 3, 1e-12);
  }
  g_assert_true (found);
}

/* One microbatch on 300 devices: all ops and transfers are on the path, so each part saves half of its time, and no
 * other path ever takes over. There are more parts than are evaluated at once. */
static void test_many_parts (void)
{
  enum { P = 300 };
  g_auto (Case) test = { 0 };
  g_autoptr (PsCosts) costs = ps_costs_new (P);
  gint64 f = 0, bw = 0, total = 0, before = 0;

  for (guint s = 0; s < P; s++) {
    ps_costs_op (costs, PS_OP_F, s)->duration_ns = 10000 + 100 * s;
    ps_costs_op (costs, PS_OP_BW, s)->duration_ns = 20000 + 200 * s;
    costs->transfer_ns[1 + s] = 1000 + 10 * s;
    costs->transfer_ns[1 + P + s] = s > 0 ? 2000 + 20 * (s - 1) : 0;
    f += 10000 + 100 * s;
    bw += 20000 + 200 * s;
    total += s + 1 < P ? 3000 + 30 * s : 0;
  }
  total += f + bw;
  explain (&test, lower_family ("naive", P, 1, 0), g_steal_pointer (&costs));
  g_assert_cmpint (test.simulation->makespan_ns, ==, total);
  g_autoptr (GArray) all = ps_what_if (test.program, test.costs, NULL, 5000, 0.5, G_MAXUINT, NULL);
  g_autoptr (GArray) best = ps_what_if (test.program, test.costs, NULL, 5000, 0.5, 7, NULL);
  g_assert_cmpuint (all->len, ==, 2 + P + P - 1);
  g_assert_cmpuint (best->len, ==, 7);
  for (guint i = 0; i < all->len; i++) {
    const PsWhatIf *what_if = &g_array_index (all, PsWhatIf, i);
    gint64 a = what_if->part.a, time = what_if->part.kind == PS_PART_STAGE  ? 30000 + 300 * a
                                       : what_if->part.kind == PS_PART_LINK ? 3000 + 30 * a
                                       : a == PS_OP_F                       ? f
                                                                            : bw;

    g_assert_cmpint (what_if->iteration_ns, ==, total + 5000 - time / 2);
    g_assert_cmpint (what_if->least_ns, ==, total + 5000 - time);
    g_assert_cmpfloat (what_if->change_point, ==, 1);
    g_assert_cmpfloat_with_epsilon (what_if->gain, (double)(time / 2) / (double)(total + 5000), 1e-12);
    g_assert_cmpint (what_if->iteration_ns, >=, before);
    before = what_if->iteration_ns;
    if (i < best->len)
      g_assert_cmpint (g_array_index (best, PsWhatIf, i).iteration_ns, ==, what_if->iteration_ns);
  }
}

/* A pair's time belongs to its ops as their own times do: 30 for F = 10 and B + W = 40 is 6 and 24. */
static void test_pairs (void)
{
  g_autoptr (PsProgram) program = lower_family ("dualpipe", 2, 4, 0);
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=10ns,bw=40ns,pair=30ns", 2, 1, NULL);
  guint second = 0;

  while (program->pair[second] != PS_PAIR_SECOND || program->schedule->ops[program->op_of[second]].kind != PS_OP_BW)
    second++;
  PsOp f = program->schedule->ops[program->op_of[second - 1]], bw = program->schedule->ops[program->op_of[second]];
  guint device = program->steps[second].device;
  const struct {
    PsPart part;
    gint64 ns;
  } rows[] = {
    { { PS_PART_KIND, PS_OP_F, 0 }, 6 },
    { { PS_PART_KIND, PS_OP_BW, 0 }, 24 },
    { { PS_PART_STAGE, bw.stage, 0 }, f.stage == bw.stage ? 30 : 24 },
    { { PS_PART_DEVICE, device, 0 }, 30 },
    { { PS_PART_DEVICE, 1 - device, 0 }, 0 },
    { { PS_PART_LINK, 0, 1 }, 0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_assert_cmpint (ps_part_of_op (&rows[i].part, program, costs, second), ==, rows[i].ns);
    g_assert_cmpint (ps_part_of_op (&rows[i].part, program, costs, second - 1), ==, 0);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/explain/1f1b", test_1f1b);
  g_test_add_func ("/explain/synchronisation", test_synchronisation);
  g_test_add_func ("/explain/ties", test_ties);
  g_test_add_func ("/explain/two-last", test_two_last);
  g_test_add_func ("/explain/what-if", test_what_if);
  g_test_add_func ("/explain/change-point", test_change_point);
  g_test_add_func ("/explain/many-parts", test_many_parts);
  g_test_add_func ("/explain/pairs", test_pairs);
  return g_test_run ();
}
