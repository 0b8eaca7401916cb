/* partition-layers.c - chains of layers, and the strict reader of their CSV. */
#include "base/text.h"

#include <pipesim/partition.h>

#include <string.h>

#define MAX_LENGTH ((gsize)1 << 30) /* as ps_read_file has it */

PsLayers *ps_layers_new (guint n_layers)
{
  PsLayers *layers = g_new0 (PsLayers, 1);

  layers->n_layers = n_layers;
  layers->layers = g_new0 (PsLayer, n_layers);
  return layers;
}

void ps_layers_free (PsLayers *layers)
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
typedef enum {
  COLUMN_NAME,
  COLUMN_TIME,
  COLUMN_SIZE,
  COLUMN_COUNT,
} ColumnType;

#define N_REQUIRED 4

static const struct {
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

/* Checks the bounds that PsLayers promises. Errors: PS_ERROR_INPUT. */
static gboolean layers_check (const PsLayers *layers, GError **error)
{
  for (guint column = 0; column < N_COLUMNS; column++) {
    gint64 left = type_limits[columns[column].type];

    for (guint i = 0; columns[column].type != COLUMN_NAME && i < layers->n_layers; i++) {
      gint64 value = G_STRUCT_MEMBER (gint64, &layers->layers[i], columns[column].offset);

      if (value > left)
        return ps_refuse (error, PS_ERROR_INPUT,
                          "%s: layer %u ('%s'): %s: the sum up to here is more than %" G_GINT64_FORMAT, layers->source,
                          i, layers->layers[i].name, columns[column].name != NULL ? columns[column].name : "time",
                          type_limits[columns[column].type]);
      left -= value;
    }
  }
  return TRUE;
}

/* One file while it is read. */
typedef struct {
  const char *where;
  guint line;
  guint n_fields;
  guint field_column[N_COLUMNS]; /* the column of each field, by the header */
  gboolean has[N_COLUMNS];
} Reader;

static char *place (const Reader *reader)
{
  return g_strdup_printf ("%s:%u", reader->where, reader->line);
}

static guint find_column (const char *name)
{
  guint i = 0;

  while (i < N_COLUMNS && g_strcmp0 (columns[i].name, name) != 0)
    i++;
  return i;
}

static gboolean read_header (Reader *reader, const char *line, GError **error)
{
  g_auto (GStrv) fields = g_strsplit (line, ",", -1);
  g_autoptr (GString) known = g_string_new (columns[0].name);

  for (guint i = 1; columns[i].name != NULL; i++)
    g_string_append_printf (known, ",%s", columns[i].name);
  for (guint i = 0; fields[i] != NULL || i < N_REQUIRED; i++) {
    guint column = fields[i] != NULL ? find_column (fields[i]) : N_COLUMNS;
    g_autofree char *quoted = ps_text_quote (fields[i] != NULL ? fields[i] : "");

    if (i < N_REQUIRED && column != i)
      return ps_refuse_at (place (reader), error,
                           "column %u is %s, not '%s'; the first line is "
                           "layer,time,activation_bytes,parameter_bytes",
                           i + 1, quoted, columns[i].name);
    if (column == N_COLUMNS)
      return ps_refuse_at (place (reader), error, "unknown column %s; known are: %s", quoted, known->str);
    if (reader->has[column])
      return ps_refuse_at (place (reader), error, "column %s appears twice", quoted);
    reader->has[column] = TRUE;
    reader->field_column[i] = column;
    reader->n_fields = i + 1;
  }
  return TRUE;
}

static gboolean read_value (const Reader *reader, guint column, const char *text, gint64 *value, GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s:%u: %s", reader->where, reader->line, columns[column].name);
  g_autofree char *printable = g_strescape (text, NULL);
  gint64 limit = type_limits[columns[column].type];
  gboolean is_integer = *text && text[strspn (text, "0123456789")] == '\0', done;

  if (strlen (printable) > 60)
    printable[60] = '\0';
  if (columns[column].type == COLUMN_COUNT || is_integer)
    done = ps_parse_integer (where, printable, 0, limit, value, error);
  else if (columns[column].type == COLUMN_TIME)
    done = ps_parse_time (where, printable, value, error);
  else
    done = ps_parse_size (where, printable, value, error);
  return done || ps_text_blame_input (error);
}

static gboolean read_name (const Reader *reader, const char *text, PsLayer *layer, GError **error)
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
static gboolean complete (const Reader *reader, PsLayer *layer, GError **error)
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

static gboolean read_line (const Reader *reader, const char *line, PsLayer *layer, GError **error)
{
  g_auto (GStrv) fields = g_strsplit (line, ",", -1);

  if (g_strv_length (fields) != reader->n_fields)
    return ps_refuse_at (place (reader), error, "%u fields; the header has %u", g_strv_length (fields),
                         reader->n_fields);
  for (guint i = 0; i < reader->n_fields; i++) {
    guint column = reader->field_column[i];

    if (!(columns[column].type == COLUMN_NAME
              ? read_name (reader, fields[i], layer, error)
              : read_value (reader, column, fields[i], &G_STRUCT_MEMBER (gint64, layer, columns[column].offset),
                            error)))
      return FALSE;
  }
  return complete (reader, layer, error);
}

/* The lines without their ends, of any kind; the last line may have none. */
static GStrv split_lines (const char *text, gsize length)
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

PsLayers *ps_layers_parse (const char *where, const char *text, gsize length, GError **error)
{
  Reader reader = { .where = where, .line = 1 };

  if (!ps_text_check (where, text, length, MAX_LENGTH, error))
    return NULL;
  g_auto (GStrv) lines = split_lines (text, length);
  guint n_lines = g_strv_length (lines);
  if (!read_header (&reader, lines[0] != NULL ? lines[0] : "", error))
    return NULL;
  if (n_lines < 2 || n_lines - 1 > PS_MAX_LAYERS)
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: holds %u layers; give 1 to %u", where, n_lines ? n_lines - 1 : 0,
                           PS_MAX_LAYERS);
  g_autoptr (PsLayers) layers = ps_layers_new (n_lines - 1);
  layers->has_flops = reader.has[find_column ("flops")];
  layers->source = g_strdup (where);
  for (guint i = 0; i + 1 < n_lines; i++) {
    reader.line = i + 2;
    if (!read_line (&reader, lines[i + 1], &layers->layers[i], error))
      return NULL;
  }
  return layers_check (layers, error) ? g_steal_pointer (&layers) : NULL;
}

PsLayers *ps_layers_read (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  return ps_read_file (path, &text, &length, error) ? ps_layers_parse (path, text, length, error) : NULL;
}

/* Chains of layers from the formulas of a model, and from stages that were measured. */

/* The units of the model, without costs. */
static PsLayers *named_layers (const PsModel *model, const PsStageShape *units, guint n_units)
{
  PsLayers *layers = ps_layers_new (n_units);

  layers->has_flops = TRUE;
  for (guint i = 0; i < n_units; i++) {
    PsLayer *layer = &layers->layers[i];
    const PsStageShape *unit = &units[i];

    layer->name = unit->n_layers    ? g_strdup_printf ("layer %u", unit->first_layer)
                  : unit->n_encoder ? g_strdup_printf ("encoder %u", unit->first_encoder)
                                    : g_strdup (unit->embedding ? "embedding"
                                                : unit->head    ? "head"
                                                                : "mtp");
    layer->flops = ps_model_stage_flops (model, unit, PS_OP_F) + ps_model_stage_flops (model, unit, PS_OP_B)
                   + ps_model_stage_flops (model, unit, PS_OP_W);
  }
  return layers;
}

/* The figures of a layer that the costs of a stage hold. */
static PsLayer layer_from_costs (const PsCosts *costs, guint stage)
{
  const PsOpCost *f = ps_costs_op (costs, PS_OP_F, stage), *w = ps_costs_op (costs, PS_OP_W, stage);
  gint64 kept = MAX (f->take_bytes - f->give_bytes, 0);

  return (PsLayer){ .forward_ns = f->duration_ns,
                    .backward_ns = ps_costs_op (costs, PS_OP_B, stage)->duration_ns,
                    .weight_ns = w->duration_ns,
                    .full_backward_ns = ps_costs_op (costs, PS_OP_BW, stage)->duration_ns,
                    .optimizer_ns = ps_costs_op (costs, PS_OP_O, stage)->duration_ns,
                    .kept_bytes = kept,
                    .weight_kept_bytes = CLAMP (w->give_bytes - w->take_bytes, 0, kept),
                    .state_bytes = costs->stage[stage].weight_bytes };
}

static PsLayers *finish_layers (PsLayers *taken, GError **error)
{
  g_autoptr (PsLayers) layers = taken;

  for (guint i = 0; i < layers->n_layers; i++) {
    PsLayer *layer = &layers->layers[i];

    layer->time_ns = layer->forward_ns + layer->backward_ns + layer->weight_ns;
    layer->weight_kept_bytes = MIN (layer->weight_kept_bytes, layer->kept_bytes);
  }
  return layers_check (layers, error) ? g_steal_pointer (&layers) : NULL;
}

PsLayers *ps_layers_from_units (const PsModel *model, const PsCosts *costs, GError **error)
{
  PsLayers *layers = named_layers (model, costs->shapes, costs->n_stages);

  layers->source = g_strdup (costs->source);
  layers->time_origin = costs->time_origin;
  layers->memory_origin = costs->memory_origin;
  for (guint i = 0; i < layers->n_layers; i++) {
    PsLayer *layer = &layers->layers[i], named = *layer;

    *layer = layer_from_costs (costs, i);
    layer->name = named.name;
    layer->flops = named.flops;
    layer->parameter_bytes = costs->stage[i].version_bytes;
    layer->output_bytes = costs->message_bytes[ps_transfer_forward (costs, i)];
  }
  return finish_layers (layers, error);
}

/* From measured stages */

/* sum * part / whole, without a product that overflows. */
static gint64 share (gint64 sum, guint part, guint whole)
{
  return sum / whole * part + sum % whole * part / whole;
}

/* Derives one figure of all layers. A layer is the mean of the layers in the stages between first and last. Embedding
 * and head are the rest of the first and the last stage beyond their layers. */
static void derive (const PsCosts *costs, const PsLayer *stages, gsize figure, PsLayers *layers)
{
  const PsStageShape *shapes = costs->shapes;
  guint last = costs->n_stages - 1, n_layers = 0;
  gint64 first_ns = G_STRUCT_MEMBER (gint64, &stages[0], figure), sum = 0;
  gint64 last_ns = G_STRUCT_MEMBER (gint64, &stages[last], figure);

  for (guint s = 1; s < last; s++) {
    sum += G_STRUCT_MEMBER (gint64, &stages[s], figure);
    n_layers += shapes[s].n_layers;
  }
  g_assert (n_layers > 0); /* there are 3 stages at least */
  for (guint i = 1; i + 1 < layers->n_layers; i++)
    G_STRUCT_MEMBER (gint64, &layers->layers[i], figure) = (sum + n_layers / 2) / n_layers;
  G_STRUCT_MEMBER (gint64, &layers->layers[0], figure) = MAX (first_ns - share (sum, shapes[0].n_layers, n_layers), 0);
  G_STRUCT_MEMBER (gint64, &layers->layers[layers->n_layers - 1], figure)
      = MAX (last_ns - share (sum, shapes[last].n_layers, n_layers), 0);
}

/* The coarsest cut of the profile that has a stage without embedding and head. Where there is none, the first error is
 * the most useful: it says which stages to measure. */
static PsCosts *measured_stages (PsCostDb *db, const char *profile, const PsModel *model, guint n_devices,
                                 GError **error)
{
  guint chunks = n_devices >= 3 ? 1 : n_devices == 2 ? 2 : 3;
  g_autoptr (GError) first = NULL;

  for (; n_devices * chunks <= MAX (model->layers, 3); chunks++) {
    g_autoptr (GError) reason = NULL;
    PsCosts *costs = ps_costdb_costs (db, profile, model, n_devices, chunks, &reason);

    if (costs != NULL)
      return costs;
    if (first == NULL)
      first = g_steal_pointer (&reason);
  }
  if (first != NULL)
    g_propagate_error (error, g_steal_pointer (&first));
  else
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
                 "model '%s': its %u layers cannot have been measured as stages of %u devices; layers need 3 stages at "
                 "least",
                 model->name, model->layers, n_devices);
  return NULL;
}

static PsLayers *layers_from_stages (const PsModel *model, const PsCosts *costs, GError **error)
{
  static const gsize figures[]
      = { G_STRUCT_OFFSET (PsLayer, forward_ns),        G_STRUCT_OFFSET (PsLayer, backward_ns),
          G_STRUCT_OFFSET (PsLayer, weight_ns),         G_STRUCT_OFFSET (PsLayer, full_backward_ns),
          G_STRUCT_OFFSET (PsLayer, optimizer_ns),      G_STRUCT_OFFSET (PsLayer, kept_bytes),
          G_STRUCT_OFFSET (PsLayer, weight_kept_bytes), G_STRUCT_OFFSET (PsLayer, state_bytes) };
  guint n;
  g_autofree PsStageShape *units = ps_model_units (model, &n);
  g_autofree PsLayer *stages = g_new (PsLayer, costs->n_stages);
  PsLayers *layers = named_layers (model, units, n);

  layers->source = g_strdup_printf ("%u stages of %s", costs->n_stages, costs->source);
  layers->time_origin = layers->memory_origin = PS_ORIGIN_INTERPOLATED;
  for (guint i = 0; i < n; i++) {
    layers->layers[i].parameter_bytes
        = ps_model_stage_parameters (model, &units[i]) * ps_precision_bytes (model->precision);
    layers->layers[i].output_bytes = i + 1 < n ? ps_model_stage_output_bytes (model, &units[i]) : 0;
  }
  for (guint s = 0; s < costs->n_stages; s++)
    stages[s] = layer_from_costs (costs, s);
  for (guint k = 0; k < G_N_ELEMENTS (figures); k++)
    derive (costs, stages, figures[k], layers);
  return finish_layers (layers, error);
}

PsLayers *ps_layers_costdb (PsCostDb *db, const char *profile, const PsModel *model, guint n_devices, PsLink *link,
                            GError **error)
{
  g_autoptr (PsModel) stored = model != NULL ? NULL : ps_costdb_model (db, profile, error);

  model = model != NULL ? model : stored;
  if (model == NULL)
    return NULL;
  if (model->layers + 2 > PS_MAX_LAYERS)
    return ps_refuse_null (error, PS_ERROR_USAGE, "model '%s': %u layers, embedding and head; give at most %u in all",
                           model->name, model->layers, PS_MAX_LAYERS);
  g_autoptr (PsCosts) costs = measured_stages (db, profile, model, n_devices, error);
  if (costs == NULL)
    return NULL;
  if (costs->loop_only)
    return ps_refuse_null (error, PS_ERROR_INPUT,
                           "%s: costs under unequal shares do not give the time of a single layer", costs->source);
  if (!ps_costs_check (costs, 1, error))
    return NULL;
  gint64 ns = n_devices > 1 ? costs->transfer_ns[ps_transfer_forward (costs, 0)] : 0;
  if (link != NULL)
    *link = (PsLink){ .bandwidth = ns > 0 ? (double)ps_model_boundary_bytes (model) * 1e9 / (double)ns : 0 };
  return layers_from_stages (model, costs, error);
}
