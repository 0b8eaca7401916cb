/* cmd-partition.c - pipesim partition: cuts the layers of a model into stages. */
#include "commands.h"
#include "partition-job.h"

#include <pipesim/option.h>
#include <pipesim/plan.h>
#include <pipesim/model.h>

typedef struct
{
  PartitionOptions partition;
  char *algorithm;
  gboolean json;
  PsColumnChoice columns;
  gboolean print_costs;
  char *to;
} Options;

static const PsOption rows[] = {
  PS_OPTION ("layers", 0, PS_FILE (Options, partition.layers), "FILE.csv", "Layers and their costs",
             .group = PS_GROUP_COSTS),
  PS_OPTION ("bandwidth", 0, PS_RATE (Options, partition.bandwidth), "RATE", "Rate between two neighbours, e.g. 10GB/s",
             .group = PS_GROUP_COSTS),
  PS_OPTION ("algorithm", 'a', PS_TEXT (Options, algorithm), "NAME|all", "An algorithm, or all",
             .otherwise = "bottleneck"),
  PS_OPTION ("schedule", 's', PS_TEXT (Options, partition.schedule), "NAME",
             "Family to simulate; algorithm schedule cuts for it", .single = TRUE, .group = PS_GROUP_WHAT),
  PS_OPTION ("json", 0, PS_FLAG (Options, json), NULL, "Print JSON (format pipesim-partition/1)",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE (Options, columns, ps_column_rows),
  PS_OPTION ("print-costs", 0, PS_FLAG (Options, print_costs), NULL,
             "Print only the costs of the stages, as predict --costs takes them", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("to", 0, PS_TEXT (Options, to), "FRAMEWORK",
             "Print only what megatron, torchtitan, torchtitan-0.2 or deepspeed take for the stages of a model",
             .parse = ps_launch_parse, .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE_AT (Options, partition.setting, ps_setting_options, PS_FIELD_NOT_PARTITION),
  PS_OPTION_END,
};

static void
options_clear (Options *options)
{
  ps_options_reset (rows, options);
  ps_setting_free (options->partition.setting);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static const PsColumn stage_columns[] = {
  { "stage", "stage", PS_COLUMN_INTEGER },
  { "first", "first", PS_COLUMN_INTEGER },
  { "last", "last", PS_COLUMN_INTEGER },
  { "replicas", "replicas", PS_COLUMN_INTEGER },
  { "first_layer", "from", PS_COLUMN_TEXT },
  { "last_layer", "to", PS_COLUMN_TEXT },
  { "time_ns", "time", PS_COLUMN_TIME },
  { "link_ns", "link after", PS_COLUMN_TIME },
  { "parameter_bytes", "parameters", PS_COLUMN_SIZE },
  { "memory_bytes", "memory under 1F1B", PS_COLUMN_SIZE },
};

static const PsColumn columns[] = {
  { "algorithm", "algorithm", PS_COLUMN_TEXT },
  { "bottleneck_ns", "bottleneck", PS_COLUMN_TIME },
  { "stages", NULL, PS_COLUMN_TABLE },
  { "balance", "balance", PS_COLUMN_RATIO },
  { "iteration_ns", "iteration", PS_COLUMN_TIME },
  { "feasible", NULL, PS_COLUMN_BOOLEAN },
  { "fits", "fits", PS_COLUMN_TEXT },
  { "costs", NULL, PS_COLUMN_TEXT },
  { "layout", NULL, PS_COLUMN_TEXT },
};

static gboolean
is_replicated (const PsPartition *partition)
{
  for (guint s = 0; s < partition->n_stages; s++)
    if (partition->stages[s].replicas > 1)
      return TRUE;
  return FALSE;
}

/* The memory of 1F1B is known where every stage has a device of its own. */
static gboolean
has_memory (const PsPartitionSetting *task, const PsPartition *partition)
{
  return task->n_chunks == 1 && !is_replicated (partition);
}

static void
add_stage (PsTable *table, const PsPartitionSetting *task, const PsPartition *partition, guint s)
{
  const PsPartitionStage *stage = &partition->stages[s];
  const PsLayer *layers = task->layers->layers;
  gint64 parameter_bytes = 0;

  for (guint i = stage->first; i <= stage->last; i++)
    parameter_bytes += layers[i].parameter_bytes;
  ps_table_add_row (table);
  ps_table_set_integer (table, "stage", s);
  ps_table_set_integer (table, "first", stage->first);
  ps_table_set_integer (table, "last", stage->last);
  ps_table_set_integer (table, "replicas", stage->replicas);
  ps_table_set_text (table, "first_layer", layers[stage->first].name);
  ps_table_set_text (table, "last_layer", layers[stage->last].name);
  ps_table_set_integer (table, "time_ns", ps_partition_stage_ns (task, partition, s));
  if (s + 1 < partition->n_stages)
    ps_table_set_integer (table, "link_ns", ps_partition_link_ns (task, partition, s));
  ps_table_set_integer (table, "parameter_bytes", parameter_bytes);
  if (has_memory (task, partition))
    ps_table_set_integer (table, "memory_bytes", ps_partition_memory_bytes (task, partition, s));
}

static PsTable *
stage_table (const PsPartitionSetting *task, const PsPartition *partition)
{
  PsTable *table = ps_table_new (stage_columns, G_N_ELEMENTS (stage_columns));

  for (guint s = 0; s < partition->n_stages; s++)
    add_stage (table, task, partition, s);
  return table;
}

/* 1 when all devices are as busy as the bottleneck. */
static double
balance (const PsPartitionSetting *task, const PsPartition *partition)
{
  double work = 0, capacity = 0;

  for (guint i = 0; i < task->layers->n_layers; i++)
    work += (double)task->layers->layers[i].time_ns;
  for (guint s = 0; s < task->n_devices * task->n_chunks; s++)
    capacity += task->speeds != NULL ? task->speeds[s % task->n_devices] : 1;
  return partition->bottleneck_ns > 0 ? work / (capacity * (double)partition->bottleneck_ns) : 1;
}

static gint64
most_excess (const PsPartitionSetting *task, const PsPartition *partition)
{
  gint64 most = 0;

  for (guint s = 0; s < partition->n_stages && task->memory_limit != NULL; s++)
    most = MAX (most, ps_partition_memory_bytes (task, partition, s) - task->memory_limit[s]);
  return most;
}

static void
set_fits (PsTable *table, gint64 excess_bytes, gint64 reserve)
{
  ps_table_set_boolean (table, "feasible", excess_bytes == 0);
  ps_table_set_text (table, "fits", ps_fits (excess_bytes, reserve));
}

/* Iteration time and memory, by simulation where a schedule is given. */
static gboolean
set_run (PsTable *table, const PartitionJob *job, const PsPartition *partition, GError **error)
{
  const PsPartitionSetting *task = &job->task;
  PsPartitionRun run = { 0 };

  if (task->family != NULL && !is_replicated (partition))
    {
      if (!ps_partition_simulate (task, partition, &run, error))
        return FALSE;
      ps_table_set_integer (table, "iteration_ns", run.iteration_ns);
      set_fits (table, run.most_excess_bytes, job->reserve);
    }
  else if (task->memory_limit == NULL || has_memory (task, partition))
    set_fits (table, most_excess (task, partition), job->reserve);
  return TRUE;
}

/* Replicated stages have none. */
static gboolean
make_costs_text (const PsPartitionSetting *task, const PsPartition *partition, char **text, GError **error)
{
  *text = NULL;
  if (is_replicated (partition))
    return TRUE;
  g_autoptr (PsCosts) costs = ps_partition_costs (task, partition, error);
  if (costs != NULL)
    *text = ps_partition_costs_to_text (costs);
  return costs != NULL;
}

/* NULL where the stages are no units of a model, or replicated. */
static PsStageShape *
join_stages (const PartitionJob *job, const PsPartition *partition)
{
  guint n = partition->n_stages, n_units;
  g_autofree PsStageShape *units = NULL, *shapes = g_new (PsStageShape, n);
  g_autofree guint *end = g_new (guint, n);

  if (job->model == NULL || is_replicated (partition))
    return NULL;
  units = ps_model_units (job->model, &n_units);
  for (guint s = 0; s < n; s++)
    end[s] = partition->stages[s].last + 1;
  ps_stage_shapes_join (units, end, n, shapes);
  return g_steal_pointer (&shapes);
}

/* The stages as --layout takes them; NULL like theirs. */
static char *
write_layout (const PartitionJob *job, const PsPartition *partition)
{
  g_autofree PsStageShape *shapes = join_stages (job, partition);

  return shapes != NULL ? ps_layout_string_write (shapes, partition->n_stages) : NULL;
}

static gboolean
print_launch (const Options *options, const PartitionJob *job, const PsPartition *partition, GError **error)
{
  g_autofree PsStageShape *shapes = join_stages (job, partition);
  const PsLaunch launch = { .setting = options->partition.setting,
                            .model = job->model,
                            .shapes = shapes,
                            .n_devices = job->task.n_devices,
                            .n_chunks = job->task.n_chunks };

  if (shapes == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--to %s: needs stages of a model, none of them replicated", options->to);
  g_autofree char *text = ps_launch_write (options->to, &launch, error);
  return text != NULL && ps_print (text, error);
}

static gboolean
add_result (PsTable *table, const PsPartitioner *partitioner, const PartitionJob *job, const PsPartition *partition,
            const char *costs, GError **error)
{
  const PsPartitionSetting *task = &job->task;
  g_autofree char *layout = write_layout (job, partition);

  ps_table_add_row (table);
  ps_table_set_text (table, "algorithm", partitioner->name);
  ps_table_set_integer (table, "bottleneck_ns", partition->bottleneck_ns);
  ps_table_set_table (table, "stages", stage_table (task, partition));
  ps_table_set_ratio (table, "balance", balance (task, partition));
  if (costs != NULL)
    ps_table_set_text (table, "costs", costs);
  if (layout != NULL)
    ps_table_set_text (table, "layout", layout);
  return set_run (table, job, partition, error);
}

/* An algorithm that this task excludes is skipped with its reason. */
static gboolean
run_all (PsTable *table, const PartitionJob *job, GString *skipped, GError **error)
{
  const PsPartitionSetting *task = &job->task;
  guint n;
  const PsPartitioner *partitioners = ps_partitioner_table (&n);

  for (guint i = 0; i < n; i++)
    {
      g_autoptr (GError) reason = NULL;
      g_autoptr (PsPartition) partition = ps_partition (&partitioners[i], task, &reason);
      g_autofree char *costs = NULL;

      if (partition == NULL)
        g_string_append_printf (skipped, "%s%s", skipped->len ? "; " : "", reason->message);
      else if (!make_costs_text (task, partition, &costs, error)
               || !add_result (table, &partitioners[i], job, partition, costs, error))
        return FALSE;
    }
  if (ps_table_n_rows (table) == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "%s", skipped->str);
  if (task->family != NULL)
    ps_table_sort (table, "iteration_ns", FALSE);
  return TRUE;
}

static gboolean
print_result (const PsTable *table, gboolean json, const PsLayers *layers, const char *details, const char *skipped,
              GError **error)
{
  const char *origin = ps_origin_name (layers->time_origin);
  const char *extra[] = { "origin", origin, "layers", layers->source, "skipped", skipped, NULL };
  g_autofree char *text = NULL, *page = NULL;

  if (*skipped && !json)
    g_printerr ("skipped: %s\n", skipped);
  if (json)
    {
      text = ps_table_to_json (table, "pipesim-partition/1", extra);
      return ps_print (text, error);
    }
  text = ps_table_to_text (table);
  page = g_strdup_printf ("from %s times of %u layers: %s\n%s%s", origin, layers->n_layers, layers->source, text,
                          details);
  return ps_print (page, error);
}

/* The stages, the layout and the costs text of one partition. */
static char *
describe (const PartitionJob *job, const PsPartition *partition, const PsTable *stages, const char *costs)
{
  g_autofree char *text = ps_table_to_text (stages), *string = write_layout (job, partition);
  g_autofree char *layout
      = string != NULL ? g_strdup_printf ("layout of the stages, for --layout and Megatron-LM:\n%s\n\n", string)
                       : g_strdup ("");

  if (costs == NULL)
    return g_strdup_printf ("\n%s%sreplicated stages have no costs text\n", text, *text ? "\n" : "");
  return g_strdup_printf ("\n%s%s%s%s costs of the stages, for --costs:\n%s\n", text, *text ? "\n" : "", layout,
                          ps_origin_name (job->layers->time_origin), costs);
}

static gboolean
run_one (const Options *options, const PsPartitioner *partitioner, const PartitionJob *job, GError **error)
{
  const PsPartitionSetting *task = &job->task;
  g_autoptr (PsTable) table = ps_table_new (columns, G_N_ELEMENTS (columns));
  g_autoptr (PsPartition) partition = ps_partition (partitioner, task, error);
  g_autofree char *costs = NULL, *details = NULL, *line = NULL;

  if (partition == NULL || !make_costs_text (task, partition, &costs, error)
      || !add_result (table, partitioner, job, partition, costs, error))
    return FALSE;
  if (options->to != NULL)
    return print_launch (options, job, partition, error);
  if (options->print_costs && costs == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--print-costs: %s has replicated a stage, which no --costs can say",
                      partitioner->name);
  if (options->print_costs)
    {
      line = g_strconcat (costs, "\n", NULL);
      return ps_print (line, error);
    }
  g_autoptr (PsTable) stages = stage_table (task, partition);
  if (!ps_tables_choose ((PsTable *const[]){ table, stages }, 2, &options->columns, error))
    return FALSE;
  details = describe (job, partition, stages, costs);
  return print_result (table, options->json, task->layers, details, "", error);
}

/* The table of algorithms, for --help. */
static char *
describe_algorithms (void)
{
  guint n;
  const PsPartitioner *partitioners = ps_partitioner_table (&n);
  GString *text = g_string_new ("Algorithms:\n");

  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "  %-15s %s\n  %-15s %s\n", partitioners[i].name, partitioners[i].description, "",
                            partitioners[i].source);
  g_string_append (
      text,
      "\nbottleneck = the slowest stage or link for one microbatch; a link bears the activation and its gradient.\n"
      "pipedream counts it as its recurrence does, all-reduce of replicas included.\n"
      "balance = time of all layers / (speeds of all stages x bottleneck). Iteration times are simulated.\n\n"
      "FILE.csv: layer,time,activation_bytes,parameter_bytes and a line for each layer: the time of F + B + W of one\n"
      "microbatch (1.5ms; an integer without unit is ns), the bytes it hands on, the bytes of its weights. Further\n"
      "columns, as far as known: forward, backward, flops, kept_bytes, weight_kept_bytes, state_bytes; else\n"
      "F = B = W, a forward keeps activation_bytes, and weights, gradients and optimizer state are 4 times the\n"
      "weights.\n");
  return g_string_free (text, FALSE);
}

static gboolean
check_options (const Options *options, const char *stray, GError **error)
{
  if (stray != NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s': not expected; the layers go after --layers", stray);
  if (options->print_costs && options->json)
    return ps_refuse (error, PS_ERROR_USAGE, "--print-costs and --json: give one of them");
  if (options->to != NULL && (options->json || options->print_costs || g_strcmp0 (options->algorithm, "all") == 0))
    return ps_refuse (error, PS_ERROR_USAGE, "--to %s: prints the stages of one partition, and nothing else",
                      options->to);
  if (options->print_costs && g_strcmp0 (options->algorithm, "all") == 0)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--print-costs: costs are of one partition, not of "
                      "--algorithm all");
  return TRUE;
}

static gboolean
parse_options (Options *options, int argc, char **argv, GError **error)
{
  g_autofree char *algorithms = describe_algorithms ();
  const PsCommandHelp help = {
    .summary = "Cuts the layers of a model into stages, by one algorithm or by all of them.",
    .text = algorithms,
    .examples = "pipesim partition -p 4 --model gpt-1.5b --cluster a100-80gb\n"
                "pipesim partition -p 4 --model gpt-1.5b --cluster a100-80gb --algorithm all\n"
                "pipesim partition -p 2 --layers layers.csv --bandwidth 10GB/s --json\n",
  };

  options->partition.setting = ps_setting_new ();
  return ps_command_parse (&help, rows, options, &argc, &argv, error)
         && ps_setting_check (options->partition.setting, error)
         && ps_column_choice_check_json (&options->columns, options->json, error)
         && check_options (options, argc > 1 ? argv[1] : NULL, error);
}

/* *found is NULL for all of them. */
static gboolean
find_partitioner (const char *name, const PsPartitioner **found, GError **error)
{
  guint n, index;
  const PsPartitioner *partitioners = ps_partitioner_table (&n);
  g_autofree const char **names = g_new (const char *, n + 1);

  names[0] = "all";
  for (guint i = 0; i < n; i++)
    names[i + 1] = partitioners[i].name;
  if (!ps_parse_name ("--algorithm", name, names, n + 1, &index, error))
    return FALSE;
  *found = index > 0 ? &partitioners[index - 1] : NULL;
  return TRUE;
}

int
ps_cmd_partition (int argc, char **argv, GError **error)
{
  g_auto (Options) options = { 0 };
  g_autoptr (GString) skipped = g_string_new (NULL);
  g_autoptr (PsTable) table = ps_table_new (columns, G_N_ELEMENTS (columns));
  const PsPartitioner *partitioner = NULL;

  if (!parse_options (&options, argc, argv, error)
      || !find_partitioner (options.algorithm != NULL ? options.algorithm : "bottleneck", &partitioner, error))
    return 0;
  g_autoptr (PartitionJob) job = partition_job_new (&options.partition, error);
  if (job == NULL)
    return 0;
  if (partitioner != NULL)
    run_one (&options, partitioner, job, error);
  else if (run_all (table, job, skipped, error) && ps_tables_choose (&table, 1, &options.columns, error))
    print_result (table, options.json, job->layers, "", skipped->str, error);
  return 0;
}
