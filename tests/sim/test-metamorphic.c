/* test-metamorphic.c - relations between results that must hold whatever the right result is: more memory, faster links
 * and lower costs never slow anything down, a search is never worse than a family, no bound lies above a result, and
 * two ways to one figure agree.
 *
 * Cases are drawn at random as command lines. PIPESIM_SEED sets another seed, PIPESIM_CHECKS another number of checks
 * over all properties. */
#include "metamorphic.h"

#include <glib/gstdio.h>
#include <stdarg.h>
#include <string.h>

#define MOST_PRINTED 5 /* failures of one property */

static char *folder;
static guint seed, n_failed;
static double share = 1; /* of every row's checks */
static GString *summary;

PsSetting *meta_setting (const char *line)
{
  g_autofree char *whole = g_strconcat ("pipesim ", line, NULL);
  g_auto (GStrv) argv = g_strsplit (whole, " ", -1);
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  g_autoptr (GError) error = NULL;
  PsSetting *setting = ps_setting_new ();

  ps_options_add (ps_setting_options, setting, context);
  if (!g_option_context_parse_strv (context, &argv, &error) || !ps_setting_check (setting, &error))
    g_error ("%s: %s", line, error->message);
  return setting;
}

MetaRun *meta_run (const char *schedule, const char *line)
{
  MetaRun *run = g_new0 (MetaRun, 1);

  run->schedule = g_strdup (schedule);
  run->line = g_strdup (line);
  run->setting = meta_setting (line);
  run->prediction = ps_predict (run->setting, schedule, &run->error);
  return run;
}

MetaRun *meta_run_draw (const MetaDraw *draw, const char *extra)
{
  g_autofree char *line = meta_line (draw, extra);

  return meta_run (draw->schedule, line);
}

void meta_run_free (MetaRun *run)
{
  g_free (run->schedule);
  g_free (run->line);
  ps_setting_free (run->setting);
  ps_prediction_free (run->prediction);
  g_clear_error (&run->error);
  g_free (run);
}

char *meta_write_file (MetaProperty *property, const char *suffix, const char *text)
{
  g_autofree char *name = g_strdup_printf ("%s-%u-%s", property->name, property->n_cases, suffix);
  char *path = g_build_filename (folder, name, NULL);

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  g_ptr_array_add (property->files, g_strdup (path));
  return path;
}

void meta_expect_lines (MetaProperty *property, const char *what, gint64 left, const char *relation, gint64 right,
                        const char *a, const char *b)
{
  gboolean holds = *relation == '<' ? left <= right : left == right;

  property->n_checks++;
  if (holds)
    return;
  g_test_fail ();
  if (property->n_failed++ < MOST_PRINTED)
    g_test_message ("%s: %s: not %" G_GINT64_FORMAT " %s %" G_GINT64_FORMAT "\n  %s%s%s", property->name, what, left,
                    relation, right, a, b != NULL ? "\n  " : "", b != NULL ? b : "");
}

static char *command (const MetaRun *run)
{
  return run != NULL ? g_strdup_printf ("pipesim predict -s %s %s", run->schedule, run->line) : NULL;
}

void meta_expect (MetaProperty *property, const char *what, gint64 left, const char *relation, gint64 right,
                  const MetaRun *a, const MetaRun *b)
{
  g_autofree char *first = command (a), *second = command (b);

  meta_expect_lines (property, what, left, relation, right, first, second);
}

void meta_expect_true (MetaProperty *property, const char *what, gboolean holds, const MetaRun *a, const MetaRun *b)
{
  meta_expect (property, what, holds, "==", TRUE, a, b);
}

void meta_expect_scaled (MetaProperty *property, const MetaRun *a, const MetaRun *b, gint64 time_factor,
                         gint64 size_factor)
{
  const PsMetrics *from, *to;

  meta_expect_true (property, "taken by both", (a->prediction == NULL) == (b->prediction == NULL), a, b);
  if (a->prediction == NULL || b->prediction == NULL)
    return;
  from = &a->prediction->metrics;
  to = &b->prediction->metrics;
  meta_expect (property, "makespan", time_factor * from->makespan_ns, "==", to->makespan_ns, a, b);
  meta_expect (property, "longest span", time_factor * from->max_span_ns, "==", to->max_span_ns, a, b);
  meta_expect (property, "peak memory", size_factor * from->peak_memory_bytes, "==", to->peak_memory_bytes, a, b);
  /* A period that does not take whole nanoseconds is rounded. */
  if (time_factor == 1 || a->prediction->iteration.n_iterations == 1)
    meta_expect (property, "iteration", time_factor * from->iteration_ns, "==", to->iteration_ns, a, b);
  for (guint d = 0; d < from->n_devices; d++)
    if (time_factor * from->device[d].busy_ns != to->device[d].busy_ns
        || time_factor * from->device[d].span_ns != to->device[d].span_ns
        || size_factor * from->device[d].peak_memory_bytes != to->device[d].peak_memory_bytes)
      meta_expect_true (property, "busy, span and peak of every device", FALSE, a, b);
}

/* Files of a case that failed stay for whoever repeats it. */
static void drop_files (MetaProperty *property, gboolean keep)
{
  for (guint i = 0; i < property->files->len && !keep; i++)
    g_unlink (property->files->pdata[i]);
  g_ptr_array_set_size (property->files, 0);
}

static void test_property (gconstpointer data)
{
  const MetaRow *row = data;
  MetaProperty property = { .name = row->name,
                            .rand = g_rand_new_with_seed (seed ^ g_str_hash (row->name)),
                            .files = g_ptr_array_new_with_free_func (g_free) };
  guint n = MAX (1, (guint)(row->n_checks * share));

  /* Most cases lead to checks; a property that finds hardly any case is broken. */
  for (; property.n_checks < n && property.n_cases < 100 * n; property.n_cases++) {
    guint before = property.n_failed;

    row->draw_case (&property);
    drop_files (&property, property.n_failed > before);
  }
  g_assert_cmpuint (property.n_checks, >=, n);
  g_string_append_printf (summary, "%s%s %u", summary->len ? ", " : "", row->name, property.n_checks);
  if (property.n_failed > 0)
    g_string_append_printf (summary, " (%u failed)", property.n_failed);
  n_failed += property.n_failed;
  g_ptr_array_unref (property.files);
  g_rand_free (property.rand);
}

static guint number_from (const char *variable, guint otherwise)
{
  const char *text = g_getenv (variable);

  return text != NULL ? (guint)g_ascii_strtoull (text, NULL, 10) : otherwise;
}

/* Returns how many checks the rows ask for. */
static guint add_rows (const MetaRow *row)
{
  guint sum = 0;

  for (; row->name != NULL; row++) {
    g_autofree char *path = g_strconcat ("/metamorphic/", row->name, NULL);

    g_test_add_data_func (path, row, test_property);
    sum += row->n_checks;
  }
  return sum;
}

int main (int argc, char **argv)
{
  const MetaRow *const tables[] = { meta_limits, meta_times, meta_engines, meta_figures, meta_formats, meta_settings };
  guint n = 0;

  g_test_init (&argc, &argv, NULL);
  g_test_set_nonfatal_assertions ();
  for (guint i = 0; i < G_N_ELEMENTS (tables); i++)
    n += add_rows (tables[i]);
  seed = number_from ("PIPESIM_SEED", 1);
  share = (double)number_from ("PIPESIM_CHECKS", n) / n;
  summary = g_string_new (NULL);
  folder = g_dir_make_tmp ("pipesim-metamorphic-XXXXXX", NULL);
  int result = g_test_run ();
  g_print ("# seed %u, checks: %s\n", seed, summary->str);
  if (n_failed == 0)
    g_rmdir (folder);
  g_string_free (summary, TRUE);
  g_free (folder);
  return result;
}
