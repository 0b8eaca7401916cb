/* advise.c - what to change in a run, so that it is faster, or fits: a table of changes, each predicted by itself, and
 * the best few together. */
#include "launch-private.h"
#include "sweep-private.h"

#include <math.h>
#include <string.h>

#define MOST_TOGETHER 5
#define BEST_OF_CHANGE 2 /* values of a change that are tried together with other changes */

typedef struct {
  const PsAdviceQuestion *question;
  PsAdvice *advice;
  PsModel *model;    /* NULL: not known */
  guint size;        /* sequences of a microbatch; 1 where that is not known */
  gint64 batch;      /* sequences of a step */
  gboolean adjacent; /* replicas of a device are neighbours */
  gboolean modelled; /* costs follow from cluster and model */
  gint64 limit;      /* bytes of the smallest device; G_MAXINT64: not known */
} Advising;

/* The table of changes */

typedef struct Change Change;
struct Change {
  const char *name;
  const char *option; /* of SETTING; "a b": what one of the degrees loses the other one gains */
  const char *values; /* blanks between them; NULL: list makes them */
  char *(*list) (const Advising *advising);
  gboolean (*apply) (const Change *change, const char *value, PsAdvised *run);
};

/* A value of a change, and the run with it alone. */
typedef struct {
  const Change *change;
  char *value;
  PsAdvised run;
} Candidate;

static void advised_clear (gpointer data)
{
  PsAdvised *advised = data;

  g_free (advised->options);
  g_free (advised->text);
}

static void candidate_free (gpointer data)
{
  Candidate *candidate = data;

  g_free (candidate->value);
  advised_clear (&candidate->run);
  g_free (candidate);
}

static guint *degree_of (PsSetting *setting, const char *name)
{
  return &G_STRUCT_MEMBER (guint, setting, ps_option_find (ps_setting_options, name)->offset);
}

/* "+4": the first degree is 4 times as large, "-4": the second one. */
static gboolean apply_degrees (const Change *change, const char *value, PsAdvised *run)
{
  g_auto (GStrv) names = g_strsplit (change->option, " ", 2);
  const guint factor = (guint)g_ascii_strtoull (value + 1, NULL, 10);
  guint *more = degree_of (&run->setting, names[*value == '-']);
  guint *less = degree_of (&run->setting, names[*value == '+']);

  if (*less % factor != 0)
    return FALSE;
  *less /= factor;
  *more *= factor;
  return TRUE;
}

/* Texts and lists of a setting are shared: they are not read as options. */
static gboolean apply_option (const Change *change, const char *value, PsAdvised *run)
{
  if (g_str_equal (change->option, "recompute")) { /* of all stages alike */
    run->setting.recompute_each = NULL;
    run->setting.n_recompute = 0;
  }
  return ps_option_read (ps_option_find (ps_setting_options, change->option), &run->setting, value, NULL);
}

static gboolean apply_layout (G_GNUC_UNUSED const Change *change, const char *value, PsAdvised *run)
{
  run->setting.layout = (char *)g_intern_string (value);
  return run->setting.n_devices > 1;
}

/* "interleaved:4", a family and v. */
static gboolean apply_schedule (G_GNUC_UNUSED const Change *change, const char *value, PsAdvised *run)
{
  g_autofree char *name = g_strndup (value, strcspn (value, ":"));

  run->schedule = g_intern_string (name);
  run->setting.n_chunks = (guint)g_ascii_strtoull (strchr (value, ':') + 1, NULL, 10);
  run->setting.group_size = 0;
  return TRUE;
}

static char *list_schedules (const Advising *advising)
{
  GString *list = g_string_new (NULL);
  const PsSetting *setting = advising->question->setting;
  const guint layers = advising->model != NULL ? advising->model->layers : 1;
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n && setting->n_devices > 1; i++)
    for (guint v = 1; v <= MAX (families[i]->default_chunks, layers / setting->n_devices); v++)
      if (families[i]->any_chunks ? v > 1 && (v == 2 || layers % (v * setting->n_devices) == 0)
                                  : v == families[i]->default_chunks)
        g_string_append_printf (list, "%s%s:%u", list->len > 0 ? " " : "", families[i]->name, v);
  return g_string_free (list, FALSE);
}

static void append_modules (GString *list, guint flags, const char *(*name_of) (guint))
{
  for (guint i = 0; i < 32; i++)
    if (flags & 1U << i)
      g_string_append_printf (list, " %s", name_of (1U << i));
}

/* All modules alone, those that cost least together, layers as wholes, and quarters of them. */
static char *list_recompute (const Advising *advising)
{
  GString *list = g_string_new ("none full");
  const PsSetting *setting = advising->question->setting;
  PsRecompute sets[PS_N_RECOMPUTE_SETS], modules = 0;
  guint offload;

  if (advising->model == NULL)
    return g_string_free (list, FALSE);
  guint each = advising->model->layers / MAX (setting->n_devices * MAX (setting->n_chunks, 1), 1);
  for (guint quarter = 1; quarter < 4; quarter++)
    if (each * quarter / 4 > 0)
      g_string_append_printf (list, " full:layers=%u", each * quarter / 4);
  for (guint i = 0, n = ps_model_recompute_sets (advising->model, sets); i < n; i++)
    g_string_append_printf (list, " %s", ps_recompute_name (sets[i]));
  ps_model_modules (advising->model, &modules, &offload);
  append_modules (list, modules & PS_RECOMPUTE_MODULES, ps_recompute_name);
  return g_string_free (list, FALSE);
}

static char *list_offload (const Advising *advising)
{
  GString *list = g_string_new ("none core_attn+attn_proj");
  PsRecompute modules = 0;
  guint offload = 0;

  if (advising->model != NULL)
    ps_model_modules (advising->model, &modules, &offload);
  append_modules (list, offload, ps_offload_name);
  return g_string_free (list, FALSE);
}

static char *list_sequences (const Advising *advising)
{
  const PsModel *model = advising->model;

  return g_strdup (model != NULL && model->whole_sequences && advising->question->setting->n_tensor > 1 ? "yes" : "");
}

#define FACTORS "+2 +4 +8 -2 -4 -8"

/* A new change is a new row. */
static const Change changes[] = {
  { "schedule", "chunks", NULL, list_schedules, apply_schedule },
  { "layout", "layout", "even even:embedding:loss best", NULL, apply_layout },
  { "microbatch size", "microbatch-size", "1 2 4 8 16", NULL, apply_option },
  { "recomputation", "recompute", NULL, list_recompute, apply_option },
  { "offload", "offload-modules", NULL, list_offload, apply_option },
  { "ZeRO", "zero", "0 1 2 3", NULL, apply_option },
  { "tensor and pipeline", "tensor devices", FACTORS, NULL, apply_degrees },
  { "tensor and data", "tensor replicas", FACTORS, NULL, apply_degrees },
  { "pipeline and data", "devices replicas", FACTORS, NULL, apply_degrees },
  { "context and data", "context replicas", FACTORS, NULL, apply_degrees },
  { "context and pipeline", "context devices", FACTORS, NULL, apply_degrees },
  { "context and tensor", "context tensor", FACTORS, NULL, apply_degrees },
  { "experts", "experts", "1 2 4 8 16 32 64", NULL, apply_option },
  { "gradients", "main-grads-dtype", "bf16 fp32", NULL, apply_option },
  { "W of the head", "defer-head", "2 4 8", NULL, apply_option },
  { "overlap of gradients", "reduce", "overlapped", NULL, apply_option },
  { "overlap of weights", "overlap-param-gather", "yes", NULL, apply_option },
  { "overlap of tensor", "tp-comm-overlap", "yes", NULL, apply_option },
  { "sequences", "sequence-parallel", NULL, list_sequences, apply_option },
  { "dispatcher", "moe-token-dispatcher-type", "alltoall deepep hybridep", NULL, apply_option },
  { "CUDA graphs", "cuda-graphs", "attn full_iteration", NULL, apply_option },
  { "loss", "loss", "fused", NULL, apply_option },
};

/* Runs */

static guint microbatch_size (const Advising *advising, const PsSetting *setting)
{
  return setting->microbatch_size > 0 ? setting->microbatch_size : advising->size;
}

/* Sets what follows: m, the stages where their number is another, what the framework does of itself. FALSE: sizes do
 * not divide. */
static gboolean settle (const Advising *advising, PsAdvised *run)
{
  const PsSetting *was = advising->question->setting;
  PsSetting *setting = &run->setting;
  const PsFamily *family = ps_family_find (run->schedule);
  const gint64 share = (gint64)setting->n_replicas * microbatch_size (advising, setting);
  const gboolean shares = setting->n_replicas * setting->n_context > 1;
  const guint chunks = MAX (setting->n_chunks, 1);

  if (advising->batch % share != 0 || setting->n_devices > PS_MAX_DEVICES)
    return FALSE;
  setting->n_microbatches = (guint)(advising->batch / share);
  if (setting->n_devices == 1) {
    run->schedule = "1f1b";
    setting->n_chunks = 0;
    setting->layout = NULL;
  } else if (setting->layout == NULL && advising->question->framework != NULL && advising->modelled)
    setting->layout = (char *)"even";
  if (setting->n_devices > 1 && setting->n_devices * chunks != was->n_devices * MAX (was->n_chunks, 1)
      && (!g_str_has_prefix (setting->layout != NULL ? setting->layout : "even", "even")
          || (advising->model != NULL && advising->model->layers % (setting->n_devices * chunks) != 0)))
    setting->layout = (char *)"best";
  if (setting->n_devices != was->n_devices)
    setting->group_size = 0;
  if (family == NULL || !family->defers || setting->n_devices == 1)
    setting->defer_head = 0;
  if (!shares || (setting->zero == 0 && was->n_replicas * was->n_context == 1))
    setting->zero = PS_ZERO_AUTO;
  if (advising->question->framework != NULL && g_str_has_prefix (advising->question->framework, "torchtitan")
      && setting->n_devices == 1 && was->n_devices > 1 && setting->zero == 1)
    setting->zero = 3; /* without a pipeline it gathers weights again for each backward */
  setting->overlap_param_gather &= shares;
  setting->replicas_adjacent = advising->adjacent && setting->n_replicas > 1 && setting->n_devices > 1;
  return TRUE;
}

/* The options that differ, without those that follow. Free with g_free. */
static char *describe (const Advising *advising, const PsAdvised *run)
{
  static const char *const follow[] = { "microbatches", "adjacent-replicas", NULL };
  const PsAdvised *base = &advising->advice->run;
  GString *text = g_string_new (NULL);

  if (!g_str_equal (run->schedule, base->schedule))
    g_string_append_printf (text, " -s %s", run->schedule);
  for (const PsOption *row = ps_setting_options; row->name != NULL; row++) {
    if (row->flags & (PS_FIELD_OWN | PS_FIELD_DERIVED) || g_strv_contains (follow, row->name))
      continue;
    g_autofree char *now = ps_option_typed (row, &run->setting), *was = ps_option_typed (row, &base->setting);
    gboolean one_chunk = g_str_equal (row->name, "chunks") && run->setting.n_chunks <= 1 && base->setting.n_chunks <= 1;
    gboolean is_flag = row->type == PS_OPTION_FLAG, initial = ps_option_is_initial (row, &run->setting);
    gboolean unsaid = (is_flag || row->flags & PS_FIELD_NULL) && initial;
    gboolean same = is_flag ? !ps_option_is_initial (row, &base->setting) : g_str_equal (now, was);

    if (same || unsaid || one_chunk || (g_str_equal (row->name, "chunks") && run->setting.n_chunks == 0)
        || (g_str_equal (row->name, "zero") && run->setting.zero == PS_ZERO_AUTO))
      continue;
    g_string_append_printf (text, " %s", now);
  }
  if (text->len > 0)
    g_string_erase (text, 0, 1);
  return g_string_free (text, FALSE);
}

static void take_figures (const Advising *advising, const PsPrediction *prediction, PsAdvised *run)
{
  const PsMetrics *metrics = &prediction->metrics;

  run->step_ns = metrics->iteration_ns;
  run->peak_memory_bytes = metrics->peak_memory_bytes;
  run->excess_bytes = metrics->peak_memory_bytes - advising->limit;
  run->fits = prediction->fits;
  run->interval = prediction->interval;
  run->n_chunks = ps_placement_max_chunks (prediction->program->schedule->placement);
}

/* The run in the words of the framework; checked: NULL where it does not run that, or needs a file besides. NULL also
 * where its model is not known. Stages that costs do not tell are those of the setting. */
static char *write_run (const Advising *advising, const PsAdvised *run, const PsPrediction *prediction,
                        gboolean checked)
{
  const char *framework = advising->question->framework;
  const PsCostSource *source = ps_setting_source (&run->setting);
  g_autoptr (PsModel) model = source != NULL && source->has_model ? ps_setting_model (&run->setting, NULL)
                              : advising->model != NULL           ? ps_model_copy (advising->model)
                                                                  : NULL;

  if (model == NULL)
    return NULL;
  PsLaunch launch = ps_launch_of (&run->setting, model, run->schedule, prediction);
  g_autofree PsStageShape *shapes
      = launch.shapes == NULL ? ps_setting_shapes (&run->setting, model, launch.n_devices, launch.n_chunks, NULL)
                              : NULL;
  launch.shapes = launch.shapes == NULL ? shapes : launch.shapes;
  if (launch.shapes == NULL)
    return NULL;
  return checked ? ps_launch_write (framework, &launch, NULL) : ps_launch_text (framework, &launch);
}

/* Phi (ln (ratio) / deviation). */
static double find_certainty (const Advising *advising, const PsAdvised *run)
{
  const PsAdvised *base = &advising->advice->run;
  const PsInterval *was = &base->interval, *now = &run->interval;
  const double widths = 2 * 1.2816; /* of a deviation, from p10 to p90 */
  double deviation = advising->advice->error / 2;

  if (advising->advice->error <= 0)
    deviation = hypot ((double)(was->p90_ns - was->p10_ns) / (double)base->step_ns,
                       (double)(now->p90_ns - now->p10_ns) / (double)run->step_ns)
                / widths;
  if (deviation <= 0)
    return run->step_ns < base->step_ns ? 1 : 0;
  return erfc (-log ((double)base->step_ns / (double)run->step_ns) / deviation / sqrt (2)) / 2;
}

/* Predicts a run that is settled. FALSE: it is none that the framework runs, or the same. */
static gboolean predict_run (const Advising *advising, PsAdvised *run)
{
  const PsAdvised *base = &advising->advice->run;
  const char *framework = advising->question->framework;

  run->options = describe (advising, run);
  if (*run->options == '\0' || !ps_setting_check (&run->setting, NULL))
    return FALSE;
  g_autofree char *refusal = framework != NULL ? ps_launch_refusal (framework, &run->setting, run->schedule) : NULL;
  g_autoptr (PsPredictor) predictor = refusal == NULL ? ps_predictor_new (&run->setting, NULL) : NULL;
  g_autoptr (PsPrediction) prediction
      = predictor != NULL ? ps_predictor_predict (predictor, run->schedule, NULL) : NULL;
  if (prediction == NULL || prediction->program->schedule->asynchronous
      || (!advising->modelled && !ps_predictor_add_interval (predictor, prediction, PS_INTERVAL_STEPS, NULL)))
    return FALSE;
  take_figures (advising, prediction, run);
  run->gain = 1 - (double)run->step_ns / (double)base->step_ns;
  run->certainty = find_certainty (advising, run);
  if (framework == NULL || base->text == NULL)
    return TRUE;
  run->text = write_run (advising, run, prediction, TRUE);
  return run->text != NULL && g_strcmp0 (run->text, base->text) != 0;
}

/* Threads */

typedef struct {
  const Advising *advising;
  Candidate *const *candidates;
  gboolean *done; /* [n] it can be run */
  guint n;
  gint next; /* atomic */
  PsThreads threads;
} Round;

static gpointer predict_some (gpointer data)
{
  Round *round = data;
  guint i;

  while ((i = (guint)g_atomic_int_add (&round->next, 1)) < round->n)
    round->done[i] = predict_run (round->advising, &round->candidates[i]->run);
  return NULL;
}

/* Predicts what has the changes on top of a run. Those that cannot be run are dropped. Free with g_ptr_array_unref. */
static GPtrArray *predict_all (const Advising *advising, const PsAdvised *from, const GPtrArray *tried)
{
  GPtrArray *all = g_ptr_array_new_with_free_func (candidate_free);

  for (guint i = 0; i < tried->len; i++) {
    const Candidate *value = tried->pdata[i];
    Candidate *candidate = g_new0 (Candidate, 1);

    *candidate
        = (Candidate){ .change = value->change,
                       .value = g_strdup (value->value),
                       .run = { .change = value->change->name, .setting = from->setting, .schedule = from->schedule } };
    if (value->change->apply (value->change, value->value, &candidate->run) && settle (advising, &candidate->run))
      g_ptr_array_add (all, candidate);
    else
      candidate_free (candidate);
  }
  g_autofree gboolean *done = g_new0 (gboolean, all->len + 1);
  Round round = { .advising = advising, .candidates = (Candidate *const *)all->pdata, .done = done, .n = all->len };
  if (!ps_threads_run (&round.threads, MAX (advising->question->n_jobs, 1), predict_some, &round, NULL))
    g_ptr_array_set_size (all, 0);
  advising->advice->n_predicted += all->len;
  for (guint i = all->len; i-- > 0;)
    if (!done[i]) {
      g_ptr_array_remove_index (all, i);
      advising->advice->n_refused++;
    }
  return all;
}

/* Choice */

/* "yes" is 0, "tight" 1, "no" 2. */
static guint fit_rank (const PsAdvised *run)
{
  return *run->fits == 'y' ? 0 : *run->fits == 't' ? 1 : 2;
}

/* Whether a run may take the place of another: it fits as well, or needs less where that does not fit. */
static gboolean is_allowed (const PsAdvised *run, const PsAdvised *from)
{
  return fit_rank (run) < 2 ? fit_rank (run) <= fit_rank (from)
                            : fit_rank (from) == 2 && run->excess_bytes < from->excess_bytes;
}

/* Time lost for a byte that is freed. */
static double price_of (const PsAdvised *run, const PsAdvised *from)
{
  return (double)(run->step_ns - from->step_ns) / (double)MAX (from->excess_bytes - run->excess_bytes, 1);
}

/* Those that fit before others, then the faster ones, of those that do not fit the cheaper ones. */
static int compare_runs (const PsAdvised *x, const PsAdvised *y, const PsAdvised *from)
{
  gboolean x_fits = fit_rank (x) < 2, y_fits = fit_rank (y) < 2;
  double x_price = price_of (x, from), y_price = price_of (y, from);

  if (x_fits != y_fits)
    return y_fits - x_fits;
  if (!x_fits && fit_rank (from) == 2 && (x_price < y_price || x_price > y_price))
    return x_price < y_price ? -1 : 1;
  return x->step_ns != y->step_ns ? PS_COMPARE (x->step_ns, y->step_ns) : strcmp (x->options, y->options);
}

static int compare_candidates (gconstpointer a, gconstpointer b, gpointer from)
{
  return compare_runs (&(*(Candidate *const *)a)->run, &(*(Candidate *const *)b)->run, from);
}

/* Those that fit before others, which matters where the run as it stands does not fit. */
static int compare_steps (gconstpointer a, gconstpointer b)
{
  const PsAdvised *x = a, *y = b;

  if ((fit_rank (x) < 2) != (fit_rank (y) < 2))
    return fit_rank (x) < 2 ? -1 : 1;
  return x->step_ns != y->step_ns ? PS_COMPARE (x->step_ns, y->step_ns) : strcmp (x->options, y->options);
}

/* The first n values of each change, in the order of the candidates; allowed ones alone where asked for. Free with
 * g_ptr_array_unref. */
static GPtrArray *choose (const GPtrArray *sorted, guint n, const PsAdvised *from)
{
  GPtrArray *chosen = g_ptr_array_new ();
  guint counts[G_N_ELEMENTS (changes)] = { 0 };

  for (guint i = 0; i < sorted->len; i++) {
    Candidate *candidate = sorted->pdata[i];
    const gsize change = (gsize)(candidate->change - changes);

    if ((from == NULL || is_allowed (&candidate->run, from)) && counts[change]++ < n)
      g_ptr_array_add (chosen, candidate);
  }
  return chosen;
}

static void copy_advised (const PsAdvised *from, PsAdvised *to)
{
  *to = *from;
  to->options = g_strdup (from->options);
  to->text = g_strdup (from->text);
}

/* The best run of a round that is better than another: it fits, or is faster, or the framework runs it alone. NULL:
 * there is none. */
static const Candidate *find_better (const PsAdvice *advice, const GPtrArray *round, const PsAdvised *than)
{
  const gboolean any = fit_rank (than) == 2 || (advice->broken != NULL && than->options == NULL);
  const double enough_ns = (1 - PS_ADVICE_LEAST_GAIN) * (double)than->step_ns;
  const Candidate *found = NULL;

  for (guint i = 0; i < round->len; i++) {
    const Candidate *candidate = round->pdata[i];
    const PsAdvised *run = &candidate->run;

    if (is_allowed (run, than) && (any || (double)run->step_ns < enough_ns)
        && (found == NULL || compare_runs (run, &found->run, than) < 0))
      found = candidate;
  }
  return found;
}

static guint64 bit_of (const Candidate *candidate)
{
  return G_GUINT64_CONSTANT (1) << (candidate->change - changes);
}

static void take (const Candidate *candidate, PsAdvised *best, guint64 *used)
{
  advised_clear (best);
  copy_advised (&candidate->run, best);
  *used |= bit_of (candidate);
}

/* Two changes that make the run fit where none does alone, at the least time. */
static void fit_by_two (const Advising *advising, const GPtrArray *singles, PsAdvised *best, guint64 *used)
{
  for (guint i = 0; i < singles->len; i++) {
    const Candidate *first = singles->pdata[i];
    g_autoptr (GPtrArray) rest = g_ptr_array_new ();

    for (guint k = i + 1; k < singles->len; k++)
      g_ptr_array_add (rest, singles->pdata[k]);
    g_autoptr (GPtrArray) round = predict_all (advising, &first->run, rest);
    for (guint k = 0; k < round->len; k++) {
      const Candidate *both = round->pdata[k];

      if (fit_rank (&both->run) == 2 || (fit_rank (best) < 2 && both->run.step_ns >= best->step_ns))
        continue;
      *used = bit_of (first);
      take (both, best, used);
    }
  }
}

/* The best few changes together: adds the best one, as long as one is better. */
static void find_together (const Advising *advising, const GPtrArray *sorted)
{
  const PsAdvised *base = &advising->advice->run;
  PsAdvised *best = &advising->advice->together;
  g_autoptr (GPtrArray) pool = choose (sorted, BEST_OF_CHANGE, NULL), singles = choose (sorted, 1, base);
  guint64 used = 0;

  copy_advised (base, best);
  if (fit_rank (base) == 2 && singles->len > 0 && fit_rank (&((Candidate *)singles->pdata[0])->run) == 2)
    fit_by_two (advising, singles, best, &used);
  for (guint n = 0; n < MOST_TOGETHER; n++) {
    g_autoptr (GPtrArray) rest = g_ptr_array_new ();

    for (guint i = 0; i < pool->len; i++)
      if (!(used & bit_of (pool->pdata[i])))
        g_ptr_array_add (rest, pool->pdata[i]);
    g_autoptr (GPtrArray) round = predict_all (advising, best, rest);
    const Candidate *better = find_better (advising->advice, round, best);
    if (better == NULL)
      break;
    take (better, best, &used);
  }
  best->change = "together";
  if ((used & (used - 1)) == 0) { /* one change, or none */
    advised_clear (best);
    *best = (PsAdvised){ 0 };
  }
}

/* The run as it stands */

static gboolean open_run (Advising *advising, GError **error)
{
  const PsAdviceQuestion *question = advising->question;
  const PsSetting *setting = question->setting;
  const PsCostSource *source = ps_setting_source (setting);
  PsAdvice *advice = advising->advice;
  PsAdvised *run = &advice->run;
  g_autofree gint64 *limits = NULL;

  *run = (PsAdvised){ .change = "as it stands", .setting = *setting, .schedule = question->schedule, .certainty = NAN };
  advising->modelled = source != NULL && source->has_cluster;
  if (source != NULL && source->has_model) {
    advising->model = ps_setting_model (setting, error);
    if (advising->model == NULL)
      return FALSE;
  } else if (question->model != NULL)
    advising->model = ps_model_copy (question->model);
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);
  advice->prediction = ps_predictor_predict (predictor, question->schedule, error);
  if (advice->prediction == NULL || !ps_predictor_add_interval (predictor, advice->prediction, PS_INTERVAL_STEPS, error)
      || !ps_setting_memory_limit (setting, advice->prediction->metrics.n_devices, &limits, NULL, error))
    return FALSE;
  const PsSchedule *order = advice->prediction->program->schedule;
  advising->limit = G_MAXINT64;
  for (guint d = 0; limits != NULL && d < order->placement->n_devices; d++)
    advising->limit = MIN (advising->limit, limits[d]);
  run->setting.n_devices = order->placement->n_devices; /* a schedule file has them */
  run->setting.n_microbatches = order->n_microbatches;
  advising->size = advising->model != NULL ? advising->model->microbatch_size : 1;
  advising->batch = (gint64)run->setting.n_microbatches * setting->n_replicas * microbatch_size (advising, setting);
  advising->adjacent = setting->replicas_adjacent || setting->n_replicas == 1 || run->setting.n_devices == 1;
  take_figures (advising, advice->prediction, run);
  if (advising->modelled) {
    g_autoptr (PsCluster) cluster = ps_setting_read_cluster (setting, NULL);
    g_auto (PsClassErrors) errors = { 0 };

    ps_class_errors_init (&errors, advising->model, run->setting.n_devices, cluster);
    advice->error = (log1p (errors.p90) - log1p (errors.p10)) / (2 * 1.2816);
  }
  if (question->framework != NULL) {
    run->text = write_run (advising, run, advice->prediction, FALSE);
    advice->broken = ps_launch_refusal (question->framework, &run->setting, run->schedule);
  }
  return TRUE;
}

static GPtrArray *list_values (const Advising *advising)
{
  GPtrArray *values = g_ptr_array_new_with_free_func (candidate_free);

  for (guint i = 0; i < G_N_ELEMENTS (changes); i++) {
    g_autofree char *list = changes[i].list != NULL ? changes[i].list (advising) : g_strdup (changes[i].values);
    g_auto (GStrv) words = g_strsplit (list, " ", -1);

    for (char **word = words; *word != NULL; word++)
      if (**word != '\0' && !g_strv_contains ((const char *const *)word + 1, *word)) {
        Candidate *candidate = g_new0 (Candidate, 1);

        candidate->change = &changes[i];
        candidate->value = g_strdup (*word);
        g_ptr_array_add (values, candidate);
      }
  }
  return values;
}

PsAdvice *ps_advice_new (const PsAdviceQuestion *question, GError **error)
{
  g_autoptr (PsAdvice) advice = g_new0 (PsAdvice, 1);
  Advising advising = { .question = question, .advice = advice };

  advice->changes = g_array_new (FALSE, FALSE, sizeof (PsAdvised));
  g_array_set_clear_func (advice->changes, advised_clear);
  gboolean opened = open_run (&advising, error);
  if (opened) {
    g_autoptr (GPtrArray) values = list_values (&advising), all = predict_all (&advising, &advice->run, values);

    g_ptr_array_sort_with_data (all, compare_candidates, &advice->run);
    g_autoptr (GPtrArray) listed = choose (all, question->every ? G_MAXUINT : 1, &advice->run);

    for (guint i = 0; i < listed->len; i++) {
      const PsAdvised *run = &((Candidate *)listed->pdata[i])->run;
      PsAdvised copy;

      if (fit_rank (&advice->run) == 2 || advice->broken != NULL || run->gain >= PS_ADVICE_LEAST_GAIN) {
        copy_advised (run, &copy);
        g_array_append_val (advice->changes, copy);
      }
    }
    g_array_sort (advice->changes, compare_steps);
    find_together (&advising, all);
  }
  ps_model_free (advising.model);
  return opened ? g_steal_pointer (&advice) : NULL;
}

void ps_advice_free (PsAdvice *advice)
{
  if (advice == NULL)
    return;
  ps_prediction_free (advice->prediction);
  advised_clear (&advice->run);
  advised_clear (&advice->together);
  g_clear_pointer (&advice->changes, g_array_unref);
  g_free (advice->broken);
  g_free (advice);
}

/* The user's file */

void ps_advised_file_clear (PsAdvisedFile *file)
{
  g_free (file->text);
  g_free (file->diff);
  g_free (file->flags);
}

void ps_advice_edit (const PsAdvice *advice, const PsAdvised *advised, const char *where, const char *text,
                     PsAdvisedFile *file)
{
  GString *flags = g_string_new (NULL);

  *file = (PsAdvisedFile){ 0 };
  if (advice->run.text != NULL && advised->text != NULL) {
    const PsLaunchEdit change = { .where = where,
                                  .text = text,
                                  .form = ps_launch_form (text),
                                  .before = advice->run.text,
                                  .after = advised->text,
                                  .n_chunks = advised->n_chunks,
                                  .bridge = advised->setting.framework == PS_FRAMEWORK_BRIDGE };

    file->text = ps_launch_edit (&change, flags);
  }
  file->diff = file->text != NULL ? ps_launch_diff (where, text, file->text) : NULL;
  file->flags = g_string_free (flags, FALSE);
}
