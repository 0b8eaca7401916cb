/* test-checkpoint.c - files of arrays (formats.h): what their header may say, and what the checkpoints of a
 * training hold, read by a reader of this test alone. */
#include "folder-rig.h"
#include "transformer-reference.h"
#include "run-rig.h"

#include "train/data.h"

#include <pipesim/formats.h>

#include <string.h>

/* The header in a file with n_bytes of arrays. */
static PsSafetensors *parse (const char *header, gsize n_bytes, GError **error)
{
  GByteArray *file = g_byte_array_new ();
  const guint64 length = GUINT64_TO_LE ((guint64)strlen (header));

  g_byte_array_append (file, (const guint8 *)&length, sizeof length);
  g_byte_array_append (file, (const guint8 *)header, (guint)strlen (header));
  g_byte_array_set_size (file, file->len + (guint)n_bytes);
  PsSafetensors *parsed = ps_safetensors_parse ("x", file->data, file->len, error);
  g_byte_array_unref (file);
  return parsed;
}

/* Bytes of one number of each type, as the format names them; the shape counts them. */
static void test_types (void)
{
  static const struct {
    const char *type;
    gsize bytes;
  } rows[] = { { "F64", 8 }, { "I64", 8 }, { "U64", 8 },  { "F32", 4 },     { "I32", 4 },
               { "U32", 4 }, { "F16", 2 }, { "I16", 2 },  { "BF16", 2 },    { "U16", 2 },
               { "I8", 1 },  { "U8", 1 },  { "BOOL", 1 }, { "F8_E4M3", 1 }, { "F8_E5M2", 1 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (int more = -1; more <= 1; more++) {
      const gsize n_bytes = 6 * rows[i].bytes + (gsize)more;
      g_autofree char *header = g_strdup_printf (
          "{\"a\":{\"dtype\":\"%s\",\"shape\":[2,3],\"data_offsets\":[0,%" G_GSIZE_FORMAT "]}}", rows[i].type, n_bytes);

      if (more != 0)
        refused (parse (header, n_bytes, &error), PS_ERROR_INPUT,
                 "x: tensor a: its * bytes are not its type and shape");
      else {
        g_autoptr (PsSafetensors) file = fine (parse (header, n_bytes, &error));
        const PsTensorEntry *a = ps_safetensors_find (file, "a");

        g_assert_cmpstr (a->type, ==, rows[i].type);
        g_assert_cmpuint (a->n_dimensions, ==, 2);
        g_assert_cmpint (a->shape[0], ==, 2);
        g_assert_cmpint (a->shape[1], ==, 3);
        g_assert_cmpuint (a->n_bytes, ==, n_bytes);
        g_assert_cmpuint (file->header_bytes, ==, 8 + strlen (header));
        g_assert_null (ps_safetensors_find (file, "b"));
      }
    }
}

#define A(offsets) "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" offsets "}"
#define B(offsets) "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" offsets "}"

static void test_headers (void)
{
  static const struct {
    const char *header;
    gsize n_bytes;
    const char *message; /* NULL: it is one */
  } rows[] = {
    { "{}", 0, NULL },
    { "{}", 1, "x: 1 bytes after the last tensor" },
    { "[]", 0, "x: its header is no object" },
    { "", 0, "x:*" },
    { "{" A ("[0,4]") "}", 4, NULL },
    { "{" A ("[0,4]") "}", 3, "x: tensor a: bytes 0 to 4 do not follow the others, or go beyond the file's end" },
    { "{" A ("[0,4]") "}", 5, "x: 1 bytes after the last tensor" },
    { "{" A ("[0,4]") "," B ("[4,6]") "}", 5, "x: tensor b: bytes 4 to 6 do not follow*" },
    { "{" A ("[2,6]") "," B ("[0,2]") "}", 6, NULL }, /* in any order */
    { "{" A ("[3,7]") "," B ("[0,2]") "}", 7, "x: tensor a: bytes 3 to 7 do not follow*" },
    { "{" A ("[1,5]") "," B ("[0,2]") "}", 6, "x: tensor a: bytes 1 to 5 do not follow*" },
    { "{" A ("[0,4]") "," A ("[4,8]") "}", 8, "x: tensor a: is there twice" },
    { "{\"a\":3}", 0, "x: tensor a: is no object" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, "x: tensor a: no valid data_offsets" },
    { "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", 4, "x: tensor a: no valid shape" },
    { "{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "x: tensor a: no valid dtype" },
    { "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
      "x: tensor a: no valid dtype" },
    { "{\"a\":{\"dtype\":\"U9\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "x: tensor a: no valid dtype" },
    { "{\"a\":{\"dtype\":8,\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "x: tensor a: no valid dtype" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":4,\"data_offsets\":[0,4]}}", 4, "x: tensor a: no valid shape" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[-4],\"data_offsets\":[0,4]}}", 4, "x: tensor a: no valid shape" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[\"4\"],\"data_offsets\":[0,4]}}", 4, "x: tensor a: no valid shape" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, NULL }, /* one number */
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[0,9],\"data_offsets\":[0,0]}}", 0, NULL },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,2],\"data_offsets\":[0,2]}}", 2, NULL },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,2]}}", 2,
      "x: tensor a: no valid shape" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967297],\"data_offsets\":[0,4294967296]}}", 2,
      "x: tensor a: its * bytes are not its type and shape" }, /* 2^64 + 2^32 */
    { "{" A ("[0]") "}", 4, "x: tensor a: no valid data_offsets" },
    { "{" A ("[0,4,4]") "}", 4, "x: tensor a: no valid data_offsets" },
    { "{" A ("[4,0]") "}", 4, "x: tensor a: no valid data_offsets" },
    { "{" A ("[-1,3]") "}", 4, "x: tensor a: no valid data_offsets" },
    { "{" A ("4") "}", 4, "x: tensor a: no valid data_offsets" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"more\":1}}", 4,
      "x: tensor a: unknown key 'more'" },
    { "{\"__metadata__\":{\"k\":\"v\"}," A ("[0,4]") "}", 4, NULL },
    { "{\"__metadata__\":{\"k\":3}}", 0, "x: __metadata__: k: is no text" },
    { "{\"__metadata__\":[]}", 0, "x: __metadata__: is no object" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_test_message ("%s", rows[i].header);
    if (rows[i].message != NULL)
      refused (parse (rows[i].header, rows[i].n_bytes, &error), PS_ERROR_INPUT, rows[i].message);
    else {
      g_autoptr (PsSafetensors) file = fine (parse (rows[i].header, rows[i].n_bytes, &error));

      g_assert_cmpint (g_hash_table_size (file->metadata), ==, strstr (rows[i].header, "__metadata__") != NULL);
    }
  }
  g_autoptr (PsSafetensors) file = fine (parse ("{\"__metadata__\":{\"k\":\"v\"}}", 0, &error));
  g_assert_cmpstr (g_hash_table_lookup (file->metadata, "k"), ==, "v");
  /* A file that ends within the length or the header is the beginning of one; eight bytes that say 0 are a header of
   * nothing. */
  static const guint8 zero[8] = { 0 }, one[9] = { 1 }, two[8] = { 2 };
  for (gsize n = 0; n < 8; n++)
    refused (ps_safetensors_parse ("x", zero, n, &error), PS_ERROR_INPUT, "x: is no safetensors file, or only *");
  refused (ps_safetensors_parse ("x", two, 8, &error), PS_ERROR_INPUT, "x: is no safetensors file, or only *");
  refused (ps_safetensors_parse ("x", zero, 8, &error), PS_ERROR_INPUT, "x:*");
  refused (ps_safetensors_parse ("x", one, 9, &error), PS_ERROR_INPUT, "x:*");
}

/* A reader of these files that shares nothing with the program's: finds the text that names a tensor. */
typedef struct {
  char *bytes;
  gsize n_bytes, begin; /* of the arrays */
} File;

static void file_clear (File *file)
{
  g_free (file->bytes);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (File, file_clear)

static void file_read (File *file, const char *path)
{
  guint64 length = 0;

  g_assert_true (g_file_get_contents (path, &file->bytes, &file->n_bytes, NULL));
  for (guint i = 0; i < 8; i++)
    length |= (guint64)(guint8)file->bytes[i] << (8 * i);
  g_assert_cmpuint (length % 8, ==, 0); /* so that floats lie on multiples of their size */
  g_assert_cmpuint (length, <=, file->n_bytes - 8);
  file->begin = 8 + (gsize)length;
}

/* The numbers of a tensor of that shape, "2,3"; *n of them. Free with g_free. */
static double *file_tensor (const File *file, const char *name, const char *shape, gsize *n)
{
  g_autofree char *header = g_strndup (file->bytes + 8, file->begin - 8);
  g_autofree char *start = g_strdup_printf ("\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[", name, shape);
  const char *at = strstr (header, start);
  char *end;

  if (at == NULL)
    g_error ("no %s in %s", start, header);
  const guint64 first = g_ascii_strtoull (at + strlen (start), &end, 10), last = g_ascii_strtoull (end + 1, &end, 10);
  g_assert_cmpint (*end, ==, ']');
  g_assert_cmpuint (last, <=, file->n_bytes - file->begin);
  *n = (gsize)(last - first) / sizeof (float);
  double *values = g_new (double, *n);
  for (gsize i = 0; i < *n; i++) {
    float value;

    memcpy (&value, file->bytes + file->begin + first + i * sizeof value, sizeof value);
    values[i] = value;
  }
  return values;
}

/* One tensor, by the names of transformers' GPT-2 and Phi-3. A Linear of PyTorch has a row for each output, a Conv1D of
 * GPT-2 and a device one for each input: turned. */
typedef struct {
  const char *name;    /* with %u for the layer where it is of one */
  guint rows, columns; /* of a device's matrix; rows 0: a vector */
  gboolean turned;
} Named;

static void append_tensor (GArray *all, const File *file, const char *prefix, const Named *named, guint layer)
{
  g_autofree char *number = g_strdup_printf ("%u", layer), *shape = NULL, *whole = NULL;
  g_auto (GStrv) parts = g_strsplit (named->name, "%u", -1);
  g_autofree char *name = g_strjoinv (number, parts);
  gsize n;

  whole = g_strconcat (prefix, name, NULL);
  if (named->rows == 0)
    shape = g_strdup_printf ("%u", named->columns);
  else
    shape = g_strdup_printf ("%u,%u", named->turned ? named->columns : named->rows,
                             named->turned ? named->rows : named->columns);
  g_autofree double *values = file_tensor (file, whole, shape, &n);
  g_assert_cmpuint (n, ==, MAX (named->rows, 1) * named->columns);
  for (guint row = 0; named->turned && row < named->rows; row++)
    for (guint column = 0; column < named->columns; column++)
      g_array_append_val (all, values[column * named->rows + row]);
  if (!named->turned)
    g_array_append_vals (all, values, (guint)n);
}

/* All numbers of a file in the order of a device that holds the whole model. prefix: "", or that of a moment. */
static GArray *file_numbers (const File *file, const PsModel *model, const char *prefix)
{
  const guint h = model->hidden, f = model->feed_forward, v = model->vocabulary, head = h / model->heads;
  const guint c = model->kv_heads * head;
  const Named gpt[] = { { "transformer.h.%u.ln_1.weight", 0, h, FALSE },
                        { "transformer.h.%u.ln_1.bias", 0, h, FALSE },
                        { "transformer.h.%u.attn.c_attn.weight", h, 3 * h, FALSE },
                        { "transformer.h.%u.attn.c_attn.bias", 0, 3 * h, FALSE },
                        { "transformer.h.%u.attn.c_proj.weight", h, h, FALSE },
                        { "transformer.h.%u.attn.c_proj.bias", 0, h, FALSE },
                        { "transformer.h.%u.ln_2.weight", 0, h, FALSE },
                        { "transformer.h.%u.ln_2.bias", 0, h, FALSE },
                        { "transformer.h.%u.mlp.c_fc.weight", h, f, FALSE },
                        { "transformer.h.%u.mlp.c_fc.bias", 0, f, FALSE },
                        { "transformer.h.%u.mlp.c_proj.weight", f, h, FALSE },
                        { "transformer.h.%u.mlp.c_proj.bias", 0, h, FALSE } };
  const Named phi[] = { { "model.layers.%u.input_layernorm.weight", 0, h, FALSE },
                        { "model.layers.%u.self_attn.qkv_proj.weight", h, h + 2 * c, TRUE },
                        { "model.layers.%u.self_attn.o_proj.weight", h, h, TRUE },
                        { "model.layers.%u.post_attention_layernorm.weight", 0, h, FALSE },
                        { "model.layers.%u.mlp.gate_up_proj.weight", h, 2 * f, TRUE },
                        { "model.layers.%u.mlp.down_proj.weight", f, h, TRUE } };
  const Named gpt_ends[] = { { "transformer.wte.weight", v, h, FALSE },
                             { "transformer.wpe.weight", model->sequence, h, FALSE },
                             { "transformer.ln_f.weight", 0, h, FALSE },
                             { "transformer.ln_f.bias", 0, h, FALSE },
                             { "lm_head.weight", h, v, TRUE } };
  const Named phi_ends[] = { { "model.embed_tokens.weight", v, h, FALSE },
                             { "model.norm.weight", 0, h, FALSE },
                             { "lm_head.weight", h, v, TRUE } };
  const gboolean gelu = model->mlp == PS_MLP_GELU;
  const Named *ends = gelu ? gpt_ends : phi_ends, *layer = gelu ? gpt : phi;
  GArray *all = g_array_new (FALSE, FALSE, sizeof (double));

  for (guint i = 0; i < (gelu ? 2 : 1); i++)
    append_tensor (all, file, prefix, &ends[i], 0);
  for (guint i = 0; i < model->layers; i++)
    for (guint k = 0; k < (gelu ? G_N_ELEMENTS (gpt) : G_N_ELEMENTS (phi)); k++)
      append_tensor (all, file, prefix, &layer[k], i);
  for (guint i = gelu ? 2 : 1; i < (gelu ? G_N_ELEMENTS (gpt_ends) : G_N_ELEMENTS (phi_ends)); i++)
    append_tensor (all, file, prefix, &ends[i], 0);
  return all;
}

/* A device whose state of a stage is the number of each parameter in the model, plus a million for each moment. */
typedef struct {
  PsDevice base;
  gsize first;          /* of the model's parameters */
  PsStageState checked; /* what write_state has found: n of it */
} Counting;

static float number_of (const Counting *device, guint array, gsize i)
{
  return (float)(1000000 * array + device->first + i);
}

static gboolean count_read (PsDevice *base, guint stage, PsStageState *state, GError **error)
{
  Counting *device = (Counting *)base;

  for (guint array = 0; array < PS_N_STATE_ARRAYS; array++)
    for (gsize i = 0; i < state->n; i++)
      state->array[array][i] = number_of (device, array, i);
  device->checked = *state;
  return TRUE;
}

static gboolean count_write (PsDevice *base, guint stage, const PsStageState *state, GError **error)
{
  Counting *device = (Counting *)base;

  for (guint array = 0; array < PS_N_STATE_ARRAYS; array++)
    for (gsize i = 0; i < state->n; i++)
      g_assert_cmpfloat (state->array[array][i], ==, number_of (device, array, i));
  device->checked = *state;
  return TRUE;
}

static const PsDeviceClass counting_class
    = { .name = "counting", .read_state = count_read, .write_state = count_write };

static gboolean gather_nothing (float *values, gsize n, PsStateArray array, gpointer n_calls, GError **error)
{
  ++*(guint *)n_calls;
  return TRUE;
}

/* Stages take and give the same numbers, and the file has each where its name and shape say, for weights and both
 * moments, in every cut. */
static void check_places (const PsModel *model, const PsStageShape *shapes, guint n_stages)
{
  static const char *const prefixes[] = { "", "optimizer.exp_avg.", "optimizer.exp_avg_sq." };
  g_autofree char *path = path_of ("counted.safetensors");
  g_autoptr (PsCheckpoint) made = ps_checkpoint_new (model, "some data");
  Counting device = { .base = { .class = &counting_class } };
  g_auto (File) file = { 0 };
  guint n_gathered = 0;

  for (guint stage = 0; stage < n_stages; stage++) {
    gsize n_bytes;

    fine (ps_checkpoint_take (made, &device.base, stage, &shapes[stage], TRUE, gather_nothing, &n_gathered, &error));
    const float *part = ps_checkpoint_part (made, &shapes[stage], PS_STATE_SECOND_MOMENT, &n_bytes);
    g_assert_cmpuint (n_bytes, ==, device.checked.n * sizeof (float));
    if (device.checked.n > 0)
      g_assert_cmpfloat (part[0], ==, number_of (&device, PS_STATE_SECOND_MOMENT, 0));
    device.first += device.checked.n;
  }
  g_assert_cmpuint (n_gathered, ==, PS_N_STATE_ARRAYS * n_stages);
  fine (ps_checkpoint_write (made, path, 17, &error));
  file_read (&file, path);
  for (guint array = 0; array < PS_N_STATE_ARRAYS; array++) {
    g_autoptr (GArray) numbers = file_numbers (&file, model, prefixes[array]);

    g_assert_cmpuint (numbers->len, ==, device.first);
    for (guint i = 0; i < numbers->len; i++)
      g_assert_cmpfloat (g_array_index (numbers, double, i), ==, 1000000.0 * array + i);
  }
  g_assert_cmpuint (file.n_bytes - file.begin, ==, PS_N_STATE_ARRAYS * device.first * sizeof (float));
  g_autofree char *header = g_strndup (file.bytes + 8, file.begin - 8);
  g_assert_nonnull (strstr (header, "{\"__metadata__\":{\"format\":\"pt\",\"pipesim\":\"checkpoint/1\",\"step\":\"17\","
                                    "\"data\":\"some data\"}"));
  g_autoptr (PsCheckpoint) loaded = fine (ps_checkpoint_load (path, model, &error));
  g_assert_cmpuint (ps_checkpoint_step (loaded), ==, 17);
  g_assert_cmpstr (ps_checkpoint_data (loaded), ==, "some data");
  device.first = 0;
  for (guint stage = 0; stage < n_stages; stage++) {
    fine (ps_checkpoint_give (loaded, &device.base, stage, &shapes[stage], &error));
    g_assert_cmpuint (device.checked.n_updates, ==, 17);
    device.first += device.checked.n;
  }
  g_assert_cmpuint (device.first * PS_N_STATE_ARRAYS * sizeof (float), ==, file.n_bytes - file.begin);
  g_unlink (path);
}

static void test_places (void)
{
  static const PsStageShape cuts[][4] = {
    { { .n_layers = 4, .embedding = TRUE, .head = TRUE } },
    { { .n_layers = 1, .embedding = TRUE }, { .n_layers = 3, .first_layer = 1, .head = TRUE } },
    { { .embedding = TRUE },
      { .n_layers = 3 },
      { .n_layers = 1, .first_layer = 3 },
      { .first_layer = 4, .head = TRUE } },
  };
  static const guint n_stages[] = { 1, 2, 4 };
  PsModel model = tiny;

  model.name = (char *)"tiny";
  for (guint i = 0; i < G_N_ELEMENTS (cuts); i++)
    for (guint k = 0; k < 3; k++) {
      model.mlp = k == 0 ? PS_MLP_GELU : PS_MLP_SWIGLU;
      model.kv_heads = k == 2 ? 1 : 2;
      check_places (&model, cuts[i], n_stages[i]);
    }
}

/* The file of a training has the weights that its next step begins with: the losses of that step are those that the
 * formulas give with the numbers of the file, taken by their names. A schedule on two devices wrote it, and one device
 * goes on. */
static void test_weights (void)
{
  g_autofree char *path = path_of ("trained.safetensors");
  g_autoptr (PsProgram) program = family_program ("1f1b", 2, 3), alone = family_program ("1f1b", 1, 3);
  PsModel model = tiny;
  PsRunSetting setting = run_setting (&ps_cpu_device, NULL, 4);
  g_auto (File) file = { 0 };

  model.name = (char *)"tiny";
  setting.model = &model;
  setting.save = path;
  setting.data = "words";
  ps_run_result_free (run (program, setting));
  file_read (&file, path);
  g_autoptr (GArray) weights = file_numbers (&file, &model, "");
  g_autoptr (PsCheckpoint) start = fine (ps_checkpoint_load (path, &model, &error));
  g_assert_cmpuint (ps_checkpoint_step (start), ==, 4);
  setting.save = NULL;
  setting.start = start;
  setting.n_steps = 1;
  g_autoptr (PsRunResult) next = run (alone, setting);
  for (guint i = 0; i < 3; i++) {
    guint32 words[9];

    ps_data_words (words, 1, model.sequence, model.vocabulary, setting.seed, i);
    g_assert_cmpfloat_with_epsilon (next->losses[i],
                                    reference_loss (&model, (const double *)(gpointer)weights->data, words), 1e-5);
  }
  g_unlink (path);
}

/* The numbers of all arrays that a training of 3 steps on 2 x 2 microbatches leaves, and of its next step's loss where
 * it goes on in the same way. Free with g_array_unref. */
static GArray *train (const PsModel *model, const char *schedule, guint n_devices, guint n_replicas, guint n_tensor,
                      gboolean zero, double *next_loss)
{
  static const char *const prefixes[] = { "", "optimizer.exp_avg.", "optimizer.exp_avg_sq." };
  g_autofree char *path = path_of ("way.safetensors");
  g_autoptr (PsProgram) program = family_program (schedule, n_devices, 4 / n_replicas);
  PsRunSetting setting = run_setting (&ps_cpu_device, NULL, 3);
  g_auto (File) file = { 0 };
  GArray *all = g_array_new (FALSE, FALSE, sizeof (double));

  setting.model = model;
  setting.save = path;
  setting.data = "words";
  setting.n_replicas = n_replicas;
  setting.n_tensor = n_tensor;
  setting.zero = zero;
  ps_run_result_free (run (program, setting));
  file_read (&file, path);
  for (guint array = 0; array < PS_N_STATE_ARRAYS; array++) {
    g_autoptr (GArray) numbers = file_numbers (&file, model, prefixes[array]);

    g_array_append_vals (all, numbers->data, numbers->len);
  }
  g_autoptr (PsCheckpoint) start = fine (ps_checkpoint_load (path, model, &error));
  setting.save = NULL;
  setting.start = start;
  setting.n_steps = 1;
  g_autoptr (PsRunResult) next = run (program, setting);
  *next_loss = ps_run_result_mean_loss (next, 0);
  g_unlink (path);
  return all;
}

/* A checkpoint is that of the training, not of the devices: parts of layers, replicas and shares of the optimizer's
 * state leave the numbers of one device, within rounding, and go on from them. */
static void test_ways (void)
{
  static const struct {
    const char *schedule;
    guint n_devices, n_replicas, n_tensor;
    gboolean zero;
  } ways[] = { { "1f1b", 1, 1, 1, FALSE },  { "zb-h1", 2, 1, 1, FALSE }, { "1f1b", 2, 1, 2, FALSE },
               { "gpipe", 1, 2, 1, FALSE }, { "1f1b", 2, 2, 1, TRUE },   { "1f1b", 1, 2, 2, TRUE } };
  g_autoptr (GArray) first = NULL;
  double loss = NAN, other_loss;
  PsModel model = tiny;

  model.name = (char *)"tiny";
  for (guint i = 0; i < G_N_ELEMENTS (ways); i++) {
    g_autoptr (GArray) numbers = train (&model, ways[i].schedule, ways[i].n_devices, ways[i].n_replicas,
                                        ways[i].n_tensor, ways[i].zero, &other_loss);
    const guint n = numbers->len / PS_N_STATE_ARRAYS;
    double largest[PS_N_STATE_ARRAYS] = { 0 };

    if (i == 0) {
      first = g_steal_pointer (&numbers);
      loss = other_loss;
      continue;
    }
    g_test_message ("%s %u %u %u %d", ways[i].schedule, ways[i].n_devices, ways[i].n_replicas, ways[i].n_tensor,
                    ways[i].zero);
    g_assert_cmpuint (numbers->len, ==, first->len);
    for (guint k = 0; k < numbers->len; k++)
      largest[k / n] = MAX (largest[k / n], fabs (g_array_index (first, double, k)));
    /* Weights whose gradient is nearly 0 go by the sign of its rounding, a rate of 0.001 at most in each step. */
    for (guint k = 0; k < numbers->len; k++)
      g_assert_cmpfloat (fabs (g_array_index (numbers, double, k) - g_array_index (first, double, k)), <=,
                         k < n ? 3 * 2e-3 : 1e-4 * largest[k / n]);
    g_assert_cmpfloat_with_epsilon (other_loss, loss, 1e-4);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/checkpoint/types", test_types);
  g_test_add_func ("/checkpoint/headers", test_headers);
  g_test_add_func ("/checkpoint/places", test_places);
  g_test_add_func ("/checkpoint/weights", test_weights);
  g_test_add_func ("/checkpoint/ways", test_ways);
  return run_in_folder ();
}
