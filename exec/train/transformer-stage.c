/* transformer-stage.c - runs the ops of one stage: plans the blocks of each, then puts its kernels into a queue. */
#include "train/transformer-stage.h"

#include "train/devices.h"

#include <math.h>
#include <string.h>

#define ACTIVATIONS "activations"

/* Captures per op and slot: an op's travelling blocks may differ from step to step. */
#define CAPTURES_PER_OP 4

/* The last op of a slice of a microbatch; W makes it EMPTY again. */
typedef enum {
  EMPTY,
  FORWARD,
  BACKWARD,
} Progress;

/* A slice of a microbatch in flight. */
typedef struct {
  Progress progress;
  guint slice;      /* the slots of the microbatch's earlier slices lie before this one */
  PsBlocks *layers; /* [n_layers + 1], the head's last; NULL when EMPTY */
  void *output;     /* output of the forward until the stage hands it on; NULL on the last stage */
  void *dembedding; /* gradient of the embedding's output */
} Slot;

/* What a layer's forward makes again before its backward. */
typedef enum {
  NOTHING,
  KEPT,       /* what attention keeps */
  ALL_BLOCKS, /* all but its input */
} Again;

/* One layer of a plan. Hosts in `blocks`: blocks that come back from there first. */
typedef struct {
  PsBlocks blocks;
  void *stream; /* F: the residual stream before the layer; B: its gradient */
  void *output; /* of a forward that runs again */
  guint64 again;
} Step;

/* One op, with everything that its kernels depend on. Plans are compared as bytes. */
typedef struct {
  guint32 kind;       /* PsOpKind */
  guint32 microbatch; /* on stages with embedding or head, else 0 */
  guint32 slice;
  guint32 twin;        /* TRUE: it runs in the second lane */
  const void *weights; /* that the kernels read */
  Step steps[];        /* [n_layers + 1]; the last one has the head's blocks and the output of the layers. Blocks are
                          NULL if there is none. Entries for earlier slices follow, see earlier_of */
} Plan;

struct _PsStage {
  PsTransformer *transformer;
  PsStageShape shape;
  guint n_sms; /* multiprocessors of the part whose choices it takes */
  PsWeights weights;
  PsLane lanes[2]; /* of the transformer's queue and of its twin */
  double *losses;  /* [n_slots], the part of each slice, in the backend's memory; NULL without head */
  Slot *slots;     /* [n_slots] the slices of each microbatch in order */
  guint n_slots;
  Plan *plan;     /* of the op that runs */
  void *captures; /* see PsKernels.capture; NULL: none */
};

/* --- blocks --- */

static void give (PsStage *stage, void **block)
{
  ps_memory_pool_give (stage->transformer->memory, *block);
  *block = NULL;
}

/* Takes a block; bytes 0: takes none. */
static gboolean take (PsStage *stage, void **block, gsize bytes, PsUseKind kind, GError **error)
{
  *block = bytes > 0 ? ps_transformer_take (stage->transformer, bytes, kind, ACTIVATIONS, error) : NULL;
  return bytes == 0 || *block != NULL;
}

/* Takes blocks of layer number i; n_layers is the head. */
static gboolean take_blocks (PsStage *stage, PsBlocks *layers, guint i, PsBlock first, PsBlock last, GError **error)
{
  for (guint block = first; block <= last; block++)
    if (!take (stage, &layers[i].at[block], ps_block_bytes (stage->transformer, i == stage->shape.n_layers, block),
               PS_USE_ACTIVATION, error))
      return FALSE;
  return TRUE;
}

static void give_layer (PsStage *stage, PsBlocks *layer)
{
  for (guint block = 0; block < PS_N_BLOCKS; block++)
    give (stage, &layer->at[block]);
  for (guint block = 0; block < G_N_ELEMENTS (layer->host); block++)
    ps_memory_pool_give (stage->transformer->uncounted, g_steal_pointer (&layer->host[block]));
}

static void empty (PsStage *stage, Slot *slot)
{
  for (guint i = 0; slot->layers != NULL && i <= stage->shape.n_layers; i++)
    give_layer (stage, &slot->layers[i]);
  give (stage, &slot->output);
  give (stage, &slot->dembedding);
  g_clear_pointer (&slot->layers, g_free);
  slot->progress = EMPTY;
}

/* Bytes of the residual stream, and of its gradient, between stages and inside the stage. */
static gsize message_bytes (const PsStage *stage)
{
  return ps_sizes_message_bytes (&stage->transformer->sizes);
}

static gsize stream_bytes (const PsStage *stage)
{
  return ps_block_bytes (stage->transformer, FALSE, PS_BLOCK_X);
}

/* --- plans --- */

static gsize plan_bytes (const PsStage *stage)
{
  const gsize n_earlier = stage->shape.n_layers * (gsize)(stage->transformer->sizes.slices - 1);

  return sizeof (Plan) + (stage->shape.n_layers + 1) * sizeof (Step) + n_earlier * sizeof (PsEarlier);
}

/* Returns the entries of the plan for the earlier slices of a layer, one less than there are slices. */
static PsEarlier *earlier_of (const PsStage *stage, guint layer)
{
  PsEarlier *first = (PsEarlier *)(gpointer)(stage->plan->steps + stage->shape.n_layers + 1);

  return first + layer * (guint)(stage->transformer->sizes.slices - 1);
}

static void plan_earlier (PsStage *stage, Slot *slot, guint layer)
{
  PsEarlier *earlier = earlier_of (stage, layer);

  for (guint i = 0; i < slot->slice; i++) {
    void *const *at = (slot - slot->slice + i)->layers[layer].at;

    earlier[i].qkv = at[PS_BLOCK_QKV];
    earlier[i].inherited = at[PS_BLOCK_INHERITED];
  }
}

static gboolean remakes (const PsStage *stage, PsRecompute recompute, PsBlock block)
{
  const PsTransformer *transformer = stage->transformer;

  if (recompute == PS_RECOMPUTE_SELECTIVE)
    return block == PS_BLOCK_KEPT && transformer->kernels->keeps_scores && !transformer->sizes.attention.flash;
  return recompute == PS_RECOMPUTE_FULL && block > PS_BLOCK_X && block <= PS_BLOCK_G;
}

/* Returns the place that keeps the residual stream's block before a layer. */
static void **stream_place (const PsStage *stage, Slot *slot, guint layer)
{
  return layer < stage->shape.n_layers || stage->shape.head ? &slot->layers[layer].at[PS_BLOCK_X] : &slot->output;
}

/* Takes all blocks at once; the caller empties the slot of a forward that does not fit. Layers share one set of the
 * blocks that are made again, and it goes back: the queue runs one layer after the other. input NULL: the embedding's
 * output gets a block of its own. It is taken, also on failure. */
static gboolean plan_forward (PsStage *stage, Slot *slot, PsRecompute recompute, void *input, GError **error)
{
  const guint n = stage->shape.n_layers;
  Plan *plan = stage->plan;
  gboolean ok = TRUE;

  slot->layers = g_new0 (PsBlocks, n + 1);
  for (guint i = 0; i <= n; i++) {
    void **place = stream_place (stage, slot, i);
    const gboolean leaves = place == &slot->output;
    const PsUseKind kind = leaves ? PS_USE_BUFFER : PS_USE_ACTIVATION;

    if (i == 0 && input != NULL) {
      *place = input;
      ps_memory_pool_retag (stage->transformer->memory, input, kind);
    } else
      ok = ok && take (stage, place, leaves ? message_bytes (stage) : stream_bytes (stage), kind, error);
    for (guint block = PS_BLOCK_X + 1; ok && !leaves && block <= PS_BLOCK_LOGITS; block++)
      if (i > 0 && i < n && remakes (stage, recompute, block))
        slot->layers[i].at[block] = slot->layers[0].at[block];
      else
        ok = take_blocks (stage, slot->layers, i, block, block, error);
  }

  memset (plan, 0, plan_bytes (stage));
  for (guint i = 0; ok && i <= n; i++)
    plan->steps[i] = (Step){ .blocks = slot->layers[i], .stream = *stream_place (stage, slot, i) };
  for (guint i = 0; ok && i < n; i++)
    plan_earlier (stage, slot, i);
  for (guint i = 0; i < n; i++)
    for (guint block = PS_BLOCK_X + 1; block <= PS_BLOCK_G; block++)
      if (remakes (stage, recompute, block) && i == 0)
        give (stage, &slot->layers[i].at[block]);
      else if (remakes (stage, recompute, block))
        slot->layers[i].at[block] = NULL;
  return ok;
}

/* Takes the blocks that come back from the host, and those of a forward that runs again, unless it has done so. Nothing
 * reads its output, whose block goes back at once. */
static gboolean plan_again (PsStage *stage, Slot *slot, PsRecompute recompute, guint i, GError **error)
{
  Step *step = &stage->plan->steps[i];
  PsBlocks *layer = &slot->layers[i];

  memcpy (step->blocks.host, layer->host, sizeof layer->host);
  for (guint block = PS_BLOCK_X; block <= PS_BLOCK_G; block++)
    if (layer->host[block] != NULL && !take_blocks (stage, slot->layers, i, block, block, error))
      return FALSE;
  for (guint block = PS_BLOCK_X; block <= PS_BLOCK_G; block++)
    ps_memory_pool_give (stage->transformer->uncounted, g_steal_pointer (&layer->host[block]));
  if (layer->at[PS_BLOCK_KEPT] == NULL) {
    step->again = recompute == PS_RECOMPUTE_FULL ? ALL_BLOCKS : KEPT;
    for (guint block = PS_BLOCK_X; block <= PS_BLOCK_G; block++)
      if (remakes (stage, recompute, block) && !take_blocks (stage, slot->layers, i, block, block, error))
        return FALSE;
    if (step->again == ALL_BLOCKS && !take (stage, &step->output, stream_bytes (stage), PS_USE_ACTIVATION, error))
      return FALSE;
    ps_memory_pool_give (stage->transformer->memory, step->output);
  }
  memcpy (step->blocks.at, layer->at, sizeof layer->at);
  return TRUE;
}

/* Makes again what a forward has made and does not keep; nothing where that is done. */
static gboolean plan_recompute (PsStage *stage, Slot *slot, PsRecompute recompute, GError **error)
{
  memset (stage->plan, 0, plan_bytes (stage));
  for (guint i = 0; i < stage->shape.n_layers; i++) {
    if (!plan_again (stage, slot, recompute, i, error))
      return FALSE;
    plan_earlier (stage, slot, i);
  }
  return TRUE;
}

/* Takes a block for the gradient of a layer's input; the head counts as layer n_layers. Layer 0's gradient is a buffer
 * on its way out, unless the embedding takes it. */
static gboolean take_gradient (PsStage *stage, guint layer, GError **error)
{
  const gboolean leaves = layer == 0 && !stage->shape.embedding;

  return take (stage, &stage->plan->steps[layer].stream, leaves ? message_bytes (stage) : stream_bytes (stage),
               leaves ? PS_USE_BUFFER : PS_USE_ACTIVATION, error);
}

/* Makes room for the gradients that the slice leaves to the slices before it. */
static gboolean take_inherited (PsStage *stage, Slot *slot, guint layer, GError **error)
{
  PsEarlier *earlier = earlier_of (stage, layer);
  guint microbatch = (guint)(slot - stage->slots) / (guint)stage->transformer->sizes.slices;

  for (guint i = 0; i < slot->slice; i++) {
    PsBlocks *layers = (slot - slot->slice + i)->layers;

    earlier[i].begins = layers[layer].at[PS_BLOCK_INHERITED] == NULL;
    ps_transformer_set_slice (stage->transformer, microbatch, i);
    if (earlier[i].begins && !take_blocks (stage, layers, layer, PS_BLOCK_INHERITED, PS_BLOCK_INHERITED, error))
      return FALSE;
  }
  ps_transformer_set_slice (stage->transformer, microbatch, slot->slice);
  plan_earlier (stage, slot, layer);
  return TRUE;
}

/* The gradient of the layer's output becomes the slot's DOUTPUT. weights: a W follows at once. */
static gboolean plan_layer_backward (PsStage *stage, Slot *slot, PsRecompute recompute, guint i, gboolean weights,
                                     GError **error)
{
  Step *step = &stage->plan->steps[i];
  void **at = slot->layers[i].at;

  at[PS_BLOCK_DOUTPUT] = stage->plan->steps[i + 1].stream;
  if (!plan_again (stage, slot, recompute, i, error)
      || !take_blocks (stage, slot->layers, i, PS_BLOCK_DZ, PS_BLOCK_DNORMED1, error)
      || !take_inherited (stage, slot, i, error) || !take_gradient (stage, i, error))
    return FALSE;
  memcpy (step->blocks.at, at, sizeof step->blocks.at);
  if (weights) {
    give_layer (stage, &slot->layers[i]);
    return TRUE;
  }
  /* Only this backward reads these. */
  if (at[PS_BLOCK_DZ] != NULL)
    give (stage, &at[PS_BLOCK_Z]);
  if (at[PS_BLOCK_DQKV] != NULL)
    give (stage, &at[PS_BLOCK_QKV]);
  give (stage, &at[PS_BLOCK_KEPT]);
  give (stage, &at[PS_BLOCK_INHERITED]);
  return TRUE;
}

/* input: the gradient of the output; NULL: the head's. It is taken, also on failure. *output: the gradient of the
 * stage's input; NULL if that is the embedding's. */
static gboolean plan_backward (PsStage *stage, Slot *slot, PsRecompute recompute, gboolean weights, void *input,
                               void **output, GError **error)
{
  const guint n = stage->shape.n_layers;
  Plan *plan = stage->plan;
  gboolean ok = TRUE;

  if (input != NULL && (n > 0 || stage->shape.embedding))
    ps_memory_pool_retag (stage->transformer->memory, input, PS_USE_ACTIVATION);
  memset (plan, 0, plan_bytes (stage));
  plan->steps[n].stream = input;
  if (stage->shape.head) {
    ok = take_blocks (stage, slot->layers, n, PS_BLOCK_DNORMED1, PS_BLOCK_DNORMED1, error)
         && take_gradient (stage, n, error);
    plan->steps[n].blocks = slot->layers[n];
  }
  for (guint i = n; ok && i-- > 0;)
    ok = plan_layer_backward (stage, slot, recompute, i, weights, error);
  *(stage->shape.embedding ? &slot->dembedding : output) = plan->steps[0].stream;
  return ok;
}

/* Takes no blocks. */
static void plan_weights (PsStage *stage, const Slot *slot)
{
  memset (stage->plan, 0, plan_bytes (stage));
  for (guint i = 0; i <= stage->shape.n_layers; i++)
    stage->plan->steps[i].blocks = slot->layers[i];
  stage->plan->steps[0].stream = slot->dembedding;
}

/* --- activations on the host ---
 * Nothing overlaps: a copy takes the time of its op. */

/* Moves the stage's part of what a forward has kept, in whole blocks, the first layers' first: their backwards come
 * last. */
static gboolean offload (PsStage *stage, Slot *slot, GError **error)
{
  PsTransformer *transformer = stage->transformer;
  const guint n = stage->shape.n_layers * (PS_BLOCK_G + 1);
  gsize kept = 0;

  for (guint i = 0; stage->shape.offload > 0 && i < n; i++)
    if (slot->layers[i / (PS_BLOCK_G + 1)].at[i % (PS_BLOCK_G + 1)] != NULL)
      kept += ps_block_bytes (transformer, FALSE, i % (PS_BLOCK_G + 1));
  gsize room = (gsize)(stage->shape.offload * (double)kept);
  for (guint i = 0; room > 0 && i < n; i++) {
    PsBlocks *layer = &slot->layers[i / (PS_BLOCK_G + 1)];
    const guint block = i % (PS_BLOCK_G + 1);
    const gsize bytes = ps_block_bytes (transformer, FALSE, block);

    if (layer->at[block] == NULL || bytes > room)
      continue;
    layer->host[block] = ps_memory_pool_take (transformer->uncounted, bytes, PS_USE_ACTIVATION);
    if (layer->host[block] == NULL)
      return ps_refuse (error, PS_ERROR_UNAVAILABLE, "no memory for activations that move to the host");
    transformer->kernels->copy (transformer->queue, layer->host[block], layer->at[block], bytes);
    give (stage, &layer->at[block]);
    room -= bytes;
  }
  return TRUE;
}

static void fetch (const PsStage *stage, const PsLane *lane, const PsBlocks *blocks)
{
  for (guint block = PS_BLOCK_X; block <= PS_BLOCK_G; block++)
    if (blocks->host[block] != NULL)
      stage->transformer->kernels->copy (lane->queue, blocks->at[block], blocks->host[block],
                                         ps_block_bytes (stage->transformer, FALSE, block));
}

/* --- kernels --- */

static const PsLane *lane_of (const PsStage *stage)
{
  return &stage->lanes[stage->plan->twin];
}

/* Layer number i of the planned op; n_layers is the head. */
static PsLayer layer_of (const PsStage *stage, guint i)
{
  const gboolean head = i == stage->shape.n_layers;
  const guint first = head ? stage->weights.head : stage->weights.layers + i * PS_N_LAYER_PARAMETERS;

  return (PsLayer){ .parameters = ps_weights_look_up (&stage->weights, first),
                    .blocks = &stage->plan->steps[i].blocks,
                    .earlier = head ? NULL : earlier_of (stage, i) };
}

/* Returns the words of the planned op. */
static const uint32_t *words_of (const PsStage *stage)
{
  return ps_transformer_words (stage->transformer, stage->plan->microbatch, stage->plan->slice);
}

/* Runs the embedding, or adds to its gradients. Positions begin with the first of the slice. */
static void embed (const PsStage *stage, gboolean weights)
{
  const PsTransformer *transformer = stage->transformer;
  const PsSizes *sizes = &transformer->sizes;
  const PsParameters embedding = ps_weights_look_up (&stage->weights, 0);
  const gsize before = (gsize)sizes->attention.past * (gsize)sizes->hidden;
  const char *position = embedding.weight[PS_POSITION];
  float *dposition = embedding.gradient[PS_POSITION];
  void *x = stage->plan->steps[0].stream;
  PsQueue *queue = lane_of (stage)->queue;

  if (weights)
    transformer->kernels->embedding_weights (queue, embedding.gradient[PS_TOKEN],
                                             dposition != NULL ? dposition + before : NULL, x, words_of (stage),
                                             sizes->batch, sizes->sequence, sizes->hidden);
  else
    transformer->kernels->embedding (queue, x, embedding.weight[PS_TOKEN],
                                     position != NULL ? position + before * ps_element_bytes (sizes->element) : NULL,
                                     words_of (stage), sizes->batch, sizes->sequence, sizes->hidden);
}

static void launch_forward (const PsStage *stage)
{
  const guint n = stage->shape.n_layers, n_slices = (guint)stage->transformer->sizes.slices;
  const Plan *plan = stage->plan;

  if (stage->shape.embedding)
    embed (stage, FALSE);
  for (guint i = 0; i < n; i++) {
    const PsLayer layer = layer_of (stage, i);

    ps_layer_forward (lane_of (stage), &layer, plan->steps[i + 1].stream);
  }
  if (stage->shape.head) {
    const PsLayer head = layer_of (stage, n);

    ps_head_forward (lane_of (stage), &head, words_of (stage),
                     stage->losses + plan->microbatch * n_slices + plan->slice);
  }
}

/* Makes again what is planned of a layer's forward. */
static void launch_again (const PsStage *stage, guint i)
{
  const PsLayer layer = layer_of (stage, i);
  const Step *step = &stage->plan->steps[i];

  fetch (stage, lane_of (stage), &step->blocks);
  if (step->again == KEPT)
    ps_layer_attend (lane_of (stage), &layer);
  else if (step->again == ALL_BLOCKS)
    ps_layer_forward (lane_of (stage), &layer, step->output);
}

static void launch_backward (const PsStage *stage)
{
  const guint n = stage->shape.n_layers;

  if (stage->shape.head) {
    const PsLayer head = layer_of (stage, n);

    ps_head_backward (lane_of (stage), &head, stage->plan->steps[n].stream);
  }
  for (guint i = n; i-- > 0;) {
    const PsLayer layer = layer_of (stage, i);

    launch_again (stage, i);
    ps_layer_backward (lane_of (stage), &layer, stage->plan->steps[i].stream);
    if (stage->plan->kind == PS_OP_BW)
      ps_layer_weights (lane_of (stage), &layer);
  }
}

static void launch_weights (const PsStage *stage)
{
  if (stage->shape.head) {
    const PsLayer head = layer_of (stage, stage->shape.n_layers);

    ps_head_weights (lane_of (stage), &head);
  }
  for (guint i = stage->shape.n_layers; i-- > 0 && stage->plan->kind == PS_OP_W;) {
    const PsLayer layer = layer_of (stage, i);

    ps_layer_weights (lane_of (stage), &layer);
  }
  if (stage->shape.embedding)
    embed (stage, TRUE);
}

static void launch (gpointer data)
{
  PsStage *stage = data;
  const PsKernels *kernels = stage->transformer->kernels;
  PsQueue *queue = lane_of (stage)->queue;
  const guint32 kind = stage->plan->kind;

  if (kernels->set_part != NULL)
    kernels->set_part (queue, stage->n_sms);
  if (kind == PS_OP_F)
    launch_forward (stage);
  for (guint i = 0; kind == PS_OP_R && i < stage->shape.n_layers; i++)
    launch_again (stage, i);
  if (kind == PS_OP_B || kind == PS_OP_BW)
    launch_backward (stage);
  if (kind == PS_OP_W || kind == PS_OP_BW)
    launch_weights (stage);
  if (kind == PS_OP_O)
    ps_weights_optimize (&stage->weights, queue);
}

/* Runs the op on the planned blocks. O is never captured: its kernel takes the number of the step, which never
 * repeats. */
static gboolean run_planned (PsStage *stage, gboolean twin, PsOp op, GError **error)
{
  PsLane *lane = &stage->lanes[twin];
  Plan *plan = stage->plan;

  plan->kind = op.kind;
  plan->microbatch = stage->shape.embedding || stage->shape.head ? op.microbatch : 0;
  plan->slice = op.slice;
  plan->twin = twin != FALSE;
  plan->weights = stage->weights.weights;
  lane->slice = op.slice;
  lane->queue->workspace = lane->workspace;
  ps_queue_begin (lane->queue);
  if (stage->captures != NULL && op.kind != PS_OP_O)
    stage->transformer->kernels->capture (stage->captures, lane->queue, plan, plan_bytes (stage), launch, stage);
  else
    launch (stage);
  return ps_queue_finish (lane->queue, error);
}

/* --- ops --- */

/* Returns the slot of op's slice if its last op was `last`; NULL with an error if it was another. */
static Slot *find_slot (PsStage *stage, PsOp op, Progress last, GError **error)
{
  static const char *const complaint[] = {
    [EMPTY] = "its F has not run",
    [FORWARD] = "its F has run, its B has not",
    [BACKWARD] = "its B has run, its W has not",
  };
  const char *name = op.kind == PS_OP_BW ? "B" : ps_op_kind_name (op.kind);
  const guint n = stage->transformer->setting.n_microbatches, n_slices = (guint)stage->transformer->sizes.slices;
  Slot *slot = stage->slots + op.microbatch * n_slices + op.slice;

  if (op.microbatch >= n || op.slice >= n_slices)
    return ps_refuse_null (error, PS_ERROR_SCHEDULE, "%s of microbatch %u, slice %u: there are only %u, %u", name,
                           op.microbatch, op.slice, n, n_slices);
  if (slot->progress == last)
    return slot;
  return ps_refuse_null (error, PS_ERROR_SCHEDULE, "%s of microbatch %u: %s", name, op.microbatch,
                         complaint[slot->progress]);
}

static gboolean plan_op (PsStage *stage, Slot *slot, PsOp op, void *input, void **output, GError **error)
{
  const PsDeviceSetting *setting = &stage->transformer->setting;
  const PsRecompute recompute = ps_device_recompute (setting, &stage->shape, op);

  switch (op.kind) {
  case PS_OP_F:
    return plan_forward (stage, slot, recompute, input, error);
  case PS_OP_R:
    return plan_recompute (stage, slot, recompute, error);
  case PS_OP_B:
  case PS_OP_BW:
    return plan_backward (stage, slot, recompute, op.kind == PS_OP_BW, input, output, error);
  case PS_OP_W:
    plan_weights (stage, slot);
    return TRUE;
  case PS_OP_O:
    return TRUE;
  default:
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "the %s device can't run %s", stage->transformer->kernels->name,
                      ps_op_kind_name (op.kind));
  }
}

/* Leaves what later slices read of a slice that has no backward: keys and values. After the last slice nothing is left.
 */
static void drop_forward (PsStage *stage, Slot *slot)
{
  const guint n_slices = (guint)stage->transformer->sizes.slices;

  for (guint i = 0; i <= stage->shape.n_layers; i++)
    for (guint block = 0; block < PS_N_BLOCKS; block++)
      if (block != PS_BLOCK_QKV)
        give (stage, &slot->layers[i].at[block]);
  for (guint i = 0; slot->slice + 1 == n_slices && i < n_slices; i++)
    empty (stage, slot - i);
}

/* See ps_transformer_start. */
static gboolean run_op (PsStage *stage, gboolean twin, PsOp op, void *input, void **output, GError **error)
{
  const Progress last = op.kind == PS_OP_F ? EMPTY : op.kind == PS_OP_W ? BACKWARD : FORWARD;
  const gboolean updates = op.kind == PS_OP_O;

  g_return_val_if_fail (op.kind != PS_OP_F || (input == NULL) == stage->shape.embedding, FALSE);
  g_return_val_if_fail (!ps_op_is_backward (op) || (input == NULL) == stage->shape.head, FALSE);

  *output = NULL;
  ps_transformer_set_slice (stage->transformer, op.microbatch, op.slice);
  Slot *slot = updates ? NULL : find_slot (stage, op, last, error);
  if (slot == NULL && !updates) {
    give (stage, &input);
    return FALSE;
  }
  const gboolean done = plan_op (stage, slot, op, input, output, error) && run_planned (stage, twin, op, error)
                        && (op.kind != PS_OP_F || offload (stage, slot, error));
  if (!done)
    give (stage, output);
  if (updates)
    return done;
  if (done && last == FORWARD && op.kind != PS_OP_R)
    slot->progress = BACKWARD;
  if (done && op.kind == PS_OP_F) {
    slot->progress = FORWARD;
    *output = g_steal_pointer (&slot->output);
  }
  if (done && stage->transformer->setting.forward_only)
    drop_forward (stage, slot);
  else if (done ? op.kind == PS_OP_W || op.kind == PS_OP_BW : op.kind == PS_OP_F)
    empty (stage, slot);
  return done;
}

/* --- the stage --- */

static gboolean try_op (PsStage *stage, PsOpKind kind, guint slice, gboolean has_input, GError **error)
{
  void *input = NULL, *output;

  if (has_input) {
    if (!take (stage, &input, message_bytes (stage), PS_USE_BUFFER, error))
      return FALSE;
    stage->transformer->kernels->clear (stage->transformer->queue, input, 0, message_bytes (stage));
  }
  if (!run_op (stage, FALSE, (PsOp){ .kind = (guint8)kind, .slice = (guint8)slice }, input, &output, error))
    return FALSE;
  give (stage, &output);
  return TRUE;
}

/* Marks that no forward has run: a double whose bytes are all 255 is NaN. */
static void clear_losses (PsStage *stage)
{
  if (stage->losses != NULL)
    stage->transformer->kernels->clear (stage->transformer->queue, stage->losses, 0xff,
                                        stage->n_slots * sizeof (double));
}

static gboolean warm_up (PsStage *stage, GError **error)
{
  PsTransformer *transformer = stage->transformer;
  /* Further slices of equal length run the kernels of the second. */
  const guint n = MIN (transformer->setting.slice_tokens != NULL ? G_MAXUINT : 2, (guint)transformer->sizes.slices);
  gboolean ok = TRUE;

  /* Devices choose algorithms one after the other. One that waits for its queue then must not wait for a sum with
   * another. */
  transformer->alone = TRUE;
  for (guint i = 0; ok && i < n; i++)
    ok = try_op (stage, PS_OP_F, i, !stage->shape.embedding, error);
  for (guint i = 0; ok && transformer->setting.forward_only && i < n; i++)
    empty (stage, &stage->slots[i]);
  for (guint i = n; ok && !transformer->setting.forward_only && i-- > 0;)
    ok = try_op (stage, PS_OP_B, i, !stage->shape.head, error) && try_op (stage, PS_OP_W, i, FALSE, error);
  transformer->alone = FALSE;
  if (!ok)
    return FALSE;
  ps_queue_begin (transformer->queue);
  transformer->kernels->clear (transformer->queue, stage->weights.gradients, 0,
                               stage->weights.n_array * sizeof (float));
  clear_losses (stage);
  transformer->kernels->await (transformer->queue);
  return ps_queue_finish (transformer->queue, error);
}

static gboolean take_losses (PsStage *stage, GError **error)
{
  if (!stage->shape.head)
    return TRUE;
  stage->losses
      = ps_memory_pool_take (stage->transformer->uncounted, MAX (1, stage->n_slots) * sizeof (double), PS_USE_STATE);
  if (stage->losses == NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "no memory for losses");
  clear_losses (stage);
  return TRUE;
}

/* The blocks stay with the transformer's memory. */
static void stage_free (PsStage *stage)
{
  if (stage == NULL)
    return;
  for (guint i = 0; i < stage->n_slots; i++)
    g_free (stage->slots[i].layers);
  if (stage->captures != NULL)
    stage->transformer->kernels->captures_free (stage->captures);
  g_free (stage->slots);
  g_free (stage->plan);
  ps_weights_clear (&stage->weights);
  g_free (stage);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsStage, stage_free)

static PsStage *stage_new (PsTransformer *transformer, const PsStageShape *shape, guint n_sms, GError **error)
{
  const PsKernels *kernels = transformer->kernels;
  const guint n_microbatches = transformer->setting.n_microbatches, n_slices = (guint)transformer->sizes.slices;
  g_autoptr (PsStage) stage = g_new0 (PsStage, 1);

  stage->transformer = transformer;
  stage->shape = *shape;
  stage->n_sms = n_sms;
  stage->n_slots = n_microbatches * n_slices;
  stage->slots = g_new0 (Slot, stage->n_slots);
  for (guint i = 0; i < stage->n_slots; i++)
    stage->slots[i].slice = i % n_slices;
  stage->plan = g_malloc0 (plan_bytes (stage));
  if (!ps_weights_init (&stage->weights, transformer, shape, error)
      || !ps_lane_init (&stage->lanes[0], transformer, transformer->queue, error)
      || (transformer->twin != NULL && !ps_lane_init (&stage->lanes[1], transformer, transformer->twin, error))
      || !take_losses (stage, error) || (kernels->warms_up && n_microbatches > 0 && !warm_up (stage, error)))
    return NULL;
  /* Sums over devices that share layers can't be captured. */
  if (kernels->captures_new != NULL && transformer->sizes.parts == 1)
    stage->captures = kernels->captures_new (transformer->queue, CAPTURES_PER_OP * 4 * stage->n_slots);
  return g_steal_pointer (&stage);
}

void ps_transformer_clear (PsTransformer *transformer)
{
  for (guint i = 0; i < transformer->setting.n_stages; i++)
    stage_free (transformer->stages[i]);
  g_free (transformer->stages);
  g_free (transformer->weights);
  if (transformer->queue != NULL)
    ps_queue_begin (transformer->queue);
  ps_memory_pool_free (transformer->memory);
  ps_memory_pool_free (transformer->uncounted);
}

gboolean ps_transformer_add_stage (PsDevice *device, guint stage, const PsStageShape *shape, GError **error)
{
  PsTransformer *transformer = (PsTransformer *)device;
  const guint *parts = transformer->setting.parts;

  g_return_val_if_fail (stage < transformer->setting.n_stages && transformer->stages[stage] == NULL, FALSE);

  if (shape->offload > 0 && !transformer->kernels->on_host)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                      "stage %u: --offload: the %s device keeps all activations; cpu moves them", stage,
                      transformer->kernels->name);
  if (shape->recompute != PS_RECOMPUTE_NONE && shape->recompute != PS_RECOMPUTE_SELECTIVE
      && shape->recompute != PS_RECOMPUTE_FULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                      "stage %u: --recompute %s: is predicted only; devices know none, selective and full", stage,
                      ps_recompute_name (shape->recompute));
  if (!ps_device_check_slices (&transformer->setting, stage, shape, error))
    return FALSE;
  ps_transformer_set_slice (transformer, 0, 0);
  if (ps_transformer_prepare (transformer, shape, error))
    transformer->stages[stage]
        = stage_new (transformer, shape, parts != NULL ? parts[stage] : transformer->n_sms, error);
  if (transformer->stages[stage] != NULL)
    transformer->weights[stage] = &transformer->stages[stage]->weights;
  else
    g_prefix_error (error, "stage %u: ", stage);
  return transformer->stages[stage] != NULL;
}

/* Makes a tensor of zeros where one is wanted and *block is NULL, and gives back one that is not wanted. */
static gboolean fit (PsTransformer *transformer, PsQueue *queue, gboolean wanted, void **block, GError **error)
{
  const gsize bytes = ps_sizes_message_bytes (&transformer->sizes);

  if (!wanted)
    ps_memory_pool_give (transformer->memory, g_steal_pointer (block));
  if (!wanted || *block != NULL)
    return TRUE;
  *block = ps_transformer_take (transformer, bytes, PS_USE_BUFFER, "a boundary tensor", error);
  if (*block != NULL)
    transformer->kernels->clear (queue, *block, 0, bytes);
  return *block != NULL;
}

gboolean ps_transformer_start (PsTransformer *transformer, gboolean twin, PsOp op, void *input, void **output,
                               GError **error)
{
  PsQueue *queue = twin ? transformer->twin : transformer->queue;
  PsStage *stage = op.stage < transformer->setting.n_stages ? transformer->stages[op.stage] : NULL;
  guint next;

  *output = NULL;
  if (stage == NULL) {
    ps_memory_pool_give (transformer->memory, input);
    return ps_refuse (error, PS_ERROR_SCHEDULE, "is not on this device");
  }
  if (fit (transformer, queue, ps_device_op_reads (&stage->shape, op), &input, error)
      && run_op (stage, twin, op, input, output, error)
      && fit (transformer, queue, ps_op_output (op, transformer->setting.n_stages, &next), output, error))
    return TRUE;
  ps_memory_pool_give (transformer->memory, g_steal_pointer (output));
  return FALSE;
}

/* --- hooks --- */

static PsTensor *wrap (PsTransformer *transformer, void *block)
{
  PsTensor *tensor = g_new0 (PsTensor, 1);

  tensor->device = &transformer->base;
  tensor->bytes = ps_sizes_message_bytes (&transformer->sizes);
  tensor->data = block;
  return tensor;
}

PsTensor *ps_transformer_tensor_new (PsDevice *device)
{
  PsTransformer *transformer = (PsTransformer *)device;
  void *block = ps_memory_pool_take (transformer->memory, ps_sizes_message_bytes (&transformer->sizes), PS_USE_BUFFER);

  return block != NULL ? wrap (transformer, block) : NULL;
}

void ps_transformer_tensor_free (PsTensor *tensor)
{
  if (tensor == NULL)
    return;
  ps_memory_pool_give (((PsTransformer *)tensor->device)->memory, tensor->data);
  g_free (tensor);
}

gboolean ps_transformer_run (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, GError **error)
{
  PsTransformer *transformer = (PsTransformer *)device;
  void *block = input != NULL ? input->data : NULL, *result;

  g_return_val_if_fail (input == NULL || input->device == device, FALSE);

  g_free (input);
  const gboolean done = ps_transformer_start (transformer, FALSE, op, block, &result, error);
  if (!done)
    g_prefix_error (error, "stage %u: ", op.stage);
  g_assert (output != NULL || result == NULL);
  if (output != NULL)
    *output = result != NULL ? wrap (transformer, result) : NULL;
  return done;
}

void ps_transformer_forget (PsDevice *device)
{
  PsTransformer *transformer = (PsTransformer *)device;

  for (guint i = 0; i < transformer->setting.n_stages; i++)
    for (guint k = 0; transformer->stages[i] != NULL && k < transformer->stages[i]->n_slots; k++)
      empty (transformer->stages[i], &transformer->stages[i]->slots[k]);
}

double ps_transformer_loss (PsDevice *device, guint microbatch)
{
  PsTransformer *transformer = (PsTransformer *)device;
  const guint n = (guint)transformer->sizes.slices;
  g_autofree double *parts = g_new (double, n);
  const double *losses = NULL;
  double loss = 0;

  g_return_val_if_fail (microbatch < transformer->setting.n_microbatches, NAN);

  for (guint i = 0; i < transformer->setting.n_stages; i++)
    if (transformer->stages[i] != NULL && transformer->stages[i]->losses != NULL)
      losses = transformer->stages[i]->losses;
  if (losses == NULL)
    return NAN;
  ps_queue_begin (transformer->queue);
  transformer->kernels->copy (transformer->queue, parts, losses + microbatch * n, n * sizeof *parts);
  transformer->kernels->await (transformer->queue);
  for (guint i = 0; i < n; i++)
    loss += parts[i];
  return ps_queue_finish (transformer->queue, NULL) ? loss : NAN;
}
