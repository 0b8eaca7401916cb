/* layouts.c - the layouts of a question as a sweep in memory, cut into cells, which are predicted on several threads,
 * the most promising first, until no cell that is left can be among the best. */
#include "sweep-private.h"

#include <pipesim/answer.h>
#include <pipesim/costdb.h>
#include <pipesim/plan.h>

#include <string.h>

#define MOST_SEQUENCES 16 /* of a microbatch */
#define MOST_TENSOR 8     /* GPUs of a device */
#define LEAST_EXPERTS 8   /* GPUs that share the experts, where any do */
#define MOST_EXPERTS 64   /* GPUs that share the experts */
#define USUAL_SEQUENCE 4096
#define BOUND_PART 0.99 /* of the work that bounds a number of GPUs from below; costs are rounded */
#define EVEN_GAIN 1.25  /* a layout so much slower than the last of the best is not cut to slices of even work */
#define ROUND 32        /* cells between two comparisons with the best; the answers depend on it, not on the threads */

/* The schedules of a cell, by their number of chunks. */
enum {
  PS_LAYOUT_OWN,    /* all schedules, with their own numbers of chunks */
  PS_LAYOUT_SINGLE, /* one chunk, on a single device */
  PS_LAYOUT_CHUNKS, /* a kind v >= this: schedules run with v chunks although their own number is another */
  PS_LAYOUT_KINDS = 21
};

/* The schedules of a kind for one layout, microbatch size and recomputation. */
typedef struct {
  guint64 first;     /* point of the first schedule */
  guint64 schedules; /* a bit for each that may fit */
  gint64 floor_ns;   /* no schedule of the cell is faster */
  gint64 alone_ns;   /* nor is one without overlapped pairs */
} Cell;

typedef struct {
  const PsLayoutQuestion *question;
  char *profiles;     /* names, as a spec has them; NULL: no measured costs */
  PsLayouts *layouts; /* not owned: takes the counts of settings that are not worth a prediction */
  GArray *cells;      /* Cell, by floor_ns */
  GArray *fits;       /* PsLayout: all that were predicted and fit, in their order. Owned */
  gint64 last_ns;     /* step of the last of the best, 0 while there are too few */
  double work_ns;     /* least time of a step's work times GPUs, over all cells, those included that do not fit */
  guint n_schedules;
  guint64 takes[PS_LAYOUT_KINDS]; /* a bit for each schedule: a cell of the kind holds it */
  guint64 pairs;                  /* the same: it overlaps F and B */
  guint64 slices;                 /* it cuts microbatches into slices */
  guint64 slices_by_p;            /* into p of them, and was not asked for by name */
  PsModel *model;
  gboolean published; /* steps of the class were published (ps_class_errors_init) */
} Space;

/* Whether a setting that takes floor_ns or longer cannot be among the best. Schedules that are near the last of the
 * best are worth a prediction, too. */
static gboolean is_outrun (const Space *space, gint64 floor_ns)
{
  double factor = space->question->fold ? PS_LAYOUT_NEAR : 1;

  if (space->layouts->slowest_ns > 0 && floor_ns > space->layouts->slowest_ns)
    return TRUE;
  return space->last_ns > 0 && (double)floor_ns > factor * (double)space->last_ns;
}

static void space_clear (Space *space)
{
  g_free (space->profiles);
  g_clear_pointer (&space->cells, g_array_unref);
  g_clear_pointer (&space->fits, g_array_unref);
  ps_model_free (space->model);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Space, space_clear)

/* The model that a question is about, and the profiles that were measured with it */

static gboolean check_name (const char *option, const char *name, GError **error)
{
  if (name == NULL || strpbrk (name, ",;#\r\n") == NULL)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' has one of , ; # or a line end in it; %s would be right", option,
                    name,
                    g_file_test (name, G_FILE_TEST_EXISTS) ? "another name of the file" : "one name without them");
}

static gboolean is_same_model (const PsModel *a, const PsModel *b)
{
  g_autoptr (PsModel) x = ps_model_copy (a), y = ps_model_copy (b);
  g_autofree char *x_digest = NULL, *y_digest = NULL;

  x->microbatch_size = y->microbatch_size = 1;
  x_digest = ps_model_digest (x);
  y_digest = ps_model_digest (y);
  return g_str_equal (x_digest, y_digest);
}

/* Adds the profile if it was measured with *model; without a model the first profile's becomes it. A profile of another
 * model is skipped if --model was given, and refused else. */
static gboolean add_profile (PsCostDb *db, const char *name, const char *where, gboolean given, PsModel **model,
                             GString *names, GError **error)
{
  g_autoptr (PsModel) own = ps_costdb_model (db, name, error);

  if (own == NULL || !check_name ("--profile", name, error))
    return FALSE;
  if (*model == NULL)
    *model = ps_model_copy (own);
  if (is_same_model (own, *model))
    g_string_append_printf (names, "%s%s", names->len ? ", " : "", name);
  else if (!given)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--profile: missing; %s holds profiles of several models, '%s' and '%s' among them", where,
                      (*model)->name, own->name);
  return TRUE;
}

/* Lists all profiles of one model, which differ in the size of microbatches, or the one asked for. A profile counts by
 * its last calibration, and where its model is known. */
static gboolean list_profiles (Space *space, PsCostDb *db, PsModel **model, GError **error)
{
  const PsLayoutQuestion *question = space->question;
  g_autoptr (GString) names = g_string_new (NULL);
  g_autoptr (GPtrArray) profiles = NULL;
  gboolean given = *model != NULL;

  if (question->given.profile != NULL
      && !add_profile (db, question->given.profile, question->given.db, given, model, names, error))
    return FALSE;
  profiles = question->given.profile == NULL ? ps_costdb_profiles (db, error) : g_ptr_array_new ();
  if (profiles == NULL)
    return FALSE;
  for (guint i = 0; i < profiles->len; i++) {
    const PsProfile *profile = profiles->pdata[i];
    gboolean is_last = i + 1 == profiles->len || !ps_profile_is_same (profile, profiles->pdata[i + 1]);

    if (*profile->model_text != '\0' && is_last
        && !add_profile (db, profile->name, question->given.db, given, model, names, error))
      return FALSE;
  }
  if (names->len == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--db: %s holds no profile of %s%s%s%s", question->given.db,
                      given ? "model '" : "any model", given ? (*model)->name : "", given ? "' with precision = " : "",
                      given ? ps_precision_name ((*model)->precision) : "");
  space->profiles = g_strdup (names->str);
  return TRUE;
}

static PsModel *load_model (Space *space, GError **error)
{
  const PsLayoutQuestion *question = space->question;
  g_autoptr (PsModel) model = NULL;
  g_autoptr (PsCostDb) db = NULL;

  if (question->given.model != NULL) {
    model = ps_model_load (question->given.model, error);
    if (model == NULL || !ps_model_set_precision (model, "--precision", question->given.precision, error)
        || !ps_model_resize (model, 0, question->given.sequence, 0, error))
      return NULL;
  }
  if (question->given.db != NULL) {
    db = ps_costdb_open (question->given.db, PS_COSTDB_READ, error);
    if (db == NULL || !list_profiles (space, db, &model, error))
      return NULL;
  }
  return g_steal_pointer (&model);
}

/* The space as a spec */

/* TRUE for a family that this small pipeline does not suit: the sweep refuses it. */
static gboolean is_synchronous (const PsFamily *family)
{
  PsFamilySetting small = { .n_devices = 2, .n_microbatches = 8, .n_chunks = family->default_chunks };
  g_autoptr (PsSchedule) schedule = ps_family_generate (family, &small, NULL);

  return schedule == NULL || !schedule->asynchronous;
}

static void add_schedules (const PsLayoutQuestion *question, GString *spec)
{
  guint n, n_added = 0;
  const PsFamily *const *families = ps_family_table (&n);
  g_autofree char *asked = question->schedules != NULL ? g_strjoinv (", ", question->schedules) : NULL;

  g_string_append (spec, "schedule = ");
  if (asked != NULL)
    g_string_append (spec, asked);
  for (guint i = 0; asked == NULL && i < n; i++)
    if (is_synchronous (families[i]))
      g_string_append_printf (spec, "%s%s", n_added++ ? ", " : "", families[i]->name);
  g_string_append_printf (spec, "\nchunks = auto, 1..%u\n", PS_LAYOUT_KINDS - 1);
}

/* The number that was asked for, or 1 and all numbers (or powers of two) from `least` to `most` that divide `number`,
 * and by which tensors can be split where a model is given. */
static void add_numbers (GString *spec, const char *field, guint given, guint number, guint least, guint most,
                         gboolean powers, const PsModel *tensors)
{
  g_string_append_printf (spec, "%s = %u", field, MAX (given, 1));
  for (guint i = least; given == 0 && i <= most; i += powers ? i : 1)
    if (number % i == 0 && (tensors == NULL || ps_tensor_check (tensors, i, TRUE, NULL)))
      g_string_append_printf (spec, ", %u", i);
  g_string_append_c (spec, '\n');
}

/* What the question says of every layout, as lines of a spec. Measured costs are as they are. */
static void add_alike (GString *spec, const Space *space)
{
  const PsSetting *given = &space->question->given, measured = { .db = given->db, .profile = space->profiles };
  const PsSetting *alike = given->db != NULL ? &measured : given;

  for (const PsOption *row = ps_setting_options; row->name != NULL; row++) {
    if (!(row->flags & PS_FIELD_ALIKE) || ps_option_is_initial (row, alike))
      continue;
    g_autofree char *typed = ps_option_typed (row, alike);
    const char *value = strchr (typed, ' ');
    g_autofree char *text = value != NULL ? g_shell_unquote (value + 1, NULL) : g_strdup ("yes");
    g_string_append_printf (spec, "%s = %s\n", row->name, text);
  }
}

/* The spec crosses devices, replicas, tensor, context and experts; is_asked drops points whose product is not the
 * number of GPUs. */
static char *write_spec (const Space *space, const PsModel *model, const PsCluster *cluster)
{
  const PsLayoutQuestion *question = space->question;
  guint n_gpus = space->layouts->n_gpus;
  g_autoptr (GString) spec = g_string_new ("[sweep]\n");
  PsRecompute sets[PS_N_RECOMPUTE_SETS];
  guint n_sets = ps_model_recompute_sets (model, sets);

  add_schedules (question, spec);
  g_string_append_printf (spec, "global-batch = %" G_GINT64_FORMAT "\nmemory-limit = %" G_GINT64_FORMAT "B\n",
                          question->global_batch, space->layouts->memory_limit);
  add_alike (spec, space);
  if (question->given.db != NULL) {
    g_string_append_printf (spec, "devices = %u\nrecompute = none, full\n", n_gpus);
    return g_string_free (g_steal_pointer (&spec), FALSE);
  }
  g_string_append_printf (spec, "cluster = %s\nzero = 0", question->given.cluster);
  if (question->zero > 0)
    g_string_append_printf (spec, ", %u", question->zero);
  for (guint i = 0; i < n_sets; i++)
    g_string_append_printf (spec, "%s%s", i > 0 ? ", " : "\nrecompute = ", ps_recompute_name (sets[i]));
  g_string_append_c (spec, '\n');
  add_numbers (spec, "microbatch-size", 0, 0, 2, (guint)MIN (question->global_batch, MOST_SEQUENCES), TRUE, NULL);
  add_numbers (spec, "devices", 0, n_gpus, 2, MIN (n_gpus, model->layers + 2), FALSE, NULL);
  add_numbers (spec, "replicas", 0, n_gpus, 2, n_gpus, FALSE, NULL);
  add_numbers (spec, "tensor", question->tensor, cluster->devices_per_node, 2, MOST_TENSOR, TRUE, model);
  add_numbers (spec, "context", question->context, model->sequence, 2, model->sequence / USUAL_SEQUENCE, TRUE, NULL);
  add_numbers (spec, "experts", question->experts, model->experts.count, LEAST_EXPERTS,
               MIN (model->experts.count, MOST_EXPERTS), TRUE, NULL);
  if (question->runner != NULL)
    g_string_append (spec, "adjacent-replicas = yes\n");
  return g_string_free (g_steal_pointer (&spec), FALSE);
}

/* Questions */

static gboolean check_question (const PsLayoutQuestion *question, GError **error)
{
  const char *message = NULL;

  if (question->given.cluster == NULL)
    message = "--cluster: missing; the memory and the peak rate of a GPU come from it";
  else if (question->given.model == NULL && question->given.db == NULL)
    message = "--model: missing; give a model, or --db FILE that holds one";
  else if (question->given.precision != NULL && question->given.model == NULL)
    message = "--precision: needs --model FILE, which it gives another number format";
  else if (question->given.profile != NULL && question->given.db == NULL)
    message = "--profile: needs --db FILE, the database that holds it";
  else if (question->tensor > 1 && question->given.db != NULL)
    message = "--tensor: needs modelled costs; measured ones are those of a device as they are";
  else if (question->global_batch < 1)
    message = "--global-batch: missing; give the sequences per step";
  else if (question->days > 0 && question->tokens == 0)
    message = "--days: needs --tokens N, those of the whole training";
  if (message != NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "%s", message);
  for (guint i = 0; question->schedules != NULL && question->schedules[i] != NULL; i++)
    if (ps_family_find (question->schedules[i]) == NULL)
      return ps_refuse (error, PS_ERROR_USAGE, "--schedule: '%s' is no family; pipesim schedule list has them",
                        question->schedules[i]);
  return check_name ("--model", question->given.model, error) && check_name ("--db", question->given.db, error)
         && check_name ("--profile", question->given.profile, error)
         && check_name ("--cluster", question->given.cluster, error);
}

static gboolean check_tensor (const Space *space, const PsModel *model, PsCluster *cluster, GError **error)
{
  guint tensor = MAX (space->question->tensor, 1), n_gpus = space->layouts->n_gpus;

  if (n_gpus % tensor == 0)
    return ps_tensor_check (model, tensor, TRUE, error) && ps_cluster_group (cluster, tensor, error)
           && (space->question->given.db != NULL || ps_cluster_check_size (cluster, n_gpus / tensor, error));
  return ps_refuse (error, PS_ERROR_USAGE, "--tensor %u: does not divide the %u GPUs", tensor, n_gpus);
}

static gboolean take_cluster (Space *space, const PsCluster *cluster, GError **error)
{
  const PsLayoutQuestion *question = space->question;
  PsSetting said = question->given;
  PsLayouts *layouts = space->layouts;

  said.known_cluster = cluster;
  PsFramework framework = question->given.db != NULL && said.framework == PS_FRAMEWORK_NONE
                              ? space->model->framework
                              : ps_setting_framework (&said, space->model);
  layouts->cluster = g_strdup (cluster->name);
  layouts->n_there = cluster->nodes * cluster->devices_per_node;
  layouts->n_gpus = question->n_gpus ? question->n_gpus : layouts->n_there;
  layouts->memory_limit = question->memory_limit ? question->memory_limit : cluster->memory_bytes;
  layouts->reserve = question->reserve == PS_LAYOUT_USUAL_RESERVE ? ps_memory_reserve (layouts->memory_limit, framework)
                                                                  : question->reserve;
  layouts->memory_limit -= layouts->reserve;
  if (layouts->memory_limit > 0)
    return TRUE;
  if (layouts->reserve > 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--reserve %" G_GINT64_FORMAT "B: leaves nothing of the memory of a GPU",
                      layouts->reserve);
  return ps_refuse (error, PS_ERROR_USAGE, "cluster '%s': does not say the memory of a device; give --memory-limit",
                    cluster->name);
}

/* Schedules */

/* Whether a cell of the kind holds the schedule. */
static gboolean takes_schedule (const PsFamily *family, guint kind)
{
  PsFamilySetting small = { .n_devices = kind == PS_LAYOUT_SINGLE ? 1 : 2, .n_microbatches = 8, .n_chunks = kind };

  return kind == PS_LAYOUT_OWN
         || ((kind == PS_LAYOUT_SINGLE || kind != family->default_chunks) && ps_family_check (family, &small, NULL));
}

static gboolean has_pairs (const PsFamily *family)
{
  PsFamilySetting small = { .n_devices = 2, .n_microbatches = 8, .n_chunks = family->default_chunks };
  g_autoptr (PsSchedule) order = family->uses_costs ? NULL : ps_family_generate (family, &small, NULL);
  gboolean found = FALSE;

  for (guint i = 0; order != NULL && i < ps_schedule_n_ops (order); i++)
    found = found || order->ops[i].paired;
  return found;
}

static void list_schedules (Space *space)
{
  const GPtrArray *schedules = ps_sweep_axis (space->layouts->sweep, "schedule")->values;
  guint64 of_one_chunk = 0;
  gboolean has_1f1b = FALSE;

  space->n_schedules = schedules->len;
  g_assert (schedules->len <= 64); /* bits of takes and pairs */
  for (guint i = 0; i < schedules->len; i++) {
    const PsFamily *family = ps_family_find (((const PsSweepValue *)schedules->pdata[i])->text);

    has_1f1b = has_1f1b || g_str_equal (family->name, "1f1b");
    of_one_chunk |= (guint64)(family->default_chunks == 1) << i;
    space->pairs |= (guint64)has_pairs (family) << i;
    space->slices |= (guint64)(family->default_slices > 0) << i;
    space->slices_by_p |= (guint64)(family->slices_by_p && space->question->schedules == NULL) << i;
    for (guint kind = 0; kind < PS_LAYOUT_KINDS; kind++)
      space->takes[kind] |= (guint64)takes_schedule (family, kind) << i;
  }
  /* 1F1B is what families of several chunks come to with one. */
  if (has_1f1b)
    space->takes[PS_LAYOUT_SINGLE] &= of_one_chunk;
}

static guint count_schedules (const Cell *cell)
{
  return (guint)__builtin_popcountll (cell->schedules);
}

/* Cells */

/* Asks for the schedules' own numbers, and for 2, 4, 8 and all that cut the layers evenly, or the layers with embedding
 * and loss; on a single device for one chunk. */
static gboolean are_chunks_asked (guint layers, guint n_devices, guint n_chunks)
{
  guint n_stages = n_devices * n_chunks;

  if (n_devices == 1 || n_chunks == 1)
    return n_devices == n_chunks;
  return n_chunks == PS_LAYOUT_OWN
         || (n_stages <= layers + 2
             && (layers % n_stages == 0 || (layers + 2) % n_stages == 0 || n_chunks == 2 || n_chunks == 4
                 || n_chunks == 8));
}

/* TRUE if all GPUs have work, and state is spread over replicas as asked, if there are any. */
static gboolean is_asked (const Space *space, const PsSetting *setting)
{
  guint64 shares = (guint64)setting->n_tensor * setting->n_context * setting->n_replicas;

  return setting->n_devices * shares == space->layouts->n_gpus && shares % setting->n_experts == 0
         && ps_setting_zero (setting) == (setting->n_replicas > 1 || setting->n_context > 1 ? space->question->zero : 0)
         && are_chunks_asked (space->model->layers, setting->n_devices, setting->n_chunks);
}

/* Sets the bounds of a cell by the costs of one microbatch, and drops schedules that cannot fit. Any layout has the
 * same work, weights and activations, and a device runs all its forwards of a microbatch before the first backward.
 * Slices of a microbatch may keep less than all of it. Pairs hide at most the all-to-alls of their F and B under each
 * other's computing; nothing is known of measured pairs. */
static void bound_cell (const Space *space, const PsCosts *costs, guint n_devices, guint m, Cell *cell)
{
  const gint64 memory = space->layouts->memory_limit;
  gint64 work = 0, hidden = 0, weights = 0, kept = 0;

  for (guint s = 0; s < costs->n_stages; s++) {
    const PsStageCost *stage = &costs->stage[s];

    work += ps_costs_op (costs, PS_OP_F, s)->duration_ns + ps_costs_backward_ns (costs, 0, s);
    weights += stage->weight_bytes;
    kept += ps_costs_act_bytes (costs, s);
    if (stage->pair_ns >= 0)
      hidden = costs->time_origin == PS_ORIGIN_MODELLED ? hidden + 2 * stage->tensor_ns : G_MAXINT64 / 2;
  }
  cell->alone_ns = work * m / n_devices;
  cell->floor_ns = MAX (work - hidden, 0) * m / n_devices;
  if (weights / n_devices > memory)
    cell->schedules = 0;
  else if ((weights + kept) / n_devices > memory)
    cell->schedules &= space->slices;
}

static void add_cell (Space *space, guint64 first, PsSweepPoint *point)
{
  PsLayouts *layouts = space->layouts;
  const PsSetting *setting = &point->setting;
  PsSetting even = *setting;
  gint64 each = (gint64)MAX (ps_sweep_microbatch_size (setting), 1) * setting->n_replicas;
  Cell cell = { .first = first, .schedules = space->takes[setting->n_chunks] };
  guint m = (guint)MIN (point->global_batch / each, PS_MAX_MICROBATCHES), n = count_schedules (&cell);
  g_autoptr (PsCosts) costs = NULL;

  if (space->model->sequence < (guint64)PS_LAYOUT_SLICE * setting->n_devices * setting->n_context) {
    cell.schedules &= ~space->slices_by_p;
    n = count_schedules (&cell);
  }
  even.layout = (char *)"even";
  layouts->n_settings += n;
  if (point->global_batch % each == 0)
    costs = ps_setting_costs (&even, setting->n_devices, 1, NULL);
  if (costs == NULL || !ps_costs_check (costs, m, NULL)) {
    layouts->n_impossible += n;
    return;
  }
  bound_cell (space, costs, setting->n_devices, m, &cell);
  space->work_ns = MIN (space->work_ns, (double)cell.floor_ns * layouts->n_gpus);
  layouts->n_hopeless += n - count_schedules (&cell);
  if (cell.schedules != 0)
    g_array_append_val (space->cells, cell);
}

static int compare_cells (gconstpointer a, gconstpointer b)
{
  const Cell *x = a, *y = b;

  return x->floor_ns != y->floor_ns ? PS_COMPARE (x->floor_ns, y->floor_ns) : PS_COMPARE (x->first, y->first);
}

/* Schedules change fastest. */
static void list_cells (Space *space)
{
  PsSweepPoint point;

  space->cells = g_array_new (FALSE, FALSE, sizeof (Cell));
  ps_sweep_point_init (&point, space->layouts->sweep);
  for (guint64 first = 0; first < ps_sweep_n_points (space->layouts->sweep); first += space->n_schedules) {
    ps_sweep_point_set (&point, space->layouts->sweep, first);
    if (is_asked (space, &point.setting))
      add_cell (space, first, &point);
  }
  ps_sweep_point_clear (&point);
  g_array_sort (space->cells, compare_cells);
}

double ps_layout_step_flops (const PsModel *model, gint64 global_batch)
{
  PsStageShape whole = ps_model_whole (model);

  whole.n_mtp = 0;
  whole.head = 1;
  double flops
      = (double)ps_model_stage_flops (model, &whole, PS_OP_F) + (double)ps_model_stage_flops (model, &whole, PS_OP_BW);

  return flops / model->microbatch_size * (double)global_batch;
}

static gint64 slowest_step (const PsLayoutQuestion *question, gint64 step_tokens)
{
  double steps = (double)question->tokens / (double)step_tokens;

  return question->slowest_ns > 0 || question->days <= 0
             ? question->slowest_ns
             : (gint64)CLAMP (question->days * 86400e9 / steps, 1, PS_MAX_SUM_NS);
}

static gboolean open_space (Space *space, GError **error)
{
  const PsLayoutQuestion *question = space->question;
  PsLayouts *layouts = space->layouts;
  g_auto (PsClassErrors) errors = { 0 };

  if (!check_question (question, error))
    return FALSE;
  PsModel *model = space->model = load_model (space, error);
  g_autoptr (PsCluster) cluster = model != NULL ? ps_cluster_load (question->given.cluster, error) : NULL;
  if (cluster == NULL || !take_cluster (space, cluster, error))
    return FALSE;
  g_autofree char *spec = write_spec (space, model, cluster);
  if (!check_tensor (space, model, cluster, error))
    return FALSE;
  space->layouts->sweep = ps_sweep_parse ("plan", spec, strlen (spec), error);
  if (space->layouts->sweep == NULL)
    return FALSE;
  const PsStageShape whole = ps_model_whole (model);
  ps_class_errors_init (&errors, model, 0, cluster);
  space->published = errors.n_rows > 0;
  layouts->model = g_strdup (model->name);
  layouts->state_bytes = ps_model_stage_state_bytes (model, &whole);
  layouts->step_flops = ps_layout_step_flops (model, question->global_batch);
  layouts->step_tokens = question->global_batch * model->sequence;
  layouts->slowest_ns = slowest_step (question, layouts->step_tokens);
  layouts->peak_flops = ps_work_peak_flops (cluster, ps_number_formats[model->precision].bits, &layouts->peak_key);
  list_schedules (space);
  list_cells (space);
  return TRUE;
}

/* The answer */

static void layout_clear (gpointer data)
{
  g_free (((PsLayout *)data)->near);
}

void ps_layouts_free (PsLayouts *layouts)
{
  if (layouts == NULL)
    return;
  g_array_unref (layouts->best);
  g_free (layouts->model);
  g_free (layouts->cluster);
  ps_sweep_free (layouts->sweep);
  g_free (layouts);
}

const char *ps_confidence_name (PsConfidence confidence)
{
  static const char *const names[] = { "low", "medium", "high" };

  g_return_val_if_fail ((guint)confidence < G_N_ELEMENTS (names), NULL);
  return names[confidence];
}

/* Threads */

/* Some cells, and a result for each of their schedules; NULL for a schedule that the cell does not hold. */
typedef struct {
  const Space *space;
  const Cell *cells;
  guint n_cells;
  PsResult **results; /* [n_cells * n_schedules] */
  gint next;          /* cell; atomic */
  PsThreads threads;
} Round;

/* Cells after the last of the best are not predicted. */
static void show_progress (const Space *space, const Cell *cell)
{
  const PsLayouts *layouts = space->layouts;
  const Cell *cells = &g_array_index (space->cells, Cell, 0);
  guint done = (guint)(cell - cells), n = done + 1;
  gboolean found = space->fits->len > 0;
  g_autofree char *best = found ? ps_format_time (g_array_index (space->fits, PsLayout, 0).step_ns) : NULL;

  while (n < space->cells->len && !is_outrun (space, cells[n].floor_ns))
    n++;
  ps_progress_show (done, n, "layouts", "%s on %u GPUs of %s%s%s", layouts->model, layouts->n_gpus, layouts->cluster,
                    found ? ", best " : "", found ? best : "");
}

static gpointer predict_cells (gpointer data)
{
  Round *round = data;
  const Space *space = round->space;
  g_autoptr (PsSweepWorker) worker = ps_sweep_worker_new (space->layouts->sweep);
  GError *error = NULL;
  guint i;

  while (error == NULL && (i = (guint)g_atomic_int_add (&round->next, 1)) < round->n_cells) {
    const Cell *cell = &round->cells[i];
    guint64 worth = cell->schedules & (is_outrun (space, cell->alone_ns) ? space->pairs : G_MAXUINT64);

    if (ps_progress_due ())
      show_progress (space, cell);
    for (guint k = 0; k < space->n_schedules && error == NULL && !g_atomic_int_get (&round->threads.stop); k++)
      if (worth >> k & 1)
        round->results[i * space->n_schedules + k] = ps_sweep_worker_predict (worker, cell->first + k, &error);
  }
  if (error != NULL)
    ps_threads_fail (&round->threads, error);
  return NULL;
}

/* The best */

/* Origins stand in the order of falling weight. */
static PsConfidence find_confidence (const Space *space, const PsResult *result)
{
  static const char *const columns[] = { "costs_origin", "transfers_origin", "memory_origin" };
  PsOrigin weakest = PS_ORIGIN_GIVEN, origin;

  for (guint i = 0; i < G_N_ELEMENTS (columns); i++)
    if (ps_origin_parse ("origin", ps_result_value (result, columns[i])->text, &origin, NULL))
      weakest = MAX (weakest, origin);
  return weakest <= PS_ORIGIN_MEASURED                           ? PS_CONFIDENCE_HIGH
         : weakest == PS_ORIGIN_INTERPOLATED || space->published ? PS_CONFIDENCE_MEDIUM
                                                                 : PS_CONFIDENCE_LOW;
}

static void set_step (const Space *space, PsLayout *layout, gint64 step_ns)
{
  const PsLayouts *layouts = space->layouts;
  double seconds = (double)MAX (step_ns, 1) / 1e9;

  layout->step_ns = step_ns;
  layout->tokens_per_second = (double)layouts->step_tokens / seconds;
  layout->mfu = layouts->step_flops / (seconds * layouts->n_gpus * layouts->peak_flops);
}

static PsLayout layout_new (const Space *space, const PsSweepPoint *point, const PsResult *result)
{
  const PsLayoutQuestion *question = space->question;
  PsLayout layout = {
    .schedule = point->schedule,
    .asynchronous = ps_result_value (result, "asynchronous")->integer != 0,
    .setting = point->setting,
    .microbatch_size = (guint)ps_result_value (result, "microbatch_size")->integer,
    .peak_memory_bytes = ps_result_value (result, "peak_memory_bytes")->integer,
    .bubble_ratio = ps_result_value (result, "bubble_ratio")->real,
    .costs_origin = ps_result_value (result, "costs_origin")->text,
    .confidence = find_confidence (space, result),
  };
  PsSetting *setting = &layout.setting;

  setting->n_microbatches = (guint)ps_result_value (result, "microbatches")->integer;
  setting->n_chunks = (guint)ps_result_value (result, "chunks")->integer;
  if (setting->cluster != NULL)
    setting->layout = (char *)g_intern_string (ps_result_value (result, "layout")->text);
  if (setting->n_replicas == 1)
    setting->replicas_adjacent = FALSE;
  if (setting->n_replicas == 1 && setting->n_context == 1)
    setting->zero = PS_ZERO_AUTO;
  if (setting->cluster != NULL && question->memory_limit == 0 && question->reserve == PS_LAYOUT_USUAL_RESERVE)
    setting->n_memory_limits = 0;
  set_step (space, &layout, ps_result_value (result, "iteration_ns")->integer);
  return layout;
}

/* Whether the question's runner runs the layout. */
static gboolean is_run (const Space *space, const PsLayout *layout)
{
  const char *runner = space->question->runner;
  g_autofree char *refusal = runner != NULL ? ps_launch_refusal (runner, &layout->setting, layout->schedule) : NULL;

  return refusal == NULL;
}

static int compare_layouts (gconstpointer a, gconstpointer b)
{
  const PsLayout *x = a, *y = b;
  const gint64 differences[] = { x->step_ns - y->step_ns,
                                 (gint64)x->setting.n_devices - y->setting.n_devices,
                                 (gint64)x->setting.n_tensor - y->setting.n_tensor,
                                 (gint64)x->setting.n_context - y->setting.n_context,
                                 (gint64)x->setting.n_experts - y->setting.n_experts,
                                 (gint64)x->microbatch_size - y->microbatch_size,
                                 (gint64)x->setting.recompute - (gint64)y->setting.recompute,
                                 strcmp (x->schedule, y->schedule),
                                 (gint64)x->setting.n_chunks - y->setting.n_chunks };

  for (guint i = 0; i < G_N_ELEMENTS (differences); i++)
    if (differences[i] != 0)
      return differences[i] < 0 ? -1 : 1;
  return 0;
}

static void take_result (const Space *space, PsSweepPoint *point, const PsResult *result)
{
  PsLayouts *layouts = space->layouts;
  PsLayout layout;

  if (result->reason != NULL)
    layouts->n_impossible++;
  else if (!ps_result_value (result, "feasible")->integer)
    layouts->n_too_large++;
  else if (layouts->slowest_ns > 0 && ps_result_value (result, "iteration_ns")->integer > layouts->slowest_ns)
    layouts->n_outrun++;
  else {
    layouts->n_fit++;
    layouts->unrest = MAX (layouts->unrest, ps_result_value (result, "unrest")->real);
    ps_sweep_point_set (point, layouts->sweep, result->point);
    layout = layout_new (space, point, result);
    layout.not_run = !is_run (space, &layout);
    g_array_append_val (space->fits, layout);
  }
}

/* Whether two settings divide the GPUs alike. */
static gboolean are_alike (const PsLayout *a, const PsLayout *b)
{
  return a->setting.n_devices == b->setting.n_devices && a->setting.n_tensor == b->setting.n_tensor
         && a->setting.n_context == b->setting.n_context && a->setting.n_experts == b->setting.n_experts
         && a->setting.n_replicas == b->setting.n_replicas && a->not_run == b->not_run;
}

/* Whether they are one answer. */
static gboolean is_same (const PsLayoutQuestion *question, const PsLayout *a, const PsLayout *b)
{
  return question->fold && are_alike (a, b);
}

/* The first of the settings that a setting is one answer with; itself where it is the first. */
static guint find_same (const PsLayoutQuestion *question, const GArray *layouts, const PsLayout *layout)
{
  guint i = 0;

  while (i < layouts->len && !is_same (question, &g_array_index (layouts, PsLayout, i), layout)
         && &g_array_index (layouts, PsLayout, i) != layout)
    i++;
  return i;
}

static void take_results (Space *space, PsResult **results, guint n)
{
  guint n_answers = 0;
  PsSweepPoint point;

  ps_sweep_point_init (&point, space->layouts->sweep);
  for (guint i = 0; i < n; i++)
    if (results[i] != NULL)
      take_result (space, &point, results[i]);
  ps_sweep_point_clear (&point);
  g_array_sort (space->fits, compare_layouts);
  for (guint i = 0; i < space->fits->len && n_answers < space->question->top; i++) {
    const PsLayout *layout = &g_array_index (space->fits, PsLayout, i);

    n_answers += !layout->not_run && find_same (space->question, space->fits, layout) == i;
    space->last_ns = n_answers == space->question->top ? layout->step_ns : 0;
  }
}

/* Adds a schedule that is nearly as fast, once. On one device nearly all are; a reader expects 1F1B there. */
static void note_near (PsLayout *best, const PsLayout *other)
{
  g_autofree char *named = g_strjoin (", ", best->schedule, best->near, NULL);
  g_auto (GStrv) names = g_strsplit (named, ", ", -1);

  if ((best->setting.n_devices == 1 && !g_str_equal (other->schedule, "1f1b"))
      || (double)other->step_ns > PS_LAYOUT_NEAR * (double)best->step_ns
      || g_strv_contains ((const char *const *)names, other->schedule))
    return;
  g_free (best->near);
  best->near = g_strjoin (", ", names[1] != NULL ? named + strlen (names[0]) + 2 : other->schedule,
                          names[1] != NULL ? other->schedule : NULL, NULL);
}

/* Moves the best of the settings that fit, which stand in their order, to the answer: those that run, or the others. */
static void choose_best (Space *space, gboolean not_run)
{
  GArray *best = space->layouts->best;
  const guint end = best->len + space->question->top;

  for (guint i = 0; i < space->fits->len; i++) {
    PsLayout *layout = &g_array_index (space->fits, PsLayout, i);
    guint same = find_same (space->question, best, layout);

    if (layout->schedule == NULL || layout->not_run != not_run)
      continue;
    if (same < best->len)
      note_near (&g_array_index (best, PsLayout, same), layout);
    else if (best->len < end) {
      g_array_append_vals (best, layout, 1);
      *layout = (PsLayout){ .schedule = NULL };
    }
  }
}

static gboolean predict_round (Space *space, guint first, guint n, GError **error)
{
  guint n_results = n * space->n_schedules;
  g_autofree PsResult **results = g_new0 (PsResult *, n_results);
  Round round
      = { .space = space, .cells = &g_array_index (space->cells, Cell, first), .n_cells = n, .results = results };
  gboolean ok = ps_threads_run (&round.threads, MAX (space->question->n_jobs, 1), predict_cells, &round, error);

  for (guint i = 0; ok && i < n; i++)
    space->layouts->n_outrun += count_schedules (&round.cells[i]);
  for (guint i = 0; ok && i < n_results; i++)
    space->layouts->n_outrun -= results[i] != NULL;
  if (ok)
    take_results (space, results, n_results);
  for (guint i = 0; i < n_results; i++)
    ps_result_free (results[i]);
  return ok;
}

/* Cells stand in the order of rising floors: after the first that is outrun, all are. */
static gboolean predict_all (Space *space, GError **error)
{
  guint first = 0, end = 0;

  do {
    if (end > first && !predict_round (space, first, end - first, error))
      return FALSE;
    first = end;
    while (end < MIN (first + ROUND, space->cells->len)
           && !is_outrun (space, g_array_index (space->cells, Cell, end).floor_ns))
      end++;
  } while (end > first);
  for (; first < space->cells->len; first++)
    space->layouts->n_outrun += count_schedules (&g_array_index (space->cells, Cell, first));
  return TRUE;
}

/* Cuts the slices of a layout to even work where that fits and is faster. */
static gboolean cut_evenly (const Space *space, PsLayout *layout, GError **error)
{
  PsSetting setting = layout->setting;
  g_autoptr (PsPredictor) predictor = ps_predictor_new (&setting, NULL);

  setting.even_work = TRUE;
  g_autoptr (PsPrediction) even = ps_predictor_predict (predictor, layout->schedule, error);
  if (even != NULL && even->metrics.iteration_ns < layout->step_ns
      && even->metrics.peak_memory_bytes <= space->layouts->memory_limit) {
    setting.n_slices = even->program->schedule->n_slices;
    layout->setting = setting;
    layout->bubble_ratio = even->metrics.bubble_ratio;
    layout->peak_memory_bytes = even->metrics.peak_memory_bytes;
    set_step (space, layout, even->metrics.iteration_ns);
  }
  return even != NULL;
}

/* The settings stand in their order. Of those that divide the GPUs alike, only the fastest one of each schedule is cut.
 * Slices of a short sequence differ little. */
static gboolean cut_all_evenly (Space *space, GError **error)
{
  const PsLayoutQuestion *question = space->question;
  const PsModel *model = space->model;

  if (question->given.db != NULL || question->runner != NULL)
    return TRUE;
  for (guint i = 0; i < space->fits->len; i++) {
    PsLayout *layout = &g_array_index (space->fits, PsLayout, i);
    const PsFamily *family = ps_family_find (layout->schedule);
    gboolean first = TRUE;

    if (space->last_ns > 0 && (double)layout->step_ns > EVEN_GAIN * (double)space->last_ns)
      break;
    if (family->default_slices == 0 || layout->setting.n_devices == 1
        || model->sequence < (guint64)PS_LAYOUT_SLICE * layout->setting.n_devices * layout->setting.n_context)
      continue;
    for (guint k = 0; k < i && first; k++) {
      const PsLayout *other = &g_array_index (space->fits, PsLayout, k);

      first = !are_alike (other, layout) || !g_str_equal (other->schedule, layout->schedule);
    }
    if (first && !cut_evenly (space, layout, error))
      return FALSE;
  }
  g_array_sort (space->fits, compare_layouts);
  return TRUE;
}

/* *work_ns: becomes the space's, where that is less. */
static PsLayouts *find (const PsLayoutQuestion *question, double *work_ns, GError **error)
{
  g_autoptr (PsLayouts) layouts = g_new0 (PsLayouts, 1);
  g_auto (Space) space = { .question = question, .layouts = layouts, .work_ns = *work_ns };

  ps_progress_begin (0);
  layouts->n_sizes = 1;
  layouts->best = g_array_new (FALSE, TRUE, sizeof (PsLayout));
  space.fits = g_array_new (FALSE, TRUE, sizeof (PsLayout));
  g_array_set_clear_func (layouts->best, layout_clear);
  g_array_set_clear_func (space.fits, layout_clear);
  if (!open_space (&space, error) || !predict_all (&space, error) || !cut_all_evenly (&space, error))
    return NULL;
  choose_best (&space, FALSE);
  choose_best (&space, TRUE);
  *work_ns = space.work_ns;
  return g_steal_pointer (&layouts);
}

PsLayouts *ps_layouts_find (const PsLayoutQuestion *question, GError **error)
{
  double work_ns = G_MAXDOUBLE;

  return find (question, &work_ns, error);
}

/* The fewest GPUs */

/* Whether some layout has n GPUs: p t c d, where t and c are as asked or powers of two and d divides the batch. */
static gboolean has_layouts (const PsLayoutQuestion *question, const PsModel *model, guint n)
{
  guint64 device = (guint64)MAX (question->tensor, 1) * MAX (question->context, 1);

  for (; device <= n && n % device == 0; device *= 2)
    for (guint p = 1, shares = (guint)(n / device); p <= MIN (model->layers + 2, shares); p++)
      if (shares % p == 0 && question->global_batch % (shares / p) == 0)
        return TRUE;
  return FALSE;
}

/* Layouts that run stand before others. */
static gboolean is_enough (const PsLayouts *layouts)
{
  return layouts->best->len > 0 && !g_array_index (layouts->best, PsLayout, 0).not_run;
}

/* Tries n GPUs and counts them. The answer replaces *best if they are enough, or those of *best are not. */
static gboolean try_size (PsLayoutQuestion *question, guint n, double *work_ns, PsLayouts **best, GError **error)
{
  question->n_gpus = n;
  g_autoptr (PsLayouts) layouts = find (question, work_ns, error);
  if (layouts == NULL)
    return FALSE;
  layouts->n_sizes = *best != NULL ? (*best)->n_sizes + 1 : 1;
  if (*best == NULL || !is_enough (*best) || is_enough (layouts)) {
    ps_layouts_free (*best);
    *best = g_steal_pointer (&layouts);
  } else
    (*best)->n_sizes++;
  return TRUE;
}

PsLayouts *ps_layouts_find_least (const PsLayoutQuestion *question, GError **error)
{
  PsLayoutQuestion sized = *question;
  g_autoptr (PsLayouts) best = NULL;
  double work_ns = G_MAXDOUBLE;

  if (question->given.db != NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "--db: the fewest GPUs need modelled costs; measured ones hold for one number");
  if (!check_question (question, error))
    return NULL;
  g_autoptr (PsModel) model = ps_model_load (question->given.model, error);
  g_autoptr (PsCluster) cluster = model != NULL ? ps_cluster_load (question->given.cluster, error) : NULL;
  if (cluster == NULL)
    return NULL;
  const guint unit = (guint)ps_common_divisor (cluster->devices_per_node, MOST_TENSOR);
  const gboolean alone = cluster->network_bandwidth <= 0;
  const guint most = alone ? cluster->devices_per_node : PS_MAX_GPUS;
  for (guint n = 1; n <= most && (best == NULL || !is_enough (best)); n *= 2)
    if (has_layouts (question, model, n) && !try_size (&sized, n, &work_ns, &best, error))
      return NULL;
  if (best == NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE, "--cluster: no layout that is asked for has at most %u GPUs", most);
  const guint end = is_enough (best) ? best->n_gpus : alone ? most + 1 : 0;
  const double least = BOUND_PART * work_ns / (double)best->slowest_ns;
  gboolean found = FALSE;
  for (guint n = unit; n < end && !found; n += unit)
    if (n >= least && (n & (n - 1)) != 0 && has_layouts (question, model, n)) {
      if (!try_size (&sized, n, &work_ns, &best, error))
        return NULL;
      found = is_enough (best) && best->n_gpus == n;
    }
  if (!is_enough (best))
    g_array_set_size (best->best, 0);
  return g_steal_pointer (&best);
}

/* Command lines */

char *ps_layout_command (const PsLayout *layout)
{
  g_autofree char *typed = ps_setting_typed (&layout->setting);

  return g_strdup_printf ("pipesim predict --schedule %s%s", layout->schedule, typed);
}
