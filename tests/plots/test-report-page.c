/* Tests of the program pipesim-report: that the page is whole, fetches nothing, and holds what it shows. */
#include "cases.h"
#include "program-rig.h"

#include <pipesim/sweep.h>

#include <json-glib/json-glib.h>

typedef struct {
  char *folder;
  char *predicted;
} Fixture;

static const char spec[] = "[sweep]\nschedule = 1f1b, gpipe\ndevices = 2, 4\nmicrobatches = 8\n"
                           "costs = f=1ms,b=1ms,w=1ms,act=2MiB,wact=1MiB\n";

static void sweep_into (const Fixture *fixture, const char *name, const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_build_filename (fixture->folder, name, NULL);
  g_autoptr (PsSweep) sweep = ps_sweep_parse ("spec", text, strlen (text), &error);
  g_autoptr (PsResults) results = ps_results_open (path, PS_RESULTS_WRITE, NULL);
  PsSweepRun run = { .n_jobs = 1, .shard = { 0, 1 } };
  PsSweepProgress progress;

  g_assert_no_error (error);
  fine (ps_sweep_run (sweep, results, &run, &progress, &error));
}

static void set_up (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  fixture->folder = g_dir_make_tmp ("pipesim-report-XXXXXX", NULL);
  fixture->predicted = g_test_build_filename (G_TEST_DIST, "fixtures", "timeline-predicted.json", NULL);
  sweep_into (fixture, "r.db", spec);
}

static void tear_down (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  remove_folder (fixture->folder);
  g_free (fixture->folder);
  g_free (fixture->predicted);
}

static char *write_page (const Fixture *fixture, const char *arguments)
{
  g_autofree char *both = g_strconcat (arguments, " -o a.html", NULL), *line = with_timelines (both), *talk = NULL;
  g_autofree char *path = g_build_filename (fixture->folder, "a.html", NULL);
  char *page = NULL;

  g_assert_cmpint (run_program (fixture->folder, "pipesim-report", line, NULL, NULL, &talk), ==, 0);
  g_assert_cmpstr (talk, ==, "");
  g_assert_true (g_file_get_contents (path, &page, NULL, NULL));
  return page;
}

/* The ops of the page's timelines. */
static JsonNode *embedded (const char *page)
{
  static const char begin[] = "<script type=\"application/json\" id=\"timelines\">";
  const char *from = strstr (page, begin), *to;

  g_assert_nonnull (from);
  from += strlen (begin);
  to = strstr (from, "</script>");
  g_assert_nonnull (to);
  g_autofree char *json = g_strndup (from, (gsize)(to - from));
  JsonNode *node = json_from_string (json, NULL);
  g_assert_nonnull (node);
  return node;
}

static void test_structure (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const char *const once[] = { "<!DOCTYPE html>",      "</html>",
                                      "<table id=\"best\">",  "id=\"circumstances\"",
                                      "class=\"front wide\"", "id=\"schedule\" multiple",
                                      "default-src 'none'" };
  g_autofree char *page = NULL;

  if (!have_program ("gnuplot"))
    return;
  page = write_page (fixture, "r.db '%P' '%P' --title '<b>@TABLE@ & </script>'");
  for (guint i = 0; i < G_N_ELEMENTS (once); i++)
    g_assert_cmpuint (count (page, once[i]), ==, 1);
  g_assert_cmpuint (count (page, "<option "), ==, 2 + 2); /* those of 2 and of 4 devices, and the files */
  g_assert_cmpuint (count (page, "<figure class=\"timeline\""), ==, 2 + 2);
  g_assert_cmpuint (count (page, "<svg "), ==, 1 + 2 + 2 + 1); /* each picture, and the script makes more */
  /* Text stays text. */
  g_assert_cmpuint (count (page, "&lt;b&gt;@TABLE@ &amp; &lt;/script&gt;"), ==, 2);
  g_assert_cmpuint (count (page, "</script>"), ==, 2);
  /* Nothing is fetched: the only addresses are the names of SVG's namespaces. */
  g_assert_cmpuint (count (page, "://"), ==,
                    count (page, "http://www.w3.org/2000/svg") + count (page, "http://www.w3.org/1999/xlink"));
  g_assert_null (strstr (page, " src="));
  g_assert_null (strstr (page, "<link"));
  /* Handlers of events would want gnuplot's script, and its plots have no names for readers. */
  g_assert_null (strstr (page, "onmouse"));
  g_assert_cmpuint (count (page, "<title>"), ==, 1 + 4); /* the page's, and those of the marks */
}

/* A schedule's name that would end the script. */
static void test_hostile_name (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *path = g_build_filename (fixture->folder, "t.json", NULL), *text = NULL, *page = NULL;
  g_autoptr (JsonNode) timelines = NULL;

  if (!have_program ("gnuplot"))
    return;
  g_assert_true (g_file_get_contents (fixture->predicted, &text, NULL, NULL));
  g_autoptr (GString) json = g_string_new (text);
  g_assert_cmpuint (g_string_replace (json, "two by two", "</script><b>'\\\"", 0), ==, 1);
  g_assert_true (g_file_set_contents (path, json->str, -1, NULL));
  page = write_page (fixture, "r.db t.json");
  g_assert_cmpuint (count (page, "</script>"), ==, 2);
  timelines = embedded (page);
  JsonObject *last = json_array_get_object_element (json_node_get_array (timelines), 2);
  g_assert_cmpstr (json_object_get_string_member (last, "schedule"), ==, "</script><b>'\"");
}

/* Two schedules on 2 and on 4 devices: a heading and four rows; four marks, which say what they are. */
static void test_contents (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *page = NULL;

  if (!have_program ("gnuplot"))
    return;
  page = write_page (fixture, "r.db '%P'");
  g_assert_cmpuint (count (page, "<tr>"), ==, 1 + 4);
  g_assert_cmpuint (count (page, "<g class=\"mark\">"), ==, 4);
  /* (m + p - 1) * 3 ms for 8 microbatches, and min (m, p) activations. */
  g_assert_cmpuint (count (page, "<title>1f1b, 2 devices, 8 microbatches: 3.375 ms, 4 MiB</title>"), ==, 1);
  g_assert_cmpuint (count (page, "<title>gpipe, 4 devices, 8 microbatches: 4.125 ms, 16 MiB</title>"), ==, 1);
}

/* On 2 and on 4 devices 1F1B is as fast as GPipe with less memory: p * 8 F and as many BW, (8 + p - 1) * 3 ms. */
static void test_simulated (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *page = NULL;

  if (!have_program ("gnuplot"))
    return;
  page = write_page (fixture, "r.db");
  g_autoptr (JsonNode) node = embedded (page);
  JsonArray *timelines = json_node_get_array (node);

  g_assert_cmpuint (json_array_get_length (timelines), ==, 2);
  for (guint i = 0; i < 2; i++) {
    JsonObject *timeline = json_array_get_object_element (timelines, i);
    guint p = i ? 4 : 2;

    g_assert_cmpstr (json_object_get_string_member (timeline, "schedule"), ==, "1f1b");
    g_assert_cmpstr (json_object_get_string_member (timeline, "origin"), ==, "simulated");
    g_assert_cmpint (json_object_get_int_member (timeline, "devices"), ==, p);
    g_assert_cmpint (json_object_get_int_member (timeline, "iteration_ns"), ==, (8 + p - 1) * 3000000);
    g_assert_cmpuint (json_array_get_length (json_object_get_array_member (timeline, "ops")), ==, p * 8 * 2);
  }
  /* A box for each op. */
  g_assert_cmpuint (count (page, "<polygon fill = "), >=, (2 + 4) * 8 * 2);
  g_assert_nonnull (strstr (page, "simulated again from what the database holds"));
  g_assert_null (strstr (page, "devices, 8 microbatches, measured"));
}

/* Files come after those of the database, and --where counts for both. */
static void test_timelines (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *page = NULL;

  if (!have_program ("gnuplot"))
    return;
  page = write_page (fixture, "r.db '%P' --where schedule=gpipe --where devices=4");
  g_autoptr (JsonNode) node = embedded (page);
  JsonArray *timelines = json_node_get_array (node);
  JsonObject *first = json_array_get_object_element (timelines, 0),
             *second = json_array_get_object_element (timelines, 1);

  g_assert_cmpuint (json_array_get_length (timelines), ==, 2);
  g_assert_cmpstr (json_object_get_string_member (first, "schedule"), ==, "gpipe");
  g_assert_cmpstr (json_object_get_string_member (second, "schedule"), ==, "two by two");
  g_assert_cmpuint (json_array_get_length (json_object_get_array_member (second, "ops")), ==, 12);
}

/* A model that has changed since: the figures stay, and the page says why it has no timelines. */
static void test_changed (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  const char model[] = "[model]\nlayers = 8\nhidden = 64\nheads = 4\nsequence = 32\nvocabulary = 100\n"
                       "microbatch_size = 1\nprecision = fp32\nmlp = gelu\nflash_attention = false\n";
  g_autofree char *path = g_build_filename (fixture->folder, "m.ini", NULL), *page = NULL, *spec_text = NULL;

  if (!have_program ("gnuplot"))
    return;
  g_assert_true (g_file_set_contents (path, model, -1, NULL));
  spec_text = g_strdup_printf ("[sweep]\nschedule = 1f1b\ndevices = 2\ncluster = cpu-cores\nmodel = %s\n[zip size]\n"
                               "microbatches = 4, 8\nbandwidth-factor = 1, 2\n",
                               path);
  sweep_into (fixture, "m.db", spec_text);
  page = write_page (fixture, "m.db");
  g_assert_cmpuint (count (page, "<option "), ==, 2);
  g_assert_cmpuint (count (page, "simulated, global batch 4, bandwidth factor 1</option>"), ==, 1);
  g_assert_cmpuint (count (page, "simulated, global batch 8, bandwidth factor 2</option>"), ==, 1);
  g_autofree char *other = g_strconcat (model, "feed_forward = 128\n", NULL);
  g_assert_true (g_file_set_contents (path, other, -1, NULL));
  g_free (page);
  page = write_page (fixture, "m.db");
  g_assert_cmpuint (count (page, "<option "), ==, 0);
  g_assert_cmpuint (count (page, "could not be simulated again: m.db: files that its spec names have changed since"),
                    ==, 1);
  g_assert_cmpuint (count (page, "<figure class=\"timeline\""), ==, 0);
  g_assert_cmpuint (count (page, "<tr>"), ==, 1 + 2);
}

/* Of 102 bandwidths the page has pictures for 100. */
static void test_many (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (GString) spec = g_string_new ("[sweep]\nschedule = 1f1b\ndevices = 2\nmicrobatches = 2\n"
                                           "costs = f=1ms,b=1ms,w=1ms,c=1ms,act=2MiB\nbandwidth-factor = 1");
  g_autofree char *page = NULL;

  if (!have_program ("gnuplot"))
    return;
  for (guint i = 2; i <= 102; i++)
    g_string_append_printf (spec, ", %u", i);
  g_string_append_c (spec, '\n');
  sweep_into (fixture, "many.db", spec->str);
  page = write_page (fixture, "many.db");
  g_assert_cmpuint (count (page, "class=\"front wide\""), ==, 100);
  g_assert_cmpuint (count (page, " 2 pictures are left out, "), ==, 1);
}

static void test_refusals (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const Refusal cases[] = {
    { "", 2, "no database; give the RESULTS.db of pipesim sweep" },
    { "r.db", 2, "-o: missing; name the page to write" },
    { "nowhere.db -o a.html", 1, "nowhere.db: *" },
    { "'%P' -o a.html", 1, "*timeline-predicted.json: *" },
    { "r.db nowhere.json -o a.html", 1, "nowhere.json: *" },
    { "r.db -o nowhere/a.html", 1, "nowhere/a.html: *" },
    { "r.db --where devices=9 -o a.html", 1, "r.db: holds no setting with devices=9; there are *" },
    { "r.db --where devcs=9 -o a.html", 2, "--where: 'devcs' is no column; *" },
    { "r.db --by comm -o a.html", 2, "--by: 'comm' is no column of numbers; *" },
  };

  check_refusals (fixture->folder, "pipesim-report", cases, G_N_ELEMENTS (cases));
}

/* Loads a page in a browser, with a script at its end whose answers go into the title. Returns the document as it is
 * then; nothing may be said on the console. NULL, and the test is skipped, without a browser. */
static char *browse (const Fixture *fixture, const char *arguments, const char *script)
{
  g_autofree char *page = NULL, *talk = NULL, *path = g_build_filename (fixture->folder, "a.html", NULL);
  g_autofree char *option = g_strdup_printf ("--user-data-dir=%s/profile", fixture->folder);
  g_autofree char *end
      = g_strdup_printf ("<script>{ const seen = []; %s document.title = seen.join (' / '); }</script></body>", script);
  char *argv[] = { (char *)"chromium",
                   (char *)"--headless",
                   (char *)"--no-sandbox",
                   (char *)"--disable-gpu",
                   (char *)"--enable-logging=stderr",
                   option,
                   (char *)"--dump-dom",
                   (char *)"a.html",
                   NULL };
  char *drawn = NULL;

  if (n_cases (100) < 100) {
    g_test_skip ("a browser has nothing to show under a sanitizer");
    return NULL;
  }
  if (!have_program ("chromium") || !have_program ("gnuplot"))
    return NULL;
  page = write_page (fixture, arguments);
  g_autoptr (GString) moved = g_string_new (page);
  g_string_replace (moved, "</body>", end, 0);
  g_assert_true (g_file_set_contents (path, moved->str, -1, NULL));
  g_assert_cmpint (run_argv (fixture->folder, argv, NULL, &drawn, &talk), ==, 0);
  const char *said = strstr (talk, "CONSOLE");
  if (said != NULL)
    g_test_fail_printf ("on the console: %.200s", said);
  return drawn;
}

/* Chooses the third timeline, moves the wheel over device 1 at the beginning, asks what lies there, drags to the end
 * and asks again, then with keys: all, a fifth of it; three times nearer around the middle of 74 ns, which is 26 to 48
 * ns; and 15 ns on. */
static const char gestures[]
    = "const s = document.getElementById ('schedule'); s.value = '2'; s.dispatchEvent (new Event ('change'));"
      "const f = document.querySelectorAll ('figure.timeline')[2], svg = f.querySelectorAll ('svg')[1];"
      "const box = svg.getBoundingClientRect ();"
      "const point = (name, x) => f.dispatchEvent (new PointerEvent (name, { clientX: box.left + x, clientY: box.top + "
      "45 }));"
      "const ask = (x) => { point ('pointermove', x); seen.push (document.getElementById ('hover').textContent); };"
      "const press = (key) => f.dispatchEvent (new KeyboardEvent ('keydown', { key }));"
      "f.setPointerCapture = () => {}; ask (box.width - 10);"
      "f.dispatchEvent (new WheelEvent ('wheel', { clientX: box.left, clientY: box.top + 45, deltaY: -900 }));"
      "ask (box.width - 10); point ('pointerdown', 900); for (let i = 0; i < 9; i++) point ('pointermove', -9000);"
      "point ('pointerup', 0); ask (60); press ('Home'); seen.push (svg.getAttribute ('viewBox')); ask (box.width / 5);"
      "for (const key of '+++') press (key); ask (box.width / 5); for (let i = 0; i < 7; i++) press ('ArrowRight');"
      "ask (box.width / 5); seen.push (document.getElementById ('part').textContent);"
      "seen.push ([...document.querySelectorAll ('figure.timeline')].map ((one) => one.hidden).join ());";

/* The script runs: it shows what is chosen, says what is under the pointer, and enlarges and moves. */
static void test_browser (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *drawn = browse (fixture, "r.db '%P'", gestures);

  if (drawn == NULL)
    return;
  g_assert_nonnull (strstr (drawn, "2 devices, 2 microbatches, simulated: iteration 80 ns"));
  g_assert_nonnull (strstr (
      drawn,
      "<title> / F0.1 (forward) on device 1: starts at 12 ns, takes 10 ns / B1.1 (backward for input) on "
      "device 1: starts at 47 ns, takes 10 ns / 74 0 1108 192 / F0.1 (forward) on device 1: starts at 12 ns, takes "
      "10 ns / B0.1 (backward for input) on device 1: starts at 22 ns, takes 10 ns / F1.1 (forward) on device "
      "1: starts at 37 ns, takes 10 ns / shown: 41.39 ns to 63.31 ns / true,true,false</title>"));
}

/* Numbers are seen where their boxes have room, and so are ticks of single ms: 8 microbatches in a window of 320
 * pixels, all of it and a tenth. The tick at 10 ms is always seen. */
static void test_numbers (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *drawn = browse (
      fixture, "r.db",
      "const f = document.querySelector ('figure.timeline'), svg = f.querySelectorAll ('svg')[1];"
      "const texts = [...svg.querySelectorAll ('text')], number = texts.find ((one) => one.textContent === '3');"
      "const tick = (name) => texts.find ((one) => !one.closest ('g[id^=gnuplot_plot]') && one.textContent.trim () === "
      "name);"
      "const see = () => seen.push ([number, tick ('7'), tick ('10')].map ((one) => getComputedStyle "
      "(one).opacity).join ());"
      "document.body.style.maxWidth = '320px'; window.dispatchEvent (new Event ('resize'));"
      "see (); for (let i = 0; i < 6; i++) press ('+'); see ();");

  if (drawn != NULL)
    g_assert_nonnull (strstr (drawn, "<title>0,0,1 / 1,1,1</title>"));
}

/* Where two bandwidths are held apart, the table and the front are those of the chosen one. */
static void test_choices (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  sweep_into (fixture, "two.db",
              "[sweep]\nschedule = 1f1b, gpipe\ndevices = 2\nmicrobatches = 8\nbandwidth-factor = 0.5, 1\n"
              "costs = f=1ms,b=1ms,w=1ms,c=1ms,act=2MiB\n");
  g_autofree char *drawn = browse (
      fixture, "two.db",
      "const choice = document.querySelector ('#circumstances select');"
      "const shown = () => [...document.querySelectorAll ('figure.front, #best tr')].filter ((one) => !one.hidden);"
      "seen.push ([...choice.options].map ((option) => option.value).join ());"
      "for (const value of ['0.5', '1']) { choice.value = value; choice.dispatchEvent (new Event ('change'));"
      "seen.push (shown ().map ((one) => one.dataset.apart || one.cells[1].textContent).join ()); }");

  if (drawn != NULL)
    g_assert_nonnull (strstr (drawn, "<title>0.5,1 / bandwidth factor,0.5,0.5,bandwidth factor 0.5 / "
                                     "bandwidth factor,1,1,bandwidth factor 1</title>"));
}

#define ADD(path, function) g_test_add (path, Fixture, NULL, set_up, function, tear_down)

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/report-page/structure", test_structure);
  ADD ("/report-page/hostile-name", test_hostile_name);
  ADD ("/report-page/contents", test_contents);
  ADD ("/report-page/simulated", test_simulated);
  ADD ("/report-page/timelines", test_timelines);
  ADD ("/report-page/changed", test_changed);
  ADD ("/report-page/many", test_many);
  ADD ("/report-page/refusals", test_refusals);
  ADD ("/report-page/browser", test_browser);
  ADD ("/report-page/numbers", test_numbers);
  ADD ("/report-page/choices", test_choices);
  return g_test_run ();
}
