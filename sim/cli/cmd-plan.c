/* cmd-plan.c - pipesim plan: how to train a model on a number of GPUs. */
#include "cli.h"

#include <pipesim/costdb.h>
#include <pipesim/plan.h>

#include <math.h>
#include <string.h>

#define MAX_TOP 1000
#define USUAL_TOP 10
#define MAX_PRICE 1e9
#define MAX_DAYS 36525

typedef struct {
  char *reserve;
  gboolean every;
  guint rank; /* --explain; 0: not given */
  PsLaunchChoice launch;
  PsColumnChoice columns;
  PsLayoutQuestion question; /* its texts are owned; without cluster and n_gpus */
  char **clusters;
  guint *gpus;
  guint n_gpus; /* numbers in gpus */
  char *tokens;
  gboolean has_step;
  char **prices;
  PsFromChoice from;
} Options;

static const PsOption rows[] = {
  PS_OPTION_INCLUDE (Options, from, ps_from_rows),
  PS_OPTION ("cluster", 0, PS_LIST (Options, clusters), "FILE,...",
             "Cluster descriptions or their names; memory and peak rate come from them, and without --db all costs. "
             "Several are compared",
             .group = PS_GROUP_MACHINE, .otherwise = ""),
  PS_OPTION ("gpus", 'g', PS_COUNTS (Options, gpus, n_gpus, 1, PS_MAX_GPUS), "N,...",
             "GPUs, p times t times c times d; several numbers are compared",
             .otherwise = "all of the cluster; the fewest with --target-step or --days", .group = PS_GROUP_WHAT),
  PS_OPTION ("target-step", 0, PS_TIME (Options, question.slowest_ns), "T",
             "Find the fewest GPUs on which a step takes at most T", .given = PS_MEMBER (Options, has_step, gboolean),
             .otherwise = "none", .group = PS_GROUP_WHAT),
  PS_OPTION ("tokens", 0, PS_TEXT (Options, tokens), "N",
             "Tokens of the whole training, 15T or 300B (B: 10^9): print the days that it takes",
             .group = PS_GROUP_WHAT),
  PS_OPTION ("days", 0, PS_NUMBER (Options, question.days, 0.01, MAX_DAYS), "N",
             "Find the fewest GPUs that train --tokens in so many days", .otherwise = "none", .group = PS_GROUP_WHAT),
  PS_OPTION (
      "price", 0, PS_LIST (Options, prices), "[CLUSTER=]PRICE/h,...",
      "Price of a GPU per hour, 2.1/h for all or h100-80gb=2.1/h,h200-141gb=3.2/h: print money, and compare by it",
      .group = PS_GROUP_OUTPUT),
  PS_OPTION ("tensor", 0, PS_COUNT (Options, question.tensor, 1, PS_MAX_TENSOR), "T", "GPUs of a device",
             .otherwise = "1, 2, 4 and 8, within a node", .group = PS_GROUP_TRAINING),
  PS_OPTION ("context", 0, PS_COUNT (Options, question.context, 1, PS_MAX_GPUS), "C",
             "Groups of --tensor GPUs that share each sequence", .otherwise = "1, and more where sequences are long",
             .group = PS_GROUP_TRAINING),
  PS_OPTION ("experts", 0, PS_COUNT (Options, question.experts, 1, PS_MAX_GPUS), "E", "GPUs that share the experts",
             .otherwise = "1, 8, 16, 32 and 64, as the experts allow", .group = PS_GROUP_TRAINING),
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
             .otherwise = "10; 1 of each cluster and number of GPUs where several are compared, or of the fewest",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("every", 0, PS_FLAG (Options, every), NULL,
             "Print every setting of a layout (p, t, c, e, d), not only the fastest", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("explain", 0, PS_COUNT (Options, rank, 1, MAX_TOP), "RANK",
             "Print the command line that predicts the layout of this rank again", .group = PS_GROUP_OUTPUT,
             .otherwise = "none"),
  { .name = "",
    .type = PS_OPTION_ROWS,
    .offset = offsetof (Options, question.given),
    .rows = ps_setting_options,
    .only = PS_FIELD_ALIKE },
  PS_OPTION_INCLUDE (Options, launch, ps_launch_rows),
  PS_OPTION_TABLE (Options, columns, "pipesim-plan/1"),
  PS_OPTION_END,
};

/* A layout, and what follows from it. */
typedef struct {
  guint rank, gpus, zero, n_runners;
  PsLayout layout;
  double days, money_per_step, money; /* 0: not known */
  const char *cluster, *recompute, *confidence;
  char *slices, *runs_in, *command;
} Row;

static const PsCellColumn columns[] = {
  PS_CELL (Row, rank, "rank", "rank", INTEGER),
  PS_CELL (Row, cluster, "cluster", "cluster", TEXT), /* these with a heading where new_table gives one */
  PS_CELL (Row, gpus, "gpus", "GPUs", INTEGER),
  PS_FIGURE_AT (Row, layout.schedule, "schedule"),
  PS_CELL (Row, layout.asynchronous, "asynchronous", NULL, BOOLEAN), /* with a heading where a schedule is */
  PS_FIGURE_AT (Row, layout.setting.n_devices, "devices"),
  PS_CELL (Row, layout.setting.n_tensor, "tensor", "t", INTEGER),
  PS_CELL (Row, layout.setting.n_context, "context", "c", INTEGER),
  PS_CELL (Row, layout.setting.n_experts, "experts", "e", INTEGER),
  PS_CELL (Row, layout.setting.n_replicas, "replicas", "d", INTEGER),
  PS_CELL (Row, layout.microbatch_size, "microbatch_size", "b", INTEGER),
  PS_FIGURE_AT (Row, layout.setting.n_microbatches, "microbatches"),
  PS_FIGURE_AT (Row, layout.setting.n_chunks, "chunks"),
  PS_CELL (Row, slices, "slices", NULL, TEXT), /* the same where slices are of even work */
  PS_CELL (Row, recompute, "recompute", "recompute", TEXT),
  PS_CELL (Row, zero, "zero", "ZeRO", INTEGER),
  PS_CELL (Row, layout.step_ns, "step_ns", "step", TIME),
  PS_CELL_KNOWN (Row, days, "days", "days", NUMBER),
  PS_CELL_KNOWN (Row, money, "money", "money", NUMBER),
  PS_CELL_KNOWN (Row, money_per_step, "money_per_step", "money/step", NUMBER),
  PS_CELL (Row, layout.tokens_per_second, "tokens_per_second", "tokens/s", NUMBER),
  PS_CELL (Row, layout.mfu, "mfu", "MFU", RATIO),
  PS_FIGURE_AT (Row, layout.bubble_ratio, "bubble_ratio"),
  PS_FIGURE_AT (Row, layout.peak_memory_bytes, "peak_memory_bytes"),
  PS_CELL (Row, layout.near, "near", "within 1 %", TEXT),
  PS_CELL_SET ("not_run", NULL, BOOLEAN), /* by the framework that was asked for */
  PS_CELL (Row, layout.costs_origin, "costs_origin", "costs", TEXT),
  PS_CELL (Row, confidence, "confidence", "confidence", TEXT),
  PS_CELL (Row, n_runners, "n_runs_in", "runs in", INTEGER),
  PS_CELL (Row, runs_in, "runs_in", "frameworks", TEXT),
  PS_FIGURE_AT (Row, layout.setting.layout, "layout"),
  PS_CELL (Row, layout.setting.profile, "profile", NULL, TEXT),
  PS_CELL (Row, command, "command", NULL, TEXT),
};

static const char *const wide[] = { "zero", "bubble_ratio", "costs_origin", "confidence", "runs_in", NULL };

/* A question of one cluster and, unless it asks for the fewest, one number of GPUs; and what was found. */
typedef struct {
  PsLayoutQuestion question;
  double price; /* per GPU and hour; 0: not given */
  PsLayouts *layouts;
} Answer;

static void answer_clear (gpointer data)
{
  ps_layouts_free (((Answer *)data)->layouts);
}

#define ANSWER(answers, i) (&g_array_index (answers, Answer, i))

/* Options */

static gboolean asks_for_fewest (const Options *options)
{
  return options->question.slowest_ns > 0 || options->question.days > 0;
}

static gboolean is_comparison (const Options *options)
{
  return g_strv_length (options->clusters) > 1 || options->n_gpus > 1 || asks_for_fewest (options);
}

static gboolean check_options (const Options *options, GError **error)
{
  const PsLayoutQuestion *question = &options->question;
  const char *message = NULL;

  if (options->has_step && question->slowest_ns == 0)
    message = "--target-step: '0' is no time of a step";
  else if (options->has_step && question->days > 0)
    message = "--target-step, --days: give one of them; both say how long a step may take";
  else if (asks_for_fewest (options) && options->n_gpus > 0)
    message = "-g/--gpus: leave it out with --target-step or --days, which find the fewest GPUs";
  else if (options->rank > 0 && options->columns.json)
    message = "--explain and --json: the JSON holds all command lines";
  if (message != NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "%s", message);
  return options->launch.to == NULL || g_strv_length (options->clusters) < 2
         || ps_refuse (error, PS_ERROR_USAGE, "--to %s: a launch is for one cluster, and --cluster names %u",
                       options->launch.to, g_strv_length (options->clusters));
}

static gboolean finish_options (Options *options, GError **error)
{
  PsLayoutQuestion *question = &options->question;

  if (options->clusters == NULL)
    options->clusters = g_new0 (char *, 1);
  if (question->schedules != NULL) {
    g_auto (GStrv) asked = question->schedules;

    question->schedules = ps_family_names (asked, 0);
  }
  if (options->tokens != NULL && !ps_parse_tokens ("--tokens", options->tokens, &question->tokens, error))
    return FALSE;
  question->fold = !options->every;
  question->reserve = question->memory_limit > 0 ? 0 : PS_LAYOUT_USUAL_RESERVE;
  if (options->reserve != NULL && !ps_parse_size ("--reserve", options->reserve, &question->reserve, error))
    return FALSE;
  if (question->n_jobs == 0)
    question->n_jobs = g_get_num_processors ();
  if (question->top == 0)
    question->top = is_comparison (options) ? 1 : USUAL_TOP;
  if (!ps_launch_imply (options->launch.to, &question->given, error))
    return FALSE;
  question->runner = options->launch.to;
  if (question->runner == NULL && question->given.framework != PS_FRAMEWORK_NONE)
    question->runner = ps_framework_name (
        ps_framework_is_megatron (question->given.framework) ? PS_FRAMEWORK_MEGATRON : question->given.framework);
  return check_options (options, error);
}

/* Reads "2.1/h", or "NAME=2.1/h", as the price of the clusters without a name or of the one of that name. */
static gboolean read_price (const char *text, const GArray *answers, GError **error)
{
  const char *equals = strrchr (text, '='), *number = equals != NULL ? equals + 1 : text;
  g_autofree char *name = g_strndup (text, equals != NULL ? (gsize)(equals - text) : 0);
  g_autofree char *amount = g_str_has_suffix (number, "/h") ? g_strndup (number, strlen (number) - 2) : NULL;
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  gboolean found = FALSE;
  double price = 0;

  if (amount == NULL || !ps_parse_number ("--price", amount, 0, MAX_PRICE, &price, NULL) || price <= 0)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--price: '%s' is no price per GPU and hour; 2.1/h or h100-80gb=2.1/h would be right", text);
  for (guint i = 0; i < answers->len; i++) {
    Answer *answer = ANSWER (answers, i);

    g_ptr_array_add (names, (gpointer)answer->question.given.cluster);
    if (equals == NULL ? answer->price > 0 : !g_str_equal (answer->question.given.cluster, name))
      continue;
    answer->price = price;
    found = TRUE;
  }
  g_autofree char *problem = g_strdup_printf ("--price: '%s' is none of the clusters", name);
  return found || equals == NULL
         || ps_refuse_name (error, problem, name, (const char *const *)names->pdata, names->len);
}

/* Prices with a name count before those without one. */
static gboolean read_prices (const Options *options, const GArray *answers, GError **error)
{
  for (guint named = 0; named < 2; named++)
    for (char **price = options->prices; price != NULL && *price != NULL; price++)
      if ((strchr (*price, '=') == NULL) == named && !read_price (*price, answers, error))
        return FALSE;
  for (guint i = 0; options->prices != NULL && i < answers->len; i++)
    if (ANSWER (answers, i)->price <= 0)
      return ps_refuse (error, PS_ERROR_USAGE, "--price: there is none of cluster '%s'",
                        ANSWER (answers, i)->question.given.cluster);
  return TRUE;
}

/* One for each cluster and number of GPUs, without what is found. */
static GArray *list_answers (const Options *options)
{
  GArray *answers = g_array_new (FALSE, TRUE, sizeof (Answer));
  Answer answer = { .question = options->question };

  g_array_set_clear_func (answers, answer_clear);
  for (guint i = 0; i < MAX (g_strv_length (options->clusters), 1); i++)
    for (guint k = 0; k < MAX (options->n_gpus, 1); k++) {
      answer.question.given.cluster = options->clusters[i];
      answer.question.n_gpus = options->n_gpus > 0 ? options->gpus[k] : 0;
      g_array_append_val (answers, answer);
    }
  return answers;
}

/* Rows */

static double step_money (const Answer *answer, const PsLayout *layout)
{
  return (double)layout->step_ns / 3600e9 * answer->layouts->n_gpus * answer->price;
}

/* A layout of an answer. */
typedef struct {
  const Answer *answer;
  const PsLayout *layout;
} Found;

/* What an answer has after those that run; the cheapest first, or those on the fewest GPUs, or the fastest. */
static int compare_found (gconstpointer a, gconstpointer b)
{
  const Found *x = a, *y = b;
  double x_money = step_money (x->answer, x->layout), y_money = step_money (y->answer, y->layout);

  if (x->layout->not_run != y->layout->not_run)
    return x->layout->not_run ? 1 : -1;
  if (x_money != y_money)
    return PS_COMPARE (x_money, y_money);
  if (x->answer->layouts->slowest_ns > 0 && x->answer->layouts->n_gpus != y->answer->layouts->n_gpus)
    return PS_COMPARE (x->answer->layouts->n_gpus, y->answer->layouts->n_gpus);
  return PS_COMPARE (x->layout->step_ns, y->layout->step_ns);
}

/* The rows of the table, in their order: Found. Free with g_array_unref. */
static GArray *list_found (const GArray *answers)
{
  GArray *found = g_array_new (FALSE, FALSE, sizeof (Found));

  for (guint i = 0; i < answers->len; i++) {
    const GArray *best = ANSWER (answers, i)->layouts->best;

    for (guint k = 0; k < best->len; k++) {
      const Found one = { ANSWER (answers, i), &g_array_index (best, PsLayout, k) };

      g_array_append_val (found, one);
    }
  }
  if (answers->len > 1)
    g_array_sort (found, compare_found);
  return found;
}

/* "megatron, pytorch, pipesim"; pipesim where its devices run all that the layout says. */
static char *find_runners (const PsLayout *layout)
{
  PsSetting setting = layout->setting;
  g_autofree char *names = ps_launch_runs_in (&setting, layout->schedule);

  setting.replicas_adjacent = FALSE; /* where they are is of no concern to devices */
  if (ps_setting_zero (&setting) >= 2
      || !ps_setting_refuse (&setting, PS_FIELD_NOT_RUN | PS_FIELD_NOT_COMPUTED | PS_FIELD_SHARED, NULL, NULL))
    return g_steal_pointer (&names);
  return g_strconcat (names, *names ? ", " : "", "pipesim", NULL);
}

/* Without rows. The columns of a comparison have a heading in one alone. */
static PsTable *new_table (const Options *options)
{
  PsTable *table = ps_table_of (columns, G_N_ELEMENTS (columns), NULL, 0, 0);
  const gboolean has_tokens = options->tokens != NULL, has_price = options->prices != NULL;
  const struct {
    const char *key, *title;
    gboolean shown;
  } titles[] = { { "cluster", "cluster", g_strv_length (options->clusters) > 1 },
                 { "gpus", "GPUs", is_comparison (options) },
                 { "days", "days", has_tokens },
                 { "money", "money", has_tokens && has_price },
                 { "money_per_step", "money/step", has_price && !has_tokens } };

  for (guint i = 0; i < G_N_ELEMENTS (titles); i++)
    ps_table_set_title (table, titles[i].key, titles[i].shown ? titles[i].title : NULL);
  return table;
}

static void add_row (const Options *options, const Found *found, guint rank, PsTable *table)
{
  const PsLayoutQuestion *question = &found->answer->question;
  const PsLayouts *layouts = found->answer->layouts;
  const PsLayout *layout = found->layout;
  const double steps = (double)question->tokens / (double)layouts->step_tokens;
  const double money = step_money (found->answer, layout);
  g_autofree char *command = ps_layout_command (layout);
  g_autofree char *runs_in = find_runners (layout);
  g_auto (GStrv) runners = g_strsplit (runs_in, ",", -1);
  g_autofree char *slices
      = layout->setting.even_work ? g_strdup_printf ("even-work:%u", layout->setting.n_slices) : NULL;

  if (slices != NULL)
    ps_table_set_title (table, "slices", "slices");
  if (layout->asynchronous)
    ps_table_set_title (table, "asynchronous", "async");
  ps_table_add (table, &(Row){ .rank = rank,
                               .cluster = layouts->cluster,
                               .gpus = layouts->n_gpus,
                               .layout = *layout,
                               .days = steps * (double)layout->step_ns / 86400e9,
                               .money_per_step = money,
                               .money = steps * money,
                               .zero = ps_setting_zero (&layout->setting),
                               .recompute = ps_recompute_name (layout->setting.recompute),
                               .confidence = ps_confidence_name (layout->confidence),
                               .n_runners = *runs_in ? g_strv_length (runners) : 0,
                               .slices = slices,
                               .runs_in = *runs_in ? runs_in : NULL,
                               .command = command });
  if (options->question.runner != NULL)
    ps_table_set_boolean (table, "not_run", layout->not_run);
}

/* The rows from `first` on, below `end`. */
static PsTable *make_table (const Options *options, const GArray *found, guint first, guint end)
{
  PsTable *table = new_table (options);

  for (guint i = first; i < end; i++)
    add_row (options, &g_array_index (found, Found, i), i + 1, table);
  ps_table_choose (table, &options->columns, wide, NULL);
  return table;
}

/* What is said of an answer. Each is free with g_free. */

/* "memory: 69.57 GiB of 79.18 GiB; ..." */
static char *describe_memory (const Answer *answer)
{
  const PsLayouts *layouts = answer->layouts;
  g_autofree char *limit = ps_format_size (layouts->memory_limit), *reserve = ps_format_size (layouts->reserve);
  g_autofree char *all = ps_format_size (layouts->memory_limit + layouts->reserve);

  return layouts->reserve == 0
             ? g_strdup_printf ("memory: all of %s; no reserve for driver, NCCL, fragmentation", all)
             : g_strdup_printf ("memory: %s of %s; the reserve of %s is for driver, NCCL, fragmentation and errors of "
                                "prediction",
                                limit, all, reserve);
}

static char *describe_search (const Answer *answer)
{
  const PsLayouts *layouts = answer->layouts;
  g_autofree char *limit = ps_format_size (layouts->memory_limit);
  g_autofree char *zero
      = answer->question.given.db == NULL ? g_strdup_printf (", ZeRO %u alone", answer->question.zero) : g_strdup ("");

  return g_strdup_printf ("%" G_GUINT64_FORMAT " settings%s: %" G_GUINT64_FORMAT
                          " predicted to fit %s, %" G_GUINT64_FORMAT " predicted not to, %" G_GUINT64_FORMAT
                          " that cannot fit, %" G_GUINT64_FORMAT " that cannot be among the best, %" G_GUINT64_FORMAT
                          " impossible",
                          layouts->n_settings, zero, layouts->n_fit, limit, layouts->n_too_large, layouts->n_hopeless,
                          layouts->n_outrun, layouts->n_impossible);
}

static char *describe_formula (const Answer *answer)
{
  const PsLayouts *layouts = answer->layouts;

  return g_strdup_printf ("MFU = %.6g FLOPs of F, B and W per step / (step * %u GPUs * %.6g FLOP/s, the cluster's %s); "
                          "PaLM, arXiv 2204.02311, appendix B, with the scores that a causal mask leaves out",
                          layouts->step_flops, layouts->n_gpus, layouts->peak_flops, layouts->peak_key);
}

static char *describe_unrest (const Answer *answer)
{
  return ps_unrest_to_text (answer->layouts->unrest, "");
}

/* NULL where the costs are measured, or there are no layouts. */
static char *describe_errors (const Answer *answer)
{
  const GArray *best = answer->layouts->best;
  const char *runner = answer->question.runner;
  g_autofree char *text = best->len > 0 ? ps_describe_errors (&g_array_index (best, PsLayout, 0).setting) : NULL;

  return text != NULL && runner != NULL && g_str_has_prefix (runner, "torchtitan")
             ? g_strconcat (text, "; " PS_TITAN_RUNS, NULL)
             : g_steal_pointer (&text);
}

/* NULL where the fewest GPUs are not asked for. */
static char *describe_fewest (const Answer *answer)
{
  const PsLayouts *layouts = answer->layouts;
  g_autofree char *slowest = ps_format_time (layouts->slowest_ns);

  return layouts->slowest_ns == 0 || layouts->best->len == 0
             ? NULL
             : g_strdup_printf ("%u GPUs are the fewest whose step takes at most %s; numbers tried: %u",
                                layouts->n_gpus, slowest, layouts->n_sizes);
}

/* Why an answer has no layouts; NULL: it has. */
static char *describe_failure (const Answer *answer)
{
  const PsLayouts *layouts = answer->layouts;
  g_autofree char *state = ps_format_size (layouts->state_bytes), *search = describe_search (answer);
  g_autofree char *slowest = ps_format_time (layouts->slowest_ns);

  if (layouts->best->len > 0)
    return NULL;
  return layouts->slowest_ns > 0
             ? g_strdup_printf ("no number of GPUs up to %u has a step of at most %s within memory; numbers tried: %u",
                                layouts->n_gpus, slowest, layouts->n_sizes)
         : layouts->n_impossible == layouts->n_settings
             ? g_strdup_printf (
                 "no setting is possible on %u GPUs: d times b has to divide the batch of %" G_GINT64_FORMAT
                 ", p t c d has to be %u, and stages and their matrices have to take p and t; %s",
                 layouts->n_gpus, answer->question.global_batch, layouts->n_gpus, search)
             : g_strdup_printf ("no setting fits on %u GPUs; weights, gradients and optimizer state alone are %s; %s",
                                layouts->n_gpus, state, search);
}

/* What a function says of all answers: the text alone where there is one, else a line for each with the cluster before
 * it, equal ones once. "": nothing. Free with g_free. */
static char *describe (const GArray *answers, char *(*say) (const Answer *answer))
{
  g_autoptr (GPtrArray) lines = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; i < answers->len; i++) {
    const Answer *answer = ANSWER (answers, i);
    g_autofree char *text = say (answer);
    g_autofree char *line = NULL;

    if (text == NULL || *text == '\0')
      continue;
    line = answers->len == 1 ? g_steal_pointer (&text) : g_strconcat (answer->layouts->cluster, ": ", text, NULL);
    if (!g_ptr_array_find_with_equal_func (lines, line, g_str_equal, NULL))
      g_ptr_array_add (lines, g_steal_pointer (&line));
  }
  g_ptr_array_add (lines, NULL);
  return g_strjoinv ("\n", (char **)lines->pdata);
}

/* Printing */

/* "simulated from modelled costs (confidence low): ..." */
static char *describe_about (const Options *options, const GArray *answers, const GArray *found)
{
  const char *order = options->prices != NULL     ? "the least money first"
                      : asks_for_fewest (options) ? "the fewest GPUs first"
                                                  : "the fastest first";
  const Answer *answer = ANSWER (answers, 0);
  const PsLayouts *layouts = answer->layouts;
  g_autofree char *more = ps_cluster_lacks (layouts->n_there, layouts->n_gpus);
  g_autofree char *where = g_strdup_printf (" on %u GPUs of %s%s", layouts->n_gpus, layouts->cluster, more);
  const guint given = answer->question.given.sequence;
  g_autofree char *length = given > 0 ? g_strdup_printf (" of %u tokens", given) : g_strdup ("");
  PsConfidence confidence = PS_CONFIDENCE_HIGH;

  for (guint i = 0; i < found->len; i++)
    confidence = MIN (confidence, g_array_index (found, Found, i).layout->confidence);
  return g_strdup_printf ("simulated from %s costs (confidence %s): %s%s, %" G_GINT64_FORMAT
                          " sequences%s per step%s%s",
                          g_array_index (found, Found, 0).layout->costs_origin, ps_confidence_name (confidence),
                          layouts->model, answers->len == 1 ? where : "", answer->question.global_batch, length,
                          answers->len > 1 ? ", " : "", answers->len > 1 ? order : "");
}

/* What days and money are; "": neither is shown. Free with g_free. */
static char *describe_totals (const Options *options, const GArray *answers)
{
  const PsLayouts *layouts = ANSWER (answers, 0)->layouts;
  g_autoptr (GString) text = g_string_new (NULL);

  if (options->tokens != NULL)
    g_string_append_printf (text, "days%s of %s tokens: %.0f steps of %" G_GINT64_FORMAT " tokens, without a break",
                            options->prices != NULL ? " and money" : "", options->tokens,
                            ceil ((double)options->question.tokens / (double)layouts->step_tokens),
                            layouts->step_tokens);
  if (options->prices != NULL) {
    g_autofree char *prices = g_strjoinv (", ", options->prices);

    g_string_append_printf (text, "%smoney = hours * GPUs * price (%s)", text->len > 0 ? "; " : "", prices);
  }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static gboolean print_plan (const Options *options, const GArray *answers, const GArray *found, GError **error)
{
  g_autofree char *about = describe_about (options, answers, found), *fewest = describe (answers, describe_fewest);
  g_autofree char *totals = describe_totals (options, answers), *failures = describe (answers, describe_failure);
  g_autofree char *memory = describe (answers, describe_memory), *search = describe (answers, describe_search);
  g_autofree char *flops = describe (answers, describe_formula), *unrest = describe (answers, describe_unrest);
  g_autofree char *errors = describe (answers, describe_errors);
  const char *runner = options->question.runner;
  const struct {
    const char *key, *text;
    gboolean always, printed; /* in JSON, where it is empty too; for people */
  } parts[] = { { "about", about, TRUE, TRUE },
                { "fewest", fewest, FALSE, TRUE },
                { "failures", failures, FALSE, TRUE },
                { "memory", memory, TRUE, TRUE },
                { "search", search, TRUE, answers->len == 1 },
                { "formula", flops, TRUE, answers->len == 1 },
                { "totals", totals, FALSE, TRUE },
                { "machine", unrest, TRUE, TRUE },
                { "interval", errors, FALSE, TRUE } };
  const char *extra[2 * G_N_ELEMENTS (parts) + 3] = { "origin", ps_origin_name (PS_ORIGIN_SIMULATED) };
  guint n_extra = 2;
  g_autoptr (GString) page = g_string_new (NULL);
  guint n = found->len, n_run = 0;

  while (n_run < n && !g_array_index (found, Found, n_run).layout->not_run)
    n_run++;
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++) {
    if (parts[i].printed && *parts[i].text)
      g_string_append_printf (page, "%s%s%s", i > 0 ? "\n" : "", parts[i].text == errors ? "interval: " : "",
                              parts[i].text);
    if (!parts[i].always && !*parts[i].text)
      continue;
    extra[n_extra++] = parts[i].key;
    extra[n_extra++] = parts[i].text;
  }
  g_autoptr (PsTable) table = make_table (options, found, 0, options->columns.json ? n : n_run);
  if (options->columns.json)
    return ps_table_print (table, "pipesim-plan/1", extra, error);
  g_autofree char *fitted = ps_fit_sentence (page->str, 0);
  g_autofree char *text = n_run > 0 ? ps_table_to_text (table) : g_strdup_printf ("%s runs nothing of this\n", runner);
  g_string_append (g_string_assign (page, fitted), text);
  if (n_run < n) {
    g_autoptr (PsTable) others = make_table (options, found, n_run, n);
    g_autofree char *rest = ps_table_to_text (others);

    g_string_append_printf (
        page, "%s does not run these: only what --wide names under frameworks does, or a CSV for PyTorch's runtime\n%s",
        runner, rest);
  }
  if (options->launch.to != NULL && n_run > 0)
    g_string_append (page, "--explain RANK prints the launch of a row\n");
  return ps_print (page->str, error);
}

/* Prints the launch, or the command line, of the row of --explain. */
static gboolean explain (const Options *options, const GArray *found, GError **error)
{
  if (options->rank > found->len)
    return ps_refuse (error, PS_ERROR_USAGE, "--explain: '%u' is after the last, %u", options->rank, found->len);
  const Found *row = &g_array_index (found, Found, options->rank - 1);
  g_autofree char *text = NULL;
  if (options->launch.to != NULL) {
    const PsSetting *setting = &row->layout->setting;
    g_autoptr (PsPrediction) prediction = ps_predict (setting, row->layout->schedule, error);

    if (prediction != NULL)
      text = ps_launch_prediction (&options->launch, setting, row->layout->schedule, prediction, error);
  } else {
    g_autofree char *command = ps_layout_command (row->layout);

    text = g_strconcat (command, "\n", NULL);
  }
  return text != NULL && ps_print (text, error);
}

static gboolean find_all (const Options *options, const GArray *answers, GError **error)
{
  for (guint i = 0; i < answers->len; i++) {
    Answer *answer = ANSWER (answers, i);
    const PsLayoutQuestion *question = &answer->question;

    if (i == 0 || question->given.cluster != ANSWER (answers, i - 1)->question.given.cluster)
      ps_note_assumed (&question->given);
    answer->layouts
        = asks_for_fewest (options) ? ps_layouts_find_least (question, error) : ps_layouts_find (question, error);
    if (answer->layouts == NULL)
      return FALSE;
  }
  return TRUE;
}

static int run (G_GNUC_UNUSED const PsCmd *command, gpointer base, int argc, char **argv, GError **error)
{
  Options *options = base;

  if (argc > 1)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s': not expected; the model goes after --model, a launch after --from",
                      argv[1]);
  if (!finish_options (options, error))
    return 0;
  g_autoptr (PsTable) table = new_table (options);
  g_autoptr (GArray) answers = list_answers (options);
  if (!ps_table_choose (table, &options->columns, wide, error) || !read_prices (options, answers, error))
    return 0;
  ps_note_unread (options->question.given.model);
  if (!find_all (options, answers, error))
    return 0;
  g_autoptr (GArray) found = list_found (answers);
  if (found->len == 0) /* what would have to fit */
  {
    const PsLayouts *layouts = ANSWER (answers, 0)->layouts;
    g_autofree char *failures = g_strdelimit (describe (answers, describe_failure), "\n", ';');

    ps_refuse (error, PS_ERROR_SCHEDULE, "%s%s%s: %s", layouts->model, answers->len == 1 ? " on " : "",
               answers->len == 1 ? layouts->cluster : "", failures);
  } else if (options->rank)
    explain (options, found, error);
  else
    print_plan (options, answers, found, error);
  return 0;
}

const PsCmd ps_cmd_plan = {
  .help = {
  .summary = "Finds the fastest settings to train a model on a number of GPUs within memory. All simulated.",
  .text
  = "Tries pipelines of p devices of t c GPUs each (tensor and sequence parallelism, contexts) in "
    "d = GPUs / (p t c) replicas, experts over e of the GPUs of a device and its replicas, microbatches of "
    "b = 1, 2, 4, 8 and 16 sequences, recomputation, schedules and, where a schedule takes any number, v chunks "
    "per device. A single device (p = 1) has no pipeline: the fastest schedule stands for all, which may hide a "
    "part of the all-reduce. A row is the fastest setting of its p, t, c, e and d. With --db it is one pipeline of "
    "all GPUs without replicas; all profiles of the model count unless --profile names one.\n\n"
    "within 1 % = other schedules of the same p, t, c, e and d whose step takes at most 1 % longer\n"
    "runs in = number of frameworks that have the schedule by a name of their own and take the setting, which --wide "
    "names; pipesim exec is one, where it runs the layout. With --framework or --to ranks begin with what that "
    "framework runs; --to with --explain prints the launch of that rank\n"
    "step = iteration time, all-reduce of the gradients over the replicas included\n"
    "peak memory = of a GPU\n"
    "MFU = FLOPs of the model per step / (step * GPUs * peak rate of a GPU in the model's precision); the FLOPs "
    "are those of F, B and W; recomputation does not count, scores that a causal mask leaves out do (Chowdhery et al., PaLM, "
    "arXiv 2204.02311, appendix B; Megatron-LM's log counts half of the scores)\n"
    "confidence = high: all costs were measured; medium: some of them lie between measured ones, or are modelled "
    "and the line that begins with interval has published runs of the class; low: modelled, and it has none\n",
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
