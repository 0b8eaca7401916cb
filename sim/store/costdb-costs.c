/* costdb-costs.c - turns a profile into the costs of a pipeline: takes times and sizes from the rows that fit, and
 * interpolates transfers; and finds the samples of the same rows. */
#include "database.h"
#include "base/text.h"

#include <pipesim/cluster.h>
#include <pipesim/costdb.h>
#include <pipesim/model.h>
#include <pipesim/work.h>

#include <math.h>
#include <string.h>

/* Models of profiles */

/* The model stored with a profile. */
static PsModel *stored_model (PsCostDb *db, const PsProfile *profile, GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s: profile '%s'", db->path, profile->name);

  return ps_model_parse (where, profile->model_text, strlen (profile->model_text), error);
}

/* Refuses another model than the profile's: measured times say nothing about it. */
static gboolean check_model (PsCostDb *db, const PsProfile *profile, const PsModel *model, GError **error)
{
  static const struct {
    const char *key;
    gsize offset;
  } figures[] = {
    { "layers", offsetof (PsModel, layers) },
    { "hidden", offsetof (PsModel, hidden) },
    { "sequence", offsetof (PsModel, sequence) },
    { "microbatch_size", offsetof (PsModel, microbatch_size) },
  };
  g_autofree char *digest = ps_model_digest (model);

  if (g_str_equal (digest, profile->model_digest))
    return TRUE;
  if (*profile->model_text == '\0')
    return ps_refuse (error, PS_ERROR_INPUT, "%s: profile '%s' is of stages, and says nothing about model '%s'",
                      db->path, profile->name, model->name);
  g_autoptr (PsModel) stored = stored_model (db, profile, error);
  if (stored == NULL)
    return FALSE;
  if (stored->precision != model->precision)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: profile '%s' was measured with precision = %s, not %s", db->path,
                      profile->name, ps_precision_name (stored->precision), ps_precision_name (model->precision));
  for (guint i = 0; i < G_N_ELEMENTS (figures); i++) {
    guint had = G_STRUCT_MEMBER (guint, stored, figures[i].offset);
    guint has = G_STRUCT_MEMBER (guint, model, figures[i].offset);

    if (had != has)
      return ps_refuse (error, PS_ERROR_INPUT, "%s: profile '%s' was measured with %s = %u, not %u%s", db->path,
                        profile->name, figures[i].key, had, has,
                        model->serves && figures[i].offset == offsetof (PsModel, microbatch_size)
                            ? "; --serve takes prompts one at a time"
                            : "");
  }
  return ps_refuse (error, PS_ERROR_INPUT,
                    "%s: profile '%s' was measured with another model than '%s' (its '%s' differs in some figure)",
                    db->path, profile->name, model->name, profile->model_name);
}

PsModel *ps_costdb_model (PsCostDb *db, const char *profile_name, GError **error)
{
  g_autoptr (PsProfile) profile = ps_costdb_profile (db, profile_name, error);

  if (profile == NULL || *profile->model_text != '\0')
    return profile != NULL ? stored_model (db, profile, error) : NULL;
  return ps_refuse_null (error, PS_ERROR_INPUT, "%s: profile '%s' is of stages, without a model", db->path,
                         profile->name);
}

/* Keys of shapes */

char *ps_stage_key (guint stage, guint n_stages, gboolean back)
{
  return g_strdup_printf ("stage=%u/%u%s", stage, n_stages, back ? ",back" : "");
}

char *ps_slice_key (const char *shape, guint slice, guint n_slices)
{
  return g_strdup_printf ("%s,slice=%u/%u", shape, slice, n_slices);
}

/* The number of direct links that a place has to another, by what stands after its "+"; 0: none. */
static guint direct_links (const char *place, const char *bus_id)
{
  const char *links = strchr (place, '+');
  g_auto (GStrv) items = g_strsplit (links != NULL ? links + 1 : "", ",", -1);

  for (char **item = items; *item != NULL; item++) {
    const char *times = strrchr (*item, '*');

    if (times != NULL && strlen (bus_id) == (gsize)(times - *item) && g_str_has_prefix (*item, bus_id))
      return (guint)g_ascii_strtoull (times + 1, NULL, 10);
  }
  return 0;
}

/* The bus id in the last level of an accelerator's place, without its links. Free with g_free. */
static char *bus_id_of (const char *place)
{
  const char *id = strstr (place, "GPU:");

  return id != NULL ? g_strndup (id + strlen ("GPU:"), strcspn (id, "+") - strlen ("GPU:")) : g_strdup ("");
}

char *ps_link_class (const char *a, const char *b)
{
  g_autofree char *path_a = g_strndup (a, strcspn (a, "+")), *path_b = g_strndup (b, strcspn (b, "+"));
  g_autofree char *id_a = bus_id_of (a), *id_b = bus_id_of (b);
  g_auto (GStrv) levels_a = g_strsplit (path_a, "/", -1), levels_b = g_strsplit (path_b, "/", -1);
  guint n_common = 0, n_direct = 0;

  while (levels_a[n_common] != NULL && g_strcmp0 (levels_a[n_common], levels_b[n_common]) == 0)
    n_common++;
  if (*id_a != '\0' && !g_str_equal (id_a, id_b))
    n_direct = MAX (direct_links (a, id_b), MIN (direct_links (a, "switch"), direct_links (b, "switch")));
  if (n_common == 0)
    return g_strdup ("network");
  if (n_direct > 0)
    return g_strdup_printf ("nvlink*%u", n_direct);
  if (n_common == 1)
    return g_strdup ("machine");
  return g_ascii_strdown (levels_a[n_common - 1], (gssize)strcspn (levels_a[n_common - 1], ":"));
}

char *ps_places_link_class (const char *places, guint a, guint b)
{
  g_auto (GStrv) all = g_strsplit (places, ";", -1);

  return MAX (a, b) < g_strv_length (all) ? ps_link_class (all[a], all[b]) : NULL;
}

char *ps_link_key (guint a, guint b)
{
  return g_strdup_printf ("link=%u-%u", MIN (a, b), MAX (a, b));
}

char *ps_link_class_key (const char *link_class)
{
  return g_strconcat ("link=", link_class, NULL);
}

static gboolean is_outside (const PsStatistics *time, gint64 ns)
{
  return ns < time->q1_ns || ns > time->q3_ns;
}

gboolean ps_links_differ (const PsMeasurement *a, const PsMeasurement *b)
{
  return is_outside (&a->time, b->time.median_ns) && is_outside (&b->time, a->time.median_ns)
         && fabs ((double)(a->time.median_ns - b->time.median_ns))
                > PS_SENTINEL_TOLERANCE * (double)MIN (a->time.median_ns, b->time.median_ns);
}

/* The rows that fit a pipeline */

/* Everything one request for costs works with. Clear with cost_request_clear. */
typedef struct {
  PsCostDb *db;
  PsProfile *profile;
  PsModel *stored; /* the model of the profile, if none was given */
  const PsModel *model;
  GPtrArray *measurements;
  guint *shares;        /* [n_devices] of the profile; NULL: equal parts */
  PsStageShape *shapes; /* [n_stages]; NULL without a model */
  char **keys;          /* [n_stages] the shapes of the stages' rows */
  guint n_devices;
  guint n_stages;
  gboolean op_by_op; /* see ps_costdb_stage_costs */
} PsCostRequest;

static void cost_request_clear (PsCostRequest *request)
{
  g_clear_pointer (&request->profile, ps_profile_free);
  g_clear_pointer (&request->stored, ps_model_free);
  g_clear_pointer (&request->measurements, g_ptr_array_unref);
  g_free (request->shares);
  g_free (request->shapes);
  g_strfreev (request->keys);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsCostRequest, cost_request_clear)

static const PsMeasurement *row_at (GPtrArray *rows, guint i)
{
  return rows->pdata[i];
}

/* TRUE: a measurement with `devices` busy devices describes the wanted number better than `best` does. Best is that
 * number itself, then the largest below, then the smallest above. */
static gboolean is_closer (guint wanted, guint devices, guint best)
{
  if (best == 0)
    return TRUE;
  if (devices <= wanted)
    return best > wanted || devices > best;
  return best > wanted && devices < best;
}

/* TRUE: a describes the wanted number of devices better than b, which may be NULL. The number of devices busy at the
 * same time counts first, then the number that shares the accelerator. */
static gboolean is_better (const PsCostRequest *request, const PsMeasurement *a, const PsMeasurement *b)
{
  guint wanted = request->n_devices;

  if (b == NULL || a->devices != b->devices)
    return is_closer (wanted, a->devices, b != NULL ? b->devices : 0);
  return is_closer (wanted, a->sharing, b->sharing);
}

/* A stage's share of an accelerator under placement loop; 0: equal ones. */
static guint share_of (const PsCostRequest *request, guint stage)
{
  return request->shares != NULL ? request->shares[stage % request->n_devices] : 0;
}

static gboolean suits (const PsMeasurement *m, PsSubject subject, const char *shape)
{
  return m->subject == subject && g_str_equal (m->shape, shape);
}

/* The row of that subject and shape that describes the wanted number of devices best. NULL: there is none. Ops have a
 * kind and a share, too. */
static const PsMeasurement *find_row (const PsCostRequest *request, PsSubject subject, const char *shape, PsOpKind kind,
                                      guint share)
{
  const PsMeasurement *best = NULL;

  for (guint i = 0; i < request->measurements->len; i++) {
    const PsMeasurement *m = row_at (request->measurements, i);
    gboolean wanted = subject != PS_SUBJECT_OP || (m->cache == PS_CACHE_RUN && m->kind == kind && m->share == share);

    if (wanted && suits (m, subject, shape) && is_better (request, m, best))
      best = m;
  }
  return best;
}

static const PsMeasurement *find_op (const PsCostRequest *request, const char *shape, guint stage, PsOpKind kind)
{
  return find_row (request, PS_SUBJECT_OP, shape, kind, share_of (request, stage));
}

/* The same, but F stands for R where nothing else was measured. */
static const PsMeasurement *find_op_or_f (const PsCostRequest *request, const char *shape, guint stage, PsOpKind kind)
{
  const PsMeasurement *measured = find_op (request, shape, stage, kind);

  return measured == NULL && kind == PS_OP_R ? find_op (request, shape, stage, PS_OP_F) : measured;
}

static gboolean is_imported (const PsCostRequest *request)
{
  return *request->profile->source != '\0';
}

/* The messages of that shape that suit, by size: with "" the transfers of the first link's class, or the all-reduces.
 * Free with g_ptr_array_unref. */
static GPtrArray *find_messages (const PsCostRequest *request, PsSubject subject, const char *shape)
{
  GPtrArray *messages = g_ptr_array_new ();
  const PsMeasurement *chosen = find_row (request, subject, shape, PS_OP_F, 0);

  for (guint i = 0; i < request->measurements->len && chosen != NULL; i++) {
    const PsMeasurement *m = row_at (request->measurements, i);

    if (suits (m, subject, shape) && m->devices == chosen->devices && m->sharing == chosen->sharing)
      g_ptr_array_add (messages, (gpointer)m);
  }
  return messages;
}

/* The transfers between two devices: those of the link's class, but its own where these differ (ps_links_differ). Where
 * neither was measured they are those of the first link's class, and *origin becomes PS_ORIGIN_INTERPOLATED. */
static GPtrArray *find_link (const PsCostRequest *request, guint a, guint b, PsOrigin *origin)
{
  g_autofree char *link_class = ps_places_link_class (request->profile->places, a, b);
  g_autofree char *first_class = ps_places_link_class (request->profile->places, 0, 1);
  g_autofree char *class_key = link_class != NULL ? ps_link_class_key (link_class) : g_strdup ("");
  g_autofree char *key = ps_link_key (a, b);
  g_autoptr (GPtrArray) usual = find_messages (request, PS_SUBJECT_TRANSFER, class_key);
  g_autoptr (GPtrArray) own = find_messages (request, PS_SUBJECT_TRANSFER, key);

  if (usual->len == 0) {
    if (own->len == 0 && link_class != NULL && !g_str_equal (link_class, first_class))
      *origin = PS_ORIGIN_INTERPOLATED;
    g_ptr_array_unref (usual);
    usual = find_messages (request, PS_SUBJECT_TRANSFER, "");
  }
  for (guint i = 0; i < own->len; i++)
    for (guint k = 0; k < usual->len; k++)
      if (row_at (own, i)->bytes == row_at (usual, k)->bytes && ps_links_differ (row_at (own, i), row_at (usual, k)))
        return g_steal_pointer (&own);
  return g_steal_pointer (&usual);
}

/* The two measured sizes on whose line `bytes` lies: the nearest below and above, or the two outermost on its side.
 * Both are the same where it is exactly that size, or where only one was measured. */
static void find_neighbours (GPtrArray *transfers, gint64 bytes, const PsMeasurement **below,
                             const PsMeasurement **above)
{
  guint i = 0;

  while (i + 1 < transfers->len && row_at (transfers, i)->bytes < bytes)
    i++;
  *above = transfers->pdata[i];
  *below = *above;
  if ((*above)->bytes == bytes || transfers->len == 1)
    return;
  if (i == 0)
    *above = transfers->pdata[1];
  else
    *below = transfers->pdata[i - 1];
}

/* The time of a message by its size: on a line through two measured points. Beyond the last one it is continued, but
 * never falls. */
static gint64 message_ns (GPtrArray *messages, gint64 bytes)
{
  const PsMeasurement *a, *b;

  find_neighbours (messages, bytes, &a, &b);
  if (a == b)
    return a->time.median_ns;
  gboolean beyond = bytes > b->bytes;
  double slope = (double)(b->time.median_ns - a->time.median_ns) / (double)(b->bytes - a->bytes);
  const PsMeasurement *from = beyond ? b : a;
  gint64 ns = from->time.median_ns + llrint ((beyond ? MAX (slope, 0) : slope) * (double)(bytes - from->bytes));
  return CLAMP (ns, 0, PS_MAX_TIME_NS);
}

/* Unequal shares fix the number of devices. */
static gboolean read_shares (PsCostRequest *request, GError **error)
{
  const PsProfile *profile = request->profile;
  g_autofree char *where = g_strdup_printf ("%s: profile '%s': shares", request->db->path, profile->name);
  guint n;

  if (*profile->shares == '\0')
    return TRUE;
  request->shares = ps_shares_parse (where, profile->shares, &n, error);
  if (request->shares == NULL)
    return ps_text_blame_input (error);
  if (n == request->n_devices)
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT,
                    "%s: profile '%s' was measured on %u devices with shares %s: it has no costs for %u",
                    request->db->path, profile->name, n, profile->shares, request->n_devices);
}

/* Sets the shapes of the stages (shapes NULL: those of ps_model_split) and their keys. Stages that were not measured as
 * they offload or recompute are looked up without that. */
static gboolean set_shapes (PsCostRequest *request, const PsStageShape *shapes, GError **error)
{
  guint n = request->n_stages;

  request->keys = g_new0 (char *, n + 1);
  if (request->model != NULL)
    request->shapes = shapes != NULL ? g_memdup2 (shapes, n * sizeof *shapes) : g_new0 (PsStageShape, n);
  if (request->model != NULL && shapes == NULL && !ps_model_split (request->model, n, request->shapes, error))
    return FALSE;
  for (guint stage = 0; stage < n; stage++)
    for (guint step = 0; step < 3; step++) {
      PsStageShape *shape = request->model != NULL ? &request->shapes[stage] : NULL;

      if (shape != NULL && step == 1)
        shape->offload = 0;
      if (shape != NULL && step == 2)
        shape->recompute = PS_RECOMPUTE_NONE;
      g_free (request->keys[stage]);
      request->keys[stage] = shape != NULL ? ps_stage_shape_key (shape) : ps_stage_key (stage, n, FALSE);
      if (shape == NULL || find_op (request, request->keys[stage], stage, PS_OP_F) != NULL)
        break;
    }
  for (guint i = 0; i < request->measurements->len && request->model == NULL; i++)
    if (suits (row_at (request->measurements, i), PS_SUBJECT_OP, request->keys[0]))
      return TRUE;
  return request->model != NULL
         || ps_refuse (error, PS_ERROR_INPUT, "%s: profile '%s' is of other stages than %u, and without a model: %s",
                       request->db->path, request->profile->name, n, request->profile->source);
}

/* Finds profile, model, shares, measurements without samples, shapes and keys; db, model, n_devices and n_stages are
 * set. The caller clears the request in any case. */
static gboolean cost_request_open (PsCostRequest *request, const char *profile_name, const PsStageShape *shapes,
                                   GError **error)
{
  g_return_val_if_fail (request->n_devices >= 1 && request->n_stages >= 1, FALSE);
  request->profile = ps_costdb_profile (request->db, profile_name, error);
  if (request->profile == NULL
      || (request->model != NULL && !check_model (request->db, request->profile, request->model, error)))
    return FALSE;
  if (request->model == NULL && *request->profile->model_text != '\0') {
    request->model = request->stored = stored_model (request->db, request->profile, error);
    if (request->model == NULL)
      return FALSE;
  }
  if (!read_shares (request, error))
    return FALSE;
  request->measurements = ps_costdb_measurements (request->db, request->profile->name, FALSE, error);
  return request->measurements != NULL && set_shapes (request, shapes, error);
}

/* Costs */

/* Parameters that a device holds of a stage. Devices that share its layers have embedding and head whole. */
static gint64 count_parameters (const PsCostRequest *request, const PsStageShape *shape)
{
  const guint t = MAX (shape->n_tensor, 1);
  PsStageShape layers = *shape;

  layers.embedding = FALSE;
  layers.head = 0;
  return ps_model_stage_parameters (request->model, shape) - ps_model_stage_parameters (request->model, &layers)
         + ps_tensor_parameters (request->model, &layers, t);
}

/* The option that says how devices share layers; "" where they don't. Free with g_free. */
static char *describe_tensor (const PsCostRequest *request)
{
  guint n_tensor = request->shapes != NULL ? request->shapes[0].n_tensor : 1;

  return n_tensor > 1 ? g_strdup_printf (" --tensor %u", n_tensor) : g_strdup ("");
}

static gboolean refuse_missing (const PsCostRequest *request, const char *what, GError **error)
{
  guint n_stages = request->n_stages;
  gboolean even = ps_stage_shapes_are_even (request->shapes, n_stages);
  g_autofree char *layout = ps_layout_write (NULL, request->shapes, n_stages);
  g_autofree char *tensor = describe_tensor (request);

  return ps_refuse (
      error, PS_ERROR_INPUT,
      "%s: profile '%s' has no %s; measure it with: pipesim calib run --db %s --profile %s --model FILE -p %u "
      "-v %u%s%s%s%s%s%s",
      request->db->path, request->profile->name, what, request->db->path, request->profile->name, request->n_devices,
      n_stages / request->n_devices, request->shares != NULL ? " --sm-shares " : "", request->profile->shares,
      even ? "" : " --layout '", even ? "" : layout, even ? "" : "'", tensor);
}

/* The time of an op in a run, by the rule of ps_costdb_stage_costs. */
static gint64 op_ns (const PsCostRequest *request, const PsMeasurement *m)
{
  return m->time.median_ns + (request->op_by_op ? m->launch_ns : 0);
}

/* A warm op counts where one that is not was measured with as many devices busy. In a calibration, a backward whose
 * gradient comes from another stage waits, and its data gets cold. */
static void fill_warm (const PsCostRequest *request, guint stage, PsCosts *costs)
{
  const char *key = request->keys[stage];
  g_autofree char *warm = g_strconcat (key, PS_WARM_SUFFIX, NULL);

  for (guint kind = 0; kind < PS_OP_O; kind++) {
    const PsMeasurement *m = find_op (request, warm, stage, (PsOpKind)kind);
    const PsMeasurement *other = find_op (request, key, stage, (PsOpKind)kind);
    gboolean waits = !is_imported (request) && (kind == PS_OP_B || kind == PS_OP_BW) && stage + 1 < costs->n_stages;

    if (waits || m == NULL || other == NULL || m->devices != other->devices || op_ns (request, other) <= 0)
      continue;
    if (costs->warm == NULL) {
      costs->warm = g_new (double, (gsize)PS_OP_O * costs->n_stages);
      for (guint i = 0; i < PS_OP_O * costs->n_stages; i++)
        costs->warm[i] = 1;
    }
    costs->warm[kind * costs->n_stages + stage] = (double)op_ns (request, m) / (double)op_ns (request, other);
  }
}

static gboolean fill_stage (const PsCostRequest *request, guint stage, PsCosts *costs, GError **error)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW, PS_OP_O };
  const char *key = request->keys[stage];
  const PsMeasurement *pair = find_row (request, PS_SUBJECT_PAIR, key, PS_OP_F, 0);
  const PsMeasurement *again = find_op_or_f (request, key, stage, PS_OP_R);
  guint share = share_of (request, stage);

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++) {
    const PsMeasurement *m = find_op (request, key, stage, kinds[i]);

    if (m == NULL && is_imported (request)) {
      costs->stage[stage].unknown |= (1U << kinds[i]) & ~(1U << PS_OP_O);
      continue;
    }
    if (m == NULL) {
      g_autofree char *part = share ? g_strdup_printf (" with share %u", share) : g_strdup ("");
      g_autofree char *what = g_strdup_printf ("%s of stage shape '%s'%s", ps_op_kind_name (kinds[i]), key, part);

      return refuse_missing (request, what, error);
    }
    *ps_costs_op (costs, kinds[i], stage)
        = (PsOpCost){ .duration_ns = op_ns (request, m), .take_bytes = m->take_bytes, .give_bytes = m->give_bytes };
    costs->stage[stage].weight_bytes = m->state_bytes;
    if (g_str_equal (m->stop, "estimated"))
      costs->time_origin = PS_ORIGIN_MODELLED;
  }
  ps_costs_guess (costs, stage);
  fill_warm (request, stage, costs);
  if (pair != NULL)
    costs->stage[stage].pair_ns = op_ns (request, pair);
  *ps_costs_op (costs, PS_OP_R, stage) = *ps_costs_op (costs, PS_OP_F, stage);
  if (again != NULL)
    ps_costs_op (costs, PS_OP_R, stage)->duration_ns = op_ns (request, again);
  return TRUE;
}

/* The mean of all posts of that name; -1: there are none. */
static gboolean mean_post (const PsCostRequest *request, const char *name, gint64 *ns, GError **error)
{
  g_autoptr (PsMeasurement) samples = g_new0 (PsMeasurement, 1);
  const PsMeasurement *m = find_row (request, PS_SUBJECT_HOST, name, PS_OP_F, 0);

  *ns = -1;
  if (m == NULL)
    return TRUE;
  samples->id = m->id;
  if (!ps_costdb_read_samples (request->db, samples, error))
    return FALSE;
  *ns = samples->n_samples > 0 ? ps_mean (samples->samples_ns, samples->n_samples) : m->time.median_ns;
  return TRUE;
}

/* As in ps_observed_costs. Calibrated transfers begin with the call that posts them, so they have its time in them. */
static gboolean fill_host (const PsCostRequest *request, PsCosts *costs, GError **error)
{
  const PsMeasurement *op = find_row (request, PS_SUBJECT_HOST, "op", PS_OP_F, 0);
  gint64 send_ns, receive_ns;

  if (!mean_post (request, "send", &send_ns, error) || !mean_post (request, "receive", &receive_ns, error))
    return FALSE;
  costs->op_ns = op != NULL ? op->time.median_ns : 0;
  costs->post_ns = send_ns >= 0 && receive_ns >= 0 ? (send_ns + receive_ns) / 2 : costs->op_ns;
  for (guint i = 1; i <= 2 * costs->n_stages && !is_imported (request); i++)
    costs->transfer_ns[i] = MAX (costs->transfer_ns[i] - costs->post_ns, 0);
  return TRUE;
}

/* What the model says about the sizes of stages: the versions of weights, and the parts of what a stage was measured to
 * hold. A device that holds less than the model's formulas has others. */
static void fill_sizes (const PsCostRequest *request, PsCosts *costs)
{
  costs->shapes = g_memdup2 (request->shapes, costs->n_stages * sizeof *request->shapes);
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    gint64 parameters = count_parameters (request, &request->shapes[stage]);
    PsStateBytes state = ps_model_state (request->model, parameters);

    costs->stage[stage].version_bytes = parameters * ps_precision_bytes (request->model->precision);
    if (state.weight_bytes + state.gradient_bytes + state.optimizer_bytes <= costs->stage[stage].weight_bytes)
      costs->stage[stage].state = state;
  }
}

/* The boundaries of a profile without a model are those of its run. */
static void fill_boundaries (const PsCostRequest *request, PsCosts *costs)
{
  for (guint back = 0; back < 2; back++)
    for (guint stage = 0; stage < costs->n_stages; stage++) {
      g_autofree char *key = ps_stage_key (stage, costs->n_stages, back == 1);
      const PsMeasurement *m = find_row (request, PS_SUBJECT_TRANSFER, key, PS_OP_F, 0);

      costs->transfer_ns[1 + back * costs->n_stages + stage] = m != NULL ? m->time.median_ns : -1;
    }
  ps_costs_guess_transfers (costs);
}

/* The time of a boundary's message from a device to another. */
static gint64 boundary_ns (const PsCostRequest *request, guint from, guint to, PsOrigin *origin)
{
  g_autoptr (GPtrArray) transfers = find_link (request, from, to, origin);
  gint64 bytes = ps_model_boundary_bytes (request->model);
  const PsMeasurement *below, *above;

  find_neighbours (transfers, bytes, &below, &above);
  if (above->bytes != bytes)
    *origin = PS_ORIGIN_INTERPOLATED;
  return message_ns (transfers, bytes);
}

/* Stage i counts as on device i modulo n_devices. A V's stages have these links too where places read alike from both
 * ends. */
static gboolean fill_transfers (const PsCostRequest *request, PsCosts *costs, GError **error)
{
  g_autoptr (GPtrArray) transfers = find_messages (request, PS_SUBJECT_TRANSFER, "");
  guint p = request->n_devices;

  if (p > 1 && is_imported (request) && transfers->len == 0)
    costs->transfer_origin = PS_ORIGIN_MODELLED; /* they take no time */
  if (p == 1 || costs->transfer_origin == PS_ORIGIN_MODELLED)
    return TRUE;
  if (transfers->len == 0)
    return refuse_missing (request, "transfer times", error);
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    guint device = stage % p, next = (stage + 1) % p, previous = (stage + p - 1) % p;

    costs->transfer_ns[ps_transfer_forward (costs, stage)]
        = boundary_ns (request, device, next, &costs->transfer_origin);
    costs->transfer_ns[ps_transfer_backward (costs, stage)]
        = boundary_ns (request, device, previous, &costs->transfer_origin);
  }
  return TRUE;
}

/* The least number of slices, more than n, whose first one of the first stage was measured; 0: there is none. */
static guint next_slices (const PsCostRequest *request, guint n)
{
  guint next = 0;

  for (guint i = 0; i < request->measurements->len; i++) {
    const PsMeasurement *m = row_at (request->measurements, i);
    const char *slash = m->subject == PS_SUBJECT_OP ? strrchr (m->shape, '/') : NULL;
    guint64 found = slash != NULL ? g_ascii_strtoull (slash + 1, NULL, 10) : 0;

    if (found <= n || found > PS_MAX_SLICES || (next > 0 && found >= next))
      continue;
    g_autofree char *first = ps_slice_key (request->keys[0], 0, (guint)found);
    if (g_str_equal (m->shape, first))
      next = (guint)found;
  }
  return next;
}

/* Sets the parts of one stage's ops. FALSE: not all of its slices were measured. */
static gboolean fill_parts (const PsCostRequest *request, guint stage, const PsCosts *costs, PsSliceParts *parts)
{
  for (guint kind = 0; kind < PS_OP_O; kind++)
    for (guint slice = 0; slice < parts->n; slice++) {
      g_autofree char *shape = ps_slice_key (request->keys[stage], slice, parts->n);
      const PsMeasurement *m = find_op_or_f (request, shape, stage, (PsOpKind)kind);
      gint64 whole_ns = ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns;

      if (m == NULL || whole_ns <= 0)
        return FALSE;
      parts->part[(kind * parts->n + slice) * costs->n_stages + stage] = (double)op_ns (request, m) / (double)whole_ns;
    }
  return TRUE;
}

/* Time of a slice's message over that of a whole one. */
static double transfer_part (const PsCostRequest *request, guint n_slices)
{
  g_autoptr (GPtrArray) transfers = find_messages (request, PS_SUBJECT_TRANSFER, "");
  gint64 bytes = request->model != NULL ? ps_model_boundary_bytes (request->model) : 0;
  gint64 whole_ns = transfers->len > 0 && bytes > 0 ? message_ns (transfers, bytes) : 0;

  return whole_ns > 0 ? MIN ((double)message_ns (transfers, bytes / n_slices) / (double)whole_ns, 1) : 1;
}

/* Adds the parts that slices take, for each number of slices that all stages were measured with. */
static void fill_slices (const PsCostRequest *request, PsCosts *costs)
{
  for (guint n = next_slices (request, 0); n > 0; n = next_slices (request, n)) {
    g_autoptr (PsSliceParts) parts = ps_slice_parts_new (n, NULL, costs->n_stages);
    double transfer = transfer_part (request, n);
    gboolean whole = TRUE;

    for (guint stage = 0; stage < costs->n_stages && whole; stage++)
      whole = fill_parts (request, stage, costs, parts);
    if (!whole)
      continue;
    for (guint i = 0; i < 2 * n * costs->n_stages; i++)
      parts->transfer[i] = transfer;
    ps_costs_add_slices (costs, g_steal_pointer (&parts));
  }
}

/* Finds how far the sentinel moved while the measurements that these stages use, and those of no stage, were taken. */
static gboolean find_unrest (const PsCostRequest *request, PsCosts *costs, GError **error)
{
  g_autoptr (GPtrArray) sentinels = ps_costdb_sentinels (request->db, request->profile->name, error);
  g_autofree double *shifts = g_new0 (double, request->measurements->len);

  if (sentinels == NULL)
    return FALSE;
  ps_sentinel_shifts (sentinels, request->measurements, shifts);
  for (guint i = 0; i < request->measurements->len; i++) {
    const PsMeasurement *m = row_at (request->measurements, i);

    if (m->subject != PS_SUBJECT_OP || g_strv_contains ((const char *const *)request->keys, m->shape))
      costs->unrest = MAX (costs->unrest, shifts[i]);
  }
  return TRUE;
}

/* "; ops were measured with 2 busy devices, not 4", where that is so. */
static char *describe_devices (const PsCostRequest *request)
{
  const PsMeasurement *op = find_op (request, request->keys[0], 0, PS_OP_F);

  if (op == NULL || op->devices == request->n_devices)
    return g_strdup ("");
  return g_strdup_printf ("; ops were measured with %u busy device%s, not %u", op->devices, op->devices == 1 ? "" : "s",
                          request->n_devices);
}

static char *describe_source (const PsCostRequest *request, double unrest)
{
  const PsProfile *profile = request->profile;
  g_autofree char *devices = describe_devices (request);
  g_autofree char *tensor = describe_tensor (request);
  g_autofree char *moved
      = unrest > PS_SENTINEL_TOLERANCE
            ? g_strdup_printf ("; the machine was not quiet then: its sentinel op moved by up to %.0f %%", 100 * unrest)
            : g_strdup ("");

  if (is_imported (request))
    return g_strdup_printf ("profile '%s' of %s: imported from %s", profile->name, request->db->path, profile->source);
  return g_strdup_printf ("profile '%s' of %s: %s%s%s%s over %s on %s (%s), measured %s%s%s", profile->name,
                          request->db->path, profile->device, tensor, request->shares != NULL ? " with shares " : "",
                          profile->shares, profile->transport, profile->host, profile->processor, profile->created,
                          devices, moved);
}

/* The times that the replicas, and the weight copies of all replicas, take to add up the gradients of each stage, by
 * the all-reduces over as many processes or threads as come closest; 0 where none was measured. */
static void fill_reduce (PsCostRequest *request, PsCosts *costs, guint n_replicas)
{
  for (guint copies = 1; copies <= 2; copies++) {
    request->n_devices = copies * n_replicas;
    g_autoptr (GPtrArray) reductions = find_messages (request, PS_SUBJECT_ALL_REDUCE, "");
    for (guint stage = 0; stage < costs->n_stages && request->n_devices > 1 && reductions->len > 0; stage++) {
      PsStageCost *cost = &costs->stage[stage];

      *(copies == 1 ? &cost->reduce_ns : &cost->reduce2_ns) = message_ns (reductions, cost->state.gradient_bytes);
    }
  }
}

PsCosts *ps_costdb_stage_costs (PsCostDb *db, const char *profile_name, const PsModel *model,
                                const PsStageShape *shapes, guint n_devices, guint n_chunks, gboolean op_by_op,
                                guint n_replicas, GError **error)
{
  guint n_stages = n_devices * n_chunks;
  g_auto (PsCostRequest) request
      = { .db = db, .model = model, .n_devices = n_devices, .n_stages = n_stages, .op_by_op = op_by_op };
  g_autoptr (PsCosts) costs = ps_costs_new (n_stages);

  if (!cost_request_open (&request, profile_name, shapes, error))
    return NULL;
  costs->time_origin = costs->transfer_origin = costs->memory_origin = PS_ORIGIN_MEASURED;
  costs->loop_only = request.shares != NULL;
  if (request.model != NULL)
    ps_costs_set_messages (costs, request.model, 1);
  for (guint stage = 0; stage < n_stages; stage++)
    if (!fill_stage (&request, stage, costs, error))
      return NULL;
  if (request.model != NULL)
    fill_sizes (&request, costs);
  else
    fill_boundaries (&request, costs);
  if ((request.model != NULL && !fill_transfers (&request, costs, error)) || !fill_host (&request, costs, error))
    return NULL;
  fill_slices (&request, costs);
  if (!find_unrest (&request, costs, error))
    return NULL;
  g_free (costs->source);
  costs->source = describe_source (&request, costs->unrest);
  fill_reduce (&request, costs, n_replicas);
  return g_steal_pointer (&costs);
}

PsCosts *ps_costdb_costs (PsCostDb *db, const char *profile, const PsModel *model, guint n_devices, guint n_chunks,
                          GError **error)
{
  return ps_costdb_stage_costs (db, profile, model, NULL, n_devices, n_chunks, FALSE, 1, error);
}

/* The samples of the rows that costs come from, and the same rows in all calibrations of a profile. */

/* The samples over their median; NULL where there are none or the median is no time. */
static GArray *relative_samples (const PsMeasurement *m, double *largest)
{
  if (m->n_samples == 0 || m->time.median_ns <= 0)
    return NULL;
  GArray *samples = g_array_sized_new (FALSE, FALSE, sizeof (double), m->n_samples);
  for (guint i = 0; i < m->n_samples; i++) {
    double sample = (double)m->samples_ns[i] / (double)m->time.median_ns;

    g_array_append_val (samples, sample);
    *largest = MAX (*largest, sample);
  }
  return samples;
}

/* Notes the row of a cost, with its samples; rows holds all rows. m NULL: the cost has none. */
static gboolean take_row (const PsCostRequest *request, PsCostSpread *spread, GPtrArray *rows, PsMeasurement *m,
                          guint cost, GArray **samples, GError **error)
{
  spread->row[cost] = PS_NO_ROW;
  if (m == NULL)
    return TRUE;
  if (!g_ptr_array_find (rows, m, &spread->row[cost])) {
    spread->row[cost] = rows->len;
    g_ptr_array_add (rows, m);
    if (!ps_costdb_read_samples (request->db, m, error))
      return FALSE;
  }
  *samples = relative_samples (m, &spread->largest);
  return TRUE;
}

/* Lists each row in the calibrations up to the request's, and says from that how runs differ. */
static gboolean add_runs (const PsCostRequest *request, PsCostSpread *spread, GPtrArray *measured, GError **error)
{
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  g_autoptr (GPtrArray) sentinels = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  g_autoptr (GPtrArray) kept = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  g_autoptr (GPtrArray) profiles = ps_costdb_profiles (request->db, error);

  for (guint row = 0; row < measured->len; row++)
    g_ptr_array_add (rows, g_ptr_array_new ());
  if (profiles == NULL)
    return FALSE;
  for (guint i = 0; i < profiles->len; i++) {
    const PsProfile *profile = profiles->pdata[i];
    GPtrArray *all, *readings;

    if (!ps_profile_is_same (profile, request->profile) || profile->number > request->profile->number)
      continue;
    all = profile->number == request->profile->number
              ? g_ptr_array_ref (request->measurements)
              : ps_costdb_measurements (request->db, profile->name, FALSE, error);
    readings = all != NULL ? ps_costdb_sentinels (request->db, profile->name, error) : NULL;
    if (all != NULL)
      g_ptr_array_add (kept, all);
    if (readings == NULL)
      return FALSE;
    g_ptr_array_add (sentinels, readings);
    for (guint row = 0; row < rows->len; row++)
      g_ptr_array_add (rows->pdata[row], (gpointer)ps_measurement_find (all, measured->pdata[row]));
  }
  spread->n_rows = rows->len;
  spread->deviation = g_new0 (double, rows->len);
  ps_cost_spread_set_runs (spread, rows, sentinels);
  return TRUE;
}

/* The error of interpolation belongs to each transfer of a size that was not measured. */
static void add_interpolation (GPtrArray *transfers, PsCostSpread *spread)
{
  g_autofree gint64 *bytes = g_new (gint64, transfers->len), *ns = g_new (gint64, transfers->len);
  guint row = spread->row[PS_N_OP_KINDS * spread->n_stages];
  double error;

  for (guint i = 0; i < transfers->len; i++) {
    bytes[i] = row_at (transfers, i)->bytes;
    ns[i] = MAX (row_at (transfers, i)->time.median_ns, 1);
  }
  error = ps_interpolation_error (bytes, ns, transfers->len);
  if (!isnan (error))
    spread->deviation[row] = hypot (spread->deviation[row], 1.4826 * error);
}

PsCostSpread *ps_costdb_spread (PsCostDb *db, const char *profile_name, const PsModel *model,
                                const PsStageShape *shapes, guint n_devices, guint n_chunks, GError **error)
{
  guint n_stages = n_devices * n_chunks;
  g_auto (PsCostRequest) request = { .db = db, .model = model, .n_devices = n_devices, .n_stages = n_stages };
  g_autoptr (GPtrArray) rows = g_ptr_array_new (), transfers = NULL;
  g_autoptr (PsCostSpread) spread = NULL;
  const PsMeasurement *below = NULL, *above = NULL;

  if (!cost_request_open (&request, profile_name, shapes, error))
    return NULL;
  spread = g_new0 (PsCostSpread, 1);
  spread->n_stages = n_stages;
  spread->largest = 1;
  spread->op = g_new0 (GArray *, (gsize)PS_N_OP_KINDS * n_stages);
  spread->row = g_new (guint, (gsize)PS_N_OP_KINDS * n_stages + 1);
  for (guint i = 0; i < PS_N_OP_KINDS * n_stages; i++) {
    const PsMeasurement *m
        = find_op_or_f (&request, request.keys[i % n_stages], i % n_stages, (PsOpKind)(i / n_stages));

    if (!take_row (&request, spread, rows, (PsMeasurement *)m, i, &spread->op[i], error))
      return NULL;
  }
  transfers = find_messages (&request, PS_SUBJECT_TRANSFER, "");
  if (transfers->len > 0 && request.model != NULL)
    find_neighbours (transfers, ps_model_boundary_bytes (request.model), &below, &above);
  if (!take_row (&request, spread, rows, (PsMeasurement *)above, PS_N_OP_KINDS * n_stages, &spread->transfer, error)
      || !add_runs (&request, spread, rows, error))
    return NULL;
  if (above != NULL && above->bytes != ps_model_boundary_bytes (request.model))
    add_interpolation (transfers, spread);
  return g_steal_pointer (&spread);
}

void ps_cost_spread_free (PsCostSpread *spread)
{
  if (spread == NULL)
    return;
  for (guint i = 0; i < PS_N_OP_KINDS * spread->n_stages; i++)
    g_clear_pointer (&spread->op[i], g_array_unref);
  g_free (spread->op);
  g_clear_pointer (&spread->transfer, g_array_unref);
  g_free (spread->row);
  g_free (spread->deviation);
  g_free (spread);
}
