/* Tests of verify: pipelines on the cpu device compute what one device computes, and results that differ are told
 * apart.
 */
#include "run-rig.h"
#include "run/run.h"
#include "run/runtime.h"

#include <math.h>
#include <pipesim/model.h>

/* What a pipeline computes is what one device computes, and it learns. */
static void check_cpu (const PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;
  PsRunSetting setting = run_setting (&ps_cpu_device, NULL, 8);
  g_auto (PsVerdict) verdict = { 0 };

  setting.model = &tiny;
  setting.gradients = TRUE;
  g_autoptr (PsRunResult) result = run (program, setting);
  assert_runs_program (result->timeline, program, NULL);
  g_assert_cmpfloat (ps_run_result_mean_loss (result, 7), <, ps_run_result_mean_loss (result, 0));
  fine (ps_verify (schedule, result, &setting, &verdict, &error));
  g_assert_cmpstr (ps_check_name (verdict.check), ==, "bit-equal");
  g_assert_null (verdict.first_difference);
}

/* Gradients of weights are added up in the schedule's order, which may be any: the reference keeps to it. */
static void test_orders (void)
{
  static const char *const orders[][2] = { { "W1.0 W0.0 W2.0 W3.0 ", "W0.1 W1.1 W2.1 W3.1 " },
                                           { "W3.0 W2.0 W1.0 W0.0 ", "W2.1 W0.1 W3.1 W1.1 " },
                                           { "W0.0 W2.0 W1.0 W3.0 ", "W3.1 W0.1 W1.1 W2.1 " } };

  for (guint i = 0; i < G_N_ELEMENTS (orders); i++) {
    PsScheduleBuilder *builder = ps_schedule_builder_new ("any order", ps_placement_new (PS_PLACEMENT_LOOP, 2, 1), 4);
    g_autofree char *first = g_strconcat ("F0.0 F1.0 F2.0 F3.0 B0.0 B1.0 B2.0 B3.0 ", orders[i][0], NULL);
    g_autofree char *last = g_strconcat ("F0.1 F1.1 F2.1 F3.1 B0.1 B1.1 B2.1 B3.1 ", orders[i][1], NULL);

    add_ops (builder, first);
    add_ops (builder, last);
    g_autoptr (PsProgram) program = fine (ps_program_lower (ps_schedule_builder_end (builder), PS_COMM_ASAP, &error));
    check_cpu (program);
  }
}

/* Trains one step of 4 microbatches on one device. */
static PsRunResult *sliced_result (guint n_slices)
{
  const PsFamilySetting family = { .n_devices = 2, .n_microbatches = 4, .n_chunks = 1, .n_slices = n_slices };
  g_autoptr (PsProgram) pipeline = lower (ps_family_generate (ps_family_find ("seq1f1b"), &family, NULL));
  PsRunSetting setting = run_setting (&ps_cpu_device, NULL, 1);
  g_autoptr (PsProgram) program = ps_verify_reference (pipeline->schedule, 4);

  setting.model = &tiny;
  setting.gradients = TRUE;
  return run (program, setting);
}

#define BYPASS_STEPS 4

/* Runs with the class, with steps that need no meeting, and compares with synchronised steps on one device. */
static PsRunResult *bypass (const PsProgram *program, const PsDeviceClass *device, double clip)
{
  PsRunSetting setting = run_setting (device, NULL, BYPASS_STEPS);
  g_auto (PsVerdict) verdict = { 0 };

  setting.model = &tiny;
  setting.gradients = TRUE;
  setting.bypass = TRUE;
  setting.clip = clip;
  g_autoptr (PsRunResult) result = run (program, setting);
  assert_runs_program (result->timeline, program, NULL);
  fine (ps_verify (program->schedule, result, &setting, &verdict, &error));
  g_assert_cmpstr (ps_check_name (verdict.check), ==, "bit-equal");
  return g_steal_pointer (&result);
}

/* No norm is above the first limit, every one is above the second. */
static void check_bypass (const PsProgram *program)
{
  g_autoptr (PsRunResult) free = NULL, clipped = NULL;

  if (program->schedule->asynchronous)
    return;
  free = bypass (program, &ps_cpu_device, 1e6);
  clipped = bypass (program, &ps_cpu_device, 1e-3);
  g_assert_cmpuint (free->n_rollbacks, ==, 0);
  g_assert_cmpuint (clipped->n_rollbacks, ==, BYPASS_STEPS);
}

/* The action of that type for a message; G_MAXUINT: the device has none. */
static guint find_action (const PsScript *script, PsInstructionType type, guint message)
{
  for (guint i = 0; i < script->n_actions; i++)
    if (script->actions[i].instruction.type == type && script->actions[i].instruction.message == message)
      return i;
  return G_MAXUINT;
}

/* Whether a device may validate before that action: all before it are forwards or posts, no pair is cut, and it has
 * waited for nothing that is sent only after its sender has validated. */
static gboolean may_validate (const PsScript *scripts, const PsProgram *program, const guint *places, guint device)
{
  const PsScript *script = &scripts[device];
  gboolean in_pair = FALSE;

  for (guint i = 0; i < places[device]; i++) {
    const PsInstruction *instruction = &script->actions[i].instruction;

    if (instruction->op.kind != PS_OP_F && !ps_instruction_is_post (instruction))
      return FALSE;
    if (instruction->type == PS_INSTRUCTION_COMPUTE)
      in_pair = instruction->op.paired;
    if (instruction->type != PS_INSTRUCTION_WAIT)
      continue;
    const guint sender = program->messages[instruction->message - 1].sender;
    if (find_action (&scripts[sender], PS_INSTRUCTION_SEND, instruction->message) >= places[sender])
      return FALSE;
  }
  return !in_pair;
}

/* Each device validates as late as it may: places start at the end and go to the front step by step until all may.
 * Receives before the place whose message is not sent then stay posted; messages that are sent and not waited for are
 * stray. */
static void check_plans (const PsProgram *program)
{
  const guint n_devices = program->schedule->placement->n_devices;
  PsScript *scripts = ps_scripts_new (program, NULL, NULL);
  PsBypassPlan *plans = ps_bypass_plans_new (scripts, program);
  g_autofree guint *places = g_new (guint, n_devices);
  gboolean moved = TRUE;

  for (guint i = 0; i < n_devices; i++)
    places[i] = scripts[i].n_actions;
  while (moved) {
    moved = FALSE;
    for (guint i = 0; i < n_devices; i++)
      for (; !may_validate (scripts, program, places, i); moved = TRUE)
        places[i]--;
  }
  for (guint device = 0; device < n_devices; device++) {
    const PsScript *script = &scripts[device];
    guint n_stray = 0;

    g_assert_cmpuint (plans[device].validate, ==, places[device]);
    for (guint i = 0; i < script->n_actions; i++) {
      const PsInstruction *instruction = &script->actions[i].instruction;
      const gboolean receives = instruction->type == PS_INSTRUCTION_RECEIVE;
      const guint sender = receives ? program->messages[instruction->message - 1].sender : 0;
      const gboolean sent
          = receives && find_action (&scripts[sender], PS_INSTRUCTION_SEND, instruction->message) < places[sender];

      g_assert_cmpint (plans[device].posted[i], ==, receives && !sent && i < places[device]);
      n_stray += sent && find_action (script, PS_INSTRUCTION_WAIT, instruction->message) >= places[device];
    }
    g_assert_cmpuint (plans[device].stray->len, ==, n_stray);
  }
  ps_bypass_plans_free (plans, n_devices);
  ps_scripts_free (scripts, n_devices);
}

static void test_bypass_plans (void)
{
  static const char *const families[] = { "dualpipe", "dualpipe-v", "chimera", "zb-h2", "zb-v", "interleaved" };

  for_each_family (2, 4, check_plans);
  for (guint i = 0; i < G_N_ELEMENTS (families); i++) {
    g_autoptr (PsProgram) program = ps_family_find (families[i]) != NULL ? family_program (families[i], 4, 8) : NULL;

    g_test_message ("%s", families[i]);
    if (program != NULL)
      check_plans (program);
  }
}

static void test_bypass_families (void)
{
  static const char *const families[] = { "1f1b", "zb-h1", "zb-h2", "dualpipe", "chimera", "gpipe" };

  for_each_family (2, 4, check_bypass);
  for (guint i = 0; i < G_N_ELEMENTS (families); i++) {
    g_autoptr (PsProgram) program = family_program (families[i], 4, 8);

    check_bypass (program);
  }
}

/* The norm of stage 1 is no number in the second step of each run. */
static PsDeviceClass broken;
static guint n_norms;

static PsDevice *broken_open (const PsDeviceSetting *setting, GError **error)
{
  PsDevice *device = ps_cpu_device.open (setting, error);

  device->class = &broken;
  return device;
}

static double broken_norm (PsDevice *device, guint stage)
{
  return stage == 1 && n_norms++ % BYPASS_STEPS == 1 ? NAN : ps_cpu_device.norm_square (device, stage);
}

/* The first device has stepped when it hears of it, and takes that back; nobody makes that step: the
 * third one sees the same weights. */
static void test_bypass_nan (void)
{
  g_autoptr (PsProgram) program = family_program ("1f1b", 2, 4);

  broken = ps_cpu_device;
  broken.open = broken_open;
  broken.norm_square = broken_norm;
  g_autoptr (PsRunResult) result = bypass (program, &broken, 0);
  g_assert_cmpuint (result->n_rollbacks, ==, 1);
  g_assert_cmpfloat (ps_run_result_mean_loss (result, 0), !=, ps_run_result_mean_loss (result, 1));
  g_assert_cmpfloat (ps_run_result_mean_loss (result, 2), ==, ps_run_result_mean_loss (result, 1));
  g_assert_cmpfloat (ps_run_result_mean_loss (result, 3), !=, ps_run_result_mean_loss (result, 2));
}

/* PyTorch's clip_grad_norm_: norm 5 above 2 gives 2 / (5 + 1e-6). Norms not known count nothing. */
static void test_bypass_scale (void)
{
  const double squares[] = { 9, -1, 16 }, nan[] = { 1, NAN, 1 };

  g_assert_cmpfloat (ps_run_clip (squares, 3, 2), ==, (float)(2 / (5 + 1e-6)));
  g_assert_cmpfloat (ps_run_clip (squares, 3, 6), ==, 1);
  g_assert_cmpfloat (ps_run_clip (squares, 1, 2), ==, (float)(2 / (3 + 1e-6)));
  g_assert_cmpfloat (ps_run_clip (squares, 3, 0), ==, 1);
  g_assert_cmpfloat (ps_run_clip (nan, 3, 0), ==, 0);
}

/* Slices of a sequence give the loss and the gradients of the whole sequence. Sums in another order differ by rounding:
 * 2^-20 of the largest gradient is 16 units of a float's last place. */
static void test_slices (void)
{
  g_autoptr (PsRunResult) whole = sliced_result (1);

  for (guint n_slices = 2; n_slices <= 8; n_slices *= 2) {
    g_autoptr (PsRunResult) sliced = sliced_result (n_slices);
    g_auto (PsVerdict) verdict = { 0 };

    ps_verify_compare (sliced, whole, &verdict);
    g_assert_cmpfloat (verdict.loss_difference, <, 1e-6);
    g_assert_cmpfloat (verdict.gradient_difference, <, 0x1p-20);
  }
}

/* Forwards alone leave the losses of the training's first step, in every step, and keep nothing. */
static void test_forward_only (void)
{
  static const guint prompt[] = { 0, 0, 1, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3 };
  static const char *const families[] = { "gpipe", "interleaved", "looped-bfs", "zb-v" };
  g_autoptr (PsRunResult) trained = sliced_result (4);

  for (guint i = 0; i < G_N_ELEMENTS (families); i++) {
    const PsFamily *family = ps_family_find (families[i]);
    const PsFamilySetting setting = {
      .n_devices = 2, .n_microbatches = 16, .n_chunks = family->default_chunks, .prompt = prompt, .n_prompts = 4
    };
    g_autoptr (PsProgram) program = lower (ps_family_generate (family, &setting, NULL));
    PsRunSetting how = run_setting (&ps_cpu_device, NULL, 2);
    g_auto (PsVerdict) verdict = { 0 };

    how.model = &tiny;
    how.gradients = TRUE;
    g_autoptr (PsRunResult) result = run (program, how);
    g_assert_true (program->schedule->forward_only);
    assert_runs_program (result->timeline, program, NULL);
    fine (ps_verify (program->schedule, result, &how, &verdict, &error));
    g_assert_cmpstr (ps_check_name (verdict.check), ==, "bit-equal");
    for (guint step = 0; step < 2; step++)
      g_assert_cmpmem (&result->losses[step * 4], 4 * sizeof (double), trained->losses, 4 * sizeof (double));
  }
}

static void test_cpu_families (void)
{
  for_each_family (2, 4, check_cpu);
}

/* Fewer microbatches than devices, as many, and more: the published rules hold for each. */
static void test_older_weights (void)
{
  static const struct {
    const char *family;
    guint m;
  } cases[]
      = { { "pipedream", 2 }, { "pipedream", 4 }, { "pipedream", 7 }, { "pipedream-2bw", 4 }, { "pipedream-2bw", 6 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (PsProgram) program = family_program (cases[i].family, 4, cases[i].m);

    check_cpu (program);
  }
}

/* A reference whose first stage is one update nearer than PipeDream says gets other losses. */
static void test_wrong_delay (void)
{
  g_autoptr (PsProgram) program = family_program ("pipedream", 4, 4);
  g_autoptr (PsProgram) alone = ps_verify_reference (program->schedule, 4);
  PsRunSetting setting = run_setting (&ps_cpu_device, NULL, 3);
  const guint right[] = { 3, 2, 1, 0 }, wrong[] = { 2, 2, 1, 0 };
  g_auto (PsVerdict) equal = { 0 }, differs = { 0 };

  setting.model = &tiny;
  setting.gradients = TRUE;
  g_autoptr (PsRunResult) result = run (program, setting);
  setting.delays = right;
  g_autoptr (PsRunResult) reference = run (alone, setting);
  setting.delays = wrong;
  g_autoptr (PsRunResult) other = run (alone, setting);
  ps_verify_compare (result, reference, &equal);
  ps_verify_compare (result, other, &differs);
  g_assert_cmpint (equal.check, ==, PS_CHECK_BIT_EQUAL);
  g_assert_cmpint (differs.check, ==, PS_CHECK_DIFFERS);
}

/* Trains two steps of the model over the stages of a layout, and returns the mean loss of the second one. */
static double layout_loss (const PsProgram *program, const PsModel *model, const char *layout)
{
  PsRunSetting setting = run_setting (&ps_cpu_device, NULL, 2);
  guint n;
  g_autofree PsStageShape *shapes = ps_layout_parse ("", layout, NULL, &n, NULL);
  g_auto (PsVerdict) verdict = { 0 };

  g_assert_cmpuint (n, ==, program->schedule->placement->n_stages);
  setting.model = model;
  setting.gradients = TRUE;
  setting.shapes = shapes;
  g_autoptr (PsRunResult) result = run (program, setting);
  g_assert_true (ps_verify (program->schedule, result, &setting, &verdict, NULL));
  g_assert_cmpstr (ps_check_name (verdict.check), ==, "bit-equal");
  return ps_run_result_mean_loss (result, 1);
}

/* Wherever the model of four layers is cut, it is the same model: with stages of embedding or head alone, and empty
 * ones anywhere. */
static void test_layouts (void)
{
  static const char *const layouts[]
      = { "Et|t|t|tL", "Ettt||t|L", "E|tt|tt|L", "E|||t*4L", "Et*4|||L", "|Ett|tt|L", "Ett|tt|L|", "|EttttL||" };
  g_autoptr (PsProgram) program = family_program ("interleaved-zb", 2, 4);
  double loss = layout_loss (program, &tiny, layouts[0]);

  for (guint i = 1; i < G_N_ELEMENTS (layouts); i++)
    g_assert_cmpfloat (layout_loss (program, &tiny, layouts[i]), ==, loss);
}

/* Embedding and head share a matrix on one device, on two, in two weight copies and on one stage. */
static void test_tied (void)
{
  static const struct {
    const char *family, *layout;
    guint n_devices;
  } cases[] = { { "1f1b", "Ett|ttL", 2 },     { "1f1b", "Et|t|t|tL", 4 },    { "zb-v", "Et|t|t|tL", 2 },
                { "dualpipe", "Ett|ttL", 2 }, { "chimera", "Et|t|t|tL", 4 }, { "seq1f1b", "Et|t|t|tL", 4 },
                { "1f1b", "|Ettt|tL||", 5 },  { "1f1b", "|EttttL", 2 } };
  double first = NAN;
  PsModel tied = tiny;

  tied.tied = TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (PsProgram) program = family_program (cases[i].family, cases[i].n_devices, 4);
    double loss = layout_loss (program, &tied, cases[i].layout);

    g_assert_cmpfloat (loss, !=, layout_loss (program, &tiny, cases[i].layout));
    g_assert_true (i == 0 || fabs (loss - first) < 1e-7);
    first = loss;
  }
}

static const PsRecompute kinds[] = { PS_RECOMPUTE_NONE, PS_RECOMPUTE_SELECTIVE, PS_RECOMPUTE_FULL };

/* Trains two steps whose stages recompute and offload. */
static PsRunResult *recomputed (const PsProgram *program, PsRecompute recompute, double offload)
{
  PsRunSetting setting = run_setting (&ps_cpu_device, NULL, 2);
  guint n_stages = program->schedule->placement->n_stages;
  g_autofree PsStageShape *shapes = g_new0 (PsStageShape, n_stages);

  g_assert_true (ps_model_split (&tiny, n_stages, shapes, NULL));
  for (guint i = 0; i < n_stages; i++) {
    shapes[i].recompute = recompute;
    shapes[i].offload = offload;
  }
  setting.model = &tiny;
  setting.gradients = TRUE;
  setting.shapes = shapes;
  return run (program, setting);
}

static gint64 peak_bytes (const PsRunResult *result)
{
  g_auto (PsMetrics) metrics = { 0 };

  ps_metrics_from_timeline (result->timeline, &metrics);
  return metrics.peak_memory_bytes;
}

/* Recomputation changes no bit. With all microbatches under way it keeps less. */
static void check_recompute (const PsProgram *program)
{
  guint n_kinds = program->schedule->n_slices > 1 ? 2 : 3;

  if (program->schedule->weight_versions != NULL)
    return;
  g_autoptr (PsRunResult) kept = recomputed (program, PS_RECOMPUTE_NONE, 0);
  for (guint i = 1; i < n_kinds; i++) {
    g_autoptr (PsRunResult) again = recomputed (program, kinds[i], 0);
    g_auto (PsVerdict) verdict = { 0 };

    ps_verify_compare (again, kept, &verdict);
    g_assert_cmpstr (ps_check_name (verdict.check), ==, "bit-equal");
    g_assert_true (!g_str_equal (program->schedule->name, "gpipe") || peak_bytes (again) < peak_bytes (kept));
  }
}

static void test_recompute (void)
{
  for_each_family (2, 4, check_recompute);
}

/* The same schedule, whose odd microbatches have an R right before their backward. Where that one is part of a pair, R
 * stands before the pair. */
static PsProgram *recompute_odd (const PsSchedule *order)
{
  PsScheduleBuilder *builder
      = ps_schedule_builder_new (order->name, ps_placement_copy (order->placement), order->n_microbatches);
  PsSchedule *odd;
  guint n;

  for (guint d = 0; d < order->placement->n_devices; d++) {
    for (guint i = order->first[d]; i < order->first[d + 1]; i += n) {
      n = order->ops[i].paired ? 2 : 1;
      for (guint k = i; k < i + n; k++)
        if (ps_op_is_backward (order->ops[k]) && order->ops[k].microbatch % 2 == 1) {
          PsOp again = order->ops[k];

          again.kind = PS_OP_R;
          again.paired = 0;
          ps_schedule_builder_add_op (builder, again);
        }
      ps_schedule_builder_add_ops (builder, &order->ops[i], n);
    }
    ps_schedule_builder_next_device (builder);
  }
  odd = ps_schedule_builder_end (builder);
  odd->n_slices = order->n_slices;
  odd->copy = g_memdup2 (order->copy, order->copy != NULL ? order->n_microbatches : 0);
  odd->asynchronous = order->asynchronous;
  odd->update_every = order->update_every;
  odd->weight_versions
      = g_memdup2 (order->weight_versions, order->placement->n_devices * sizeof *order->weight_versions);
  return lower (odd);
}

/* An R of some microbatches changes no bit. Their forwards then keep less than the others. In slices only a selective R
 * can be. */
static void check_recompute_some (const PsProgram *program)
{
  const PsRecompute recompute = program->schedule->n_slices > 1 ? PS_RECOMPUTE_SELECTIVE : PS_RECOMPUTE_NONE;
  g_autoptr (PsProgram) odd = NULL;
  g_autoptr (PsRunResult) kept = NULL, some = NULL, all = NULL;
  g_auto (PsVerdict) verdict = { 0 };

  odd = recompute_odd (program->schedule);
  kept = recomputed (program, PS_RECOMPUTE_NONE, 0);
  some = recomputed (odd, recompute, 0);
  ps_verify_compare (some, kept, &verdict);
  g_assert_cmpstr (ps_check_name (verdict.check), ==, "bit-equal");
  if (!g_str_equal (program->schedule->name, "gpipe"))
    return;
  all = recomputed (program, PS_RECOMPUTE_FULL, 0);
  g_assert_cmpint (peak_bytes (some), <, peak_bytes (kept));
  g_assert_cmpint (peak_bytes (some), >, peak_bytes (all));
}

static void test_recompute_some (void)
{
  for_each_family (2, 4, check_recompute_some);
}

/* What moves to the host and back is the same, with and without recomputation. A forward then keeps less, where a block
 * is small enough to move. */
static void test_offload (void)
{
  static const double ratios[] = { 0, 0.3, 0.8, 1 };

  for (guint kind = 0; kind < G_N_ELEMENTS (kinds); kind++) {
    g_autoptr (PsProgram) program = family_program ("gpipe", 2, 4);
    g_autoptr (PsRunResult) kept = recomputed (program, kinds[kind], 0);
    gint64 peak = G_MAXINT64;

    for (guint i = 0; i < G_N_ELEMENTS (ratios); i++) {
      g_autoptr (PsRunResult) moved = recomputed (program, kinds[kind], ratios[i]);
      g_auto (PsVerdict) verdict = { 0 };

      ps_verify_compare (moved, kept, &verdict);
      g_assert_cmpstr (ps_check_name (verdict.check), ==, "bit-equal");
      g_assert_cmpint (peak_bytes (moved), <=, peak);
      peak = peak_bytes (moved);
    }
    g_assert_cmpint (peak, <, peak_bytes (kept));
  }
}

static PsRunResult *cpu_result (guint64 seed)
{
  g_autoptr (PsProgram) program = family_program ("gpipe", 2, 2);
  PsRunSetting setting = run_setting (&ps_cpu_device, NULL, 2);

  setting.model = &tiny;
  setting.gradients = TRUE;
  setting.seed = seed;
  return run (program, setting);
}

static void test_verify_differs (void)
{
  g_autoptr (PsRunResult) a = cpu_result (1);
  g_autoptr (PsRunResult) b = cpu_result (2);
  g_auto (PsVerdict) verdict = { 0 };

  ps_verify_compare (a, b, &verdict);
  g_assert_cmpint (verdict.check, ==, PS_CHECK_DIFFERS);
  g_assert_cmpstr (verdict.first_difference, ==, "step 1: loss of microbatch 0");
  g_assert_cmpfloat (verdict.loss_difference, >, PS_VERIFY_TOLERANCE);
  g_assert_cmpfloat (verdict.gradient_difference, >, PS_VERIFY_TOLERANCE);
}

/* One gradient of the last step is off by 2^-20 (9.5e-7) of the largest: within 1e-5. Off by 2^-10 it is not; NaN never
 * is. */
static void test_verify_within (void)
{
  const float scales[] = { 0x1p-20f, 0x1p-10f, NAN };
  const PsCheck expected[] = { PS_CHECK_EQUAL_WITHIN, PS_CHECK_DIFFERS, PS_CHECK_DIFFERS };

  for (guint i = 0; i < G_N_ELEMENTS (scales); i++) {
    g_autoptr (PsRunResult) a = cpu_result (1);
    g_autoptr (PsRunResult) b = cpu_result (1);
    g_auto (PsVerdict) verdict = { 0 };

    b->gradients->last[0][0] = 4096.0f;
    a->gradients->last[0][0] = 4096.0f + 4096.0f * scales[i];
    a->gradients->digest[1] ^= 1; /* stage 0, step 2 */
    ps_verify_compare (a, b, &verdict);
    g_assert_cmpint (verdict.check, ==, expected[i]);
    g_assert_cmpstr (verdict.first_difference, ==, "step 2: gradients of stage 0");
    g_assert_cmpfloat (verdict.loss_difference, ==, 0);
    if (!isnan (scales[i]))
      g_assert_cmpfloat (verdict.gradient_difference, ==, (double)scales[i]);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/verify/families", test_cpu_families);
  g_test_add_func ("/verify/orders", test_orders);
  g_test_add_func ("/verify/older-weights", test_older_weights);
  g_test_add_func ("/verify/wrong-delay", test_wrong_delay);
  g_test_add_func ("/verify/bypass/plans", test_bypass_plans);
  g_test_add_func ("/verify/bypass/families", test_bypass_families);
  g_test_add_func ("/verify/bypass/nan", test_bypass_nan);
  g_test_add_func ("/verify/bypass/scale", test_bypass_scale);
  g_test_add_func ("/verify/slices", test_slices);
  g_test_add_func ("/verify/forward-only", test_forward_only);
  g_test_add_func ("/verify/layouts", test_layouts);
  g_test_add_func ("/verify/recompute", test_recompute);
  g_test_add_func ("/verify/recompute-some", test_recompute_some);
  g_test_add_func ("/verify/offload", test_offload);
  g_test_add_func ("/verify/tied", test_tied);
  g_test_add_func ("/verify/differs", test_verify_differs);
  g_test_add_func ("/verify/within", test_verify_within);
  return g_test_run ();
}
