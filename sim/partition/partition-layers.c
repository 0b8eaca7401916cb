/* partition-layers.c - chains of layers, and the strict reader of their CSV. */
#include "partition-private.h"

#include "text.h"

#include <string.h>

#define MAX_LENGTH ((gsize)1 << 30) /* as ps_read_file has it */

PsLayers *
ps_layers_new (guint n_layers)
{
  PsLayers *layers = g_new0 (PsLayers, 1);

  layers->n_layers = n_layers;
  layers->layers = g_new0 (PsLayer, n_layers);
  return layers;
}

void
ps_layers_free (PsLayers *layers)
{
  if (layers == NULL)
    return;
  for (guint i = 0; i < layers->n_layers; i++)
    g_free (layers->layers[i].name);
  g_free (layers->layers);
  g_free (layers->source);
  g_free (layers);
}

/* The columns of the file and the figures that stages sum. */
typedef enum
{
  COLUMN_NAME,
  COLUMN_TIME,
  COLUMN_SIZE,
  COLUMN_COUNT,
} ColumnType;

#define N_REQUIRED 4

static const struct
{
  const char *name; /* NULL: not in the file */
  ColumnType type;
  gsize offset;

} columns[] = {
  { "layer", COLUMN_NAME, G_STRUCT_OFFSET (PsLayer, name) },
  { "time", COLUMN_TIME, G_STRUCT_OFFSET (PsLayer, time_ns) },
  { "activation_bytes", COLUMN_SIZE, G_STRUCT_OFFSET (PsLayer, output_bytes) },
  { "parameter_bytes", COLUMN_SIZE, G_STRUCT_OFFSET (PsLayer, parameter_bytes) },
  { "forward", COLUMN_TIME, G_STRUCT_OFFSET (PsLayer, forward_ns) },
  { "backward", COLUMN_TIME, G_STRUCT_OFFSET (PsLayer, backward_ns) },
  { "flops", COLUMN_COUNT, G_STRUCT_OFFSET (PsLayer, flops) },
  { "kept_bytes", COLUMN_SIZE, G_STRUCT_OFFSET (PsLayer, kept_bytes) },
  { "weight_kept_bytes", COLUMN_SIZE, G_STRUCT_OFFSET (PsLayer, weight_kept_bytes) },
  { "state_bytes", COLUMN_SIZE, G_STRUCT_OFFSET (PsLayer, state_bytes) },
  { NULL, COLUMN_TIME, G_STRUCT_OFFSET (PsLayer, weight_ns) },
  { NULL, COLUMN_TIME, G_STRUCT_OFFSET (PsLayer, full_backward_ns) },
  { NULL, COLUMN_TIME, G_STRUCT_OFFSET (PsLayer, optimizer_ns) },
};

#define N_COLUMNS G_N_ELEMENTS (columns)

static const gint64 type_limits[] = {
  [COLUMN_NAME] = 0,
  [COLUMN_TIME] = PS_MAX_TIME_NS,
  [COLUMN_SIZE] = PS_MAX_SIZE_BYTES,
  [COLUMN_COUNT] = G_MAXINT64 / 4,
};

static gboolean
check_sum (const PsLayers *layers, guint column, GError **error)
{
  gint64 sum = 0, limit = type_limits[columns[column].type];

  for (guint i = 0; i < layers->n_layers; i++)
    {
      gint64 value = G_STRUCT_MEMBER (gint64, &layers->layers[i], columns[column].offset);

      if (value <= limit - sum)
        {
          sum += value;
          continue;
        }
      return ps_refuse (error, PS_ERROR_INPUT,
                        "%s: layer %u ('%s'): %s: the sum up to here is more than %" G_GINT64_FORMAT, layers->source, i,
                        layers->layers[i].name, columns[column].name != NULL ? columns[column].name : "time", limit);
    }
  return TRUE;
}

gboolean
ps_layers_check (const PsLayers *layers, GError **error)
{
  for (guint column = 0; column < N_COLUMNS; column++)
    if (columns[column].type != COLUMN_NAME && !check_sum (layers, column, error))
      return FALSE;
  return TRUE;
}

/* One file while it is read. */
typedef struct
{
  const char *where;
  guint line;
  guint n_fields;
  guint field_column[N_COLUMNS]; /* the column of each field, by the header */
  gboolean has[N_COLUMNS];
} Reader;

static char *
place (const Reader *reader)
{
  return g_strdup_printf ("%s:%u", reader->where, reader->line);
}

static char *
known_columns (void)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < N_COLUMNS && columns[i].name != NULL; i++)
    g_string_append_printf (text, "%s%s", i ? "," : "", columns[i].name);
  return g_string_free (text, FALSE);
}

static guint
find_column (const char *name)
{
  guint i = 0;

  while (i < N_COLUMNS && g_strcmp0 (columns[i].name, name) != 0)
    i++;
  return i;
}

static gboolean
read_header (Reader *reader, const char *line, GError **error)
{
  g_auto (GStrv) fields = g_strsplit (line, ",", -1);
  g_autofree char *known = known_columns ();

  for (guint i = 0; fields[i] != NULL || i < N_REQUIRED; i++)
    {
      guint column = fields[i] != NULL ? find_column (fields[i]) : N_COLUMNS;
      g_autofree char *quoted = ps_text_quote (fields[i] != NULL ? fields[i] : "");

      if (i < N_REQUIRED && column != i)
        return ps_refuse_at (place (reader), error,
                             "column %u is %s, not '%s'; the first line is "
                             "layer,time,activation_bytes,parameter_bytes",
                             i + 1, quoted, columns[i].name);
      if (column == N_COLUMNS)
        return ps_refuse_at (place (reader), error, "unknown column %s; known are: %s", quoted, known);
      if (reader->has[column])
        return ps_refuse_at (place (reader), error, "column %s appears twice", quoted);
      reader->has[column] = TRUE;
      reader->field_column[i] = column;
      reader->n_fields = i + 1;
    }
  return TRUE;
}

static gboolean
is_integer (const char *text)
{
  return *text && text[strspn (text, "0123456789")] == '\0';
}

static gboolean
read_value (const Reader *reader, guint column, const char *text, gint64 *value, GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s:%u: %s", reader->where, reader->line, columns[column].name);
  g_autofree char *printable = g_strescape (text, NULL);
  gint64 limit = type_limits[columns[column].type];
  gboolean done;

  if (strlen (printable) > 60)
    printable[60] = '\0';
  if (columns[column].type == COLUMN_COUNT || is_integer (text))
    done = ps_parse_integer (where, printable, 0, limit, value, error);
  else if (columns[column].type == COLUMN_TIME)
    done = ps_parse_time (where, printable, value, error);
  else
    done = ps_parse_size (where, printable, value, error);
  return done || ps_text_blame_input (error);
}

static gboolean
read_name (const Reader *reader, const char *text, PsLayer *layer, GError **error)
{
  g_autofree char *quoted = ps_text_quote (text);

  if (*text == '\0' || strchr (text, '"') != NULL || strlen (text) > 200)
    return ps_refuse_at (place (reader), error, "layer: %s is no name; write 1 to 200 bytes without quotes", quoted);
  for (const char *c = text; *c; c++)
    if (g_ascii_iscntrl (*c))
      return ps_refuse_at (place (reader), error, "layer: %s holds a control character", quoted);
  layer->name = g_strdup (text);
  return TRUE;
}

/* Fills the figures that the file leaves out, by the models of the header. */
static gboolean
complete (const Reader *reader, PsLayer *layer, GError **error)
{
  if (!reader->has[find_column ("forward")])
    layer->forward_ns
        = reader->has[find_column ("backward")] ? (layer->time_ns - layer->backward_ns) / 2 : layer->time_ns / 3;
  if (!reader->has[find_column ("backward")])
    layer->backward_ns = (layer->time_ns - layer->forward_ns) / 2;
  layer->weight_ns = layer->time_ns - layer->forward_ns - layer->backward_ns;
  layer->full_backward_ns = layer->backward_ns + layer->weight_ns;
  if (!reader->has[find_column ("kept_bytes")])
    layer->kept_bytes = layer->output_bytes;
  if (!reader->has[find_column ("weight_kept_bytes")])
    layer->weight_kept_bytes = layer->kept_bytes;
  if (!reader->has[find_column ("state_bytes")])
    layer->state_bytes = 4 * layer->parameter_bytes;
  if (layer->forward_ns < 0 || layer->backward_ns < 0 || layer->weight_ns < 0)
    return ps_refuse_at (place (reader), error, "forward and backward are longer than time");
  if (layer->weight_kept_bytes > layer->kept_bytes)
    return ps_refuse_at (place (reader), error,
                         "weight_kept_bytes: %" G_GINT64_FORMAT " is more than kept_bytes %" G_GINT64_FORMAT,
                         layer->weight_kept_bytes, layer->kept_bytes);
  return TRUE;
}

static gboolean
read_line (const Reader *reader, const char *line, PsLayer *layer, GError **error)
{
  g_auto (GStrv) fields = g_strsplit (line, ",", -1);

  if (g_strv_length (fields) != reader->n_fields)
    return ps_refuse_at (place (reader), error, "%u fields; the header has %u", g_strv_length (fields),
                         reader->n_fields);
  for (guint i = 0; i < reader->n_fields; i++)
    {
      guint column = reader->field_column[i];

      if (columns[column].type == COLUMN_NAME)
        {
          if (!read_name (reader, fields[i], layer, error))
            return FALSE;
        }
      else if (!read_value (reader, column, fields[i], &G_STRUCT_MEMBER (gint64, layer, columns[column].offset), error))
        return FALSE;
    }
  return complete (reader, layer, error);
}

/* The lines without their ends, of any kind; the last line may have none. */
static GStrv
split_lines (const char *text, gsize length)
{
  g_autofree char *terminated = g_strndup (text, length);

  if (terminated[length - 1] == '\n')
    terminated[length - 1] = '\0';
  GStrv lines = g_strsplit (terminated, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    if (g_str_has_suffix (lines[i], "\r"))
      lines[i][strlen (lines[i]) - 1] = '\0';
  return lines;
}

static gboolean
check_n_lines (const char *where, guint n_lines, GError **error)
{
  if (n_lines >= 2 && n_lines - 1 <= PS_MAX_LAYERS)
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: holds %u layers; give 1 to %u", where, n_lines ? n_lines - 1 : 0,
                    PS_MAX_LAYERS);
}

PsLayers *
ps_layers_parse (const char *where, const char *text, gsize length, GError **error)
{
  Reader reader = { .where = where, .line = 1 };

  if (!ps_text_check (where, text, length, MAX_LENGTH, error))
    return NULL;
  g_auto (GStrv) lines = split_lines (text, length);
  guint n_lines = g_strv_length (lines);
  if (!read_header (&reader, lines[0] != NULL ? lines[0] : "", error) || !check_n_lines (where, n_lines, error))
    return NULL;
  g_autoptr (PsLayers) layers = ps_layers_new (n_lines - 1);
  layers->has_flops = reader.has[find_column ("flops")];
  layers->source = g_strdup (where);
  for (guint i = 0; i + 1 < n_lines; i++)
    {
      reader.line = i + 2;
      if (!read_line (&reader, lines[i + 1], &layers->layers[i], error))
        return NULL;
    }
  return ps_layers_check (layers, error) ? g_steal_pointer (&layers) : NULL;
}

PsLayers *
ps_layers_read (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  return ps_read_file (path, &text, &length, error) ? ps_layers_parse (path, text, length, error) : NULL;
}
