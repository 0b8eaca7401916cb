/* Tests of program.h. */
#include "lower.h"
#include "random-schedule.h"

#include <pipesim/simulate.h>
#include <pipesim/formats.h>

#include "program/program-private.h"
#include "program/weight-window.h"

#include <stdio.h>
#include <string.h>

static char *stream (const PsProgram *program, guint device)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = program->first[device]; i < program->first[device + 1]; i++) {
    g_autofree char *instruction = ps_instruction_format (&program->instructions[i]);

    g_string_append_printf (text, "%s%s", text->len ? "; " : "", instruction);
  }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void assert_stream (const PsProgram *program, guint device, const char *expected)
{
  g_autofree char *text = stream (program, device);

  g_assert_cmpstr (text, ==, expected);
}

/* GPipe p = 2, m = 1 lowered by hand: device 0 goes first in each round, and its F posts the receive on device 1 at
 * once. */
static void test_stream (void)
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
static void test_local (void)
{
  g_autoptr (PsProgram) program = lower_family ("interleaved", 1, 1, 2);

  assert_stream (program, 0, "F0.0; F0.1; BW0.1; BW0.0");
}

static void check_table (const PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;

  g_assert_cmpuint (program->n_steps, ==, ps_schedule_n_ops (schedule));
  for (guint i = 0; i < program->n_steps; i++) {
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
static void check_posts (const PsProgram *program)
{
  guint n_messages = 0;

  for (guint step = 0; step < program->n_steps; step++) {
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
static void test_posts (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (12);

  for (guint i = 0; i < 100; i++) {
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
static void test_late_streams (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (13);

  for (guint i = 0; i < 100; i++) {
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

static void test_random (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);

  for (guint i = 0; i < 300; i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (PsProgram) program
        = ps_program_lower (random_schedule (rand, i % 2), i % 3 ? PS_COMM_ASAP : PS_COMM_PLANNED, &error);

    g_assert_no_error (error);
    check_table (program);
    assert_runs_on_all_channels (program);
  }
}

static PsSchedule *two_devices (const PsOp *a, guint n_a, const PsOp *b, guint n_b, guint m)
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
static void test_circle (void)
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

static guint find (const PsProgram *program, guint device, const char *text)
{
  for (guint i = program->first[device]; i < program->first[device + 1]; i++) {
    g_autofree char *instruction = ps_instruction_format (&program->instructions[i]);

    if (g_str_equal (instruction, text))
      return i;
  }
  g_assert_not_reached ();
}

static void swap (PsProgram *program, guint i, guint k)
{
  PsInstruction kept = program->instructions[i];

  program->instructions[i] = program->instructions[k];
  program->instructions[k] = kept;
}

/* Device 1 takes the activations in the other order: harmless while transfers do not queue, a deadlock when they do. */
static void test_crossed_receives (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsProgram) program = lower_family ("gpipe", 2, 2, 1);

  swap (program, find (program, 1, "RECEIVE F0.0 from device 0"), find (program, 1, "RECEIVE F1.0 from device 0"));
  /* The wait for F0.0 would now stand before its receive: move both receives in front. */
  guint wait = find (program, 1, "WAIT F0.0 from device 0"), receive = find (program, 1, "RECEIVE F0.0 from device 0");
  if (wait < receive) {
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

/* Whether two posts of one device go through one end of its channels. */
static gboolean share_end (PsChannel channel, const PsInstruction *a, const PsInstruction *b)
{
  switch (channel) {
  case PS_CHANNEL_LATENCY:
    return FALSE;
  case PS_CHANNEL_DIRECTION:
    return a->peer == b->peer && a->type == b->type;
  case PS_CHANNEL_PAIR:
    return a->peer == b->peer;
  case PS_CHANNEL_RANK:
    return TRUE;
  }
  g_assert_not_reached ();
}

/* Whether nothing before a post, of what its device has come to, is still to go through its end. */
static gboolean is_next (const PsProgram *program, PsChannel channel, const guint *cursor, const gboolean *done,
                         guint device, guint post)
{
  if (post >= cursor[device])
    return FALSE;
  for (guint i = program->first[device]; i < post; i++)
    if (ps_instruction_is_post (&program->instructions[i]) && !done[program->instructions[i].message]
        && share_end (channel, &program->instructions[i], &program->instructions[post]))
      return FALSE;
  return TRUE;
}

/* Devices go on and transfers take place until nothing more can; TRUE when all devices came to their ends. */
static gboolean run_naively (const PsProgram *program, PsChannel channel, guint *cursor, gboolean *done)
{
  guint n = program->schedule->placement->n_devices, n_stuck = 0;

  memcpy (cursor, program->first, n * sizeof *cursor);
  for (gboolean moved = TRUE; moved;) {
    moved = FALSE;
    for (guint d = 0; d < n; d++)
      for (; cursor[d] < program->first[d + 1]
             && (program->instructions[cursor[d]].type != PS_INSTRUCTION_WAIT
                 || done[program->instructions[cursor[d]].message]);
           cursor[d]++)
        moved = TRUE;
    for (guint i = 0; i < program->n_messages; i++)
      if (!done[i + 1] && is_next (program, channel, cursor, done, program->messages[i].sender, program->places[i].send)
          && is_next (program, channel, cursor, done, program->messages[i].receiver, program->places[i].receive))
        done[i + 1] = moved = TRUE;
  }
  for (guint d = 0; d < n; d++)
    n_stuck += cursor[d] < program->first[d + 1];
  return n_stuck == 0;
}

/* Each link of an explained circle holds: a post that is next waits for the other side, which is not; a wait for a side
 * that is not; or a post comes after a wait or a post on its end. No message of the circle went through. */
static void check_circle (const PsProgram *program, PsChannel channel, const guint *cursor, const gboolean *done,
                          const char *message)
{
  const char *begin = strstr (message, "deadlock: ");
  g_auto (GStrv) parts = g_regex_split_simple (" (after|waits for) (?=device)", begin + strlen ("deadlock: "), 0, 0);
  guint n = g_strv_length (parts), before = 0, before_device = 0;

  g_assert_cmpuint (n, >=, 5);
  g_assert_cmpstr (parts[0], ==, parts[n - 1]);
  for (guint k = 0; k < n; k += 2) {
    guint device, number;
    const PsInstruction *this, *last = &program->instructions[before];

    g_assert_cmpint (sscanf (parts[k], "device %u instruction %u", &device, &number), ==, 2);
    number += program->first[device];
    this = &program->instructions[number];
    g_autofree char *text = ps_instruction_format (this);
    g_autofree char *expected
        = g_strdup_printf ("device %u instruction %u (%s)", device, number - program->first[device], text);
    g_assert_cmpstr (parts[k], ==, expected);
    g_assert_true (this->type != PS_INSTRUCTION_COMPUTE && !done[this->message]);
    if (k > 0 && g_str_equal (parts[k - 1], "after")) {
      g_assert_true (device == before_device && number < before);
      g_assert_true (this->type == PS_INSTRUCTION_WAIT || share_end (channel, this, last));
    } else if (k > 0) {
      g_assert_cmpuint (this->message, ==, last->message);
      g_assert_true (ps_instruction_is_post (this) && this->type != last->type);
      g_assert_false (is_next (program, channel, cursor, done, device, number));
      if (ps_instruction_is_post (last))
        g_assert_true (is_next (program, channel, cursor, done, before_device, before));
    }
    before = number;
    before_device = device;
  }
}

/* Whether the second instruction sends what the first makes. */
static gboolean makes (const PsProgram *program, const PsInstruction *first, const PsInstruction *second)
{
  if (first->type != PS_INSTRUCTION_COMPUTE || second->type != PS_INSTRUCTION_SEND)
    return FALSE;
  guint producer = program->op_of[program->messages[second->message - 1].producer];
  return memcmp (&first->op, &program->schedule->ops[producer], sizeof first->op) == 0;
}

/* Streams whose sends and receives were moved at random, each send after its producer, can run just where they can run
 * step by step; of the others the circle is told. */
static void test_moved (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (14);
  guint n_stuck[PS_CHANNEL_RANK + 1] = { 0 }, n_fine[PS_CHANNEL_RANK + 1] = { 0 };

  for (guint round = 0; round < 150; round++) {
    g_autoptr (PsProgram) program
        = ps_program_lower (random_schedule (rand, round % 2), (PsCommOrder)(round % 3), NULL);
    guint n = program->first[program->schedule->placement->n_devices];

    if (program->n_messages == 0)
      continue;
    for (guint k = 0; k < n / 4; k++) {
      guint i = random_below (rand, n - 1), device = 0;
      const PsInstruction *this = &program->instructions[i];

      while (program->first[device + 1] <= i)
        device++;
      if (i + 1 < program->first[device + 1] && (ps_instruction_is_post (this) || ps_instruction_is_post (this + 1))
          && !(this->type == PS_INSTRUCTION_RECEIVE && this[1].type == PS_INSTRUCTION_WAIT
               && this->message == this[1].message)
          && !makes (program, this, this + 1))
        swap (program, i, i + 1);
    }
    ps_program_note_places (program);
    for (guint channel = 0; channel <= PS_CHANNEL_RANK; channel++) {
      g_autofree gboolean *done = g_new0 (gboolean, program->n_messages + 1);
      g_autofree guint *cursor = g_new (guint, program->schedule->placement->n_devices);
      g_autoptr (GError) error = NULL;
      gboolean runs = run_naively (program, (PsChannel)channel, cursor, done);

      g_assert_cmpint (ps_program_check (program, (PsChannel)channel, &error), ==, runs);
      (runs ? n_fine : n_stuck)[channel]++;
      if (!runs)
        check_circle (program, (PsChannel)channel, cursor, done, error->message);
    }
  }
  for (guint channel = 0; channel <= PS_CHANNEL_RANK; channel++) {
    g_assert_cmpuint (n_fine[channel], >, 10);
    if (channel > PS_CHANNEL_LATENCY)
      g_assert_cmpuint (n_stuck[channel], >, 10);
  }
}

/* Transfers of all devices lie in one order: by the start, the end, and what they are for. Receives stand as early as
 * it allows, or after what had ended when their transfers began. */
static void check_arranged (const PsProgram *program, const gint64 *start_ns, const gint64 *end_ns,
                            const gint64 *op_end_ns)
{
  for (guint d = 0; d < program->schedule->placement->n_devices; d++) {
    guint32 last = G_MAXUINT32;
    guint first_op = program->schedule->first[d], n_ops = 0;

    for (guint i = program->first[d]; i < program->first[d + 1]; i++) {
      const PsInstruction *this = &program->instructions[i];

      n_ops += this->type == PS_INSTRUCTION_COMPUTE;
      if (!ps_instruction_is_post (this))
        continue;
      guint32 step = program->messages[this->message - 1].consumer;
      if (last != G_MAXUINT32)
        g_assert_true (start_ns[last] < start_ns[step]
                       || (start_ns[last] == start_ns[step]
                           && (end_ns[last] < end_ns[step] || (end_ns[last] == end_ns[step] && last < step))));
      last = step;
      if (this->type == PS_INSTRUCTION_SEND)
        continue;
      if (op_end_ns == NULL && i > program->first[d])
        g_assert_true (ps_instruction_is_post (this - 1));
      for (guint op = first_op; op_end_ns != NULL && op < program->schedule->first[d + 1]; op++)
        g_assert_cmpint (op < first_op + n_ops, ==, op_end_ns[program->step_of[op] + 1] <= start_ns[step]);
    }
  }
}

static void test_arranged (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (15);

  for (guint round = 0; round < 100; round++) {
    g_autoptr (PsProgram) program = ps_program_lower (random_schedule (rand, FALSE), PS_COMM_ASAP, NULL);
    g_autofree gint64 *start_ns = g_new0 (gint64, program->n_steps), *end_ns = g_new0 (gint64, program->n_steps);
    g_autofree gint64 *op_end_ns = g_new0 (gint64, program->n_steps + 1);

    for (guint i = 0; i < program->n_steps; i++) {
      const PsStep *step = &program->steps[i];

      if (step->input != 0) {
        start_ns[i] = op_end_ns[step->input] + random_below (rand, 3);
        end_ns[i] = start_ns[i] + 1 + random_below (rand, 4);
      }
      op_end_ns[i + 1] = MAX (op_end_ns[step->previous], end_ns[i]) + 1 + random_below (rand, 3);
    }
    ps_program_arrange (program, start_ns, end_ns, NULL);
    check_arranged (program, start_ns, end_ns, NULL);
    check_posts (program);
    assert_runs_on_all_channels (program);
    ps_program_arrange (program, start_ns, end_ns, op_end_ns);
    check_arranged (program, start_ns, end_ns, op_end_ns);
    check_posts (program);
    assert_runs_on_all_channels (program);
  }
}

/* An instruction of an endless run. */
typedef struct {
  const PsInstruction *what;
  guint iteration;
} Turn;

/* What a device runs in three iterations: what it runs ahead, and rounds of which the last runs nothing ahead. */
static GArray *unroll (const PsRound *round, guint device)
{
  GArray *turns = g_array_new (FALSE, FALSE, sizeof (Turn));

  for (guint k = 0; k < 4; k++)
    for (guint i = round->first[device]; i < round->first[device + 1]; i++)
      if (k == 0 ? round->ahead[i] : k < 3 || !round->ahead[i])
        g_array_append_val (turns, ((Turn[]){ { &round->instructions[i], k - 1 + round->ahead[i] } })[0]);
  return turns;
}

/* Sends come after what makes them, waits after their receives and before what needs them; all once an iteration. */
static void check_unrolled (const PsProgram *program, const GArray *turns)
{
  g_autofree guint *made = g_new0 (guint, 3 * program->n_steps);
  g_autofree guint *received = g_new0 (guint, 3 * (program->n_messages + 1));
  g_autofree guint *waited = g_new0 (guint, 3 * (program->n_messages + 1));

  for (guint i = 0; i < turns->len; i++) {
    Turn turn = g_array_index (turns, Turn, i);
    guint message = 3 * turn.what->message + turn.iteration, op = 0;

    g_assert_cmpuint (turn.iteration, <, 3);
    switch (turn.what->type) {
    case PS_INSTRUCTION_COMPUTE:
      while (memcmp (&program->schedule->ops[op], &turn.what->op, sizeof turn.what->op) != 0)
        op++;
      op = program->step_of[op];
      g_assert_cmpuint (made[3 * op + turn.iteration]++, ==, 0);
      g_assert_cmpuint (waited[3 * program->message_of[op] + turn.iteration], ==, program->message_of[op] != 0);
      break;
    case PS_INSTRUCTION_SEND:
      g_assert_cmpuint (made[3 * program->messages[turn.what->message - 1].producer + turn.iteration], ==, 1);
      break;
    case PS_INSTRUCTION_RECEIVE:
      g_assert_cmpuint (received[message]++, ==, 0);
      break;
    default:
      g_assert_cmpuint (received[message], ==, 1);
      g_assert_cmpuint (waited[message]++, ==, 0);
    }
  }
}

/* From the last forward that is not ahead on, a forward that is follows each backward, while there are both. */
static void check_drain (const PsRound *round, guint device)
{
  guint n[2] = { 0 }, n_ahead = 0;

  for (guint i = round->first[device]; i < round->first[device + 1]; i++)
    if (round->instructions[i].type == PS_INSTRUCTION_COMPUTE) {
      gboolean forward = round->instructions[i].op.kind == PS_OP_F;

      n_ahead += forward && round->ahead[i];
      if (forward && !round->ahead[i]) {
        g_assert_cmpuint (n_ahead, ==, 0);
        n[0] = n[1] = 0;
        continue;
      }
      n[forward]++;
      if (forward)
        g_assert_true (n[1] <= n[0]);
      else
        g_assert_true (n[0] <= n[1] + 1);
    }
  g_assert_cmpuint (n[0], ==, n[1]);
}

static Turn turn_at (const GPtrArray *turns, guint device, guint i)
{
  return g_array_index ((const GArray *)turns->pdata[device], Turn, i);
}

static gboolean is_turn (const GPtrArray *turns, guint device, guint i, PsInstructionType type, Turn other)
{
  Turn turn = turn_at (turns, device, i);

  return turn.what->type == type && turn.what->message == other.what->message && turn.iteration == other.iteration;
}

/* Runs all devices as far as they go: *at is where they come to. The sends and receives of each go one by one, each
 * when the other end's is the next there. */
static void run_unrolled (const GPtrArray *turns, guint *at)
{
  g_autofree guint *head = g_new0 (guint, turns->len);

  for (gboolean moved = TRUE; moved;) {
    moved = FALSE;
    for (guint d = 0; d < turns->len; d++) {
      guint n = ((const GArray *)turns->pdata[d])->len;

      while (head[d] < n && !ps_instruction_is_post (turn_at (turns, d, head[d]).what)) {
        head[d]++;
        moved = TRUE;
      }
      for (; at[d] < n; at[d]++, moved = TRUE) {
        Turn turn = turn_at (turns, d, at[d]);
        guint received = at[d];

        if (turn.what->type != PS_INSTRUCTION_WAIT)
          continue;
        while (!is_turn (turns, d, received, PS_INSTRUCTION_RECEIVE, turn))
          received--;
        if (received >= head[d])
          break;
      }
      if (head[d] >= at[d])
        continue;
      Turn send = turn_at (turns, d, head[d]);
      guint peer = send.what->peer;
      if (send.what->type != PS_INSTRUCTION_SEND || head[peer] >= at[peer]
          || !is_turn (turns, peer, head[peer], PS_INSTRUCTION_RECEIVE, send))
        continue;
      head[d]++;
      head[peer]++;
      moved = TRUE;
    }
  }
}

/* Rounds of schedules that never drain, one after the other, run on one channel for each device. */
static void test_rounds (void)
{
  static const char *const families[] = { "pipedream", "pipedream-2bw", "1f1b" };

  for (guint k = 0; k < 3 * 4 * 3; k++) {
    guint p = 2 + k % 3, m = p + k / 3 % 4 * 2, n_ahead = 0;
    g_autoptr (PsProgram) program = lower_family (families[k / 12], p, m, 1);
    g_autoptr (PsRound) round = ps_round_new (program);
    g_autoptr (GPtrArray) turns = g_ptr_array_new_with_free_func ((GDestroyNotify)g_array_unref);
    g_autofree guint *at = g_new0 (guint, p);

    for (guint d = 0; d < p; d++) {
      g_ptr_array_add (turns, unroll (round, d));
      check_unrolled (program, turns->pdata[d]);
      g_assert_cmpuint (((GArray *)turns->pdata[d])->len, ==, 3 * (program->first[d + 1] - program->first[d]));
      for (guint i = round->first[d]; i < round->first[d + 1]; i++)
        n_ahead += round->ahead[i] && round->instructions[i].type == PS_INSTRUCTION_COMPUTE;
      if (program->schedule->asynchronous)
        check_drain (round, d);
    }
    g_assert_cmpuint (n_ahead, ==, program->schedule->asynchronous ? p * (p + 1) / 2 : 0);
    run_unrolled (turns, at);
    for (guint d = 0; d < p; d++)
      g_assert_cmpuint (at[d], ==, ((GArray *)turns->pdata[d])->len);
  }
}

/* 1F1B p = 2, m = 2 by hand. Deferred: each receive stands before its wait. Planned, ops of one length and full
 * backwards of two: F0.0 ends at 1, F1.0 at 2; F0.1 runs from 1 to 2 and BW0.1 to 4, F1.1 to 5, BW1.1 to 7. Transfers
 * in the order F0.0 (1), F1.0 (2), B0.1 (4), B1.1 (7), on both devices. */
static void test_orders (void)
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

  for (guint order = PS_COMM_DEFERRED; order <= PS_COMM_PLANNED; order++) {
    g_autoptr (GError) error = NULL;
    PsFamilySetting setting = { .n_devices = 2, .n_microbatches = 2, .n_chunks = 1 };
    g_autoptr (PsProgram) program
        = ps_program_lower (ps_family_generate (ps_family_find ("1f1b"), &setting, &error), (PsCommOrder)order, &error);

    g_assert_no_error (error);
    for (guint device = 0; device < 2; device++)
      assert_stream (program, device, streams[order][device]);
    g_assert_cmpint (ps_program_check (program, PS_CHANNEL_PAIR, NULL), ==, order == PS_COMM_PLANNED);
  }
}

/* For transports without tags, deferred receives of one sender stay in the order of its sends, also where they are
 * needed in another: in a V an activation and a gradient go the same way. */
static void test_deferred_pairs (void)
{
  static const char *const families[]
      = { "zb-v", "v-half", "v-min", "1f1b-v", "dualpipe-v", "interleaved-zb", "hanayo" };

  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    for (guint p = 2; p <= 4; p++) {
      PsFamilySetting setting = { .n_devices = p, .n_microbatches = 2 * p, .n_chunks = 2 };
      g_autoptr (GError) error = NULL;
      g_autoptr (PsProgram) program
          = ps_program_lower_untagged (ps_family_generate (ps_family_find (families[i]), &setting, NULL), &error);

      fine (ps_program_check (program, PS_CHANNEL_DIRECTION, &error));
    }
}

/* The cells of a torch-comms file that neither handle weights nor wait. */
static char *without_weights (const char *text)
{
  g_autoptr (GRegex) weights = g_regex_new ("[0-9]+(UNSHARD|RESHARD|REDUCE_GRAD|WAIT_[A-Z_]+[0-9]*),?", 0, 0, NULL);
  g_autoptr (GRegex) ends = g_regex_new (",\\r", 0, 0, NULL);
  g_autofree char *cells = g_regex_replace_literal (weights, text, -1, 0, "", 0, NULL);

  return g_regex_replace_literal (ends, cells, -1, 0, "\r", 0, NULL);
}

/* What the exporter writes is PyTorch's own lowering, byte for byte (test-formats-torch.c); our asap puts the same
 * sends and receives in the same places. */
static void test_asap (void)
{
  static const char *const families[]
      = { "gpipe", "1f1b", "interleaved", "looped-bfs", "interleaved-zb", "zb-v", "dualpipe-v", "v-half", "hanayo" };
  const PsFormat *format = ps_format_find ("torch-comms-2.14", NULL);

  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    for (guint v = 1; v <= 4; v++) {
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

static void assert_broken (PsProgram *program, const char *part)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (ps_program_check (program, PS_CHANNEL_LATENCY, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_SCHEDULE);
  g_assert_nonnull (strstr (error->message, part));
}

static void test_unmatched (void)
{
  g_autoptr (PsProgram) program = lower_family ("gpipe", 2, 2, 1);
  PsInstruction *send = &program->instructions[find (program, 0, "SEND F1.0 to device 1")];
  guint32 message = send->message;

  send->op.microbatch = 0;
  send->message = program->instructions[find (program, 1, "RECEIVE F0.0 from device 0")].message;
  assert_broken (program, "(SEND F0.0 to device 1): is there twice");
  send->type = PS_INSTRUCTION_COMPUTE;
  assert_broken (program, "(RECEIVE F1.0 from device 0): has no send on the other device");
  send->message = message;
  assert_broken (program, "(RECEIVE F1.0 from device 0): has no send on the other device");
  send->type = PS_INSTRUCTION_SEND;
  send->op.microbatch = 1;
  send->peer = 0;
  assert_broken (program, "does not meet its other end");
  send->peer = 1;
  guint receive = find (program, 1, "RECEIVE F0.0 from device 0"), wait = find (program, 1, "WAIT F0.0 from device 0");
  swap (program, receive, wait);
  ps_program_note_places (program);
  assert_broken (program, "(WAIT F0.0 from device 0): has no receive before it");
}

/* Sets bit s for each of the next stages from a cell on: those of one cell after the other, until there are three. */
static guint64 next_stages (const PsSchedule *schedule, guint place, guint end)
{
  guint64 stages = 0;

  while (place < end && __builtin_popcountll (stages) < 3) {
    stages |= (guint64)1 << schedule->ops[place].stage;
    if (schedule->ops[place].paired)
      stages |= (guint64)1 << schedule->ops[++place].stage;
    place++;
  }
  return stages;
}

/* Stages of the cell whose last W or BW it is. */
static guint count_last_backwards (const PsSchedule *schedule, guint place, guint next, guint end)
{
  guint n = 0;

  for (guint i = place; i < next; i++) {
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
static void test_weight_turns (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (35);
  guint n_shrinking = 0;

  for (guint n = 0; n < 300; n++) {
    g_autoptr (PsSchedule) schedule = random_schedule (rand, n % 3 > 0);
    g_autofree guint8 *turns = ps_weight_actions (schedule, 1);

    for (guint device = 0; device < schedule->placement->n_devices; device++) {
      guint first = schedule->first[device], end = schedule->first[device + 1];

      for (guint place = first, before = first; place < end; place += schedule->ops[place].paired ? 2 : 1) {
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
static void assert_round (const PsRound *round, guint device, const char *expected)
{
  g_autoptr (GString) text = g_string_new (NULL);
  char name[48];

  for (guint i = round->first[device]; i < round->first[device + 1]; i++)
    if (round->instructions[i].type == PS_INSTRUCTION_COMPUTE)
      g_string_append_printf (text, "%s%s%s", text->len ? " " : "", ps_op_format (round->instructions[i].op, name),
                              round->ahead[i] ? "'" : "");
  g_assert_cmpstr (text->str, ==, expected);
}

static guint count_equal (const PsInstruction *instructions, guint n, const PsInstruction *wanted)
{
  guint n_equal = 0;

  for (guint i = 0; i < n; i++)
    n_equal += memcmp (&instructions[i], wanted, sizeof *wanted) == 0;
  return n_equal;
}

/* A round has the instructions of the program. Those of a message are ahead where its producer is, a wait where its
 * consumer is, which comes next. */
static void check_round (const PsProgram *program, const PsRound *round)
{
  guint n_devices = program->schedule->placement->n_devices;
  g_autofree guint8 *ahead = g_new0 (guint8, program->n_steps);

  for (guint d = 0; d < n_devices; d++)
    for (guint i = round->first[d]; i < round->first[d + 1]; i++)
      for (guint k = program->schedule->first[d]; k < program->schedule->first[d + 1]; k++)
        if (round->instructions[i].type == PS_INSTRUCTION_COMPUTE
            && memcmp (&round->instructions[i].op, &program->schedule->ops[k], sizeof (PsOp)) == 0)
          ahead[program->step_of[k]] = round->ahead[i];
  for (guint d = 0; d < n_devices; d++) {
    g_assert_cmpuint (round->first[d + 1], ==, program->first[d + 1]);
    for (guint i = round->first[d]; i < round->first[d + 1]; i++) {
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
static void test_round (void)
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
      for (guint i = 0; i < 3; i++) {
        static const char *const families[] = { "pipedream", "pipedream-2bw", "1f1b" };
        g_autoptr (PsProgram) program = lower_family (families[i], p, m, 1);
        g_autoptr (PsRound) any = ps_round_new (program);

        check_round (program, any);
      }
  ps_round_free (NULL);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/program/stream", test_stream);
  g_test_add_func ("/program/local", test_local);
  g_test_add_func ("/program/random", test_random);
  g_test_add_func ("/program/posts", test_posts);
  g_test_add_func ("/program/late-streams", test_late_streams);
  g_test_add_func ("/program/circle", test_circle);
  g_test_add_func ("/program/crossed-receives", test_crossed_receives);
  g_test_add_func ("/program/moved", test_moved);
  g_test_add_func ("/program/arranged", test_arranged);
  g_test_add_func ("/program/rounds", test_rounds);
  g_test_add_func ("/program/orders", test_orders);
  g_test_add_func ("/program/deferred-pairs", test_deferred_pairs);
  g_test_add_func ("/program/asap", test_asap);
  g_test_add_func ("/program/unmatched", test_unmatched);
  g_test_add_func ("/program/weight-turns", test_weight_turns);
  g_test_add_func ("/program/round", test_round);
  return g_test_run ();
}
