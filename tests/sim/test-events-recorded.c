/* Tests of simulate.h: recorded makespans. */
#include "reference.h"

#include <pipesim/simulate.h>

#include <string.h>

#define UNIT 10 /* ns of one chunk op in the rows of pytorch_channels.csv, so that their tenths are exact */

/* The recorded rows run the ops of a pair one after the other, each sending its result at its own end, in the order of
 * sends and receives that the pairs give. */
static PsProgram *lower_apart (PsSchedule *schedule, PsCommOrder order)
{
  g_autoptr (PsSchedule) apart = ps_schedule_copy (schedule);
  g_autoptr (PsProgram) pairs = fine (ps_program_lower (schedule, order, &error));
  guint n_devices = apart->placement->n_devices;

  for (guint i = 0; i < ps_schedule_n_ops (apart); i++)
    apart->ops[i].paired = FALSE;
  g_clear_pointer (&apart->posts, g_array_unref);
  apart->posts = g_array_new (FALSE, FALSE, sizeof (PsPost));
  for (guint device = 0, op = 0; device < n_devices; device++)
    for (guint i = pairs->first[device]; i < pairs->first[device + 1]; i++) {
      const PsInstruction *instruction = &pairs->instructions[i];
      PsPost post = { .place = op, .device = (guint16)device, .op = instruction->op };

      post.type = instruction->type == PS_INSTRUCTION_SEND ? PS_POST_SEND : PS_POST_RECEIVE;
      op += instruction->type == PS_INSTRUCTION_COMPUTE;
      if (ps_instruction_is_post (instruction))
        g_array_append_val (apart->posts, post);
    }
  PsProgram *program = fine (ps_program_lower (g_steal_pointer (&apart), order, &error));
  g_assert_cmpmem (program->first, (n_devices + 1) * sizeof (guint), pairs->first, (n_devices + 1) * sizeof (guint));
  return program;
}

static PsProgram *row_program (const ReferenceRow *row, PsCommOrder order)
{
  static const char *const names[][2] = {
    { "GPipe", "gpipe" },          { "1F1B", "1f1b" },
    { "LoopedBFS", "looped-bfs" }, { "Interleaved1F1B", "interleaved" },
    { "ZBVZeroBubble", "zb-v" },   { "InterleavedZeroBubble", "interleaved-zb" },
    { "DualPipeV", "dualpipe-v" },
  };
  PsFamilySetting setting = { .n_devices = reference_count (row, "devices"),
                              .n_microbatches = reference_count (row, "microbatches"),
                              .n_chunks = reference_count (row, "chunks") };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (names[i][0], reference_text (row, "schedule")))
      return lower_apart (reference_generate (names[i][1], &setting), order);
  g_assert_not_reached ();
}

/* What the row says of one order, channel and transfer time; -1: deadlock. */
static gint64 recorded (const ReferenceRow *row, PsCommOrder order, PsChannel channel, gboolean slow)
{
  g_autofree char *column
      = g_strdup_printf ("%s_%s_c%s", ps_comm_order_name (order), ps_channel_name (channel), slow ? "1.0" : "0.2");
  const char *text = reference_text (row, column);

  return g_str_equal (text, "DEADLOCK") ? -1 : llround (g_ascii_strtod (text, NULL) * UNIT);
}

static PsCosts *row_costs (const PsProgram *program, gboolean slow)
{
  return reference_costs (program->schedule->placement->n_stages, UNIT, UNIT, UNIT, slow ? UNIT : UNIT / 5, 0, 0);
}

static gint64 makespan (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);

  if (ps_events_simulate (program, costs, setting, simulation, &error))
    return simulation->makespan_ns;
  assert_error (&error, PS_ERROR_SCHEDULE, "*: deadlock: device *");
  return -1;
}

/* The orders of our own families, lowered by our own rules, to the tenth; a plan is never slower than either rule. Our
 * interleaved of one chunk is 1F1B. */
static gboolean check_row (const ReferenceRow *row, gpointer data)
{
  if (g_str_equal (reference_text (row, "schedule"), "Interleaved1F1B") && reference_count (row, "chunks") == 1)
    return FALSE;
  g_autoptr (PsProgram) asap = row_program (row, PS_COMM_ASAP), deferred = row_program (row, PS_COMM_DEFERRED);
  g_autoptr (PsProgram) planned = row_program (row, PS_COMM_PLANNED);

  for (guint channel = PS_CHANNEL_DIRECTION; channel <= PS_CHANNEL_RANK; channel++)
    for (guint slow = 0; slow < 2; slow++) {
      const PsEventsSetting setting = { .comm = (PsChannel)channel };
      g_autoptr (PsCosts) costs = row_costs (asap, slow != 0);
      gint64 asap_ns = recorded (row, PS_COMM_ASAP, setting.comm, slow != 0);
      gint64 deferred_ns = recorded (row, PS_COMM_DEFERRED, setting.comm, slow != 0);

      g_assert_cmpint (makespan (asap, costs, &setting), ==, asap_ns);
      g_assert_cmpint (makespan (deferred, costs, &setting), ==, deferred_ns);
      g_assert_cmpint (makespan (planned, costs, &setting), >=, 0);
      g_assert_true (ps_events_plan (planned, costs, &setting, NULL));
      g_assert_cmpint (makespan (planned, costs, &setting), <=, asap_ns);
      g_assert_true (deferred_ns < 0 || makespan (planned, costs, &setting) <= deferred_ns);
      assert_runs_on_all_channels (planned);
    }
  return TRUE;
}

static void test_channels (void)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "fixtures", "pytorch_channels.csv", NULL), *text = NULL;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (g_strchomp (text), "\n", -1);
  g_assert_cmpuint (reference_line_rows (lines, check_row, NULL), ==, 7);
}

static void test_all_channels (void)
{
  guint n = reference_rows ("pytorch_channels.csv", check_row, NULL);

  g_assert_true (n == 0 || n == 46);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/events/channels", test_channels);
  g_test_add_func ("/events/all-channels", test_all_channels);
  return g_test_run ();
}
