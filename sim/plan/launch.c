/* launch.c - launch flags and configuration keys of training frameworks. */
#include <pipesim/launch.h>
#include <pipesim/layout-string.h>

#include <string.h>

typedef enum
{
  MEGATRON,
  TORCHTITAN,
  DEEPSPEED,
  N_FRAMEWORKS, /* that are told of a run */
  PYTORCH = N_FRAMEWORKS,
  COLOSSALAI,
  N_RUNNERS
} Framework;

static const char *const frameworks[] = { "megatron", "torchtitan", "deepspeed", "pytorch", "colossalai" };

/* Families and their names there; NULL: not available. */
static const struct
{
  const char *family;
  const char *names[N_RUNNERS];
} families[] = {
  { "1f1b", { "1F1B", "1F1B", "TrainSchedule", "Schedule1F1B", "OneForwardOneBackwardSchedule" } },
  { "interleaved", { "interleaved 1F1B", "Interleaved1F1B", NULL, "ScheduleInterleaved1F1B", "InterleavedSchedule" } },
  { "gpipe", { NULL, "GPipe", NULL, "ScheduleGPipe", NULL } },
  { "looped-bfs", { NULL, "LoopedBFS", NULL, "ScheduleLoopedBFS", NULL } },
  { "interleaved-zb", { NULL, "InterleavedZeroBubble", NULL, "ScheduleInterleavedZeroBubble", NULL } },
  { "zb-v", { NULL, "ZBVZeroBubble", NULL, "ScheduleZBVZeroBubble", NULL } },
  { "zb-v-auto", { NULL, NULL, NULL, NULL, "ZeroBubbleVPipeScheduler" } },
  { "dualpipe-v", { NULL, "DualPipeV", NULL, "ScheduleDualPipeV", NULL } },
  { "interleaved-overlap", { "interleaved 1F1B, --overlap-moe-expert-parallel-comm", NULL, NULL, NULL, NULL } },
  { "interleaved-overlap-w", { "the same, --delay-wgrad-compute", NULL, NULL, NULL, NULL } },
};

static const char *
find_name (const char *family, Framework framework)
{
  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    if (g_str_equal (families[i].family, family))
      return families[i].names[framework];
  return NULL;
}

const char *const *
ps_launch_frameworks (guint *n)
{
  *n = N_FRAMEWORKS;
  return frameworks;
}

gboolean
ps_launch_parse (const char *where, const char *text, guint *framework, GError **error)
{
  return ps_parse_name (where, text, frameworks, N_FRAMEWORKS, framework, error);
}

char *
ps_launch_runs_in (const char *family)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < N_RUNNERS; i++)
    if (find_name (family, (Framework)i) != NULL)
      g_string_append_printf (text, "%s%s", text->len > 0 ? ", " : "", frameworks[i]);
  return g_string_free (text, FALSE);
}

/* The sequences of a step. */
static gint64
global_batch (const PsLaunch *launch)
{
  return (gint64)launch->order->n_microbatches * launch->model->microbatch_size * launch->setting->n_replicas;
}

/* How a framework is started. */
typedef struct
{
  const char *title;
  const char *command; /* on each node */
  const char *nodes;   /* its option for their number */
  const char *gpus;    /* of a node */
  const char *program; /* with the rest of its line */
} Launcher;

/* The nodes are those of the cluster; measured costs know none. */
static void
add_command (const PsLaunch *launch, const Launcher *launcher, guint n_gpus, GString *text)
{
  const char *path = launch->setting->cluster;
  g_autoptr (PsCluster) cluster = path != NULL ? ps_cluster_load (path, NULL) : NULL;
  guint per_node = cluster != NULL ? MIN (cluster->devices_per_node, n_gpus) : n_gpus;

  if (cluster != NULL)
    g_string_append_printf (text, "# %s %s %u %s %u %s\n", launcher->command, launcher->nodes,
                            (n_gpus + per_node - 1) / per_node, launcher->gpus, per_node, launcher->program);
}

/* The sizes in a comment, and the command. */
static void
add_sizes (const PsLaunch *launch, const Launcher *launcher, GString *text)
{
  const PsSetting *setting = launch->setting;
  guint n_gpus = launch->n_devices * setting->n_tensor * setting->n_context * setting->n_replicas;

  g_string_append_printf (text, "# %s: %u GPUs, %u pipeline x %u tensor", launcher->title, n_gpus, launch->n_devices,
                          setting->n_tensor);
  if (setting->n_context > 1)
    g_string_append_printf (text, " x %u context", setting->n_context);
  g_string_append_printf (text, " x %u data parallel%s", setting->n_replicas, setting->n_experts > 1 ? "" : "\n");
  if (setting->n_experts > 1)
    g_string_append_printf (text, ", experts over %u GPUs\n", setting->n_experts);
  add_command (launch, launcher, n_gpus, text);
}

/* Whether ranks have another order than the usual one of frameworks: the replicas of a device side by side. */
static gboolean
is_reordered (const PsLaunch *launch)
{
  return launch->setting->n_replicas > 1 && launch->n_devices > 1 && !launch->setting->replicas_adjacent;
}

static void
add_order_note (const PsLaunch *launch, GString *text)
{
  if (is_reordered (launch))
    g_string_append (text, "# not as predicted: the replicas of a device are side by side here; --adjacent-replicas "
                           "predicts that\n");
}

/* Megatron-LM */

static void
add_megatron_stages (const PsLaunch *launch, GString *text)
{
  guint n = launch->n_devices * launch->n_chunks;
  gboolean even = ps_stage_shapes_are_even (launch->shapes, n) && launch->model->layers % n == 0;
  g_autofree char *layout = ps_layout_string_write (launch->shapes, n);

  g_string_append_printf (text, "--pipeline-model-parallel-size %u\n", launch->n_devices);
  if (!even)
    g_string_append_printf (text, "--pipeline-model-parallel-layout '%s'\n", layout);
  else if (launch->n_chunks > 1)
    g_string_append_printf (text, "--num-layers-per-virtual-pipeline-stage %u\n", launch->shapes[0].n_layers);
}

/* Whether the schedule hides the messages of experts. */
static gboolean
overlaps (const PsLaunch *launch)
{
  return launch->schedule != NULL && g_str_has_prefix (launch->schedule, "interleaved-overlap");
}

static void
add_megatron_run (const PsLaunch *launch, GString *text)
{
  const PsSetting *setting = launch->setting;
  const PsModel *model = launch->model;
  static const char *const precisions[] = { [PS_PRECISION_FP32] = "",
                                            [PS_PRECISION_FP16] = "--fp16\n",
                                            [PS_PRECISION_BF16] = "--bf16\n",
                                            [PS_PRECISION_FP8] = "--bf16\n--fp8-format hybrid\n",
                                            [PS_PRECISION_FP4] = "--bf16\n--fp4-format e2m1\n" };

  if (overlaps (launch))
    g_string_append (text, "--overlap-moe-expert-parallel-comm\n");
  if (g_str_equal (launch->schedule, "interleaved-overlap-w"))
    g_string_append (text, "--delay-wgrad-compute\n");
  if (setting->defer_head > 0)
    g_string_append_printf (text, "--defer-embedding-wgrad-compute --wgrad-deferral-limit %u%s\n", setting->defer_head,
                            launch->shapes[launch->n_devices * launch->n_chunks - 1].n_layers > 0
                                ? "  # puts off W of the head alone, not of the layers before it in its stage"
                                : "");
  if (launch->n_chunks > 1 && setting->group_size > 0)
    g_string_append_printf (text, "--microbatch-group-size-per-virtual-pipeline-stage %u\n", setting->group_size);
  g_string_append_printf (text, "--micro-batch-size %u\n--global-batch-size %" G_GINT64_FORMAT "\n--seq-length %u\n",
                          model->microbatch_size, global_batch (launch), model->sequence);
  g_string_append (text, precisions[model->precision]);
  if (model->fp32_gradients)
    g_string_append (text, "--accumulate-allreduce-grads-in-fp32\n");
  if (setting->recompute == PS_RECOMPUTE_FULL)
    g_string_append (text, "--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers 1\n");
  if (setting->recompute == PS_RECOMPUTE_SELECTIVE)
    g_string_append (text, "--recompute-granularity selective\n");
  if (ps_setting_zero (setting) > 0)
    g_string_append (text, "--use-distributed-optimizer\n");
  if (ps_setting_zero (setting) >= 2)
    g_string_append_printf (text, "--use-megatron-fsdp\n--data-parallel-sharding-strategy %s\n",
                            ps_setting_zero (setting) == 2 ? "optim_grads" : "optim_grads_params");
  if (setting->reduce == PS_REDUCE_OVERLAPPED && setting->n_replicas * setting->n_context > 1)
    g_string_append (text, "--overlap-grad-reduce\n");
}

/* Contexts and experts have no other order of ranks. */
static gboolean
has_fixed_order (const PsSetting *setting)
{
  return setting->n_context > 1 || setting->n_experts > 1;
}

/* Where GPUs share the experts, each has its own whole. */
static void
add_megatron_sizes (const PsLaunch *launch, GString *text)
{
  const PsSetting *setting = launch->setting;

  g_string_append_printf (text, "--tensor-model-parallel-size %u\n", setting->n_tensor);
  if (setting->n_tensor > 1)
    g_string_append (text, "--sequence-parallel\n");
  if (setting->n_context > 1)
    g_string_append_printf (text, "--context-parallel-size %u\n", setting->n_context);
  if (setting->n_experts > 1)
    g_string_append_printf (text, "--expert-model-parallel-size %u\n--expert-tensor-parallel-size 1\n",
                            setting->n_experts);
  if (is_reordered (launch) && !has_fixed_order (setting))
    g_string_append (text, "--use-tp-pp-dp-mapping\n");
}

static void
write_megatron (const PsLaunch *launch, GString *text)
{
  static const Launcher launcher
      = { "Megatron-LM", "torchrun", "--nnodes", "--nproc-per-node", "pretrain_gpt.py, with these options" };

  add_sizes (launch, &launcher, text);
  if (has_fixed_order (launch->setting))
    add_order_note (launch, text);
  add_megatron_sizes (launch, text);
  add_megatron_stages (launch, text);
  if (launch->order != NULL)
    add_megatron_run (launch, text);
}

/* torchtitan */

static void
add_module (GString *text, const char *separator, const char *name)
{
  g_string_append_printf (text, "%s\"%s\"", separator, name);
}

static void
add_modules (const PsStageShape *shape, GString *text)
{
  const char *separator = "";

  if (shape->embedding)
    {
      add_module (text, separator, "tok_embeddings");
      separator = ", ";
    }
  for (guint i = 0; i < shape->n_layers; i++)
    {
      g_autofree char *name = g_strdup_printf ("layers.%u", shape->first_layer + i);

      add_module (text, separator, name);
      separator = ", ";
    }
  if (shape->head)
    {
      add_module (text, separator, "norm");
      add_module (text, ", ", "output");
    }
}

static void
add_parts (const PsLaunch *launch, GString *text)
{
  g_string_append (text, "module_fqns_per_model_part = [\n");
  for (guint s = 0; s < launch->n_devices * launch->n_chunks; s++)
    {
      g_string_append (text, "  [");
      add_modules (&launch->shapes[s], text);
      g_string_append (text, "],\n");
    }
  g_string_append (text, "]\n");
}

static void
add_torch_schedule (const PsLaunch *launch, GString *text)
{
  const char *name = find_name (launch->schedule, TORCHTITAN);

  if (name != NULL)
    {
      g_string_append_printf (text, "pipeline_parallel_schedule = \"%s\"\n", name);
      return;
    }
  g_autofree char *typed = ps_setting_typed (launch->setting);
  g_string_append_printf (text,
                          "pipeline_parallel_schedule = \"PipelineSchedule%s\"\n"
                          "# pipesim schedule convert %s%s --to torch-compute -o schedule.csv\n"
                          "pipeline_parallel_schedule_csv = \"schedule.csv\"\n",
                          launch->n_chunks > 1 ? "Multi" : "Single", launch->schedule,
                          ps_family_find (launch->schedule) != NULL ? typed : "");
}

/* FSDP is what torchtitan has of ZeRO. */
static void
write_torchtitan (const PsLaunch *launch, GString *text)
{
  static const char *const modes[] = { "none", "selective", "full" };
  static const Launcher launcher = { "torchtitan", "torchrun", "--nnodes", "--nproc-per-node",
                                     "-m torchtitan.train --job.config_file FILE, with this in FILE" };
  const PsSetting *setting = launch->setting;
  const PsModel *model = launch->model;
  guint zero = ps_setting_zero (setting);

  add_sizes (launch, &launcher, text);
  add_order_note (launch, text);
  if (launch->order != NULL)
    g_string_append_printf (text,
                            "[training]\nlocal_batch_size = %u\nglobal_batch_size = %" G_GINT64_FORMAT
                            "\nseq_len = %u\n\n[activation_checkpoint]\nmode = \"%s\"\n\n",
                            launch->order->n_microbatches * model->microbatch_size, global_batch (launch),
                            model->sequence, modes[setting->recompute]);
  g_string_append_printf (text,
                          "[parallelism]\ndata_parallel_replicate_degree = %u\ndata_parallel_shard_degree = %u\n"
                          "tensor_parallel_degree = %u\npipeline_parallel_degree = %u\n",
                          zero > 0 ? 1 : setting->n_replicas, zero > 0 ? setting->n_replicas : 1, setting->n_tensor,
                          launch->n_devices);
  if (zero >= 2)
    g_string_append_printf (text, "fsdp_reshard_after_forward = \"%s\"\n", zero == 2 ? "never" : "always");
  if (setting->n_context > 1)
    g_string_append_printf (text, "context_parallel_degree = %u\n", setting->n_context);
  if (setting->n_experts > 1)
    g_string_append_printf (text, "expert_parallel_degree = %u\n", setting->n_experts);
  if (launch->order != NULL)
    {
      g_string_append_printf (text, "pipeline_parallel_microbatch_size = %u\n", model->microbatch_size);
      add_torch_schedule (launch, text);
    }
  add_parts (launch, text);
}

/* DeepSpeed */

static void
add_deepspeed_parts (const PsLaunch *launch, GString *text)
{
  guint next = 0;

  if (ps_stage_shapes_are_even (launch->shapes, launch->n_devices))
    {
      g_string_append (text, "partition_method=\"type:TransformerLayer\"  # the class of your layers\n");
      return;
    }
  g_string_append (text, "parts=[0");
  for (guint s = 0; s < launch->n_devices; s++)
    {
      next += launch->shapes[s].n_layers + (guint)launch->shapes[s].embedding + (guint)launch->shapes[s].head;
      g_string_append_printf (text, ", %u", next);
    }
  g_string_append (text, "]  # for _partition_layers of a subclass; specs: embedding, layers, head\n");
}

static void
write_deepspeed (const PsLaunch *launch, GString *text)
{
  static const Launcher launcher
      = { "DeepSpeed", "deepspeed", "--num_nodes", "--num_gpus", "PROGRAM, with this in its source and configuration" };
  const PsSetting *setting = launch->setting;
  const PsModel *model = launch->model;

  add_sizes (launch, &launcher, text);
  add_order_note (launch, text);
  g_string_append_printf (text, "topology=PipeModelDataParallelTopology(num_pp=%u, num_mp=%u, num_dp=%u)\n",
                          launch->n_devices, setting->n_tensor, setting->n_replicas);
  add_deepspeed_parts (launch, text);
  if (launch->order == NULL)
    return;
  g_string_append_printf (text, "activation_checkpoint_interval=%u\n", setting->recompute == PS_RECOMPUTE_FULL ? 1 : 0);
  g_string_append_printf (text,
                          "{\n  \"train_batch_size\": %" G_GINT64_FORMAT
                          ",\n  \"train_micro_batch_size_per_gpu\": %u,\n"
                          "  \"gradient_accumulation_steps\": %u,\n",
                          global_batch (launch), model->microbatch_size, launch->order->n_microbatches);
  if (model->precision != PS_PRECISION_FP32)
    g_string_append_printf (text, "  \"%s\": { \"enabled\": true },\n", ps_precision_name (model->precision));
  g_string_append_printf (text, "  \"zero_optimization\": { \"stage\": %u }\n}\n", ps_setting_zero (setting));
}

/* All */

/* TRUE if a CSV can say the schedule and torchtitan places its stages. */
static gboolean
is_plain (const PsSchedule *order)
{
  return order->placement->kind == PS_PLACEMENT_LOOP && order->placement->n_copies == 1 && order->n_slices == 1
         && !order->asynchronous && !order->recomputes;
}

static gboolean
check_schedule (const PsLaunch *launch, Framework framework, GError **error)
{
  g_autoptr (GString) known = g_string_new (NULL);

  if (launch->schedule == NULL || find_name (launch->schedule, framework) != NULL
      || (framework == TORCHTITAN && is_plain (launch->order)))
    return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    if (families[i].names[framework] != NULL)
      g_string_append_printf (known, "%s%s", known->len > 0 ? ", " : "", families[i].family);
  return ps_refuse (error, PS_ERROR_USAGE, "--to %s: schedule '%s' is not available there; %s %s",
                    frameworks[framework], launch->schedule, known->str,
                    framework == TORCHTITAN ? "and any synchronous schedule of placement loop without slices and R are"
                                            : "would be");
}

/* Refuses settings that DeepSpeed's pipelines cannot run, and settings that no framework can. */
static gboolean
check_setting (const PsLaunch *launch, Framework framework, GError **error)
{
  const PsSetting *setting = launch->setting;
  const char *name = frameworks[framework];

  if (framework == DEEPSPEED && (setting->n_context > 1 || setting->n_experts > 1))
    return ps_refuse (error, PS_ERROR_USAGE, "--to %s: --%s %u: its pipelines do not share %s", name,
                      setting->n_context > 1 ? "context" : "experts",
                      setting->n_context > 1 ? setting->n_context : setting->n_experts,
                      setting->n_context > 1 ? "sequences" : "experts");
  if (framework == DEEPSPEED && ps_setting_zero (setting) >= 2)
    return ps_refuse (error, PS_ERROR_USAGE, "--to %s: --zero %u: its pipelines refuse stages 2 and 3", name,
                      setting->zero);
  if (framework != MEGATRON && launch->model->precision > PS_PRECISION_BF16)
    return ps_refuse (error, PS_ERROR_USAGE, "--to %s: precision %s is not known there; megatron has it", name,
                      ps_precision_name (launch->model->precision));
  if (setting->n_recompute > 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--to %s: --recompute of each stage is not available there", name);
  if (setting->offload > 0 || setting->n_offload > 0 || setting->sync == PS_SYNC_BYPASS)
    return ps_refuse (error, PS_ERROR_USAGE, "--to %s: %s is not available there", name,
                      setting->sync == PS_SYNC_BYPASS ? "--sync bypass" : "--offload");
  return TRUE;
}

static gboolean
check_stages (const PsLaunch *launch, Framework framework, GError **error)
{
  const PsPlacement *placement = launch->order != NULL ? launch->order->placement : NULL;

  if (placement != NULL && placement->n_stages != launch->n_devices * launch->n_chunks)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--to %s: %u stages on %u devices, which hold up to %u; it wants as many on each",
                      frameworks[framework], placement->n_stages, launch->n_devices, launch->n_chunks);
  for (guint s = 0; s < launch->n_devices * launch->n_chunks; s++)
    if (framework != MEGATRON && launch->shapes[s].n_mtp > 0)
      return ps_refuse (error, PS_ERROR_USAGE, "--to %s: stage %u has multi-token prediction, which is not known there",
                        frameworks[framework], s);
  if (framework == MEGATRON && overlaps (launch) && launch->model->experts.count == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--to megatron: %s is for models with experts; interleaved would be right",
                      launch->schedule);
  if (framework != DEEPSPEED || launch->n_chunks == 1)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--to deepspeed: %u chunks on a device; its devices have one",
                    launch->n_chunks);
}

char *
ps_launch_write (const char *framework, const PsLaunch *launch, GError **error)
{
  static void (*const writers[]) (const PsLaunch *, GString *) = { write_megatron, write_torchtitan, write_deepspeed };
  g_autoptr (GString) text = g_string_new (NULL);
  guint index;

  if (!ps_launch_parse ("--to", framework, &index, error) || !check_schedule (launch, (Framework)index, error)
      || !check_setting (launch, (Framework)index, error) || !check_stages (launch, (Framework)index, error))
    return NULL;
  writers[index](launch, text);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

char *
ps_launch_prediction (const char *framework, const PsSetting *setting, const char *schedule,
                      const PsPrediction *prediction, GError **error)
{
  const PsSchedule *order = prediction->program->schedule;
  g_autoptr (PsModel) model = NULL;
  PsLaunch launch = { .setting = setting,
                      .shapes = prediction->costs->shapes,
                      .n_devices = order->placement->n_devices,
                      .n_chunks = ps_placement_max_chunks (order->placement),
                      .schedule = schedule,
                      .order = order };

  if (launch.shapes == NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE, "--to %s: needs the costs of a model, --model with --cluster or --db",
                           framework);
  launch.model = model = ps_setting_model (setting, error);
  return model != NULL ? ps_launch_write (framework, &launch, error) : NULL;
}
