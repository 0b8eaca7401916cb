/* work.c - operations and bytes of a stage's kernels, and the time they take. */
#include <pipesim/work.h>

#include <math.h>

typedef struct
{
  gint64 forward;
  gint64 backward;
} Bytes;

/* Per token, without the scores. */
static Bytes
layer_bytes (const PsModel *model)
{
  gint64 h = model->hidden, f = model->feed_forward, e = ps_precision_bytes (model->precision);
  gint64 c = ps_model_kv_width (model);

  if (model->mlp == PS_MLP_SWIGLU)
    return (Bytes){ 4 * h * e + 6 * h * e + 2 * (h + c) * e + 3 * f * e,
                    10 * h * e + 2 * (h + c) * e + 5 * f * e + 6 * h * e };
  return (Bytes){ 4 * h * e + 6 * h * e + 2 * h + 2 * f * e,
                  10 * h * e + 4 * h * e + 2 * h + (3 * h + 2 * c + f) * e + 3 * f * e + 6 * h * e };
}

/* Per token. */
static Bytes
scores_bytes (const PsModel *model)
{
  gint64 n_scores = (gint64)model->sequence * model->heads, e = ps_precision_bytes (model->precision);
  gint64 dropout = model->mlp == PS_MLP_SWIGLU ? 0 : 2 * e + 1;

  if (model->flash_attention)
    return (Bytes){ 0 };
  return (Bytes){ n_scores * (4 * e + dropout), n_scores * (7 * e + dropout) };
}

/* Per token. */
static Bytes
head_bytes (const PsModel *model)
{
  gint64 h = model->hidden, V = model->vocabulary, e = ps_precision_bytes (model->precision);
  gint64 conversion = e == 4 ? 0 : e + 4;

  return (Bytes){ 2 * h * e + V * (conversion + 32), 5 * h * e + V * (conversion + 8) };
}

/* Per token. */
static Bytes
embedding_bytes (const PsModel *model)
{
  gint64 h = model->hidden, e = ps_precision_bytes (model->precision);

  if (model->mlp == PS_MLP_SWIGLU)
    return (Bytes){ 2 * h * e, 3 * h * e };
  return (Bytes){ 2 * h * e + 3 * h * e + 2 * h * e + h, 2 * h * e + h + 3 * h * e };
}

static Bytes
stage_bytes (const PsModel *model, const PsStageShape *shape)
{
  const Bytes layer = layer_bytes (model), scores = scores_bytes (model);
  const Bytes head = shape->head ? head_bytes (model) : (Bytes){ 0 };
  const Bytes embedding = shape->embedding ? embedding_bytes (model) : (Bytes){ 0 };
  gint64 tokens = ps_model_tokens (model), n = shape->n_layers;

  return (Bytes){ tokens * (n * (layer.forward + scores.forward) + head.forward + embedding.forward),
                  tokens * (n * (layer.backward + scores.backward) + head.backward + embedding.backward) };
}

/* Operations that flash attention computes once more. */
static gint64
flash_flops (const PsModel *model, const PsStageShape *shape)
{
  return model->flash_attention ? 2 * ps_model_tokens (model) * model->sequence * model->hidden * shape->n_layers : 0;
}

PsWork
ps_work_stage (const PsModel *model, const PsStageShape *shape, PsOpKind kind)
{
  PsWork work = { .flops = ps_model_stage_flops (model, shape, kind) };

  if (kind == PS_OP_F || kind == PS_OP_R)
    work.bytes = stage_bytes (model, shape).forward;
  if (kind == PS_OP_B || kind == PS_OP_BW)
    {
      work.flops += flash_flops (model, shape);
      work.bytes = stage_bytes (model, shape).backward;
    }
  return work;
}

PsWork
ps_work_recompute (const PsModel *model, const PsStageShape *shape, PsRecompute recompute)
{
  const PsStageShape layers = { .n_layers = shape->n_layers };
  PsWork work = { .flops = ps_model_stage_recompute_flops (model, shape, recompute) };

  if (recompute == PS_RECOMPUTE_FULL)
    work.bytes = stage_bytes (model, &layers).forward;
  if (recompute == PS_RECOMPUTE_SELECTIVE)
    work.bytes = ps_model_tokens (model) * shape->n_layers * scores_bytes (model).forward;
  return work;
}

static double
move_ns (const PsCluster *cluster, gint64 bytes)
{
  return cluster->memory_bandwidth > 0 ? (double)bytes / (cluster->memory_bandwidth / 1e9) : 0;
}

static gint64
round_time (double ns)
{
  return ns < (double)PS_MAX_TIME_NS ? llrint (ns) : PS_MAX_TIME_NS;
}

gint64
ps_work_ns (const PsWork *work, const PsCluster *cluster)
{
  double rate = cluster->peak_flops * cluster->efficiency / 1e9; /* per nanosecond */

  return round_time (((double)work->flops / rate + move_ns (cluster, work->bytes)) / cluster->tensor);
}

gint64
ps_work_optimizer_ns (const PsModel *model, const PsCluster *cluster, gint64 n_parameters)
{
  PsStateBytes state = ps_model_state (model, n_parameters);
  gint64 weights = model->precision == PS_PRECISION_FP32 ? 2 * state.weight_bytes : state.weight_bytes;

  return round_time (move_ns (cluster, state.gradient_bytes + 2 * state.optimizer_bytes + weights));
}
