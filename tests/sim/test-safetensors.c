/* Tests of formats.h: a header that a reader of JSON reads, files made here byte by byte, and files that are
 * refused. */
#include "error-rig.h"

#include <pipesim/formats.h>

#include <json-glib/json-glib.h>

/* A file of that header and n bytes of arrays. *length: its size. Free with g_free. */
static char *make_file (const char *header, gsize n, gsize *length)
{
  gsize n_header = strlen (header);
  char *file = g_malloc0 (8 + n_header + n);

  for (guint i = 0; i < 8; i++)
    file[i] = (char)(n_header >> 8 * i & 0xff);
  memcpy (file + 8, header, n_header);
  *length = 8 + n_header + n;
  return file;
}

/* Two matrices and a vector: 2 x 3, 4 x 1 and 5 floats of 4 bytes. The first is at 0, the second at 24, the last at 40.
 */
static void test_header (void)
{
  const PsTensorShape tensors[]
      = { { (char *)"layer \"0\"", 2, 3 }, { (char *)"narrow", 4, 1 }, { (char *)"bias", 0, 5 } };
  static const char *const metadata[] = { "step", "7", "model", "tiny", NULL };
  static const gint64 places[][2] = { { 0, 24 }, { 24, 40 }, { 40, 60 } }, shapes[][2] = { { 2, 3 }, { 4, 1 }, { 5 } };
  gsize length;
  g_autofree char *header = ps_safetensors_header (tensors, 3, metadata, &length);
  g_autoptr (JsonParser) parser = json_parser_new ();

  g_assert_cmpuint (length % 8, ==, 0);
  for (guint i = 0; i < 8; i++)
    g_assert_cmpuint ((guint8)header[i], ==, (length - 8) >> 8 * i & 0xff);
  fine (json_parser_load_from_data (parser, header + 8, (gssize)length - 8, &error));
  JsonObject *object = json_node_get_object (json_parser_get_root (parser));
  g_assert_cmpuint (json_object_get_size (object), ==, 4);
  g_assert_cmpstr (json_object_get_string_member (json_object_get_object_member (object, "__metadata__"), "model"), ==,
                   "tiny");
  for (guint i = 0; i < 3; i++) {
    JsonObject *tensor = json_object_get_object_member (object, tensors[i].name);
    JsonArray *shape = json_object_get_array_member (tensor, "shape");
    JsonArray *offsets = json_object_get_array_member (tensor, "data_offsets");

    g_assert_cmpstr (json_object_get_string_member (tensor, "dtype"), ==, "F32");
    g_assert_cmpuint (json_array_get_length (shape), ==, i < 2 ? 2 : 1);
    for (guint k = 0; k < json_array_get_length (shape); k++)
      g_assert_cmpint (json_array_get_int_element (shape, k), ==, shapes[i][k]);
    for (guint k = 0; k < 2; k++)
      g_assert_cmpint (json_array_get_int_element (offsets, k), ==, places[i][k]);
  }
}

/* The header of the test before with its arrays: 60 bytes. */
static void test_round_trip (void)
{
  const PsTensorShape tensors[] = { { (char *)"a", 2, 3 }, { (char *)"b", 4, 1 }, { (char *)"c", 0, 5 } };
  static const char *const metadata[] = { "step", "7", NULL };
  gsize length;
  g_autofree char *header = ps_safetensors_header (tensors, 3, metadata, &length);
  g_autofree char *whole = g_realloc (g_steal_pointer (&header), length + 60);
  g_autoptr (PsSafetensors) file = fine (ps_safetensors_parse ("f", whole, length + 60, &error));
  const PsTensorEntry *c = ps_safetensors_find (file, "c"), *b = ps_safetensors_find (file, "b");

  g_assert_cmpuint (file->header_bytes, ==, length);
  g_assert_cmpuint (file->entries->len, ==, 3);
  g_assert_cmpstr (g_hash_table_lookup (file->metadata, "step"), ==, "7");
  g_assert_cmpuint (g_hash_table_size (file->metadata), ==, 1);
  g_assert_cmpuint (b->first, ==, 24);
  g_assert_cmpuint (b->n_bytes, ==, 16);
  g_assert_cmpuint (b->n_dimensions, ==, 2);
  g_assert_cmpint (b->shape[0], ==, 4);
  g_assert_cmpint (b->shape[1], ==, 1);
  g_assert_cmpuint (c->n_dimensions, ==, 1);
  g_assert_cmpstr (c->type, ==, "F32");
  g_assert_null (ps_safetensors_find (file, "d"));
  refused (ps_safetensors_parse ("f", whole, length + 59, &error), PS_ERROR_INPUT, "f: tensor c: bytes 40 to 60 *");
  refused (ps_safetensors_parse ("f", whole, 7, &error), PS_ERROR_INPUT, "f: is no safetensors file*");
}

/* The bytes of a number of each type (https://huggingface.co/docs/safetensors, "Format"). */
static void test_types (void)
{
  static const struct {
    const char *type;
    gsize bytes;
  } rows[] = { { "F64", 8 }, { "I64", 8 }, { "U64", 8 },  { "F32", 4 },     { "I32", 4 },
               { "U32", 4 }, { "F16", 2 }, { "BF16", 2 }, { "I16", 2 },     { "U16", 2 },
               { "I8", 1 },  { "U8", 1 },  { "BOOL", 1 }, { "F8_E4M3", 1 }, { "F8_E5M2", 1 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (gsize n = 3 * rows[i].bytes - 1; n <= 3 * rows[i].bytes + 1; n++) {
      g_autofree char *header = g_strdup_printf (
          "{\"x\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%" G_GSIZE_FORMAT "]}}", rows[i].type, n);
      gsize length;
      g_autofree char *bytes = make_file (header, n, &length);
      g_autoptr (PsSafetensors) file = ps_safetensors_parse ("f", bytes, length, NULL);

      g_assert_cmpint (file != NULL, ==, n == 3 * rows[i].bytes);
    }
}

#define TENSOR(name, shape, offsets)                                                                                   \
  "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" shape "],\"data_offsets\":[" offsets "]}"

/* Files with 4 bytes of arrays. message NULL: the file is right. */
static void test_files (void)
{
  static const struct {
    const char *header;
    const char *message;
  } cases[] = {
    { "{" TENSOR ("a", "4", "0,4") "}", NULL },
    { "{" TENSOR ("a", "1,2,1,1,1,1,2,1", "0,4") "}", NULL },
    { "{" TENSOR ("a", "1,2,1,1,1,1,2,1,1", "0,4") "}", "f: tensor a: no valid shape" },
    { "{" TENSOR ("a", "", "0,1") "," TENSOR ("b", "3", "1,4") "}", NULL }, /* a number alone */
    { "{" TENSOR ("b", "3", "1,4") "," TENSOR ("a", "1", "0,1") "}", NULL },
    { "{" TENSOR ("a", "4", "0,4") "," TENSOR ("empty", "0", "0,0") "," TENSOR ("last", "0,9", "4,4") "}", NULL },
    { "{" TENSOR ("a", "2", "0,2") "," TENSOR ("b", "2", "1,3") "}", "f: tensor b: bytes 1 to 3 do not follow *" },
    { "{" TENSOR ("a", "1", "0,1") "," TENSOR ("b", "2", "2,4") "}", "f: tensor b: bytes 2 to 4 do not follow *" },
    { "{" TENSOR ("a", "5", "0,5") "}", "f: tensor a: bytes 0 to 5 do not follow the others, or go beyond *" },
    { "{" TENSOR ("a", "3", "0,3") "}", "f: 1 bytes after the last tensor" },
    { "{}", "f: 4 bytes after the last tensor" },
    { "{" TENSOR ("a", "3", "0,4") "}", "f: tensor a: its 4 bytes are not its type and shape" },
    { "{" TENSOR ("a", "4294967296,4294967296", "0,0") "}", "f: tensor a: its 0 bytes are not its type and shape" },
    { "{" TENSOR ("a", "-4", "0,4") "}", "f: tensor a: no valid shape" },
    { "{" TENSOR ("a", "\"4\"", "0,4") "}", "f: tensor a: no valid shape" },
    { "{" TENSOR ("a", "4", "4,0") "}", "f: tensor a: no valid data_offsets" },
    { "{" TENSOR ("a", "4", "-1,3") "}", "f: tensor a: no valid data_offsets" },
    { "{" TENSOR ("a", "4", "0") "}", "f: tensor a: no valid data_offsets" },
    { "{" TENSOR ("a", "4", "0,4,4") "}", "f: tensor a: no valid data_offsets" },
    { "{" TENSOR ("a", "2", "0,2") "," TENSOR ("a", "2", "2,4") "}", "f: tensor a: is there twice" },
    { "{\"a\":{\"dtype\":\"U9\",\"shape\":[4],\"data_offsets\":[0,4]}}", "f: tensor a: no valid dtype" },
    { "{\"a\":{\"dtype\":8,\"shape\":[4],\"data_offsets\":[0,4]}}", "f: tensor a: no valid dtype" },
    { "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", "f: tensor a: no valid shape" },
    { "{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", "f: tensor a: no valid dtype" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", "f: tensor a: no valid data_offsets" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"shape\":[4],\"data_offsets\":[0,4]}}", "f: tensor a: no valid shape" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":4,\"data_offsets\":[0,4]}}", "f: tensor a: no valid shape" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":4}}", "f: tensor a: no valid data_offsets" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"more\":1}}", "f: tensor a: unknown key 'more'" },
    { "{\"a\":[]}", "f: tensor a: is no object" },
    { "[]", "f: its header is no object" },
    { "{\"__metadata__\":{\"k\":1}}", "f: __metadata__: k: is no text" },
    { "{\"__metadata__\":[]}", "f: __metadata__: is no object" },
    { "{\"__metadata__\":{\"k\":\"t\"}," TENSOR ("a", "4", "0,4") "}  ", NULL },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    gsize length;
    g_autofree char *bytes = make_file (cases[i].header, 4, &length);

    g_test_message ("%s", cases[i].header);
    if (cases[i].message != NULL)
      refused (ps_safetensors_parse ("f", bytes, length, &error), PS_ERROR_INPUT, cases[i].message);
    else
      ps_safetensors_free (fine (ps_safetensors_parse ("f", bytes, length, &error)));
  }
}

/* A header may end with the file, not after it. */
static void test_header_end (void)
{
  gsize length;
  g_autofree char *bytes = make_file ("{}", 0, &length);
  g_autoptr (PsSafetensors) file = fine (ps_safetensors_parse ("f", bytes, length, &error));

  g_assert_cmpuint (file->header_bytes, ==, 10);
  g_assert_cmpuint (file->entries->len, ==, 0);
  bytes[0]++;
  refused (ps_safetensors_parse ("f", bytes, length, &error), PS_ERROR_INPUT,
           "f: is no safetensors file, or only the beginning of one");
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/safetensors/header", test_header);
  g_test_add_func ("/safetensors/round-trip", test_round_trip);
  g_test_add_func ("/safetensors/types", test_types);
  g_test_add_func ("/safetensors/files", test_files);
  g_test_add_func ("/safetensors/header-end", test_header_end);
  return g_test_run ();
}
