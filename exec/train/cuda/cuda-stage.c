/* cuda-stage.c - runs the ops of one stage: plans the blocks of each, then launches its kernels. */
#include "cuda-stage.h"

#include "cuda-graph.h"
#include "cuda-slot.h"
#include "cuda-weights.h"

#include <math.h>

/* Captures per op and slot: an op's travelling blocks may differ from step to step. */
#define CAPTURES_PER_OP 4

struct _PsCudaStage {
  PsCudaShared *shared;
  PsStageShape shape;
  guint n_sms; /* multiprocessors of the part whose choices it takes */
  PsCudaWeights weights;
  double *losses;    /* [n_slots], the part of each slice, on the device; NULL without head */
  PsCudaSlot *slots; /* [n_slots] the slices of each microbatch in order */
  guint n_slots;
  PsCudaPlan *plan;     /* of the current op */
  PsCudaGraphs *graphs; /* NULL: not wanted, or not every algorithm is chosen yet */
};

/* Returns the words of the planned op. */
static const uint32_t *words_of (const PsCudaStage *stage)
{
  return ps_cuda_shared_words (stage->shared, stage->plan->microbatch, stage->plan->slice);
}

static void embed (PsCudaStage *stage)
{
  PsCudaShared *shared = stage->shared;
  const PsCudaSizes *sizes = &shared->sizes;
  const PsCudaEmbedding embedding = ps_cuda_weights_embedding (&stage->weights, shared, stage->plan->slice);

  ps_cuda_note (&shared->context, "embedding",
                ps_cuda_embedding (sizes->element, stage->plan->steps[0].stream, embedding.weight[PS_CUDA_TOKEN],
                                   embedding.weight[PS_CUDA_POSITION], words_of (stage), sizes->batch, sizes->sequence,
                                   sizes->hidden, shared->context.stream));
}

static void embed_weights (PsCudaStage *stage)
{
  PsCudaShared *shared = stage->shared;
  const PsCudaSizes *sizes = &shared->sizes;
  const PsCudaEmbedding embedding = ps_cuda_weights_embedding (&stage->weights, shared, stage->plan->slice);

  ps_cuda_note (&shared->context, "gradient of the embedding",
                ps_cuda_embedding_weights (sizes->element, embedding.gradient[PS_CUDA_TOKEN],
                                           embedding.gradient[PS_CUDA_POSITION], stage->plan->steps[0].stream,
                                           words_of (stage), sizes->batch, sizes->sequence, sizes->hidden,
                                           shared->scratch, shared->context.stream));
}

static const PsCudaEarlier *earlier_of (const PsCudaStage *stage, guint layer)
{
  return ps_cuda_plan_earlier (stage->plan, &stage->shape, &stage->shared->sizes, layer);
}

static void launch_forward (PsCudaStage *stage)
{
  const PsCudaStep *steps = stage->plan->steps;
  const guint slice = stage->plan->slice;
  PsCudaShared *shared = stage->shared;

  if (stage->shape.embedding)
    embed (stage);
  for (guint i = 0; i < stage->shape.n_layers; i++) {
    const PsCudaLayer layer = ps_cuda_weights_layer (&stage->weights, shared, i);

    ps_cuda_layer_forward (&layer, shared, &steps[i].state, earlier_of (stage, i), slice, steps[i + 1].stream);
  }
  if (stage->shape.head) {
    const PsCudaHead head = ps_cuda_weights_head (&stage->weights, shared);

    ps_cuda_head_forward (&head, shared, &stage->plan->head, words_of (stage),
                          stage->losses + stage->plan->microbatch * (guint)shared->sizes.slices + slice);
  }
}

/* Runs the forward of a layer again if it is planned. */
static void restore_layer (PsCudaStage *stage, guint i)
{
  const PsCudaLayer layer = ps_cuda_weights_layer (&stage->weights, stage->shared, i);
  const PsCudaStep *step = &stage->plan->steps[i];

  if (step->again != NULL)
    ps_cuda_layer_forward (&layer, stage->shared, &step->state, earlier_of (stage, i), stage->plan->slice, step->again);
}

static void weigh_layer (PsCudaStage *stage, guint i)
{
  const PsCudaLayer layer = ps_cuda_weights_layer (&stage->weights, stage->shared, i);

  ps_cuda_layer_weights (&layer, stage->shared, &stage->plan->steps[i].state);
}

static void launch_backward (PsCudaStage *stage)
{
  const PsCudaStep *steps = stage->plan->steps;
  const guint slice = stage->plan->slice;
  PsCudaShared *shared = stage->shared;

  if (stage->shape.head) {
    const PsCudaHead head = ps_cuda_weights_head (&stage->weights, shared);

    ps_cuda_head_backward (&head, shared, &stage->plan->head, steps[stage->shape.n_layers].stream);
  }
  for (guint i = stage->shape.n_layers; i-- > 0;) {
    const PsCudaLayer layer = ps_cuda_weights_layer (&stage->weights, shared, i);

    restore_layer (stage, i);
    ps_cuda_layer_backward (&layer, shared, &steps[i].state, earlier_of (stage, i), slice, steps[i].stream);
    if (stage->plan->kind == PS_OP_BW)
      weigh_layer (stage, i);
  }
}

static void launch_weights (PsCudaStage *stage)
{
  PsCudaShared *shared = stage->shared;

  if (stage->shape.head) {
    const PsCudaHead head = ps_cuda_weights_head (&stage->weights, shared);

    ps_cuda_head_weights (&head, shared, &stage->plan->head);
  }
  for (guint i = stage->shape.n_layers; i-- > 0 && stage->plan->kind == PS_OP_W;)
    weigh_layer (stage, i);
  if (stage->shape.embedding)
    embed_weights (stage);
}

static void launch (gpointer data)
{
  PsCudaStage *stage = data;
  const guint32 kind = stage->plan->kind;

  ps_cuda_products_set_part (stage->shared->products, stage->n_sms);
  if (kind == PS_OP_F)
    launch_forward (stage);
  for (guint i = 0; kind == PS_OP_R && i < stage->shape.n_layers; i++)
    restore_layer (stage, i);
  if (kind == PS_OP_B || kind == PS_OP_BW)
    launch_backward (stage);
  if (kind == PS_OP_W || kind == PS_OP_BW)
    launch_weights (stage);
  if (kind == PS_OP_O)
    ps_cuda_weights_optimize (&stage->weights, stage->shared);
}

/* Runs the op on the planned blocks. O is never captured: its kernel takes the number of the step, which never
 * repeats. */
static gboolean run_planned (PsCudaStage *stage, PsOp op, GError **error)
{
  PsCudaContext *context = &stage->shared->context;
  PsCudaPlan *plan = stage->plan;

  plan->kind = op.kind;
  plan->microbatch = stage->shape.embedding || stage->shape.head ? op.microbatch : 0;
  plan->slice = op.slice;
  plan->lane = stage->shared->lane;
  plan->weights = stage->weights.weights;
  ps_cuda_begin (context);
  if (stage->graphs != NULL && op.kind != PS_OP_O)
    ps_cuda_graphs_run (stage->graphs, context, plan, ps_cuda_plan_bytes (&stage->shape, &stage->shared->sizes), launch,
                        stage);
  else
    launch (stage);
  return ps_cuda_finish (context, error);
}

/* Returns the slot of op's slice if its last op was `last`; NULL with an error if it was another. */
static PsCudaSlot *find_slot (PsCudaStage *stage, PsOp op, PsCudaProgress last, GError **error)
{
  static const char *const complaint[] = {
    [PS_CUDA_EMPTY] = "its F has not run",
    [PS_CUDA_FORWARD] = "its F has run, its B has not",
    [PS_CUDA_BACKWARD] = "its B has run, its W has not",
  };
  const char *name = op.kind == PS_OP_BW ? "B" : ps_op_kind_name (op.kind);
  const guint n = stage->shared->n_microbatches, n_slices = (guint)stage->shared->sizes.slices;
  PsCudaSlot *slot = stage->slots + op.microbatch * n_slices + op.slice;

  if (op.microbatch >= n || op.slice >= n_slices)
    return ps_refuse_null (error, PS_ERROR_SCHEDULE, "%s of microbatch %u, slice %u: there are only %u, %u", name,
                           op.microbatch, op.slice, n, n_slices);
  if (slot->progress == last)
    return slot;
  return ps_refuse_null (error, PS_ERROR_SCHEDULE, "%s of microbatch %u: %s", name, op.microbatch,
                         complaint[slot->progress]);
}

static gboolean forward (PsCudaStage *stage, PsOp op, void *input, void **output, GError **error)
{
  PsCudaSlot *slot = find_slot (stage, op, PS_CUDA_EMPTY, error);

  if (slot == NULL) {
    ps_memory_pool_give (stage->shared->memory, input);
    return FALSE;
  }
  const PsStageShape shape = ps_cuda_shape_of (stage->shared, &stage->shape, op);
  if (!ps_cuda_slot_forward (slot, stage->shared, &shape, input, stage->plan, error))
    return FALSE;
  if (!run_planned (stage, op, error)) {
    ps_cuda_slot_empty (slot, stage->shared, &stage->shape);
    return FALSE;
  }
  slot->progress = PS_CUDA_FORWARD;
  *output = g_steal_pointer (&slot->output);
  return TRUE;
}

static gboolean recompute (PsCudaStage *stage, PsOp op, GError **error)
{
  PsCudaSlot *slot = find_slot (stage, op, PS_CUDA_FORWARD, error);

  if (slot == NULL)
    return FALSE;
  const PsStageShape shape = ps_cuda_shape_of (stage->shared, &stage->shape, op);
  return ps_cuda_slot_recompute (slot, stage->shared, &shape, stage->plan, error) && run_planned (stage, op, error);
}

/* Runs B or BW. */
static gboolean backward (PsCudaStage *stage, PsOp op, void *input, void **output, GError **error)
{
  PsCudaSlot *slot = find_slot (stage, op, PS_CUDA_FORWARD, error);

  if (slot == NULL) {
    ps_memory_pool_give (stage->shared->memory, input);
    return FALSE;
  }
  const PsStageShape shape = ps_cuda_shape_of (stage->shared, &stage->shape, op);
  if (!ps_cuda_slot_backward (slot, stage->shared, &shape, op.kind == PS_OP_BW, input, output, stage->plan, error)
      || !run_planned (stage, op, error)) {
    ps_memory_pool_give (stage->shared->memory, g_steal_pointer (output));
    return FALSE;
  }
  slot->progress = PS_CUDA_BACKWARD;
  if (op.kind == PS_OP_BW)
    ps_cuda_slot_empty (slot, stage->shared, &stage->shape);
  return TRUE;
}

static gboolean weight_gradients (PsCudaStage *stage, PsOp op, GError **error)
{
  PsCudaSlot *slot = find_slot (stage, op, PS_CUDA_BACKWARD, error);

  if (slot == NULL)
    return FALSE;
  ps_cuda_slot_weights (slot, stage->shared, &stage->shape, stage->plan);
  if (!run_planned (stage, op, error))
    return FALSE;
  ps_cuda_slot_empty (slot, stage->shared, &stage->shape);
  return TRUE;
}

gboolean ps_cuda_stage_run (PsCudaStage *stage, PsOp op, void *input, void **output, GError **error)
{
  g_return_val_if_fail (op.kind != PS_OP_F || (input == NULL) == stage->shape.embedding, FALSE);
  g_return_val_if_fail ((op.kind != PS_OP_B && op.kind != PS_OP_BW) || (input == NULL) == stage->shape.head, FALSE);

  *output = NULL;
  switch (op.kind) {
  case PS_OP_F:
    return forward (stage, op, input, output, error);
  case PS_OP_R:
    return recompute (stage, op, error);
  case PS_OP_B:
  case PS_OP_BW:
    return backward (stage, op, input, output, error);
  case PS_OP_W:
    return weight_gradients (stage, op, error);
  case PS_OP_O:
    return run_planned (stage, op, error);
  default:
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "the cuda device can't run %s", ps_op_kind_name (op.kind));
  }
}

/* Takes a boundary tensor of zeros, if the op takes an input. */
static gboolean zero_input (PsCudaStage *stage, gboolean wanted, void **input, GError **error)
{
  PsCudaShared *shared = stage->shared;
  const gsize bytes = ps_cuda_sizes_boundary_bytes (&shared->sizes);

  *input = NULL;
  if (!wanted)
    return TRUE;
  *input = ps_cuda_shared_take (shared, bytes, PS_USE_BUFFER, "activations", error);
  return *input != NULL
         && ps_cuda_ok ("clearing memory", cudaMemsetAsync (*input, 0, bytes, shared->context.stream), error);
}

static gboolean try_op (PsCudaStage *stage, PsOpKind kind, guint slice, gboolean has_input, GError **error)
{
  void *input, *output;

  if (!zero_input (stage, has_input, &input, error)
      || !ps_cuda_stage_run (stage, (PsOp){ .kind = (guint8)kind, .slice = (guint8)slice }, input, &output, error))
    return FALSE;
  ps_memory_pool_give (stage->shared->memory, output);
  return TRUE;
}

static gboolean clear_losses (PsCudaStage *stage, GError **error)
{
  PsCudaShared *shared = stage->shared;

  /* A double whose bytes are all 255 is NaN: no forward has run. */
  return stage->losses == NULL
         || ps_cuda_ok ("clearing losses",
                        cudaMemsetAsync (stage->losses, 0xff, stage->n_slots * sizeof (double), shared->context.stream),
                        error);
}

static gboolean warm_up (PsCudaStage *stage, GError **error)
{
  PsCudaShared *shared = stage->shared;
  const guint n = MIN (2, (guint)shared->sizes.slices); /* further slices run the kernels of the second */
  gboolean ok = TRUE;

  /* Devices take turns at choosing algorithms. One that waits for its stream then must not wait for a sum with another.
   */
  shared->alone = TRUE;
  for (guint i = 0; ok && i < n; i++)
    ok = try_op (stage, PS_OP_F, i, !stage->shape.embedding, error);
  for (guint i = n; ok && i-- > 0;)
    ok = try_op (stage, PS_OP_B, i, !stage->shape.head, error) && try_op (stage, PS_OP_W, i, FALSE, error);
  shared->alone = FALSE;
  return ok && ps_cuda_weights_forget (&stage->weights, shared, error) && clear_losses (stage, error)
         && ps_cuda_ok ("waiting", cudaStreamSynchronize (shared->context.stream), error);
}

static gboolean take_losses (PsCudaStage *stage, GError **error)
{
  const gsize bytes = stage->n_slots * sizeof (double);

  if (!stage->shape.head)
    return TRUE;
  stage->losses = ps_cuda_shared_take (stage->shared, bytes, PS_USE_STATE, "losses", error);
  return stage->losses != NULL && clear_losses (stage, error);
}

PsCudaStage *ps_cuda_stage_new (PsCudaShared *shared, const PsStageShape *shape, guint n_sms, GError **error)
{
  g_autoptr (PsCudaStage) stage = g_new0 (PsCudaStage, 1);

  stage->shared = shared;
  stage->shape = *shape;
  stage->n_sms = n_sms;
  stage->n_slots = shared->n_microbatches * (guint)shared->sizes.slices;
  stage->slots = g_new0 (PsCudaSlot, stage->n_slots);
  for (guint i = 0; i < stage->n_slots; i++)
    stage->slots[i].slice = i % (guint)shared->sizes.slices;
  stage->plan = g_malloc0 (ps_cuda_plan_bytes (shape, &shared->sizes));
  if (!ps_cuda_weights_init (&stage->weights, shared, shape, error) || !take_losses (stage, error)
      || (shared->n_microbatches > 0 && !warm_up (stage, error)))
    return NULL;
  /* Sums over devices that share layers are no part of a graph. */
  if (shared->context.graphs && shared->sizes.parts == 1)
    stage->graphs = ps_cuda_graphs_new (CAPTURES_PER_OP * 4 * stage->n_slots);
  return g_steal_pointer (&stage);
}

void ps_cuda_stage_free (PsCudaStage *stage)
{
  if (stage == NULL)
    return;
  for (guint i = 0; i < stage->n_slots; i++)
    g_free (stage->slots[i].layers);
  ps_cuda_graphs_free (stage->graphs);
  g_free (stage->slots);
  g_free (stage->plan);
  ps_cuda_weights_clear (&stage->weights);
  g_free (stage);
}

void ps_cuda_stage_move (PsCudaStage *stage, PsCudaShared *shared)
{
  stage->shared = shared;
}

const PsStageShape *ps_cuda_stage_shape (const PsCudaStage *stage)
{
  return &stage->shape;
}

double ps_cuda_stage_loss (PsCudaStage *stage, guint microbatch)
{
  const guint n = (guint)stage->shared->sizes.slices;
  g_autofree double *parts = g_new (double, n);
  double loss = 0;

  g_return_val_if_fail (microbatch < stage->shared->n_microbatches, NAN);

  if (stage->losses == NULL
      || !ps_cuda_copy (&stage->shared->context, parts, stage->losses + microbatch * n, n * sizeof *parts, NULL))
    return NAN;
  for (guint i = 0; i < n; i++)
    loss += parts[i];
  return loss;
}

const float *ps_cuda_stage_gradients (PsCudaStage *stage, gsize *n)
{
  return ps_cuda_weights_read (&stage->weights, stage->shared, n);
}

float *ps_cuda_stage_gradient_memory (PsCudaStage *stage, gsize *n)
{
  *n = stage->weights.parameters.n_end;
  return stage->weights.gradients;
}

gboolean ps_cuda_stage_read_state (PsCudaStage *stage, PsStageState *state, GError **error)
{
  return ps_cuda_weights_read_state (&stage->weights, stage->shared, state, error);
}

gboolean ps_cuda_stage_write_state (PsCudaStage *stage, const PsStageState *state, GError **error)
{
  return ps_cuda_weights_write_state (&stage->weights, stage->shared, state, error);
}

gboolean ps_cuda_stage_use (PsCudaStage *stage, guint number, guint64 version, GError **error)
{
  return ps_cuda_weights_use (&stage->weights, version)
         || ps_refuse (error, PS_ERROR_SCHEDULE,
                       "stage %u: an op needs version %" G_GUINT64_FORMAT
                       " of the weights: the newest is %" G_GUINT64_FORMAT ", and %u are kept",
                       number, version, stage->weights.n_steps, stage->weights.n_versions);
}

double ps_cuda_stage_norm_square (PsCudaStage *stage)
{
  return ps_cuda_weights_norm_square (&stage->weights, stage->shared);
}

gboolean ps_cuda_stage_settle (PsCudaStage *stage, float scale, GError **error)
{
  ps_cuda_begin (&stage->shared->context);
  ps_cuda_weights_settle (&stage->weights, stage->shared, scale);
  return ps_cuda_finish (&stage->shared->context, error) && ps_cuda_await (&stage->shared->context, error);
}

void ps_cuda_stage_forget (PsCudaStage *stage)
{
  for (guint i = 0; i < stage->n_slots; i++)
    ps_cuda_slot_empty (&stage->slots[i], stage->shared, &stage->shape);
}
