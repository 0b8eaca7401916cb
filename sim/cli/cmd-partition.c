/* cmd-partition.c - pipesim partition: cuts the layers of a model into stages. */
#include "cli.h"

#include <pipesim/model.h>
#include <pipesim/partition.h>
#include <pipesim/plan.h>

typedef struct {
  char *layers;
  gint64 bandwidth; /* bytes per second */
  char *schedule;
  PsSetting *setting;
  char *algorithm;
  PsColumnChoice columns;
  gboolean print_costs;
  char *to;
  PsFromChoice from;
} Options;

static const PsOption rows[] = {
  PS_OPTION_INCLUDE (Options, from, ps_from_rows),
  PS_OPTION ("layers", 0, PS_FILE (Options, layers), "FILE.csv", "Layers and their costs", .group = PS_GROUP_COSTS),
  PS_OPTION ("bandwidth", 0, PS_RATE (Options, bandwidth), "RATE", "Rate between two neighbours, e.g. 10GB/s",
             .group = PS_GROUP_COSTS),
  PS_OPTION ("algorithm", 'a', PS_TEXT (Options, algorithm), "NAME|all", "An algorithm, or all",
             .otherwise = "bottleneck"),
  PS_OPTION ("schedule", 's', PS_TEXT (Options, schedule), "NAME", "Family to simulate; algorithm schedule cuts for it",
             .single = TRUE, .group = PS_GROUP_WHAT),
  PS_OPTION_TABLE (Options, columns, "pipesim-partition/1"),
  PS_OPTION ("print-costs", 0, PS_FLAG (Options, print_costs), NULL,
             "Print only the costs of the stages, as predict --costs takes them", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("to", 0, PS_TEXT (Options, to), "FRAMEWORK",
             "Print only what megatron, torchtitan, torchtitan-0.2 or deepspeed take for the stages of a model",
             .parse = ps_launch_parse, .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE_AT (Options, setting, ps_setting_options, PS_FIELD_NOT_PARTITION),
  PS_OPTION_END,
};

/* The task of the options, and the memory that it points into */

typedef struct {
  PsLayers *layers;
  PsModel *model;     /* whose units they are; NULL: of a file */
  PsCluster *cluster; /* NULL: none; owns parts of links */
  PsLink *links;
  PsPlacement *placement;
  double *speeds;
  gint64 *memory_limit;
  gint64 reserve; /* memory above the limit that stays free */
  PsPartitionSetting task;
} Job;

static void job_clear (Job *job)
{
  ps_layers_free (job->layers);
  ps_model_free (job->model);
  ps_cluster_free (job->cluster);
  ps_placement_free (job->placement);
  g_free (job->links);
  g_free (job->speeds);
  g_free (job->memory_limit);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Job, job_clear)

static gboolean check_sources (const Options *options, GError **error)
{
  const PsSetting *setting = options->setting;

  if (setting->costs != NULL)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--costs: has stages, and partition makes them; give --layers FILE.csv, --db FILE, or --model "
                      "FILE with --cluster FILE");
  if (options->layers != NULL && (setting->db != NULL || setting->model != NULL || setting->cluster != NULL))
    return ps_refuse (error, PS_ERROR_USAGE, "--layers and %s: layers come from one of them, not from both",
                      setting->db != NULL      ? "--db"
                      : setting->model != NULL ? "--model"
                                               : "--cluster");
  if (options->layers == NULL && setting->db == NULL && setting->cluster == NULL)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "no layers: give --layers FILE.csv, --db FILE, or --model FILE with --cluster FILE");
  if (options->bandwidth > 0 && options->layers == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--bandwidth: goes with --layers; %s has its own",
                      setting->db != NULL ? "--db" : "--cluster");
  if (setting->n_devices == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "-p/--devices: missing; how many devices share the layers");
  if (options->layers != NULL && options->bandwidth == 0 && setting->n_devices > 1)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--bandwidth: missing; give the rate between two neighbours, such as 10GB/s");
  return TRUE;
}

static gboolean read_schedule (Job *job, const Options *options, GError **error)
{
  const PsSetting *setting = options->setting;

  if (options->schedule != NULL) {
    job->task.family = ps_family_find (options->schedule);
    if (job->task.family == NULL)
      return ps_refuse (error, PS_ERROR_USAGE, "--schedule: '%s' is no schedule family; pipesim schedule list has them",
                        options->schedule);
    if (setting->n_microbatches == 0)
      return ps_refuse (error, PS_ERROR_USAGE, "-m/--microbatches: missing; schedule '%s' is simulated for them",
                        options->schedule);
  }
  job->task.n_microbatches = setting->n_microbatches;
  job->task.n_slices = setting->n_slices;
  job->task.group_size = setting->group_size;
  job->task.defer_head = setting->defer_head;
  job->task.n_chunks = setting->n_chunks          ? setting->n_chunks
                       : job->task.family != NULL ? job->task.family->default_chunks
                                                  : 1;
  return TRUE;
}

/* Reads the layers: those of the file, of a model and a cluster, or of measured stages. Boundaries inside a device take
 * no time. */
static gboolean read_layers (Job *job, const Options *options, GError **error)
{
  const PsSetting *setting = options->setting;
  PsPartitionSetting *task = &job->task;
  guint n_stages = task->n_devices * task->n_chunks;
  PsLink link = { .bandwidth = (double)options->bandwidth };

  if (options->layers == NULL) {
    job->model = ps_setting_model (setting, error);
    if (job->model == NULL)
      return FALSE;
    if (setting->cluster != NULL) {
      job->cluster = ps_setting_cluster (setting, error);
      if (job->cluster == NULL || !ps_cluster_check_size (job->cluster, setting->n_devices, error))
        return FALSE;
    }
  }
  task->layers = job->layers = options->layers != NULL
                                   ? ps_layers_read (options->layers, error)
                                   : ps_setting_layers (setting, job->model, setting->n_devices, &link, error);
  if (job->layers == NULL)
    return FALSE;
  task->links = job->links = g_new0 (PsLink, n_stages);
  for (guint s = 0; s + 1 < n_stages; s++) {
    guint a = job->placement != NULL ? ps_placement_device (job->placement, 0, s) : s % task->n_devices;
    guint b = job->placement != NULL ? ps_placement_device (job->placement, 0, s + 1) : (s + 1) % task->n_devices;

    if (a != b)
      job->links[s] = job->cluster != NULL ? ps_cluster_link (job->cluster, a, b) : link;
  }
  return TRUE;
}

static gboolean job_init (Job *job, const Options *options, GError **error)
{
  const PsSetting *setting = options->setting;
  PsPartitionSetting *task = &job->task;
  gboolean modelled = setting->cluster != NULL; /* measured and given layers are those of a device as they are */

  if (!check_sources (options, error)
      || !ps_setting_refuse (setting, modelled ? PS_FIELD_NOT_PARTITION : PS_FIELD_NOT_PARTITION | PS_FIELD_MODELLED,
                             modelled ? "partition does not look at it; give it to predict, with the layout that "
                                        "partition prints"
                                      : "partition does not look at it; give it to predict, with the costs of "
                                        "--print-costs",
                             error))
    return FALSE;
  task->n_devices = setting->n_devices;
  task->sync = setting->sync;
  if (!read_schedule (job, options, error)
      || !ps_setting_memory_limit (setting, setting->n_devices, &job->memory_limit, &job->reserve, error))
    return FALSE;
  task->memory_limit = job->memory_limit;
  if ((guint64)task->n_devices * task->n_chunks > PS_MAX_STAGES)
    return ps_refuse (error, PS_ERROR_USAGE, "-v/--chunks: %u on %u devices; give 1 to %u stages in all",
                      task->n_chunks, task->n_devices, PS_MAX_STAGES);
  if (!ps_setting_speeds (setting, task->n_devices, &job->speeds, error))
    return FALSE;
  task->speeds = job->speeds;
  if (task->family != NULL) {
    task->placement = job->placement = ps_partition_placement (task, error);
    if (job->placement == NULL)
      return FALSE;
  }
  return read_layers (job, options, error);
}

/* Rows */

typedef struct {
  guint stage, first, last, replicas;
  const char *first_layer, *last_layer;
  gint64 time_ns, parameter_bytes;
} StageRow;

static const PsCellColumn stage_columns[] = {
  PS_CELL (StageRow, stage, "stage", "stage", INTEGER),
  PS_CELL (StageRow, first, "first", "first", INTEGER),
  PS_CELL (StageRow, last, "last", "last", INTEGER),
  PS_CELL (StageRow, replicas, "replicas", "replicas", INTEGER),
  PS_CELL (StageRow, first_layer, "first_layer", "from", TEXT),
  PS_CELL (StageRow, last_layer, "last_layer", "to", TEXT),
  PS_CELL (StageRow, time_ns, "time_ns", "time", TIME),
  PS_CELL_SET ("link_ns", "link after", TIME),
  PS_CELL (StageRow, parameter_bytes, "parameter_bytes", "parameters", SIZE),
  PS_CELL_SET ("memory_bytes", "memory under 1F1B", SIZE),
};

typedef struct {
  const char *algorithm;
  gint64 bottleneck_ns;
  double balance;
  const char *costs, *layout;
} Row;

static const PsCellColumn columns[] = {
  PS_CELL (Row, algorithm, "algorithm", "algorithm", TEXT),
  PS_CELL (Row, bottleneck_ns, "bottleneck_ns", "bottleneck", TIME),
  PS_CELL_SET ("stages", NULL, TABLE),
  PS_CELL (Row, balance, "balance", "balance", RATIO),
  PS_CELL_SET ("iteration_ns", "iteration", TIME),
  PS_CELL_SET ("feasible", NULL, BOOLEAN),
  PS_CELL_SET ("fits", "fits", TEXT),
  PS_CELL (Row, costs, "costs", NULL, TEXT),
  PS_CELL (Row, layout, "layout", NULL, TEXT),
};

static gboolean is_replicated (const PsPartition *partition)
{
  for (guint s = 0; s < partition->n_stages; s++)
    if (partition->stages[s].replicas > 1)
      return TRUE;
  return FALSE;
}

/* The memory of 1F1B is known where every stage has a device of its own. */
static gboolean has_memory (const PsPartitionSetting *task, const PsPartition *partition)
{
  return task->n_chunks == 1 && !is_replicated (partition);
}

static PsTable *stage_table (const PsPartitionSetting *task, const PsPartition *partition)
{
  const PsLayer *layers = task->layers->layers;
  PsTable *table = ps_table_of (stage_columns, G_N_ELEMENTS (stage_columns), NULL, 0, 0);

  for (guint s = 0; s < partition->n_stages; s++) {
    const PsPartitionStage *stage = &partition->stages[s];
    StageRow row = { .stage = s,
                     .first = stage->first,
                     .last = stage->last,
                     .replicas = stage->replicas,
                     .first_layer = layers[stage->first].name,
                     .last_layer = layers[stage->last].name,
                     .time_ns = ps_partition_stage_ns (task, partition, s) };

    for (guint i = stage->first; i <= stage->last; i++)
      row.parameter_bytes += layers[i].parameter_bytes;
    ps_table_add (table, &row);
    if (s + 1 < partition->n_stages)
      ps_table_set_integer (table, "link_ns", ps_partition_link_ns (task, partition, s));
    if (has_memory (task, partition))
      ps_table_set_integer (table, "memory_bytes", ps_partition_memory_bytes (task, partition, s));
  }
  return table;
}

/* 1 when all devices are as busy as the bottleneck. */
static double balance (const PsPartitionSetting *task, const PsPartition *partition)
{
  double work = 0, capacity = 0;

  for (guint i = 0; i < task->layers->n_layers; i++)
    work += (double)task->layers->layers[i].time_ns;
  for (guint s = 0; s < task->n_devices * task->n_chunks; s++)
    capacity += task->speeds != NULL ? task->speeds[s % task->n_devices] : 1;
  return partition->bottleneck_ns > 0 ? work / (capacity * (double)partition->bottleneck_ns) : 1;
}

static void set_fits (PsTable *table, gint64 excess_bytes, gint64 reserve)
{
  ps_table_set_boolean (table, "feasible", excess_bytes == 0);
  ps_table_set_text (table, "fits", ps_fits (excess_bytes, reserve));
}

/* Iteration time and memory, by simulation where a schedule is given. */
static gboolean set_run (PsTable *table, const Job *job, const PsPartition *partition, GError **error)
{
  const PsPartitionSetting *task = &job->task;
  PsPartitionRun run = { 0 };
  gint64 most = 0;

  if (task->family != NULL && !is_replicated (partition)) {
    if (!ps_partition_simulate (task, partition, &run, error))
      return FALSE;
    ps_table_set_integer (table, "iteration_ns", run.iteration_ns);
    set_fits (table, run.most_excess_bytes, job->reserve);
  } else if (task->memory_limit == NULL || has_memory (task, partition)) {
    for (guint s = 0; s < partition->n_stages && task->memory_limit != NULL; s++)
      most = MAX (most, ps_partition_memory_bytes (task, partition, s) - task->memory_limit[s]);
    set_fits (table, most, job->reserve);
  }
  return TRUE;
}

/* Replicated stages have none. */
static gboolean make_costs_text (const PsPartitionSetting *task, const PsPartition *partition, char **text,
                                 GError **error)
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
static PsStageShape *join_stages (const Job *job, const PsPartition *partition)
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
static char *write_layout (const Job *job, const PsPartition *partition)
{
  g_autofree PsStageShape *shapes = join_stages (job, partition);

  g_autofree char *pattern = shapes != NULL ? ps_model_hybrid_pattern (job->model) : NULL;

  return shapes != NULL ? ps_layout_write (pattern, shapes, partition->n_stages) : NULL;
}

static gboolean print_launch (const Options *options, const Job *job, const PsPartition *partition, GError **error)
{
  g_autofree PsStageShape *shapes = join_stages (job, partition);
  const PsLaunch launch = { .setting = options->setting,
                            .model = job->model,
                            .shapes = shapes,
                            .n_devices = job->task.n_devices,
                            .n_chunks = job->task.n_chunks };

  if (shapes == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--to %s: needs stages of a model, none of them replicated", options->to);
  g_autofree char *text = ps_launch_write (options->to, &launch, error);
  return text != NULL && ps_print (text, error);
}

static gboolean add_result (PsTable *table, const PsPartitioner *partitioner, const Job *job,
                            const PsPartition *partition, const char *costs, GError **error)
{
  g_autofree char *layout = write_layout (job, partition);

  ps_table_add (table,
                &(Row){ partitioner->name, partition->bottleneck_ns, balance (&job->task, partition), costs, layout });
  ps_table_set_table (table, "stages", stage_table (&job->task, partition));
  return set_run (table, job, partition, error);
}

/* An algorithm that this task excludes is skipped with its reason. */
static gboolean run_all (PsTable *table, const Job *job, GString *skipped, GError **error)
{
  const PsPartitionSetting *task = &job->task;
  guint n;
  const PsPartitioner *partitioners = ps_partitioner_table (&n);

  for (guint i = 0; i < n; i++) {
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

static gboolean print_result (const PsTable *table, const PsLayers *layers, const char *details, const char *skipped,
                              GError **error)
{
  const char *origin = ps_origin_name (layers->time_origin);
  const char *extra[] = { "origin", origin, "layers", layers->source, "skipped", skipped, NULL };

  if (details == NULL)
    return ps_table_print (table, "pipesim-partition/1", extra, error);
  if (*skipped)
    g_printerr ("skipped: %s\n", skipped);
  g_autofree char *text = ps_table_to_text (table);
  g_autofree char *page = g_strdup_printf ("from %s times of %u layers: %s\n%s%s", origin, layers->n_layers,
                                           layers->source, text, details);
  return ps_print (page, error);
}

/* The stages, the layout and the costs text of one partition. */
static char *describe (const Job *job, const PsPartition *partition, const PsTable *stages, const char *costs)
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

static gboolean run_one (const Options *options, const PsPartitioner *partitioner, const Job *job, GError **error)
{
  const PsPartitionSetting *task = &job->task;
  g_autoptr (PsTable) table = ps_table_of (columns, G_N_ELEMENTS (columns), NULL, 0, 0);
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
  if (options->print_costs) {
    line = g_strconcat (costs, "\n", NULL);
    return ps_print (line, error);
  }
  g_autoptr (PsTable) stages = stage_table (task, partition);
  if (!ps_tables_choose ((PsTable *const[]){ table, stages }, 2, &options->columns, error))
    return FALSE;
  details = options->columns.json ? NULL : describe (job, partition, stages, costs);
  return print_result (table, task->layers, details, "", error);
}

/* The table of algorithms, for --help. */
static char *describe_algorithms (void)
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
      "FILE.csv: layer,time,activation_bytes,parameter_bytes and a line for each layer: the time of F + B + W of one "
      "microbatch (1.5ms; an integer without unit is ns), the bytes it hands on, the bytes of its weights. Further "
      "columns, as far as known: forward, backward, flops, kept_bytes, weight_kept_bytes, state_bytes; else "
      "F = B = W, a forward keeps activation_bytes, and weights, gradients and optimizer state are 4 times the "
      "weights.\n");
  return g_string_free (text, FALSE);
}

static gboolean check_options (const Options *options, const char *stray, GError **error)
{
  if (stray != NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s': not expected; the layers go after --layers", stray);
  if (options->print_costs && options->columns.json)
    return ps_refuse (error, PS_ERROR_USAGE, "--print-costs and --json: give one of them");
  if (options->to != NULL
      && (options->columns.json || options->print_costs || g_strcmp0 (options->algorithm, "all") == 0))
    return ps_refuse (error, PS_ERROR_USAGE, "--to %s: prints the stages of one partition, and nothing else",
                      options->to);
  if (options->print_costs && g_strcmp0 (options->algorithm, "all") == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--print-costs: costs are of one partition, not of --algorithm all");
  return TRUE;
}

/* *found is NULL for all of them. */
static gboolean find_partitioner (const char *name, const PsPartitioner **found, GError **error)
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

static int run (G_GNUC_UNUSED const PsCmd *command, gpointer base, int argc, char **argv, GError **error)
{
  Options *options = base;
  g_autoptr (GString) skipped = g_string_new (NULL);
  g_autoptr (PsTable) table = ps_table_of (columns, G_N_ELEMENTS (columns), NULL, 0, 0);
  const PsPartitioner *partitioner = NULL;
  g_auto (Job) job = { 0 };

  if (!check_options (options, argc > 1 ? argv[1] : NULL, error) || !ps_setting_check (options->setting, error)
      || !ps_column_choice_check (&options->columns, error)
      || !find_partitioner (options->algorithm != NULL ? options->algorithm : "bottleneck", &partitioner, error)
      || !job_init (&job, options, error))
    return 0;
  if (partitioner != NULL)
    run_one (options, partitioner, &job, error);
  else if (run_all (table, &job, skipped, error) && ps_tables_choose (&table, 1, &options->columns, error))
    print_result (table, job.layers, options->columns.json ? NULL : "", skipped->str, error);
  return 0;
}

const PsCmd ps_cmd_partition = {
  .help = {
    .summary = "Cuts the layers of a model into stages, by one algorithm or by all of them.",
    .examples = "pipesim partition -p 4 --model gpt-1.5b --cluster a100-80gb\n"
                "pipesim partition -p 4 --model gpt-1.5b --cluster a100-80gb --algorithm all\n"
                "pipesim partition -p 2 --layers layers.csv --bandwidth 10GB/s --json\n",
  },
  .text = describe_algorithms,
  .rows = rows,
  .size = sizeof (Options),
  .setting = offsetof (Options, setting),
  .run = run,
};
