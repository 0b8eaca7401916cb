/* cmd-plan.c - pipesim plan: how to train a model on a number of GPUs. */
#include "commands.h"

#include <pipesim/option.h>
#include <pipesim/costdb.h>
#include <pipesim/plan.h>

#include <string.h>

#define MAX_TOP 1000
#define ASYNCHRONOUS 2 /* index in columns */

typedef struct
{
  char *reserve;
  gboolean every;
  guint rank; /* --explain; 0: not given */
  PsLaunchChoice launch;
  gboolean json;
  PsColumnChoice columns;
  PsLayoutQuestion question; /* its texts are owned */
} Options;

static const PsOption rows[] = {
  PS_OPTION ("model", 0, PS_VALUE (FILE, Options, question.model, const char *), "FILE",
             "Model description or its name (llama-3-70b)", .group = PS_GROUP_COSTS, .otherwise = ""),
  PS_OPTION ("precision", 0, PS_VALUE (TEXT, Options, question.precision, const char *), "NAME",
             "Number format of the model: fp32, fp16, bf16, fp8 or fp4; the cluster's peak_flops does not change",
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
             "Framework whose use of memory is counted, and whose runs alone are ranked: none, megatron or deepspeed",
             .otherwise = "the model's memory, all runs", .group = PS_GROUP_TRAINING),
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
  PS_OPTION ("json", 0, PS_FLAG (Options, json), NULL, "Print JSON (format pipesim-plan/1)", .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE (Options, columns, ps_column_rows),
  PS_OPTION_END,
};

static const PsCommandHelp help = {
  .summary = "Finds the fastest ways to train a model on a number of GPUs within memory. All simulated.",
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
    "modelled, so that steps are only as right as the efficiency and the bandwidths that the cluster states\n",
  .examples = "pipesim plan --model llama-3-8b --cluster h100-80gb -g 16 --global-batch 64\n"
              "pipesim plan --model llama-3-8b --cluster h100-80gb -g 16 --global-batch 64 -s 1f1b,interleaved "
              "--memory-limit 70GB\n"
              "pipesim plan --model llama-3-8b --cluster h100-80gb -g 16 --global-batch 64 -s 1f1b,interleaved "
              "--explain 1 --to megatron\n",
};

static void
options_clear (Options *options)
{
  ps_options_reset (rows, options);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static const PsColumn columns[] = {
  { "rank", "rank", PS_COLUMN_INTEGER },
  { "schedule", "schedule", PS_COLUMN_TEXT },
  { "asynchronous", NULL, PS_COLUMN_BOOLEAN }, /* "async" where a schedule is */
  { "devices", "p", PS_COLUMN_INTEGER },
  { "tensor", "t", PS_COLUMN_INTEGER },
  { "context", "c", PS_COLUMN_INTEGER },
  { "experts", "e", PS_COLUMN_INTEGER },
  { "replicas", "d", PS_COLUMN_INTEGER },
  { "microbatch_size", "b", PS_COLUMN_INTEGER },
  { "microbatches", "m", PS_COLUMN_INTEGER },
  { "chunks", "v", PS_COLUMN_INTEGER },
  { "recompute", "recompute", PS_COLUMN_TEXT },
  { "zero", "ZeRO", PS_COLUMN_INTEGER },
  { "step_ns", "step", PS_COLUMN_TIME },
  { "tokens_per_second", "tokens/s", PS_COLUMN_NUMBER },
  { "mfu", "MFU", PS_COLUMN_RATIO },
  { "bubble_ratio", "bubble of iteration", PS_COLUMN_RATIO },
  { "peak_memory_bytes", "peak memory", PS_COLUMN_SIZE },
  { "near", "within 1 %", PS_COLUMN_TEXT },
  { "not_run", NULL, PS_COLUMN_BOOLEAN }, /* by the framework that was asked for */
  { "costs_origin", "costs", PS_COLUMN_TEXT },
  { "confidence", "confidence", PS_COLUMN_TEXT },
  { "runs_in", "runs in", PS_COLUMN_TEXT },
  { "layout", "layout", PS_COLUMN_TEXT },
  { "profile", NULL, PS_COLUMN_TEXT },
  { "command", NULL, PS_COLUMN_TEXT },
};

static const char *const usual[]
    = { "rank",     "schedule",          "asynchronous", "devices", "tensor",    "context", "experts",
        "replicas", "microbatch_size",   "microbatches", "chunks",  "recompute", "step_ns", "tokens_per_second",
        "mfu",      "peak_memory_bytes", "near",         "runs_in", "layout",    NULL };

static gboolean
finish_options (Options *options, GError **error)
{
  PsLayoutQuestion *question = &options->question;

  if (!ps_column_choice_check (&options->columns, columns, G_N_ELEMENTS (columns), options->json, error))
    return FALSE;
  if (question->schedules != NULL)
    {
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
    question->runner = ps_framework_name (question->framework);
  if (options->rank == 0 || !options->json)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--explain and --json: the JSON holds all command lines");
}

static gboolean
parse_options (Options *options, int argc, char **argv, GError **error)
{
  if (!ps_command_parse (&help, rows, options, &argc, &argv, error))
    return FALSE;
  if (argc == 1)
    return finish_options (options, error);
  return ps_refuse (error, PS_ERROR_USAGE, "'%s': not expected; the model goes after --model", argv[1]);
}

/* "megatron, pytorch, pipesim"; pipesim where its devices run all that the layout says. */
static char *
find_runners (const PsLayoutQuestion *question, const PsLayouts *layouts, const PsLayout *layout)
{
  g_autoptr (PsSetting) setting = ps_layout_setting (question, layouts, layout);
  g_autofree char *names = ps_launch_runs_in (setting, layout->schedule);

  setting->replicas_adjacent = FALSE; /* where they are is of no concern to devices */
  if (layout->zero >= 2
      || !ps_setting_refuse (setting, PS_FIELD_NOT_RUN | PS_FIELD_NOT_COMPUTED | PS_FIELD_SHARED, NULL, NULL))
    return g_steal_pointer (&names);
  return g_strconcat (names, *names ? ", " : "", "pipesim", NULL);
}

/* Shows the column asynchronous where it says something. */
static void
choose_columns (const PsLayouts *layouts, PsColumn *shown)
{
  memcpy (shown, columns, sizeof columns);
  for (guint i = 0; i < layouts->best->len; i++)
    if (g_array_index (layouts->best, PsLayout, i).asynchronous)
      shown[ASYNCHRONOUS].title = "async";
}

static PsTable *
make_table (const Options *options, const PsLayouts *layouts, guint first, guint end, const PsColumn *shown)
{
  PsTable *table = ps_table_new (shown, G_N_ELEMENTS (columns));

  for (guint i = first; i < end; i++)
    {
      const PsLayout *layout = &g_array_index (layouts->best, PsLayout, i);
      g_autofree char *command = ps_layout_command (&options->question, layouts, layout);
      g_autofree char *runs_in = find_runners (&options->question, layouts, layout);

      ps_table_add_row (table);
      ps_table_set_integer (table, "rank", i + 1);
      ps_table_set_text (table, "schedule", layout->schedule);
      ps_table_set_boolean (table, "asynchronous", layout->asynchronous);
      ps_table_set_integer (table, "devices", layout->n_devices);
      ps_table_set_integer (table, "tensor", layout->n_tensor);
      ps_table_set_integer (table, "context", layout->n_context);
      ps_table_set_integer (table, "experts", layout->n_experts);
      ps_table_set_integer (table, "replicas", layout->n_replicas);
      ps_table_set_integer (table, "microbatch_size", layout->microbatch_size);
      ps_table_set_integer (table, "microbatches", layout->n_microbatches);
      ps_table_set_integer (table, "chunks", layout->n_chunks);
      ps_table_set_text (table, "recompute", ps_recompute_name (layout->recompute));
      ps_table_set_integer (table, "zero", layout->zero);
      ps_table_set_integer (table, "step_ns", layout->step_ns);
      ps_table_set_ratio (table, "tokens_per_second", layout->tokens_per_second);
      ps_table_set_ratio (table, "mfu", layout->mfu);
      ps_table_set_ratio (table, "bubble_ratio", layout->bubble_ratio);
      ps_table_set_integer (table, "peak_memory_bytes", layout->peak_memory_bytes);
      if (layout->near != NULL)
        ps_table_set_text (table, "near", layout->near);
      if (options->question.runner != NULL)
        ps_table_set_boolean (table, "not_run", layout->not_run);
      ps_table_set_text (table, "costs_origin", layout->costs_origin);
      ps_table_set_text (table, "confidence", ps_confidence_name (layout->confidence));
      if (*runs_in)
        ps_table_set_text (table, "runs_in", runs_in);
      if (layout->layout != NULL)
        ps_table_set_text (table, "layout", layout->layout);
      if (layout->profile != NULL)
        ps_table_set_text (table, "profile", layout->profile);
      ps_table_set_text (table, "command", command);
    }
  return table;
}

static char *
describe_flops (const PsLayouts *layouts)
{
  return g_strdup_printf ("MFU = %.6g FLOPs of F, B and W per step / (step * %u GPUs * %.6g FLOP/s, the cluster's %s); "
                          "PaLM, arXiv 2204.02311, appendix B",
                          layouts->step_flops, layouts->n_gpus, layouts->peak_flops, layouts->peak_key);
}

/* "memory: 69.57 GiB of 79.18 GiB; ..." */
static char *
describe_memory (const PsLayouts *layouts)
{
  g_autofree char *limit = ps_format_size (layouts->memory_limit), *reserve = ps_format_size (layouts->reserve);
  g_autofree char *all = ps_format_size (layouts->memory_limit + layouts->reserve);

  return layouts->reserve == 0
             ? g_strdup_printf ("memory: all of %s; no reserve for driver, NCCL, fragmentation", all)
             : g_strdup_printf ("memory: %s of %s; the reserve of %s is for driver, NCCL, fragmentation and errors of "
                                "prediction",
                                limit, all, reserve);
}

static char *
describe_search (const PsLayouts *layouts)
{
  g_autofree char *limit = ps_format_size (layouts->memory_limit);

  return g_strdup_printf ("%" G_GUINT64_FORMAT " settings: %" G_GUINT64_FORMAT
                          " predicted to fit %s, %" G_GUINT64_FORMAT " predicted not to, %" G_GUINT64_FORMAT
                          " whose weights alone do not fit, %" G_GUINT64_FORMAT
                          " that cannot be among the best, %" G_GUINT64_FORMAT " impossible",
                          layouts->n_settings, layouts->n_fit, limit, layouts->n_too_large, layouts->n_hopeless,
                          layouts->n_outrun, layouts->n_impossible);
}

static char *
describe_plan (const Options *options, const PsLayouts *layouts)
{
  g_autofree char *more = ps_cluster_lacks (layouts->n_there, layouts->n_gpus);

  return g_strdup_printf ("simulated from %s costs: %s on %u GPUs of %s%s, %" G_GINT64_FORMAT " sequences per step",
                          g_array_index (layouts->best, PsLayout, 0).costs_origin, layouts->model, layouts->n_gpus,
                          layouts->cluster, more, options->question.global_batch);
}

static gboolean
print_plan (const Options *options, const PsLayouts *layouts, GError **error)
{
  PsColumn shown[G_N_ELEMENTS (columns)];
  g_autofree char *flops = describe_flops (layouts), *search = describe_search (layouts), *text = NULL, *page = NULL;
  g_autofree char *head = NULL, *fitted = NULL, *rest = NULL;
  g_autofree char *memory = describe_memory (layouts);
  g_autofree char *about = describe_plan (options, layouts), *unrest = ps_unrest_to_text (layouts->unrest, "");
  const char *extra[] = { "origin",  ps_origin_name (PS_ORIGIN_SIMULATED),
                          "about",   about,
                          "memory",  memory,
                          "search",  search,
                          "formula", flops,
                          "machine", unrest,
                          NULL };
  guint n = layouts->best->len, n_run = 0;

  while (n_run < n && !g_array_index (layouts->best, PsLayout, n_run).not_run)
    n_run++;
  choose_columns (layouts, shown);
  g_autoptr (PsTable) table = make_table (options, layouts, 0, options->json ? n : n_run, shown);
  ps_table_choose (table, &options->columns, usual);
  if (options->json)
    {
      page = ps_table_to_json (table, "pipesim-plan/1", extra);
      return ps_print (page, error);
    }
  text = n_run > 0 ? ps_table_to_text (table) : g_strdup_printf ("%s runs nothing of this\n", options->question.runner);
  if (n_run < n)
    {
      g_autoptr (PsTable) others = make_table (options, layouts, n_run, n, shown);
      g_autofree char *table_text = NULL;

      ps_table_choose (others, &options->columns, usual);
      table_text = ps_table_to_text (others);
      rest = g_strdup_printf ("%s does not run these: only what stands under runs in does, or a CSV for PyTorch's "
                              "runtime\n%s",
                              options->question.runner, table_text);
    }
  head = g_strdup_printf ("%s\n%s\n%s\n%s%s%s", about, memory, search, flops, *unrest ? "\n" : "", unrest);
  fitted = ps_fit_sentence (head, 0);
  page = g_strconcat (fitted, text, rest, NULL);
  return ps_print (page, error);
}

static gboolean
print_launch (const Options *options, const PsLayouts *layouts, const PsLayout *layout, GError **error)
{
  g_autoptr (PsSetting) setting = ps_layout_setting (&options->question, layouts, layout);
  g_autoptr (PsPrediction) prediction = ps_predict (setting, layout->schedule, error);
  g_autofree char *text = prediction != NULL
                              ? ps_launch_prediction (&options->launch, setting, layout->schedule, prediction, error)
                              : NULL;

  return text != NULL && ps_print (text, error);
}

static gboolean
print_command (const Options *options, const PsLayouts *layouts, GError **error)
{
  g_autofree char *command = NULL, *line = NULL;

  if (options->rank > layouts->best->len)
    return ps_refuse (error, PS_ERROR_USAGE, "--explain: '%u' is after the last, %u", options->rank,
                      layouts->best->len);
  const PsLayout *layout = &g_array_index (layouts->best, PsLayout, options->rank - 1);
  if (options->launch.to != NULL)
    return print_launch (options, layouts, layout, error);
  command = ps_layout_command (&options->question, layouts, layout);
  line = g_strconcat (command, "\n", NULL);
  return ps_print (line, error);
}

/* Where nothing fits: what would have to. */
static gboolean
refuse (const PsLayouts *layouts, GError **error)
{
  g_autofree char *search = describe_search (layouts), *state = ps_format_size (layouts->state_bytes);

  return ps_refuse (error, PS_ERROR_SCHEDULE,
                    "%s on %u GPUs of %s: no setting fits; weights, gradients and optimizer state alone are %s; %s",
                    layouts->model, layouts->n_gpus, layouts->cluster, state, search);
}

int
ps_cmd_plan (int argc, char **argv, GError **error)
{
  g_auto (Options) options = { 0 };

  if (!parse_options (&options, argc, argv, error))
    return 0;
  g_autoptr (PsLayouts) layouts = ps_layouts_find (&options.question, error);
  if (layouts == NULL)
    return 0;
  if (layouts->best->len == 0)
    refuse (layouts, error);
  else if (options.rank)
    print_command (&options, layouts, error);
  else
    print_plan (&options, layouts, error);
  return 0;
}
