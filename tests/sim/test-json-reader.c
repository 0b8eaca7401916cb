/* Tests of the JSON reader (sim/base/json.h): what is JSON and what is not, where mistakes are, and that it
 * reads the values that json-glib, which builds a tree, reads from the same text. */
#include "error-rig.h"
#include "base/json.h"

#include <json-glib/json-glib.h>

static gboolean is_json (const char *text, gssize length)
{
  g_autoptr (GError) error = NULL;
  g_auto (PsJsonReader) reader = { 0 };
  gboolean ok = ps_json_reader_init (&reader, "x", text, length, &error);

  g_assert_true (ok == (error == NULL));
  if (error != NULL) {
    assert_error (&error, PS_ERROR_INPUT, "x:*");
  }
  return ok;
}

/* The grammar of RFC 8259, sections 2 to 8. */
static const char *const good[] = {
  "[]",
  "{}",
  " \t\r\n[ ] \n",
  "[0, -0, 10, -1.5, 1e5, 1E+5, 1.25e-5, 0.0, 0e1]",
  "[true, false, null]",
  "[\"\", \"a\", \"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD834\\uDD1E\", \"\xc3\xa9\", \"\xf0\x9d\x84\x9e\", \"\x7f\"]",
  "[\"\\ud7ff\", \"\\ue000\", \"\\ud800\\udc00\", \"\\udbff\\udfff\", \"\\u0001\", \" \"]",
  "{\"a\": {\"b\": [[], {}]}, \"\": 1}",
};

static const char *const bad[] = {
  "",
  " ",
  "1",
  "\"a\"",
  "null",
  "[",
  "]",
  "{",
  "[1",
  "[1,",
  "[1,]",
  "[,1]",
  "[1 2]",
  "[}",
  "{]",
  "[1}",
  "{\"a\"}",
  "{\"a\":}",
  "{\"a\":1,}",
  "{,}",
  "{a:1}",
  "{'a':1}",
  "{1:1}",
  "{\"a\" 1}",
  "{\"a\":1 \"b\":2}",
  "[] []",
  "[]x",
  "[01]",
  "[-]",
  "[-01]",
  "[+1]",
  "[.5]",
  "[1.]",
  "[1.e5]",
  "[1e]",
  "[1e+]",
  "[0x1]",
  "[1_0]",
  "[NaN]",
  "[Infinity]",
  "[-Infinity]",
  "[tru]",
  "[True]",
  "[nul",
  "[truex]",
  "[\"]",
  "[\"\\\"]",
  "[\"\\x\"]",
  "[\"\\u12\"]",
  "[\"\\u12g4\"]",
  "[\"\\u0000\"]",
  "[\"\\ud834\"]",
  "[\"\\ud834\\u0041\"]",
  "[\"\\udd1e\"]",
  "[\"\\udc00\"]",
  "[\"\\udfff\"]",
  "[\"\\ud800\\udbff\"]",
  "[\"\\ud800\\ue000\"]",
  "[\"\\udbff\"]",
  "[\"\x1f\"]",
  "[\"\\ud834x\"]",
  "[\"\n\"]",
  "[\"\t\"]",
  "[\"\x01\"]",
  "[\"\xff\"]",
  "[\"\xc3\"]",
  "[\"\xc0\x80\"]",
  "[\"\xed\xa0\x80\"]",
  "[\xc3\xa9]",
  "\xef\xbb\xbf[]",
  "[] // comment",
  "/* comment */[]",
  "[1,,2]",
  "[\"a\":1]",
};

static void test_grammar (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (good); i++)
    g_assert_true (is_json (good[i], -1));
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    if (is_json (bad[i], -1))
      g_error ("taken for JSON: %s", bad[i]);
  g_assert_false (is_json ("[1]\0", 4));
  g_assert_false (is_json ("[\"a\0b\"]", 7));
  g_assert_true (is_json ("[1]garbage", 3));
}

static void test_depth (void)
{
  g_autofree char *open = g_strnfill (64, '['), *close = g_strnfill (64, ']');
  g_autofree char *deep = g_strconcat (open, close, NULL), *deeper = g_strconcat ("[", deep, "]", NULL);

  g_assert_true (is_json (deep, -1));
  g_assert_false (is_json (deeper, -1));
}

/* Lines and columns count from 1, columns in bytes. */
static void test_places (void)
{
  static const struct {
    const char *text, *message;
  } cases[] = {
    { "3", "x: is neither a JSON object nor an array" },
    { "[1,\n  2,\n  oops]", "x:3:3: no value of JSON" },
    { "[1,\r\n2 3]", "x:2:3: ',' or ']' is missing" },
    { "{\"a\": 1\n\"b\": 2}", "x:2:1: ',' or '}' is missing" },
    { "{\"a\", 1}", "x:1:5: ':' is missing after a key" },
    { "{1: 1}", "x:1:2: a string is missing" },
    { "[\"abc", "x:1:6: the text ends too early: the string does not end" },
    { "[\"a\\qb\"]", "x:1:5: no escape of JSON" },
    { "[\"a\xff\"]", "x:1:4: no UTF-8" },
    { "[\"a\tb\"]", "x:1:4: a control character in a string" },
    { "[007]", "x:1:2: a number with a leading 0" },
    { "[1.x]", "x:1:4: a digit is missing" },
    { "[1, ", "x:1:5: the text ends too early: no value of JSON" },
    { "[]\n\n {}", "x:3:2: more text after the end" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    g_auto (PsJsonReader) reader = { 0 };

    g_assert_false (ps_json_reader_init (&reader, "x", cases[i].text, -1, &error));
    g_assert_cmpstr (error->message, ==, cases[i].message);
  }
}

static void test_values (void)
{
  static const char text[] = "[9223372036854775807, -9223372036854775808, 9223372036854775808, 1.0, 1e3, -0, \"7\", "
                             "true, null, \"\\u00e9\\ud834\\udd1e\\n\", [1, [2], {}], {\"k\\u0065y\": {\"a\": []}}]";
  g_auto (PsJsonReader) reader = { 0 };
  gint64 integer = 1;
  double number = 1;
  gboolean truth = FALSE;
  const char *string = "";

  g_assert_true (ps_json_reader_init (&reader, "x", text, -1, NULL));
  g_assert_false (ps_json_enter_object (&reader));
  g_assert_true (ps_json_enter_array (&reader));
  g_assert_cmpuint (ps_json_count_elements (&reader), ==, 12);
  g_assert_true (ps_json_next_element (&reader) && ps_json_read_integer (&reader, &integer));
  g_assert_cmpint (integer, ==, G_MAXINT64);
  g_assert_true (ps_json_next_element (&reader) && ps_json_read_integer (&reader, &integer));
  g_assert_cmpint (integer, ==, G_MININT64);
  for (guint i = 0; i < 3; i++) {
    static const double expected[] = { 9223372036854775808.0, 1, 1000 };

    g_assert_true (ps_json_next_element (&reader));
    g_assert_false (ps_json_read_integer (&reader, &integer));
    g_assert_true (ps_json_read_number (&reader, &number));
    g_assert_cmpfloat (number, ==, expected[i]);
  }
  g_assert_true (ps_json_next_element (&reader) && ps_json_read_integer (&reader, &integer));
  g_assert_cmpint (integer, ==, 0);
  g_assert_true (ps_json_next_element (&reader));
  g_assert_false (ps_json_read_integer (&reader, &integer) || ps_json_read_number (&reader, &number)
                  || ps_json_read_boolean (&reader, &truth) || ps_json_enter_array (&reader));
  g_assert_true (ps_json_read_text (&reader, &string));
  g_assert_cmpstr (string, ==, "7");
  g_assert_true (ps_json_next_element (&reader) && ps_json_read_boolean (&reader, &truth) && truth);
  g_assert_true (ps_json_next_element (&reader));
  g_assert_false (ps_json_read_boolean (&reader, &truth) || ps_json_read_text (&reader, &string));
  ps_json_skip_value (&reader);
  g_assert_true (ps_json_next_element (&reader) && ps_json_read_text (&reader, &string));
  g_assert_cmpstr (string, ==, "\xc3\xa9\xf0\x9d\x84\x9e\n");
  g_assert_true (ps_json_next_element (&reader));
  ps_json_skip_value (&reader);
  g_assert_true (ps_json_next_element (&reader) && ps_json_enter_object (&reader));
  g_assert_cmpstr (ps_json_next_key (&reader), ==, "key");
  ps_json_skip_value (&reader);
  g_assert_null (ps_json_next_key (&reader));
  g_assert_false (ps_json_next_element (&reader));
}

/* Random texts */

static void add_space (GRand *rand, GString *text)
{
  while (g_rand_int_range (rand, 0, 4) == 0)
    g_string_append_c (text, " \t\r\n"[g_rand_int_range (rand, 0, 4)]);
}

static void add_string (GRand *rand, GString *text)
{
  static const char *const parts[] = {
    "a", "bc", "\\n", "\\\"", "\\\\", "\\/", "\xc3\xa9", "\\u00e9", "\\ud834\\udd1e", "[", "}", "\xf0\x9d\x84\x9e"
  };

  g_string_append_c (text, '"');
  while (g_rand_int_range (rand, 0, 4) > 0)
    g_string_append (text, parts[g_rand_int_range (rand, 0, G_N_ELEMENTS (parts))]);
  g_string_append_c (text, '"');
}

static void add_scalar (GRand *rand, GString *text)
{
  static const char *const others[]
      = { "true", "false", "null", "0", "-0", "1.5", "-2e3", "1E-2", "12345678901234567" };

  if (g_rand_boolean (rand))
    add_string (rand, text);
  else if (g_rand_boolean (rand))
    g_string_append_printf (text, "%d", g_rand_int_range (rand, -1000, 1000));
  else
    g_string_append (text, others[g_rand_int_range (rand, 0, G_N_ELEMENTS (others))]);
}

static void add_value (GRand *rand, GString *text, guint depth)
{
  gboolean object = g_rand_boolean (rand);

  if (depth > 0 && (depth == 6 || g_rand_int_range (rand, 0, 3) == 0)) {
    add_scalar (rand, text);
    return;
  }
  g_string_append_c (text, object ? '{' : '[');
  add_space (rand, text);
  for (gint32 i = 0, n = g_rand_int_range (rand, 0, 4); i < n; i++) {
    g_string_append (text, i ? "," : "");
    add_space (rand, text);
    if (object) {
      /* The number makes keys differ; it takes the place of the first quote. */
      gsize start = text->len;

      add_string (rand, text);
      text->str[start] = (char)('0' + i);
      g_string_insert_c (text, (gssize)start, '"');
      add_space (rand, text);
      g_string_append_c (text, ':');
      add_space (rand, text);
    }
    add_value (rand, text, depth + 1);
    add_space (rand, text);
  }
  g_string_append_c (text, object ? '}' : ']');
}

static void compare_value (PsJsonReader *reader, JsonNode *node);

static void compare_scalar (PsJsonReader *reader, JsonNode *node)
{
  GType type = JSON_NODE_HOLDS_NULL (node) ? G_TYPE_INVALID : json_node_get_value_type (node);
  gboolean truth;
  gint64 integer;
  double number;
  const char *text;

  if (type == G_TYPE_INT64 && ps_json_read_integer (reader, &integer))
    g_assert_cmpint (integer, ==, json_node_get_int (node));
  else if (type == G_TYPE_DOUBLE && ps_json_read_number (reader, &number))
    g_assert_cmpfloat (number, ==, json_node_get_double (node));
  else if (type == G_TYPE_STRING && ps_json_read_text (reader, &text))
    g_assert_cmpstr (text, ==, json_node_get_string (node));
  else if (type == G_TYPE_BOOLEAN && ps_json_read_boolean (reader, &truth))
    g_assert_cmpint (truth, ==, json_node_get_boolean (node));
  else {
    g_assert_cmpuint (type, ==, G_TYPE_INVALID);
    ps_json_skip_value (reader);
  }
}

static void compare_object (PsJsonReader *reader, JsonObject *object)
{
  guint n = 0;
  const char *key;

  g_assert_true (ps_json_enter_object (reader));
  while ((key = ps_json_next_key (reader)) != NULL) {
    JsonNode *member = json_object_get_member (object, key);

    g_assert_nonnull (member);
    compare_value (reader, member);
    n++;
  }
  g_assert_cmpuint (n, ==, json_object_get_size (object));
}

static void compare_array (PsJsonReader *reader, JsonArray *array)
{
  guint n = 0;

  g_assert_true (ps_json_enter_array (reader));
  g_assert_cmpuint (ps_json_count_elements (reader), ==, json_array_get_length (array));
  for (; ps_json_next_element (reader); n++)
    compare_value (reader, json_array_get_element (array, n));
  g_assert_cmpuint (n, ==, json_array_get_length (array));
}

static void compare_value (PsJsonReader *reader, JsonNode *node)
{
  const char *start = reader->at, *end;

  if (JSON_NODE_HOLDS_OBJECT (node))
    compare_object (reader, json_node_get_object (node));
  else if (JSON_NODE_HOLDS_ARRAY (node))
    compare_array (reader, json_node_get_array (node));
  else
    compare_scalar (reader, node);
  /* Skipping ends where reading does. */
  end = reader->at;
  reader->at = start;
  ps_json_skip_value (reader);
  g_assert_true (reader->at == end);
}

/* Reads the same as json-glib from the same text; what it takes for JSON, json-glib does too. */
static void test_same_as_json_glib (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);

  for (guint i = 0; i < 2000; i++) {
    g_autoptr (GString) text = g_string_new (NULL);
    g_autoptr (JsonParser) parser = json_parser_new ();
    g_autoptr (GError) error = NULL;
    g_auto (PsJsonReader) reader = { 0 };

    add_space (rand, text);
    add_value (rand, text, 0);
    add_space (rand, text);
    g_assert_true (json_parser_load_from_data (parser, text->str, -1, &error));
    fine (ps_json_reader_init (&reader, "x", text->str, -1, &error));
    compare_value (&reader, json_parser_get_root (parser));
    for (guint j = 0; j < 20; j++) {
      g_autofree char *changed = g_strdup (text->str);

      changed[g_rand_int_range (rand, 0, (gint32)text->len)] = (char)g_rand_int_range (rand, 32, 127);
      if (is_json (changed, -1))
        g_assert_true (json_parser_load_from_data (parser, changed, -1, NULL));
    }
  }
}

static void check_object (const char *text, const char *message)
{
  static const char *const required[] = { "a", "b", NULL }, *const optional[] = { "c", NULL };
  g_autoptr (GError) error = NULL;
  g_auto (PsJsonReader) reader = { 0 };
  g_auto (PsJsonObject) object = { 0 };

  g_assert_true (ps_json_reader_init (&reader, "x", text, -1, &error));
  if (ps_json_object_init (&object, &reader, "thing/2", required, optional, &error)) {
    gint64 value;
    g_autofree char *b = NULL;

    if (ps_json_get_integer (&object, "a", 0, 9, &value, &error) && ps_json_get_text (&object, "b", &b, &error)
        && ps_json_get_array (&object, "a", &error))
      g_assert_not_reached ();
  }
  assert_error (&error, PS_ERROR_INPUT, message);
}

static void test_objects (void)
{
  check_object ("[]", "x: is no JSON object");
  check_object ("{}", "x: format: is missing; thing/2 would be right");
  check_object ("{\"format\": 2}", "x: format: '' is not thing/2");
  check_object ("{\"format\": \"thing/3\"}", "x: format: 'thing/3' is another version; this pipesim reads thing/2");
  check_object ("{\"a\": 1, \"format\": \"thing/2\"}", "x: b: is missing");
  check_object ("{\"a\": 1, \"b\": 1, \"d\": 2, \"format\": \"thing/2\"}", "x: d: is no key of thing/2");
  check_object ("{\"a\": 1, \"b\": 1, \"a\": 2, \"format\": \"thing/2\"}", "x: a: is there twice");
  check_object ("{\"a\": 10, \"b\": 1, \"format\": \"thing/2\"}", "x: a: 10 is not between 0 and 9");
  check_object ("{\"b\": 1, \"a\": 1, \"c\": [], \"format\": \"thing/2\"}", "x: b: is no text");
  check_object ("{\"b\": \"1\", \"a\": 1, \"c\": [], \"format\": \"thing/2\"}", "x: a: is no array");
}

/* Values of all kinds, short and long, by their numbers. */
static char *numbered_value (guint i)
{
  g_autofree char *blanks = g_strnfill (i % 5, ' '), *letters = g_strnfill (i % 7 == 3 ? 5000 : i % 11, 'x');

  switch (i % 6) {
  case 0:
    return g_strdup_printf ("%u", i);
  case 1:
    return g_strdup_printf ("\"%s]}\\\\\\\"%u\"", letters, i);
  case 2:
    return g_strdup_printf ("{%s\"a\": [%u, \"{\\\"[\"]%s}", blanks, i, blanks);
  case 3:
    return g_strdup_printf ("[%s]", blanks);
  case 4:
    return g_strdup (i % 4 ? "true" : "null");
  default:
    return g_strdup_printf ("-%u.5e3", i);
  }
}

/* A text of more than one window, in which values end anywhere, member by member: once, and again after it is rewound.
 */
static void test_stream (void)
{
  const guint n = 3000;
  g_autoptr (GString) text = g_string_new (" {");
  g_autofree char *huge = g_strnfill (700000, 'y'), *key = NULL;
  g_auto (PsJsonStream) stream = { 0 };
  char next;

  for (guint i = 0; i < n; i++) {
    g_autofree char *value = numbered_value (i);

    g_string_append_printf (text, "%s\"key %u\"%s:%s%s", i ? " ,\n" : "", i, i % 3 ? " " : "", i % 2 ? "\t" : "",
                            value);
  }
  g_string_append_printf (text, ", \"huge\": \"%s\"}\n ", huge);
  ps_json_stream_init (&stream, "x", text->str, text->len);
  for (guint again = 0; again < 2; again++) {
    gboolean found;

    fine (ps_json_stream_peek (&stream, &next, &error));
    g_assert_cmpint (next, ==, '{');
    ps_json_stream_enter (&stream);
    for (guint i = 0; i <= n; i++) {
      g_autofree char *value = i < n ? numbered_value (i) : g_strdup_printf ("\"%s\"", huge);
      g_autofree char *expected = i < n ? g_strdup_printf ("key %u", i) : g_strdup ("huge");
      g_auto (PsJsonReader) reader = { 0 };

      fine (ps_json_stream_next (&stream, '}', &key, &found, &error));
      g_assert_true (found);
      g_assert_cmpstr (key, ==, expected);
      fine (ps_json_stream_value (&stream, &reader, &error));
      g_assert_true (strncmp (reader.at, value, strlen (value)) == 0);
    }
    fine (ps_json_stream_next (&stream, '}', &key, &found, &error));
    g_assert_false (found);
    fine (ps_json_stream_end (&stream, &error));
    ps_json_stream_rewind (&stream);
  }
}

/* What is wrong, and with which value: keys and values count from 1. */
static void test_stream_refusals (void)
{
  static const struct {
    const char *text, *message;
  } cases[] = {
    { "[1, 2 3]", "x: value 3: ',' is missing" },
    { "[1, 2", "x: value 3: the text ends too early: ',' is missing" },
    { "[1, ", "x: value 2:1:1: the text ends too early: no value of JSON" },
    { "[1, ]", "x: value 2:1:1: no value of JSON" },
    { "[1, tru]", "x: value 2:1:1: no value of JSON" },
    { "[1, \"a", "x: value 2:*: the text ends too early: *" },
    { "[1] 2", "x: value 2: more text after the end" },
    { "{1: 2}", "x: value 2: a key is missing" },
    { "{\"a\" 2}", "x: value 2: ':' is missing after a key" },
    { "{\"a\": 2 \"b\": 3}", "x: value 3: ',' is missing" },
    { "{\"a\"", "x: value 2: the text ends too early: ':' is missing after a key" },
    { "{\"a\": {\"b\": 1,}}", "x: value 2:1:9: a string is missing" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_auto (PsJsonStream) stream = { 0 };
    g_auto (PsJsonReader) reader = { 0 };
    g_autofree char *key = NULL;
    g_autoptr (GError) error = NULL;
    gboolean found = TRUE, is_object = *cases[i].text == '{', good = TRUE;

    g_test_message ("%s", cases[i].text);
    ps_json_stream_init (&stream, "x", cases[i].text, strlen (cases[i].text));
    char next;
    fine (ps_json_stream_peek (&stream, &next, &error));
    ps_json_stream_enter (&stream);
    while (found && good)
      good = ps_json_stream_next (&stream, is_object ? '}' : ']', is_object ? &key : NULL, &found, &error)
             && (!found || ps_json_stream_value (&stream, &reader, &error));
    g_assert_false (good && ps_json_stream_end (&stream, &error));
    assert_error (&error, PS_ERROR_INPUT, cases[i].message);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/json-reader/grammar", test_grammar);
  g_test_add_func ("/json-reader/depth", test_depth);
  g_test_add_func ("/json-reader/places", test_places);
  g_test_add_func ("/json-reader/values", test_values);
  g_test_add_func ("/json-reader/same-as-json-glib", test_same_as_json_glib);
  g_test_add_func ("/json-reader/objects", test_objects);
  g_test_add_func ("/json-reader/stream", test_stream);
  g_test_add_func ("/json-reader/stream-refusals", test_stream_refusals);
  return g_test_run ();
}
