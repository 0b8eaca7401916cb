/* Tests of partition.h: PipeDream's results. */
#include "partition-rig.h"

#include <math.h>
#include <string.h>

static const char *
find_member (const char *line, const char *key)
{
  g_autofree char *quoted = g_strdup_printf ("\"%s\": ", key);
  const char *found = strstr (line, quoted);

  g_assert_nonnull (found);
  return found + strlen (quoted);
}

/* The numbers of a list, nested or not, each times scale. */
static GArray *
read_numbers (const char *line, const char *key, double scale)
{
  GArray *numbers = g_array_new (FALSE, FALSE, sizeof (gint64));
  const char *text = find_member (line, key);
  int depth = 0;

  do
    {
      depth += (*text == '[') - (*text == ']');
      if (g_ascii_isdigit (*text))
        {
          char *end;
          gint64 value = llround (g_ascii_strtod (text, &end) * scale);

          g_array_append_val (numbers, value);
          text = end;
        }
      else
        text++;
    }
  while (depth > 0);
  return numbers;
}

static double
read_number (const char *line, const char *key)
{
  const char *text = find_member (line, key);

  return g_str_has_prefix (text, "null") ? 0 : g_ascii_strtod (text, NULL);
}

static void
assert_like (const PsPartition *partition, const char *line, const char *time_key, const char *stages_key)
{
  g_autoptr (GArray) stages = read_numbers (line, stages_key, 1);
  gint64 expected = llround (read_number (line, time_key) * 1e6);

  g_assert_cmpint (ABS (partition->bottleneck_ns - expected), <=, 1);
  g_assert_cmpuint (partition->n_stages * 3, ==, stages->len);
  for (guint s = 0; s < partition->n_stages; s++)
    {
      g_assert_cmpint (partition->stages[s].first, ==, g_array_index (stages, gint64, 3 * s));
      g_assert_cmpint (partition->stages[s].last, ==, g_array_index (stages, gint64, 3 * s + 1));
      g_assert_cmpint (partition->stages[s].replicas, ==, g_array_index (stages, gint64, 3 * s + 2));
    }
}

/* One time unit of the file is 1 ms here. */
static void
check_pipedream (const char *line)
{
  g_autoptr (GArray) times = read_numbers (line, "T", 1e6);
  g_autoptr (GArray) outputs = read_numbers (line, "a", 1), weights = read_numbers (line, "w", 1);
  g_auto (Case) c = { .layers = ps_layers_new (times->len) };
  guint p = (guint)read_number (line, "m");

  for (guint i = 0; i < times->len; i++)
    set_layer (&c.layers->layers[i], g_array_index (times, gint64, i), g_array_index (outputs, gint64, i),
               g_array_index (weights, gint64, i), 0);
  c.layers->source = g_strdup ("reference");
  for (guint s = 0; s < p; s++)
    c.links[s].bandwidth = read_number (line, "B") * 1000;
  c.setting = (PsPartitionSetting){ .layers = c.layers, .n_devices = p, .n_chunks = 1, .links = c.links };
  g_autoptr (PsPartition) paper = cut_with ("pipedream", &c.setting);
  assert_like (paper, line, "paper_recurrence_time", "paper_recurrence_stages");
}

static void
test_pipedream (gconstpointer file)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, file, NULL), *text = NULL;
  guint n = 0;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    {
      g_test_skip ("no reference data beside this checkout");
      return;
    }
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL && *lines[i]; i++)
    {
      if (strstr (lines[i], "\"kind\": \"profile\"") != NULL)
        {
          g_test_message ("%.*s skipped: the profile is not in the file",
                          (int)strcspn (find_member (lines[i], "net"), ","), find_member (lines[i], "net"));
          continue;
        }
      check_pipedream (lines[i]);
      n++;
    }
  g_assert_cmpuint (n, >=, 16);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/partition/pipedream", "fixtures/pipedream_partition.jsonl", test_pipedream);
  g_test_add_data_func ("/partition/pipedream-reference", "../../shared/reference/pipedream_partition.jsonl",
                        test_pipedream);
  return g_test_run ();
}
