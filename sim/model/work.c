/* work.c - the kernels of a stage, their time on a cluster, and the time of two ops that overlap. */
#include "model-private.h"

#include <pipesim/work.h>

#include <math.h>
#include <string.h>

/* A list under construction, for one kind of op on one of t GPUs. */
typedef struct {
  PsWork *work;
  const PsModel *model;
  PsOpKind kind;       /* F, B or W */
  guint repeats;       /* of what is added next */
  gint64 t;            /* GPUs */
  gint64 tokens;       /* of a microbatch, whole */
  gint64 e;            /* bytes of an element */
  gint64 context;      /* GPUs that share a sequence */
  PsCudaGraphs graphs; /* the smallest scope that holds the unit */
} List;

static void add (const List *list, PsWorkKernel kernel)
{
  g_assert (list->work->n_kernels < PS_MAX_WORK_KERNELS);
  kernel.repeats = list->repeats;
  kernel.graphs = list->graphs;
  if (kernel.bits == 0)
    kernel.bits = 8 * (guint)list->e;
  list->work->kernel[list->work->n_kernels++] = kernel;
}

static void add_move (const List *list, const char *name, gint64 bytes)
{
  add (list, (PsWorkKernel){ .name = name, .type = PS_WORK_MEMORY, .bytes = bytes });
}

/* Launches for the product of one expert (see the header). */
static guint count_launches (PsOpKind kind, guint bits)
{
  return bits < 16 ? 3 : kind == PS_OP_W ? 2 : 1;
}

/* `products` products of a matrix of weights of `rows` by `columns`, side by side, each of so many tokens. */
static void add_products (const List *list, const PsMatrix *matrix, gint64 products, gint64 tokens, gint64 rows,
                          gint64 columns)
{
  PsWorkKernel kernel = { .name = matrix->name,
                          .type = PS_WORK_PRODUCT,
                          .products = products,
                          .m = tokens,
                          .n = columns,
                          .k = rows,
                          .bits = matrix->bits < 16 ? matrix->bits : 0 };
  gint64 output = list->e;

  kernel.blocks = kernel.bits > 0 && ps_number_formats[list->model->precision].blocks;
  if (matrix->cut == PS_CUT_ROWS ? list->kind != PS_OP_W : matrix->cut == PS_CUT_COLUMNS && list->kind == PS_OP_F)
    kernel.pieces = (guint)list->t;
  if (matrix->cut == PS_CUT_EXPERTS)
    kernel.launches = (guint)products * count_launches (list->kind, matrix->bits);
  if (list->kind == PS_OP_B) {
    kernel.n = rows;
    kernel.k = columns;
  }
  if (list->kind == PS_OP_W) {
    kernel.m = rows;
    kernel.k = tokens;
    output = 2 * (ps_model_formats (list->model).main_grads == PS_DTYPE_FP32 ? 4 : list->e);
  }
  kernel.bytes = products * (list->e * (kernel.m * kernel.k + kernel.k * kernel.n) + output * kernel.m * kernel.n);
  add (list, kernel);
  if (matrix->bits < 16 && list->kind != PS_OP_W) {
    /* GPUs that share a layer cast before they gather. */
    gboolean shared = matrix->cut == (list->kind == PS_OP_F ? PS_CUT_COLUMNS : PS_CUT_ROWS);
    double elements = (double)products * tokens * (list->kind == PS_OP_F ? rows : columns) / (shared ? list->t : 1);

    add_move (list, "cast", (gint64)(elements * ps_number_formats[list->model->precision].cast_bytes));
  }
}

/* Megatron-LM adds the biases of experts one expert after the other, those of the second matrix weighed. */
static void add_expert_biases (const List *list, const PsMatrix *matrix, gint64 products, gint64 tokens)
{
  if (list->kind != PS_OP_W)
    add (list, (PsWorkKernel){ .name = "biases of experts",
                               .type = PS_WORK_MEMORY,
                               .bytes = 3 * list->e * products * tokens * matrix->columns,
                               .launches = (guint)products * (list->kind == PS_OP_F ? 2 : 7) });
}

/* Matrices that every token visits are one product with all of them. Of experts, each has its part of the tokens: one
 * GPU has all experts and parts of their matrices, or some experts as they are. */
static void add_matrix (const List *list, const PsMatrix *matrix, gboolean by_columns)
{
  gint64 t = matrix->cut == PS_CUT_NONE ? 1 : list->t, n = matrix->cut == PS_CUT_EXPERTS ? 1 : matrix->active;
  guint shared = matrix->cut == PS_CUT_EXPERTS ? ps_model_expert_gpus (list->model) : 0;
  gint64 products = 1, tokens = list->tokens;

  if (matrix->cut == PS_CUT_EXPERTS) {
    double part = (double)tokens * (shared > 0 ? (double)shared / (double)t : 1) / (double)matrix->count;

    products = shared > 0 ? MAX (matrix->count / shared, 1) : matrix->count;
    tokens = MAX ((gint64)(part * matrix->load), 1);
    t = shared > 0 ? 1 : t;
  }
  if (matrix->cut == PS_CUT_EXPERTS && matrix->bias)
    add_expert_biases (list, matrix, products, tokens);
  add_products (list, matrix, products, tokens, by_columns ? matrix->rows : n * matrix->rows / t,
                by_columns ? (n * matrix->columns + t - 1) / t : matrix->columns);
}

static void add_matrices (const List *list, const PsUnitParts *parts, guint modules, gboolean experts_alone)
{
  gboolean is_second = FALSE; /* of the two matrices of experts */

  for (guint i = 0; i < parts->n_matrices; i++) {
    const PsMatrix *matrix = &parts->matrix[i];

    for (guint pass = PS_OP_F; pass <= PS_OP_W; pass++)
      if (matrix->passes[list->kind] & 1U << pass && matrix->recompute & modules
          && (matrix->cut == PS_CUT_EXPERTS || !experts_alone)) {
        List product = *list;

        product.kind = (PsOpKind)pass;
        add_matrix (&product, matrix, matrix->cut == PS_CUT_ROWS ? FALSE : !is_second);
      }
    is_second = matrix->cut == PS_CUT_EXPERTS && !is_second;
  }
}

/* The scores of the square of so many tokens, masked half and all, that lie within a window of `most`. */
static double count_square (gint64 tokens, gint64 most)
{
  double within = (double)MIN (tokens, most);

  return within * within + (double)(tokens - MIN (tokens, most)) * (2 * within - 1);
}

/* Tokens that a token attends to, on average (see the header). */
static gint64 count_seen (const PsModel *model, gint64 most)
{
  gint64 before = model->before, whole = ps_model_whole_sequence (model);
  double added = count_square (before + model->sequence, most) - count_square (before, most);
  double part = (double)whole * (double)MIN (whole, most) / count_square (whole, most);

  return llrint (part * added / model->sequence);
}

/* `products` products of every head. They read and write `rows` rows of queries, keys or values for a token, and so
 * many bytes for a score. */
static void add_heads (const List *list, const PsScores *scores, const char *name, PsWorkClass type, gint64 products,
                       gint64 rows, gint64 bytes_per_score)
{
  const PsModel *model = list->model;
  gint64 heads = model->microbatch_size * (scores->heads / list->t), s = model->sequence / list->context;
  gint64 d = scores->width / 2 / scores->heads, seen = count_seen (model, scores->most);

  add (list, (PsWorkKernel){ .name = name,
                             .type = type,
                             .products = products * heads,
                             .m = s,
                             .n = seen,
                             .k = d,
                             .bytes = heads
                                      * (s * (rows * d * list->e + seen * bytes_per_score)
                                         + MIN (model->before, scores->most) * rows / 2 * d * list->e) });
}

/* A kernel that moves bytes_per_score for each score. */
static void add_stored (const List *list, const PsScores *scores, const char *name, gint64 bytes_per_score)
{
  gint64 per_head = list->tokens * count_seen (list->model, scores->most);

  add_move (list, name, per_head * (scores->heads / list->t) * bytes_per_score);
}

static void add_scores (const List *list, const PsScores *scores)
{
  gboolean forward = list->kind == PS_OP_F, dropout = ps_model_has_dropout (list->model);
  gint64 e = list->e;

  if (scores->most == 0) {
    /* The backward of a scan computes it once more. */
    add (list, (PsWorkKernel){ .name = scores->name,
                               .type = PS_WORK_ATTENTION,
                               .products = (forward ? 1 : 3) * scores->heads / list->t,
                               .m = list->tokens,
                               .n = 1,
                               .k = scores->width / scores->heads });
    return;
  }
  if (scores->flash) {
    add_heads (list, scores, scores->name, PS_WORK_ATTENTION, forward ? 2 : 5, forward ? 4 : 8, 0);
    return;
  }
  if (forward) {
    add_heads (list, scores, "query times key", PS_WORK_SCORES, 1, 2, e);
    add_stored (list, scores, "softmax", 2 * e);
    if (dropout)
      add_stored (list, scores, "dropout of scores", 2 * e + 1);
    add_heads (list, scores, "scores times value", PS_WORK_SCORES, 1, 2, e);
    return;
  }
  add_heads (list, scores, "gradient of values", PS_WORK_SCORES, 1, 2, e);
  add_heads (list, scores, "gradient of scores", PS_WORK_SCORES, 1, 2, e);
  if (dropout)
    add_stored (list, scores, "dropout of scores", 2 * e + 1);
  add_stored (list, scores, "softmax", 3 * e);
  add_heads (list, scores, "gradients of queries and keys", PS_WORK_SCORES, 2, 4, 2 * e);
}

/* modules: as PsRecompute says; FULL lists all kernels of F, B or W. */
static void list_unit (const List *list, const PsUnitParts *parts, guint modules, gboolean experts_alone)
{
  if (parts->launches > 0 && list->kind != PS_OP_W && modules & (PS_RECOMPUTE_FULL | PS_RECOMPUTE_MOE)
      && !experts_alone)
    add (list, (PsWorkKernel){ .name = "further launches", .type = PS_WORK_MEMORY, .launches = parts->launches });
  add_matrices (list, parts, modules, experts_alone);
  if (experts_alone)
    return;
  for (guint i = 0; list->kind != PS_OP_W && i < parts->n_scores; i++)
    if (parts->scores[i].recompute & modules)
      add_scores (list, &parts->scores[i]);
  for (guint i = 0; i < parts->n_moves; i++) {
    const PsMemoryKernel *move = &parts->move[i];
    gint64 whole = move->wide && list->model->whole_sequences ? list->t : 1;

    if (move->kind == list->kind && move->recompute & modules)
      add_move (list, move->name, list->tokens / list->t * move->bytes * whole);
  }
}

/* The units of a stage, kind by kind. */
static void list_stage (PsWork *work, const PsModel *model, const PsStageShape *shape, PsOpKind kind, guint n_tensor,
                        guint modules, gboolean experts_alone)
{
  guint count[PS_N_UNIT_KINDS];
  List list = { .work = work,
                .kind = kind == PS_OP_R ? PS_OP_F : kind,
                .t = n_tensor,
                .context = MAX (model->spread.context, 1),
                .e = ps_precision_bytes (model->precision) };
  PsModel own;

  ps_model_count_units (model, shape, count);
  for (PsUnitKind unit = 0; unit < PS_N_UNIT_KINDS; unit++)
    if (count[unit] > 0) {
      list.model = ps_unit_model (model, unit, &own);
      list.repeats = count[unit];
      list.graphs = unit >= PS_UNIT_ATTENTION && unit <= PS_UNIT_LINEAR ? PS_CUDA_GRAPHS_ATTN : PS_CUDA_GRAPHS_FULL;
      list.tokens = model->serves && unit == PS_UNIT_LOSS ? model->microbatch_size
                                                          : ps_model_tokens (list.model) / list.context;
      if (list.tokens > 0) /* an encoder without images has none */
        list_unit (&list, ps_unit_describe (model, unit), modules, experts_alone);
    }
}

void ps_work_stage (const PsModel *model, const PsStageShape *shape, PsOpKind kind, guint n_tensor, PsWork *work)
{
  work->n_kernels = 0;
  list_stage (work, model, shape, kind == PS_OP_BW ? PS_OP_B : kind, n_tensor, PS_RECOMPUTE_FULL, FALSE);
  if (kind == PS_OP_BW)
    list_stage (work, model, shape, PS_OP_W, n_tensor, PS_RECOMPUTE_FULL, FALSE);
}

void ps_work_recompute (const PsModel *model, const PsStageShape *shape, PsRecompute recompute, guint n_tensor,
                        PsWork *work)
{
  const PsStageShape again = ps_recompute_shape (shape, recompute);

  work->n_kernels = 0;
  list_stage (work, model, &again, PS_OP_F, n_tensor, recompute, FALSE);
}

void ps_work_experts (const PsModel *model, const PsStageShape *shape, PsOpKind kind, guint n_tensor, PsWork *work)
{
  work->n_kernels = 0;
  list_stage (work, model, shape, kind, n_tensor, PS_RECOMPUTE_FULL, TRUE);
}

gint64 ps_work_flops (const PsWork *work)
{
  gint64 sum = 0;

  for (guint i = 0; i < work->n_kernels; i++)
    sum += ps_work_kernel_flops (&work->kernel[i]);
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

static double rate_part (const PsCluster *cluster, const PsWorkKernel *kernel)
{
  PsWorkClass type = kernel->type;
  double part = type == PS_WORK_ATTENTION ? cluster->attention_efficiency
                : type == PS_WORK_SCORES  ? cluster->scores_efficiency
                : kernel->bits > 8        ? cluster->efficiency
                : kernel->bits <= 4       ? cluster->efficiency_fp4
                : kernel->blocks          ? cluster->efficiency_mxfp8
                                          : cluster->efficiency_fp8;

  return part > 0 ? part : cluster->efficiency;
}

static double multiply_ns (const PsCluster *cluster, const PsWorkKernel *kernel)
{
  double flops = 2 * (double)kernel->products * (double)kernel->m * (double)kernel->n * (double)kernel->k;
  double rate = ps_work_peak_flops (cluster, kernel->bits, NULL) * rate_part (cluster, kernel) / 1e9;

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
  if (kernel->pieces > 1 && cluster->tensor_overlap > 0) {
    PsWorkKernel piece = *kernel;

    piece.pieces = 1;
    piece.m = (kernel->m + kernel->pieces - 1) / kernel->pieces;
    piece.bytes = kernel->bytes / kernel->pieces;
    return kernel->pieces * kernel_ns (cluster, &piece);
  }
  if (kernel->products == 0 && kernel->bytes == 0)
    return 0;
  return MAX (multiply_ns (cluster, kernel), move_ns (cluster, (double)kernel->bytes)) + (double)cluster->kernel_ns;
}

static gboolean is_in_graph (const PsCluster *cluster, const PsWorkKernel *kernel)
{
  return cluster->cuda_graphs != PS_CUDA_GRAPHS_NONE && kernel->graphs <= cluster->cuda_graphs;
}

/* The host's time for the launches of a kernel. */
static double launches_ns (const PsCluster *cluster, const PsWorkKernel *kernel)
{
  gint64 expert_ns = cluster->expert_launch_ns > 0 ? cluster->expert_launch_ns : cluster->launch_ns;

  return (double)(kernel->launches > 0 ? kernel->launches * expert_ns : cluster->launch_ns);
}

gint64 ps_work_attention_ns (const PsWork *work, const PsCluster *cluster)
{
  double ns = 0;

  for (guint i = 0; i < work->n_kernels; i++)
    if (work->kernel[i].type == PS_WORK_ATTENTION || work->kernel[i].type == PS_WORK_SCORES)
      ns += work->kernel[i].repeats * kernel_ns (cluster, &work->kernel[i]);
  return round_time (ns);
}

gint64 ps_work_ns (const PsWork *work, const PsCluster *cluster, gint64 talk_ns)
{
  double ns = (double)talk_ns, host_ns = 0;

  for (guint i = 0; i < work->n_kernels; i++) {
    ns += work->kernel[i].repeats * kernel_ns (cluster, &work->kernel[i]);
    if (!is_in_graph (cluster, &work->kernel[i]))
      host_ns += (double)work->kernel[i].repeats * launches_ns (cluster, &work->kernel[i]);
  }
  return round_time (MAX (ns, host_ns));
}

gint64 ps_work_optimizer_ns (const PsModel *model, const PsCluster *cluster, const PsStateBytes *state)
{
  gint64 weights = model->precision == PS_PRECISION_FP32 ? 2 * state->gathered_bytes : state->gathered_bytes;
  double bytes = (double)(state->gradient_bytes + 2 * state->optimizer_bytes + weights);

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
