/* cmd-predict.c - pipesim predict: what a schedule would take, or all of them ranked; what its memory holds, why it
 * takes so long, and how far its time spreads. */
#include "cli.h"
#include "plan/expect.h"
#include "plan/explain-report.h"

#include <pipesim/costdb.h>
#include <pipesim/formats.h>
#include <pipesim/partition.h>
#include <pipesim/plan.h>

#include <math.h>
#include <string.h>

#define DEFAULT_SAMPLES 10000
#define MAX_JOBS 1024
#define MOST_MICROBATCHES 1024 /* that --bubble tries */

typedef struct {
  char **schedules;
  gboolean several; /* schedules, or all */
  guint *devices, *microbatches, *chunks;
  guint n_devices, n_microbatches, n_chunks;
  guint n_settings; /* of these lists together */
  double bubble;    /* the least m that has it is looked for */
  gboolean has_bubble;
  char *expect;
  gboolean update;
  double tolerance;
  gboolean has_tolerance;
  char **words;     /* of the command line; not owned */
  gboolean expects; /* --expect, or a command line of its file */
  gboolean print_costs;
  char *output;
  PsLaunchChoice launch;
  PsSetting *setting;
  PsColumnChoice columns;
  gboolean memory;
  gboolean explain;
  double faster; /* what a part saves in the explanation */
  gboolean has_faster;
  gint64 seed;
  gboolean has_seed;
  PsVariation variation;
  PsSampling sampling; /* n_samples 0: not asked for */
  PsFromChoice from;
} Options;

static const PsOption rows[] = {
  PS_OPTION_INCLUDE (Options, from, ps_from_rows),
  PS_OPTION ("schedule", 's', PS_LIST (Options, schedules), "NAME|FILE,...|all",
             "Families, also by PyTorch's names (1F1B, ScheduleInterleaved1F1B), or schedule files, or all",
             .group = PS_GROUP_WHAT, .otherwise = ""),
  PS_OPTION ("devices", 'p', PS_COUNTS (Options, devices, n_devices, 1, PS_MAX_DEVICES), "P,...",
             "Number of devices (pipeline ranks); of a list, each", .group = PS_GROUP_WHAT,
             .otherwise = "that of a schedule file; families need it"),
  PS_OPTION ("microbatches", 'm', PS_COUNTS (Options, microbatches, n_microbatches, 1, PS_MAX_MICROBATCHES), "M,...",
             "Microbatches per iteration; of a list, each", .group = PS_GROUP_WHAT,
             .otherwise = "that of a schedule file; families need it"),
  PS_OPTION ("chunks", 'v', PS_COUNTS (Options, chunks, n_chunks, 1, PS_MAX_STAGES), "V,...",
             "Stages per device; of a list, each", .group = PS_GROUP_WHAT, .otherwise = "the family's"),
  PS_OPTION ("bubble", 0, PS_NUMBER (Options, bubble, 0, 1), "RATIO",
             "Find the least m whose bubble of iteration is at most this, e.g. 0.05; -m is then the largest m to try",
             .given = PS_MEMBER (Options, has_bubble, gboolean), .group = PS_GROUP_WHAT, .otherwise = "-m says it"),
  PS_OPTION ("expect", 0, PS_FILE (Options, expect), "FILE",
             "Compare with the predictions in FILE, and exit with 3 if one moved too far; without other options, all "
             "command lines in FILE are predicted again",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("update", 0, PS_FLAG (Options, update), NULL, "With --expect: write what is predicted now into FILE",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("tolerance", 0, PS_PERCENT (Options, tolerance, 0, PS_MAX_PERCENT), "PERCENT",
             "With --expect: how far time and memory may move; --update writes it into FILE",
             .given = PS_MEMBER (Options, has_tolerance, gboolean), .group = PS_GROUP_OUTPUT,
             .otherwise = "that in FILE; 2 % in new rows"),
  PS_OPTION_TABLE (Options, columns, "pipesim-predict/1"),
  PS_OPTION ("output", 'o', PS_FILE (Options, output), "FILE",
             "Write the simulated timeline; FILE.trace.json is a Chrome trace, FILE.gz is packed",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE (Options, launch, ps_launch_rows),
  PS_OPTION ("memory", 0, PS_FLAG (Options, memory), NULL, "Show what fills the memory of each device at its peak",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("explain", 0, PS_FLAG (Options, explain), NULL,
             "Show the critical path, the causes of waiting, and the parts that would pay off",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("faster", 0, PS_PERCENT (Options, faster, 0.001, 100), "PERCENT",
             "With --explain: time that a part saves in the list of parts that would pay off, in percent",
             .initial = 0.1, .given = PS_MEMBER (Options, has_faster, gboolean), .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE_AT (Options, setting, ps_microbatch_size_rows, 0),
  PS_OPTION ("print-costs", 0, PS_FLAG (Options, print_costs), NULL,
             "Print the costs of -p times -v stages as --costs takes them, and predict nothing",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("samples", 0, PS_COUNT (Options, sampling.n_samples, 1, PS_MAX_SAMPLES), "N",
             "Number of iterations to simulate with varying costs", .otherwise = "10000", .group = PS_GROUP_VARIATION),
  PS_OPTION_INCLUDE (Options, variation, ps_variation_rows),
  PS_OPTION ("seed", 0, PS_INTEGER (Options, seed, 0, 0), "N", "Seed of the random numbers",
             .given = PS_MEMBER (Options, has_seed, gboolean), .initial = 1, .group = PS_GROUP_VARIATION),
  PS_OPTION ("jobs", 0, PS_COUNT (Options, sampling.n_jobs, 1, MAX_JOBS), "N",
             "Threads that sample; their number changes no figure", .otherwise = "one per processor",
             .group = PS_GROUP_VARIATION),
  PS_OPTION_INCLUDE_AT (Options, setting, ps_setting_options, PS_FIELD_LISTED),
  PS_OPTION_END,
};

/* The rows that are shown, and what is printed with them. */
typedef struct {
  Options *options;
  GPtrArray *expected;    /* PsExpected, in place of rows; NULL: rows are shown */
  const char *command;    /* of these */
  gboolean has_intervals; /* of iterations, because their costs are measured */
  PsTable *table;
  GPtrArray *predictions; /* PsPrediction: those whose rows wait */
  GArray *memory;         /* MemoryRow */
  GPtrArray *samples;     /* Samples of all schedules; NULL: not asked for */
  PsExplainReport *explain;
  GArray *skipped;       /* Skipped */
  GString *prompts;      /* their printed table, where there is one schedule */
  GString *unused_links; /* "1f1b sends nothing between 0 and 2\n", of --slow-link */
  GString *asynchronous; /* names of those schedules */
  char *about;           /* what the costs are, those with the largest unrest; NULL: no prediction yet */
  double unrest;         /* the largest of all rows */
  GString *restless;     /* names of schedules whose costs were measured while the machine was not quiet */
  guint n_quiet;         /* the other rows */
  gboolean shifts;       /* an iteration lies outside its p10-p90 */
  gboolean has_memory;   /* a row has; else it is not known */
  guint from;            /* Row.from of the prediction that is added */
  GArray *candidates;    /* Candidate: the synchronous schedules */
} Report;

/* Memory at the peak of each device */

typedef struct {
  char *schedule;
  guint device;
  gint64 peak_bytes;
  PsMemoryMoment peak;
  char *alive;
  PsModuleBytes modules[PS_MAX_MODULES]; /* of its activations, the largest first */
  guint n_modules;                       /* 0: not known */
} MemoryRow;

static void memory_row_clear (gpointer data)
{
  MemoryRow *row = data;

  g_free (row->schedule);
  g_free (row->alive);
}

#define PART(part, key, title) PS_CELL (MemoryRow, peak.bytes[part], key, title, SIZE)
#define N_BEFORE_PARTS 4

/* The parts in the order of PsMemoryPart. */
static const PsCellColumn memory_columns[] = {
  PS_CELL (MemoryRow, schedule, "schedule", "schedule", TEXT),
  PS_CELL (MemoryRow, device, "device", "device", INTEGER),
  PS_CELL (MemoryRow, peak_bytes, "peak_bytes", "peak", SIZE),
  PS_CELL (MemoryRow, peak.time_ns, "peak_ns", "at", TIME),
  PART (0, "weights_bytes", "weights"),
  PART (1, "gradients_bytes", "gradients"),
  PART (2, "optimizer_bytes", "optimizer"),
  PART (3, "state_bytes", "weights, gradients, optimizer"),
  PART (4, "versions_bytes", "further versions"),
  PART (5, "activations_bytes", "activations"),
  PART (6, "weight_inputs_bytes", "W inputs"),
  PART (7, "workspace_bytes", "workspace"),
  PART (8, "buffers_bytes", "buffers"),
  PART (9, "framework_bytes", "framework"),
  PART (10, "context_bytes", "driver and libraries"),
  PS_CELL (MemoryRow, alive, "alive", "alive microbatches", TEXT),
};

const char *ps_memory_part_title (PsMemoryPart part)
{
  return memory_columns[N_BEFORE_PARTS + part].column.title;
}

static gpointer holding_part (gconstpointer row)
{
  return g_strdup (ps_memory_part_key ((PsMemoryPart)((const PsMemoryHolding *)row)->part));
}

/* The largest first. */
static int compare_modules (gconstpointer a, gconstpointer b)
{
  const PsModuleBytes *x = a, *y = b;

  return x->bytes != y->bytes ? PS_COMPARE (y->bytes, x->bytes) : strcmp (x->module, y->module);
}

/* The row's activations by module: those of each stage in the parts that its model says. None without a model. */
static void list_modules (const PsSetting *setting, const PsModel *model, const PsPrediction *prediction,
                          const PsDeviceMemory *device, MemoryRow *row)
{
  const PsCosts *costs = prediction->costs;
  g_autofree gint64 *held = g_new0 (gint64, costs->n_stages);

  if (model == NULL || costs->shapes == NULL || prediction->prefill != NULL)
    return;
  for (guint i = 0; i < device->alive->len; i++) {
    const PsMemoryHolding *holding = &g_array_index (device->alive, PsMemoryHolding, i);

    held[holding->stage] += holding->part == PS_MEMORY_ACTIVATIONS ? holding->bytes : 0;
  }
  for (guint s = 0; s < costs->n_stages; s++) {
    PsModuleBytes part[PS_MAX_MODULES];
    guint n = held[s] > 0 ? ps_tensor_kept_modules (model, &costs->shapes[s], ps_setting_recompute (setting, s),
                                                    setting->offload_modules, setting->n_tensor, part)
                          : 0;
    gint64 all = 0, habits = ps_framework_habits (model, &costs->shapes[s], setting->n_tensor).kept_bytes;

    for (guint i = 0; i < n; i++) {
      part[i].bytes += g_str_equal (part[i].module, "loss") ? habits : 0;
      all += part[i].bytes;
    }
    for (guint i = 0; i < n; i++)
      row->modules[ps_modules_find (row->modules, &row->n_modules, part[i].module)].bytes
          += llround ((double)held[s] * (double)part[i].bytes / (double)MAX (all, 1));
  }
  qsort (row->modules, row->n_modules, sizeof *row->modules, compare_modules);
}

/* Notes the devices of a prediction for the printed table; returns them as the nested table of --json. */
static PsTable *add_memory (Report *report, const PsPrediction *prediction)
{
  static const PsCellColumn alive_columns[] = {
    PS_CELL (PsMemoryHolding, stage, "stage", NULL, INTEGER),
    PS_CELL (PsMemoryHolding, microbatch, "microbatch", NULL, INTEGER),
    PS_CELL (PsMemoryHolding, slice, "slice", NULL, INTEGER),
    PS_CELL_GET (holding_part, "part", NULL, TEXT),
    PS_CELL (PsMemoryHolding, bytes, "bytes", NULL, SIZE),
  };
  static const PsCellColumn columns[] = {
    PS_CELL (MemoryRow, peak_bytes, "peak_bytes", NULL, SIZE),
    PS_CELL (MemoryRow, peak.time_ns, "peak_ns", NULL, TIME),
    PS_CELL_SET ("parts", NULL, TABLE),
    PS_CELL_SET ("alive", NULL, TABLE),
    PS_CELL_SET ("modules", NULL, TABLE),
  };
  static const PsCellColumn module_columns[] = {
    PS_CELL (PsModuleBytes, module, "module", NULL, TEXT),
    PS_CELL (PsModuleBytes, bytes, "bytes", NULL, SIZE),
  };
  g_autoptr (PsModel) model = ps_setting_model (report->options->setting, NULL);
  g_autoptr (PsMemory) memory = ps_memory_new (prediction->program, prediction->costs, prediction->simulation);
  PsTable *table = ps_table_of (columns, G_N_ELEMENTS (columns), NULL, 0, 0);

  for (guint d = 0; d < memory->n_devices; d++) {
    const PsDeviceMemory *device = &memory->device[d];
    const GArray *alive = device->alive;
    MemoryRow row = { .schedule = g_strdup (prediction->program->schedule->name),
                      .device = d,
                      .peak_bytes = device->peak_bytes,
                      .peak = device->peak,
                      .alive = ps_memory_describe_alive (device) };

    list_modules (report->options->setting, model, prediction, device, &row);
    g_array_append_val (report->memory, row);
    ps_table_add (table, &row);
    ps_table_set_table (table, "parts",
                        ps_table_of (memory_columns + N_BEFORE_PARTS, PS_N_MEMORY_PARTS, &row, sizeof row, 1));
    ps_table_set_table (
        table, "alive",
        ps_table_of (alive_columns, G_N_ELEMENTS (alive_columns), alive->data, sizeof (PsMemoryHolding), alive->len));
    if (row.n_modules > 0)
      ps_table_set_table (table, "modules",
                          ps_table_of (module_columns, G_N_ELEMENTS (module_columns), row.modules,
                                       sizeof (PsModuleBytes), row.n_modules));
  }
  return table;
}

/* The device of all rows that holds most: its parts, and its activations by module. */
static void append_modules (GString *page, const GArray *rows)
{
  static const PsColumn columns[] = { { "part", "part", PS_COLUMN_TEXT },
                                      { "module", "module", PS_COLUMN_TEXT },
                                      { "bytes", "bytes", PS_COLUMN_SIZE } };
  const MemoryRow *most = NULL;
  g_autoptr (PsTable) table = ps_table_new (columns, G_N_ELEMENTS (columns));

  for (guint i = 0; i < rows->len; i++) {
    const MemoryRow *row = &g_array_index (rows, MemoryRow, i);

    if (row->n_modules > 0 && (most == NULL || row->peak_bytes > most->peak_bytes))
      most = row;
  }
  if (most == NULL)
    return;
  for (guint part = 0; part < PS_N_MEMORY_PARTS; part++) {
    guint n = part == PS_MEMORY_ACTIVATIONS ? most->n_modules : most->peak.bytes[part] != 0;

    for (guint i = 0; i < n; i++) {
      const PsModuleBytes *module = &most->modules[i];

      ps_table_add_row (table);
      ps_table_set_text (table, "part", ps_memory_part_title ((PsMemoryPart)part));
      if (part == PS_MEMORY_ACTIVATIONS)
        ps_table_set_text (table, "module", module->module);
      ps_table_set_integer (table, "bytes", part == PS_MEMORY_ACTIVATIONS ? module->bytes : most->peak.bytes[part]);
    }
  }
  g_autofree char *text = ps_table_to_text (table);
  g_string_append_printf (page, "\ndevice %u at its peak with %s, by part and module\n%s", most->device, most->schedule,
                          text);
}

/* The printed table; parts that no device has are left out. Free with g_free. */
static char *memory_to_text (const GArray *rows, gboolean serves)
{
  g_autoptr (PsTable) table
      = ps_table_of (memory_columns, G_N_ELEMENTS (memory_columns), rows->data, sizeof (MemoryRow), rows->len);

  if (serves) {
    ps_table_set_title (table, "state_bytes", "weights");
    ps_table_set_title (table, "activations_bytes", "keys and values");
    ps_table_set_title (table, "alive", "alive prompts");
  }
  for (guint part = 0; part < PS_N_MEMORY_PARTS; part++) {
    gboolean any = FALSE;

    for (guint i = 0; i < rows->len; i++)
      any |= g_array_index (rows, MemoryRow, i).peak.bytes[part] != 0;
    if (!any)
      ps_table_set_title (table, memory_columns[N_BEFORE_PARTS + part].column.key, NULL);
  }
  return ps_table_to_text (table);
}

/* Prompts of prefill */

typedef struct {
  guint prompt, tokens, n_chunks;
  gint64 first_token_ns;
  char *chunks;
} PromptRow;

/* "8192 x 15, 3000": the tokens of the chunks of a prompt. Of more than `most` lengths the last but one and those
 * before it become "..". Free with g_free. */
static char *list_chunks (const PsPrefill *prefill, guint prompt, guint most)
{
  const guint16 *of = &prefill->lengths->of[prompt * prefill->n_slices];
  guint n = prefill->slices[prompt];
  GString *text = g_string_new (NULL);

  for (guint i = 0, end, lengths = 1; i < n; i = end, lengths++) {
    guint tokens = prefill->lengths->length[of[i]].tokens;

    for (end = i + 1; end < n && prefill->lengths->length[of[end]].tokens == tokens;)
      end++;
    if (lengths < most || end == n)
      g_string_append_printf (text, end > i + 1 ? "%s%u x %u" : "%s%u", i > 0 ? ", " : "", tokens, end - i);
    else if (lengths == most)
      g_string_append (text, ", ..");
  }
  return g_string_free (text, FALSE);
}

/* Notes the prompts of a prediction for the page; returns them as the nested table of --json. */
static PsTable *add_prompts (Report *report, const PsPrediction *prediction)
{
  static const PsCellColumn columns[] = {
    PS_CELL (PromptRow, prompt, "prompt", "prompt", INTEGER),
    PS_CELL (PromptRow, tokens, "tokens", "tokens", INTEGER),
    PS_CELL (PromptRow, first_token_ns, "first_token_ns", "first token", TIME),
    PS_CELL (PromptRow, n_chunks, "chunks", "chunks", INTEGER),
    PS_CELL (PromptRow, chunks, "chunk_tokens", "tokens of chunks", TEXT),
  };
  const PsPrefill *prefill = prediction->prefill;
  PsTable *table = ps_table_of (columns, G_N_ELEMENTS (columns), NULL, 0, 0);
  guint most = report->options->columns.json || prefill->n == 1 ? PS_MAX_SLICES : 4;

  for (guint i = 0; i < prefill->n; i++) {
    g_autofree char *chunks = list_chunks (prefill, i, most);
    guint tokens = ps_prefill_tokens (prefill, i);

    ps_table_add (table, &(PromptRow){ i, tokens, prefill->slices[i], prediction->first_token_ns[i], chunks });
    if (prefill->n == 1 && strstr (report->prompts->str, chunks) == NULL)
      g_string_append_printf (report->prompts, "%s: %u tokens in %u chunk%s: %s\n", prediction->program->schedule->name,
                              tokens, (guint)prefill->slices[i], prefill->slices[i] == 1 ? "" : "s", chunks);
  }
  if (prefill->n > 1 && !report->options->several) {
    g_autofree char *text = ps_table_to_text (table);

    g_string_append_printf (report->prompts, "\n%s", text);
  }
  return table;
}

/* How far the iteration time spreads */

/* The samples of one schedule. */
typedef struct {
  char *schedule;
  gboolean asynchronous;
  guint64 seed;
  gint64 *iteration_ns; /* [n_samples] */
  PsDistribution distribution;
  gint64 mean_ns[4]; /* its mean, the ends of the mean's interval, and the deviation; rounded */
  char *between[4];  /* "1 ms .. 2 ms": the 95 % of its mean, p50, p90 and p99 */
} Samples;

static void samples_free (gpointer data)
{
  Samples *samples = data;

  g_free (samples->schedule);
  g_free (samples->iteration_ns);
  for (guint i = 0; i < G_N_ELEMENTS (samples->between); i++)
    g_free (samples->between[i]);
  g_free (samples);
}

/* Free with g_free. */
static char *format_between (gint64 low_ns, gint64 high_ns)
{
  g_autofree char *low = ps_format_time (low_ns), *high = ps_format_time (high_ns);

  return g_strdup_printf ("%s .. %s", low, high);
}

/* A slow link that no message of the program uses changes nothing. */
static void note_unused_links (Report *report, const PsProgram *program)
{
  const PsUncertainty *uncertainty = &report->options->variation.uncertainty;

  for (guint i = 0; i < uncertainty->n_slowness; i++) {
    const PsSlowness *slow = &uncertainty->slowness[i];
    gboolean used = !slow->link;

    for (guint k = 0; k < program->n_messages && !used; k++)
      used = ps_slowness_slows (slow, program->messages[k].sender, program->messages[k].receiver);
    if (!used)
      g_string_append_printf (report->unused_links, "%s sends nothing between devices %u and %u\n",
                              program->schedule->name, slow->a, slow->b);
  }
}

/* Samples one prediction: iteration times of the steady state where devices never meet. */
static gboolean add_samples (Report *report, const PsPrediction *prediction, GError **error)
{
  const Options *options = report->options;
  const PsProgram *program = ps_prediction_hint (prediction);
  const PsSchedule *schedule = prediction->program->schedule;
  const PsPlacement *placement = schedule->placement;
  PsUncertainty uncertainty = options->variation.uncertainty;
  PsSampling sampling = options->sampling;
  g_autoptr (PsCostSpread) spread = NULL;

  if (!ps_uncertainty_check (&uncertainty, placement->n_devices, error))
    return FALSE;
  note_unused_links (report, program);
  if (options->variation.is_measured) {
    spread = ps_setting_spread (options->setting, prediction->costs->shapes, placement->n_devices,
                                placement->n_stages / placement->n_devices, error);
    if (spread == NULL)
      return FALSE;
    uncertainty.measured = spread;
  }
  sampling.events = prediction->events;
  sampling.sync = options->setting->sync;
  sampling.reduce = options->setting->reduce;
  Samples *samples = g_new0 (Samples, 1);
  g_ptr_array_add (report->samples, samples);
  samples->schedule = g_strdup (schedule->name);
  samples->asynchronous = schedule->asynchronous;
  samples->seed = sampling.seed;
  samples->iteration_ns = ps_uncertainty_sample (program, prediction->costs, &uncertainty, &sampling, error);
  if (samples->iteration_ns == NULL)
    return FALSE;
  PsDistribution *distribution = &samples->distribution;
  ps_distribution_init (distribution, samples->iteration_ns, sampling.n_samples,
                        ps_sampling_is_steady (&sampling, program));
  samples->mean_ns[0] = llround (distribution->mean_ns);
  samples->mean_ns[1] = llround (distribution->mean_low_ns);
  samples->mean_ns[2] = llround (distribution->mean_high_ns);
  samples->mean_ns[3] = llround (distribution->deviation_ns);
  const PsQuantile *const quantiles[] = { &distribution->p50, &distribution->p90, &distribution->p99 };
  samples->between[0] = format_between (samples->mean_ns[1], samples->mean_ns[2]);
  for (guint i = 0; i < G_N_ELEMENTS (quantiles); i++)
    samples->between[i + 1] = format_between (quantiles[i]->low_ns, quantiles[i]->high_ns);
  return TRUE;
}

static PsTable *samples_table (const Samples *samples)
{
#define QUANTILE(p)                                                                                                    \
  PS_CELL (Samples, distribution.p.value_ns, #p "_ns", NULL, TIME),                                                    \
      PS_CELL (Samples, distribution.p.low_ns, #p "_low_ns", NULL, TIME),                                              \
      PS_CELL (Samples, distribution.p.high_ns, #p "_high_ns", NULL, TIME)
  static const PsCellColumn columns[] = {
    PS_CELL (Samples, distribution.n, "samples", NULL, INTEGER),
    PS_CELL (Samples, seed, "seed", NULL, INTEGER),
    PS_CELL (Samples, mean_ns[0], "mean_ns", NULL, TIME),
    PS_CELL (Samples, mean_ns[1], "mean_low_ns", NULL, TIME),
    PS_CELL (Samples, mean_ns[2], "mean_high_ns", NULL, TIME),
    PS_CELL (Samples, mean_ns[3], "deviation_ns", NULL, TIME),
    QUANTILE (p50),
    QUANTILE (p90),
    QUANTILE (p99),
  };

  return ps_table_of (columns, G_N_ELEMENTS (columns), samples, sizeof *samples, 1);
}

static double win_probability (const Samples *samples, const Samples *over)
{
  return ps_win_probability (samples->iteration_ns, over->iteration_ns, samples->distribution.n);
}

/* NULL for a single schedule. */
static PsTable *wins_table (const Report *report, const Samples *samples)
{
  static const PsColumn columns[] = { { "over", NULL, PS_COLUMN_TEXT }, { "probability", NULL, PS_COLUMN_RATIO } };

  if (report->samples->len < 2)
    return NULL;
  PsTable *table = ps_table_new (columns, G_N_ELEMENTS (columns));
  for (guint i = 0; i < report->samples->len; i++) {
    const Samples *other = report->samples->pdata[i];

    if (other == samples)
      continue;
    ps_table_add_row (table);
    ps_table_set_text (table, "over", other->schedule);
    ps_table_set_ratio (table, "probability", win_probability (samples, other));
  }
  return table;
}

static const PsCellColumn quantile_columns[] = {
  PS_CELL (Samples, schedule, "schedule", "schedule", TEXT),
  PS_CELL (Samples, mean_ns[0], "mean_ns", "mean", TIME),
  PS_CELL (Samples, between[0], "mean", "95 % of mean", TEXT),
  PS_CELL (Samples, mean_ns[3], "deviation_ns", "deviation", TIME),
  PS_CELL (Samples, distribution.p50.value_ns, "p50_ns", "p50", TIME),
  PS_CELL (Samples, between[1], "p50", "95 % of p50", TEXT),
  PS_CELL (Samples, distribution.p90.value_ns, "p90_ns", "p90", TIME),
  PS_CELL (Samples, between[2], "p90", "95 % of p90", TEXT),
  PS_CELL (Samples, distribution.p99.value_ns, "p99_ns", "p99", TIME),
  PS_CELL (Samples, between[3], "p99", "95 % of p99", TEXT),
};

/* Row by column: how often the row's schedule is faster. Columns are numbers, for 20 names would not fit on a line. */
static char *win_matrix (const GPtrArray *all)
{
  guint n = all->len;
  g_autofree PsColumn *columns = g_new0 (PsColumn, n + 1);

  columns[0] = (PsColumn){ "schedule", "schedule", PS_COLUMN_TEXT };
  for (guint i = 0; i < n; i++) {
    g_autofree char *number = g_strdup_printf ("%u", i + 1);
    const char *title = g_intern_string (number);

    columns[i + 1] = (PsColumn){ title, title, PS_COLUMN_RATIO };
  }
  g_autoptr (PsTable) table = ps_table_new (columns, n + 1);
  for (guint i = 0; i < n; i++) {
    const Samples *samples = all->pdata[i];
    g_autofree char *name = g_strdup_printf ("%2u %s", i + 1, samples->schedule);

    ps_table_add_row (table);
    ps_table_set_text (table, "schedule", name);
    for (guint k = 0; k < n; k++)
      if (k != i)
        ps_table_set_ratio (table, columns[k + 1].key, win_probability (samples, all->pdata[k]));
  }
  return ps_table_to_text (table);
}

static int compare_samples (gconstpointer a, gconstpointer b)
{
  const Samples *x = *(Samples *const *)a, *y = *(Samples *const *)b;
  gint64 p50_x = x->distribution.p50.value_ns, p50_y = y->distribution.p50.value_ns;

  return x->asynchronous != y->asynchronous ? x->asynchronous - y->asynchronous : PS_COMPARE (p50_x, p50_y);
}

static void append_samples (GString *text, Report *report)
{
  const PsSampling *sampling = &report->options->sampling;
  g_autofree char *causes = ps_variation_describe (&report->options->variation);
  GPtrArray *all = report->samples;
  gboolean spreads = FALSE;

  g_ptr_array_sort (all, compare_samples);
  for (guint i = 0; i < all->len; i++)
    spreads |= ((const Samples *)all->pdata[i])->mean_ns[3] > 0;
  /* Slowness of all iterations makes them equal: the schedule and the time say all. */
  g_autoptr (PsTable) table = ps_table_of (quantile_columns, spreads ? G_N_ELEMENTS (quantile_columns) : 2, NULL, 0, 0);
  for (guint i = 0; i < all->len; i++)
    ps_table_add (table, all->pdata[i]);
  if (!spreads)
    ps_table_set_title (table, "mean_ns", "iteration");
  g_autofree char *quantiles = ps_table_to_text (table);
  if (spreads)
    g_string_append_printf (text, "\niteration time, simulated from %u samples, seed %" G_GUINT64_FORMAT "%s\n%s",
                            sampling->n_samples, sampling->seed, causes, quantiles);
  else
    g_string_append_printf (text, "\niteration time%s, the same in all samples\n%s", causes, quantiles);
  g_string_append (text, report->unused_links->str);
  if (all->len > 1) {
    g_autofree char *wins = win_matrix (all);

    g_string_append_printf (text, "\npart of the samples in which the row's schedule is faster than the column's\n%s",
                            wins);
  }
}

/* Rows */

/* What columns are about that appear only where it is known, or asked for. */
enum {
  INTERVAL = 1 << 0,
  INTERVAL_TEXT = 1 << 1,
  LAYOUT = 1 << 2,
  LENGTHS = 1 << 3,
  BYPASS = 1 << 4,
  MEMORY = 1 << 5,
  EXPLAIN = 1 << 6,
  SAMPLES = 1 << 7,
  WINS = 1 << 8,
  BUBBLE = 1 << 9,
  SERVE = 1 << 10,
  SLICES = 1 << 11,
  SPEED = 1 << 12,
};

typedef struct {
  PsFigures figures;
  PsInterval interval;
  double mfu;
  char *interval_text;
  char *order;
  char *slice_tokens;
  guint n_iterations; /* of a period; 0: none */
  guint from;         /* with --bubble: no m from here to twice the least one has a larger bubble */
} Row;

static const struct {
  PsCellColumn cell;
  guint only; /* with these; 0: always */
} columns[] = {
  { PS_FIGURE ("schedule"), 0 },
  { PS_FIGURE ("devices"), 0 },
  { PS_FIGURE ("microbatches"), 0 },
  { PS_CELL (Row, from, "microbatches_from", "m from", INTEGER), BUBBLE },
  { PS_FIGURE ("chunks"), 0 },
  { PS_FIGURE ("makespan_ns"), 0 },
  { PS_FIGURE_JSON ("max_span_ns"), 0 },
  { PS_FIGURE ("iteration_ns"), 0 },
  { PS_CELL_KNOWN (Row, interval.p10_ns, "iteration_p10_ns", NULL, TIME), INTERVAL },
  { PS_CELL_KNOWN (Row, interval.p50_ns, "iteration_p50_ns", "p50", TIME), INTERVAL },
  { PS_CELL_KNOWN (Row, interval.p90_ns, "iteration_p90_ns", NULL, TIME), INTERVAL },
  { PS_CELL (Row, interval_text, "interval", "p10-p90", TEXT), INTERVAL_TEXT },
  { PS_FIGURE ("bubble_ratio"), 0 },
  { PS_FIGURE ("bubble_ratio_span"), 0 },
  { PS_FIGURE ("first_token_ns"), SERVE },
  { PS_FIGURE ("prompts_per_s"), SERVE },
  { PS_FIGURE ("tokens_per_s"), SERVE },
  { PS_FIGURE ("tokens_per_s"), SPEED },
  { PS_CELL (Row, mfu, "mfu", "MFU", RATIO), SPEED },
  { PS_FIGURE ("lower_bound_ns"), 0 },
  { PS_FIGURE ("peak_memory_bytes"), 0 },
  { PS_FIGURE_JSON ("feasible"), 0 },
  { PS_FIGURE ("fits"), 0 },
  { PS_FIGURE ("layout"), LAYOUT },
  { PS_CELL (Row, order, "microbatch_order", "microbatch order", TEXT), LENGTHS },
  { PS_CELL (Row, slice_tokens, "slice_tokens", "slice tokens", TEXT), SLICES },
  { PS_FIGURE_JSON ("asynchronous"), 0 }, /* with its heading where a schedule is */
  { PS_FIGURE ("devices_detail"), 0 },
  { PS_CELL_KNOWN (Row, n_iterations, "period_iterations", NULL, INTEGER), BYPASS },
  { PS_CELL_SET ("prompts", NULL, TABLE), SERVE },
  { PS_CELL_SET ("memory", NULL, TABLE), MEMORY },
  { PS_CELL_SET ("critical_path", NULL, TABLE), EXPLAIN },
  { PS_CELL_SET ("critical_iterations", NULL, INTEGER), EXPLAIN },
  { PS_CELL_SET ("idle", NULL, TABLE), EXPLAIN },
  { PS_CELL_SET ("slack", NULL, TABLE), EXPLAIN },
  { PS_CELL_SET ("what_if", NULL, TABLE), EXPLAIN },
  { PS_CELL_SET ("spread", NULL, TABLE), SAMPLES },
  { PS_CELL_SET ("wins", NULL, TABLE), WINS },
};

static const char *const wide[]
    = { "makespan_ns", "iteration_p50_ns", "bubble_ratio_span", "tokens_per_s", "mfu", NULL };

static const char *const wide_of_prefill[]
    = { "makespan_ns",   "iteration_ns",   "iteration_p50_ns", "bubble_ratio_span",
        "prompts_per_s", "lower_bound_ns", "layout",           NULL };

static guint find_subjects (const Report *report)
{
  const Options *options = report->options;
  const PsSetting *setting = options->setting;
  gboolean samples = options->sampling.n_samples > 0;

  return (report->has_intervals ? INTERVAL : 0) | (report->has_intervals && !options->columns.json ? INTERVAL_TEXT : 0)
         | (setting->cluster != NULL || setting->layout != NULL ? LAYOUT : 0) | (setting->lengths != NULL ? LENGTHS : 0)
         | (setting->even_work || setting->n_slice_tokens > 0 ? SLICES : 0)
         | (setting->sync == PS_SYNC_BYPASS ? BYPASS : 0) | (options->memory ? MEMORY : 0)
         | (options->explain ? EXPLAIN : 0) | (samples ? SAMPLES : 0) | (samples && options->several ? WINS : 0)
         | (options->has_bubble ? BUBBLE : 0)
         | (setting->serve != PS_SERVE_NONE                        ? SERVE
            : setting->cluster != NULL && setting->lengths == NULL ? SPEED
                                                                   : 0);
}

typedef struct {
  const char *name, *layout; /* interned; layout NULL: not known */
  gint64 iteration_ns, even_ns;
  PsInterval interval;
  const char *fits; /* ps_fits */
} Candidate;

/* A reason, and the schedules that have no row for it. */
typedef struct {
  char *reason;
  GString *names;
} Skipped;

static void skipped_clear (gpointer data)
{
  g_free (((Skipped *)data)->reason);
  g_string_free (((Skipped *)data)->names, TRUE);
}

static void report_clear (Report *report)
{
  ps_table_free (report->table);
  ps_explain_report_free (report->explain);
  g_clear_pointer (&report->memory, g_array_unref);
  g_clear_pointer (&report->samples, g_ptr_array_unref);
  g_clear_pointer (&report->candidates, g_array_unref);
  g_clear_pointer (&report->predictions, g_ptr_array_unref);
  g_clear_pointer (&report->skipped, g_array_unref);
  g_string_free (report->prompts, TRUE);
  g_string_free (report->unused_links, TRUE);
  g_string_free (report->asynchronous, TRUE);
  g_string_free (report->restless, TRUE);
  g_free (report->about);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Report, report_clear)

static gboolean report_init (Report *report, Options *options, GError **error)
{
  const PsCostSource *source = ps_setting_source (options->setting);
  PsCellColumn wanted[G_N_ELEMENTS (columns)];
  guint n = 0;

  report->options = options;
  report->has_intervals = source != NULL && source->spread != NULL && ps_setting_zero (options->setting) < 3;
  guint subjects = find_subjects (report);
  for (guint i = 0; i < G_N_ELEMENTS (columns); i++)
    if ((columns[i].only & ~subjects) == 0)
      wanted[n++] = columns[i].cell;
  report->table = ps_table_of (wanted, n, NULL, 0, 0);
  report->predictions = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_prediction_free);
  report->memory = g_array_new (FALSE, FALSE, sizeof (MemoryRow));
  g_array_set_clear_func (report->memory, memory_row_clear);
  if (options->sampling.n_samples > 0)
    report->samples = g_ptr_array_new_with_free_func (samples_free);
  report->skipped = g_array_new (FALSE, FALSE, sizeof (Skipped));
  g_array_set_clear_func (report->skipped, skipped_clear);
  report->prompts = g_string_new (NULL);
  report->unused_links = g_string_new (NULL);
  report->asynchronous = g_string_new (NULL);
  report->restless = g_string_new (NULL);
  report->candidates = g_array_new (FALSE, FALSE, sizeof (Candidate));
  return ps_table_choose (report->table, &options->columns,
                          options->setting->serve != PS_SERVE_NONE ? wide_of_prefill : wide, error);
}

static void add_row (Report *report, const PsPrediction *prediction)
{
  const Options *options = report->options;
  PsTable *table = report->table;
  g_autofree char *layout = find_subjects (report) & LAYOUT ? ps_prediction_layout (prediction) : NULL;
  g_autofree char *interval = ps_interval_to_text (&prediction->interval);
  g_autoptr (GString) order = g_string_new (NULL), tokens = g_string_new (NULL);
  const PsSliceParts *slices = ps_costs_slices (prediction->costs, prediction->program->schedule->n_slices);
  Row row = { .figures = ps_prediction_figures (prediction),
              .interval = prediction->interval,
              .interval_text = prediction->interval.p90_ns > 0 ? interval : NULL,
              .n_iterations = prediction->iteration.n_iterations,
              .from = report->from };

  /* The microbatches of --lengths as they enter the pipeline: "2,0,1". */
  for (guint i = 0; prediction->order != NULL && i < row.figures.n_microbatches; i++)
    g_string_append_printf (order, "%s%u", i > 0 ? "," : "", prediction->order[i]);
  row.order = order->len > 0 ? order->str : NULL;
  for (guint k = 0; slices != NULL && slices->tokens != NULL && k < slices->n; k++)
    g_string_append_printf (tokens, "%s%u", k > 0 ? ":" : "", slices->tokens[k]);
  row.slice_tokens = tokens->len > 0 ? tokens->str : NULL;
  row.figures.layout = layout;
  if (find_subjects (report) & SPEED) {
    const PsSpeed speed = ps_run_speed (options->setting, row.figures.n_devices, row.figures.n_microbatches,
                                        row.figures.metrics.iteration_ns);

    row.figures.tokens_per_s = speed.tokens_per_s;
    row.mfu = speed.mfu;
  }
  ps_table_add (table, &row);
  report->shifts |= row.interval.p90_ns > 0 && !ps_interval_holds (&row.interval, row.figures.metrics.iteration_ns);
  if (row.figures.asynchronous) {
    ps_table_set_title (table, "asynchronous", "async");
    g_string_append_printf (report->asynchronous, "%s%s", report->asynchronous->len ? ", " : "", row.figures.schedule);
  }
  if (prediction->prefill != NULL)
    ps_table_set_table (table, "prompts", add_prompts (report, prediction));
  if (options->memory)
    ps_table_set_table (table, "memory", add_memory (report, prediction));
  if (report->explain != NULL) {
    ps_table_set_table (table, "critical_path", ps_explain_report_path (report->explain));
    ps_table_set_integer (table, "critical_iterations", report->explain->explanation->n_iterations);
    ps_table_set_table (table, "idle", ps_explain_report_idle (report->explain));
    ps_table_set_table (table, "slack", ps_explain_report_slack (report->explain));
    ps_table_set_table (table, "what_if", ps_explain_report_what_if (report->explain));
  }
  for (guint i = 0; report->samples != NULL && i < report->samples->len; i++) {
    const Samples *samples = report->samples->pdata[i];

    if (!g_str_equal (samples->schedule, row.figures.schedule))
      continue;
    ps_table_set_table (table, "spread", samples_table (samples));
    if (options->several)
      ps_table_set_table (table, "wins", wins_table (report, samples));
    break;
  }
}

/* Costs of one profile may be of different conditions: the first line is about those with the largest unrest. */
static void note_unrest (Report *report, const PsPrediction *prediction)
{
  const PsCosts *costs = prediction->costs;

  if (report->about == NULL || costs->unrest > report->unrest) {
    g_autofree char *description = ps_costs_describe (costs);

    g_free (report->about);
    report->about = g_strconcat ("simulated from ", description, NULL);
    report->unrest = costs->unrest;
  }
  if (costs->unrest > PS_SENTINEL_TOLERANCE)
    g_string_append_printf (report->restless, "%s%s", report->restless->len ? ", " : "",
                            prediction->program->schedule->name);
  else
    report->n_quiet++;
}

/* Takes ownership of the prediction. A sampled row waits until all schedules are sampled, for it says how often it wins
 * over the others. An explained prediction stays for the printed explanation. */
static gboolean take_prediction (Report *report, PsPrediction *prediction, GError **error)
{
  const Options *options = report->options;
  const PsSchedule *schedule = prediction->program->schedule;

  g_ptr_array_add (report->predictions, prediction);
  report->has_memory |= prediction->metrics.peak_memory_bytes > 0;
  note_unrest (report, prediction);
  if (report->expected != NULL) {
    ps_expected_add (report->expected, report->command, prediction);
    g_ptr_array_set_size (report->predictions, 0);
    return TRUE;
  }
  if (!schedule->asynchronous && options->n_settings == 1) {
    g_autofree char *layout = ps_prediction_layout (prediction);

    g_array_append_val (report->candidates, ((Candidate){ g_intern_string (schedule->name), g_intern_string (layout),
                                                          prediction->metrics.iteration_ns, prediction->even_ns,
                                                          prediction->interval, prediction->fits }));
  }
  if (report->samples == NULL && !options->explain) {
    add_row (report, prediction);
    g_ptr_array_set_size (report->predictions, 0);
    return TRUE;
  }
  if (options->explain)
    report->explain = ps_explain_report_new (options->setting, prediction, options->faster, error);
  return (!options->explain || report->explain != NULL)
         && (report->samples == NULL || add_samples (report, prediction, error));
}

/* Notes why a schedule has no row. label: the name, or that with its setting. The reason's own mention of the name at
 * its start is left out, so that schedules share it. */
static void skip (Report *report, const char *name, const char *label, const GError *reason)
{
  g_autofree char *quoted = g_strdup_printf ("schedule '%s': ", name), *plain = g_strconcat (name, ": ", NULL);
  const char *text = reason->message;

  text += g_str_has_prefix (text, quoted) ? strlen (quoted) : g_str_has_prefix (text, plain) ? strlen (plain) : 0;
  for (guint i = 0; i < report->skipped->len; i++) {
    const Skipped *same = &g_array_index (report->skipped, Skipped, i);

    if (g_str_equal (same->reason, text)) {
      g_string_append_printf (same->names, ", %s", label);
      return;
    }
  }
  g_array_append_val (report->skipped, ((Skipped){ g_strdup (text), g_string_new (label) }));
}

/* "dualpipe, chimera: REASON; zb-v: REASON". Free with g_free. */
static char *describe_skipped (const Report *report)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < report->skipped->len; i++) {
    const Skipped *skipped = &g_array_index (report->skipped, Skipped, i);

    g_string_append_printf (text, "%s%s: %s", i > 0 ? "; " : "", skipped->names->str, skipped->reason);
  }
  return g_string_free (text, FALSE);
}

/* The one that will stand first: yes before tight before no, then the faster one. NULL: there is none. */
static const Candidate *find_first (const GArray *candidates)
{
  const Candidate *all = (const Candidate *)(gpointer)candidates->data, *first = NULL;

  for (guint i = 0; i < candidates->len; i++) {
    int order = first != NULL ? strcmp (first->fits, all[i].fits) : -1;

    if (order < 0 || (order == 0 && all[i].iteration_ns < first->iteration_ns))
      first = &all[i];
  }
  return first;
}

/* Names the first candidate and every candidate that fits as it does and whose own_p10_ns to own_p90_ns overlaps its
 * own. names is "" where there is no other. Returns their number. */
static guint find_alike (const GArray *candidates, GString *names)
{
  const Candidate *all = (const Candidate *)(gpointer)candidates->data, *first = find_first (candidates);
  guint n = 0;

  if (first == NULL || first->interval.p90_ns == 0)
    return 0;
  g_string_assign (names, first->name);
  for (guint i = 0; i < candidates->len; i++)
    if (&all[i] != first && g_str_equal (all[i].fits, first->fits)
        && all[i].interval.own_p10_ns <= first->interval.own_p90_ns
        && first->interval.own_p10_ns <= all[i].interval.own_p90_ns) {
      g_string_append_printf (names, ", %s", all[i].name);
      n++;
    }
  if (n == 0)
    g_string_truncate (names, 0);
  return n > 0 ? n + 1 : 0;
}

/* The gain of the first row's layout, unrest of the machine (of several rows) and asynchronous rows. */
static char *write_sentences (const Report *report, guint n_alike, const char *alike)
{
  gboolean several = report->options->several;
  g_autofree char *unrest = ps_unrest_to_text (report->unrest, report->n_quiet > 0 ? report->restless->str : "");
  const Candidate *first = find_first (report->candidates);
  g_autoptr (GString) text = g_string_new (NULL);

  if (first != NULL && first->even_ns > first->iteration_ns)
    g_string_append_printf (text, "%s: layout %s: %.1f %% faster than even\n", first->name, first->layout,
                            100 * ((double)first->even_ns / (double)first->iteration_ns - 1));
  else if (first != NULL && first->even_ns > 0)
    g_string_append_printf (text, "%s: layout %s: fits, and even does not\n", first->name, first->layout);
  if (several && *unrest)
    g_string_append_printf (text, "%s\n", unrest);
  if (n_alike > 1)
    g_string_append_printf (text,
                            "these %u cannot be told apart, for their p10-p90 overlap that of the first also at one "
                            "speed of the machine: %s\n",
                            n_alike, alike);
  if (!report->has_memory
      && (report->options->setting->memory_limit != NULL || report->options->setting->costs_from != NULL))
    g_string_append (text, "memory is not known, for these costs have no sizes: 0 B and fits say nothing\n");
  if (report->options->has_bubble)
    g_string_append_printf (text,
                            "m: the least whose bubble of iteration is at most %g; m from: from there to twice the "
                            "least m, no m has a larger one\n",
                            report->options->bubble);
  if (report->shifts)
    g_string_append (
        text, "an iteration outside its p10-p90 is one of median costs: where devices run in step, each step waits "
              "for the slower of its ops\n");
  if (report->asynchronous->len > 0)
    g_string_append_printf (text,
                            "%s: asynchronous; gradients are of older weights, the lower bound is that of the period",
                            report->asynchronous->str);
  return ps_fit_sentence (text->str, 0);
}

static void print_skipped (const Report *report)
{
  g_autofree char *skipped = describe_skipped (report), *text = g_strconcat ("skipped: ", skipped, NULL);
  g_autofree char *lines = ps_fit_sentence (text, PS_TALK_COLUMNS);

  if (*skipped)
    g_printerr ("%s", lines);
}

/* What fits comes first, then what is tight; with lists of settings, within each of them. Asynchronous schedules train
 * differently and are no winners: they come last. */
static gboolean print_report (Report *report, GError **error)
{
  PsTable *table = report->table;
  g_autoptr (GString) alike = g_string_new (NULL), page = g_string_new (NULL);
  guint n_alike = report->options->has_bubble ? 0 : find_alike (report->candidates, alike);
  g_autofree char *errors = ps_describe_errors (report->options->setting), *skipped = describe_skipped (report);
  const char *extra[11]
      = { "origin", ps_origin_name (PS_ORIGIN_SIMULATED), "costs", report->about, "skipped", skipped, NULL };
  const char *const optional[][2] = { { "interval", errors }, { "alike", n_alike > 1 ? alike->str : NULL } };

  for (guint i = 0, n = 6; i < G_N_ELEMENTS (optional); i++)
    if (optional[i][1] != NULL) {
      extra[n++] = optional[i][0];
      extra[n++] = optional[i][1];
    }
  for (guint i = 0; i < report->predictions->len; i++)
    add_row (report, report->predictions->pdata[i]);
  ps_table_sort (table, report->options->has_bubble ? "microbatches" : "iteration_ns", FALSE);
  ps_table_sort (table, "fits", TRUE); /* yes, tight, no */
  ps_table_sort (table, "asynchronous", FALSE);
  if (report->options->n_microbatches > 1)
    ps_table_sort (table, "microbatches", FALSE);
  if (report->options->n_devices > 1)
    ps_table_sort (table, "devices", FALSE);
  if (report->options->columns.json)
    return ps_table_print (table, "pipesim-predict/1", extra, error);
  print_skipped (report);
  g_autofree char *head = g_strconcat (report->about, errors != NULL ? "\ninterval: " : "", errors, NULL);
  g_autofree char *about = ps_fit_sentence (head, 0), *text = ps_table_to_text (table);
  g_autofree char *sentences = write_sentences (report, n_alike, alike->str);
  g_autofree char *prompts
      = *report->prompts->str == '\n' ? g_strdup (report->prompts->str) : ps_fit_sentence (report->prompts->str, 0);
  g_string_append_printf (page, "%s%s%s%s", about, text, sentences, prompts);
  if (report->options->memory) {
    g_autofree char *memory = memory_to_text (report->memory, report->options->setting->serve != PS_SERVE_NONE);

    g_string_append_printf (page, "\nat the peak of each device\n%s", memory);
    append_modules (page, report->memory);
  }
  if (report->explain != NULL) {
    g_autofree char *explain = ps_explain_report_to_text (report->explain);

    g_string_append (page, explain);
  }
  if (report->samples != NULL)
    append_samples (page, report);
  return ps_print (page->str, error);
}

/* Predicting */

/* Setting i of the lists of -p, -v and -m, of which m changes first. */
static void choose_setting (const Options *options, guint i)
{
  PsSetting *setting = options->setting;
  const struct {
    const guint *values;
    guint n, *value;
  } lists[] = { { options->microbatches, options->n_microbatches, &setting->n_microbatches },
                { options->chunks, options->n_chunks, &setting->n_chunks },
                { options->devices, options->n_devices, &setting->n_devices } };

  for (guint k = 0; k < G_N_ELEMENTS (lists); k++)
    if (lists[k].n > 0) {
      *lists[k].value = lists[k].values[i % lists[k].n];
      i /= lists[k].n;
    }
}

/* The prediction with the least number of microbatches whose bubble is small enough. A bubble may grow with m, where
 * microbatches go in groups: every m is tried, and *from is the one that follows the last with too large a bubble. */
static PsPrediction *find_least (const Options *options, PsPredictor *predictor, const char *name, guint *from,
                                 GError **error)
{
  PsSetting *setting = options->setting;
  guint most = options->n_microbatches > 0 ? options->microbatches[0] : MOST_MICROBATCHES, tried = 0;
  g_autoptr (PsPrediction) least = NULL;
  g_autoptr (GError) reason = NULL;
  double smallest = 1;

  *from = 1;
  for (guint m = 1; m <= most; m++) {
    g_autoptr (GError) refusal = NULL;

    setting->n_microbatches = m;
    g_autoptr (PsPrediction) prediction = ps_predictor_predict (predictor, name, &refusal);
    if (prediction == NULL && reason == NULL)
      reason = g_steal_pointer (&refusal);
    if (prediction == NULL && reason->code != PS_ERROR_USAGE)
      break;
    if (prediction == NULL)
      continue;
    tried++;
    smallest = MIN (smallest, prediction->metrics.bubble_ratio);
    if (prediction->metrics.bubble_ratio > options->bubble)
      *from = m + 1;
    else if (least == NULL) {
      least = g_steal_pointer (&prediction);
      *from = m;
      most = MIN (most, 2 * m);
    }
  }
  if (least == NULL && tried > 0)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "%s: no m up to %u has a bubble of %g or less; the smallest is %.4g%s", name, most,
                           options->bubble, smallest, options->n_microbatches > 0 ? "; a greater -m tries more" : "");
  if (least == NULL)
    g_propagate_error (error, g_steal_pointer (&reason));
  return g_steal_pointer (&least);
}

/* Writes what -o and --to ask for; else the prediction, whose ownership it takes, becomes a row. */
static gboolean take (const Options *options, Report *report, PsPrediction *taken, GError **error)
{
  g_autoptr (PsPrediction) prediction = taken;

  if (options->output != NULL) {
    g_autoptr (PsTimeline) timeline = ps_prediction_timeline (prediction);

    if (!ps_timeline_write (timeline, options->output, error))
      return FALSE;
  }
  if (options->launch.to == NULL)
    return take_prediction (report, g_steal_pointer (&prediction), error);
  g_autofree char *launch
      = ps_launch_prediction (&options->launch, options->setting, options->schedules[0], prediction, error);
  return launch != NULL && ps_print (launch, error);
}

/* Predicts a schedule under the setting that was chosen. A refusal is noted. */
static gboolean predict_one (Report *report, PsPredictor *predictor, const char *name, GError **refusal, GError **error)
{
  const Options *options = report->options;
  const PsSetting *setting = options->setting;
  g_autoptr (PsPrediction) prediction = options->has_bubble
                                            ? find_least (options, predictor, name, &report->from, refusal)
                                            : ps_predictor_predict (predictor, name, refusal);

  if (prediction != NULL && ps_predictor_add_interval (predictor, prediction, PS_INTERVAL_STEPS, refusal))
    return take (options, report, g_steal_pointer (&prediction), error);
  g_autofree char *label = options->n_settings > 1 ? g_strdup_printf ("%s with p %u, m %u", name, setting->n_devices,
                                                                      setting->n_microbatches)
                                                   : g_strdup (name);
  skip (report, name, label, *refusal);
  return TRUE;
}

/* Predicts each schedule under each setting. With `all`, several settings, or --bubble and several schedules, one that
 * is refused is skipped with its reason; when none is left, the first reason is the error. */
static gboolean predict (const Options *options, PsPredictor *predictor, Report *report, GError **error)
{
  gboolean all = g_str_equal (options->schedules[0], "all") && options->schedules[1] == NULL;
  gboolean skips = all || options->n_settings > 1 || (options->has_bubble && options->several);
  g_autoptr (GError) first = NULL;

  for (guint i = 0; i < options->n_settings; i++) {
    choose_setting (options, i);
    g_auto (GStrv) names = ps_family_names (options->schedules, options->setting->n_chunks);
    for (guint k = 0; names[k] != NULL && (skips || first == NULL); k++) {
      g_autoptr (GError) refusal = NULL;

      if (!predict_one (report, predictor, names[k], &refusal, error))
        return FALSE;
      if (first == NULL)
        first = g_steal_pointer (&refusal);
    }
  }
  if (first == NULL || (skips && report->about != NULL))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&first));
  return FALSE;
}

/* Fills what follows from the options about samples. */
static gboolean finish_sampling (Options *options, GError **error)
{
  PsSampling *sampling = &options->sampling;
  gboolean varies;

  if (!ps_variation_finish (&options->variation, options->setting, &varies, error))
    return FALSE;
  if (!varies && (sampling->n_samples > 0 || options->has_seed || sampling->n_jobs > 0))
    return ps_refuse (error, PS_ERROR_USAGE, "--samples: nothing varies; give --jitter, --straggler or --slow-link");
  sampling->seed = (guint64)options->seed;
  if (varies && sampling->n_samples == 0)
    sampling->n_samples = DEFAULT_SAMPLES;
  if (sampling->n_jobs == 0)
    sampling->n_jobs = g_get_num_processors ();
  return TRUE;
}

/* The first of each list is the setting that notes are about. */
static gboolean settle (gpointer base, G_GNUC_UNUSED GError **error)
{
  Options *options = base;

  options->n_settings = MAX (options->n_devices, 1) * MAX (options->n_microbatches, 1) * MAX (options->n_chunks, 1);
  choose_setting (options, 0);
  return TRUE;
}

/* What belongs to a single schedule, a single setting, or to no expectation. */
static gboolean check_single (const Options *options, GError **error)
{
  const PsLaunchChoice *launch = &options->launch;
  g_autofree char *to = g_strconcat ("--to ", launch->to, NULL), *output = g_strconcat ("-o ", options->output, NULL);
  gboolean samples = options->sampling.n_samples > 0;
  const struct {
    gboolean given, one_schedule, one_setting;
    const char *option;
  } rows[] = { { launch->to != NULL, TRUE, TRUE, to },
               { options->output != NULL, TRUE, TRUE, output },
               { options->explain, TRUE, TRUE, "--explain" },
               { options->from.print_command, FALSE, FALSE, "--print-command" },
               { options->memory, FALSE, TRUE, "--memory" },
               { samples, FALSE, TRUE, "--samples" },
               { options->print_costs, FALSE, TRUE, "--print-costs" },
               { options->columns.wide || options->columns.columns != NULL, FALSE, FALSE, "--columns, --wide" } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    if (!rows[i].given)
      continue;
    if (options->expects)
      return ps_refuse (error, PS_ERROR_USAGE, "%s: --expect compares time, memory and fits", rows[i].option);
    if (rows[i].one_schedule && options->several)
      return ps_refuse (error, PS_ERROR_USAGE, "%s: is for one schedule, not for several", rows[i].option);
    if (rows[i].one_setting && options->n_settings > 1)
      return ps_refuse (error, PS_ERROR_USAGE, "%s: is for one setting; -p, -m and -v are lists here", rows[i].option);
  }
  return launch->to == NULL || !options->columns.json || ps_refuse (error, PS_ERROR_USAGE, "%s: prints no JSON", to);
}

static gboolean check_options (Options *options, const char *stray, GError **error)
{
  if (stray != NULL)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "'%s': not expected; a schedule goes after --schedule, a launch after --from", stray);
  if (!ps_launch_imply (options->launch.to, options->setting, error) || !ps_setting_check (options->setting, error))
    return FALSE;
  options->several
      = options->schedules != NULL && (options->schedules[1] != NULL || g_str_equal (options->schedules[0], "all"));
  if (options->schedules == NULL && !options->print_costs && options->expect == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--schedule: missing; give a family, a schedule file, or all");
  if (options->has_faster && !options->explain)
    return ps_refuse (error, PS_ERROR_USAGE, "--faster: belongs to --explain");
  if (options->expect == NULL && (options->update || options->has_tolerance))
    return ps_refuse (error, PS_ERROR_USAGE, "--update, --tolerance: belong to --expect");
  if (options->has_bubble && (options->n_microbatches > 1 || options->expects))
    return ps_refuse (error, PS_ERROR_USAGE, "--bubble: finds m; it takes one -m, the largest to try, and no --expect");
  return finish_sampling (options, error) && check_single (options, error)
         && (ps_setting_zero (options->setting) < 3 || (!options->explain && options->sampling.n_samples == 0)
             || ps_refuse (error, PS_ERROR_USAGE, "--zero 3: --explain and --samples know no gathers"));
}

static void print_costs (const PsSetting *setting, GError **error)
{
  if (setting->n_devices == 0) {
    ps_refuse (error, PS_ERROR_USAGE, "-p/--devices: missing; the costs are those of their stages");
    return;
  }
  g_autoptr (PsCosts) costs = ps_setting_costs (setting, setting->n_devices, MAX (setting->n_chunks, 1), error);
  g_autofree char *text = costs != NULL ? ps_partition_costs_to_text (costs) : NULL;
  g_autofree char *line = g_strconcat (text != NULL ? text : "", "\n", NULL);
  if (text != NULL)
    ps_print (line, error);
}

/* Expectations */

/* Predicts a command line of a file once more. */
static gboolean predict_again (const char *path, const char *line, GPtrArray *rows, GError **error)
{
  g_autofree char *whole = g_strconcat ("predict ", line, NULL);
  PsCmd command = ps_cmd_predict;
  g_auto (GStrv) words = NULL;
  int n;

  if (!g_shell_parse_argv (whole, &n, &words, NULL) || g_strv_contains ((const char *const *)words, "--help")
      || g_strv_contains ((const char *const *)words, "-h"))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: command '%s': is no command line that predicts", path, line);
  /* Options are removed from the list of words, which is freed whole. */
  g_autofree char **list = g_memdup2 (words, ((gsize)n + 1) * sizeof *words);
  GError *cause = NULL;
  command.data = rows;
  ps_cmd_run (&command, n, list, &cause);
  if (cause != NULL)
    g_propagate_prefixed_error (error, cause, "%s: predict %s: ", path, line);
  return cause == NULL;
}

/* Predicts the command lines of the file again. Those that fail are left out of the list; the last of them is the
 * error, and the others are printed. */
static gboolean predict_all (const Options *options, GPtrArray *rows, char **commands, GError **error)
{
  guint n = 0;

  for (guint i = 0; commands[i] != NULL; i++) {
    GError *refusal = NULL;

    if (predict_again (options->expect, commands[i], rows, &refusal)) {
      char *done = commands[i];

      commands[i] = commands[n];
      commands[n++] = done;
      continue;
    }
    if (*error != NULL)
      ps_error_report (g_get_prgname (), *error, (char *[]){ NULL, NULL });
    g_clear_error (error);
    g_propagate_error (error, refusal);
  }
  for (char **failed = commands + n; *failed != NULL; failed++)
    g_clear_pointer (failed, g_free);
  return *error == NULL;
}

/* Prints what moved, for each command line with a table. Returns the exit code. */
static int check_moves (const Options *options, const GPtrArray *file, const GPtrArray *rows, char **commands,
                        GError **error)
{
  double tolerance = options->has_tolerance ? options->tolerance : -1;
  g_autoptr (GString) page = g_string_new (NULL);
  PsMoves moves = { 0 };

  if (!ps_expected_holds (file, commands))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: has no prediction of this command line; --update adds it",
                      options->expect);
  if (options->columns.json) {
    g_autoptr (PsTable) table = ps_expected_compare (file, rows, commands, tolerance, TRUE, &moves);

    return ps_table_choose (table, &options->columns, NULL, error)
                   && ps_table_print (table, "pipesim-expect-check/1", NULL, error) && moves.n_beyond > 0
               ? 3
               : 0;
  }
  for (char **command = commands; *command != NULL; command++) {
    g_autoptr (PsTable) table
        = ps_expected_compare (file, rows, (char *[]){ *command, NULL }, tolerance, FALSE, &moves);
    g_autofree char *text = ps_table_to_text (table), *line = g_strconcat ("pipesim predict ", *command, NULL);
    g_autofree char *head = ps_fit_sentence (line, 0);

    if (ps_table_n_rows (table) > 0)
      g_string_append_printf (page, "%s%s", head, text);
  }
  g_string_append_printf (page, "%s: %u prediction%s; figures that moved: %u too far%s, %u within their tolerance\n",
                          options->expect, rows->len, rows->len == 1 ? "" : "s", moves.n_beyond,
                          moves.n_beyond > 0 ? " (--update writes the new ones)" : "", moves.n_within);
  return ps_print (page->str, error) && moves.n_beyond > 0 ? 3 : 0;
}

/* Checks the file, or writes it. Returns the exit code. */
static int expect (const Options *options, GError **error)
{
  double tolerance = options->has_tolerance ? options->tolerance : -1;
  g_autofree char *own = ps_expected_command (options->words), *text = NULL;
  g_autoptr (GPtrArray) file = NULL, rows = ps_expected_new ();
  gboolean is_new = options->update && !g_file_test (options->expect, G_FILE_TEST_EXISTS);
  g_auto (GStrv) commands = NULL;
  gsize length;

  if (!g_file_test (options->expect, G_FILE_TEST_EXISTS) && (!options->update || *own == '\0'))
    return ps_refuse (error, PS_ERROR_IO,
                      "--expect %s: no such file; the options of a prediction and --update write it", options->expect);
  if (is_new)
    file = ps_expected_new ();
  else if (ps_read_file (options->expect, &text, &length, error))
    file = ps_expected_parse (options->expect, text, (gssize)length, error);
  if (file == NULL)
    return 0;
  commands = *own != '\0' ? g_strsplit (own, "\n", 1) : ps_expected_commands (file);
  if (!predict_all (options, rows, commands, error) && (options->update || commands[0] == NULL))
    return 0;
  guint n = rows->len;
  if (!options->update)
    return check_moves (options, file, rows, commands, *error == NULL ? error : NULL);
  ps_expected_update (file, rows, commands, tolerance);
  g_autofree char *json = ps_expected_to_json (file);
  if (ps_write_file (options->expect, json, -1, error))
    g_printerr ("%s: %u prediction%s written, %u in all\n", options->expect, n, n == 1 ? "" : "s", file->len);
  return 0;
}

/* The command */

/* data of the command: a list that predictions are added to as PsExpected, in place of a table. */
static int run (const PsCmd *command, gpointer base, int argc, char **argv, GError **error)
{
  Options *options = base;

  options->expects = options->expect != NULL || command->data != NULL;
  if (!check_options (options, argc > 1 ? argv[1] : NULL, error))
    return 0;
  if (options->expect != NULL && command->data == NULL)
    return expect (options, error);
  if (options->print_costs) {
    print_costs (options->setting, error);
    return 0;
  }
  g_autoptr (PsPredictor) predictor = ps_predictor_new (options->setting, NULL); /* outlives the rows' predictions */
  g_auto (Report) report = { 0 };
  g_autofree char *own = ps_expected_command (options->words);

  report.expected = (GPtrArray *)command->data;
  report.command = own;
  /* Text of --to or a timeline on stdout is the data; the table would spoil it. */
  if (!report_init (&report, options, error) || !predict (options, predictor, &report, error))
    return 0;
  if (report.expected != NULL)
    print_skipped (&report);
  else if (options->launch.to == NULL && g_strcmp0 (options->output, "-") != 0)
    print_report (&report, error);
  return 0;
}

static void clear (gpointer options)
{
  g_free (((Options *)options)->variation.slowness);
}

const PsCmd ps_cmd_predict = {
  .help = {
    .summary = "Simulates schedules: time, bubble, memory, and a bound that no order of the same ops can beat.",
    .text
    = "bubble of iteration = 1 - busy time / (p * iteration time)\n"
      "bubble of span = 1 - (busy time / p) / longest span of a device\n"
      "first token: mean time from the start until a prompt of --serve prefill is in; tokens/s: of an iteration\n"
      "tokens/s, MFU (pipesim plan --help): of all GPUs, with a model on a cluster; columns of --wide\n"
      "p10-p90: 80 of 100 runs of 5 steps at other times have a median iteration time in between (measured costs)\n",
    .examples = "pipesim predict -s all -p 4 -m 8 --costs f=1ms,b=1ms,w=1ms,c=100us,act=2MiB,wact=1MiB\n"
                "pipesim predict -s 1f1b,zb-h1 -p 4 -m 32 --model llama-3-70b --cluster h100-80gb --tensor 8 --memory\n"
                "pipesim predict -s zb-h1 -p 4 -m 8 --costs f=1ms,b=1ms,w=1ms -o zb-h1.json --explain\n"
                "pipesim predict -s 1F1B,ZBVZeroBubble -p 4,8 -m 16,32 --costs f=1ms,b=1ms,w=1ms\n"
                "pipesim predict -s 1f1b,interleaved -p 4 --costs f=1ms,b=1ms,w=1ms --bubble 0.05\n"
                "pipesim predict -s 1f1b -p 4 -m 8 --costs f=1ms,b=1ms,w=1ms --expect expected.json --update\n"
                "pipesim predict --expect expected.json\n",
  },
  .rows = rows,
  .size = sizeof (Options),
  .setting = offsetof (Options, setting),
  .words = offsetof (Options, words),
  .settle = settle,
  .run = run,
  .clear = clear,
};
