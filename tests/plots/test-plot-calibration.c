/* Tests of the pictures of profiles: which figures are drawn, what is fitted, and what is refused. */
#include "costdb-rig.h"
#include "script-rig.h"

#include <pipesim/costdb.h>

#include <math.h>

/* Transfers of 2 us + 0.5 ns per byte, ops of one stage shape, alone and busy, and the host's time of an op. */
static void fill (PsCostDb *db, const char *name)
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

static void set_up (char **path, G_GNUC_UNUSED gconstpointer data)
{
  *path = path_of ("c.db");
  g_autoptr (PsCostDb) db = open_db (*path, PS_COSTDB_WRITE);
  fill (db, "one");
}

static void tear_down (char **path, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *svg = path_of ("a.svg"), *text = path_of ("p.json");

  remove_database (*path);
  g_unlink (svg);
  g_unlink (text);
  g_free (*path);
}

/* NULL, and the test is skipped, without gnuplot. */
static char *draw (const char *arguments)
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
static void test_figures (G_GNUC_UNUSED char **path, G_GNUC_UNUSED gconstpointer data)
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

/* A point and a cross for every measurement, a point for every name: 20 + 3; transfers once, ops alone and busy. The
 * three lines about the fit have white ones. */
static void test_marks (G_GNUC_UNUSED char **path, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *svg = draw ("calibration c.db --profile one");

  if (svg != NULL)
    g_assert_cmpuint (count (svg, ") scale("), ==, 2 * (20 + 3) + 3);
}

static char *places (const char *arguments)
{
  g_autofree char *line = g_strconcat ("calibration c.db -o a.svg ", arguments, NULL);

  return script_of (folder, "pipesim-plot", line);
}

/* 20 messages of 8 B to 4 MiB, each a second time 1.05 times further right for the second group; a fitted line of each.
 */
static void test_messages (char **path, G_GNUC_UNUSED gconstpointer data)
{
  static const char *const key[] = { "2 busy", "alpha 2 us", NULL, NULL, "4 busy", "alpha 3 us" };
  g_autoptr (PsCostDb) db = open_db (*path, PS_COSTDB_WRITE);
  gint64 profile = begin (db, "two");

  for (guint i = 0; i < 20; i++) {
    store (db, profile, new_transfer ((gint64)8 << i, 2, 2000 + ((gint64)4 << i)));
    store (db, profile, new_transfer ((gint64)8 << i, 4, 3000 + ((gint64)8 << i)));
  }
  g_autofree char *script = places ("--profile two");
  g_autoptr (GPtrArray) messages = script_block (script, "messages"), fits = script_block (script, "fits");

  g_assert_cmpuint (messages->len, ==, 2 * 20);
  for (guint i = 0; i < 40; i++) {
    guint group = i / 20;
    double bytes = 8 << i % 20, median = group ? 3000 + bytes : 2000 + bytes / 2, x = bytes * (group ? 1.05 : 1);

    g_assert_cmpfloat_with_epsilon (number_at (messages, i, 0) / x, 1, 1e-8);
    g_assert_cmpfloat_with_epsilon (number_at (messages, i, 1) * 1e9, median, 1e-2);
    /* The rig's quartiles: 2 below and 5 above. */
    g_assert_cmpfloat_with_epsilon (number_at (messages, i, 2) * 1e9, median - 2, 1e-2);
    g_assert_cmpfloat_with_epsilon (number_at (messages, i, 3) * 1e9, median + 5, 1e-2);
    g_assert_cmpfloat_with_epsilon (number_at (messages, i, 4) * 1e9, median - 2, 1e-2);
    g_assert_cmpuint ((guint)number_at (messages, i, 5), ==, group ? 5 : 7);
    g_assert_cmphex ((guint)number_at (messages, i, 6), ==, group ? 0xd55e00 : 0x0072b2);
  }
  /* 161 places from the first size to the last, at 3000 + n, after those of the first group and two blank lines. */
  g_assert_cmpuint (fits->len, ==, 2 * (161 + 2));
  g_assert_cmpfloat (script_number (script, "n_fits"), ==, 2);
  for (guint i = 0; i < 161; i++) {
    double bytes = 8 * pow (2, 19 * i / 160.0);

    g_assert_cmpfloat_with_epsilon (number_at (fits, 163 + i, 0) / bytes, 1, 1e-8);
    g_assert_cmpfloat_with_epsilon (number_at (fits, 163 + i, 1) * 1e9 / (3000 + bytes), 1, 1e-3);
  }
  g_assert_cmphex ((guint)script_element (script, "fit_colour", 1), ==, 0x0072b2);
  g_assert_cmphex ((guint)script_element (script, "fit_colour", 2), ==, 0xd55e00);
  /* In the key each group with its mark, and below it the lines of its fit, whose marks are white. */
  g_assert_cmpfloat (script_number (script, "n_key"), ==, 8);
  for (guint i = 0; i < G_N_ELEMENTS (key); i++) {
    g_autofree char *element = g_strdup_printf ("key_text[%u]", i + 1), *text = script_text (script, element);

    if (key[i] != NULL)
      g_assert_cmpstr (text, ==, key[i]);
    g_assert_cmphex ((guint)script_element (script, "key_colour", i + 1), ==,
                     i == 0   ? 0x0072b2
                     : i == 4 ? 0xd55e00
                              : 0xffffff);
  }
  g_assert_cmpfloat (script_number (script, "has_messages"), ==, 1);
  g_assert_cmpfloat (script_number (script, "ops_height"), ==, 0);
  g_assert_cmpfloat (script_number (script, "height"), ==, 62 + 74 + 330);
}

/* Rows of ops, by shape, then kind: 19 pixels each (8 for each group and 3). In each row one group is below the other.
 */
static void test_ops (char **path, G_GNUC_UNUSED gconstpointer data)
{
  static const struct {
    PsOpKind kind;
    const char *shape;
    guint devices;
    gint64 ns;
  } ops[] = { { PS_OP_BW, "layers=1", 1, 9000 },
              { PS_OP_F, "layers=2,head", 1, 4000 },
              { PS_OP_F, "layers=1", 1, 2000 },
              { PS_OP_F, "layers=1", 2, 3000 },
              { PS_OP_F, "layers=2,head", 2, 14000 } };
  static const char *const names[] = { "F of layers=1", "BW of layers=1", "F of layers=2,head" };
  static const gint64 times[3][2] = { { 2000, 3000 }, { 9000, 0 }, { 4000, 14000 } };
  g_autoptr (PsCostDb) db = open_db (*path, PS_COSTDB_WRITE);
  gint64 profile = begin (db, "ops");
  guint k = 0;

  for (guint i = 0; i < G_N_ELEMENTS (ops); i++)
    store (db, profile, new_op (ops[i].kind, ops[i].shape, ops[i].devices, ops[i].ns));
  g_autofree char *script = places ("--profile ops"), *high = places ("--profile ops --size 900x700");
  g_autofree char *second = script_text (script, "group[2]");
  g_autoptr (GPtrArray) rows = script_block (script, "ops");

  g_assert_cmpfloat (script_number (script, "ops_height"), ==, 3 * 19);
  g_assert_cmpfloat (script_number (script, "height"), ==, 62 + 74 + 3 * 19);
  g_assert_cmpfloat (script_number (high, "height"), ==, 700);
  g_assert_cmpfloat (script_number (script, "n_rows"), ==, 3);
  g_assert_cmpfloat (script_number (script, "n_groups"), ==, 2);
  g_assert_cmpfloat (script_number (script, "has_messages"), ==, 0);
  g_assert_cmpstr (second, ==, "2 busy");
  g_assert_cmpfloat (script_element (script, "group_mark", 2), ==, 5);
  for (guint i = 0; i < 3; i++) {
    g_autofree char *element = g_strdup_printf ("op_name[%u]", i + 1), *name = script_text (script, element);

    g_assert_cmpstr (name, ==, names[i]);
    for (guint group = 0; group < 2; group++) {
      /* 0.76 of the row, in two halves. */
      const double y = i + 0.12 + 0.19 + 0.38 * group;

      if (times[i][group] == 0)
        continue;
      g_assert_cmpfloat_with_epsilon (number_at (rows, k, 0), y, 1e-3);
      g_assert_cmpfloat_with_epsilon (number_at (rows, k, 1) * 1e9, (double)times[i][group], 1e-3);
      g_assert_cmpfloat_with_epsilon (number_at (rows, k, 3) * 1e9, (double)times[i][group] + 5, 1e-3);
      g_assert_cmpfloat_with_epsilon (number_at (rows, k, 4) * 1e9, (double)times[i][group] - 2, 1e-3);
      g_assert_cmpuint ((guint)number_at (rows, k, 5), ==, group ? 5 : 7);
      g_assert_cmphex ((guint)number_at (rows, k++, 6), ==, i == 1 ? 0xd55e00 : 0x0072b2);
    }
  }
  g_assert_cmpuint (rows->len, ==, k);
}

/* Both panels; texts of ticks are times and sizes with their units. */
static void test_both (G_GNUC_UNUSED char **path, G_GNUC_UNUSED gconstpointer data)
{
  static const char *const ticks[] = { "8 B", "64 B", "4 KiB", "2 MiB", "10 us", "100 us", "1 ms" };
  g_autofree char *script = places (""), *svg = draw ("calibration c.db");
  g_autoptr (GPtrArray) messages = script_block (script, "messages"), ops = script_block (script, "ops");

  g_assert_cmpuint (messages->len, ==, 20);
  g_assert_cmpuint (ops->len, ==, 3);
  g_assert_cmpfloat (script_number (script, "height"), ==, 62 + 74 + 330 + 74 + 38);
  for (guint i = 0; svg != NULL && i < G_N_ELEMENTS (ticks); i++) {
    g_autofree char *tick = g_strdup_printf (">%s<", ticks[i]);

    g_assert_cmpuint (count (svg, tick), >, 0);
  }
}

/* The same picture from the profile as text. */
static void test_text (char **path, G_GNUC_UNUSED gconstpointer data)
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
static void test_ops_only (char **path, G_GNUC_UNUSED gconstpointer data)
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
static void test_one_size (char **path, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (PsCostDb) db = open_db (*path, PS_COSTDB_WRITE);

  store (db, begin (db, "two"), new_transfer (1024, 2, 3000));
  g_autofree char *svg = draw ("calibration c.db --profile two");
  if (svg != NULL)
    g_assert_true (strstr (svg, "size of the message") != NULL && strstr (svg, "alpha") == NULL);
}

static void test_terminal (G_GNUC_UNUSED char **path, G_GNUC_UNUSED gconstpointer data)
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

static void test_refusals (char **path, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (PsCostDb) db = open_db (*path, PS_COSTDB_WRITE);
  g_autofree char *text = path_of ("p.json");
  const struct {
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

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/plot-calibration/figures", test_figures);
  ADD ("/plot-calibration/marks", test_marks);
  ADD ("/plot-calibration/messages", test_messages);
  ADD ("/plot-calibration/ops", test_ops);
  ADD ("/plot-calibration/both", test_both);
  ADD ("/plot-calibration/text", test_text);
  ADD ("/plot-calibration/ops-only", test_ops_only);
  ADD ("/plot-calibration/one-size", test_one_size);
  ADD ("/plot-calibration/terminal", test_terminal);
  ADD ("/plot-calibration/refusals", test_refusals);
  return run_in_folder ();
}
