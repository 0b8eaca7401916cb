/* Tests of costdb.h: a profile as text comes back as it was, and what no calibration could have written is refused
 * with the line where it stands. */
#include <pipesim/costdb.h>

#include "costdb-rig.h"

#include <string.h>

/* Every sort of row, with and without what may be unknown. */
static void fill (PsCostDb *db, const char *name)
{
  gint64 profile = begin (db, name);
  PsMeasurement *cold = new_op (PS_OP_W, "layers=4", 2, 3000);

  cold->sharing = 4;
  cold->cache = PS_CACHE_COLD;
  cold->launch_ns = 2900;
  cold->before = (PsCondition){ 1980, 3201, 55, 420500, PS_THROTTLE_KNOWN };
  cold->during = (PsCondition){ .clock_mhz = 1800, .power_mw = 600000, .throttle = PS_THROTTLE_KNOWN };
  cold->after = (PsCondition){ .clock_mhz = 1755, .throttle = PS_THROTTLE_KNOWN | PS_THROTTLE_POWER };
  PsMeasurement *self = new_transfer (8, 1, 9000);
  self->subject = PS_SUBJECT_SELF_SEND;
  g_free (self->shape);
  self->shape = g_strdup ("nccl-self");
  PsMeasurement *both_ways = new_transfer (64, 2, 700), *sum = new_transfer (64, 3, 800);
  g_free (both_ways->shape);
  both_ways->shape = g_strdup ("both-ways");
  sum->subject = PS_SUBJECT_ALL_REDUCE;
  store (db, profile, both_ways);
  store (db, profile, sum);
  PsSentinel reading = { (char *)"F of layers=1", 100, 10, (char *)"2026-01-01T00:00:00Z" };
  store (db, profile, new_op (PS_OP_F, "layers=4", 2, 1000));
  store (db, profile, cold);
  store (db, profile, new_transfer (64, 2, 500));
  store (db, profile, self);
  g_assert_true (ps_costdb_store_sentinel (db, profile, &reading, NULL));
  reading.median_ns = 101;
  g_assert_true (ps_costdb_store_sentinel (db, profile, &reading, NULL));
}

static char *text_of (PsCostDb *db, const char *name, gboolean with_samples)
{
  g_autoptr (PsProfileContents) contents = fine (ps_profile_contents_load (db, name, with_samples, &error));

  return ps_profile_contents_to_text (contents);
}

static PsProfileContents *parse (const char *text)
{
  return fine (ps_profile_contents_parse ("a.json", text, strlen (text), &error));
}

/* database -> text -> structures -> database -> text, with samples and without. */
static void test_round_trip (void)
{
  for (gboolean with_samples = FALSE; with_samples <= TRUE; with_samples++) {
    g_autofree char *path = path_of ("from.db"), *other_path = path_of ("to.db");
    PsCostDb *db = open_db (path, PS_COSTDB_WRITE), *other = open_db (other_path, PS_COSTDB_WRITE);
    g_autoptr (GError) error = NULL;

    fill (db, "p");
    g_autofree char *text = text_of (db, "p", with_samples);
    g_autoptr (PsProfileContents) contents = parse (text);
    g_autofree char *again = ps_profile_contents_to_text (contents);
    g_assert_cmpstr (text, ==, again);
    g_assert_true (ps_costdb_add_profile (other, contents, &error));
    g_autofree char *back = text_of (other, NULL, with_samples);
    g_assert_cmpstr (text, ==, back);
    /* once only */
    refused (ps_costdb_add_profile (other, contents, &error), PS_ERROR_INPUT, "*there is a profile 'p' already*");
    ps_costdb_close (db);
    ps_costdb_close (other);
    remove_database (path);
    remove_database (other_path);
  }
}

/* Unequal shares, the share of each op, choices and places come back; equal ones and none are not mentioned. */
static void test_shares (void)
{
  g_autofree char *path = path_of ("from.db"), *other_path = path_of ("to.db");
  PsCostDb *db = open_db (path, PS_COSTDB_WRITE), *other = open_db (other_path, PS_COSTDB_WRITE);
  g_autoptr (PsProfile) parts = new_profile ("parts");
  PsMeasurement *m = new_op (PS_OP_F, "layers=4", 2, 1000);
  gint64 profile;

  g_free (parts->shares);
  parts->shares = g_strdup ("2,1");
  g_free (parts->places);
  parts->places = g_strdup ("a;b");
  g_autoptr (GBytes) choices = g_bytes_new_static ("abc", 3);
  m->share = 2;
  g_assert_true (ps_costdb_begin_profile (db, parts, &profile, NULL));
  g_assert_true (ps_costdb_store_choices (db, profile, choices, NULL));
  store (db, profile, m);
  store (db, profile, new_transfer (64, 2, 500));
  g_autofree char *text = text_of (db, "parts", TRUE);
  g_assert_nonnull (
      strstr (text, ",\n\"shares\": \"2,1\",\n\"choices\": \"YWJj\",\n\"places\": \"a;b\",\n\"sentinels\": ["));
  g_assert_nonnull (strstr (text, "\"kind\": \"F\", \"devices\": 2, \"sharing\": 1, \"share\": 2, \"cache\""));
  g_autoptr (PsProfileContents) contents = parse (text);
  g_assert_true (ps_costdb_add_profile (other, contents, NULL));
  g_autofree char *back = text_of (other, NULL, TRUE);
  g_assert_cmpstr (text, ==, back);
  fill (db, "p");
  g_autofree char *plain = text_of (db, "p", TRUE);
  g_assert_null (strstr (plain, "share\""));
  g_assert_null (strstr (plain, "shares\""));
  g_assert_null (strstr (plain, "choices"));
  g_assert_null (strstr (plain, "places"));
  ps_costdb_close (db);
  ps_costdb_close (other);
  remove_database (path);
  remove_database (other_path);
}

static void assert_holds (const char *text, const char *part)
{
  if (strstr (text, part) == NULL)
    g_error ("no %s in:\n%s", part, text);
}

/* The text itself: one line a measurement, known members only. */
static void test_lines (void)
{
  PsCostDb *db = new_db ("lines.db");

  fill (db, "p");
  g_autofree char *text = text_of (db, "p", TRUE);
  assert_holds (
      text, "\n{\"subject\": \"op\", \"shape\": \"layers=4\", \"kind\": \"W\", \"devices\": 2, \"sharing\": 4, "
            "\"cache\": \"cold\", \"n\": 3, \"median_ns\": 3000, \"q1_ns\": 2998, \"q3_ns\": 3005, \"mad_ns\": 2, "
            "\"min_ns\": 2998, \"launch_ns\": 2900, \"take_bytes\": 102, \"give_bytes\": 12, \"state_bytes\": 7000, "
            "\"stop\": \"converged\", \"taken\": \"2026-01-01T00:00:01Z\", \"before\": {\"clock_mhz\": 1980, "
            "\"memory_clock_mhz\": 3201, \"temperature_c\": 55, \"power_mw\": 420500, \"throttle\": \"\"}, "
            "\"during\": {\"clock_mhz\": 1800, \"power_mw\": 600000, \"throttle\": \"\"}, "
            "\"after\": {\"clock_mhz\": 1755, \"throttle\": \"power\"}, \"samples_ns\": [3005,2998,3000]},\n");
  assert_holds (text, "\n{\"subject\": \"transfer\", \"bytes\": 64, \"devices\": 2, \"sharing\": 1, \"n\": 3, "
                      "\"median_ns\": 500, \"q1_ns\": 498, \"q3_ns\": 505, \"mad_ns\": 2, \"min_ns\": 498, "
                      "\"stop\": \"converged\", \"taken\": \"2026-01-01T00:00:01Z\", \"samples_ns\": [505,498,500]}");
  assert_holds (text, "\n{\"subject\": \"transfer\", \"shape\": \"both-ways\", \"bytes\": 64, ");
  assert_holds (text, "\n{\"subject\": \"all-reduce\", \"bytes\": 64, \"devices\": 3, ");
  assert_holds (text, "\n{\"subject\": \"self-send\", \"shape\": \"nccl-self\", \"bytes\": 8, ");
  assert_holds (text, "\n\"sentinels\": [\n{\"what\": \"F of layers=1\", \"median_ns\": 100, \"n\": 10, \"taken\": "
                      "\"2026-01-01T00:00:00Z\"},\n");
  ps_costdb_close (db);
}

/* The text with the first `from` in it replaced by `to`. */
static char *changed (const char *text, const char *from, const char *to)
{
  const char *at = strstr (text, from);

  g_assert_nonnull (at);
  return g_strdup_printf ("%.*s%s%s", (int)(at - text), text, to, at + strlen (from));
}

/* Lines: 1 the format, 2 to 13 the profile, 14 and 15, 16 sentinels, 17, 18 F, 19 W, 20 self-send, 21 and 22 transfers,
 * 23 all-reduce.
 */
static void test_refused (void)
{
  static const struct {
    const char *from, *to, *message;
  } rows[] = {
    { "pipesim-profile/1", "pipesim-profile/2", "a.json: format: 'pipesim-profile/2' is another version; *" },
    { "\"name\": \"p\"", "\"name\": \"\"", "a.json: name: '' is empty" },
    { "\"host\": \"box\",\n", "", "a.json: host: is missing" },
    { "\"host\": \"box\",\n", "\"host\": \"box\", \"shares\": \"2,x\",\n",
      "a.json: shares: 'x' is not an integer from *" },
    { "\"host\": \"box\",\n", "\"host\": \"box\", \"shares\": \"4,2\",\n",
      "a.json: shares: '4,2' are not in lowest terms" },
    { "\"host\": \"box\",\n", "\"host\": \"box\", \"shares\": \"1,1\",\n", "a.json: shares: '1,1' are equal, *" },
    { "\"host\": \"box\",\n", "\"host\": \"box\", \"choices\": \"YWJ\",\n", "a.json: choices: are no base64" },
    { "\"bytes\": 64", "\"bytes\": 64, \"share\": 2", "a.json:21: share: does not belong to this subject" },
    { "\"subject\": \"all-reduce\", ", "\"subject\": \"all-reduce\", \"shape\": \"x\", ",
      "a.json:23: shape: does not belong to this subject" },
    { "\"shape\": \"both-ways\"", "\"shape\": \"\"", "a.json:22: shape: '' is empty" },
    { "\"model_digest\": \"", "\"model_digest\": \"0", "a.json: model_digest: is not that of model_text, which is *" },
    { "\"median_ns\": 100,", "\"median_ns\": -1,", "a.json:15: median_ns: -1 is not between 0 and *" },
    { "\"subject\": \"op\"", "\"subject\": \"opera\"", "a.json:18: subject: 'opera' is not one of *" },
    { "\"kind\": \"F\"", "\"kind\": \"X\"", "a.json:18: kind: 'X' is not one of F, B, W, BW, R, O" },
    { "\"kind\": \"F\"", "\"kind\": \"F\", \"bytes\": 3", "a.json:18: bytes: does not belong to this subject" },
    { "\"cache\": \"cold\"", "\"cache\": \"hot\"", "a.json:19: cache: 'hot' is not one of *" },
    { "\"q1_ns\": 2998", "\"q1_ns\": 3001", "a.json:19: median_ns: min, q1, median and q3 are out of order" },
    { "\"throttle\": \"power\"", "\"throttle\": \"power power\"", "a.json:19: throttle: 'power power' is no list *" },
    { "\"temperature_c\": 55", "\"temperature_k\": 55", "a.json:19: temperature_k: is no key of this object" },
    { "[3005,2998,3000]", "[3005,2998]", "a.json:19: samples_ns: 2 of them, where n is 3" },
    { "[3005,2998,3000]", "[3005,2998,x]", "a.json:19:*" },
    { "\"devices\": 1,", "\"devices\": 0,", "a.json:20: devices: 0 is not between 1 and 4096" },
    { "\"shape\": \"nccl-self\", ", "", "a.json:20: shape: is missing" },
    { "\"stop\": \"converged\"", "\"stop\": \"tired\"", "a.json:18: stop: 'tired' is not one of *" },
    { "\"kind\": \"W\", \"devices\": 2, \"sharing\": 4, \"cache\": \"cold\"",
      "\"kind\": \"F\", \"devices\": 2, \"sharing\": 1, \"cache\": \"run\"",
      "a.json:19: the measurement is there twice" },
  };
  PsCostDb *db = new_db ("refused.db");

  fill (db, "p");
  g_autofree char *text = text_of (db, "p", TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autofree char *wrong = changed (text, rows[i].from, rows[i].to);
    g_autoptr (GError) error = NULL;

    g_assert_null (ps_profile_contents_parse ("a.json", wrong, strlen (wrong), &error));
    g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
    if (!g_pattern_match_simple (rows[i].message, error->message))
      g_assert_cmpstr (error->message, ==, rows[i].message);
  }
  ps_costdb_close (db);
}

/* The text of a profile with one measurement, "shape" and so on being its members, or with `reading`. */
static char *text_with (const char *plain, const char *measurement, const char *reading)
{
  g_autofree char *row = g_strdup_printf ("\"measurements\": [{%s}", measurement);
  g_autofree char *rows = *measurement ? changed (plain, "\"measurements\": [", row) : g_strdup (plain);
  g_autofree char *readings = g_strdup_printf ("\"sentinels\": [%s", reading);

  return changed (rows, "\"sentinels\": [", readings);
}

static gboolean accepts (const char *measurement, const char *reading)
{
  static char *plain; /* of a profile without either */

  if (plain == NULL) {
    PsCostDb *db = new_db ("plain.db");

    begin (db, "p");
    plain = text_of (db, "p", FALSE);
    ps_costdb_close (db);
  }
  g_autofree char *text = text_with (plain, measurement, reading);
  g_autoptr (GError) error = NULL;
  g_autoptr (PsProfileContents) contents = ps_profile_contents_parse ("a.json", text, strlen (text), &error);

  g_assert_true ((contents == NULL) == (error != NULL));
  return contents != NULL;
}

#define TAIL "\"stop\": \"converged\", \"taken\": \"x\""
#define TRANSFER "\"subject\": \"transfer\", "

/* A number that a text may say at most and at least: one more and one less are refused, and none is needed where 0 is
 * what no number means. A count is from 1 on; times, sizes and states of the hardware have no other bound than those of
 * base.h. */
static void test_limits (void)
{
  static const struct {
    const char *before, *after;
    gint64 least, most;
    gboolean reading;
  } rows[] = {
    { TRANSFER "\"bytes\": 8, \"sharing\": 1, \"n\": 1, \"devices\": ", ", " TAIL, 1, 4096, FALSE },
    { TRANSFER "\"bytes\": 8, \"devices\": 1, \"n\": 1, \"sharing\": ", ", " TAIL, 1, 4096, FALSE },
    { TRANSFER "\"bytes\": 8, \"devices\": 1, \"sharing\": 1, \"n\": ", ", " TAIL, 1, 1000000, FALSE },
    { TRANSFER "\"n\": 1, \"devices\": 1, \"sharing\": 1, \"bytes\": ", ", " TAIL, 0, (gint64)1 << 50, FALSE },
    { "\"subject\": \"op\", \"shape\": \"s\", \"kind\": \"F\", \"cache\": \"run\", \"n\": 1, \"devices\": 1, "
      "\"sharing\": 1, \"share\": ",
      ", " TAIL, 1, 1000000, FALSE },
    { TRANSFER "\"bytes\": 8, \"devices\": 1, \"sharing\": 1, \"n\": 1, \"q3_ns\": ", ", " TAIL, 0, (gint64)1 << 50,
      FALSE },
    { TRANSFER "\"bytes\": 8, \"devices\": 1, \"sharing\": 1, \"n\": 1, \"mad_ns\": ", ", " TAIL, 0, (gint64)1 << 50,
      FALSE },
    { TRANSFER "\"bytes\": 8, \"devices\": 1, \"sharing\": 1, \"n\": 1, \"launch_ns\": ", ", " TAIL, 0, (gint64)1 << 50,
      FALSE },
    { TRANSFER "\"bytes\": 8, \"devices\": 1, \"sharing\": 1, \"n\": 1, \"take_bytes\": ", ", " TAIL, 0,
      (gint64)1 << 50, FALSE },
    { TRANSFER "\"bytes\": 8, \"devices\": 1, \"sharing\": 1, \"n\": 1, \"before\": {\"clock_mhz\": ", "}, " TAIL, 1,
      (gint64)1 << 50, FALSE },
    { TRANSFER "\"bytes\": 8, \"devices\": 1, \"sharing\": 1, \"n\": 1, \"during\": {\"power_mw\": ", "}, " TAIL, 1,
      (gint64)1 << 50, FALSE },
    { TRANSFER "\"bytes\": 8, \"devices\": 1, \"sharing\": 1, \"n\": 1, \"after\": {\"temperature_c\": ", "}, " TAIL, 1,
      (gint64)1 << 50, FALSE },
    { TRANSFER "\"bytes\": 8, \"devices\": 1, \"sharing\": 1, \"n\": 1, \"samples_ns\": [", "], " TAIL, 0,
      G_GINT64_CONSTANT (1000000000000000), FALSE },
    { "{\"what\": \"F\", \"n\": 1, \"taken\": \"x\", \"median_ns\": ", "}", 0, G_GINT64_CONSTANT (1000000000000000),
      TRUE },
    { "{\"what\": \"F\", \"median_ns\": 1, \"taken\": \"x\", \"n\": ", "}", 1, 1000000, TRUE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    const gint64 values[] = { rows[i].least, rows[i].most, rows[i].least - 1, rows[i].most + 1 };

    for (guint k = 0; k < 4; k++) {
      g_autofree char *text = g_strdup_printf ("%s%" G_GINT64_FORMAT "%s", rows[i].before, values[k], rows[i].after);

      g_test_message ("%s", text);
      g_assert_cmpint (rows[i].reading ? accepts ("", text) : accepts (text, ""), ==, k < 2);
    }
  }
}

/* min <= q1 <= median <= q3, and any of them may be equal. */
static void test_order (void)
{
  static const struct {
    guint min, q1, median, q3;
    gboolean fits;
  } rows[] = { { 1, 2, 3, 4, TRUE },  { 5, 5, 5, 5, TRUE },  { 0, 0, 0, 1, TRUE },
               { 2, 1, 3, 4, FALSE }, { 1, 3, 2, 4, FALSE }, { 1, 2, 4, 3, FALSE } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autofree char *text
        = g_strdup_printf (TRANSFER "\"bytes\": 8, \"devices\": 1, \"sharing\": 1, \"n\": 1, "
                                    "\"min_ns\": %u, \"q1_ns\": %u, \"median_ns\": %u, \"q3_ns\": %u, " TAIL,
                           rows[i].min, rows[i].q1, rows[i].median, rows[i].q3);

    g_assert_cmpint (accepts (text, ""), ==, rows[i].fits);
  }
}

/* Which members a measurement has, by its subject: + it must, - it must not, ? it may. */
static void test_members (void)
{
  static const struct {
    const char *subject, *shape, *kind, *cache, *bytes, *share;
  } rows[] = {
    { "op", "+", "+", "+", "-", "?" },        { "transfer", "?", "-", "-", "+", "-" },
    { "self-send", "+", "-", "-", "+", "-" }, { "all-reduce", "-", "-", "-", "+", "-" },
    { "pair", "+", "-", "-", "-", "-" },      { "host", "+", "-", "-", "-", "-" },
  };
  static const char *const members[]
      = { "\"shape\": \"s\", ", "\"kind\": \"F\", ", "\"cache\": \"run\", ", "\"bytes\": 8, ", "\"share\": 2, " };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    const char *const rules[] = { rows[i].shape, rows[i].kind, rows[i].cache, rows[i].bytes, rows[i].share };

    /* All that it must have; then each member turned to the opposite. */
    for (guint turned = 0; turned <= G_N_ELEMENTS (members); turned++) {
      g_autoptr (GString) text = g_string_new (NULL);

      g_string_append_printf (text, "\"subject\": \"%s\", ", rows[i].subject);
      for (guint k = 0; k < G_N_ELEMENTS (members); k++)
        if ((*rules[k] == '+') != (k == turned))
          g_string_append (text, members[k]);
      g_string_append (text, "\"devices\": 1, \"sharing\": 1, \"n\": 1, " TAIL);
      g_test_message ("%s", text->str);
      g_assert_cmpint (accepts (text->str, ""), ==, turned == G_N_ELEMENTS (members) || *rules[turned] == '?');
    }
  }
}

/* Two measurements are two unless every part of their keys is the same. */
static void test_twice (void)
{
  static const char *const first = "\"subject\": \"op\", \"shape\": \"s\", \"kind\": \"F\", \"cache\": \"run\", "
                                   "\"devices\": 2, \"sharing\": 2, \"share\": 2, ";
  static const char *const changes[][2] = { { "\"s\"", "\"t\"" },
                                            { "\"F\"", "\"B\"" },
                                            { "\"run\"", "\"cold\"" },
                                            { "\"devices\": 2", "\"devices\": 3" },
                                            { "\"sharing\": 2", "\"sharing\": 3" },
                                            { "\"share\": 2", "\"share\": 3" },
                                            { "\"share\": 2, ", "" },
                                            { "\"s\"", "\"s\"" } };

  for (guint i = 0; i < G_N_ELEMENTS (changes); i++) {
    g_autofree char *other = changed (first, changes[i][0], changes[i][1]);
    g_autofree char *both
        = g_strdup_printf ("%s\"n\": 1, " TAIL "}, {%s\"n\": 2, \"median_ns\": 1, \"q3_ns\": 1, " TAIL, first, other);

    g_assert_cmpint (accepts (both, ""), ==, i + 1 < G_N_ELEMENTS (changes));
  }
  g_assert_true (accepts (TRANSFER "\"bytes\": 8, \"devices\": 1, \"sharing\": 1, \"n\": 1, " TAIL "}, {" TRANSFER
                                   "\"bytes\": 9, \"devices\": 1, \"sharing\": 1, \"n\": 1, " TAIL,
                          ""));
  g_assert_true (accepts (TRANSFER "\"bytes\": 8, \"devices\": 1, \"sharing\": 1, \"n\": 1, " TAIL
                                   "}, {\"subject\": \"all-reduce\", "
                                   "\"bytes\": 8, \"devices\": 1, \"sharing\": 1, \"n\": 1, " TAIL,
                          ""));
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/profile/round-trip", test_round_trip);
  g_test_add_func ("/profile/shares", test_shares);
  g_test_add_func ("/profile/lines", test_lines);
  g_test_add_func ("/profile/refused", test_refused);
  g_test_add_func ("/profile/limits", test_limits);
  g_test_add_func ("/profile/order", test_order);
  g_test_add_func ("/profile/members", test_members);
  g_test_add_func ("/profile/twice", test_twice);
  return run_in_folder ();
}
