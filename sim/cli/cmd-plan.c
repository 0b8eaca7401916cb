/* cmd-plan.c - pipesim plan: how to train a model on a number of GPUs. */
#include "cli.h"

#include <pipesim/costdb.h>
#include <pipesim/plan.h>

#define MAX_TOP 1000

typedef struct {
  char *reserve;
  gboolean every;
  guint rank; /* --explain; 0: not given */
  PsLaunchChoice launch;
  PsColumnChoice columns;
  PsLayoutQuestion question; /* its texts are owned */
  PsFromChoice from;
} Options;

#define DTYPE(name, member, help)                                                                                      \
  PS_OPTION (name, 0, PS_NAME (Options, question.state.member, ps_dtype), "DTYPE", help ": fp32, bf16, fp16, fp8",     \
             .otherwise = "the framework's", .group = PS_GROUP_TRAINING)

static const PsOption rows[] = {
  PS_OPTION_INCLUDE (Options, from, ps_from_rows),
  PS_OPTION ("model", 0, PS_VALUE (FILE, Options, question.model, const char *), "FILE",
             "Model description or its name (llama-3-70b)", .group = PS_GROUP_COSTS, .otherwise = ""),
  PS_OPTION (
      "precision", 0, PS_VALUE (TEXT, Options, question.precision, const char *), "NAME",
      "Number format of the model: fp32, fp16, bf16, fp8, fp8-block, mxfp8 or nvfp4; the cluster's peak_flops does "
      "not change",
      .otherwise = "its own", .group = PS_GROUP_COSTS),
  PS_OPTION ("cluster", 0, PS_VALUE (FILE, Options, question.cluster, const char *), "FILE",
             "Cluster description or its name; memory and peak rate come from it, and without --db all costs",
             .group = PS_GROUP_MACHINE, .otherwise = ""),
  PS_OPTION ("db", 0, PS_VALUE (FILE, Options, question.db, const char *), "FILE",
             "Measured costs: one pipeline of all GPUs, no replicas", .group = PS_GROUP_COSTS),
  PS_OPTION ("profile", 0, PS_VALUE (TEXT, Options, question.profile, const char *), "NAME", "Profile in the database",
             .otherwise = "all of the model", .group = PS_GROUP_COSTS),
  PS_OPTION ("gpus", 'g', PS_COUNT (Options, question.n_gpus, 1, PS_MAX_GPUS), "N", "GPUs, p times t times d",
             .otherwise = "all of the cluster", .group = PS_GROUP_WHAT),
  PS_OPTION ("tensor", 0, PS_COUNT (Options, question.tensor, 1, PS_MAX_TENSOR), "T", "GPUs of a device",
             .otherwise = "1, 2, 4 and 8, within a node", .group = PS_GROUP_TRAINING),
  PS_OPTION ("context", 0, PS_COUNT (Options, question.context, 1, PS_MAX_GPUS), "C",
             "Groups of --tensor GPUs that share each sequence", .otherwise = "1, and more where sequences are long",
             .group = PS_GROUP_TRAINING),
  PS_OPTION ("experts", 0, PS_COUNT (Options, question.experts, 1, PS_MAX_GPUS), "E", "GPUs that share the experts",
             .otherwise = "1, 8, 16, 32 and 64, as the experts allow", .group = PS_GROUP_TRAINING),
  PS_OPTION ("framework", 0, PS_NAME (Options, question.framework, ps_framework), "NAME",
             "Framework whose use of memory is counted, and whose runs alone are ranked: none, megatron, "
             "megatron-bridge or deepspeed",
             .given = PS_MEMBER (Options, question.has_framework, gboolean),
             .otherwise
             = "the model's memory (megatron's where the cluster's file states a datasheet's values alone), all runs",
             .group = PS_GROUP_TRAINING),
  PS_OPTION ("optimizer", 0, PS_NAME (Options, question.state.optimizer, ps_optimizer), "NAME",
             "adam, or muon: of the matrices of layers", .otherwise = "the model's", .group = PS_GROUP_TRAINING),
  PS_OPTION ("optimizer-implementation", 0, PS_NAME (Options, question.state.implementation, ps_implementation), "NAME",
             "fused, or PyTorch's foreach", .otherwise = "the model's", .group = PS_GROUP_TRAINING),
  DTYPE ("main-grads-dtype", main_grads, "Format of accumulated gradients"),
  DTYPE ("main-params-dtype", main_params, "Format of the weights that the optimizer updates"),
  DTYPE ("exp-avg-dtype", exp_avg, "Format of the first moment"),
  DTYPE ("exp-avg-sq-dtype", exp_avg_sq, "Format of the second moment"),
  PS_OPTION ("fp8-param-gather", 0, PS_FLAG (Options, question.state.fp8_param_gather), NULL,
             "Weights of products are stored in the number format of the products alone",
             .otherwise = "the framework's", .group = PS_GROUP_TRAINING),
  PS_OPTION ("activation-func-fp8-input-store", 0, PS_FLAG (Options, question.fp8_input_store), NULL,
             "Forwards keep the inputs of SwiGLU in 8 bits", .otherwise = "the model's", .group = PS_GROUP_TRAINING),
  PS_OPTION ("cuda-graphs", 0, PS_NAME (Options, question.cuda_graphs, ps_cuda_graphs), "SCOPE",
             "Kernels that do not wait for the host: none, attn or full_iteration", .group = PS_GROUP_MACHINE),
  PS_OPTION ("tp-comm-overlap", 0, PS_FLAG (Options, question.tp_comm_overlap), NULL,
             "Products hide a part of the all-reduces of --tensor", .group = PS_GROUP_MACHINE),
  PS_OPTION ("moe-token-dispatcher-type", 0, PS_NAME (Options, question.dispatcher, ps_dispatcher), "NAME",
             "What brings tokens to the experts: alltoall, deepep or hybridep", .group = PS_GROUP_MACHINE),
  PS_OPTION ("overlap-param-gather", 0, PS_FLAG (Options, question.overlap_param_gather), NULL,
             "Forwards of the next step hide the gather of the weights", .group = PS_GROUP_TRAINING),
  PS_OPTION ("reduce", 0, PS_NAME (Options, question.reduce, ps_reduce), "KIND",
             "All-reduce of the gradients: overlapped or exposed", .group = PS_GROUP_TRAINING),
  PS_OPTION ("global-batch", 0, PS_INTEGER (Options, question.global_batch, 1, PS_MAX_MICROBATCHES), "N",
             "Sequences per step, over all replicas", .group = PS_GROUP_WHAT, .otherwise = ""),
  PS_OPTION ("memory-limit", 0, PS_SIZE (Options, question.memory_limit), "SIZE", "Memory of a GPU",
             .otherwise = "the cluster's", .group = PS_GROUP_MACHINE),
  PS_OPTION ("reserve", 0, PS_TEXT (Options, reserve), "SIZE",
             "Part of this memory that stays free: for driver and NCCL (5 GB, at most a sixteenth; nothing where the "
             "framework counts them), and for fragmentation and errors of prediction (a sixteenth)",
             .otherwise = "both parts of the cluster's memory; nothing of --memory-limit", .group = PS_GROUP_MACHINE),
  PS_OPTION ("zero", 0, PS_VALUE (COUNT, Options, question.zero, guint), "0|1|2|3",
             "Stage of ZeRO. The replicas share out, at 0, nothing; at 1, the optimizer state; at 2, gradients too; "
             "at 3, state and weights (FSDP)",
             .high = 3, .initial = 1, .otherwise = "1 for modelled costs of several replicas or contexts, else 0",
             .group = PS_GROUP_TRAINING),
  PS_OPTION ("schedule", 's', PS_LIST (Options, question.schedules), "NAME,...|all", "Only these families, or all",
             .otherwise = "all synchronous ones", .group = PS_GROUP_WHAT),
  PS_OPTION ("jobs", 'j', PS_COUNT (Options, question.n_jobs, 1, 1024), "N", "Threads",
             .otherwise = "one per processor"),
  PS_OPTION ("top", 0, PS_COUNT (Options, question.top, 1, MAX_TOP), "N", "Number of layouts to print, the best first",
             .initial = 10, .group = PS_GROUP_OUTPUT),
  PS_OPTION ("every", 0, PS_FLAG (Options, every), NULL,
             "Print every setting of a layout (p, t, c, e, d), not only the fastest", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("explain", 0, PS_COUNT (Options, rank, 1, MAX_TOP), "RANK",
             "Print the command line that predicts the layout of this rank again", .group = PS_GROUP_OUTPUT,
             .otherwise = "none"),
  PS_OPTION_INCLUDE (Options, launch, ps_launch_rows),
  PS_OPTION_TABLE (Options, columns, "pipesim-plan/1"),
  PS_OPTION_END,
};

/* A layout, and what follows from it. */
typedef struct {
  guint rank;
  PsLayout layout;
  const char *recompute, *confidence;
  char *runs_in, *command;
} Row;

static const PsCellColumn columns[] = {
  PS_CELL (Row, rank, "rank", "rank", INTEGER),
  PS_FIGURE_AT (Row, layout.schedule, "schedule"),
  PS_CELL (Row, layout.asynchronous, "asynchronous", NULL, BOOLEAN), /* with a heading where a schedule is */
  PS_FIGURE_AT (Row, layout.n_devices, "devices"),
  PS_CELL (Row, layout.n_tensor, "tensor", "t", INTEGER),
  PS_CELL (Row, layout.n_context, "context", "c", INTEGER),
  PS_CELL (Row, layout.n_experts, "experts", "e", INTEGER),
  PS_CELL (Row, layout.n_replicas, "replicas", "d", INTEGER),
  PS_CELL (Row, layout.microbatch_size, "microbatch_size", "b", INTEGER),
  PS_FIGURE_AT (Row, layout.n_microbatches, "microbatches"),
  PS_FIGURE_AT (Row, layout.n_chunks, "chunks"),
  PS_CELL (Row, recompute, "recompute", "recompute", TEXT),
  PS_CELL (Row, layout.zero, "zero", "ZeRO", INTEGER),
  PS_CELL (Row, layout.step_ns, "step_ns", "step", TIME),
  PS_CELL (Row, layout.tokens_per_second, "tokens_per_second", "tokens/s", NUMBER),
  PS_CELL (Row, layout.mfu, "mfu", "MFU", RATIO),
  PS_FIGURE_AT (Row, layout.bubble_ratio, "bubble_ratio"),
  PS_FIGURE_AT (Row, layout.peak_memory_bytes, "peak_memory_bytes"),
  PS_CELL (Row, layout.near, "near", "within 1 %", TEXT),
  PS_CELL_SET ("not_run", NULL, BOOLEAN), /* by the framework that was asked for */
  PS_CELL (Row, layout.costs_origin, "costs_origin", "costs", TEXT),
  PS_CELL (Row, confidence, "confidence", "confidence", TEXT),
  PS_CELL (Row, runs_in, "runs_in", "runs in", TEXT),
  PS_FIGURE_AT (Row, layout.layout, "layout"),
  PS_CELL (Row, layout.profile, "profile", NULL, TEXT),
  PS_CELL (Row, command, "command", NULL, TEXT),
};

static const char *const usual[]
    = { "rank",     "schedule",          "asynchronous", "devices", "tensor",    "context", "experts",
        "replicas", "microbatch_size",   "microbatches", "chunks",  "recompute", "step_ns", "tokens_per_second",
        "mfu",      "peak_memory_bytes", "near",         "runs_in", "layout",    NULL };

static gboolean finish_options (Options *options, GError **error)
{
  PsLayoutQuestion *question = &options->question;

  if (question->schedules != NULL) {
    g_auto (GStrv) asked = question->schedules;

    question->schedules = ps_family_names (asked);
  }
  question->fold = !options->every;
  question->reserve = question->memory_limit > 0 ? 0 : PS_LAYOUT_USUAL_RESERVE;
  if (options->reserve != NULL && !ps_parse_size ("--reserve", options->reserve, &question->reserve, error))
    return FALSE;
  if (question->n_jobs == 0)
    question->n_jobs = g_get_num_processors ();
  if (!ps_launch_imply (options->launch.to, &question->framework, error))
    return FALSE;
  question->runner = options->launch.to;
  if (question->runner == NULL && question->framework != PS_FRAMEWORK_NONE)
    question->runner = ps_framework_name (ps_framework_is_megatron (question->framework) ? PS_FRAMEWORK_MEGATRON
                                                                                         : question->framework);
  if (options->rank == 0 || !options->columns.json)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--explain and --json: the JSON holds all command lines");
}

/* "megatron, pytorch, pipesim"; pipesim where its devices run all that the layout says. */
static char *find_runners (const PsLayoutQuestion *question, const PsLayouts *layouts, const PsLayout *layout)
{
  g_autoptr (PsSetting) setting = ps_layout_setting (question, layouts, layout);
  g_autofree char *names = ps_launch_runs_in (setting, layout->schedule);

  setting->replicas_adjacent = FALSE; /* where they are is of no concern to devices */
  if (layout->zero >= 2
      || !ps_setting_refuse (setting, PS_FIELD_NOT_RUN | PS_FIELD_NOT_COMPUTED | PS_FIELD_SHARED, NULL, NULL))
    return g_steal_pointer (&names);
  return g_strconcat (names, *names ? ", " : "", "pipesim", NULL);
}

/* Adds the layouts from `first` on, below `end`. */
static PsTable *make_table (const Options *options, const PsLayouts *layouts, guint first, guint end)
{
  const PsLayoutQuestion *question = &options->question;
  PsTable *table = ps_table_of (columns, G_N_ELEMENTS (columns), NULL, 0, 0);

  for (guint i = 0; i < layouts->best->len; i++)
    if (g_array_index (layouts->best, PsLayout, i).asynchronous)
      ps_table_set_title (table, "asynchronous", "async");
  for (guint i = first; i < end; i++) {
    const PsLayout *layout = &g_array_index (layouts->best, PsLayout, i);
    g_autofree char *command = ps_layout_command (question, layouts, layout);
    g_autofree char *runs_in = find_runners (question, layouts, layout);

    ps_table_add (table, &(Row){ .rank = i + 1,
                                 .layout = *layout,
                                 .recompute = ps_recompute_name (layout->recompute),
                                 .confidence = ps_confidence_name (layout->confidence),
                                 .runs_in = *runs_in ? runs_in : NULL,
                                 .command = command });
    if (question->runner != NULL)
      ps_table_set_boolean (table, "not_run", layout->not_run);
  }
  ps_table_choose (table, &options->columns, usual, NULL);
  return table;
}

/* "memory: 69.57 GiB of 79.18 GiB; ..." */
static char *describe_memory (const PsLayouts *layouts)
{
  g_autofree char *limit = ps_format_size (layouts->memory_limit), *reserve = ps_format_size (layouts->reserve);
  g_autofree char *all = ps_format_size (layouts->memory_limit + layouts->reserve);

  return layouts->reserve == 0
             ? g_strdup_printf ("memory: all of %s; no reserve for driver, NCCL, fragmentation", all)
             : g_strdup_printf ("memory: %s of %s; the reserve of %s is for driver, NCCL, fragmentation and errors of "
                                "prediction",
                                limit, all, reserve);
}

static char *describe_search (const PsLayouts *layouts)
{
  g_autofree char *limit = ps_format_size (layouts->memory_limit);

  return g_strdup_printf ("%" G_GUINT64_FORMAT " settings: %" G_GUINT64_FORMAT
                          " predicted to fit %s, %" G_GUINT64_FORMAT " predicted not to, %" G_GUINT64_FORMAT
                          " whose weights alone do not fit, %" G_GUINT64_FORMAT
                          " that cannot be among the best, %" G_GUINT64_FORMAT " impossible",
                          layouts->n_settings, layouts->n_fit, limit, layouts->n_too_large, layouts->n_hopeless,
                          layouts->n_outrun, layouts->n_impossible);
}

/* NULL where the costs are measured. */
static char *describe_errors (const PsLayoutQuestion *question, const PsLayouts *layouts)
{
  g_autoptr (PsSetting) setting = ps_layout_setting (question, layouts, &g_array_index (layouts->best, PsLayout, 0));

  return ps_describe_errors (setting);
}

static gboolean print_plan (const Options *options, const PsLayouts *layouts, GError **error)
{
  g_autofree char *more = ps_cluster_lacks (layouts->n_there, layouts->n_gpus);
  g_autofree char *about
      = g_strdup_printf ("simulated from %s costs: %s on %u GPUs of %s%s, %" G_GINT64_FORMAT " sequences per step",
                         g_array_index (layouts->best, PsLayout, 0).costs_origin, layouts->model, layouts->n_gpus,
                         layouts->cluster, more, options->question.global_batch);
  g_autofree char *memory = describe_memory (layouts), *search = describe_search (layouts);
  g_autofree char *flops
      = g_strdup_printf ("MFU = %.6g FLOPs of F, B and W per step / (step * %u GPUs * %.6g FLOP/s, the cluster's %s); "
                         "PaLM, arXiv 2204.02311, appendix B",
                         layouts->step_flops, layouts->n_gpus, layouts->peak_flops, layouts->peak_key);
  g_autofree char *unrest = ps_unrest_to_text (layouts->unrest, "");
  g_autofree char *errors = describe_errors (&options->question, layouts);
  const char *runner = options->question.runner;
  const char *extra[] = { "origin",
                          ps_origin_name (PS_ORIGIN_SIMULATED),
                          "about",
                          about,
                          "memory",
                          memory,
                          "search",
                          search,
                          "formula",
                          flops,
                          "machine",
                          unrest,
                          errors != NULL ? "interval" : NULL,
                          errors,
                          NULL };
  guint n = layouts->best->len, n_run = 0;

  while (n_run < n && !g_array_index (layouts->best, PsLayout, n_run).not_run)
    n_run++;
  g_autoptr (PsTable) table = make_table (options, layouts, 0, options->columns.json ? n : n_run);
  if (options->columns.json)
    return ps_table_print (table, "pipesim-plan/1", extra, error);
  g_autofree char *head = g_strdup_printf ("%s\n%s\n%s\n%s%s%s%s%s", about, memory, search, flops, *unrest ? "\n" : "",
                                           unrest, errors != NULL ? "\ninterval: " : "", errors != NULL ? errors : "");
  g_autofree char *fitted = ps_fit_sentence (head, 0);
  g_autofree char *text = n_run > 0 ? ps_table_to_text (table) : g_strdup_printf ("%s runs nothing of this\n", runner);
  g_autoptr (GString) page = g_string_new (fitted);
  g_string_append (page, text);
  if (n_run < n) {
    g_autoptr (PsTable) others = make_table (options, layouts, n_run, n);
    g_autofree char *rest = ps_table_to_text (others);

    g_string_append_printf (
        page, "%s does not run these: only what stands under runs in does, or a CSV for PyTorch's runtime\n%s", runner,
        rest);
  }
  return ps_print (page->str, error);
}

/* Prints the launch, or the command line, of the row of --explain. */
static gboolean explain (const Options *options, const PsLayouts *layouts, GError **error)
{
  const PsLayoutQuestion *question = &options->question;

  if (options->rank > layouts->best->len)
    return ps_refuse (error, PS_ERROR_USAGE, "--explain: '%u' is after the last, %u", options->rank,
                      layouts->best->len);
  const PsLayout *layout = &g_array_index (layouts->best, PsLayout, options->rank - 1);
  g_autofree char *text = NULL;
  if (options->launch.to != NULL) {
    g_autoptr (PsSetting) setting = ps_layout_setting (question, layouts, layout);
    g_autoptr (PsPrediction) prediction = ps_predict (setting, layout->schedule, error);

    if (prediction != NULL)
      text = ps_launch_prediction (&options->launch, setting, layout->schedule, prediction, error);
  } else {
    g_autofree char *command = ps_layout_command (question, layouts, layout);

    text = g_strconcat (command, "\n", NULL);
  }
  return text != NULL && ps_print (text, error);
}

static int run (G_GNUC_UNUSED const PsCmd *command, gpointer base, int argc, char **argv, GError **error)
{
  Options *options = base;
  g_autoptr (PsTable) table = ps_table_of (columns, G_N_ELEMENTS (columns), NULL, 0, 0);

  if (argc > 1)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s': not expected; the model goes after --model", argv[1]);
  if (!ps_table_choose (table, &options->columns, usual, error) || !finish_options (options, error))
    return 0;
  ps_note_unread (options->question.model);
  const PsSetting asked = { .model = (char *)options->question.model,
                            .cluster = (char *)options->question.cluster,
                            .framework = options->question.framework,
                            .has_framework = options->question.has_framework };
  ps_note_assumed (&asked);
  g_autoptr (PsLayouts) layouts = ps_layouts_find (&options->question, error);
  if (layouts == NULL)
    return 0;
  if (layouts->best->len == 0) /* what would have to fit */
  {
    g_autofree char *search = describe_search (layouts), *state = ps_format_size (layouts->state_bytes);

    ps_refuse (error, PS_ERROR_SCHEDULE,
               "%s on %u GPUs of %s: no setting fits; weights, gradients and optimizer state alone are %s; %s",
               layouts->model, layouts->n_gpus, layouts->cluster, state, search);
  } else if (options->rank)
    explain (options, layouts, error);
  else
    print_plan (options, layouts, error);
  return 0;
}

const PsCmd ps_cmd_plan = {
  .help = {
  .summary = "Finds the fastest settings to train a model on a number of GPUs within memory. All simulated.",
  .text
  = "Tries pipelines of p devices of t c GPUs each (tensor and sequence parallelism, contexts) in\n"
    "d = GPUs / (p t c) replicas, experts over e of the GPUs of a device and its replicas, microbatches of\n"
    "b = 1, 2, 4, 8 and 16 sequences, recomputation, schedules and, where a schedule takes any number, v chunks\n"
    "per device. A single device (p = 1) has no pipeline: the fastest schedule stands for all, which may hide a\n"
    "part of the all-reduce. A row is the fastest setting of its p, t, c, e and d.\n\n"
    "within 1 % = other schedules of the same p, t, c, e and d whose step takes at most 1 % longer\n"
    "runs in = frameworks that have the schedule by a name of their own and take the setting; pipesim exec, where\n"
    "it runs the layout. With --framework or --to ranks begin with what that framework runs; --to with\n"
    "--explain prints the launch of that rank\n"
    "step = iteration time, all-reduce of the gradients over the replicas included\n"
    "peak memory = of a GPU\n"
    "MFU = FLOPs of the model per step / (step * GPUs * peak rate of a GPU in the model's precision); the FLOPs\n"
    "are those of F, B and W; recomputation does not count (Chowdhery et al., PaLM, arXiv 2204.02311, appendix B)\n"
    "confidence = high: all costs were measured; medium: some of them lie between measured ones; low: some are\n"
    "modelled, and the line that begins with interval says how right steps of the class were\n",
  .examples = "pipesim plan --model llama-3-8b --cluster h100-80gb -g 16 --global-batch 64\n"
              "pipesim plan --model llama-3-8b --cluster h100-80gb -g 16 --global-batch 64 -s 1f1b,interleaved "
              "--memory-limit 70GB\n"
              "pipesim plan --model llama-3-8b --cluster h100-80gb -g 16 --global-batch 64 -s 1f1b,interleaved "
              "--explain 1 --to megatron\n",
},
  .rows = rows,
  .size = sizeof (Options),
  .run = run,
};
