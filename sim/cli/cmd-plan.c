/* cmd-plan.c - pipesim plan: how to train a model on so many GPUs. */
#include "commands.h"

#include <pipesim/layouts.h>

#include <string.h>

typedef struct
{
  char *model;
  char *precision;
  char *cluster;
  char *db;
  char *profile;
  char *gpus;
  char *batch;
  char *limit;
  char *tensor;
  char *jobs;
  char *zero;
  char *schedules;
  char *top;
  char *explain;
  gboolean json;
  guint rank; /* --explain as read; 0: none */
  PsLayoutQuestion question;
} Options;

static void
options_clear (Options *options)
{
  g_free (options->model);
  g_free (options->precision);
  g_free (options->cluster);
  g_free (options->db);
  g_free (options->profile);
  g_free (options->gpus);
  g_free (options->batch);
  g_free (options->limit);
  g_free (options->tensor);
  g_free (options->jobs);
  g_free (options->zero);
  g_free (options->schedules);
  g_free (options->top);
  g_free (options->explain);
  g_strfreev (options->question.schedules);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static const PsColumn columns[] = {
  { "rank", "rank", PS_COLUMN_INTEGER },
  { "schedule", "schedule", PS_COLUMN_TEXT },
  { "devices", "p", PS_COLUMN_INTEGER },
  { "tensor", "t", PS_COLUMN_INTEGER },
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
  { "costs_origin", "costs", PS_COLUMN_TEXT },
  { "confidence", "confidence", PS_COLUMN_TEXT },
  { "profile", NULL, PS_COLUMN_TEXT },
  { "command", NULL, PS_COLUMN_TEXT },
};

static gboolean
read_numbers (Options *options, GError **error)
{
  PsLayoutQuestion *question = &options->question;
  gint64 gpus = 0, top = 10, rank = 0, zero = 1, tensor = 0, jobs = g_get_num_processors ();

  if ((options->gpus && !ps_parse_integer ("--gpus", options->gpus, 1, PS_MAX_DEVICES, &gpus, error))
      || (options->batch
          && !ps_parse_integer ("--global-batch", options->batch, 1, PS_MAX_MICROBATCHES, &question->global_batch,
                                error))
      || (options->limit && !ps_parse_size ("--memory-limit", options->limit, &question->memory_limit, error))
      || (options->tensor && !ps_parse_integer ("--tensor", options->tensor, 1, PS_MAX_TENSOR, &tensor, error))
      || (options->jobs && !ps_parse_integer ("--jobs", options->jobs, 1, 1024, &jobs, error))
      || (options->zero && !ps_parse_integer ("--zero", options->zero, 0, 1, &zero, error))
      || (options->top && !ps_parse_integer ("--top", options->top, 1, 1000, &top, error))
      || (options->explain && !ps_parse_integer ("--explain", options->explain, 1, top, &rank, error)))
    return FALSE;
  question->n_gpus = (guint)gpus;
  question->top = (guint)top;
  question->zero = zero == 1;
  question->tensor = (guint)tensor;
  question->n_jobs = (guint)jobs;
  options->rank = (guint)rank;
  return TRUE;
}

static gboolean
finish_options (Options *options, GError **error)
{
  PsLayoutQuestion *question = &options->question;

  question->model = options->model;
  question->precision = options->precision;
  question->cluster = options->cluster;
  question->db = options->db;
  question->profile = options->profile;
  if (options->schedules)
    question->schedules = g_strsplit (options->schedules, ",", -1);
  if (options->explain && options->json)
    g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE, "--explain and --json: the JSON holds all command lines");
  else
    return read_numbers (options, error);
  return FALSE;
}

static gboolean
parse_options (Options *options, int argc, char **argv, GError **error)
{
  const GOptionEntry entries[] = {
    { "model", 0, 0, G_OPTION_ARG_FILENAME, &options->model, "Model description or its name (llama-3-70b)", "FILE" },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &options->precision,
      "Number format of the model, fp32, fp16 or bf16 (default: its own); a cluster's peak_flops stays what it is",
      "NAME" },
    { "cluster", 0, 0, G_OPTION_ARG_FILENAME, &options->cluster,
      "Cluster description or its name; memory and peak rate come from it, and without --db all costs", "FILE" },
    { "db", 0, 0, G_OPTION_ARG_FILENAME, &options->db, "Measured costs: one pipeline of all GPUs, no replicas",
      "FILE" },
    { "profile", 0, 0, G_OPTION_ARG_STRING, &options->profile, "Profile in the database (default: all of the model)",
      "NAME" },
    { "gpus", 'g', 0, G_OPTION_ARG_STRING, &options->gpus, "GPUs, p times t times d (default: those of the cluster)",
      "N" },
    { "tensor", 0, 0, G_OPTION_ARG_STRING, &options->tensor, "GPUs of a device (default: 1, 2, 4 and 8, within a node)",
      "T" },
    { "global-batch", 0, 0, G_OPTION_ARG_STRING, &options->batch, "Sequences per step, over all replicas", "N" },
    { "memory-limit", 0, 0, G_OPTION_ARG_STRING, &options->limit, "Memory of a GPU (default: the cluster's)", "SIZE" },
    { "zero", 0, 0, G_OPTION_ARG_STRING, &options->zero,
      "1: spread the optimizer state over the replicas (ZeRO stage 1; default), 0: do not", "0|1" },
    { "schedule", 's', 0, G_OPTION_ARG_STRING, &options->schedules,
      "Only these families (default: all synchronous ones)", "NAME[,NAME...]" },
    { "jobs", 'j', 0, G_OPTION_ARG_STRING, &options->jobs, "Threads (default: one per processor)", "N" },
    { "top", 0, 0, G_OPTION_ARG_STRING, &options->top, "So many of the best (default: 10)", "N" },
    { "explain", 0, 0, G_OPTION_ARG_STRING, &options->explain, "Print the command line that predicts this one again",
      "RANK" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &options->json, "Print JSON (format pipesim-plan/1)", NULL },
    G_OPTION_ENTRY_NULL,
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("- how to train a model on so many GPUs, simulated");

  g_option_context_set_description (
      context,
      "Tries pipelines of p devices of t GPUs each (tensor and sequence parallelism) in d = GPUs / (p t) replicas,\n"
      "microbatches of b = 1, 2, 4, 8 and 16 sequences, recomputation, schedules and, where a schedule takes any\n"
      "number, v chunks per device. A single device (p = 1) has no pipeline: one schedule stands for all.\n\n"
      "step = iteration time, all-reduce of the gradients over the replicas included\n"
      "peak memory = of a GPU\n"
      "MFU = FLOPs of the model per step / (step * GPUs * peak rate of a GPU); the FLOPs are those of F, B and\n"
      "W, what is recomputed does not count (Chowdhery et al., PaLM, arXiv 2204.02311, appendix B)\n"
      "confidence = high: all costs were measured; medium: some of them lie between measured ones; low: some are\n"
      "modelled, so that steps are only as right as the efficiency and the bandwidths that the cluster states\n");
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, error))
    return FALSE;
  if (argc == 1)
    return finish_options (options, error);
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "'%s': not expected; the model goes behind --model", argv[1]);
  return FALSE;
}

static PsTable *
make_table (const Options *options, const PsLayouts *layouts)
{
  PsTable *table = ps_table_new (columns, G_N_ELEMENTS (columns));

  for (guint i = 0; i < layouts->best->len; i++)
    {
      const PsLayout *layout = &g_array_index (layouts->best, PsLayout, i);
      g_autofree char *command = ps_layout_command (&options->question, layouts, layout);

      ps_table_add_row (table);
      ps_table_set_integer (table, "rank", i + 1);
      ps_table_set_text (table, "schedule", layout->schedule);
      ps_table_set_integer (table, "devices", layout->n_devices);
      ps_table_set_integer (table, "tensor", layout->n_tensor);
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
      ps_table_set_text (table, "costs_origin", layout->costs_origin);
      ps_table_set_text (table, "confidence", ps_confidence_name (layout->confidence));
      if (layout->profile)
        ps_table_set_text (table, "profile", layout->profile);
      ps_table_set_text (table, "command", command);
    }
  return table;
}

static char *
describe_flops (const PsLayouts *layouts)
{
  return g_strdup_printf ("MFU = %.6g FLOPs of F, B and W per step / (step * %u GPUs * %.6g FLOP/s); PaLM, "
                          "arXiv 2204.02311, appendix B",
                          layouts->step_flops, layouts->n_gpus, layouts->peak_flops);
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
  g_autofree char *more
      = layouts->n_gpus <= layouts->n_there
            ? g_strdup ("")
            : g_strdup_printf (" (which has %u; more nodes like its own are assumed)", layouts->n_there);

  return g_strdup_printf ("simulated from %s costs: %s on %u GPUs of %s%s, %" G_GINT64_FORMAT " sequences per step",
                          g_array_index (layouts->best, PsLayout, 0).costs_origin, layouts->model, layouts->n_gpus,
                          layouts->cluster, more, options->question.global_batch);
}

static gboolean
print_plan (const Options *options, const PsLayouts *layouts, GError **error)
{
  g_autoptr (PsTable) table = make_table (options, layouts);
  g_autofree char *flops = describe_flops (layouts), *search = describe_search (layouts), *text = NULL, *page = NULL;
  g_autofree char *about = describe_plan (options, layouts);
  const char *extra[]
      = { "origin", ps_origin_name (PS_ORIGIN_SIMULATED), "about", about, "search", search, "formula", flops, NULL };

  if (options->json)
    {
      page = ps_table_to_json (table, "pipesim-plan/1", extra);
      return ps_print (page, error);
    }
  text = ps_table_to_text (table);
  page = g_strdup_printf ("%s\n%s\n%s\n%s", about, search, flops, text);
  return ps_print (page, error);
}

static gboolean
print_command (const Options *options, const PsLayouts *layouts, GError **error)
{
  g_autofree char *command = NULL, *line = NULL;

  if (options->rank > layouts->best->len)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "--explain: '%u' is behind the last, %u", options->rank,
                   layouts->best->len);
      return FALSE;
    }
  command
      = ps_layout_command (&options->question, layouts, &g_array_index (layouts->best, PsLayout, options->rank - 1));
  line = g_strconcat (command, "\n", NULL);
  return ps_print (line, error);
}

/* Where nothing fits: what would have to. */
static gboolean
refuse (const PsLayouts *layouts, GError **error)
{
  g_autofree char *search = describe_search (layouts), *state = ps_format_size (layouts->state_bytes);

  g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE,
               "%s on %u GPUs of %s: no setting fits; weights, gradients and optimizer state alone are %s; %s",
               layouts->model, layouts->n_gpus, layouts->cluster, state, search);
  return FALSE;
}

int
ps_cmd_plan (int argc, char **argv, GError **error)
{
  g_auto (Options) options = { 0 };
  g_autoptr (PsLayouts) layouts = NULL;

  if (!parse_options (&options, argc, argv, error) || (layouts = ps_layouts_find (&options.question, error)) == NULL)
    return 0;
  if (layouts->best->len == 0)
    refuse (layouts, error);
  else if (options.rank)
    print_command (&options, layouts, error);
  else
    print_plan (&options, layouts, error);
  return 0;
}
