/* checkpoint.c - names the arrays of a model, finds them in a file, and moves them from and to devices. */
#include "runtime.h"

#include <pipesim/formats.h>

#include <string.h>

#define FORMAT "checkpoint/1"
#define HEADER_KEY "pipesim"

/* One parameter of the model: rows 0 is a vector. */
typedef struct {
  PsTensorShape shape;
  gboolean transposed;            /* the file has the columns of the device's matrix as rows */
  gsize first[PS_N_STATE_ARRAYS]; /* its bytes in the file's arrays */
} Parameter;

struct _PsCheckpoint {
  PsModel *model;
  GArray *parameters; /* of Parameter, in the order of a device that holds the whole model */
  GMappedFile *file;  /* loaded; NULL: new */
  char *room;         /* new: for the header, then for the arrays */
  gsize room_header;
  const char *arrays; /* in file or room */
  gsize n_bytes;      /* of arrays */
  guint step;
  char *data;
};

static void parameter_clear (gpointer parameter)
{
  g_free (((Parameter *)parameter)->shape.name);
}

static gsize count (const Parameter *parameter)
{
  return MAX (parameter->shape.rows, 1) * parameter->shape.columns;
}

/* One row of a table of parameters. */
typedef struct {
  const char *name; /* NULL: the model does not have it */
  gsize rows, columns;
} Row;

static void append_rows (GArray *parameters, const char *prefix, const Row *rows, guint n, gboolean transposed)
{
  for (guint i = 0; i < n; i++) {
    Parameter parameter = { .shape = { .rows = rows[i].rows, .columns = rows[i].columns } };

    if (rows[i].name == NULL)
      continue;
    parameter.transposed = rows[i].rows > 0 && (transposed || g_str_equal (rows[i].name, "lm_head.weight"));
    if (parameter.transposed)
      parameter.shape = (PsTensorShape){ .rows = rows[i].columns, .columns = rows[i].rows };
    parameter.shape.name = g_strconcat (prefix, rows[i].name, NULL);
    g_array_append_val (parameters, parameter);
  }
}

/* The order is that of the devices: train/transformer-stage.h. */
static void append_layer (GArray *parameters, const PsModel *model, guint layer)
{
  const gboolean gelu = model->mlp == PS_MLP_GELU;
  const gsize h = model->hidden, f = model->feed_forward, up = gelu ? f : 2 * f;
  const gsize qkv = (gsize)(ps_model_query_width (model) + 2 * ps_model_kv_width (model));
  g_autofree char *prefix = g_strdup_printf (gelu ? "transformer.h.%u." : "model.layers.%u.", layer);
  const Row rows[] = {
    { gelu ? "ln_1.weight" : "input_layernorm.weight", 0, h },
    { gelu ? "ln_1.bias" : NULL, 0, h },
    { gelu ? "attn.c_attn.weight" : "self_attn.qkv_proj.weight", h, qkv },
    { gelu ? "attn.c_attn.bias" : NULL, 0, qkv },
    { gelu ? "attn.c_proj.weight" : "self_attn.o_proj.weight", h, h },
    { gelu ? "attn.c_proj.bias" : NULL, 0, h },
    { gelu ? "ln_2.weight" : "post_attention_layernorm.weight", 0, h },
    { gelu ? "ln_2.bias" : NULL, 0, h },
    { gelu ? "mlp.c_fc.weight" : "mlp.gate_up_proj.weight", h, up },
    { gelu ? "mlp.c_fc.bias" : NULL, 0, up },
    { gelu ? "mlp.c_proj.weight" : "mlp.down_proj.weight", f, h },
    { gelu ? "mlp.c_proj.bias" : NULL, 0, h },
  };

  append_rows (parameters, prefix, rows, G_N_ELEMENTS (rows), !gelu);
}

static GArray *list_parameters (const PsModel *model, const PsStageShape *shape)
{
  GArray *parameters = g_array_new (FALSE, FALSE, sizeof (Parameter));
  const gboolean gelu = model->mlp == PS_MLP_GELU;
  const gsize h = model->hidden;
  const Row embedding[] = { { gelu ? "transformer.wte.weight" : "model.embed_tokens.weight", model->vocabulary, h },
                            { gelu ? "transformer.wpe.weight" : NULL, model->sequence, h } };
  const Row head[] = { { gelu ? "transformer.ln_f.weight" : "model.norm.weight", 0, h },
                       { gelu ? "transformer.ln_f.bias" : NULL, 0, h },
                       { "lm_head.weight", h, model->vocabulary } };

  g_array_set_clear_func (parameters, parameter_clear);
  if (shape->embedding)
    append_rows (parameters, "", embedding, G_N_ELEMENTS (embedding), FALSE);
  for (guint i = 0; i < shape->n_layers; i++)
    append_layer (parameters, model, shape->first_layer + i);
  if (shape->head)
    append_rows (parameters, "", head, G_N_ELEMENTS (head), FALSE);
  return parameters;
}

/* The stage's first parameter among those of the model, and how many there are. */
static Parameter *find_stage (const PsCheckpoint *checkpoint, const PsStageShape *shape, guint *n)
{
  const PsStageShape before = { .n_layers = shape->first_layer, .embedding = !shape->embedding };
  g_autoptr (GArray) own = list_parameters (checkpoint->model, shape);
  g_autoptr (GArray) others = list_parameters (checkpoint->model, &before);
  const gboolean is_last = shape->n_layers == 0 && !shape->embedding;

  *n = own->len;
  return (Parameter *)(gpointer)checkpoint->parameters->data
         + (is_last ? checkpoint->parameters->len - own->len : others->len);
}

static Parameter *parameter_at (const PsCheckpoint *checkpoint, guint i)
{
  return &g_array_index (checkpoint->parameters, Parameter, i);
}

static char *array_name (const char *parameter, guint array)
{
  static const char *const prefixes[PS_N_STATE_ARRAYS] = { "", "optimizer.exp_avg.", "optimizer.exp_avg_sq." };

  return g_strconcat (prefixes[array], parameter, NULL);
}

static PsCheckpoint *checkpoint_new (const PsModel *model)
{
  PsCheckpoint *checkpoint = g_new0 (PsCheckpoint, 1);
  const PsStageShape whole = ps_model_whole (model);

  checkpoint->model = ps_model_copy (model);
  checkpoint->parameters = list_parameters (model, &whole);
  return checkpoint;
}

void ps_checkpoint_free (PsCheckpoint *checkpoint)
{
  if (checkpoint == NULL)
    return;
  ps_model_free (checkpoint->model);
  g_array_unref (checkpoint->parameters);
  g_clear_pointer (&checkpoint->file, g_mapped_file_unref);
  g_free (checkpoint->room);
  g_free (checkpoint->data);
  g_free (checkpoint);
}

/* Free with g_free. */
static char *make_header (const PsCheckpoint *checkpoint, guint step, gsize *n_bytes)
{
  const guint n = checkpoint->parameters->len;
  g_autofree char *steps = g_strdup_printf ("%u", step);
  const char *metadata[] = { "format", "pt", HEADER_KEY, FORMAT, "step", steps, "data", checkpoint->data, NULL };
  g_autofree PsTensorShape *shapes = g_new (PsTensorShape, (gsize)n * PS_N_STATE_ARRAYS);

  for (guint i = 0; i < n * PS_N_STATE_ARRAYS; i++) {
    shapes[i] = parameter_at (checkpoint, i % n)->shape;
    shapes[i].name = array_name (shapes[i].name, i / n);
  }
  char *header = ps_safetensors_header (shapes, n * PS_N_STATE_ARRAYS, metadata, n_bytes);
  for (guint i = 0; i < n * PS_N_STATE_ARRAYS; i++)
    g_free (shapes[i].name);
  return header;
}

PsCheckpoint *ps_checkpoint_new (const PsModel *model, const char *data)
{
  PsCheckpoint *checkpoint = checkpoint_new (model);

  checkpoint->data = g_strdup (data);
  for (guint array = 0; array < PS_N_STATE_ARRAYS; array++)
    for (guint i = 0; i < checkpoint->parameters->len; i++) {
      parameter_at (checkpoint, i)->first[array] = checkpoint->n_bytes;
      checkpoint->n_bytes += count (parameter_at (checkpoint, i)) * sizeof (float);
    }
  g_free (make_header (checkpoint, G_MAXUINT, &checkpoint->room_header));
  checkpoint->room = g_malloc (checkpoint->room_header + checkpoint->n_bytes);
  checkpoint->arrays = checkpoint->room + checkpoint->room_header;
  return checkpoint;
}

gboolean ps_checkpoint_write (PsCheckpoint *checkpoint, const char *path, guint step, GError **error)
{
  gsize n_bytes;
  g_autofree char *header = make_header (checkpoint, step, &n_bytes);
  char *begin = checkpoint->room + checkpoint->room_header - n_bytes;

  memcpy (begin, header, n_bytes);
  return ps_write_file (path, begin, (gssize)(n_bytes + checkpoint->n_bytes), error);
}

static gboolean read_metadata (PsCheckpoint *checkpoint, const char *path, const PsSafetensors *file, GError **error)
{
  const char *format = g_hash_table_lookup (file->metadata, HEADER_KEY);
  const char *step = g_hash_table_lookup (file->metadata, "step");
  gint64 value;

  if (g_strcmp0 (format, FORMAT) != 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: is no checkpoint of pipesim exec: its metadata lacks '%s': '%s'",
                      path, HEADER_KEY, FORMAT);
  if (step == NULL || !ps_parse_integer (path, step, 0, G_MAXINT32, &value, NULL))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: metadata: step is no number", path);
  checkpoint->step = (guint)value;
  checkpoint->data = g_strdup (g_hash_table_lookup (file->metadata, "data"));
  return TRUE;
}

/* All tensors of the model are there, and no other. */
static gboolean find_arrays (PsCheckpoint *checkpoint, const char *path, const PsSafetensors *file, GError **error)
{
  const guint n = checkpoint->parameters->len * PS_N_STATE_ARRAYS;

  for (guint i = 0; i < n; i++) {
    Parameter *parameter = parameter_at (checkpoint, i / PS_N_STATE_ARRAYS);
    const gsize rows = parameter->shape.rows, columns = parameter->shape.columns;
    g_autofree char *name = array_name (parameter->shape.name, i % PS_N_STATE_ARRAYS);
    const PsTensorEntry *entry = ps_safetensors_find (file, name);

    if (entry == NULL)
      return ps_refuse (error, PS_ERROR_INPUT, "%s: has no tensor %s", path, name);
    if (!g_str_equal (entry->type, "F32") || entry->n_dimensions != (rows > 0 ? 2 : 1)
        || (rows > 0 && entry->shape[0] != (gint64)rows) || entry->shape[entry->n_dimensions - 1] != (gint64)columns)
      return ps_refuse (error, PS_ERROR_INPUT,
                        "%s: tensor %s: is not F32 of the model's shape, %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT, path,
                        name, MAX (rows, 1), columns);
    parameter->first[i % PS_N_STATE_ARRAYS] = entry->first;
  }
  return file->entries->len == n
         || ps_refuse (error, PS_ERROR_INPUT, "%s: has %u tensors; the model has %u", path, file->entries->len, n);
}

PsCheckpoint *ps_checkpoint_load (const char *path, const PsModel *model, GError **error)
{
  g_autoptr (PsCheckpoint) checkpoint = checkpoint_new (model);
  g_autoptr (GError) cause = NULL;
  g_autoptr (PsSafetensors) file = NULL;

  checkpoint->file = g_mapped_file_new (path, FALSE, &cause);
  if (checkpoint->file == NULL)
    return ps_refuse_null (error, PS_ERROR_IO, "%s: cannot read: %s", path, cause->message);
  const char *bytes = g_mapped_file_get_contents (checkpoint->file);
  file = ps_safetensors_parse (path, bytes, g_mapped_file_get_length (checkpoint->file), error);
  if (file == NULL || !read_metadata (checkpoint, path, file, error) || !find_arrays (checkpoint, path, file, error))
    return NULL;
  checkpoint->arrays = bytes + file->header_bytes;
  return g_steal_pointer (&checkpoint);
}

guint ps_checkpoint_step (const PsCheckpoint *checkpoint)
{
  return checkpoint->step;
}

const char *ps_checkpoint_data (const PsCheckpoint *checkpoint)
{
  return checkpoint->data;
}

/* Copies all parameters of a stage between the file's arrays and a device's, where some matrices have the
 * file's columns as rows. The file's floats may lie on any byte. */
static void copy_stage (const PsCheckpoint *checkpoint, const PsStageShape *shape, gboolean to_file,
                        const PsStageState *state)
{
  guint n;
  const Parameter *first = find_stage (checkpoint, shape, &n);

  for (guint array = 0; array < PS_N_STATE_ARRAYS; array++) {
    float *device = state->array[array];

    for (const Parameter *parameter = first; parameter < first + n; device += count (parameter), parameter++) {
      const gsize rows = parameter->transposed ? parameter->shape.columns : 1, columns = count (parameter) / rows;
      char *file = (char *)checkpoint->arrays + parameter->first[array];

      if (rows == 1)
        memcpy (to_file ? file : (char *)device, to_file ? (char *)device : file, columns * sizeof *device);
      for (gsize row = 0; rows > 1 && row < rows; row++)
        for (gsize column = 0; column < columns; column++) {
          char *there = file + (column * rows + row) * sizeof *device, *here = (char *)&device[row * columns + column];

          memcpy (to_file ? there : here, to_file ? here : there, sizeof *device);
        }
    }
  }
}

/* Room for the state of a stage, in one block. Free array[0] with g_free. */
static PsStageState state_new (const PsCheckpoint *checkpoint, const PsStageShape *shape)
{
  PsStageState state = { .n_updates = checkpoint->step };
  guint n;
  const Parameter *first = find_stage (checkpoint, shape, &n);

  for (guint i = 0; i < n; i++)
    state.n += count (&first[i]);
  state.array[0] = g_new (float, MAX (state.n * PS_N_STATE_ARRAYS, 1));
  for (guint array = 1; array < PS_N_STATE_ARRAYS; array++)
    state.array[array] = state.array[0] + array * state.n;
  return state;
}

gboolean ps_checkpoint_take (PsCheckpoint *checkpoint, PsDevice *device, guint stage, const PsStageShape *shape,
                             gboolean fills, PsCheckpointGather gather, gpointer data, GError **error)
{
  PsStageState state = state_new (checkpoint, shape);
  gboolean done = device->class->read_state (device, stage, &state, error);

  for (guint i = 0; done && i < PS_N_STATE_ARRAYS; i++)
    done = gather (state.array[i], state.n, i, data, error);
  if (done && fills)
    copy_stage (checkpoint, shape, TRUE, &state);
  g_free (state.array[0]);
  return done;
}

gboolean ps_checkpoint_give (const PsCheckpoint *checkpoint, PsDevice *device, guint stage, const PsStageShape *shape,
                             GError **error)
{
  PsStageState state = state_new (checkpoint, shape);

  copy_stage (checkpoint, shape, FALSE, &state);
  gboolean done = device->class->write_state (device, stage, &state, error);
  g_free (state.array[0]);
  return done;
}

gpointer ps_checkpoint_part (PsCheckpoint *checkpoint, const PsStageShape *shape, guint array, gsize *n_bytes)
{
  guint n;
  const Parameter *first = find_stage (checkpoint, shape, &n);

  *n_bytes = 0;
  for (guint i = 0; i < n; i++)
    *n_bytes += count (&first[i]) * sizeof (float);
  return n > 0 ? (char *)checkpoint->arrays + first->first[array] : NULL;
}
