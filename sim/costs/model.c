/* model.c - reads model descriptions, cuts models into stages and derives parameters, operations and bytes. */
#include <pipesim/model.h>

#include "ini.h"
#include "names.h"

#define MAX_LAYERS PS_MAX_STAGES
#define MAX_WIDTH (1 << 20) /* hidden, feed-forward, sequence */
#define MAX_HEADS (1 << 14)
#define MAX_VOCABULARY (1 << 24)
#define MAX_MICROBATCH_SIZE (1 << 16)

static const char *const precision_names[] = { "fp32", "fp16", "bf16", NULL };
static const char *const mlp_names[] = { "gelu", "swiglu", NULL };
static const char *const boolean_names[] = { "false", "true" };
PS_DEFINE_NAMES (PsRecompute, ps_recompute, "none", "selective", "full")

static const char *const known_keys[]
    = { "name",       "layers",          "hidden",    "heads", "kv_heads",        "sequence",       "feed_forward",
        "vocabulary", "microbatch_size", "precision", "mlp",   "flash_attention", "fp32_gradients", "sequence_parallel",
        NULL };

PsModel *
ps_model_copy (const PsModel *model)
{
  PsModel *copy = g_memdup2 (model, sizeof *model);

  copy->name = g_strdup (model->name);
  return copy;
}

void
ps_model_free (PsModel *model)
{
  if (model == NULL)
    return;
  g_free (model->name);
  g_free (model);
}

const char *
ps_precision_name (PsPrecision precision)
{
  g_return_val_if_fail ((guint)precision <= PS_PRECISION_BF16, NULL);
  return precision_names[precision];
}

gboolean
ps_precision_parse (const char *where, const char *text, PsPrecision *precision, GError **error)
{
  return ps_parse_name (where, text, precision_names, G_N_ELEMENTS (precision_names) - 1, precision, error);
}

gboolean
ps_model_set_precision (PsModel *model, const char *where, const char *text, GError **error)
{
  PsPrecision own = model->precision;

  if (text == NULL)
    return TRUE;
  if (!ps_precision_parse (where, text, &model->precision, error))
    return FALSE;
  g_autofree char *name = model->name;
  model->name = model->precision == own ? g_strdup (name) : g_strdup_printf ("%s in %s", name, text);
  return TRUE;
}

guint
ps_precision_bytes (PsPrecision precision)
{
  return precision == PS_PRECISION_FP32 ? 4 : 2;
}

static guint
read_count (PsIni *ini, const char *key, guint high)
{
  return (guint)ps_ini_integer (ini, key, 1, high);
}

static void
read_keys (PsIni *ini, PsModel *model)
{
  model->name = ps_ini_has (ini, "name") ? ps_ini_text (ini, "name") : g_strdup (ps_ini_name (ini));
  model->layers = read_count (ini, "layers", MAX_LAYERS);
  model->hidden = read_count (ini, "hidden", MAX_WIDTH);
  model->heads = read_count (ini, "heads", MAX_HEADS);
  model->kv_heads = ps_ini_has (ini, "kv_heads") ? read_count (ini, "kv_heads", MAX_HEADS) : model->heads;
  model->sequence = read_count (ini, "sequence", MAX_WIDTH);
  model->feed_forward
      = ps_ini_has (ini, "feed_forward") ? read_count (ini, "feed_forward", 4 * MAX_WIDTH) : 4 * model->hidden;
  model->vocabulary = read_count (ini, "vocabulary", MAX_VOCABULARY);
  model->microbatch_size = read_count (ini, "microbatch_size", MAX_MICROBATCH_SIZE);
  model->precision = (PsPrecision)ps_ini_choice (ini, "precision", precision_names);
  model->mlp = (PsMlp)ps_ini_choice (ini, "mlp", mlp_names);
  model->flash_attention = ps_ini_boolean (ini, "flash_attention");
  model->fp32_gradients = ps_ini_has (ini, "fp32_gradients") && ps_ini_boolean (ini, "fp32_gradients");
  model->whole_sequences = ps_ini_has (ini, "sequence_parallel") && !ps_ini_boolean (ini, "sequence_parallel");
}

/* An upper bound of every figure this file derives, in floating point: where it stays below the limits of base.h no
 * integer formula below can overflow. The bounds are coarse: every matrix of a layer counted, 3 for F, B and W, 2 for
 * B + W in BW, 64 bytes per element of an activation. */
static void
check_magnitudes (PsIni *ini, const PsModel *model)
{
  double h = model->hidden, f = model->feed_forward, V = model->vocabulary, layers = model->layers;
  double s = model->sequence, tokens = s * model->microbatch_size;
  double parameters = layers * (4 * h * h + 3 * h * f + 16 * (h + f)) + (2 * V + s + 2) * h;
  double flops = 10 * tokens * (parameters + layers * 4 * s * h);
  double bytes = tokens * (layers * (64 * (h + f) + 10 * s * model->heads) + 8 * (h + V));

  if (18 * parameters > (double)PS_MAX_SIZE_BYTES)
    ps_ini_fail (ini, "hidden", "%u makes about %.3g parameters with %u layers, more than pipesim can hold",
                 model->hidden, parameters, model->layers);
  else if (flops > (double)G_MAXINT64 / 2)
    ps_ini_fail (ini, "microbatch_size", "%u makes about %.3g operations per microbatch, more than pipesim can hold",
                 model->microbatch_size, flops);
  else if (bytes > (double)PS_MAX_SIZE_BYTES)
    ps_ini_fail (ini, "microbatch_size", "%u makes about %.3g bytes of activations, more than pipesim can hold",
                 model->microbatch_size, bytes);
}

static void
check_divisors (PsIni *ini, const PsModel *model)
{
  if (model->hidden % model->heads != 0)
    ps_ini_fail (ini, "heads", "%u does not divide hidden %u", model->heads, model->hidden);
  if (model->heads % model->kv_heads != 0)
    ps_ini_fail (ini, "kv_heads", "%u does not divide heads %u", model->kv_heads, model->heads);
}

static PsModel *
model_from_ini (PsIni *ini, GError **error)
{
  g_autoptr (PsModel) model = g_new0 (PsModel, 1);

  read_keys (ini, model);
  if (!ps_ini_finish (ini, error))
    return NULL;
  check_divisors (ini, model);
  check_magnitudes (ini, model);
  return ps_ini_finish (ini, error) ? g_steal_pointer (&model) : NULL;
}

PsModel *
ps_model_load (const char *path, GError **error)
{
  g_autoptr (PsIni) ini = ps_ini_load (path, "models", "model", known_keys, error);

  return ini != NULL ? model_from_ini (ini, error) : NULL;
}

PsModel *
ps_model_parse (const char *where, const char *text, gsize length, GError **error)
{
  g_autoptr (PsIni) ini = ps_ini_parse (where, text, length, "model", known_keys, error);

  return ini != NULL ? model_from_ini (ini, error) : NULL;
}

/* Everything but the name, in a fixed order. A key that came later is left out at its default, so that the digests of
 * models already measured stay theirs. */
static char *
fields_to_text (const PsModel *model)
{
  return g_strdup_printf (
      "layers = %u\nhidden = %u\nheads = %u\nkv_heads = %u\nsequence = %u\nfeed_forward = %u\n"
      "vocabulary = %u\nmicrobatch_size = %u\nprecision = %s\nmlp = %s\nflash_attention = %s\n%s%s",
      model->layers, model->hidden, model->heads, model->kv_heads, model->sequence, model->feed_forward,
      model->vocabulary, model->microbatch_size, precision_names[model->precision], mlp_names[model->mlp],
      boolean_names[model->flash_attention ? 1 : 0], model->fp32_gradients ? "fp32_gradients = true\n" : "",
      model->whole_sequences ? "sequence_parallel = false\n" : "");
}

char *
ps_model_digest (const PsModel *model)
{
  g_autofree char *fields = fields_to_text (model);

  return g_compute_checksum_for_string (G_CHECKSUM_SHA256, fields, -1);
}

char *
ps_model_to_text (const PsModel *model)
{
  g_autofree char *fields = fields_to_text (model);

  return g_strdup_printf ("[model]\nname = %s\n%s", model->name, fields);
}

gboolean
ps_model_split (const PsModel *model, guint n_stages, PsStageShape *shapes, GError **error)
{
  g_return_val_if_fail (n_stages >= 1, FALSE);
  if (n_stages > model->layers)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "model '%s': its %u layers cannot be cut into %u stages (devices times chunks)", model->name,
                      model->layers, n_stages);
  guint layer = 0;
  for (guint s = 0; s < n_stages; s++)
    {
      guint n_layers = model->layers / n_stages + (s < model->layers % n_stages ? 1 : 0);

      shapes[s] = (PsStageShape){
        .first_layer = layer, .n_layers = n_layers, .embedding = s == 0, .head = s == n_stages - 1
      };
      layer += n_layers;
    }
  return TRUE;
}

gboolean
ps_stage_shapes_are_even (const PsStageShape *shapes, guint n_stages)
{
  const PsStageShape *last = &shapes[n_stages - 1];
  guint n_layers = last->first_layer + last->n_layers;

  for (guint s = 0; s < n_stages; s++)
    if (shapes[s].n_layers != n_layers / n_stages + (s < n_layers % n_stages) || shapes[s].embedding != (s == 0)
        || shapes[s].head != (s + 1 == n_stages) || (shapes[s].n_mtp > 0 && s + 1 < n_stages))
      return FALSE;
  return TRUE;
}

PsStageShape *
ps_model_units (const PsModel *model, guint *n)
{
  PsStageShape whole, *units;
  guint i = 0;

  ps_model_split (model, 1, &whole, NULL);
  units = g_new0 (PsStageShape, model->layers + whole.n_mtp + 2);
  units[i++].embedding = TRUE;
  for (guint layer = 0; layer < model->layers; layer++)
    units[i++] = (PsStageShape){ .first_layer = layer, .n_layers = 1 };
  for (guint module = 0; module < whole.n_mtp; module++)
    units[i++] = (PsStageShape){ .first_layer = model->layers, .n_mtp = 1 };
  units[i++] = (PsStageShape){ .first_layer = model->layers, .head = TRUE };
  *n = i;
  return units;
}

void
ps_stage_shapes_join (const PsStageShape *units, const guint *end, guint n_stages, PsStageShape *shapes)
{
  for (guint s = 0, unit = 0; s < n_stages; s++)
    {
      shapes[s] = (PsStageShape){ .first_layer = units[unit].first_layer };
      for (; unit < end[s]; unit++)
        {
          shapes[s].embedding |= units[unit].embedding;
          shapes[s].n_layers += units[unit].n_layers;
          shapes[s].n_mtp += units[unit].n_mtp;
          shapes[s].head |= units[unit].head;
        }
    }
}

char *
ps_stage_shape_key (const PsStageShape *shape)
{
  g_autofree char *mtp = shape->n_mtp > 0 ? g_strdup_printf (",mtp=%u", shape->n_mtp) : g_strdup ("");

  return g_strdup_printf ("layers=%u%s%s%s", shape->n_layers, shape->embedding ? ",embedding" : "", mtp,
                          shape->head ? ",head" : "");
}

/* Elements of the matrices of one layer: query and output h^2 each, key and value h (hk/a) each, then the feed-forward.
 */
static gint64
layer_matrix_elements (const PsModel *model)
{
  gint64 h = model->hidden, f = model->feed_forward;

  return 2 * h * h + 2 * h * ps_model_kv_width (model) + (model->mlp == PS_MLP_SWIGLU ? 3 : 2) * h * f;
}

gint64
ps_model_layer_parameters (const PsModel *model)
{
  gint64 h = model->hidden, f = model->feed_forward;

  if (model->mlp == PS_MLP_SWIGLU)
    return layer_matrix_elements (model) + 2 * h; /* two RMS norms */
  /* Biases: query h, key and value hk/a each, output h, feed-forward f and h; two layer norms of 2h. */
  return layer_matrix_elements (model) + 3 * h + 2 * ps_model_kv_width (model) + f + 4 * h;
}

gint64
ps_model_stage_parameters (const PsModel *model, const PsStageShape *shape)
{
  gint64 h = model->hidden, V = model->vocabulary, s = model->sequence;
  gboolean llama = model->mlp == PS_MLP_SWIGLU;
  gint64 embedding = llama ? V * h : (V + s) * h;
  gint64 head = V * h + (llama ? h : 2 * h);

  return shape->n_layers * ps_model_layer_parameters (model) + (shape->embedding ? embedding : 0)
         + (shape->head ? head : 0);
}

static PsStageShape
whole_model (const PsModel *model)
{
  return (PsStageShape){ .n_layers = model->layers, .embedding = TRUE, .head = TRUE };
}

gint64
ps_model_parameters (const PsModel *model)
{
  PsStageShape all = whole_model (model);

  return ps_model_stage_parameters (model, &all);
}

gint64
ps_model_stage_flops (const PsModel *model, const PsStageShape *shape, PsOpKind kind)
{
  gint64 tokens = ps_model_tokens (model);
  gint64 matrices = shape->n_layers * layer_matrix_elements (model);

  if (shape->head)
    matrices += (gint64)model->hidden * model->vocabulary;
  /* F, B and W each multiply every matrix once. Scores and their weighting of the values, 2bs^2h each, are two more
   * products in F and four in B; W has none. */
  gint64 product = 2 * tokens * matrices;
  gint64 attention = 4 * tokens * model->sequence * model->hidden * shape->n_layers;
  switch (kind)
    {
    case PS_OP_F:
    case PS_OP_R:
      return product + attention;
    case PS_OP_B:
      return product + 2 * attention;
    case PS_OP_W:
      return product;
    case PS_OP_BW:
      return 2 * product + 2 * attention;
    default:
      g_return_val_if_reached (0);
    }
}

/* The published counts are for 2-byte elements. */
static gint64
scale_to_precision (const PsModel *model, gint64 bytes)
{
  return bytes * ps_precision_bytes (model->precision) / 2;
}

/* Bytes per token at 2 bytes per element, softmax left out. Attention: its input, query, key, value and the input of
 * the output projection; feed-forward: its input and what lies between its matrices; norms: two inputs. GPT adds two
 * dropout masks of one byte. For f = 4h and k = a this is 34h. */
static gint64
layer_activation_per_token (const PsModel *model)
{
  gint64 h = model->hidden, f = model->feed_forward;
  gint64 attention = 6 * h + 4 * ps_model_kv_width (model);

  if (model->mlp == PS_MLP_SWIGLU)
    return attention + (2 * h + 6 * f) + 4 * h;
  return attention + (2 * h + 4 * f) + 4 * h + 2 * h;
}

/* Scores, their softmax and its dropout mask: two elements and a byte each, all heads. */
static gint64
score_bytes (const PsModel *model)
{
  return 5 * ps_model_tokens (model) * model->sequence * model->heads;
}

gint64
ps_model_layer_activation_bytes (const PsModel *model)
{
  gint64 tokens = ps_model_tokens (model);
  gint64 bytes = tokens * layer_activation_per_token (model);

  if (!model->flash_attention)
    bytes += score_bytes (model);
  return scale_to_precision (model, bytes);
}

gint64
ps_model_stage_activation_bytes (const PsModel *model, const PsStageShape *shape)
{
  gint64 tokens = ps_model_tokens (model);
  gint64 bytes = shape->n_layers * ps_model_layer_activation_bytes (model);

  if (shape->head)
    bytes += scale_to_precision (model, 4 * tokens * model->hidden) + 4 * tokens * model->vocabulary;
  return bytes;
}

/* W multiplies the input of every matrix by the gradient of its output, 2 bytes per element each. Per token: query, key
 * and value share the input h; f = 4h and k = a give 32h. */
gint64
ps_model_stage_weight_activation_bytes (const PsModel *model, const PsStageShape *shape)
{
  gint64 tokens = ps_model_tokens (model), h = model->hidden, f = model->feed_forward;
  gint64 attention = (h + h + 2 * ps_model_kv_width (model)) + (h + h);
  gint64 mlp = model->mlp == PS_MLP_SWIGLU ? (h + 2 * f) + (f + h) : (h + f) + (f + h);
  gint64 bytes = shape->n_layers * scale_to_precision (model, 2 * tokens * (attention + mlp));

  if (shape->head)
    bytes += scale_to_precision (model, 2 * tokens * h) + 4 * tokens * model->vocabulary;
  return bytes;
}

gint64
ps_model_stage_kept_bytes (const PsModel *model, const PsStageShape *shape, PsRecompute recompute)
{
  gint64 all = ps_model_stage_activation_bytes (model, shape);

  if (recompute == PS_RECOMPUTE_FULL)
    return all - shape->n_layers * (ps_model_layer_activation_bytes (model) - ps_model_boundary_bytes (model));
  if (recompute == PS_RECOMPUTE_NONE || model->flash_attention)
    return all;
  return all - shape->n_layers * scale_to_precision (model, score_bytes (model));
}

gint64
ps_model_stage_recompute_flops (const PsModel *model, const PsStageShape *shape, PsRecompute recompute)
{
  if (recompute == PS_RECOMPUTE_FULL)
    {
      PsStageShape layers = { .n_layers = shape->n_layers };

      return ps_model_stage_flops (model, &layers, PS_OP_F);
    }
  if (recompute == PS_RECOMPUTE_NONE || model->flash_attention)
    return 0;
  return 4 * ps_model_tokens (model) * model->sequence * model->hidden * shape->n_layers;
}

gint64
ps_model_boundary_bytes (const PsModel *model)
{
  return ps_model_tokens (model) * model->hidden * ps_precision_bytes (model->precision);
}

PsStateBytes
ps_model_state (const PsModel *model, gint64 n)
{
  gboolean mixed = model->precision != PS_PRECISION_FP32;

  return (PsStateBytes){ .weight_bytes = (mixed ? 2 : 4) * n,
                         .gradient_bytes = (mixed && !model->fp32_gradients ? 2 : 4) * n,
                         .optimizer_bytes = (mixed ? 12 : 8) * n };
}

PsStateBytes
ps_model_stage_state (const PsModel *model, const PsStageShape *shape)
{
  return ps_model_state (model, ps_model_stage_parameters (model, shape));
}

gint64
ps_model_stage_state_bytes (const PsModel *model, const PsStageShape *shape)
{
  PsStateBytes state = ps_model_stage_state (model, shape);

  return state.weight_bytes + state.gradient_bytes + state.optimizer_bytes;
}
