/* run-rig.h - programs of the families run for real, and what every measured timeline must show. */
#pragma once

#include "lower.h"
#include "run/runtime.h"

#include "train/devices.h"
#include "run/transports.h"

/* NULL when the family has no schedule of that size. */
static inline PsProgram *family_program (const char *name, guint n_devices, guint n_microbatches)
{
  const PsFamily *family = ps_family_find (name);
  PsFamilySetting setting = { .n_devices = n_devices, .n_microbatches = n_microbatches };

  g_assert_nonnull (family);
  setting.n_chunks = family->default_chunks;
  PsSchedule *schedule = ps_family_generate (family, &setting, NULL);
  return schedule != NULL ? lower (schedule) : NULL;
}

/* Calls check with a program of that size of each family that has one; these are naive, gpipe, 1f1b, interleaved,
 * zb-h1 and pipedream at least. */
static inline void for_each_family (guint n_devices, guint n_microbatches, void (*check) (const PsProgram *program))
{
  guint n, n_checked = 0;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++) {
    g_autoptr (PsProgram) program = family_program (families[i]->name, n_devices, n_microbatches);

    if (program == NULL)
      continue;
    g_test_message ("%s", families[i]->name);
    check (program);
    n_checked++;
  }
  g_assert_cmpuint (n_checked, >=, 6);
}

static inline PsRunSetting run_setting (const PsDeviceClass *device, const PsCosts *costs, guint n_steps)
{
  return (PsRunSetting){ .device = device,
                         .transport = &ps_threads_transport,
                         .costs = costs,
                         .n_steps = n_steps,
                         .seed = 1,
                         .timeout_ns = G_GINT64_CONSTANT (60000000000) };
}

static inline PsRunResult *run (const PsProgram *program, PsRunSetting setting)
{
  PsRunResult *result = fine (ps_run (program, &setting, &error));

  g_assert_nonnull (result);
  return result;
}

/* The span of F or of the backward, whether B or BW, on a stage for the microbatch and slice of op; NULL when there is
 * none. */
static inline const PsSpan *find_span (const GArray *spans, gboolean forward, guint stage, PsOp op)
{
  for (guint i = 0; i < spans->len; i++) {
    const PsSpan *span = &g_array_index (spans, PsSpan, i);
    gboolean same_way = forward ? span->op.kind == PS_OP_F : span->op.kind == PS_OP_B || span->op.kind == PS_OP_BW;

    if (same_way && span->op.stage == stage && span->op.microbatch == op.microbatch && span->op.slice == op.slice)
      return span;
  }
  return NULL;
}

/* Between the end of the producer and the start of the consumer, and never faster than its cost. */
static inline void assert_transfer (const PsTimeline *timeline, const PsSpan *producer, const PsSpan *consumer,
                                    const PsCosts *costs)
{
  gboolean forward = consumer->op.kind == PS_OP_F;
  const PsSpan *transfer = find_span (timeline->transfers, forward, producer->op.stage, producer->op);
  gint64 least_ns = 0;

  g_assert_nonnull (transfer);
  g_assert_cmpuint (transfer->device, ==, producer->device);
  g_assert_cmpuint (transfer->peer, ==, consumer->device);
  g_assert_cmpint (transfer->start_ns, >=, producer->end_ns);
  g_assert_cmpint (transfer->end_ns, <=, consumer->start_ns);
  if (costs != NULL)
    least_ns = costs->transfer_ns[forward ? ps_transfer_forward (costs, producer->op.stage)
                                          : ps_transfer_backward (costs, producer->op.stage)];
  g_assert_cmpint (transfer->end_ns - transfer->start_ns, >=, least_ns);
}

/* Returns whether the op's input came from another device. */
static inline gboolean assert_dependency (const PsTimeline *timeline, const PsSpan *span, const PsCosts *costs)
{
  gboolean forward = span->op.kind == PS_OP_F, backward = span->op.kind == PS_OP_B || span->op.kind == PS_OP_BW;

  if (!(forward || backward) || span->op.stage == (forward ? 0 : timeline->n_stages - 1))
    return FALSE;
  const PsSpan *producer
      = find_span (timeline->ops, forward, forward ? span->op.stage - 1u : span->op.stage + 1u, span->op);
  g_assert_nonnull (producer);
  g_assert_cmpint (span->start_ns, >=, producer->end_ns);
  if (producer->device == span->device)
    return FALSE;
  assert_transfer (timeline, producer, span, costs);
  return TRUE;
}

/* Every op of the schedule once, on its device, in its order, one after the other, and none before its input. */
static inline void assert_runs_program (const PsTimeline *timeline, const PsProgram *program, const PsCosts *costs)
{
  const PsSchedule *schedule = program->schedule;
  guint n_transfers = 0;

  g_assert_cmpint (timeline->origin, ==, PS_ORIGIN_MEASURED);
  g_assert_cmpuint (timeline->ops->len, ==, ps_schedule_n_ops (schedule));
  for (guint device = 0; device < timeline->n_devices; device++)
    for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++) {
      const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

      g_assert_cmpmem (&span->op, sizeof (PsOp), &schedule->ops[i], sizeof (PsOp));
      g_assert_cmpuint (span->device, ==, device);
      g_assert_cmpint (span->start_ns, >=, 0);
      g_assert_cmpint (span->end_ns, >=, span->start_ns);
      if (i > schedule->first[device] && !span[-1].op.paired)
        g_assert_cmpint (span->start_ns, >=, span[-1].end_ns);
      n_transfers += assert_dependency (timeline, span, costs);
    }
  g_assert_cmpuint (timeline->transfers->len, ==, n_transfers);
}

static PsModel tiny = { .layers = 4,
                        .hidden = 16,
                        .heads = 2,
                        .kv_heads = 2,
                        .sequence = 8,
                        .feed_forward = 32,
                        .vocabulary = 11,
                        .microbatch_size = 1,
                        .precision = PS_PRECISION_FP32,
                        .mlp = PS_MLP_GELU };

static inline void add_ops (PsScheduleBuilder *builder, const char *text)
{
  while (*text != '\0') {
    PsOp op;

    g_assert_true (ps_op_parse (text, &text, &op));
    if (*text == '+')
      op.paired = 1;
    text += *text != '\0';
    ps_schedule_builder_add_op (builder, op);
  }
  ps_schedule_builder_next_device (builder);
}

/* Microbatch 0 goes down, 1 goes up; device 0 holds stage 0 of copy 0 and stage 1 of copy 1. */
static inline PsProgram *bidirectional_program (void)
{
  PsScheduleBuilder *builder
      = ps_schedule_builder_new ("both ways", ps_placement_new (PS_PLACEMENT_BIDIRECTIONAL, 2, 1), 2);

  add_ops (builder, "F0.0 F1.1 BW1.1 BW0.0");
  add_ops (builder, "F1.0 F0.1 BW0.1 BW1.0");
  PsSchedule *schedule = ps_schedule_builder_end (builder);
  schedule->copy = g_new0 (guint8, 2);
  schedule->copy[1] = 1;
  return fine (ps_program_lower (schedule, PS_COMM_ASAP, &error));
}
