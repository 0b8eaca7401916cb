/* Tests of program.h. */
#include "lower.h"
#include "random-schedule.h"

#include <pipesim/events.h>
#include <pipesim/formats.h>

#include "program/program-private.h"
#include "program/weight-window.h"

#include <string.h>

static char *
stream (const PsProgram *program, guint device)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = program->first[device]; i < program->first[device + 1]; i++)
    {
      g_autofree char *instruction = ps_instruction_format (&program->instructions[i]);

      g_string_append_printf (text, "%s%s", text->len ? "; " : "", instruction);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
assert_stream (const PsProgram *program, guint device, const char *expected)
{
  g_autofree char *text = stream (program, device);

  g_assert_cmpstr (text, ==, expected);
}

/* GPipe p = 2, m = 1 lowered by hand: device 0 goes first in each round, and its F posts the receive on device 1 at
 * once. */
static void
test_stream (void)
{
  g_autoptr (PsProgram) program = lower_family ("gpipe", 2, 1, 1);

  assert_stream (program, 0, "F0.0; SEND F0.0 to device 1; RECEIVE B0.1 from device 1; WAIT B0.1 from device 1; BW0.0");
  assert_stream (program, 1, "RECEIVE F0.0 from device 0; WAIT F0.0 from device 0; F0.1; BW0.1; SEND B0.1 to device 0");
  g_assert_cmpuint (sizeof (PsStep), ==, 16);
  /* Steps: F0.0, F0.1, BW0.1, BW0.0. */
  g_assert_cmpuint (program->n_steps, ==, 4);
  g_assert_cmpuint (program->steps[1].input, ==, 1);
  g_assert_cmpuint (program->steps[1].transfer, ==, 1 + 0);
  g_assert_cmpuint (program->steps[3].input, ==, 3);
  g_assert_cmpuint (program->steps[3].transfer, ==, 1 + 2 + 1);
  g_assert_cmpuint (program->steps[3].previous, ==, 1);
  g_assert_cmpuint (program->steps[2].input, ==, 0);
  g_assert_null (program->pair);
}

/* Stages on one device hand over without instructions. */
static void
test_local (void)
{
  g_autoptr (PsProgram) program = lower_family ("interleaved", 1, 1, 2);

  assert_stream (program, 0, "F0.0; F0.1; BW0.1; BW0.0");
}

static void
check_table (const PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;

  g_assert_cmpuint (program->n_steps, ==, ps_schedule_n_ops (schedule));
  for (guint i = 0; i < program->n_steps; i++)
    {
      const PsStep *step = &program->steps[i];
      guint index = program->op_of[i];

      g_assert_cmpuint (step->input, <=, i);
      g_assert_cmpuint (step->previous, <=, i);
      g_assert_cmpuint (program->step_of[index], ==, i);
      g_assert_cmpuint (step->cost, ==,
                        schedule->ops[index].kind * schedule->placement->n_stages + schedule->ops[index].stage);
      if (index > schedule->first[step->device])
        g_assert_cmpuint (step->previous, ==, program->step_of[index - 1] + 1);
    }
}

/* Finds the op before the receive that a step waits for, and the send, as the devices' streams say. */
static void
check_posts (const PsProgram *program)
{
  guint n_messages = 0;

  for (guint step = 0; step < program->n_steps; step++)
    {
      const PsStep *what = &program->steps[step];
      guint i = program->first[what->device], last = 0;
      guint op = program->schedule->first[what->device];

      g_assert_cmpint (program->message_of[step] == 0, ==, what->input == 0);
      if (what->input == 0)
        continue;
      const PsMessage *message = &program->messages[program->message_of[step] - 1];
      const PsPlaces *places = &program->places[program->message_of[step] - 1];
      PsOp made = ps_program_producer (program, step);
      for (; program->instructions[i].type != PS_INSTRUCTION_RECEIVE
             || memcmp (&program->instructions[i].op, &made, sizeof made) != 0;
           i++)
        if (program->instructions[i].type == PS_INSTRUCTION_COMPUTE)
          last = program->step_of[op++] + 1;
      g_assert_cmpuint (message->posted, ==, last);
      g_assert_cmpuint (places->receive, ==, i);
      g_assert_cmpuint (message->producer, ==, what->input - 1);
      g_assert_cmpuint (message->consumer, ==, step);
      g_assert_cmpuint (message->sender, ==, program->steps[message->producer].device);
      g_assert_cmpuint (message->receiver, ==, what->device);
      for (i = program->first[message->sender]; program->instructions[i].type != PS_INSTRUCTION_SEND
                                                || memcmp (&program->instructions[i].op, &made, sizeof made) != 0;
           i++)
        ;
      g_assert_cmpuint (places->send, ==, i);
      n_messages++;
    }
  g_assert_cmpuint (program->n_messages, ==, n_messages);
}

/* Also where the streams were written again. */
static void
test_posts (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (12);

  for (guint i = 0; i < 100; i++)
    {
      g_autoptr (PsProgram) program = ps_program_lower (random_schedule (rand, i % 2), (PsCommOrder)(i % 3), NULL);
      g_autoptr (PsProgram) untagged = ps_program_lower_untagged (ps_schedule_copy (program->schedule), NULL);
      g_autoptr (PsCosts) costs
          = ps_costs_parse ("f=2ns,b=3ns,w=1ns,c=1ns", program->schedule->placement->n_stages, 1, NULL);

      check_posts (program);
      check_posts (untagged);
      g_assert_true (ps_events_plan (program, costs, &(PsEventsSetting){ .comm = PS_CHANNEL_RANK }, NULL));
      check_posts (program);
    }
}

/* Streams made later are those of a program that had them at once; of messages nothing changes. */
static void
test_late_streams (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (13);

  for (guint i = 0; i < 100; i++)
    {
      PsCommOrder order = (PsCommOrder)(i % 3);
      g_autoptr (PsProgram) whole = ps_program_lower (random_schedule (rand, i % 2), order, NULL);
      g_autoptr (PsProgram) late = ps_program_lower_steps (ps_schedule_copy (whole->schedule), order, NULL);
      gsize messages_size = whole->n_messages * sizeof *whole->messages;
      guint n = whole->first[whole->schedule->placement->n_devices];

      g_assert_true ((late->instructions == NULL) == (order == PS_COMM_ASAP));
      g_assert_cmpmem (late->messages, messages_size, whole->messages, messages_size);
      ps_program_add_streams (late);
      g_assert_cmpmem (late->messages, messages_size, whole->messages, messages_size);
      g_assert_cmpmem (late->instructions, n * sizeof *late->instructions, whole->instructions,
                       n * sizeof *whole->instructions);
      g_assert_cmpmem (late->places, whole->n_messages * sizeof *late->places, whole->places,
                       whole->n_messages * sizeof *whole->places);
      check_posts (late);
    }
}

static void
test_random (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);

  for (guint i = 0; i < 300; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsProgram) program
          = ps_program_lower (random_schedule (rand, i % 2), i % 3 ? PS_COMM_ASAP : PS_COMM_PLANNED, &error);

      g_assert_no_error (error);
      check_table (program);
      assert_runs_on_all_channels (program);
    }
}

static PsSchedule *
two_devices (const PsOp *a, guint n_a, const PsOp *b, guint n_b, guint m)
{
  PsScheduleBuilder *builder = ps_schedule_builder_new ("hand", ps_placement_new (PS_PLACEMENT_LOOP, 2, 1), m);

  for (guint i = 0; i < n_a; i++)
    ps_schedule_builder_add_op (builder, a[i]);
  ps_schedule_builder_next_device (builder);
  for (guint i = 0; i < n_b; i++)
    ps_schedule_builder_add_op (builder, b[i]);
  return ps_schedule_builder_end (builder);
}

#define OP(k, mb, s)                                                                                                   \
  {                                                                                                                    \
    .kind = k, .stage = s, .microbatch = mb                                                                            \
  }

/* Device 0 wants the gradient of microbatch 1 before it runs its forward; device 1 runs microbatch 0 last. */
static void
test_circle (void)
{
  static const PsOp a[] = { OP (PS_OP_F, 1, 0), OP (PS_OP_BW, 1, 0), OP (PS_OP_F, 0, 0), OP (PS_OP_BW, 0, 0) };
  static const PsOp b[] = { OP (PS_OP_F, 0, 1), OP (PS_OP_BW, 0, 1), OP (PS_OP_F, 1, 1), OP (PS_OP_BW, 1, 1) };
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSchedule) schedule = two_devices (a, 4, b, 4, 2);

  g_assert_true (ps_schedule_validate (schedule, &error));
  refused (ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, &error), PS_ERROR_SCHEDULE,
           "hand: deadlock: device 0 waits at op 1 (BW1.0) for B1.1 of device 1, device 1 waits at op 0 (F0.1) "
           "for F0.0 of device 0");
}

static guint
find (const PsProgram *program, guint device, const char *text)
{
  for (guint i = program->first[device]; i < program->first[device + 1]; i++)
    {
      g_autofree char *instruction = ps_instruction_format (&program->instructions[i]);

      if (g_str_equal (instruction, text))
        return i;
    }
  g_assert_not_reached ();
}

static void
swap (PsProgram *program, guint i, guint k)
{
  PsInstruction kept = program->instructions[i];

  program->instructions[i] = program->instructions[k];
  program->instructions[k] = kept;
}

/* Device 1 takes the activations in the other order: harmless while transfers do not queue, a deadlock when they do. */
static void
test_crossed_receives (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsProgram) program = lower_family ("gpipe", 2, 2, 1);

  swap (program, find (program, 1, "RECEIVE F0.0 from device 0"), find (program, 1, "RECEIVE F1.0 from device 0"));
  /* The wait for F0.0 would now stand before its receive: move both receives in front. */
  guint wait = find (program, 1, "WAIT F0.0 from device 0"), receive = find (program, 1, "RECEIVE F0.0 from device 0");
  if (wait < receive)
    {
      PsInstruction moved = program->instructions[receive];

      memmove (&program->instructions[wait + 1], &program->instructions[wait], (receive - wait) * sizeof moved);
      program->instructions[wait] = moved;
    }
  ps_program_note_places (program);
  g_assert_true (ps_program_check (program, PS_CHANNEL_LATENCY, &error));
  refused (ps_program_check (program, PS_CHANNEL_DIRECTION, &error), PS_ERROR_SCHEDULE,
           "gpipe: deadlock: device 1 instruction 1 (RECEIVE F0.0 from device 0) after device 1 instruction 0 "
           "(RECEIVE F1.0 from device 0) waits for device 0 instruction 3 (SEND F1.0 to device 1) after device 0 "
           "instruction 1 (SEND F0.0 to device 1) waits for device 1 instruction 1 (RECEIVE F0.0 from device 0)");
}

/* 1F1B p = 2, m = 2 by hand. Deferred: each receive stands before its wait. Planned, ops of one length and full
 * backwards of two: F0.0 ends at 1, F1.0 at 2; F0.1 runs from 1 to 2 and BW0.1 to 4, F1.1 to 5, BW1.1 to 7. Transfers
 * in the order F0.0 (1), F1.0 (2), B0.1 (4), B1.1 (7), on both devices. */
static void
test_orders (void)
{
  static const char *const streams[][2] = {
    [PS_COMM_DEFERRED] = { "F0.0; SEND F0.0 to device 1; F1.0; SEND F1.0 to device 1; RECEIVE B0.1 from device 1; WAIT "
                           "B0.1 from device 1; "
                           "BW0.0; RECEIVE B1.1 from device 1; WAIT B1.1 from device 1; BW1.0",
                           "RECEIVE F0.0 from device 0; WAIT F0.0 from device 0; F0.1; BW0.1; SEND B0.1 to device 0; "
                           "RECEIVE F1.0 from device "
                           "0; WAIT F1.0 from device 0; F1.1; BW1.1; SEND B1.1 to device 0" },
    [PS_COMM_PLANNED] = { "F0.0; SEND F0.0 to device 1; F1.0; SEND F1.0 to device 1; RECEIVE B0.1 from device 1; "
                          "RECEIVE B1.1 from device 1; "
                          "WAIT B0.1 from device 1; BW0.0; WAIT B1.1 from device 1; BW1.0",
                          "RECEIVE F0.0 from device 0; RECEIVE F1.0 from device 0; WAIT F0.0 from device 0; F0.1; "
                          "BW0.1; SEND B0.1 to device "
                          "0; WAIT F1.0 from device 0; F1.1; BW1.1; SEND B1.1 to device 0" },
  };

  for (guint order = PS_COMM_DEFERRED; order <= PS_COMM_PLANNED; order++)
    {
      g_autoptr (GError) error = NULL;
      PsFamilySetting setting = { .n_devices = 2, .n_microbatches = 2, .n_chunks = 1 };
      g_autoptr (PsProgram) program = ps_program_lower (ps_family_generate (ps_family_find ("1f1b"), &setting, &error),
                                                        (PsCommOrder)order, &error);

      g_assert_no_error (error);
      for (guint device = 0; device < 2; device++)
        assert_stream (program, device, streams[order][device]);
      g_assert_cmpint (ps_program_check (program, PS_CHANNEL_PAIR, NULL), ==, order == PS_COMM_PLANNED);
    }
}

/* For transports without tags, deferred receives of one sender stay in the order of its sends, also where they are
 * needed in another: in a V an activation and a gradient go the same way. */
static void
test_deferred_pairs (void)
{
  static const char *const families[]
      = { "zb-v", "v-half", "v-min", "1f1b-v", "dualpipe-v", "interleaved-zb", "hanayo" };

  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    for (guint p = 2; p <= 4; p++)
      {
        PsFamilySetting setting = { .n_devices = p, .n_microbatches = 2 * p, .n_chunks = 2 };
        g_autoptr (GError) error = NULL;
        g_autoptr (PsProgram) program
            = ps_program_lower_untagged (ps_family_generate (ps_family_find (families[i]), &setting, NULL), &error);

        fine (ps_program_check (program, PS_CHANNEL_DIRECTION, &error));
      }
}

/* The cells of a torch-comms file that neither handle weights nor wait. */
static char *
without_weights (const char *text)
{
  g_autoptr (GRegex) weights = g_regex_new ("[0-9]+(UNSHARD|RESHARD|REDUCE_GRAD|WAIT_[A-Z_]+[0-9]*),?", 0, 0, NULL);
  g_autoptr (GRegex) ends = g_regex_new (",\\r", 0, 0, NULL);
  g_autofree char *cells = g_regex_replace_literal (weights, text, -1, 0, "", 0, NULL);

  return g_regex_replace_literal (ends, cells, -1, 0, "\r", 0, NULL);
}

/* What the exporter writes is PyTorch's own lowering, byte for byte (test-formats-torch.c); our asap puts the same
 * sends and receives in the same places. */
static void
test_asap (void)
{
  static const char *const families[]
      = { "gpipe", "1f1b", "interleaved", "looped-bfs", "interleaved-zb", "zb-v", "dualpipe-v", "v-half", "hanayo" };
  const PsFormat *format = ps_format_find ("torch-comms-2.14", NULL);

  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    for (guint v = 1; v <= 4; v++)
      {
        const PsFamily *family = ps_family_find (families[i]);
        PsFamilySetting setting = { .n_devices = 4, .n_microbatches = 8, .n_chunks = v };
        g_autoptr (PsSchedule) schedule = ps_family_generate (family, &setting, NULL);

        if (schedule == NULL)
          continue;
        g_autofree char *expected = format->write (schedule, NULL), *expected_cells = without_weights (expected);
        g_autoptr (PsProgram) program = ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, NULL);
        g_autofree char *text = format->write_program (program, NULL), *cells = without_weights (text);
        g_assert_cmpstr (cells, ==, expected_cells);
      }
}

static void
assert_broken (PsProgram *program, const char *part)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (ps_program_check (program, PS_CHANNEL_LATENCY, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_SCHEDULE);
  g_assert_nonnull (strstr (error->message, part));
}

static void
test_unmatched (void)
{
  g_autoptr (PsProgram) program = lower_family ("gpipe", 2, 2, 1);
  PsInstruction *send = &program->instructions[find (program, 0, "SEND F1.0 to device 1")];
  guint32 message = send->message;

  send->op.microbatch = 0;
  send->message = program->instructions[find (program, 1, "RECEIVE F0.0 from device 0")].message;
  assert_broken (program, "(SEND F0.0 to device 1): is there twice");
  send->type = PS_INSTRUCTION_COMPUTE;
  assert_broken (program, "(RECEIVE F1.0 from device 0): has no SEND");
  send->type = PS_INSTRUCTION_SEND;
  send->op.microbatch = 1;
  send->message = message;
  send->peer = 0;
  assert_broken (program, "does not meet its other end");
  send->peer = 1;
  guint receive = find (program, 1, "RECEIVE F0.0 from device 0"), wait = find (program, 1, "WAIT F0.0 from device 0");
  swap (program, receive, wait);
  ps_program_note_places (program);
  assert_broken (program, "(WAIT F0.0 from device 0): has no RECEIVE before it");
}

/* Sets bit s for each of the next stages from a cell on: those of one cell after the other, until there are three. */
static guint64
next_stages (const PsSchedule *schedule, guint place, guint end)
{
  guint64 stages = 0;

  while (place < end && __builtin_popcountll (stages) < 3)
    {
      stages |= (guint64)1 << schedule->ops[place].stage;
      if (schedule->ops[place].paired)
        stages |= (guint64)1 << schedule->ops[++place].stage;
      place++;
    }
  return stages;
}

/* Stages of the cell whose last W or BW it is. */
static guint
count_last_backwards (const PsSchedule *schedule, guint place, guint next, guint end)
{
  guint n = 0;

  for (guint i = place; i < next; i++)
    {
      PsOp op = schedule->ops[i];
      gboolean is_last = op.kind == PS_OP_W || op.kind == PS_OP_BW;

      for (guint k = i + 1; k < end && is_last; k++)
        is_last = schedule->ops[k].stage != op.stage
                  || (schedule->ops[k].kind != PS_OP_W && schedule->ops[k].kind != PS_OP_BW);
      n += is_last;
    }
  return n;
}

/* A device has the weights of the next three stages of its order. Before a cell it spends a turn on each stage that is
 * among them before or after that cell, but not both, and one on each stage whose last backward the cell before was. */
static void
test_weight_turns (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (35);
  guint n_shrinking = 0;

  for (guint n = 0; n < 300; n++)
    {
      g_autoptr (PsSchedule) schedule = random_schedule (rand, n % 3 > 0);
      g_autofree guint8 *turns = ps_weight_turns (schedule);

      for (guint device = 0; device < schedule->placement->n_devices; device++)
        {
          guint first = schedule->first[device], end = schedule->first[device + 1];

          for (guint place = first, before = first; place < end; place += schedule->ops[place].paired ? 2 : 1)
            {
              guint64 now = next_stages (schedule, place, end);
              guint64 then = place > first ? next_stages (schedule, before, end) : 0;

              g_assert_cmpuint (turns[place], ==,
                                (guint)__builtin_popcountll (now ^ then)
                                    + count_last_backwards (schedule, before, place, end));
              n_shrinking += place > first && (now & then) == now && now != then;
              before = place;
            }
        }
    }
  g_assert_cmpuint (n_shrinking, >, 100);
}

/* The ops of a device in a round; ' marks those of the next iteration. */
static void
assert_round (const PsRound *round, guint device, const char *expected)
{
  g_autoptr (GString) text = g_string_new (NULL);
  char name[48];

  for (guint i = round->first[device]; i < round->first[device + 1]; i++)
    if (round->instructions[i].type == PS_INSTRUCTION_COMPUTE)
      g_string_append_printf (text, "%s%s%s", text->len ? " " : "", ps_op_format (round->instructions[i].op, name),
                              round->ahead[i] ? "'" : "");
  g_assert_cmpstr (text->str, ==, expected);
}

static guint
count_equal (const PsInstruction *instructions, guint n, const PsInstruction *wanted)
{
  guint n_equal = 0;

  for (guint i = 0; i < n; i++)
    n_equal += memcmp (&instructions[i], wanted, sizeof *wanted) == 0;
  return n_equal;
}

/* A round has the instructions of the program. Those of a message are ahead where its producer is, a wait where its
 * consumer is, which comes next. */
static void
check_round (const PsProgram *program, const PsRound *round)
{
  guint n_devices = program->schedule->placement->n_devices;
  g_autofree guint8 *ahead = g_new0 (guint8, program->n_steps);

  for (guint d = 0; d < n_devices; d++)
    for (guint i = round->first[d]; i < round->first[d + 1]; i++)
      for (guint k = program->schedule->first[d]; k < program->schedule->first[d + 1]; k++)
        if (round->instructions[i].type == PS_INSTRUCTION_COMPUTE
            && memcmp (&round->instructions[i].op, &program->schedule->ops[k], sizeof (PsOp)) == 0)
          ahead[program->step_of[k]] = round->ahead[i];
  for (guint d = 0; d < n_devices; d++)
    {
      g_assert_cmpuint (round->first[d + 1], ==, program->first[d + 1]);
      for (guint i = round->first[d]; i < round->first[d + 1]; i++)
        {
          const PsInstruction *instruction = &round->instructions[i];
          guint n = program->first[d + 1] - program->first[d];

          g_assert_cmpuint (count_equal (&program->instructions[program->first[d]], n, instruction), ==, 1);
          g_assert_cmpuint (count_equal (&round->instructions[round->first[d]], n, instruction), ==, 1);
          if (instruction->type == PS_INSTRUCTION_COMPUTE)
            continue;
          const PsMessage *message = &program->messages[instruction->message - 1];
          gboolean waits = instruction->type == PS_INSTRUCTION_WAIT;
          g_assert_cmpuint (round->ahead[i], ==, ahead[waits ? message->consumer : message->producer]);
          if (waits)
            g_assert_cmpuint (program->message_of[message->consumer], ==, instruction->message);
          if (waits)
            g_assert_cmpint (round->instructions[i + 1].type, ==, PS_INSTRUCTION_COMPUTE);
        }
    }
}

/* PipeDream's warm-up, the F before its first BW, runs for the next iteration: one after each BW that follows the last
 * F, and the rest at the end. A synchronous schedule stays as it is. */
static void
test_round (void)
{
  g_autoptr (PsProgram) two = lower_family ("pipedream", 2, 4, 1), flat = lower_family ("1f1b", 2, 3, 1);
  g_autoptr (PsRound) round = ps_round_new (two), same = ps_round_new (flat);

  assert_round (round, 0, "BW0.0 F2.0 BW1.0 F3.0 BW2.0 F0.0' BW3.0 F1.0'");
  assert_round (round, 1, "BW0.1 F1.1 BW1.1 F2.1 BW2.1 F3.1 BW3.1 F0.1'");
  assert_round (same, 0, "F0.0 F1.0 BW0.0 F2.0 BW1.0 BW2.0");
  g_assert_cmpmem (same->instructions, flat->first[2] * sizeof *same->instructions, flat->instructions,
                   flat->first[2] * sizeof *flat->instructions);
  for (guint p = 1; p <= 5; p++)
    for (guint m = p; m <= 3 * p; m++)
      for (guint i = 0; i < 3; i++)
        {
          static const char *const families[] = { "pipedream", "pipedream-2bw", "1f1b" };
          g_autoptr (PsProgram) program = lower_family (families[i], p, m, 1);
          g_autoptr (PsRound) any = ps_round_new (program);

          check_round (program, any);
        }
  ps_round_free (NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/program/stream", test_stream);
  g_test_add_func ("/program/local", test_local);
  g_test_add_func ("/program/random", test_random);
  g_test_add_func ("/program/posts", test_posts);
  g_test_add_func ("/program/late-streams", test_late_streams);
  g_test_add_func ("/program/circle", test_circle);
  g_test_add_func ("/program/crossed-receives", test_crossed_receives);
  g_test_add_func ("/program/orders", test_orders);
  g_test_add_func ("/program/deferred-pairs", test_deferred_pairs);
  g_test_add_func ("/program/asap", test_asap);
  g_test_add_func ("/program/unmatched", test_unmatched);
  g_test_add_func ("/program/weight-turns", test_weight_turns);
  g_test_add_func ("/program/round", test_round);
  return g_test_run ();
}
