/* Tests of the pictures of profiles: which figures are drawn, what is fitted, and what is refused. */
#include "costdb-rig.h"
#include "program-rig.h"

#include <pipesim/profile.h>

/* Transfers of 2 us + 0.5 ns per byte, ops of one stage shape, alone and busy, and the host's time of an op. */
static void
fill (PsCostDb *db, const char *name)
{
  gint64 profile = begin (db, name);

  for (guint i = 0; i < 20; i++)
    store (db, profile, new_transfer ((gint64)8 << i, 2, 2000 + ((gint64)4 << i)));
  store (db, profile, new_op (PS_OP_F, "layers=2,head", 1, 1000000));
  store (db, profile, new_op (PS_OP_F, "layers=2,head", 2, 1500000));
  PsMeasurement *w = new_op (PS_OP_W, "layers=2,head", 2, 900000);
  w->time.n = 6;
  store (db, profile, w);
  PsMeasurement *host = new_transfer (0, 2, 40000);
  host->subject = PS_SUBJECT_HOST;
  g_free (host->shape);
  host->shape = g_strdup ("op");
  store (db, profile, host);
}

static void
set_up (char **path, G_GNUC_UNUSED gconstpointer data)
{
  *path = path_of ("c.db");
  g_autoptr (PsCostDb) db = open_db (*path, PS_COSTDB_WRITE);
  fill (db, "one");
}

static void
tear_down (char **path, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *svg = path_of ("a.svg"), *text = path_of ("p.json");

  remove_database (*path);
  g_unlink (svg);
  g_unlink (text);
  g_free (*path);
}

/* NULL, and the test is skipped, without gnuplot. */
static char *
draw (const char *arguments)
{
  g_autofree char *line = g_strconcat (arguments, " -o a.svg", NULL), *path = path_of ("a.svg"), *talk = NULL;
  char *svg = NULL;

  if (!have_program ("gnuplot"))
    return NULL;
  g_assert_cmpint (run_program (folder, "pipesim-plot", line, NULL, NULL, &talk), ==, 0);
  g_assert_cmpstr (talk, ==, "");
  g_assert_true (g_file_get_contents (path, &svg, NULL, NULL));
  return svg;
}

/* 1 ns per byte is 1 GB/s, so 0.5 are 2. An F of 1 ms deviates by 2 ns. */
static void
test_figures (G_GNUC_UNUSED char **path, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *svg = draw ("calibration c.db");

  if (svg == NULL)
    return;
  g_assert_nonnull (strstr (svg, "measured: profile 'one', cpu over threads, tiny-gpt"));
  g_assert_nonnull (strstr (svg, "box, Fast CPU, from 2026-01-01 on"));
  g_assert_nonnull (strstr (svg, ">alpha 2 us<"));
  g_assert_nonnull (strstr (svg, ">0.5 ns/B (2 GB/s)<"));
  g_assert_nonnull (strstr (svg, ">R² 1.000, within 0.0 %<"));
  g_assert_nonnull (strstr (svg, ">F of layers=2,head<"));
  g_assert_nonnull (strstr (svg, ">W of layers=2,head<"));
  g_assert_cmpuint (count (svg, ">alone<"), ==, 1);
  g_assert_cmpuint (count (svg, ">2 busy<"), ==, 2);   /* transfers, ops */
  g_assert_cmpuint (count (svg, ">-  0.0 %<"), ==, 1); /* W was not measured alone */
  g_assert_cmpuint (count (svg, ">n = 3  n = 3<"), ==, 1);
}

/* A point and a cross for every measurement, a point for every name: 20 + 3; transfers once, ops alone and busy. */
static void
test_marks (G_GNUC_UNUSED char **path, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *svg = draw ("calibration c.db --profile one");

  if (svg != NULL)
    g_assert_cmpuint (count (svg, ") scale("), ==, 2 * (20 + 3) + 3);
}

/* The same picture from the profile as text. */
static void
test_text (char **path, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *from_database = draw ("calibration c.db"), *written = path_of ("p.json");
  g_autofree char *from_text = NULL, *text = NULL;
  g_autoptr (PsCostDb) db = open_db (*path, PS_COSTDB_READ);
  g_autoptr (PsProfileContents) contents = ps_profile_contents_load (db, NULL, FALSE, NULL);

  if (from_database == NULL)
    return;
  text = ps_profile_contents_to_text (contents);
  g_assert_true (g_file_set_contents (written, text, -1, NULL));
  from_text = draw ("calibration p.json");
  g_assert_cmpstr (from_text, ==, from_database);
}

/* Ops alone: no transfers where one device was measured. */
static void
test_ops_only (char **path, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (PsCostDb) db = open_db (*path, PS_COSTDB_WRITE);

  store (db, begin (db, "two"), new_op (PS_OP_F, "layers=2", 1, 1000));
  g_autofree char *svg = draw ("calibration c.db --profile two");
  if (svg == NULL)
    return;
  g_assert_nonnull (strstr (svg, ">F of layers=2<"));
  g_assert_null (strstr (svg, "size of the message"));
}

/* One size of messages has no line. */
static void
test_one_size (char **path, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (PsCostDb) db = open_db (*path, PS_COSTDB_WRITE);

  store (db, begin (db, "two"), new_transfer (1024, 2, 3000));
  g_autofree char *svg = draw ("calibration c.db --profile two");
  if (svg != NULL)
    g_assert_true (strstr (svg, "size of the message") != NULL && strstr (svg, "alpha") == NULL);
}

static void
test_terminal (G_GNUC_UNUSED char **path, G_GNUC_UNUSED gconstpointer data)
{
  g_auto (GStrv) environment = g_environ_setenv (g_get_environ (), "COLUMNS", "80", TRUE), lines = NULL;
  g_autofree char *text = NULL, *talk = NULL;

  if (!have_program ("gnuplot"))
    return;
  g_assert_cmpint (run_program (folder, "pipesim-plot", "calibration c.db --terminal", environment, &text, &talk), ==,
                   0);
  g_assert_cmpstr (talk, ==, "");
  g_assert_nonnull (strstr (text, "alpha 2 us"));
  g_assert_nonnull (strstr (text, "F of layers=2,head"));
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    g_assert_cmpuint (g_utf8_strlen (lines[i], -1), <=, 80);
}

static void
test_refusals (char **path, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (PsCostDb) db = open_db (*path, PS_COSTDB_WRITE);
  g_autofree char *text = path_of ("p.json");
  const struct
  {
    const char *arguments;
    int code;
    const char *talk;
  } cases[] = {
    { "calibration -o a.svg", 2,
      "calibration: 0 files given; one costs.db of pipesim calib, or one profile as text, is *" },
    { "calibration c.db", 2, "-o: missing; *" },
    { "calibration nowhere.db -o a.svg", 1, "nowhere.db: *" },
    { "calibration c.db -o a.svg", 1, "c.db: several profiles; choose one with --profile: empty, one" },
    { "calibration c.db --profile three -o a.svg", 1, "c.db: no profile 'three'; there are: empty, one" },
    { "calibration c.db --profile empty -o a.svg", 1, "c.db: profile 'empty' holds no measurement" },
    { "calibration p.json --profile one -o a.svg", 2,
      "--profile: 'one' chooses in a database; p.json is one profile as text" },
    { "calibration p.json -o a.svg", 1, "p.json:*" },
    { "calibration c.db --x devices -o a.svg", 2, "--x: belongs to sweep, not to calibration" },
    { "accuracy c.db --profile one -o a.svg", 2, "--profile: belongs to calibration, not to accuracy" },
  };

  begin (db, "empty");
  g_assert_true (g_file_set_contents (text, "{ \"format\": \"pipesim-profile/9\" }", -1, NULL));
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    check_refused (folder, "pipesim-plot", cases[i].arguments, cases[i].code, cases[i].talk);
}

#define ADD(path, function) g_test_add (path, char *, NULL, set_up, function, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/plot-calibration/figures", test_figures);
  ADD ("/plot-calibration/marks", test_marks);
  ADD ("/plot-calibration/text", test_text);
  ADD ("/plot-calibration/ops-only", test_ops_only);
  ADD ("/plot-calibration/one-size", test_one_size);
  ADD ("/plot-calibration/terminal", test_terminal);
  ADD ("/plot-calibration/refusals", test_refusals);
  return run_in_folder ();
}
