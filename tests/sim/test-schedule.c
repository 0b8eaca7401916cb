/* Tests of schedules, their checks and file, and of placements. */
#include "error-rig.h"
#include "random-schedule.h"

#include <pipesim/schedule.h>
#include <string.h>

/* A schedule in the native form from its orders, devices separated by '|': "F0.0 BW0.0|F0.1 BW0.1". */
static char *make_json (guint stages, guint microbatches, const char *placement, const char *orders)
{
  g_auto (GStrv) devices = g_strsplit (orders, "|", -1);
  g_autoptr (GString) order = g_string_new (NULL);

  for (guint i = 0; devices[i] != NULL; i++) {
    g_auto (GStrv) ops = g_strsplit (devices[i], " ", -1);
    g_autofree char *joined = g_strjoinv ("\", \"", ops);

    g_string_append_printf (order, "%s[\"%s\"]", i ? ", " : "", joined);
  }
  return g_strdup_printf (
      "{\"format\": \"pipesim-schedule/1\", \"name\": \"t\", \"devices\": %u, \"stages\": %u, \"microbatches\": %u, "
      "\"slices\": 1, \"placement\": [[%s]], \"order\": [%s]}",
      g_strv_length (devices), stages, microbatches, placement, order->str);
}

static PsSchedule *make (guint stages, guint microbatches, const char *placement, const char *orders)
{
  g_autofree char *json = make_json (stages, microbatches, placement, orders);

  return fine (ps_schedule_parse_json ("test", json, -1, &error));
}

static void test_validate (void)
{
  static const struct {
    const char *orders;
    const char *message; /* NULL: valid */
  } cases[] = {
    { "F0.0 F1.0 BW0.0 BW1.0|F0.1 BW0.1 F1.1 BW1.1", NULL },
    { "F0.0 F1.0 B0.0 BW1.0 W0.0|F0.1 BW0.1 F1.1 BW1.1", NULL },
    { "F0.0 F1.0 BW0.0 BW1.0|F0.1 BW0.1 BW1.1 F1.1", "device 1: op 2 (BW1.1): comes before its F" },
    { "F0.0 F1.0 BW0.0 BW1.0|F0.1 W0.1 B0.1 F1.1 BW1.1", "device 1: op 1 (W0.1): comes before its backward" },
    { "F0.0 F1.0 BW0.0 W0.0 BW1.0|F0.1 BW0.1 F1.1 BW1.1",
      "device 0: op 3 (W0.0): its weights are done by its full backward already" },
    { "F0.0 F0.0 BW0.0 BW1.0|F0.1 BW0.1 F1.1 BW1.1", "device 0: op 1 (F0.0): is there twice" },
    { "F0.0 B0.0 BW0.0 F1.0 BW1.0|F0.1 BW0.1 F1.1 BW1.1", "device 0: op 2 (BW0.0): its backward is there already" },
    { "F0.0 F1.0 BW0.0 BW1.0|F0.1 BW0.1 F1.1", "device 1: has no backward of microbatch 1 on stage 1" },
    { "F0.0 F1.0 BW0.0 B1.0|F0.1 BW0.1 F1.1 BW1.1", "device 0: has no W of microbatch 1 on stage 0" },
    { "F0.0 BW0.0|F0.1 BW0.1 F1.1 BW1.1", "device 0: has no F of microbatch 1 on stage 0" },
    { "F0.0 F1.1 BW0.0 BW1.0|F0.1 BW0.1 F1.1 BW1.1", "device 0: op 1 (F1.1): belongs to another device" },
    { "F0.0 F2.0 BW0.0 BW1.0|F0.1 BW0.1 F1.1 BW1.1", "device 0: op 1 (F2.0): no such microbatch" },
    { "F0.7 F1.0 BW0.0 BW1.0|F0.1 BW0.1 F1.1 BW1.1", "device 0: op 0 (F0.7): no such stage" },
    { "F0.0/1 F1.0 BW0.0 BW1.0|F0.1 BW0.1 F1.1 BW1.1", "device 0: op 0 (F0.0/1): no such slice" },
    { "F0.0 F1.0 BW0.0 BW1.0 O0.0|F0.1 BW0.1 F1.1 BW1.1",
      "device 0: op 4 (O0.0): the optimizer step is no part of a schedule" },
    { "F0.0 F1.0+BW0.0 BW1.0|F0.1 BW0.1 F1.1 BW1.1", NULL },
    { "F0.0+F1.0 BW0.0 BW1.0|F0.1 BW0.1 F1.1 BW1.1",
      "device 0: op 0 (F0.0): is paired, but a pair is one F and one B or BW" },
    { "F0.0 BW0.0 F1.0+BW1.0|F0.1 BW0.1 F1.1 BW1.1", "device 0: op 2 (F1.0): is paired with an op that depends on it" },
    { "F0.0 R0.0 F1.0 BW0.0 BW1.0|F0.1 BW0.1 F1.1 BW1.1", NULL },
    { "F0.0 F1.0 BW0.0 R0.0 BW1.0|F0.1 BW0.1 F1.1 BW1.1", "device 0: op 3 (R0.0): comes after its backward" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (PsSchedule) schedule = make (2, 2, "0, 1", cases[i].orders);
    gboolean valid = ps_schedule_validate (schedule, &error);

    g_assert_cmpstr (error ? error->message : NULL, ==, cases[i].message);
    g_assert_true (valid == (cases[i].message == NULL));
    if (error != NULL)
      g_assert_error (error, PS_ERROR, PS_ERROR_SCHEDULE);
  }
}

/* Slices go forward in order and backward in reverse. */
static void test_slices (void)
{
  static const char *const orders[]
      = { "F0.0 F0.0/1 BW0.0/1 BW0.0", "F0.0/1 F0.0 BW0.0/1 BW0.0", "F0.0 F0.0/1 BW0.0 BW0.0/1" };
  static const char *const messages[] = { NULL, "device 0: op 0 (F0.0/1): comes before the previous slice",
                                          "device 0: op 2 (BW0.0): comes before the next slice" };

  for (guint i = 0; i < 3; i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (PsSchedule) schedule = make (1, 1, "0", orders[i]);

    schedule->n_slices = 2;
    ps_schedule_validate (schedule, &error);
    g_assert_cmpstr (error ? error->message : NULL, ==, messages[i]);
  }
}

static void test_op_text (void)
{
  static const char *const good[] = { "F0.1", "BW12.3", "W5.0/7", "R1048575.16383/255", "O0.0" };
  static const char *const bad[]
      = { "",    "F",     "F1",         "F1.",      "X1.1",     "F-1.0", "F1.99999", "B W1.1", "F9999999999999.1",
          "1.1", "F1.1/", "F1048576.0", "F0.16384", "F0.0/256", "f0.0",  "BWW0.0" };
  char buffer[48];
  const char *end;
  PsOp op;

  for (guint i = 0; i < G_N_ELEMENTS (good); i++) {
    g_assert_true (ps_op_parse (good[i], &end, &op));
    g_assert_cmpint (*end, ==, '\0');
    g_assert_cmpstr (ps_op_format (op, buffer), ==, good[i]);
  }
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    g_assert_false (ps_op_parse (bad[i], &end, &op));
  g_assert_cmpuint (sizeof (PsOp), ==, 8);
}

/* What is written reads back to the same text, pairs and splits included. */
static void test_round_trip (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);

  for (guint i = 0; i < 50; i++) {
    g_autoptr (PsSchedule) drawn = random_schedule (rand, TRUE);
    g_autofree char *text = ps_schedule_to_json (drawn);
    g_autoptr (PsSchedule) read = fine (ps_schedule_parse_json ("test", text, -1, &error));
    g_autofree char *again = ps_schedule_to_json (read);

    g_assert_cmpstr (again, ==, text);
    g_assert_cmpmem (read->ops, ps_schedule_n_ops (read) * sizeof (PsOp), drawn->ops,
                     ps_schedule_n_ops (drawn) * sizeof (PsOp));
  }
}

static void test_copies (void)
{
  static const char text[]
      = "{\"format\": \"pipesim-schedule/1\", \"name\": \"two\", \"devices\": 2, \"stages\": 2, \"microbatches\": 2, "
        "\"slices\": 1,"
        "\"placement\": [[0, 1], [1, 0]], \"copy_of_microbatch\": [0, 1], \"weight_versions\": [2, 1], \"order\": ["
        "[\"F0.0\", \"F1.1\", \"BW1.1\", \"BW0.0\"], [\"F1.0\", \"F0.1\", \"BW0.1\", \"BW1.0\"]]}";
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSchedule) schedule = fine (ps_schedule_parse_json ("test", text, -1, &error));

  g_assert_true (ps_schedule_validate (schedule, &error));
  g_assert_cmpint (schedule->placement->kind, ==, PS_PLACEMENT_BIDIRECTIONAL);
  g_assert_cmpuint (schedule->weight_versions[0], ==, 2);
  g_assert_cmpuint (ps_schedule_device (schedule, 0, 1), ==, 1);
  g_autofree char *written = ps_schedule_to_json (schedule);
  g_assert_nonnull (strstr (written, "\"copy_of_microbatch\": [0, 1]"));
}

/* A file keeps how many microbatches an optimizer step takes, and they divide those of an iteration. */
static void test_updates (void)
{
  const PsFamilySetting setting = { .n_devices = 2, .n_microbatches = 6, .n_chunks = 1 };
  g_autoptr (PsSchedule) schedule = ps_family_generate (ps_family_find ("pipedream"), &setting, NULL);
  g_autofree char *text = ps_schedule_to_json (schedule);
  g_autoptr (PsSchedule) read = ps_schedule_parse_json ("test", text, -1, NULL);

  g_assert_cmpuint (ps_schedule_update_every (read), ==, 1);
  read->update_every = 3;
  g_assert_true (ps_schedule_validate (read, NULL));
  read->update_every = 4;
  refused (ps_schedule_validate (read, &error), PS_ERROR_SCHEDULE,
           "pipedream: an optimizer step every 4 microbatches: does not divide 6");
  read->update_every = 0;
  g_assert_cmpuint (ps_schedule_update_every (read), ==, 6);
}

/* A schedule says where it comes from and with which setting its family makes it again, and its file keeps that. */
static void test_origin (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=2ms,b=1ms,w=1ms", 2, 1, &error);
  PsFamilySetting setting
      = { .n_devices = 2, .n_microbatches = 6, .n_chunks = 3, .group_size = 3, .defer_head = 2, .costs = costs };
  g_autoptr (PsSchedule) schedule = fine (ps_family_generate (ps_family_find ("interleaved"), &setting, &error));

  g_assert_cmpstr (schedule->origin, ==, "generated by pipesim " PS_VERSION);
  g_autofree char *text = ps_schedule_to_json (schedule);
  g_autoptr (PsSchedule) read = fine (ps_schedule_parse_json ("test", text, -1, &error));
  g_autoptr (PsSchedule) copy = ps_schedule_copy (read);
  g_assert_cmpstr (copy->origin, ==, schedule->origin);
  g_assert_cmpstr (copy->family, ==, "interleaved");
  g_assert_cmpuint (copy->n_chunks, ==, 3);
  g_assert_cmpuint (copy->group_size, ==, 3);
  g_assert_cmpuint (copy->defer_head, ==, 2);
  setting.n_chunks = 1;
  setting.group_size = setting.defer_head = 0;
  g_autoptr (PsSchedule) ordered = fine (ps_family_generate (ps_family_find ("zb-auto"), &setting, &error));
  g_assert_cmpstr (ordered->origin, ==, "generated by pipesim " PS_VERSION " from given costs: command line");
}

static void test_refusals (void)
{
  static const struct {
    const char *find, *replace, *part;
  } cases[] = {
    { "pipesim-schedule/1", "pipesim-schedule/2", "another version" },
    { "pipesim-schedule/1", "torch", "'torch' is not pipesim-schedule/1" },
    { "\"slices\": 1", "\"slices\": 0", "slices: 0 is not between 1 and 255" },
    { "\"slices\": 1", "\"slices\": 1, \"colour\": 3", "colour: is no key" },
    { "\"slices\": 1", "\"slices\": 1, \"chunks\": 0", "chunks: 0 is not between 1 and 16384" },
    { "\"slices\": 1", "\"slices\": 1, \"group\": \"2\"", "group: is no integer" },
    { "\"slices\": 1", "\"slices\": 1, \"origin\": 3", "origin: is no text" },
    { "\"slices\": 1", "\"slices\": 1, \"family\": [\"1f1b\"]", "family: is no text" },
    { "\"slices\": 1", "\"slices\": 1, \"slices\": 2", "slices: is there twice" },
    { "\"devices\": 2", "\"devices\": 0", "devices: 0" },
    { "\"devices\": 2", "\"devices\": \"2\"", "devices: is no integer" },
    { "\"microbatches\": 2", "\"microbatches\": 1000000000", "microbatches: 1000000000" },
    { "[[0, 1]]", "[[0, 2]]", "placement[1]: 2 is not between 0 and 1" },
    { "[[0, 1]]", "[[0]]", "placement: has 1 entries, not 2" },
    { "[[0, 1]]", "[]", "placement: has 0 weight copies" },
    { "\"BW0.1\"", "\"Q0.1\"", "order[1][1]: 'Q0.1' is no op" },
    { "\"BW0.1\"", "\"BW0.1+\"", "order[1][1]: 'BW0.1+' is no op" },
    { "\"BW0.1\"", "7", "order[1][1]: is no text" },
    { "}", "", "test" },
    { "}", "} x", "test" },
  };
  g_autofree char *good = make_json (2, 2, "0, 1", "F0.0 F1.0 BW0.0 BW1.0|F0.1 BW0.1 F1.1 BW1.1");

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (GString) text = g_string_new (good);

    g_assert_cmpuint (g_string_replace (text, cases[i].find, cases[i].replace, 1), ==, 1);
    g_assert_null (ps_schedule_parse_json ("test", text->str, -1, &error));
    g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
    g_assert_true (g_str_has_prefix (error->message, "test"));
    g_assert_nonnull (strstr (error->message, cases[i].part));
  }
}

/* A file by hand need not say that microbatches are whole. */
static void test_slices_left_out (void)
{
  g_autofree char *json = make_json (2, 2, "0, 1", "F0.0 F1.0 BW0.0 BW1.0|F0.1 BW0.1 F1.1 BW1.1");
  g_autoptr (GString) text = g_string_new (json);

  g_assert_cmpuint (g_string_replace (text, "\"slices\": 1, ", "", 1), ==, 1);
  g_autoptr (PsSchedule) schedule = fine (ps_schedule_parse_json ("test", text->str, -1, &error));
  g_assert_cmpuint (schedule->n_slices, ==, 1);
}

/* R tells of single microbatches of single stages that they are recomputed. */
static void test_recomputed (void)
{
  g_autoptr (PsSchedule) some = make (2, 2, "0, 1", "F0.0 F1.0 BW0.0 R1.0 BW1.0|F0.1 R0.1 BW0.1 F1.1 BW1.1");
  g_autoptr (PsSchedule) none = make (2, 2, "0, 1", "F0.0 F1.0 BW0.0 BW1.0|F0.1 BW0.1 F1.1 BW1.1");
  g_autofree guint8 *recomputed = ps_schedule_recomputed (some);

  g_assert_true (some->recomputes);
  g_assert_false (none->recomputes);
  g_assert_null (ps_schedule_recomputed (none));
  for (guint stage = 0; stage < 2; stage++)
    for (guint microbatch = 0; microbatch < 2; microbatch++)
      g_assert_cmpuint (
          recomputed[ps_schedule_cell (some, (PsOp){ .stage = (guint16)stage, .microbatch = microbatch & 1 })], ==,
          stage + microbatch == 1);
}

/* Tests of schedule.h. */

static void assert_devices (const PsPlacement *placement, guint copy, const char *expected)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint stage = 0; stage < placement->n_stages; stage++)
    g_string_append_printf (text, "%s%u", stage ? " " : "", ps_placement_device (placement, copy, stage));
  g_assert_cmpstr (text->str, ==, expected);
}

static void test_known (void)
{
  g_autoptr (PsPlacement) loop = ps_placement_new (PS_PLACEMENT_LOOP, 3, 2);
  g_autoptr (PsPlacement) v = ps_placement_new (PS_PLACEMENT_V, 3, 2);
  g_autoptr (PsPlacement) wave = ps_placement_new (PS_PLACEMENT_WAVE, 2, 4);
  g_autoptr (PsPlacement) both = ps_placement_new (PS_PLACEMENT_BIDIRECTIONAL, 3, 1);

  assert_devices (loop, 0, "0 1 2 0 1 2");
  assert_devices (v, 0, "0 1 2 2 1 0");
  assert_devices (wave, 0, "0 1 1 0 0 1 1 0");
  assert_devices (both, 0, "0 1 2");
  assert_devices (both, 1, "2 1 0");
  g_assert_cmpuint (v->chunk[5], ==, 1);
  g_assert_cmpuint (wave->chunk[4], ==, 2);
  g_assert_cmpuint (both->chunk[3 + 1], ==, 1);
  g_assert_cmpuint (ps_placement_max_chunks (wave), ==, 4);
  g_assert_cmpuint (ps_placement_max_chunks (both), ==, 1);
}

static void test_recognised (void)
{
  static const guint16 v[] = { 0, 1, 1, 0 }, loop[] = { 0, 1, 0, 1 }, both[] = { 0, 1, 1, 0 }, other[] = { 0, 0, 1 };
  g_autoptr (PsPlacement) a = ps_placement_new_custom (2, 4, 1, v);
  g_autoptr (PsPlacement) b = ps_placement_new_custom (2, 4, 1, loop);
  g_autoptr (PsPlacement) c = ps_placement_new_custom (2, 2, 2, both);
  g_autoptr (PsPlacement) d = ps_placement_new_custom (2, 3, 1, other);
  g_autoptr (PsPlacement) e = ps_placement_copy (d);

  g_assert_cmpint (a->kind, ==, PS_PLACEMENT_V);
  g_assert_cmpint (b->kind, ==, PS_PLACEMENT_LOOP);
  g_assert_cmpint (c->kind, ==, PS_PLACEMENT_BIDIRECTIONAL);
  g_assert_cmpint (d->kind, ==, PS_PLACEMENT_CUSTOM);
  assert_devices (e, 0, "0 0 1");
}

/* Both copies count; the stage of another device does not. Three stages on device 0 of two are its most chunks. */
static void test_holds (void)
{
  static const guint16 other[] = { 0, 1, 0, 0 };
  g_autoptr (PsPlacement) both = ps_placement_new (PS_PLACEMENT_BIDIRECTIONAL, 4, 1);
  g_autoptr (PsPlacement) loop = ps_placement_new (PS_PLACEMENT_LOOP, 4, 2);
  g_autoptr (PsPlacement) custom = ps_placement_new_custom (2, 4, 1, other);

  for (guint device = 0; device < 4; device++) {
    for (guint stage = 0; stage < 4; stage++)
      g_assert_cmpint (ps_placement_holds (both, device, stage), ==, device == stage || device + stage == 3);
    for (guint stage = 0; stage < 8; stage++)
      g_assert_cmpint (ps_placement_holds (loop, device, stage), ==, stage % 4 == device);
  }
  g_assert_cmpuint (ps_placement_max_chunks (custom), ==, 3);
  g_assert_cmpuint (custom->chunk[3], ==, 2);
  g_assert_cmpuint (custom->chunk[1], ==, 0);
}

/* Devices that hold different numbers of stages, or copies of another kind, make none of the known placements. */
static void test_unknown (void)
{
  static const guint16 uneven[] = { 0, 1, 2, 0 }, half[] = { 0, 1, 0, 1 }, wave[] = { 0, 1, 1, 0, 0, 1 },
                       thrice[] = { 0, 1, 1, 0, 1, 0 }, alone[] = { 0, 0 };
  static const struct {
    guint n_devices, n_stages, n_copies;
    const guint16 *device;
    PsPlacementKind kind;
  } rows[] = { { 3, 4, 1, uneven, PS_PLACEMENT_CUSTOM },
               { 2, 2, 2, half, PS_PLACEMENT_CUSTOM },
               { 2, 6, 1, wave, PS_PLACEMENT_WAVE },
               { 2, 6, 1, thrice, PS_PLACEMENT_CUSTOM },
               { 1, 2, 1, alone, PS_PLACEMENT_LOOP } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsPlacement) placement
        = ps_placement_new_custom (rows[i].n_devices, rows[i].n_stages, rows[i].n_copies, rows[i].device);

    g_assert_cmpint (placement->kind, ==, rows[i].kind);
  }
}

static void test_names (void)
{
  PsPlacementKind kind;

  g_assert_true (ps_placement_parse ("x", "V", &kind, NULL));
  g_assert_cmpint (kind, ==, PS_PLACEMENT_V);
  g_assert_false (ps_placement_parse ("x", "custom", &kind, NULL));
  g_assert_false (ps_placement_parse ("x", "v", &kind, NULL));
  g_assert_cmpstr (ps_placement_name (PS_PLACEMENT_BIDIRECTIONAL), ==, "bidirectional");
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/schedule/validate", test_validate);
  g_test_add_func ("/schedule/slices", test_slices);
  g_test_add_func ("/schedule/slices-left-out", test_slices_left_out);
  g_test_add_func ("/schedule/op-text", test_op_text);
  g_test_add_func ("/schedule/round-trip", test_round_trip);
  g_test_add_func ("/schedule/copies", test_copies);
  g_test_add_func ("/schedule/origin", test_origin);
  g_test_add_func ("/schedule/updates", test_updates);
  g_test_add_func ("/schedule/refusals", test_refusals);
  g_test_add_func ("/schedule/recomputed", test_recomputed);
  g_test_add_func ("/placement/known", test_known);
  g_test_add_func ("/placement/recognised", test_recognised);
  g_test_add_func ("/placement/holds", test_holds);
  g_test_add_func ("/placement/unknown", test_unknown);
  g_test_add_func ("/placement/names", test_names);
  return g_test_run ();
}
