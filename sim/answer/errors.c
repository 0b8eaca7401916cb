/* errors.c - how far modelled predictions of a class were from published runs: data/errors.csv. */
#include "base/files.h"

#include <pipesim/answer.h>

#include <string.h>

/* A line of the file. */
typedef struct {
  const char *machine, *values, *bits, *layers;
  guint n_rows;
  double p10, p90;
} Line;

static gboolean parse_line (char *text, Line *line)
{
  char *cells[7], *rest = text;
  guint n = 0;

  while (n < G_N_ELEMENTS (cells) && rest != NULL)
    cells[n++] = strsep (&rest, ",");
  if (n < G_N_ELEMENTS (cells))
    return FALSE;
  *line = (Line){ .machine = cells[0],
                  .values = cells[1],
                  .bits = cells[2],
                  .layers = cells[3],
                  .n_rows = (guint)g_ascii_strtoull (cells[4], NULL, 10),
                  .p10 = g_ascii_strtod (cells[5], NULL),
                  .p90 = g_ascii_strtod (cells[6], NULL) };
  return TRUE;
}

/* What a line has in common with the class that is asked for. */
enum {
  NOTHING,
  SAME_LAYERS, /* of any machine, by its file or its datasheet */
  SAME_CLASS,
};

static guint compare_line (const Line *line, const char *machine, const char *values, const char *bits,
                           const char *layers)
{
  if (!g_str_equal (line->layers, layers))
    return NOTHING;
  return g_strcmp0 (line->machine, machine) == 0 && g_str_equal (line->values, values) && g_str_equal (line->bits, bits)
             ? SAME_CLASS
             : SAME_LAYERS;
}

const char *ps_class_layers (const PsModel *model, guint n_devices)
{
  return model->mamba.heads > 0      ? "Mamba-2"
         : model->experts.count == 0 ? "dense"
         : n_devices == 1            ? "experts with p = 1"
                                     : "experts";
}

void ps_class_errors_init (PsClassErrors *errors, const PsModel *model, guint n_devices, const PsCluster *cluster)
{
  g_auto (GStrv) lines = g_strsplit (ps_data_file_text (ps_data_files, "errors.csv"), "\n", -1);
  g_autofree char *bits = g_strdup_printf ("%u", ps_number_formats[model->precision].bits);
  const char *machine = cluster->class_name != NULL ? cluster->class_name : cluster->name;
  const char *values = cluster->datasheet ? "datasheet" : "file";
  const char *layers = ps_class_layers (model, n_devices);
  guint most = SAME_LAYERS;
  Line line;

  *errors = (PsClassErrors){ .name = g_strdup_printf ("%s%s, %s bits, %s", machine,
                                                      cluster->datasheet ? " from its datasheet" : "", bits, layers) };
  for (guint i = 1; lines[0] != NULL && lines[i] != NULL; i++) {
    guint now = parse_line (lines[i], &line) ? compare_line (&line, machine, values, bits, layers) : NOTHING;

    if (now < most || *lines[i] == '\0')
      continue;
    if (now > most)
      errors->p10 = errors->p90 = 0;
    most = now;
    errors->n_rows = now == SAME_CLASS ? line.n_rows : 0;
    errors->p10 = now == SAME_CLASS ? line.p10 : MIN (errors->p10, line.p10);
    errors->p90 = now == SAME_CLASS ? line.p90 : MAX (errors->p90, line.p90);
  }
}

void ps_class_errors_clear (PsClassErrors *errors)
{
  g_clear_pointer (&errors->name, g_free);
}

char *ps_class_errors_to_text (const PsClassErrors *errors)
{
  g_autofree char *rows = errors->n_rows > 0
                              ? g_strdup_printf ("%s: %u published runs", errors->name, errors->n_rows)
                              : g_strdup_printf ("no published runs of %s: the widest of such layers", errors->name);

  return g_strdup_printf ("8 of 10 measured steps are %.2f to %.2f of a predicted one (%s)", 1 / (1 + errors->p90),
                          1 / (1 + errors->p10), rows);
}
