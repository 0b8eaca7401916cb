/* Tests of the program pipesim-diagnose: its JSON, its page and its picture. test-diagnosis.c tests what it finds. */
#include "script-rig.h"

#include <json-glib/json-glib.h>

/* What the command prints; the exit code must be 0. */
static char *diagnose (const InFolder *fixture, const char *arguments)
{
  g_autofree char *line = with_timelines (arguments), *talk = NULL;
  char *printed = NULL;

  g_assert_cmpint (run_program (fixture->folder, "pipesim-diagnose", line, NULL, &printed, &talk), ==, 0);
  g_assert_cmpstr (talk, ==, "");
  return printed;
}

static char *written (const InFolder *fixture, const char *name)
{
  g_autofree char *path = g_build_filename (fixture->folder, name, NULL);
  g_autoptr (GMappedFile) file = g_mapped_file_new (path, FALSE, NULL);

  g_assert_nonnull (file);
  return g_strndup (g_mapped_file_get_contents (file), g_mapped_file_get_length (file));
}

static JsonObject *result_of (JsonNode *node)
{
  return json_array_get_object_element (json_object_get_array_member (json_node_get_object (node), "results"), 0);
}

static gint64 sum_of (JsonObject *device, const char *const *keys)
{
  gint64 sum = 0;

  for (; *keys != NULL; keys++)
    sum += json_object_get_int_member (device, *keys);
  return sum;
}

/* The parts of a device make its iteration: ops are busy time, causes are idle time. */
static void test_parts (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const char *const busy[] = { "f_ns", "b_ns", "w_ns", "bw_ns", "r_ns", "pair_ns", NULL };
  static const char *const idle[]
      = { "warm_up_ns", "forward_ns", "backward_ns", "transfer_ns",    "channel_ns", "drain_ns",
          "sync_ns",    "o_ns",       "host_ns",     "unexplained_ns", NULL };
  g_autofree char *json = diagnose (fixture, "'%M' --json -t 0");
  g_autoptr (JsonNode) node = json_from_string (json, NULL);
  JsonObject *result = result_of (node);
  JsonArray *devices = json_object_get_array_member (result, "devices_detail");

  g_assert_cmpstr (json_object_get_string_member (json_node_get_object (node), "format"), ==, "pipesim-diagnosis/1");
  g_assert_cmpstr (json_object_get_string_member (json_node_get_object (node), "origin"), ==, "measured");
  g_assert_cmpuint (json_array_get_length (devices), ==, 2);
  for (guint i = 0; i < 2; i++) {
    JsonObject *device = json_array_get_object_element (devices, i);

    g_assert_cmpint (sum_of (device, busy), ==, json_object_get_int_member (device, "busy_ns"));
    g_assert_cmpint (sum_of (device, idle), ==, json_object_get_int_member (device, "idle_ns"));
    g_assert_cmpint (json_object_get_int_member (device, "busy_ns") + json_object_get_int_member (device, "idle_ns"),
                     ==, json_object_get_int_member (result, "iteration_ns"));
  }
}

static guint count_named (JsonObject *result, const char *prefix)
{
  JsonArray *schedules = json_object_get_array_member (result, "schedules");
  guint n = 0;

  for (guint i = 0; i < json_array_get_length (schedules); i++)
    n += g_str_has_prefix (json_object_get_string_member (json_array_get_object_element (schedules, i), "schedule"),
                           prefix);
  return n;
}

/* A search adds its row; it is no slower than any other row that fits. */
static void test_search (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *without = diagnose (fixture, "'%M' --json -t 0"), *with = diagnose (fixture, "'%M' --json -t 100ms");
  g_autoptr (JsonNode) a = json_from_string (without, NULL), b = json_from_string (with, NULL);

  g_assert_cmpuint (count_named (result_of (a), "search"), ==, 0);
  g_assert_cmpuint (count_named (result_of (b), "search"), ==, 1);
  g_assert_cmpuint (count_named (result_of (b), "1f1b"), >, 0);
}

static JsonObject *row_of (JsonObject *result, const char *schedule)
{
  JsonArray *schedules = json_object_get_array_member (result, "schedules");

  for (guint i = 0; i < json_array_get_length (schedules); i++)
    if (g_str_equal (json_object_get_string_member (json_array_get_object_element (schedules, i), "schedule"),
                     schedule))
      return json_array_get_object_element (schedules, i);
  g_assert_not_reached ();
}

/* A run of ours says its bytes. 1F1B holds 8 + 2 x 2 MiB; GPipe would hold 8 + 8 x 2 and does not fit, and zb-v 12. */
static void test_memory (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct {
    const char *schedule;
    double ratio;
  } rows[] = { { "1f1b", 1 }, { "gpipe", 2 }, { "zb-v", 1 }, { "zb-h2", 14.0 / 12 } };
  g_autofree char *printed = NULL, *talk = NULL;

  g_assert_cmpint (run_program (fixture->folder, "pipesim-exec",
                                "-s 1f1b -p 2 -m 8 --costs f=1ms,b=1ms,w=1ms,act=2MiB,weights=8MiB --device paced "
                                "--steps 2 --trace r.json",
                                NULL, &printed, &talk),
                   ==, 0);
  g_autofree char *json = diagnose (fixture, "r.json --json -t 0");
  g_autoptr (JsonNode) node = json_from_string (json, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    JsonObject *row = row_of (result_of (node), rows[i].schedule);

    g_assert_cmpfloat_with_epsilon (json_object_get_double_member (row, "memory_ratio"), rows[i].ratio, 1e-9);
    g_assert_cmpint (json_object_get_boolean_member (row, "feasible"), ==, rows[i].ratio <= 1);
    g_assert_cmpint (json_object_get_boolean_member (row, "is_run"), ==, i == 0);
  }
}

static void test_page (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const char *const parts[] = { "<!DOCTYPE html>",
                                       "</html>",
                                       "<title>Where &lt;it&gt; goes</title>",
                                       "<h2>Where the iteration goes",
                                       "<h2>Critical path of the measured iteration",
                                       "<h2>Ops of each stage on that path",
                                       "<h2>Predicted under the same costs",
                                       "<h2>What pays off",
                                       "<table id=\"section-1\">",
                                       "<figure class=\"timeline\"",
                                       "default-src 'none'" };

  if (!have_program ("gnuplot"))
    return;
  g_autofree char *printed = diagnose (fixture, "'%M' -t 0 -o a.html --title 'Where <it> goes'");
  g_autofree char *page = written (fixture, "a.html");

  g_assert_cmpstr (printed, ==, "");
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    g_assert_cmpuint (count (page, parts[i]), ==, 1);
  g_assert_cmpuint (count (page, "@"), ==, 0);
}

static void test_picture (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const char *const texts[] = { "device 0", "device 1", "unexplained", "measured", "title of it" };
  g_autofree char *printed = NULL, *svg = NULL;

  if (!have_program ("gnuplot"))
    return;
  printed = diagnose (fixture, "'%M' -t 0 -o a.svg --title 'title of it'");
  svg = written (fixture, "a.svg");
  g_assert_cmpstr (printed, ==, "");
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    g_assert_cmpuint (count (svg, texts[i]), >, 0);
}

/* A run of ZB-H1 on two devices, simulated with 134 us and an O of 1 us, that says that it was measured and took
 * another time. */
#define RUN_COSTS "f=10us:14us,b=11us,w=7us,c=2us,act=2MiB,wact=1MiB,o=1us"

static void write_run (const InFolder *fixture, const char *name, const char *arguments, gint64 iteration_ns)
{
  g_autofree char *talk = NULL, *path = g_build_filename (fixture->folder, name, NULL);
  g_autofree char *line = g_strdup_printf ("predict %s -o %s", arguments, name);
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (run_program (fixture->folder, "pipesim", line, NULL, NULL, &talk), ==, 0);
  g_autoptr (JsonNode) node = NULL;
  g_autofree char *text = written (fixture, name);
  node = json_from_string (text, &error);
  g_assert_no_error (error);
  json_object_set_string_member (json_node_get_object (node), "origin", "measured");
  json_object_set_int_member (json_node_get_object (node), "iteration_ns", iteration_ns);
  g_autofree char *changed = json_to_string (node, FALSE);
  g_assert_true (g_file_set_contents (path, changed, -1, NULL));
}

static void write_zb_h1 (const InFolder *fixture, const char *name, gint64 iteration_ns)
{
  write_run (fixture, name, "-s zb-h1 -p 2 -m 4 --costs " RUN_COSTS, iteration_ns);
}

static JsonNode *diagnosed (const InFolder *fixture, const char *arguments)
{
  g_autofree char *line = g_strconcat (arguments, " --json -t 0", NULL), *json = diagnose (fixture, line);
  JsonNode *node = json_from_string (json, NULL);

  g_assert_nonnull (node);
  return node;
}

static gint64 rank_of (JsonObject *row)
{
  return json_object_get_boolean_member (row, "asynchronous")       ? 3
         : json_object_get_int_member (row, "weight_copies") > 1    ? 2
         : json_object_get_boolean_member (row, "feasible") == TRUE ? 0
                                                                    : 1;
}

/* Each row's changes: against the run's measured 200 us, and against its prediction. Rows are in groups, and in each by
 * time. */
static void test_changes (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  write_zb_h1 (fixture, "r.json", 200000);
  g_autoptr (JsonNode) node = diagnosed (fixture, "r.json");
  JsonObject *result = result_of (node);
  JsonArray *rows = json_object_get_array_member (result, "schedules");
  gint64 predicted_ns = json_object_get_int_member (result, "predicted_iteration_ns"), ranks = 0;

  g_assert_cmpint (json_object_get_int_member (result, "iteration_ns"), ==, 200000);
  g_assert_cmpint (predicted_ns, ==, json_object_get_int_member (result, "makespan_ns"));
  g_assert_cmpint (json_object_get_int_member (row_of (result, "zb-h1"), "iteration_ns"), ==, predicted_ns);
  g_assert_cmpuint (json_array_get_length (rows), >, 10);
  for (guint i = 0; i < json_array_get_length (rows); i++) {
    JsonObject *row = json_array_get_object_element (rows, i), *last = NULL;
    double time_ns = (double)json_object_get_int_member (row, "iteration_ns");

    g_assert_cmpfloat_with_epsilon (json_object_get_double_member (row, "change_run"), time_ns / 200000 - 1, 1e-9);
    g_assert_cmpfloat_with_epsilon (json_object_get_double_member (row, "change_predicted"),
                                    time_ns / (double)predicted_ns - 1, 1e-9);
    last = i > 0 ? json_array_get_object_element (rows, i - 1) : NULL;
    if (last != NULL)
      g_assert_cmpint (rank_of (last), <=, rank_of (row));
    if (last != NULL && rank_of (last) == rank_of (row))
      g_assert_cmpint (json_object_get_int_member (last, "iteration_ns"), <=, (gint64)time_ns);
    ranks |= 1 << rank_of (row);
  }
  g_assert_cmpint (ranks & 3, ==, 3); /* some fit, some do not */
}

/* Other schedules take what pipesim predict says for the run's stages: as they are, and each in two halves. B and W of
 * halves may lose a ns. */
static void test_cut (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct {
    const char *schedule, *costs;
  } cases[] = {
    { "zb-h2", "-v 1 --costs " RUN_COSTS },
    { "zb-v", "-v 2 --costs f=5us:5us:7us:7us,b=5500ns:5500ns:5500ns:5500ns,w=3500ns:3500ns:3500ns:3500ns,c=2us,"
              "act=1MiB:1MiB:1MiB:1MiB,wact=512KiB:512KiB:512KiB:512KiB" },
    { "interleaved-zb",
      "-v 2 --costs f=5us:5us:7us:7us,b=5500ns:5500ns:5500ns:5500ns,w=3500ns:3500ns:3500ns:3500ns,c=2us,"
      "act=1MiB:1MiB:1MiB:1MiB,wact=512KiB:512KiB:512KiB:512KiB" },
  };

  write_zb_h1 (fixture, "r.json", 200000);
  g_autoptr (JsonNode) node = diagnosed (fixture, "r.json");
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *line = g_strdup_printf ("predict -s %s -p 2 -m 4 %s --json", cases[i].schedule, cases[i].costs);
    g_autofree char *talk = NULL, *printed = NULL;
    JsonObject *row = row_of (result_of (node), cases[i].schedule);

    g_assert_cmpint (run_program (fixture->folder, "pipesim", line, NULL, &printed, &talk), ==, 0);
    g_autoptr (JsonNode) predicted = json_from_string (printed, NULL);
    JsonObject *result = result_of (predicted);
    /* What diagnose leaves out: the O at the end of the prediction. */
    g_assert_cmpint (json_object_get_int_member (row, "iteration_ns"), ==,
                     json_object_get_int_member (result, "iteration_ns") - (i == 0 ? 1000 : 0));
    g_assert_cmpint (json_object_get_int_member (row, "chunks"), ==, i == 0 ? 1 : 2);
  }
}

/* Two stages of each device joined: 1F1B with the sums. */
static void test_joined (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *talk = NULL, *printed = NULL;

  write_run (fixture, "v.json",
             "-s interleaved-zb -v 2 -p 2 -m 4 --costs f=5us:6us:7us:8us,b=9us:10us:11us:12us,w=1us:2us:3us:4us,c=2us",
             300000);
  g_autoptr (JsonNode) node = diagnosed (fixture, "v.json");
  g_assert_cmpint (run_program (fixture->folder, "pipesim",
                                "predict -s zb-h1 -p 2 -m 4 --costs f=11us:15us,b=19us:23us,w=3us:7us,c=2us --json",
                                NULL, &printed, &talk),
                   ==, 0);
  g_autoptr (JsonNode) predicted = json_from_string (printed, NULL);
  g_assert_cmpint (json_object_get_int_member (row_of (result_of (node), "zb-h1"), "iteration_ns"), ==,
                   json_object_get_int_member (result_of (predicted), "iteration_ns"));
}

/* The summary's changes are those of the table, and it warns of predictions that are off by more than 10 %. */
static void test_summary (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const double factors[] = { 0.905, 0.915, 1.105, 1.115 }; /* 1 / 0.905 = 1.105, 1 / 1.115 = 0.897 */

  write_zb_h1 (fixture, "r.json", 200000);
  g_autoptr (JsonNode) node = diagnosed (fixture, "r.json");
  JsonObject *result = result_of (node);
  double own = (double)json_object_get_int_member (result, "predicted_iteration_ns");
  JsonObject *first = json_array_get_object_element (json_object_get_array_member (result, "schedules"), 0);
  double best = (double)json_object_get_int_member (first, "iteration_ns");
  g_autofree char *text = diagnose (fixture, "r.json -t 0"), *line = NULL, *flat = g_strdup (text), *run = NULL;
  g_strdelimit (flat, "\n", ' ');
  line = g_strdup_printf ("%s with %d chunks, %.1f %% less than the run as predicted, %+.1f %% against the run",
                          json_object_get_string_member (first, "schedule"),
                          (int)json_object_get_int_member (first, "chunks"), 100 * (1 - best / own),
                          100 * (best / 200000 - 1));
  run = g_strdup_printf ("predicted from medians: %g us (%+.1f %%)", own / 1000, 100 * (own / 200000 - 1));
  g_assert_cmpfloat (best, <, own);
  g_assert_nonnull (strstr (flat, line));
  g_assert_nonnull (strstr (flat, run));
  g_assert_nonnull (strstr (flat, "; 2e+04 microbatches/s")); /* 4 in 200 us */
  for (guint i = 0; i < G_N_ELEMENTS (factors); i++) {
    write_zb_h1 (fixture, "r.json", (gint64)(own * factors[i]));
    g_autofree char *said = diagnose (fixture, "r.json -t 0");

    g_assert_cmpuint (count (said, "predicted badly"), ==, i == 0 || i == 3);
  }
}

/* Of several iterations the median is explained; p10 and p90 are told. */
static void test_iterations (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  write_zb_h1 (fixture, "a.json", 190000);
  write_zb_h1 (fixture, "b.json", 200000);
  write_zb_h1 (fixture, "c.json", 230000);
  g_autofree char *text = diagnose (fixture, "c.json a.json b.json -t 0");
  g_autoptr (JsonNode) node = diagnosed (fixture, "c.json a.json b.json");
  JsonObject *result = result_of (node);

  g_assert_nonnull (strstr (text, "iteration 200 us, the median of 3 (p10 190 us, p90 230 us); "));
  g_assert_cmpint (json_object_get_int_member (result, "iterations"), ==, 3);
  g_assert_cmpint (json_object_get_int_member (result, "iteration_ns"), ==, 200000);
  g_assert_cmpint (json_object_get_int_member (result, "iteration_p10_ns"), ==, 190000);
  g_assert_cmpint (json_object_get_int_member (result, "iteration_p90_ns"), ==, 230000);
  write_run (fixture, "b.json", "-s zb-h1 -p 2 -m 5 --costs " RUN_COSTS, 200000);
  check_refused (fixture->folder, "pipesim-diagnose", "a.json b.json -t 0", 1,
                 "b.json: 2 devices, 2 stages and 5 microbatches, not as in a.json");
}

/* Stages that cannot be made of the run's are named with the reason: 6 stages are no 4. Weights of one stage are known
 * memory. */
static void test_other_stages (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  write_run (fixture, "r.json", "-s interleaved -v 3 -p 2 -m 4 --costs f=6us,b=6us,w=6us,c=1us", 200000);
  g_autoptr (JsonNode) node = diagnosed (fixture, "r.json");
  const char *skipped = json_object_get_string_member (json_node_get_object (node), "skipped");

  g_assert_nonnull (strstr (skipped, "4 stages cannot be made of the 6 of the run"));
  g_assert_cmpint (json_object_get_int_member (row_of (result_of (node), "interleaved"), "chunks"), ==, 3);
  write_run (fixture, "w.json", "-s 1f1b -p 2 -m 4 --costs f=6us,b=6us,w=6us,weights=0:3MiB", 200000);
  g_autofree char *known = diagnose (fixture, "w.json -t 0");
  g_assert_nonnull (strstr (known, "memory relative to the run"));
  write_run (fixture, "n.json", "-s 1f1b -p 2 -m 4 --costs f=6us,b=6us,w=6us", 200000);
  g_autofree char *unknown = diagnose (fixture, "n.json -t 0");
  g_assert_nonnull (strstr (unknown, "memory in activations, relative to the run"));
}

/* A bar for each device: its parts make the iteration. A bar for each schedule, with its change from the run as
 * predicted, where the dashed line is. */
static void test_places (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const char *const parts[] = { "f", "b", "w", "warm_up", "forward", "backward", "transfer", "drain", "sync" };

  write_zb_h1 (fixture, "r.json", 200000);
  g_autoptr (JsonNode) node = diagnosed (fixture, "r.json");
  JsonObject *result = result_of (node);
  JsonArray *rows = json_object_get_array_member (result, "schedules"),
            *devices = json_object_get_array_member (result, "devices_detail");
  double own = (double)json_object_get_int_member (result, "predicted_iteration_ns"), longest = 200000;
  g_autofree char *script = script_of (fixture->folder, "pipesim-diagnose", "r.json -t 0 -o a.svg");
  g_autofree char *first = script_text (script, "rival[1]"), *unit = script_text (script, "unit");
  g_autoptr (GPtrArray) bars = script_block (script, "parts"), rivals = script_block (script, "rivals");
  guint n = 0;

  g_assert_cmpstr (unit, ==, "ms");
  g_assert_cmpfloat (script_number (script, "iteration"), ==, 0.2);
  for (guint d = 0; d < 2; d++) {
    g_autofree char *name = g_strdup_printf ("bubble[%u]", d + 1), *bubble = script_text (script, name);
    JsonObject *device = json_array_get_object_element (devices, d);
    g_autofree char *expected = g_strdup_printf ("bubble %.4f", json_object_get_double_member (device, "bubble_ratio"));
    double end = 0;

    g_assert_cmpstr (bubble, ==, expected);
    for (guint i = 0; i < G_N_ELEMENTS (parts); i++) {
      double part = json_object_get_double_member (device, parts[i]) * 0.2;

      if (part == 0)
        continue;
      g_assert_cmpfloat (number_at (bars, n, 0), ==, d);
      g_assert_cmpfloat_with_epsilon (number_at (bars, n, 1), end, 1e-9);
      g_assert_cmpfloat_with_epsilon (number_at (bars, n, 2), end + part, 1e-9);
      end += part;
      n++;
    }
    g_assert_cmpfloat_with_epsilon (end, 0.2, 1e-9);
  }
  g_assert_cmpuint (bars->len, ==, n);
  g_assert_cmpstr (first, ==, "measured");
  g_assert_cmpfloat (number_at (rivals, 0, 0), ==, 0.2);
  for (guint i = 0; i < json_array_get_length (rows) && i < 12; i++) {
    JsonObject *row = json_array_get_object_element (rows, i);
    double time = (double)json_object_get_int_member (row, "iteration_ns");
    g_autofree char *text = g_strdup_printf ("%g us, %+.1f %%%%", time / 1000, 100 * (time / own - 1));
    g_autofree char *name = g_strconcat (json_object_get_string_member (row, "schedule"),
                                         json_object_get_boolean_member (row, "is_run") ? " (the run)" : "",
                                         json_object_get_int_member (row, "weight_copies") > 1 ? " (2 copies)" : "",
                                         json_object_get_boolean_member (row, "asynchronous") ? " (older weights)" : "",
                                         json_object_get_boolean_member (row, "guessed") ? " (guess)" : "", NULL);
    g_autofree char *name_element = g_strdup_printf ("rival[%u]", i + 2);
    g_autofree char *text_element = g_strdup_printf ("rival_text[%u]", i + 2);
    g_autofree char *shown_name = script_text (script, name_element), *shown = script_text (script, text_element);

    longest = MAX (longest, time);
    g_assert_cmpstr (shown_name, ==, name);
    g_assert_cmpstr (shown, ==, text);
    g_assert_cmpfloat_with_epsilon (number_at (rivals, i + 1, 0), time / 1e6, 1e-9);
    /* Grey for the run, pale for more memory. */
    g_assert_cmphex ((guint64)number_at (rivals, i + 1, 1), ==,
                     json_object_get_boolean_member (row, "is_run")     ? 0x555555
                     : json_object_get_boolean_member (row, "feasible") ? 0x0072b2
                                                                        : 0x99c7e0);
  }
  g_assert_cmpfloat_with_epsilon (script_number (script, "own_time"), own / 1e6, 1e-9);
  g_assert_cmpfloat_with_epsilon (script_number (script, "longest"), longest / 1e6, 1e-9);
  g_assert_cmpfloat (script_number (script, "height"), ==, 196 + 2 * 22 + 22 * rivals->len);
}

#define ADD(path, function) g_test_add (path, InFolder, NULL, make_folder, function, clear_folder)

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/diagnose/parts", test_parts);
  ADD ("/diagnose/search", test_search);
  ADD ("/diagnose/memory", test_memory);
  ADD ("/diagnose/changes", test_changes);
  ADD ("/diagnose/cut", test_cut);
  ADD ("/diagnose/joined", test_joined);
  ADD ("/diagnose/summary", test_summary);
  ADD ("/diagnose/iterations", test_iterations);
  ADD ("/diagnose/other-stages", test_other_stages);
  ADD ("/diagnose/places", test_places);
  ADD ("/diagnose/page", test_page);
  ADD ("/diagnose/picture", test_picture);
  return g_test_run ();
}
