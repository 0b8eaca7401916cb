/* Tests of the program pipesim-report: that the page is whole, fetches nothing, and holds what it shows. */
#include <pipesim/results.h>
#include <pipesim/sweep.h>
#include <pipesim/timeline.h>

#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <string.h>
#include <sys/wait.h>

typedef struct
{
  char *folder;
  char *predicted;
} Fixture;

static const char spec[] = "[sweep]\nschedule = 1f1b, gpipe\ndevices = 2, 4\nmicrobatches = 8\n"
                           "costs = f=1ms,b=1ms,w=1ms,act=2MiB,wact=1MiB\n";

static void
set_up (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSweep) sweep = ps_sweep_parse ("spec", spec, strlen (spec), &error);
  g_autoptr (PsResults) results = NULL;
  g_autofree char *path = NULL;
  PsSweepRun run = { .n_jobs = 1, .shard = { 0, 1 } };
  PsSweepProgress progress;

  fixture->folder = g_dir_make_tmp ("pipesim-report-XXXXXX", NULL);
  fixture->predicted = g_test_build_filename (G_TEST_DIST, "fixtures", "timeline-predicted.json", NULL);
  path = g_build_filename (fixture->folder, "r.db", NULL);
  results = ps_results_open (path, PS_RESULTS_WRITE, &error);
  ps_sweep_run (sweep, results, &run, &progress, &error);
  g_assert_no_error (error);
}

static void
tear_down (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (GDir) dir = g_dir_open (fixture->folder, 0, NULL);
  const char *name;

  while ((name = g_dir_read_name (dir)))
    {
      g_autofree char *path = g_build_filename (fixture->folder, name, NULL);

      g_remove (path);
    }
  g_rmdir (fixture->folder);
  g_free (fixture->folder);
  g_free (fixture->predicted);
}

static int
spawn (const Fixture *fixture, char **argv, char **printed, char **talk)
{
  int status;

  g_assert_true (
      g_spawn_sync (fixture->folder, argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, printed, talk, &status, NULL));
  g_assert_true (WIFEXITED (status));
  return WEXITSTATUS (status);
}

/* %P stands for a timeline. */
static int
run_report (const Fixture *fixture, const char *arguments, char **talk)
{
  g_autofree char *program = g_build_filename (g_getenv ("PIPESIM_BINDIR"), "pipesim-report", NULL);
  g_autoptr (GString) line = g_string_new (program);
  g_auto (GStrv) argv = NULL;

  g_string_append_printf (line, " %s", arguments);
  g_string_replace (line, "%P", fixture->predicted, 0);
  g_assert_true (g_shell_parse_argv (line->str, NULL, &argv, NULL));
  return spawn (fixture, argv, NULL, talk);
}

static char *
write_page (const Fixture *fixture, const char *arguments)
{
  g_autofree char *line = g_strconcat (arguments, " -o a.html", NULL), *talk = NULL;
  g_autofree char *path = g_build_filename (fixture->folder, "a.html", NULL);
  char *page = NULL;

  g_assert_cmpint (run_report (fixture, line, &talk), ==, 0);
  g_assert_cmpstr (talk, ==, "");
  g_assert_true (g_file_get_contents (path, &page, NULL, NULL));
  return page;
}

static guint
count (const char *text, const char *part)
{
  guint n = 0;

  for (const char *at = strstr (text, part); at; at = strstr (at + 1, part))
    n++;
  return n;
}

/* What stands in <script id="ID">, parsed. */
static JsonNode *
embedded (const char *page, const char *id)
{
  g_autofree char *begin = g_strdup_printf ("<script type=\"application/json\" id=\"%s\">", id);
  const char *from = strstr (page, begin), *to;
  g_autofree char *json = NULL;
  JsonNode *node;

  g_assert_nonnull (from);
  from += strlen (begin);
  to = strstr (from, "</script>");
  g_assert_nonnull (to);
  json = g_strndup (from, (gsize)(to - from));
  node = json_from_string (json, NULL);
  g_assert_nonnull (node);
  return node;
}

static void
test_structure (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const char *const once[]
      = { "<!DOCTYPE html>", "</html>",         "<table id=\"best\">", "<canvas id=\"timeline\">",
          "id=\"pareto\"",   "id=\"schedule\"", "default-src 'none'" };
  g_autofree char *page = write_page (fixture, "r.db '%P' '%P' --title '<b>@TABLE@ & </script>'");

  for (guint i = 0; i < G_N_ELEMENTS (once); i++)
    g_assert_cmpuint (count (page, once[i]), ==, 1);
  g_assert_cmpuint (count (page, "<option "), ==, 2);
  /* Text stays text. */
  g_assert_cmpuint (count (page, "&lt;b&gt;@TABLE@ &amp; &lt;/script&gt;"), ==, 2);
  g_assert_cmpuint (count (page, "</script>"), ==, 3);
  /* Nothing is fetched: the only address is the name of SVG's namespace. */
  g_assert_cmpuint (count (page, "://"), ==, count (page, "http://www.w3.org/2000/svg"));
  g_assert_null (strstr (page, " src="));
  g_assert_null (strstr (page, "<link"));
}

/* A schedule's name that would end the script. */
static void
test_hostile_name (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *path = g_build_filename (fixture->folder, "t.json", NULL), *text = NULL, *page = NULL;
  g_autoptr (GString) json = NULL;
  g_autoptr (JsonNode) timelines = NULL;
  JsonObject *first;

  g_assert_true (g_file_get_contents (fixture->predicted, &text, NULL, NULL));
  json = g_string_new (text);
  g_assert_cmpuint (g_string_replace (json, "two by two", "</script><b>", 0), ==, 1);
  g_assert_true (g_file_set_contents (path, json->str, -1, NULL));
  page = write_page (fixture, "r.db t.json");
  g_assert_cmpuint (count (page, "</script>"), ==, 3);
  timelines = embedded (page, "timelines");
  first = json_array_get_object_element (json_node_get_array (timelines), 0);
  g_assert_cmpstr (json_object_get_string_member (first, "schedule"), ==, "</script><b>");
}

/* Two schedules on 2 and on 4 devices: a heading and four rows; four points. */
static void
test_contents (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *page = write_page (fixture, "r.db '%P'");
  g_autoptr (JsonNode) points = embedded (page, "points");
  JsonArray *rows = json_object_get_array_member (json_node_get_object (points), "results");
  JsonObject *first = json_array_get_object_element (rows, 0);

  g_assert_cmpuint (count (page, "<tr>"), ==, 1 + 4);
  g_assert_cmpuint (json_array_get_length (rows), ==, 4);
  g_assert_cmpstr (json_object_get_string_member (first, "schedule"), ==, "1f1b");
  g_assert_cmpint (json_object_get_int_member (first, "devices"), ==, 2);
  /* (m + p - 1) * 3 ms for 8 microbatches, and min (m, p) activations. */
  g_assert_cmpint (json_object_get_int_member (first, "time"), ==, 9 * 3000000 / 8);
  g_assert_cmpint (json_object_get_int_member (first, "peak_memory_bytes"), ==, 2 * 2 << 20);
}

static void
test_timelines (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *with = write_page (fixture, "r.db '%P'"), *without = write_page (fixture, "r.db");
  g_autoptr (JsonNode) some = embedded (with, "timelines");
  g_autoptr (JsonNode) none = embedded (without, "timelines");
  JsonObject *timeline = json_array_get_object_element (json_node_get_array (some), 0);

  g_assert_cmpuint (json_array_get_length (json_node_get_array (some)), ==, 1);
  g_assert_cmpstr (json_object_get_string_member (timeline, "origin"), ==, "simulated");
  g_assert_cmpuint (json_array_get_length (json_object_get_array_member (timeline, "ops")), ==, 12);
  g_assert_cmpuint (json_array_get_length (json_node_get_array (none)), ==, 0);
  g_assert_null (strstr (without, "<canvas"));
}

static void
test_refusals (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct
  {
    const char *arguments;
    int code;
    const char *talk;
  } cases[] = {
    { "", 2, "no database; give the RESULTS.db of pipesim sweep" },
    { "r.db", 2, "-o: '' is missing; name the page to write" },
    { "nowhere.db -o a.html", 1, "nowhere.db: *" },
    { "'%P' -o a.html", 1, "*timeline-predicted.json: *" },
    { "r.db nowhere.json -o a.html", 1, "nowhere.json: *" },
    { "r.db -o nowhere/a.html", 1, "nowhere/a.html: *" },
    { "r.db --where devices=9 -o a.html", 1, "r.db: holds no setting that fits its memory limit and what *" },
    { "r.db --where devcs=9 -o a.html", 2, "--where: 'devcs' is no column; *" },
    { "r.db --by comm -o a.html", 2, "--by: 'comm' is no column of numbers; *" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *talk = NULL, *wanted = g_strconcat ("pipesim report: ", cases[i].talk, "\n", NULL);
      g_autofree char *path = g_build_filename (fixture->folder, "a.html", NULL);

      g_assert_cmpint (run_report (fixture, cases[i].arguments, &talk), ==, cases[i].code);
      if (!g_pattern_match_simple (wanted, talk))
        g_assert_cmpstr (talk, ==, wanted);
      g_assert_cmpuint (count (talk, "\n"), ==, 1);
      g_assert_false (g_file_test (path, G_FILE_TEST_EXISTS));
    }
}

/* Turns the wheel over device 1 at the beginning, asks what lies there, then drags to the end and asks again; the
 * answers go into the title. */
static const char gestures[]
    = "<script>{ const c = document.getElementById ('timeline'), box = c.getBoundingClientRect (), seen = [];"
      "const point = (name, x) => c.dispatchEvent (new PointerEvent (name, { clientX: box.left + x, clientY: box.top + "
      "45 }));"
      "const ask = (x) => { point ('pointermove', x); seen.push (document.getElementById ('hover').textContent); };"
      "c.setPointerCapture = () => {}; ask (box.width - 10);"
      "c.dispatchEvent (new WheelEvent ('wheel', { clientX: box.left + 42, clientY: box.top + 45, deltaY: -900 }));"
      "ask (box.width - 10); point ('pointerdown', 900); for (let i = 0; i < 9; i++) point ('pointermove', -9000);"
      "point ('pointerup', 0); ask (60); document.title = seen.join (' / '); }</script></body>";

/* The script runs: it draws marks, fills the caption, and zooms and moves. */
static void
test_browser (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *browser = g_find_program_in_path ("chromium"), *page = NULL, *drawn = NULL, *talk = NULL;
  g_autofree char *profile = g_strdup_printf ("%s-profile", fixture->folder);
  g_autofree char *option = g_strdup_printf ("--user-data-dir=%s", profile);
  g_autofree char *path = g_build_filename (fixture->folder, "a.html", NULL);
  g_autoptr (GString) moved = NULL;
  char *argv[] = { browser, (char *)"--headless", (char *)"--no-sandbox", (char *)"--disable-gpu",
                   option,  (char *)"--dump-dom", (char *)"a.html",       NULL };
  char *clean[] = { (char *)"rm", (char *)"-rf", profile, NULL };

  if (!browser)
    {
      g_test_skip ("chromium is not installed");
      return;
    }
  page = write_page (fixture, "r.db '%P'");
  moved = g_string_new (page);
  g_string_replace (moved, "</body>", gestures, 0);
  g_assert_true (g_file_set_contents (path, moved->str, -1, NULL));
  g_assert_cmpint (spawn (fixture, argv, &drawn, &talk), ==, 0);
  g_assert_cmpint (spawn (fixture, clean, NULL, NULL), ==, 0);
  g_assert_cmpuint (count (drawn, "<circle "), ==, 4);
  g_assert_nonnull (strstr (drawn, "2 devices, 2 microbatches, iteration 80 ns"));
  g_assert_nonnull (strstr (
      drawn, "<title> / F0.1 (forward) on device 1: starts at 12 ns, takes 10 ns / B1.1 (backward for input) on "
             "device 1: starts at 47 ns, takes 10 ns</title>"));
}

#define ADD(path, function) g_test_add (path, Fixture, NULL, set_up, function, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/report-page/structure", test_structure);
  ADD ("/report-page/hostile-name", test_hostile_name);
  ADD ("/report-page/contents", test_contents);
  ADD ("/report-page/timelines", test_timelines);
  ADD ("/report-page/refusals", test_refusals);
  ADD ("/report-page/browser", test_browser);
  return g_test_run ();
}
