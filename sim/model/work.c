/* work.c - the kernels of a stage, their time on a cluster, and the time of two ops that overlap. */
#include <pipesim/work.h>

#include <math.h>

/* A list under construction, for one kind of op on one of t GPUs. */
typedef struct {
  PsWork *work;
  const PsModel *model;
  PsOpKind kind;  /* F, B or W */
  guint repeats;  /* of what is added next */
  gint64 t;       /* GPUs */
  gint64 tokens;  /* of a microbatch, whole */
  gint64 h, c, f; /* widths of hidden, keys and feed-forward */
  gint64 e;       /* bytes of an element */
  gint64 q, v;    /* widths of queries and of what attention hands on */
  gint64 seen;    /* tokens that a token attends to */
  gint64 earlier; /* tokens of earlier slices among them */
  gint64 context; /* GPUs that share a sequence */
  guint bits;     /* of an element that products with weights multiply */
} List;

static void add (const List *list, PsWorkKernel kernel)
{
  g_assert (list->work->n_kernels < PS_MAX_WORK_KERNELS);
  kernel.repeats = list->repeats;
  if (kernel.bits == 0)
    kernel.bits = 8 * (guint)list->e;
  list->work->kernel[list->work->n_kernels++] = kernel;
}

/* The products with a matrix of weights of `rows` by `columns`. */
static void add_matrix (const List *list, const char *name, gint64 rows, gint64 columns)
{
  PsWorkKernel kernel = {
    .name = name, .type = PS_WORK_PRODUCT, .products = 1, .m = list->tokens, .n = columns, .k = rows, .bits = list->bits
  };
  gint64 output = list->e;

  if (list->kind == PS_OP_B) {
    kernel.n = rows;
    kernel.k = columns;
  }
  if (list->kind == PS_OP_W) {
    kernel.m = rows;
    kernel.k = list->tokens;
    output = 2 * (list->model->fp32_gradients ? 4 : list->e);
  }
  kernel.bytes = list->e * (kernel.m * kernel.k + kernel.k * kernel.n) + output * kernel.m * kernel.n;
  add (list, kernel);
}

/* Adds a kernel that moves bytes_per_token for each token. */
static void add_memory (const List *list, const char *name, gint64 bytes_per_token)
{
  add (list, (PsWorkKernel){ .name = name, .type = PS_WORK_MEMORY, .bytes = list->tokens / list->t * bytes_per_token });
}

/* The same, of a tensor that is as wide as the model. */
static void add_wide (const List *list, const char *name, gint64 bytes_per_token)
{
  add_memory (list, name, bytes_per_token * (list->model->whole_sequences ? list->t : 1));
}

/* Adds a kernel that moves bytes_per_score for each score. */
static void add_scores (const List *list, const char *name, gint64 bytes_per_score)
{
  gint64 scores = list->tokens * list->seen * (list->model->heads / list->t);

  add (list, (PsWorkKernel){ .name = name, .type = PS_WORK_MEMORY, .bytes = scores * bytes_per_score });
}

/* `products` products of every head. They read and write `rows` rows of queries, keys or values for a token, and so
 * many bytes for a score. */
static void add_heads (const List *list, const char *name, PsWorkClass type, gint64 products, gint64 rows,
                       gint64 bytes_per_score)
{
  const PsModel *model = list->model;
  gint64 heads = model->microbatch_size * (model->heads / list->t), s = model->sequence / list->context;
  gint64 d = (list->q + list->v) / 2 / model->heads;

  add (list, (PsWorkKernel){ .name = name,
                             .type = type,
                             .products = products * heads,
                             .m = s,
                             .n = list->seen,
                             .k = d,
                             .bytes = heads
                                      * (s * (rows * d * list->e + list->seen * bytes_per_score)
                                         + list->earlier * rows / 2 * d * list->e) });
}

static void list_attention (const List *list)
{
  gboolean forward = list->kind == PS_OP_F, dropout = list->model->mlp == PS_MLP_GELU;
  gint64 e = list->e;

  if (list->kind == PS_OP_W)
    return;
  if (list->model->flash_attention) {
    add_heads (list, "flash attention", PS_WORK_ATTENTION, forward ? 2 : 5, forward ? 4 : 8, 0);
    return;
  }
  if (forward) {
    add_heads (list, "query times key", PS_WORK_SCORES, 1, 2, e);
    add_scores (list, "softmax", 2 * e);
    if (dropout)
      add_scores (list, "dropout of scores", 2 * e + 1);
    add_heads (list, "scores times value", PS_WORK_SCORES, 1, 2, e);
    return;
  }
  add_heads (list, "gradient of values", PS_WORK_SCORES, 1, 2, e);
  add_heads (list, "gradient of scores", PS_WORK_SCORES, 1, 2, e);
  if (dropout)
    add_scores (list, "dropout of scores", 2 * e + 1);
  add_scores (list, "softmax", 3 * e);
  add_heads (list, "gradients of queries and keys", PS_WORK_SCORES, 2, 4, 2 * e);
}

static void list_attention_matrices (const List *list)
{
  const PsLatent *latent = &list->model->latent;
  gint64 h = list->h, t = list->t, up = list->model->heads * (gint64)latent->nope_size + list->v;

  if (latent->kv_rank == 0)
    add_matrix (list, "query, key, value", h, (list->q + 2 * list->c) / t);
  else {
    if (latent->q_rank > 0)
      add_matrix (list, "query down", h, latent->q_rank);
    add_matrix (list, "query up", latent->q_rank > 0 ? latent->q_rank : h, list->q / t);
    add_matrix (list, "key, value down", h, (gint64)latent->kv_rank + latent->rope_size);
    add_matrix (list, "key, value up", latent->kv_rank, up / t);
  }
  add_matrix (list, "output", list->v / t, h);
}

static void list_feed_forward (const List *list, gint64 width)
{
  add_matrix (list, "feed-forward up", list->h, (list->model->mlp == PS_MLP_SWIGLU ? 2 : 1) * width);
  add_matrix (list, "feed-forward down", width, list->h);
}

/* The experts of one GPU side by side, each with its part of the tokens. */
static void list_routed (const List *list)
{
  const PsExperts *experts = &list->model->experts;
  guint shared = ps_model_expert_gpus (list->model);
  gint64 local = shared > 0 ? MAX (experts->count / shared, 1) : experts->count;
  double tokens = (double)list->tokens * (shared > 0 ? (double)shared / (double)list->t : 1) / experts->count;
  PsWork *work = list->work;
  List one = *list;
  guint from = work->n_kernels;

  one.tokens = MAX ((gint64)(tokens * ps_model_routed (list->model)), 1);
  list_feed_forward (&one, shared > 0 ? experts->feed_forward : experts->feed_forward / list->t);
  for (guint i = from; i < work->n_kernels; i++) {
    work->kernel[i].products *= local;
    work->kernel[i].bytes *= local;
  }
}

static void list_experts (const List *list)
{
  const PsExperts *experts = &list->model->experts;
  gint64 h = list->h, e = list->e, moved = (gint64)(ps_model_routed (list->model) * (double)h);

  add_matrix (list, "router", h, experts->count);
  list_routed (list);
  if (experts->shared > 0)
    list_feed_forward (list, (gint64)experts->shared * experts->feed_forward / list->t);
  if (list->kind == PS_OP_W)
    return;
  add_memory (list, "softmax of router", (list->kind == PS_OP_F ? 8 : 12) * experts->count);
  add_memory (list, "permutation", (h + moved) * e);
  add_memory (list, "weighted sum", (h + (list->kind == PS_OP_F ? 1 : 2) * moved) * e);
}

/* The kernels of a layer that move bytes: elements of each width for a token. Those of a half stand in both halves of
 * the layer, attention and feed-forward; all of them are of tensors as wide as the model, and h counts single bytes of
 * them. */
static const struct {
  PsMlp mlp;
  PsOpKind kind;
  gboolean half;
  const char *name;
  gint64 he, qe, ce, fe, h;
} moves[] = {
  { PS_MLP_GELU, PS_OP_F, TRUE, "norm", 2, 0, 0, 0, 0 },
  { PS_MLP_GELU, PS_OP_F, TRUE, "bias, dropout, add", 3, 0, 0, 0, 1 },
  { PS_MLP_GELU, PS_OP_F, FALSE, "bias, GELU", 0, 0, 0, 2, 0 },
  { PS_MLP_GELU, PS_OP_B, TRUE, "norm, gradient of input", 3, 0, 0, 0, 0 },
  { PS_MLP_GELU, PS_OP_B, TRUE, "norm, gradient of parameters", 2, 0, 0, 0, 0 },
  { PS_MLP_GELU, PS_OP_B, TRUE, "dropout", 2, 0, 0, 0, 1 },
  { PS_MLP_GELU, PS_OP_B, TRUE, "bias of output", 1, 0, 0, 0, 0 },
  { PS_MLP_GELU, PS_OP_B, TRUE, "sum of gradients", 3, 0, 0, 0, 0 },
  { PS_MLP_GELU, PS_OP_B, FALSE, "bias of query, key, value", 1, 0, 2, 0, 0 },
  { PS_MLP_GELU, PS_OP_B, FALSE, "bias of feed-forward", 0, 0, 0, 1, 0 },
  { PS_MLP_GELU, PS_OP_B, FALSE, "GELU", 0, 0, 0, 3, 0 },
  { PS_MLP_SWIGLU, PS_OP_F, TRUE, "norm", 2, 0, 0, 0, 0 },
  { PS_MLP_SWIGLU, PS_OP_F, TRUE, "add", 3, 0, 0, 0, 0 },
  { PS_MLP_SWIGLU, PS_OP_B, TRUE, "norm, gradient of input", 3, 0, 0, 0, 0 },
  { PS_MLP_SWIGLU, PS_OP_B, TRUE, "norm, gradient of parameters", 2, 0, 0, 0, 0 },
  { PS_MLP_SWIGLU, PS_OP_B, TRUE, "sum of gradients", 3, 0, 0, 0, 0 },
  { PS_MLP_SWIGLU, PS_OP_F, FALSE, "rotation of queries", 0, 2, 0, 0, 0 },
  { PS_MLP_SWIGLU, PS_OP_F, FALSE, "rotation of keys", 0, 0, 2, 0, 0 },
  { PS_MLP_SWIGLU, PS_OP_F, FALSE, "SwiGLU", 0, 0, 0, 3, 0 },
  { PS_MLP_SWIGLU, PS_OP_B, FALSE, "rotation of queries", 0, 2, 0, 0, 0 },
  { PS_MLP_SWIGLU, PS_OP_B, FALSE, "rotation of keys", 0, 0, 2, 0, 0 },
  { PS_MLP_SWIGLU, PS_OP_B, FALSE, "SwiGLU", 0, 0, 0, 5, 0 },
};

/* The two halves, then what a layer has once. */
static void list_moves (const List *list)
{
  for (guint pass = 0; pass < 3; pass++)
    for (guint i = 0; i < G_N_ELEMENTS (moves); i++)
      if (moves[i].mlp == list->model->mlp && moves[i].kind == list->kind && moves[i].half == (pass < 2))
        (pass < 2 ? add_wide : add_memory) (
            list, moves[i].name,
            (moves[i].he * list->h + moves[i].qe * list->q + moves[i].ce * list->c + moves[i].fe * list->f) * list->e
                + moves[i].h * list->h);
}

/* Counts the tokens that a token attends to, `most` at most; a slice's are those that it adds to the tokens before. */
static void attend (List *list, gint64 most)
{
  gint64 before = list->model->before, end = before + list->model->sequence;

  list->seen = (end * MIN (end, most) - before * MIN (before, most)) / list->model->sequence;
  list->earlier = MIN (before, most);
}

static void list_layer (const List *layers, PsLayerKind kind)
{
  const PsModel *model = layers->model;
  List list = *layers;

  if (kind & PS_LAYER_WINDOW)
    attend (&list, model->window);
  list_attention_matrices (&list);
  if (kind & PS_LAYER_EXPERTS) {
    list_experts (&list);
    list.f = (gint64)((ps_model_routed (model) + model->experts.shared) * model->experts.feed_forward);
  } else
    list_feed_forward (&list, list.f / list.t);
  list_attention (&list);
  list_moves (&list);
}

/* The layers of a stage, kind by kind. `only`: what to list of them. */
static void list_layers (const List *list, const PsStageShape *shape, void (*only) (const List *list, PsLayerKind kind))
{
  guint count[PS_N_LAYER_KINDS];
  List some = *list;

  ps_model_count_kinds (list->model, shape, count);
  for (guint kind = 0; kind < PS_N_LAYER_KINDS; kind++) {
    some.repeats = count[kind];
    if (count[kind] > 0)
      only (&some, (PsLayerKind)kind);
  }
}

static void list_scores (const List *layers, PsLayerKind kind)
{
  List list = *layers;

  if (kind & PS_LAYER_WINDOW)
    attend (&list, list.model->window);
  list_attention (&list);
}

static void list_head (const List *list)
{
  gint64 h = list->h, V = list->model->vocabulary, e = list->e;
  gboolean forward = list->kind == PS_OP_F;
  List head = *list;

  head.bits = 8 * (guint)e;
  add_matrix (&head, "head", h, (V + list->t - 1) / list->t);
  if (list->kind == PS_OP_W)
    return;
  add_wide (list, "norm of head", (forward ? 2 : 5) * h * e);
  if (e != 4)
    add_memory (list, "conversion of logits", V * (e + 4));
  add_memory (list, "cross-entropy", V * (forward ? 32 : 8));
}

static void list_embedding (const List *list)
{
  gint64 h = list->h, e = list->e;
  gboolean forward = list->kind == PS_OP_F;

  if (list->kind == PS_OP_W)
    return;
  add_wide (list, "embedding", (forward ? 2 : 3) * h * e);
  if (list->model->mlp == PS_MLP_SWIGLU)
    return;
  if (forward)
    add_wide (list, "positions", 3 * h * e);
  add_wide (list, "dropout of embedding", 2 * h * e + h);
}

guint ps_work_bits (PsPrecision precision)
{
  return precision == PS_PRECISION_FP4   ? 4
         : precision == PS_PRECISION_FP8 ? 8
                                         : 8 * (guint)ps_precision_bytes (precision);
}

static List list_begin (PsWork *work, const PsModel *model, PsOpKind kind, guint n_tensor)
{
  List list = { .work = work,
                .model = model,
                .kind = kind == PS_OP_R ? PS_OP_F : kind,
                .repeats = 1,
                .t = n_tensor,
                .tokens = ps_model_tokens (model) / MAX (model->spread.context, 1),
                .q = ps_model_query_width (model),
                .v = ps_model_value_width (model),
                .context = MAX (model->spread.context, 1),
                .h = model->hidden,
                .c = ps_model_kv_width (model),
                .f = model->feed_forward,
                .e = ps_precision_bytes (model->precision),
                .bits = ps_work_bits (model->precision) };

  attend (&list, G_MAXINT32);
  return list;
}

static void list_stage (PsWork *work, const PsModel *model, const PsStageShape *shape, PsOpKind kind, guint n_tensor)
{
  List list = list_begin (work, model, kind, n_tensor);

  list_layers (&list, shape, list_layer);
  if (shape->head)
    list_head (&list);
  list.repeats = shape->n_mtp;
  if (shape->n_mtp > 0) {
    add_matrix (&list, "projection of multi-token prediction", 2 * list.h, list.h / list.t);
    list_head (&list);
  }
  list.repeats = 1;
  if (shape->embedding)
    list_embedding (&list);
}

void ps_work_stage (const PsModel *model, const PsStageShape *shape, PsOpKind kind, guint n_tensor, PsWork *work)
{
  work->n_kernels = 0;
  list_stage (work, model, shape, kind == PS_OP_BW ? PS_OP_B : kind, n_tensor);
  if (kind == PS_OP_BW)
    list_stage (work, model, shape, PS_OP_W, n_tensor);
}

void ps_work_recompute (const PsModel *model, const PsStageShape *shape, PsRecompute recompute, guint n_tensor,
                        PsWork *work)
{
  const PsStageShape layers = { .first_layer = shape->first_layer, .n_layers = shape->n_layers };
  const List list = list_begin (work, model, PS_OP_F, n_tensor);

  work->n_kernels = 0;
  if (recompute == PS_RECOMPUTE_FULL)
    list_layers (&list, &layers, list_layer);
  if (recompute == PS_RECOMPUTE_SELECTIVE && !model->flash_attention)
    list_layers (&list, &layers, list_scores);
}

static void list_routed_layer (const List *list, PsLayerKind kind)
{
  if (kind & PS_LAYER_EXPERTS)
    list_routed (list);
}

void ps_work_experts (const PsModel *model, const PsStageShape *shape, PsOpKind kind, guint n_tensor, PsWork *work)
{
  const List list = list_begin (work, model, kind, n_tensor);

  work->n_kernels = 0;
  list_layers (&list, shape, list_routed_layer);
}

gint64 ps_work_flops (const PsWork *work)
{
  gint64 sum = 0;

  for (guint i = 0; i < work->n_kernels; i++) {
    const PsWorkKernel *kernel = &work->kernel[i];

    sum += 2 * kernel->repeats * kernel->products * kernel->m * kernel->n * kernel->k;
  }
  return sum;
}

/* The time of kernels on a cluster. */

/* Tiles of a product's result, and the part of the best rate that each reaches (see the header). */
static const struct {
  gint64 rows;
  gint64 columns;
  double rate;
} tiles[] = { { 256, 128, 1 }, { 128, 256, 1 }, { 128, 128, 0.9 }, { 128, 64, 0.75 }, { 64, 64, 0.55 } };

static double move_ns (const PsCluster *cluster, double bytes)
{
  double part = cluster->memory_efficiency > 0 ? cluster->memory_efficiency : 1;

  return cluster->memory_bandwidth > 0 ? bytes / (cluster->memory_bandwidth * part / 1e9) : 0;
}

static gint64 round_time (double ns)
{
  return ns < (double)PS_MAX_TIME_NS ? llrint (ns) : PS_MAX_TIME_NS;
}

/* The part of the multiprocessors' time that the best tiles use: the last wave of tiles may leave some idle, and tiles
 * hang over the edges of the result. */
static double tile_rate (const PsCluster *cluster, const PsWorkKernel *kernel)
{
  double best = 0, work = (double)kernel->products * (double)kernel->m * (double)kernel->n;

  for (guint i = 0; i < G_N_ELEMENTS (tiles); i++) {
    double rows = ceil ((double)kernel->m / (double)tiles[i].rows);
    double columns = ceil ((double)kernel->n / (double)tiles[i].columns);
    double waves = ceil (rows * columns * (double)kernel->products / cluster->multiprocessors);
    double room = waves * cluster->multiprocessors * (double)(tiles[i].rows * tiles[i].columns);

    best = MAX (best, tiles[i].rate * work / room);
  }
  return best;
}

static gboolean is_aligned (const PsWorkKernel *kernel)
{
  gint64 elements = 128 / kernel->bits;

  return kernel->m % elements == 0 && kernel->n % elements == 0 && kernel->k % elements == 0;
}

static double rate_part (const PsCluster *cluster, PsWorkClass type)
{
  double part = type == PS_WORK_ATTENTION ? cluster->attention_efficiency
                : type == PS_WORK_SCORES  ? cluster->scores_efficiency
                                          : cluster->efficiency;

  return part > 0 ? part : cluster->efficiency;
}

static double multiply_ns (const PsCluster *cluster, const PsWorkKernel *kernel)
{
  double flops = 2 * (double)kernel->products * (double)kernel->m * (double)kernel->n * (double)kernel->k;
  double rate = ps_work_peak_flops (cluster, kernel->bits, NULL) * rate_part (cluster, kernel->type) / 1e9;

  if (flops <= 0)
    return 0;
  if (kernel->type == PS_WORK_ATTENTION)
    return flops / rate;
  if (cluster->multiprocessors > 0)
    rate *= tile_rate (cluster, kernel) * (double)kernel->k / ((double)kernel->k + cluster->product_depth);
  if (cluster->unaligned > 0 && !is_aligned (kernel))
    rate *= kernel->type == PS_WORK_SCORES ? cluster->unaligned_scores : cluster->unaligned;
  return flops / rate;
}

static double kernel_ns (const PsCluster *cluster, const PsWorkKernel *kernel)
{
  return MAX (multiply_ns (cluster, kernel), move_ns (cluster, (double)kernel->bytes)) + (double)cluster->kernel_ns;
}

gint64 ps_work_ns (const PsWork *work, const PsCluster *cluster, gint64 talk_ns)
{
  double ns = (double)talk_ns, host_ns = 0;

  for (guint i = 0; i < work->n_kernels; i++) {
    ns += work->kernel[i].repeats * kernel_ns (cluster, &work->kernel[i]);
    host_ns += work->kernel[i].repeats * (double)cluster->launch_ns;
  }
  return round_time (MAX (ns, host_ns));
}

gint64 ps_work_optimizer_ns (const PsModel *model, const PsCluster *cluster, gint64 n_parameters)
{
  PsStateBytes state = ps_model_state (model, n_parameters);
  gint64 weights = model->precision == PS_PRECISION_FP32 ? 2 * state.weight_bytes : state.weight_bytes;
  double bytes = (double)(state.gradient_bytes + 2 * state.optimizer_bytes + weights);

  return round_time (move_ns (cluster, bytes * MAX (cluster->optimizer_passes, 1)));
}

/* Two streams through the layers of a pair. */

/* Runs a part on its stream, after the one before it in its microbatch. */
static void run_part (gint64 *stream_ns, gint64 *microbatch_ns, gint64 duration_ns)
{
  *stream_ns = *microbatch_ns = MAX (*stream_ns, *microbatch_ns) + duration_ns;
}

gint64 ps_overlap_pair_ns (const PsPairLayer *layers, guint n_layers)
{
  gint64 compute = 0, talk = 0, forward = 0, backward = 0;

  for (guint i = 0; i < n_layers; i++) {
    const PsPairLayer *layer = &layers[i];

    run_part (&talk, &backward, layer->combine_ns[PS_OP_B]);
    run_part (&compute, &forward, layer->attention_ns[PS_OP_F]);
    run_part (&talk, &forward, layer->dispatch_ns[PS_OP_F]);
    run_part (&compute, &backward, layer->experts_ns[PS_OP_B]);
    run_part (&talk, &backward, layer->dispatch_ns[PS_OP_B]);
    compute += layer->experts_ns[PS_OP_W];
    run_part (&compute, &forward, layer->experts_ns[PS_OP_F]);
    run_part (&talk, &forward, layer->combine_ns[PS_OP_F]);
    run_part (&compute, &backward, layer->attention_ns[PS_OP_B]);
    compute += layer->attention_ns[PS_OP_W];
  }
  return MAX (compute, talk);
}
