/* main.c - runs one fuzz target as an ordinary test: over its corpus, and over the same mutations of it every time. */
#include "fuzz.h"

#define N_MUTATIONS 1000
#define MAX_SIZE 65536

static void mutate_byte (GRand *random, GByteArray *input)
{
  static const char interesting[] = "0123456789-+.,:;()[]{}\"\\/= \r\nFBWIOR\xff\x80";
  guint at = (guint)g_rand_int_range (random, 0, (gint32)input->len);

  input->data[at] = g_rand_boolean (random) ? (guint8)interesting[g_rand_int_range (random, 0, sizeof interesting)]
                                            : (guint8)g_rand_int_range (random, 0, 256);
}

/* Removes or doubles a stretch. */
static void mutate_stretch (GRand *random, GByteArray *input)
{
  guint at = (guint)g_rand_int_range (random, 0, (gint32)input->len);
  guint n = (guint)g_rand_int_range (random, 1, (gint32)MIN (64, input->len - at) + 1);
  g_autofree guint8 *stretch = g_memdup2 (input->data + at, n);

  if (g_rand_boolean (random))
    g_byte_array_remove_range (input, at, n);
  else if (input->len + n <= MAX_SIZE)
    g_byte_array_append (input, stretch, n);
}

static void mutate (GRand *random, GByteArray *input)
{
  for (gint32 i = g_rand_int_range (random, 1, 6); i > 0 && input->len > 0; i--)
    if (g_rand_int_range (random, 0, 3) > 0)
      mutate_byte (random, input);
    else
      mutate_stretch (random, input);
  if (g_rand_int_range (random, 0, 10) == 0 && input->len > 0)
    g_byte_array_set_size (input, (guint)g_rand_int_range (random, 0, (gint32)input->len));
}

static void run_file (const char *path)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (g_str_hash (path + strlen (path) - 4));
  g_autofree char *contents = NULL;
  gsize length;

  g_assert_true (g_file_get_contents (path, &contents, &length, NULL));
  LLVMFuzzerTestOneInput ((const uint8_t *)contents, length);
  for (guint i = 0; i < N_MUTATIONS; i++) {
    g_autoptr (GByteArray) input = g_byte_array_new ();

    g_byte_array_append (input, (const guint8 *)contents, (guint)length);
    mutate (random, input);
    LLVMFuzzerTestOneInput (input->data, input->len);
  }
}

static void test_corpus (gconstpointer name)
{
  g_autofree char *folder = g_test_build_filename (G_TEST_DIST, "fuzz", "corpus", name, NULL);
  g_autoptr (GDir) directory = g_dir_open (folder, 0, NULL);
  const char *entry;
  guint n = 0;

  g_assert_nonnull (directory);
  LLVMFuzzerTestOneInput ((const uint8_t *)"", 0);
  while ((entry = g_dir_read_name (directory)) != NULL) {
    g_autofree char *path = g_build_filename (folder, entry, NULL);

    run_file (path);
    n++;
  }
  g_assert_cmpuint (n, >, 0);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 2);
  g_autofree char *test = g_strconcat ("/fuzz/", argv[1], NULL);
  g_test_add_data_func (test, argv[1], test_corpus);
  return g_test_run ();
}
