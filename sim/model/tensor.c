/* tensor.c - a GPU's part of a stage, and the all-reduces that put the parts together. */
#include "model-private.h"

#include <pipesim/work.h>

#include <math.h>

gboolean ps_tensor_check (const PsModel *model, guint n_tensor, gboolean repeats, GError **error)
{
  const struct {
    const char *name;
    guint value;

  } cut[]
      = { { "encoder_heads", model->encoder.images > 0 ? model->encoder.heads : n_tensor },
          { "encoder_feed_forward", model->encoder.images > 0 ? model->encoder.feed_forward : n_tensor },
          { "window_heads", model->window_heads > 0 ? model->window_heads : n_tensor },
          { "window_kv_heads",
            model->window_kv_heads > 0 && n_tensor % model->window_kv_heads != 0 ? model->window_kv_heads : n_tensor },
          { "heads", model->heads },
          { "kv_heads", repeats && n_tensor % model->kv_heads == 0 ? n_tensor : model->kv_heads },
          { "feed_forward", model->feed_forward },
          { "sequence", model->sequence } };

  for (guint i = 0; i < G_N_ELEMENTS (cut); i++)
    if (cut[i].value % n_tensor != 0)
      return ps_refuse (error, PS_ERROR_USAGE, "--tensor %u: does not divide %s %u of model '%s'", n_tensor,
                        cut[i].name, cut[i].value, model->name);
  return TRUE;
}

/* One GPU's share of `bytes`, of which `wide` are whole with whole_sequences. */
static gint64 share_sequences (const PsModel *model, gint64 bytes, gint64 wide, guint n_tensor)
{
  guint c = MAX (model->spread.context, 1);

  return ps_tensor_share (bytes, n_tensor * c)
         + (model->whole_sequences ? wide / c - ps_tensor_share (wide / c, n_tensor) : 0);
}

/* Units with heads of keys and values. */
static guint count_headed (const PsModel *model, const guint count[PS_N_UNIT_KINDS])
{
  return count[PS_UNIT_ATTENTION] + count[PS_UNIT_COMPRESSED] + count[PS_UNIT_HEAVY]
         + (model->latent.kv_rank == 0 ? count[PS_UNIT_WINDOW] : 0);
}

/* The width of the keys and values of all heads. */
static gint64 keys_and_values (const PsModel *model)
{
  return ps_model_kv_width (model) + ps_model_own_value_width (model);
}

gint64 ps_tensor_kept_bytes (const PsModel *model, const PsStageShape *shape, PsRecompute recompute, guint n_tensor)
{
  const PsStageShape layers = { .first_layer = shape->first_layer, .n_layers = shape->n_layers, .n_mtp = shape->n_mtp };
  gint64 bytes = ps_model_stage_kept_bytes (model, shape, recompute);
  gint64 wide = ps_model_sum_kept (model, &layers, recompute, PS_KEPT_WIDE);

  if (n_tensor > model->kv_heads) {
    guint count[PS_N_UNIT_KINDS], n_inputs, n_again = ps_recompute_layers (recompute, shape->n_layers, &n_inputs);
    PsStageShape kept = layers;

    kept.first_layer += n_again;
    kept.n_layers -= n_again;
    ps_model_count_units (model, &kept, count);
    bytes += count_headed (model, count) * (n_tensor - model->kv_heads) * keys_and_values (model) / model->kv_heads
             * ps_model_tokens (model) * ps_precision_bytes (model->precision);
  }
  return share_sequences (model, bytes, wide, n_tensor);
}

gint64 ps_tensor_cache_bytes (const PsModel *model, const PsStageShape *shape, gint64 tokens, guint n_tensor)
{
  guint count[PS_N_UNIT_KINDS];
  gint64 bytes = 0;
  PsModel room;

  ps_model_count_units (model, shape, count);
  for (PsUnitKind kind = PS_UNIT_ATTENTION; kind <= PS_UNIT_HEAVY; kind++) {
    const PsModel *own = ps_unit_model (model, kind, &room);
    guint rank = own->latent.kv_rank, rate = kind == PS_UNIT_COMPRESSED ? model->compress.sparse
                                             : kind == PS_UNIT_HEAVY    ? model->compress.heavy
                                                                        : 0;
    gboolean narrow = kind == PS_UNIT_WINDOW || rate > 0;
    gint64 held = (narrow ? MIN (tokens, (gint64)model->window) : tokens) + (rate > 0 ? tokens / rate : 0);
    gint64 width
        = rank > 0 ? rank + own->latent.rope_size : keys_and_values (own) / MIN (n_tensor, MAX (own->kv_heads, 1));

    bytes += count[kind] * held * width * own->microbatch_size;
  }
  return bytes * ps_precision_bytes (model->precision) / MAX (model->spread.context, 1);
}

gint64 ps_tensor_key_bytes (const PsModel *model, const PsStageShape *shape, guint n_tensor, guint distance)
{
  guint count[PS_N_UNIT_KINDS];
  gint64 bytes = 0, later = (gint64)model->after - distance;
  PsModel own;

  ps_model_count_units (model, shape, count);
  for (PsUnitKind unit = PS_UNIT_ATTENTION; unit <= PS_UNIT_HEAVY && later > 0; unit++) {
    const PsModel *of = ps_unit_model (model, unit, &own);
    gint64 reach = unit == PS_UNIT_WINDOW ? (gint64)model->window - 1 - distance : model->sequence;

    bytes += count[unit] * keys_and_values (of) * CLAMP (reach, 0, (gint64)model->sequence);
  }
  return ps_tensor_share (bytes * model->microbatch_size * ps_precision_bytes (model->precision),
                          n_tensor * MAX (model->spread.context, 1));
}

gint64 ps_tensor_weight_bytes (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  const PsStageShape layers = { .first_layer = shape->first_layer, .n_layers = shape->n_layers };
  gint64 bytes = share_sequences (
      model, ps_model_stage_weight_activation_bytes (model, shape),
      ps_model_sum_units (model, &layers, ps_unit_kept_bytes, PS_KEPT_WIDE | PS_KEPT_WEIGHT), n_tensor);

  return MIN (bytes, ps_tensor_kept_bytes (model, shape, PS_RECOMPUTE_NONE, n_tensor));
}

/* The time of two passes of tokens, and of gathering `widths` times the width of the model for each token. */
static gint64 passes_ns (const PsModel *model, const PsCluster *cluster, double widths)
{
  guint t = cluster->tensor;
  const PsLink link = ps_cluster_inner_link (cluster, t);
  gint64 part = ps_tensor_boundary_bytes (model, t), gather_ns = 0;
  double bits = ps_number_formats[model->precision].kept_bits;
  gint64 narrow = (gint64)((double)part * bits / (8 * ps_precision_bytes (model->precision)));
  gint64 two_steps_ns = ps_link_transfer_ns (&link, part) + ps_link_transfer_ns (&link, MIN (narrow, part));

  if (widths > 0)
    gather_ns = cluster->collective_ns + (t - 1) * ps_link_transfer_ns (&link, (gint64)((double)part * widths));
  return t == 1 ? 0
                : llrint ((1 - cluster->tensor_overlap)
                          * (double)(2 * (cluster->collective_ns + (t - 1) * two_steps_ns) + gather_ns));
}

gint64 ps_tensor_boundary_bytes (const PsModel *model, guint n_tensor)
{
  return ps_tensor_share (ps_model_boundary_bytes (model), n_tensor * MAX (model->spread.context, 1));
}

gint64 ps_tensor_output_bytes (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  return ps_tensor_share (ps_model_stage_output_bytes (model, shape), n_tensor * MAX (model->spread.context, 1));
}

/* What the exchange of one attention in a context takes in F or B that attention does not hide; `attention_ns` is the
 * time of one attention (see the header). Keys and values of earlier slices go round again, but for all-to-alls. */
static gint64 context_ns (const PsModel *model, const PsCluster *cluster, PsOpKind kind, gint64 attention_ns)
{
  guint c = MAX (model->spread.context, 1), passes = kind == PS_OP_F ? 1 : 2;
  const PsLink link = cluster->context_remote ? ps_cluster_network_link (cluster) : ps_cluster_inner_link (cluster, c);
  gint64 token = model->microbatch_size * (gint64)ps_precision_bytes (model->precision);
  gint64 bytes = keys_and_values (model) * token * ((gint64)model->before + model->sequence);

  if (c == 1)
    return 0;
  if (cluster->cp_comm == PS_CP_COMM_A2A) {
    bytes = (keys_and_values (model) + ps_model_query_width (model) + ps_model_value_width (model)) * token
            * model->sequence;
    return (c - 1) * ps_link_transfer_ns (&link, ps_tensor_share (bytes, c * c * cluster->tensor));
  }
  gint64 step_ns = passes * ps_link_transfer_ns (&link, ps_tensor_share (bytes, c * cluster->tensor));
  return (c - 1) * (cluster->cp_comm == PS_CP_COMM_P2P ? MAX (step_ns - attention_ns / c, 0) : step_ns);
}

/* How many of n equal parts of the experts have some of a token's experts: the average over all choices of `active` of
 * `count` experts. */
static double count_visited (const PsExperts *experts, guint n)
{
  double none = 1; /* the part of choices without those of one part */

  for (guint i = 0; i < experts->active; i++)
    none *= MAX ((double)experts->count - (double)experts->count / n - i, 0) / (experts->count - i);
  return n * (1 - none);
}

/* The dispatcher's rate over n GPUs; 0: not known. It is interpolated by the logarithm of n between the cluster's rates
 * over fewer and over more GPUs. Rates within a node serve n within a node, and rates beyond one other n. Without a
 * rate beyond a node the network's bandwidth takes its place. */
static double dispatch_rate (const PsCluster *cluster, guint n, guint node)
{
  const PsDispatchRate *rates = cluster->dispatch[cluster->dispatcher], *below = NULL, *above = NULL;

  for (guint i = 0; i < PS_MAX_DISPATCH_RATES && rates[i].n_gpus > 0; i++)
    if ((rates[i].n_gpus > node) == (n > node)) {
      below = rates[i].n_gpus <= n ? &rates[i] : below;
      above = rates[i].n_gpus > n && above == NULL ? &rates[i] : above;
    }
  if (below == NULL && above == NULL)
    return rates[0].n_gpus > 0 && n > node ? cluster->network_bandwidth : 0;
  if (below == NULL || above == NULL)
    return below != NULL ? below->bandwidth : above->bandwidth;
  double part = log ((double)n / below->n_gpus) / log ((double)above->n_gpus / below->n_gpus);
  return below->bandwidth + part * (above->bandwidth - below->bandwidth);
}

/* One all-to-all of the tokens between the GPUs that share the experts. What stays in a node and what leaves it goes at
 * the same time. */
gint64 ps_tensor_exchange_ns (const PsModel *model, const PsCluster *cluster)
{
  guint n = MAX (model->spread.experts, 1), c = MAX (model->spread.context, 1);
  guint node = cluster->devices_per_node * cluster->tensor * (cluster->context_remote ? 1 : c), near = MIN (n, node);
  const PsLink inner = ps_cluster_inner_link (cluster, near), outer = ps_cluster_network_link (cluster);
  double bytes = (double)ps_tensor_boundary_bytes (model, cluster->tensor) * ps_model_routed (model) / n;

  if (n == 1)
    return 0;
  double rate = dispatch_rate (cluster, n, node);
  if (rate > 0) {
    const PsLink link = { cluster->collective_ns, rate, 0, NULL };

    return ps_link_transfer_ns (&link, (gint64)((double)ps_tensor_boundary_bytes (model, cluster->tensor)
                                                * count_visited (&model->experts, n > near ? n / near : n)));
  }
  bytes /= cluster->alltoall_efficiency > 0 ? cluster->alltoall_efficiency : 1;
  return MAX (ps_link_transfer_ns (&inner, (gint64)(bytes * (near - 1))),
              n > near ? ps_link_transfer_ns (&outer, (gint64)(bytes * (n - near))) : 0);
}

/* The time of count[kind] units of each kind. n_attention of them exchange keys and values in a context; `shape` has
 * them. */
static gint64 units_ns (const PsModel *model, const PsStageShape *shape, const guint count[PS_N_UNIT_KINDS],
                        guint n_attention, const PsCluster *cluster, PsOpKind kind)
{
  double widths = (double)(ps_model_query_width (model) + keys_and_values (model)) / model->hidden;
  gint64 two_ns = passes_ns (model, cluster, 0), sum = 0, attention_ns = 0;
  guint n_units = 0;
  PsModel own;

  if (cluster->cp_comm == PS_CP_COMM_P2P && model->spread.context > 1 && n_attention > 0) {
    PsWork work;

    ps_work_stage (model, shape, kind, cluster->tensor, &work);
    attention_ns = ps_work_attention_ns (&work, cluster) / n_attention;
  }
  for (PsUnitKind unit = PS_UNIT_ATTENTION; unit <= PS_UNIT_EXPERTS; unit++)
    n_units += count[unit];
  if (cluster->tensor > model->kv_heads)
    sum = count_headed (model, count) * (passes_ns (model, cluster, widths) - two_ns);
  /* A layer of an encoder is an attention and an MLP. */
  if (count[PS_UNIT_ENCODER] > 0)
    sum += count[PS_UNIT_ENCODER] * passes_ns (ps_unit_model (model, PS_UNIT_ENCODER, &own), cluster, 0);
  /* Whole experts take the tokens that a GPU has: the all-reduce after them is not there. */
  return sum + n_units * two_ns / 2 + n_attention * context_ns (model, cluster, kind, attention_ns)
         + count[PS_UNIT_EXPERTS]
               * (2 * ps_tensor_exchange_ns (model, cluster) - (ps_model_expert_gpus (model) == 1) * (two_ns / 2));
}

static guint count_attention (const guint count[PS_N_UNIT_KINDS])
{
  guint n = 0;

  for (PsUnitKind unit = PS_UNIT_ATTENTION; unit <= PS_UNIT_HEAVY; unit++)
    n += count[unit];
  return n;
}

gint64 ps_tensor_stage_ns (const PsModel *model, const PsStageShape *shape, const PsCluster *cluster, PsOpKind kind)
{
  guint count[PS_N_UNIT_KINDS];

  ps_model_count_units (model, shape, count);
  return units_ns (model, shape, count, count_attention (count), cluster, kind);
}

gint64 ps_tensor_again_ns (const PsModel *model, const PsStageShape *shape, PsRecompute recompute,
                           const PsCluster *cluster)
{
  const PsStageShape again = ps_recompute_shape (shape, recompute);
  const gboolean full = (recompute & PS_RECOMPUTE_FULL) != 0;
  guint count[PS_N_UNIT_KINDS], n_attention;

  ps_model_count_units (model, &again, count);
  n_attention = full || recompute & PS_RECOMPUTE_CORE_ATTN ? count_attention (count) : 0;
  for (PsUnitKind unit = 0; !full && unit < PS_N_UNIT_KINDS; unit++)
    if (!(unit == PS_UNIT_MLP && recompute & PS_RECOMPUTE_MLP)
        && !(unit == PS_UNIT_EXPERTS && recompute & PS_RECOMPUTE_MOE))
      count[unit] = 0;
  return units_ns (model, &again, count, n_attention, cluster, PS_OP_F);
}

gboolean ps_tensor_check_spread (const PsModel *model, guint n_tensor, guint n_replicas, GError **error)
{
  guint c = MAX (model->spread.context, 1), e = MAX (model->spread.experts, 1);

  if (model->sequence % (c * n_tensor) != 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--context %u: %u GPUs do not divide sequence %u of model '%s'", c,
                      c * n_tensor, model->sequence, model->name);
  if (e > 1 && model->experts.count == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--experts %u: model '%s' has no experts", e, model->name);
  if (e > 1 && model->experts.count % e != 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--experts %u: does not divide experts %u of model '%s'", e,
                      model->experts.count, model->name);
  if ((guint64)n_tensor * c * n_replicas % e != 0)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--experts %u: does not divide the %" G_GUINT64_FORMAT " GPUs of a device and its replicas", e,
                      (guint64)n_tensor * c * n_replicas);
  return TRUE;
}

/* What F keeps, by module */

typedef struct {
  PsModuleBytes *module;
  gint64 wide[PS_MAX_MODULES];
  guint n;
} Modules;

guint ps_modules_find (PsModuleBytes *modules, guint *n, const char *module)
{
  guint i = 0;

  while (i < *n && !g_str_equal (modules[i].module, module))
    i++;
  if (i == *n) {
    g_assert (*n < PS_MAX_MODULES);
    modules[(*n)++] = (PsModuleBytes){ .module = module };
  }
  return i;
}

static void add_module (Modules *modules, const char *name, gint64 bytes, gint64 wide)
{
  guint i = ps_modules_find (modules->module, &modules->n, name);

  modules->module[i].bytes += bytes;
  modules->wide[i] += wide;
}

guint ps_tensor_kept_modules (const PsModel *model, const PsStageShape *shape, PsRecompute recompute, guint offload,
                              guint n_tensor, PsModuleBytes *modules)
{
  guint count[PS_N_UNIT_KINDS], n_inputs, n_again = ps_recompute_layers (recompute, shape->n_layers, &n_inputs);
  gint64 inputs = n_inputs * ps_model_layer_bytes (model);
  PsStageShape kept = *shape;
  Modules list = { .module = modules };
  PsModel own;

  kept.first_layer += n_again;
  kept.n_layers -= n_again;
  ps_model_count_units (model, &kept, count);
  for (PsUnitKind kind = 0; kind < PS_N_UNIT_KINDS; kind++)
    for (guint i = 0; count[kind] > 0 && i < ps_unit_describe (model, kind)->n_kept; i++) {
      const PsKept *tensor = &ps_unit_describe (model, kind)->kept[i];
      const PsUnitParts alone = { .n_kept = 1, .kept = { *tensor } };
      gint64 bytes = count[kind] * ps_unit_kept_bytes (ps_unit_model (model, kind, &own), &alone, 0);

      if (!(tensor->recompute & recompute & PS_RECOMPUTE_MODULES) && !(tensor->offload & offload))
        add_module (&list, tensor->module, bytes, tensor->flags & PS_KEPT_WIDE ? bytes : 0);
    }
  if (inputs > 0)
    add_module (&list, "layers", inputs, inputs);
  for (guint i = 0; i < list.n; i++)
    modules[i].bytes = share_sequences (model, modules[i].bytes, list.wide[i], n_tensor);
  return list.n;
}
