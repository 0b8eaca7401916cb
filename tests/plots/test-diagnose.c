/* Tests of the program pipesim-diagnose: its JSON, its page and its picture. test-diagnosis.c tests what it finds. */
#include "program-rig.h"

#include <json-glib/json-glib.h>

/* What the command prints; the exit code must be 0. */
static char *
diagnose (const InFolder *fixture, const char *arguments)
{
  g_autofree char *line = with_timelines (arguments), *talk = NULL;
  char *printed = NULL;

  g_assert_cmpint (run_program (fixture->folder, "pipesim-diagnose", line, NULL, &printed, &talk), ==, 0);
  g_assert_cmpstr (talk, ==, "");
  return printed;
}

static char *
written (const InFolder *fixture, const char *name)
{
  g_autofree char *path = g_build_filename (fixture->folder, name, NULL);
  g_autoptr (GMappedFile) file = g_mapped_file_new (path, FALSE, NULL);

  g_assert_nonnull (file);
  return g_strndup (g_mapped_file_get_contents (file), g_mapped_file_get_length (file));
}

static JsonObject *
result_of (JsonNode *node)
{
  return json_array_get_object_element (json_object_get_array_member (json_node_get_object (node), "results"), 0);
}

static gint64
sum_of (JsonObject *device, const char *const *keys)
{
  gint64 sum = 0;

  for (; *keys != NULL; keys++)
    sum += json_object_get_int_member (device, *keys);
  return sum;
}

/* The parts of a device make its iteration: ops are busy time, causes are idle time. */
static void
test_parts (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
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
  for (guint i = 0; i < 2; i++)
    {
      JsonObject *device = json_array_get_object_element (devices, i);

      g_assert_cmpint (sum_of (device, busy), ==, json_object_get_int_member (device, "busy_ns"));
      g_assert_cmpint (sum_of (device, idle), ==, json_object_get_int_member (device, "idle_ns"));
      g_assert_cmpint (json_object_get_int_member (device, "busy_ns") + json_object_get_int_member (device, "idle_ns"),
                       ==, json_object_get_int_member (result, "iteration_ns"));
    }
}

static guint
count_named (JsonObject *result, const char *prefix)
{
  JsonArray *schedules = json_object_get_array_member (result, "schedules");
  guint n = 0;

  for (guint i = 0; i < json_array_get_length (schedules); i++)
    n += g_str_has_prefix (json_object_get_string_member (json_array_get_object_element (schedules, i), "schedule"),
                           prefix);
  return n;
}

/* A search adds its row; it is no slower than any other row that fits. */
static void
test_search (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *without = diagnose (fixture, "'%M' --json -t 0"), *with = diagnose (fixture, "'%M' --json -t 100ms");
  g_autoptr (JsonNode) a = json_from_string (without, NULL), b = json_from_string (with, NULL);

  g_assert_cmpuint (count_named (result_of (a), "search"), ==, 0);
  g_assert_cmpuint (count_named (result_of (b), "search"), ==, 1);
  g_assert_cmpuint (count_named (result_of (b), "1f1b"), >, 0);
}

static JsonObject *
row_of (JsonObject *result, const char *schedule)
{
  JsonArray *schedules = json_object_get_array_member (result, "schedules");

  for (guint i = 0; i < json_array_get_length (schedules); i++)
    if (g_str_equal (json_object_get_string_member (json_array_get_object_element (schedules, i), "schedule"),
                     schedule))
      return json_array_get_object_element (schedules, i);
  g_assert_not_reached ();
}

/* A run of ours says its bytes. 1F1B holds 8 + 2 x 2 MiB; GPipe would hold 8 + 8 x 2 and does not fit, and zb-v 12. */
static void
test_memory (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct
  {
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
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      JsonObject *row = row_of (result_of (node), rows[i].schedule);

      g_assert_cmpfloat_with_epsilon (json_object_get_double_member (row, "memory_ratio"), rows[i].ratio, 1e-9);
      g_assert_cmpint (json_object_get_boolean_member (row, "feasible"), ==, rows[i].ratio <= 1);
      g_assert_cmpint (json_object_get_boolean_member (row, "is_run"), ==, i == 0);
    }
}

static void
test_page (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const char *const parts[] = { "<!DOCTYPE html>",
                                       "</html>",
                                       "<title>Where &lt;it&gt; goes</title>",
                                       "<h2>Where the iteration goes",
                                       "<h2>What pays off",
                                       "<table id=\"section-1\">",
                                       "<canvas id=\"timeline\"",
                                       "default-src 'none'",
                                       "id=\"points\">null</script>" };
  g_autofree char *printed = diagnose (fixture, "'%M' -t 0 -o a.html --title 'Where <it> goes'");
  g_autofree char *page = written (fixture, "a.html");

  g_assert_cmpstr (printed, ==, "");
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    g_assert_cmpuint (count (page, parts[i]), ==, 1);
  g_assert_cmpuint (count (page, "@"), ==, 0);
}

static void
test_picture (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
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

#define ADD(path, function) g_test_add (path, InFolder, NULL, make_folder, function, clear_folder)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/diagnose/parts", test_parts);
  ADD ("/diagnose/search", test_search);
  ADD ("/diagnose/memory", test_memory);
  ADD ("/diagnose/page", test_page);
  ADD ("/diagnose/picture", test_picture);
  return g_test_run ();
}
