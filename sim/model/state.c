/* state.c - what a GPU holds of a stage throughout: its parameters, in which formats they are kept; what frameworks
 * hold in addition; the owners of matrices under Muon. */
#include "model-private.h"

#include <pipesim/work.h>

#define CONTEXT_BYTES (5 * (gint64)1000 * 1000 * 1000)
#define WORKSPACE_BYTES (2 * (gint64)32 << 20)
#define NEWTON_SCHULZ_STEPS 5

/* Parameters. */

/* Parameters that every GPU holds in full: norms, positions, matrices that are not cut, and the biases of these and of
 * matrices cut by rows. */
static gint64 sum_whole (G_GNUC_UNUSED const PsModel *model, const PsUnitParts *parts, G_GNUC_UNUSED guint flags)
{
  gint64 sum = parts->whole_vectors;

  for (guint i = 0; i < parts->n_matrices; i++) {
    const PsMatrix *matrix = &parts->matrix[i];

    sum += matrix->count
           * (matrix->cut == PS_CUT_NONE                   ? ps_matrix_parameters (matrix)
              : matrix->cut == PS_CUT_ROWS && matrix->bias ? matrix->columns
                                                           : 0);
  }
  return sum;
}

/* The experts that tokens are routed to. */
static gint64 sum_experts (G_GNUC_UNUSED const PsModel *model, const PsUnitParts *parts, G_GNUC_UNUSED guint flags)
{
  gint64 sum = 0;

  for (guint i = 0; i < parts->n_matrices; i++)
    if (parts->matrix[i].cut == PS_CUT_EXPERTS)
      sum += parts->matrix[i].count * ps_matrix_parameters (&parts->matrix[i]);
  return sum;
}

/* One GPU's share of the parameters of experts. */
static gint64 share_experts (const PsModel *model, gint64 parameters, guint n_tensor)
{
  guint shared = ps_model_expert_gpus (model);

  return ps_tensor_share (parameters, shared > 0 ? shared : n_tensor);
}

gint64 ps_tensor_expert_parameters (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  return share_experts (model, ps_model_sum_units (model, shape, sum_experts, 0), n_tensor);
}

/* Weights that are multiplied in fewer than 16 bits, of matrices that all GPUs hold, that they share, or of experts. */
static gint64 sum_products (G_GNUC_UNUSED const PsModel *model, const PsUnitParts *parts, guint cut)
{
  gint64 sum = 0;

  for (guint i = 0; i < parts->n_matrices; i++) {
    const PsMatrix *matrix = &parts->matrix[i];

    if (matrix->bits < 16 && (matrix->cut == PS_CUT_ROWS ? PS_CUT_COLUMNS : matrix->cut) == cut)
      sum += matrix->count * matrix->rows * matrix->columns;
  }
  return sum;
}

/* The part of either, dense or experts, that is weights of products in the model's number format. */
static gint64 product_parameters (const PsModel *model, const PsStageShape *shape, guint n_tensor, gboolean experts)
{
  if (experts)
    return share_experts (model, ps_model_sum_units (model, shape, sum_products, PS_CUT_EXPERTS), n_tensor);
  return ps_model_sum_units (model, shape, sum_products, PS_CUT_NONE)
         + ps_tensor_share (ps_model_sum_units (model, shape, sum_products, PS_CUT_COLUMNS), n_tensor);
}

gint64 ps_tensor_parameters (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  gint64 whole = ps_model_sum_units (model, shape, sum_whole, 0);
  gint64 experts = ps_model_sum_units (model, shape, sum_experts, 0);
  gint64 cut = ps_model_stage_parameters (model, shape) - whole - experts;

  return ps_tensor_share (cut, n_tensor) + whole + share_experts (model, experts, n_tensor);
}

/* Formats. */

/* What frameworks hold besides. */
static const struct {
  guint fp16_gradient_copy; /* bytes of another gradient of each parameter that a GPU steps */
  gboolean caches;          /* copies of weights for products are kept from microbatch to microbatch */
  double reserve, passing_reserve;
  gint64 context_bytes;
} frameworks[] = {
  [PS_FRAMEWORK_NONE] = { .reserve = 1, .passing_reserve = 1 },
  [PS_FRAMEWORK_MEGATRON] = { .caches = TRUE, .reserve = 1, .passing_reserve = 1, .context_bytes = CONTEXT_BYTES },
  [PS_FRAMEWORK_DEEPSPEED]
  = { .fp16_gradient_copy = 4, .reserve = 1.145, .passing_reserve = 1.345, .context_bytes = CONTEXT_BYTES },
  [PS_FRAMEWORK_BRIDGE] = { .caches = TRUE, .reserve = 1, .passing_reserve = 1, .context_bytes = CONTEXT_BYTES },
};

static const guint dtype_bytes[]
    = { [PS_DTYPE_FP32] = 4, [PS_DTYPE_BF16] = 2, [PS_DTYPE_FP16] = 2, [PS_DTYPE_FP8] = 1 };

/* Whether Transformer Engine's optimizer reads gradients and weights in the formats that they have: it is the
 * precision-aware one, and no 8-bit recipe is named to it (Megatron-LM, core/optimizer/optimizer_config.py). Megatron
 * Bridge names one to models in bf16, too. */
static gboolean is_decoupled (const PsModel *model, const PsStateFormats *formats)
{
  gboolean narrow_moments = formats->exp_avg != PS_DTYPE_FP32 || formats->exp_avg_sq != PS_DTYPE_FP32;

  return ps_framework_is_megatron (model->framework)
         && (formats->main_params != PS_DTYPE_FP32
             || (narrow_moments && model->framework == PS_FRAMEWORK_MEGATRON && model->precision <= PS_PRECISION_BF16));
}

/* Main weights and moments of a parameter. A decoupled optimizer keeps the 16 bits of the main weights that bf16
 * weights lack. */
static guint optimizer_bytes (const PsModel *model, const PsStateFormats *formats, gboolean momentum_alone)
{
  guint copy = model->precision == PS_PRECISION_FP16 ? frameworks[model->framework].fp16_gradient_copy : 0;
  guint main = dtype_bytes[formats->main_params];

  if (model->precision == PS_PRECISION_FP32)
    main = 0;
  else if (model->precision == PS_PRECISION_BF16 && main == 4 && is_decoupled (model, formats))
    main = 2;
  return main + copy + dtype_bytes[formats->exp_avg] + (momentum_alone ? 0 : dtype_bytes[formats->exp_avg_sq]);
}

/* The bytes of n parameters. n_products of them are weights of products, of which the GPU holds n_copies in the model's
 * number format. */
static PsStateBytes state_of (const PsModel *model, gint64 n, gint64 n_products, guint n_copies)
{
  const PsStateFormats formats = ps_model_formats (model);
  const PsNumberFormat *format = &ps_number_formats[model->precision];
  gint64 stored = (gint64)((double)n_products * format->weight_bits / 8), others = format->bytes * (n - n_products);
  gboolean narrow = format->weight_bits < 16, copies_grads = ps_framework_is_megatron (model->framework);
  guint grads = dtype_bytes[formats.main_grads];
  PsStateBytes state = { .weight_bytes = format->bytes * n,
                         .gradient_bytes = grads * n,
                         .optimizer_bytes = optimizer_bytes (model, &formats, FALSE) * n,
                         .gathered_bytes = format->bytes * n };

  if (narrow && model->serves) /* F reads one copy */
    state.weight_bytes = others + stored;
  else if (narrow && formats.fp8_param_gather) {
    state.weight_bytes = others + n_copies * stored;
    state.gathered_bytes = model->precision == PS_PRECISION_MXFP8 ? state.gathered_bytes : others + stored;
  } else if (narrow && frameworks[model->framework].caches)
    state.weight_bytes += n_copies * stored;
  /* Megatron-LM's optimizer reads gradients in fp32 (distrib_optimizer.py, copy_group_grads). */
  if (copies_grads && grads < 4 && !is_decoupled (model, &formats))
    state.step_bytes += 4 * n;
  if (formats.implementation == PS_IMPLEMENTATION_FOREACH)
    state.step_bytes += 4 * n;
  return state;
}

PsStateBytes ps_model_state (const PsModel *model, gint64 n_parameters)
{
  return state_of (model, n_parameters, 0, 0);
}

gint64 ps_model_stage_state_bytes (const PsModel *model, const PsStageShape *shape)
{
  PsStateBytes state = ps_model_state (model, ps_model_stage_parameters (model, shape));

  return state.weight_bytes + state.gradient_bytes + state.optimizer_bytes;
}

/* Muon. */

/* Matrices of one size. */
typedef struct {
  gint64 rows, columns; /* of the whole matrix */
  gint64 n;             /* of them on a GPU */
  gint64 parameters;    /* of one, on a GPU */
  gint64 step_ns;       /* of one */
} Matrices;

#define MAX_SIZES (PS_N_UNIT_KINDS * G_N_ELEMENTS (((PsUnitParts *)NULL)->matrix))

/* The matrices of the layers of a stage, those of experts or all others. Returns how many sizes there are. */
static guint list_matrices (const PsModel *model, const PsStageShape *shape, guint n_tensor, gboolean experts,
                            Matrices *sizes)
{
  guint count[PS_N_UNIT_KINDS], shared = ps_model_expert_gpus (model), n = 0;

  ps_model_count_units (model, shape, count);
  for (PsUnitKind kind = PS_UNIT_ATTENTION; kind <= PS_UNIT_MTP; kind++) {
    const PsUnitParts *parts = count[kind] > 0 ? ps_unit_describe (model, kind) : NULL; /* the model has its sizes */

    for (guint i = 0; parts != NULL && i < parts->n_matrices; i++) {
      const PsMatrix *matrix = &parts->matrix[i];
      gboolean whole = matrix->cut == PS_CUT_NONE || (experts && shared > 0);

      if ((matrix->cut == PS_CUT_EXPERTS) == experts && matrix->count > 0)
        sizes[n++] = (Matrices){
          .rows = matrix->rows,
          .columns = matrix->columns,
          .n = count[kind] * (experts && shared > 0 ? MAX (matrix->count / shared, 1) : matrix->count),
          .parameters = ps_tensor_share (matrix->rows * matrix->columns, whole ? 1 : n_tensor),
        };
    }
  }
  return n;
}

/* Newton-Schulz on one matrix: A = X X^T, A A and (b A + c A A) X in each step. */
static gint64 newton_schulz_ns (const Matrices *size, const PsCluster *cluster)
{
  gint64 m = MIN (size->rows, size->columns), n = MAX (size->rows, size->columns);
  const struct {
    const char *name;
    gint64 n, k;
  } products[] = { { "Newton-Schulz, X X^T", m, n }, { "Newton-Schulz, A A", m, m }, { "Newton-Schulz, B X", n, m } };
  PsWork work = { .n_kernels = G_N_ELEMENTS (products) };

  for (guint i = 0; i < work.n_kernels; i++)
    work.kernel[i]
        = (PsWorkKernel){ .name = products[i].name,
                          .type = PS_WORK_PRODUCT,
                          .repeats = NEWTON_SCHULZ_STEPS,
                          .products = 1,
                          .m = m,
                          .n = products[i].n,
                          .k = products[i].k,
                          .bytes = 2 * (m * products[i].k + products[i].k * products[i].n + m * products[i].n),
                          .bits = 16 };
  return ps_work_ns (&work, cluster, 0);
}

static int compare_step_ns (const void *a, const void *b)
{
  return PS_COMPARE (((const Matrices *)b)->step_ns, ((const Matrices *)a)->step_ns);
}

/* Owners that have equally much. */
typedef struct {
  gint64 n, step_ns, parameters;
} Owners;

/* Gives matrices, the slowest first, to the owner with the least to do. Returns what the busiest has of each. */
static Owners share_out (Matrices *sizes, guint n_sizes, gint64 n_owners)
{
  Owners owners[MAX_SIZES + 1] = { { .n = n_owners } }, most = { 0 };
  guint n = 1;

  qsort (sizes, n_sizes, sizeof *sizes, compare_step_ns);
  for (guint i = 0; i < n_sizes; i++)
    for (gint64 left = sizes[i].n; left > 0;) {
      guint least = 0;

      for (guint k = 1; k < n; k++)
        least = owners[k].step_ns < owners[least].step_ns ? k : least;
      gint64 rest = owners[least].n - left;
      if (rest > 0) {
        owners[n] = owners[least];
        owners[n++].n = rest;
        owners[least].n = left;
      }
      left -= owners[least].n;
      owners[least].step_ns += sizes[i].step_ns;
      owners[least].parameters += sizes[i].parameters;
    }
  for (guint k = 0; k < n; k++) {
    most.step_ns = MAX (most.step_ns, owners[k].step_ns);
    most.parameters = MAX (most.parameters, owners[k].parameters);
  }
  return most;
}

/* What the busiest owner has of the matrices of the experts, or of all others. */
static Owners busiest_owner (const PsModel *model, const PsStageShape *shape, const PsCluster *cluster,
                             gboolean experts, gint64 n_owners)
{
  Matrices sizes[MAX_SIZES];
  guint n = list_matrices (model, shape, cluster->tensor, experts, sizes);

  for (guint i = 0; i < n; i++)
    sizes[i].step_ns = newton_schulz_ns (&sizes[i], cluster);
  return share_out (sizes, n, n_owners);
}

PsMuonShare ps_muon_share (const PsModel *model, const PsStageShape *shape, const PsCluster *cluster, gint64 n_copies,
                           gint64 n_expert_copies)
{
  const PsStateFormats formats = ps_model_formats (model);
  gint64 bytes = optimizer_bytes (model, &formats, TRUE);
  Owners dense, experts;

  if (formats.optimizer != PS_OPTIMIZER_MUON)
    return (PsMuonShare){ 0 };
  dense = busiest_owner (model, shape, cluster, FALSE, n_copies);
  experts = busiest_owner (model, shape, cluster, TRUE, n_expert_copies);
  return (PsMuonShare){ .optimizer_bytes = bytes * (dense.parameters + experts.parameters),
                        .expert_bytes = bytes * experts.parameters,
                        .step_ns = dense.step_ns + experts.step_ns };
}

PsStateBytes ps_tensor_state (const PsModel *model, const PsStageShape *shape, const PsCluster *cluster,
                              PsStateBytes *experts)
{
  guint t = cluster->tensor, n_copies = model->precision == PS_PRECISION_FP8 && cluster->peak_flops_fp4 > 0 ? 1 : 2;
  gint64 n = ps_tensor_parameters (model, shape, t), n_experts = ps_tensor_expert_parameters (model, shape, t);
  gint64 n_products = product_parameters (model, shape, t, FALSE);
  gint64 n_expert_products = product_parameters (model, shape, t, TRUE);
  PsStateBytes state = state_of (model, n, n_products + n_expert_products, n_copies);

  *experts = state_of (model, n_experts, n_expert_products, n_copies);
  if (model->state.optimizer == PS_OPTIMIZER_MUON) {
    const PsMuonShare all = ps_muon_share (model, shape, cluster, 1, 1);
    const PsStateFormats formats = ps_model_formats (model);
    gint64 momentum = optimizer_bytes (model, &formats, TRUE);
    gint64 second = optimizer_bytes (model, &formats, FALSE) - momentum;

    state.optimizer_bytes -= all.optimizer_bytes / momentum * second;
    experts->optimizer_bytes -= all.expert_bytes / momentum * second;
  }
  return state;
}

/* What frameworks hold in addition. */

double ps_framework_reserve (PsFramework framework)
{
  return frameworks[framework].reserve;
}

double ps_framework_passing_reserve (PsFramework framework)
{
  return frameworks[framework].passing_reserve;
}

gint64 ps_framework_context_bytes (PsFramework framework)
{
  return frameworks[framework].context_bytes;
}

char *ps_framework_assumes (const PsModel *model)
{
  const PsStateFormats formats = ps_model_formats (model);

  if (model->framework == PS_FRAMEWORK_NONE)
    return g_strdup ("");
  return g_strdup_printf ("framework %s, main_grads_dtype %s, main_params_dtype %s, exp_avg_dtype %s, "
                          "exp_avg_sq_dtype %s%s",
                          ps_framework_name (model->framework), ps_dtype_name (formats.main_grads),
                          ps_dtype_name (formats.main_params), ps_dtype_name (formats.exp_avg),
                          ps_dtype_name (formats.exp_avg_sq), formats.fp8_param_gather ? ", fp8_param_gather" : "");
}

/* A gradient that nobody reads for each shape of matrix in the layers, and for the vectors. Attention with a window and
 * without one has the same shapes. */
static gint64 dummy_bytes (const PsModel *model, const guint count[PS_N_UNIT_KINDS], guint n_tensor)
{
  gint64 sum = 0;

  for (PsUnitKind kind = PS_UNIT_ATTENTION; kind <= PS_UNIT_EXPERTS; kind++) {
    if (count[kind] == 0
        || (kind == PS_UNIT_WINDOW && count[PS_UNIT_ATTENTION] > 0
            && model->window_heads + model->window_kv_heads == 0))
      continue;
    const PsUnitParts *parts = ps_unit_describe (model, kind);
    sum += parts->whole_vectors + parts->cut_vectors;
    for (guint i = 0; i < parts->n_matrices; i++)
      sum += ps_matrix_parameters (&parts->matrix[i]);
  }
  return ps_tensor_share (ps_precision_bytes (model->precision) * sum, n_tensor);
}

/* Bytes for each token of the gradients that run through the unit with the most. */
static gint64 largest_running (const PsModel *model, const guint count[PS_N_UNIT_KINDS])
{
  gint64 largest = 0;

  for (PsUnitKind kind = PS_UNIT_ATTENTION; kind <= PS_UNIT_EXPERTS; kind++)
    if (count[kind] > 0)
      largest = MAX (largest, ps_unit_describe (model, kind)->running);
  return largest;
}

static PsHabits megatron (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  guint c = MAX (model->spread.context, 1), n_heads = shape->head;
  gint64 tokens = ps_model_tokens (model) / c, h = model->hidden, V = model->vocabulary;
  gint64 gathered = n_tensor > 1 ? 4 * h * tokens : 0, logits = ps_tensor_share (tokens * V, n_tensor);

  guint count[PS_N_UNIT_KINDS];

  ps_model_count_units (model, shape, count);
  PsHabits habits = { .backward_bytes = ps_tensor_share (tokens * largest_running (model, count), n_tensor) + gathered,
                      .shared_bytes = dummy_bytes (model, count, n_tensor) + WORKSPACE_BYTES };
  if (n_heads == 0 || model->loss == PS_LOSS_CHUNKED)
    return habits;
  habits.backward_bytes = MAX (habits.backward_bytes, ps_tensor_share (2 * V * h, n_tensor) + gathered);
  if (model->loss == PS_LOSS_FUSED)
    return habits;
  habits.kept_bytes = -2 * logits * n_heads;
  habits.forward_bytes = 4 * logits;
  return habits;
}

/* B needs only the layer computed again: gradients take the place of what it has used. */
static PsHabits deepspeed (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  gboolean wide = ps_model_formats (model).main_grads == PS_DTYPE_FP32;
  gint64 narrow = wide && model->precision > PS_PRECISION_FP16 ? ps_precision_bytes (model->precision) : 0;

  return (PsHabits){ .buffer_bytes = narrow * ps_tensor_parameters (model, shape, n_tensor) };
}

PsHabits ps_framework_habits (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  PsHabits habits = ps_framework_is_megatron (model->framework)  ? megatron (model, shape, n_tensor)
                    : model->framework == PS_FRAMEWORK_DEEPSPEED ? deepspeed (model, shape, n_tensor)
                                                                 : (PsHabits){ 0 };
  gint64 tokens = ps_model_tokens (model) / MAX (model->spread.context, 1) / PS_LOSS_CHUNKS;

  if (model->loss == PS_LOSS_CHUNKED && (shape->head || shape->n_mtp > 0))
    habits.forward_bytes
        = ps_tensor_share (tokens * model->vocabulary * (4 + ps_precision_bytes (model->precision)), n_tensor);
  return habits;
}
