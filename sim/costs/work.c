/* work.c - the kernels of a stage. */
#include <pipesim/work.h>

/* A list under construction, for one kind of op on one of t GPUs. */
typedef struct
{
  PsWork *work;
  const PsModel *model;
  PsOpKind kind;  /* F, B or W */
  guint repeats;  /* of what is added next */
  gint64 t;       /* GPUs */
  gint64 tokens;  /* of a microbatch, whole */
  gint64 h, c, f; /* widths of hidden, keys and feed-forward */
  gint64 e;       /* bytes of an element */
} List;

static void
add (const List *list, PsWorkKernel kernel)
{
  g_assert (list->work->n_kernels < PS_MAX_WORK_KERNELS);
  kernel.repeats = list->repeats;
  kernel.bits = 8 * (guint)list->e;
  list->work->kernel[list->work->n_kernels++] = kernel;
}

/* The products with a matrix of weights of `rows` by `columns`. */
static void
add_matrix (const List *list, const char *name, gint64 rows, gint64 columns)
{
  PsWorkKernel kernel
      = { .name = name, .type = PS_WORK_PRODUCT, .products = 1, .m = list->tokens, .n = columns, .k = rows };
  gint64 output = list->e;

  if (list->kind == PS_OP_B)
    {
      kernel.n = rows;
      kernel.k = columns;
    }
  if (list->kind == PS_OP_W)
    {
      kernel.m = rows;
      kernel.k = list->tokens;
      output = 2 * (list->model->fp32_gradients ? 4 : list->e);
    }
  kernel.bytes = list->e * (kernel.m * kernel.k + kernel.k * kernel.n) + output * kernel.m * kernel.n;
  add (list, kernel);
}

/* A kernel that moves so many bytes for each token. */
static void
add_memory (const List *list, const char *name, gint64 bytes_per_token)
{
  add (list, (PsWorkKernel){ .name = name, .type = PS_WORK_MEMORY, .bytes = list->tokens / list->t * bytes_per_token });
}

/* The same, of a tensor that is as wide as the model. */
static void
add_wide (const List *list, const char *name, gint64 bytes_per_token)
{
  add_memory (list, name, bytes_per_token * (list->model->whole_sequences ? list->t : 1));
}

/* A kernel that moves so many bytes for each score. */
static void
add_scores (const List *list, const char *name, gint64 bytes_per_score)
{
  gint64 scores = list->tokens * list->model->sequence * (list->model->heads / list->t);

  add (list, (PsWorkKernel){ .name = name, .type = PS_WORK_MEMORY, .bytes = scores * bytes_per_score });
}

/* `products` products of every head. They read and write `rows` rows of queries, keys or values for a token, and so
 * many bytes for a score. */
static void
add_heads (const List *list, const char *name, PsWorkClass type, gint64 products, gint64 rows, gint64 bytes_per_score)
{
  const PsModel *model = list->model;
  gint64 heads = model->microbatch_size * (model->heads / list->t), s = model->sequence;
  gint64 d = model->hidden / model->heads;

  add (list, (PsWorkKernel){ .name = name,
                             .type = type,
                             .products = products * heads,
                             .m = s,
                             .n = s,
                             .k = d,
                             .bytes = heads * s * (rows * d * list->e + s * bytes_per_score) });
}

static void
list_attention (const List *list)
{
  gboolean forward = list->kind == PS_OP_F, dropout = list->model->mlp == PS_MLP_GELU;
  gint64 e = list->e;

  if (list->kind == PS_OP_W)
    return;
  if (list->model->flash_attention)
    {
      add_heads (list, "flash attention", PS_WORK_ATTENTION, forward ? 2 : 5, forward ? 4 : 8, 0);
      return;
    }
  if (forward)
    {
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

static void
list_matrices (const List *list)
{
  gint64 h = list->h, t = list->t, f = list->f;

  add_matrix (list, "query, key, value", h, (h + 2 * list->c) / t);
  add_matrix (list, "output", h / t, h);
  add_matrix (list, "feed-forward up", h, (list->model->mlp == PS_MLP_SWIGLU ? 2 : 1) * f / t);
  add_matrix (list, "feed-forward down", f / t, h);
}

static void
list_gpt_layer (const List *list)
{
  gint64 h = list->h, c = list->c, f = list->f, e = list->e;

  if (list->kind == PS_OP_F)
    for (guint half = 0; half < 2; half++)
      {
        add_wide (list, "norm", 2 * h * e);
        add_wide (list, "bias, dropout, add", 3 * h * e + h);
      }
  if (list->kind == PS_OP_F)
    add_memory (list, "bias, GELU", 2 * f * e);
  if (list->kind != PS_OP_B)
    return;
  for (guint half = 0; half < 2; half++)
    {
      add_wide (list, "norm, gradient of input", 3 * h * e);
      add_wide (list, "norm, gradient of parameters", 2 * h * e);
      add_wide (list, "dropout", 2 * h * e + h);
      add_wide (list, "bias of output", h * e);
      add_wide (list, "sum of gradients", 3 * h * e);
    }
  add_memory (list, "bias of query, key, value", (h + 2 * c) * e);
  add_memory (list, "bias of feed-forward", f * e);
  add_memory (list, "GELU", 3 * f * e);
}

static void
list_llama_layer (const List *list)
{
  gint64 h = list->h, c = list->c, f = list->f, e = list->e;
  gboolean forward = list->kind == PS_OP_F;

  if (list->kind == PS_OP_W)
    return;
  for (guint half = 0; half < 2; half++)
    if (forward)
      {
        add_wide (list, "norm", 2 * h * e);
        add_wide (list, "add", 3 * h * e);
      }
    else
      {
        add_wide (list, "norm, gradient of input", 3 * h * e);
        add_wide (list, "norm, gradient of parameters", 2 * h * e);
        add_wide (list, "sum of gradients", 3 * h * e);
      }
  add_memory (list, "rotation of queries", 2 * h * e);
  add_memory (list, "rotation of keys", 2 * c * e);
  add_memory (list, "SwiGLU", (forward ? 3 : 5) * f * e);
}

static void
list_layer (const List *list)
{
  list_matrices (list);
  list_attention (list);
  if (list->model->mlp == PS_MLP_SWIGLU)
    list_llama_layer (list);
  else
    list_gpt_layer (list);
}

static void
list_head (const List *list)
{
  gint64 h = list->h, V = list->model->vocabulary, e = list->e;
  gboolean forward = list->kind == PS_OP_F;

  add_matrix (list, "head", h, (V + list->t - 1) / list->t);
  if (list->kind == PS_OP_W)
    return;
  add_wide (list, "norm of head", (forward ? 2 : 5) * h * e);
  if (e != 4)
    add_memory (list, "conversion of logits", V * (e + 4));
  add_memory (list, "cross-entropy", V * (forward ? 32 : 8));
}

static void
list_embedding (const List *list)
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

static List
list_begin (PsWork *work, const PsModel *model, PsOpKind kind, guint n_layers, guint n_tensor)
{
  return (List){ .work = work,
                 .model = model,
                 .kind = kind == PS_OP_R ? PS_OP_F : kind,
                 .repeats = n_layers,
                 .t = n_tensor,
                 .tokens = ps_model_tokens (model),
                 .h = model->hidden,
                 .c = ps_model_kv_width (model),
                 .f = model->feed_forward,
                 .e = ps_precision_bytes (model->precision) };
}

static void
list_stage (PsWork *work, const PsModel *model, const PsStageShape *shape, PsOpKind kind, guint n_tensor)
{
  List list = list_begin (work, model, kind, shape->n_layers, n_tensor);

  list_layer (&list);
  list.repeats = 1;
  if (shape->head)
    list_head (&list);
  if (shape->embedding)
    list_embedding (&list);
}

PsWork
ps_work_stage (const PsModel *model, const PsStageShape *shape, PsOpKind kind, guint n_tensor)
{
  PsWork work = { .n_kernels = 0 };

  list_stage (&work, model, shape, kind == PS_OP_BW ? PS_OP_B : kind, n_tensor);
  if (kind == PS_OP_BW)
    list_stage (&work, model, shape, PS_OP_W, n_tensor);
  return work;
}

PsWork
ps_work_recompute (const PsModel *model, const PsStageShape *shape, PsRecompute recompute, guint n_tensor)
{
  PsWork work = { .n_kernels = 0 };
  const List layers = list_begin (&work, model, PS_OP_F, shape->n_layers, n_tensor);

  if (recompute == PS_RECOMPUTE_FULL)
    list_layer (&layers);
  if (recompute == PS_RECOMPUTE_SELECTIVE && !model->flash_attention)
    list_attention (&layers);
  return work;
}

gint64
ps_work_flops (const PsWork *work)
{
  gint64 sum = 0;

  for (guint i = 0; i < work->n_kernels; i++)
    {
      const PsWorkKernel *kernel = &work->kernel[i];

      sum += 2 * kernel->repeats * kernel->products * kernel->m * kernel->n * kernel->k;
    }
  return sum;
}

gint64
ps_work_bytes (const PsWork *work)
{
  gint64 sum = 0;

  for (guint i = 0; i < work->n_kernels; i++)
    if (work->kernel[i].type != PS_WORK_PRODUCT)
      sum += work->kernel[i].repeats * work->kernel[i].bytes;
  return sum;
}
