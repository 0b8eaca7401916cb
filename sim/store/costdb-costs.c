/* costdb-costs.c - turns a profile into the costs of a pipeline: takes times and sizes from the rows that fit, and
 * interpolates transfers. */
#include "costdb-private.h"
#include "base/text.h"
#include "profile-fields.h"
#include "database.h"

#include <pipesim/costdb.h>
#include <pipesim/work.h>
#include <pipesim/model.h>
#include <pipesim/cluster.h>

#include <string.h>
#include <math.h>

/* Everything one request for costs works with. Clear with cost_request_clear. */
typedef struct
{
  PsCostDb *db;
  GPtrArray *profiles;
  const PsProfile *profile; /* one of them */
  PsModel *stored;          /* the model of the profile, if none was given */
  const PsModel *model;
  GPtrArray *measurements;
  guint *shares;        /* [n_devices] of the profile; NULL: equal parts */
  PsStageShape *shapes; /* [n_devices * n_chunks]; NULL without a model */
  guint n_devices;
  guint n_chunks;
  gboolean op_by_op; /* see ps_costdb_stage_costs */
} PsCostRequest;

/* Finds a profile by its name, and the model that it was measured with. */

/* The last calibration has its number only when that is asked for. */
static gboolean
is_named (const PsProfile *profile, const char *name)
{
  g_autofree char *numbered = g_strdup_printf ("%s#%u", profile->name, profile->number);

  return g_str_equal (profile->name, name) || g_str_equal (numbered, name);
}

/* The profile of that name among all (ps_costdb_profiles); NULL: the only one. PS_ERROR_INPUT says which there are. */
static const PsProfile *
costdb_choose_profile (PsCostDb *db, GPtrArray *profiles, const char *name, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  const PsProfile *first = profiles->len > 0 ? profiles->pdata[0] : NULL;
  const PsProfile *last = first != NULL ? profiles->pdata[profiles->len - 1] : NULL;

  if (name == NULL && first != NULL && ps_profile_is_same (first, last))
    return last;
  for (guint i = 0; i < profiles->len; i++)
    {
      const PsProfile *profile = profiles->pdata[i];

      if (name != NULL && is_named (profile, name))
        return profile;
      g_ptr_array_add (names, profile->name);
    }
  g_ptr_array_add (names, NULL);
  g_autofree char *known = g_strjoinv (", ", (char **)names->pdata);
  if (profiles->len == 0)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT,
                 "%s: holds no profile yet; measure one with: pipesim calib run --db %s --profile NAME --model FILE",
                 db->file->path, db->file->path);
  else if (name != NULL)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: no profile '%s'; there are: %s", db->file->path, name, known);
  else
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: several profiles; choose one with --profile: %s", db->file->path,
                 known);
  return NULL;
}

/* The model stored with a profile. */
static PsModel *
costdb_stored_model (PsCostDb *db, const PsProfile *profile, GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s: profile '%s'", db->file->path, profile->name);

  return ps_model_parse (where, profile->model_text, strlen (profile->model_text), error);
}

/* Refuses another model than the profile's: measured times say nothing about it. */
static gboolean
costdb_check_model (PsCostDb *db, const PsProfile *profile, const PsModel *model, GError **error)
{
  g_autofree char *digest = ps_model_digest (model);

  if (g_str_equal (digest, profile->model_digest))
    return TRUE;
  if (*profile->model_text == '\0')
    return ps_refuse (error, PS_ERROR_INPUT, "%s: profile '%s' is of stages, and says nothing about model '%s'",
                      db->file->path, profile->name, model->name);
  g_autoptr (PsModel) stored = costdb_stored_model (db, profile, error);
  if (stored == NULL)
    return FALSE;
  if (stored->precision != model->precision)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: profile '%s' was measured with precision = %s, not %s",
                      db->file->path, profile->name, ps_precision_name (stored->precision),
                      ps_precision_name (model->precision));
  return ps_refuse (error, PS_ERROR_INPUT,
                    "%s: profile '%s' was measured with another model than '%s' (its '%s' differs in some figure)",
                    db->file->path, profile->name, model->name, profile->model_name);
}

PsModel *
ps_costdb_model (PsCostDb *db, const char *profile_name, GError **error)
{
  g_autoptr (GPtrArray) profiles = ps_costdb_profiles (db, error);
  const PsProfile *profile = profiles != NULL ? costdb_choose_profile (db, profiles, profile_name, error) : NULL;

  if (profile != NULL && *profile->model_text == '\0')
    ps_refuse (error, PS_ERROR_INPUT, "%s: profile '%s' is of stages, without a model", db->file->path, profile->name);
  return profile != NULL && *profile->model_text != '\0' ? costdb_stored_model (db, profile, error) : NULL;
}

PsProfile *
ps_costdb_profile (PsCostDb *db, const char *name, GError **error)
{
  g_autoptr (GPtrArray) profiles = ps_costdb_profiles (db, error);
  const PsProfile *profile = profiles != NULL ? costdb_choose_profile (db, profiles, name, error) : NULL;
  guint place;

  return profile != NULL && g_ptr_array_find (profiles, profile, &place) ? g_ptr_array_steal_index (profiles, place)
                                                                         : NULL;
}

/* Picks the measured rows that fit a pipeline. */

static void
cost_request_clear (PsCostRequest *request)
{
  g_clear_pointer (&request->profiles, g_ptr_array_unref);
  g_clear_pointer (&request->stored, ps_model_free);
  g_clear_pointer (&request->measurements, g_ptr_array_unref);
  g_free (request->shares);
  g_free (request->shapes);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsCostRequest, cost_request_clear)

/* TRUE: a measurement with `devices` busy devices describes the wanted number better than `best` does. Best is that
 * number itself, then the largest below, then the smallest above. */
static gboolean
is_closer (guint wanted, guint devices, guint best)
{
  if (best == 0)
    return TRUE;
  if (devices <= wanted)
    return best > wanted || devices > best;
  return best > wanted && devices < best;
}

/* TRUE: a describes the wanted number of devices better than b, which may be NULL. The number of devices busy at the
 * same time counts first, then the number that shares the accelerator. */
static gboolean
is_better (const PsCostRequest *request, const PsMeasurement *a, const PsMeasurement *b)
{
  guint wanted = request->n_devices;

  if (b == NULL || a->devices != b->devices)
    return is_closer (wanted, a->devices, b != NULL ? b->devices : 0);
  return is_closer (wanted, a->sharing, b->sharing);
}

/* A stage's share of an accelerator under placement loop; 0: equal ones. */
static guint
cost_request_share (const PsCostRequest *request, guint stage)
{
  return request->shares != NULL ? request->shares[stage % request->n_devices] : 0;
}

/* The row that describes an op best, by the rule of ps_costdb_costs. NULL: there is none. F stands for R. */
static const PsMeasurement *
cost_request_op (const PsCostRequest *request, const char *shape, guint share, PsOpKind kind)
{
  const PsMeasurement *best = NULL;

  for (guint i = 0; i < request->measurements->len; i++)
    {
      const PsMeasurement *m = request->measurements->pdata[i];

      if (m->subject == PS_SUBJECT_OP && m->cache == PS_CACHE_RUN && m->kind == kind && m->share == share
          && g_str_equal (m->shape, shape) && is_better (request, m, best))
        best = m;
    }
  return best;
}

/* F stands for R where nothing else was measured. */
static const PsMeasurement *
cost_request_recompute (const PsCostRequest *request, const char *shape, guint share)
{
  const PsMeasurement *measured = cost_request_op (request, shape, share, PS_OP_R);

  return measured != NULL ? measured : cost_request_op (request, shape, share, PS_OP_F);
}

static gboolean
cost_request_is_imported (const PsCostRequest *request)
{
  return *request->profile->source != '\0';
}

/* Any row of that subject and shape; NULL: there is none. */
static const PsMeasurement *
cost_request_plain (const PsCostRequest *request, PsSubject subject, const char *shape)
{
  for (guint i = 0; i < request->measurements->len; i++)
    {
      const PsMeasurement *m = request->measurements->pdata[i];

      if (m->subject == subject && g_str_equal (m->shape, shape))
        return m;
    }
  return NULL;
}

static gboolean
is_message (const PsMeasurement *m, PsSubject subject, const char *shape)
{
  return m->subject == subject && g_str_equal (m->shape, shape);
}

/* One of the messages that suit; NULL: none was measured. */
static const PsMeasurement *
choose_message (const PsCostRequest *request, PsSubject subject, const char *shape)
{
  const PsMeasurement *best = NULL;

  for (guint i = 0; i < request->measurements->len; i++)
    {
      const PsMeasurement *m = request->measurements->pdata[i];

      if (is_message (m, subject, shape) && is_better (request, m, best))
        best = m;
    }
  return best;
}

static GPtrArray *
messages_of (const PsCostRequest *request, PsSubject subject, const char *shape)
{
  GPtrArray *messages = g_ptr_array_new ();
  const PsMeasurement *chosen = choose_message (request, subject, shape);

  for (guint i = 0; i < request->measurements->len; i++)
    {
      PsMeasurement *m = request->measurements->pdata[i];

      if (is_message (m, subject, shape) && m->devices == chosen->devices && m->sharing == chosen->sharing)
        g_ptr_array_add (messages, m);
    }
  return messages;
}

/* The transfers of the first link's class, or the all-reduces, that suit, by size; free with g_ptr_array_unref. */
static GPtrArray *
cost_request_messages (const PsCostRequest *request, PsSubject subject)
{
  return messages_of (request, subject, "");
}

/* The transfers that were measured for the class of a link, else those of the first link's class. */
static GPtrArray *
messages_of_class (const PsCostRequest *request, guint a, guint b, gboolean *measured)
{
  g_autofree char *link_class = ps_places_link_class (request->profile->places, a, b);
  g_autofree char *first_class = ps_places_link_class (request->profile->places, 0, 1);
  g_autofree char *key = link_class != NULL ? ps_link_class_key (link_class) : g_strdup ("");
  g_autoptr (GPtrArray) messages = messages_of (request, PS_SUBJECT_TRANSFER, key);

  *measured = messages->len > 0 || link_class == NULL || g_str_equal (link_class, first_class);
  if (messages->len > 0)
    return g_steal_pointer (&messages);
  return cost_request_messages (request, PS_SUBJECT_TRANSFER);
}

/* The transfers between two devices: those of the link's class, but its own where these differ (ps_links_differ). Where
 * neither was measured they are those of the first link's class, and *origin becomes PS_ORIGIN_INTERPOLATED. */
static GPtrArray *
cost_request_link (const PsCostRequest *request, guint a, guint b, PsOrigin *origin)
{
  g_autofree char *key = ps_link_key (a, b);
  gboolean measured;
  g_autoptr (GPtrArray) of_class = messages_of_class (request, a, b, &measured);
  g_autoptr (GPtrArray) own = messages_of (request, PS_SUBJECT_TRANSFER, key);

  if (!measured && own->len == 0)
    *origin = PS_ORIGIN_INTERPOLATED;
  for (guint i = 0; i < own->len; i++)
    for (guint k = 0; k < of_class->len; k++)
      {
        const PsMeasurement *mine = own->pdata[i], *usual = of_class->pdata[k];

        if (mine->bytes == usual->bytes && ps_links_differ (mine, usual))
          return g_steal_pointer (&own);
      }
  return g_steal_pointer (&of_class);
}

/* The two measured sizes on whose line `bytes` lies: the nearest below and above, or the two outermost on its side.
 * Both are the same where it is exactly that size, or where only one was measured. */
static void
cost_request_neighbours (GPtrArray *transfers, gint64 bytes, const PsMeasurement **below, const PsMeasurement **above)
{
  guint i = 0;

  while (i + 1 < transfers->len && ((const PsMeasurement *)transfers->pdata[i])->bytes < bytes)
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

char *
ps_stage_key (guint stage, guint n_stages, gboolean back)
{
  return g_strdup_printf ("stage=%u/%u%s", stage, n_stages, back ? ",back" : "");
}

/* Parameters that a device holds of a stage. Devices that share its layers have embedding and head whole. */
static gint64
cost_request_parameters (const PsCostRequest *request, const PsStageShape *shape)
{
  const guint t = MAX (shape->n_tensor, 1);
  PsStageShape layers = *shape;

  layers.embedding = layers.head = FALSE;
  return ps_model_stage_parameters (request->model, shape) - ps_model_stage_parameters (request->model, &layers)
         + ps_tensor_parameters (request->model, &layers, t);
}

char *
ps_slice_key (const char *shape, guint slice, guint n_slices)
{
  return g_strdup_printf ("%s,slice=%u/%u", shape, slice, n_slices);
}

/* The least number of slices, more than n, whose first one of that stage shape was measured; 0: there is none. */
static guint
cost_request_slices (const PsCostRequest *request, const char *key, guint n)
{
  guint next = 0;

  for (guint i = 0; i < request->measurements->len; i++)
    {
      const PsMeasurement *m = request->measurements->pdata[i];
      const char *slash = m->subject == PS_SUBJECT_OP ? strrchr (m->shape, '/') : NULL;
      guint64 found = slash != NULL ? g_ascii_strtoull (slash + 1, NULL, 10) : 0;
      g_autofree char *first = NULL;

      if (found <= n || found > PS_MAX_SLICES || (next > 0 && found >= next))
        continue;
      first = ps_slice_key (key, 0, (guint)found);
      if (g_str_equal (m->shape, first))
        next = (guint)found;
    }
  return next;
}

/* The shapes of all stages, and what the model says about their sizes. costs NULL: the shapes alone. */
static char **
cost_request_keys (const PsCostRequest *request, PsCosts *costs, GError **error)
{
  guint n = request->n_devices * request->n_chunks;
  const PsStageShape *shapes = request->shapes;
  g_autofree char *first = ps_stage_key (0, n, FALSE);
  g_auto (GStrv) keys = g_new0 (char *, n + 1);

  if (request->model == NULL && cost_request_plain (request, PS_SUBJECT_OP, first) == NULL)
    return ps_refuse_null (error, PS_ERROR_INPUT,
                           "%s: profile '%s' is of other stages than %u, and without a model: %s",
                           request->db->file->path, request->profile->name, n, request->profile->source);
  for (guint stage = 0; stage < n; stage++)
    {
      keys[stage] = request->model != NULL ? ps_stage_shape_key (&shapes[stage]) : ps_stage_key (stage, n, FALSE);
      if (request->model != NULL && costs != NULL)
        costs->stage[stage].version_bytes
            = cost_request_parameters (request, &shapes[stage]) * ps_precision_bytes (request->model->precision);
    }
  if (request->model != NULL && costs != NULL)
    ps_costs_set_messages (costs, ps_model_boundary_bytes (request->model));
  return g_steal_pointer (&keys);
}

/* Unequal shares fix the number of devices. */
static gboolean
read_shares (PsCostRequest *request, GError **error)
{
  const PsProfile *profile = request->profile;
  g_autofree char *where = g_strdup_printf ("%s: profile '%s': shares", request->db->file->path, profile->name);
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
                    request->db->file->path, profile->name, n, profile->shares, request->n_devices);
}

static gboolean
set_shapes (PsCostRequest *request, const PsStageShape *shapes, GError **error)
{
  guint n_stages = request->n_devices * request->n_chunks;

  if (request->model == NULL)
    return TRUE;
  request->shapes = shapes != NULL ? g_memdup2 (shapes, n_stages * sizeof *shapes) : g_new0 (PsStageShape, n_stages);
  return shapes != NULL || ps_model_split (request->model, n_stages, request->shapes, error);
}

static gboolean
is_measured (const PsCostRequest *request, guint stage)
{
  g_autofree char *key = ps_stage_shape_key (&request->shapes[stage]);

  return cost_request_op (request, key, cost_request_share (request, stage), PS_OP_F) != NULL;
}

/* Stages that were not measured as they offload or recompute are looked up without that. */
static void
find_measured (PsCostRequest *request)
{
  guint n_stages = request->shapes != NULL ? request->n_devices * request->n_chunks : 0;

  for (guint stage = 0; stage < n_stages; stage++)
    {
      if (!is_measured (request, stage))
        request->shapes[stage].offload = 0;
      if (!is_measured (request, stage))
        request->shapes[stage].recompute = PS_RECOMPUTE_NONE;
    }
}

/* Finds profile, model, shares, shapes (copied; NULL: those of ps_model_split) and measurements, which have no samples;
 * db, model, n_devices and n_chunks are set. The caller clears the request in any case. */
static gboolean
cost_request_open (PsCostRequest *request, const char *profile_name, const PsStageShape *shapes, GError **error)
{
  g_return_val_if_fail (request->n_devices >= 1 && request->n_chunks >= 1, FALSE);
  request->profiles = ps_costdb_profiles (request->db, error);
  request->profile
      = request->profiles != NULL ? costdb_choose_profile (request->db, request->profiles, profile_name, error) : NULL;
  if (request->profile == NULL
      || (request->model != NULL && !costdb_check_model (request->db, request->profile, request->model, error)))
    return FALSE;
  if (request->model == NULL && *request->profile->model_text != '\0')
    {
      request->model = request->stored = costdb_stored_model (request->db, request->profile, error);
      if (request->model == NULL)
        return FALSE;
    }
  if (!read_shares (request, error) || !set_shapes (request, shapes, error))
    return FALSE;
  request->measurements = ps_costdb_measurements (request->db, request->profile->name, FALSE, error);
  if (request->measurements != NULL)
    find_measured (request);
  return request->measurements != NULL;
}

/* Reads profiles and measurements back. */

/* The row that a name means: of the last calibration, or of the one whose number ends the name. */
#define CALIBRATION                                                                                                    \
  "(SELECT id FROM profile WHERE name = ?1 OR name || '#' || number = ?1 ORDER BY name = ?1 DESC, number DESC LIMIT "  \
  "1)"

/* Columns as in the query of ps_costdb_profiles. */
static gpointer
read_profile (PsRows *rows, gpointer data, GError **error)
{
  PsProfile *profile = g_new0 (PsProfile, 1);

  for (guint i = 0; i < PS_N_PROFILE_TEXTS; i++)
    *(char **)ps_profile_field_at (profile, &ps_profile_texts[i]) = ps_rows_text (rows, (int)i);
  profile->shares = ps_rows_text (rows, PS_N_PROFILE_TEXTS);
  profile->source = ps_rows_text (rows, PS_N_PROFILE_TEXTS + 1);
  profile->choices = ps_rows_text (rows, PS_N_PROFILE_TEXTS + 2);
  profile->places = ps_rows_text (rows, PS_N_PROFILE_TEXTS + 3);
  profile->number = (guint)ps_rows_integer (rows, PS_N_PROFILE_TEXTS + 4);
  return profile;
}

GPtrArray *
ps_costdb_profiles (PsCostDb *db, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (
      db->file, error,
      "SELECT CASE WHEN number = max (number) OVER (PARTITION BY name) THEN name ELSE name || '#' || number END, "
      "model_name, model_digest, model_text, device, transport, host, processor, kernel, libraries, version, created, "
      "shares, source, base64, ways, number FROM profile LEFT JOIN choices ON choices.profile = id "
      "LEFT JOIN places ON places.profile = id ORDER BY profile.name, number",
      "");

  return ps_rows_collect (rows, read_profile, NULL, (GDestroyNotify)ps_profile_free, error);
}

gboolean
ps_choices_parse (const char *where, const char *text, GBytes **choices, GError **error)
{
  *choices = NULL;
  if (*text == '\0')
    return TRUE;
  gsize n;
  g_autofree guchar *bytes = g_base64_decode (text, &n);
  g_autofree char *again = g_base64_encode (bytes, n);
  if (g_str_equal (again, text))
    {
      *choices = g_bytes_new_take (g_steal_pointer (&bytes), n);
      return TRUE;
    }
  return ps_refuse (error, PS_ERROR_INPUT, "%s: choices: are no base64", where);
}

/* Words that the schema does not allow come from damaged files only; they read as the first word of their sort. */
static void
read_key (PsRows *rows, PsMeasurement *m)
{
  g_autofree char *subject = ps_rows_text (rows, 1);
  g_autofree char *kind = ps_rows_text (rows, 3);
  g_autofree char *cache = ps_rows_text (rows, 8);

  ps_subject_parse ("subject", subject, &m->subject, NULL);
  ps_op_kind_parse ("kind", kind, &m->kind, NULL);
  ps_cache_state_parse ("cache", cache, &m->cache, NULL);
  m->id = ps_rows_integer (rows, 0);
  m->shape = ps_rows_text (rows, 2);
  m->bytes = ps_rows_integer (rows, 4);
  m->devices = (guint)ps_rows_integer (rows, 5);
  m->sharing = (guint)ps_rows_integer (rows, 6);
  m->share = (guint)ps_rows_integer (rows, 7);
}

/* Columns as in the query of ps_costdb_measurements. */
static PsMeasurement *
read_measurement (PsRows *rows)
{
  PsMeasurement *m = g_new0 (PsMeasurement, 1);

  read_key (rows, m);
  m->time.n = (guint)ps_rows_integer (rows, 9);
  m->time.median_ns = ps_rows_integer (rows, 10);
  m->time.q1_ns = ps_rows_integer (rows, 11);
  m->time.q3_ns = ps_rows_integer (rows, 12);
  m->time.mad_ns = ps_rows_integer (rows, 13);
  m->time.min_ns = ps_rows_integer (rows, 14);
  m->launch_ns = ps_rows_integer (rows, 15);
  m->take_bytes = ps_rows_integer (rows, 16);
  m->give_bytes = ps_rows_integer (rows, 17);
  m->state_bytes = ps_rows_integer (rows, 18);
  m->stop = ps_rows_text (rows, 19);
  m->taken = ps_rows_text (rows, 20);
  return m;
}

/* Five columns from `first` on. */
static gboolean
read_condition (PsCostDb *db, PsRows *rows, int first, PsCondition *condition, GError **error)
{
  g_autofree char *throttle = ps_rows_is_null (rows, first + 4) ? NULL : ps_rows_text (rows, first + 4);

  *condition = (PsCondition){ .clock_mhz = ps_rows_integer (rows, first),
                              .memory_clock_mhz = ps_rows_integer (rows, first + 1),
                              .temperature_c = ps_rows_integer (rows, first + 2),
                              .power_mw = ps_rows_integer (rows, first + 3) };
  if (ps_throttle_parse (throttle, &condition->throttle))
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: '%s' is no reason to run slower", db->file->path, throttle);
}

/* Reads the samples of a measurement that ps_costdb_measurements gave without them. */
static gboolean
costdb_read_samples (PsCostDb *db, PsMeasurement *measurement, GError **error)
{
  g_autoptr (GArray) samples = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_autoptr (PsRows) rows = ps_rows_new (
      db->file, error, "SELECT ns FROM sample WHERE measurement = ?1 ORDER BY position", "i", measurement->id);
  gboolean found = rows != NULL;

  while (found)
    {
      if (!ps_rows_next (rows, &found, error))
        return FALSE;
      gint64 ns = found ? ps_rows_integer (rows, 0) : 0;
      if (found)
        g_array_append_val (samples, ns);
    }
  measurement->n_samples = samples->len;
  measurement->samples_ns = (gint64 *)(gpointer)g_array_free (g_steal_pointer (&samples), FALSE);
  return rows != NULL;
}

/* The data of read_whole. */
typedef struct
{
  PsCostDb *db;
  gboolean with_samples;
} Source;

static gpointer
read_whole (PsRows *rows, gpointer data, GError **error)
{
  const Source *source = data;
  g_autoptr (PsMeasurement) measurement = read_measurement (rows);

  if (!read_condition (source->db, rows, 21, &measurement->before, error)
      || !read_condition (source->db, rows, 26, &measurement->during, error)
      || !read_condition (source->db, rows, 31, &measurement->after, error)
      || (source->with_samples && !costdb_read_samples (source->db, measurement, error)))
    return NULL;
  return g_steal_pointer (&measurement);
}

GPtrArray *
ps_costdb_measurements (PsCostDb *db, const char *profile, gboolean with_samples, GError **error)
{
  Source source = { db, with_samples };
  g_autoptr (PsRows) rows = ps_rows_new (
      db->file, error,
      "SELECT measurement.id, subject, shape, kind, bytes, devices, sharing, share, cache, n, median_ns, q1_ns, "
      "q3_ns, mad_ns, min_ns, launch_ns, take_bytes, give_bytes, state_bytes, stop, taken, "
      "b.clock_mhz, b.memory_clock_mhz, b.temperature_c, b.power_mw, b.throttle, "
      "d.clock_mhz, d.memory_clock_mhz, d.temperature_c, d.power_mw, d.throttle, "
      "a.clock_mhz, a.memory_clock_mhz, a.temperature_c, a.power_mw, a.throttle "
      "FROM measurement JOIN profile ON profile.id = measurement.profile "
      "LEFT JOIN condition AS b ON b.measurement = measurement.id AND b.moment = 'before' "
      "LEFT JOIN condition AS d ON d.measurement = measurement.id AND d.moment = 'during' "
      "LEFT JOIN condition AS a ON a.measurement = measurement.id AND a.moment = 'after' "
      "WHERE profile.id = " CALIBRATION " "
      "ORDER BY instr ('|op|pair|self-send|transfer|all-reduce|host|', '|' || subject || '|'), shape, instr "
      "('|F|B|W|BW|R|O|', '|' || kind || '|'), bytes, devices, "
      "sharing, share, instr ('|run|cold|warm|', '|' || cache || '|')",
      "s", profile);

  return ps_rows_collect (rows, read_whole, &source, (GDestroyNotify)ps_measurement_free, error);
}

static gpointer
read_sentinel (PsRows *rows, gpointer data, GError **error)
{
  PsSentinel *sentinel = g_new0 (PsSentinel, 1);

  *sentinel = (PsSentinel){ .what = ps_rows_text (rows, 0),
                            .median_ns = ps_rows_integer (rows, 1),
                            .n = (guint)ps_rows_integer (rows, 2),
                            .taken = ps_rows_text (rows, 3) };
  return sentinel;
}

GPtrArray *
ps_costdb_sentinels (PsCostDb *db, const char *profile, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (
      db->file, error,
      "SELECT what, median_ns, n, taken FROM sentinel WHERE profile = " CALIBRATION " ORDER BY position", "s", profile);

  return ps_rows_collect (rows, read_sentinel, NULL, (GDestroyNotify)ps_sentinel_free, error);
}

/* The option that says how devices share layers; "" where they don't. Free with g_free. */
static char *
describe_tensor (const PsCostRequest *request)
{
  guint n_tensor = request->shapes != NULL ? request->shapes[0].n_tensor : 1;

  return n_tensor > 1 ? g_strdup_printf (" --tensor %u", n_tensor) : g_strdup ("");
}

static void
set_missing (const PsCostRequest *request, const char *what, GError **error)
{
  guint n_stages = request->n_devices * request->n_chunks;
  gboolean even = ps_stage_shapes_are_even (request->shapes, n_stages);
  g_autofree char *layout = ps_layout_string_write (request->shapes, n_stages);
  g_autofree char *tensor = describe_tensor (request);

  g_set_error (error, PS_ERROR, PS_ERROR_INPUT,
               "%s: profile '%s' has no %s; measure it with: pipesim calib run --db %s --profile %s --model FILE -p %u "
               "-v %u%s%s%s%s%s%s",
               request->db->file->path, request->profile->name, what, request->db->file->path, request->profile->name,
               request->n_devices, request->n_chunks, request->shares != NULL ? " --sm-shares " : "",
               request->profile->shares, even ? "" : " --layout '", even ? "" : layout, even ? "" : "'", tensor);
}

static char *
describe_op (PsOpKind kind, const char *shape, guint share)
{
  g_autofree char *part = share ? g_strdup_printf (" with share %u", share) : g_strdup ("");

  return g_strdup_printf ("%s of stage shape '%s'%s", ps_op_kind_name (kind), shape, part);
}

/* The time of an op in a run, by the rule of ps_costdb_stage_costs. */
static gint64
op_ns (const PsCostRequest *request, const PsMeasurement *m)
{
  return m->time.median_ns + (request->op_by_op ? m->launch_ns : 0);
}

/* A warm op counts beside one that is not, with as many devices busy. In a calibration, a backward whose gradient comes
 * from another stage waits, and its data gets cold. */
static void
fill_warm (const PsCostRequest *request, const char *key, guint stage, PsCosts *costs)
{
  g_autofree char *warm = g_strconcat (key, PS_WARM_SUFFIX, NULL);

  for (guint kind = 0; kind < PS_OP_O; kind++)
    {
      guint share = cost_request_share (request, stage);
      const PsMeasurement *m = cost_request_op (request, warm, share, (PsOpKind)kind);
      const PsMeasurement *other = cost_request_op (request, key, share, (PsOpKind)kind);
      gboolean waits
          = !cost_request_is_imported (request) && (kind == PS_OP_B || kind == PS_OP_BW) && stage + 1 < costs->n_stages;

      if (waits || m == NULL || other == NULL || m->devices != other->devices || op_ns (request, other) <= 0)
        continue;
      if (costs->warm == NULL)
        {
          costs->warm = g_new (double, (gsize)PS_OP_O * costs->n_stages);
          for (guint i = 0; i < PS_OP_O * costs->n_stages; i++)
            costs->warm[i] = 1;
        }
      costs->warm[kind * costs->n_stages + stage] = (double)op_ns (request, m) / (double)op_ns (request, other);
    }
}

static gboolean
fill_stage (const PsCostRequest *request, const char *key, guint stage, PsCosts *costs, GError **error)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW, PS_OP_O };
  const PsMeasurement *pair = cost_request_plain (request, PS_SUBJECT_PAIR, key);

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      const PsMeasurement *m = cost_request_op (request, key, cost_request_share (request, stage), kinds[i]);

      if (m == NULL && cost_request_is_imported (request))
        {
          costs->stage[stage].unknown |= (1U << kinds[i]) & ~(1U << PS_OP_O);
          continue;
        }
      if (m == NULL)
        {
          g_autofree char *what = describe_op (kinds[i], key, cost_request_share (request, stage));

          set_missing (request, what, error);
          return FALSE;
        }
      *ps_costs_op (costs, kinds[i], stage)
          = (PsOpCost){ .duration_ns = op_ns (request, m), .take_bytes = m->take_bytes, .give_bytes = m->give_bytes };
      costs->stage[stage].weight_bytes = m->state_bytes;
      if (g_str_equal (m->stop, "estimated"))
        costs->time_origin = PS_ORIGIN_MODELLED;
    }
  ps_costs_guess (costs, stage);
  fill_warm (request, key, stage, costs);
  if (pair != NULL)
    costs->stage[stage].pair_ns = op_ns (request, pair);
  const PsMeasurement *again = cost_request_recompute (request, key, cost_request_share (request, stage));
  *ps_costs_op (costs, PS_OP_R, stage) = *ps_costs_op (costs, PS_OP_F, stage);
  if (again != NULL)
    ps_costs_op (costs, PS_OP_R, stage)->duration_ns = op_ns (request, again);
  return TRUE;
}

/* The mean of all posts of that name; -1: there are none. */
static gboolean
mean_post (const PsCostRequest *request, const char *name, gint64 *ns, GError **error)
{
  g_autoptr (PsMeasurement) samples = g_new0 (PsMeasurement, 1);
  const PsMeasurement *m = cost_request_plain (request, PS_SUBJECT_HOST, name);

  *ns = -1;
  if (m == NULL)
    return TRUE;
  samples->id = m->id;
  if (!costdb_read_samples (request->db, samples, error))
    return FALSE;
  *ns = samples->n_samples > 0 ? ps_mean (samples->samples_ns, samples->n_samples) : m->time.median_ns;
  return TRUE;
}

/* As in ps_observed_costs. Calibrated transfers begin with the call that posts them, so they have its time in them. */
static gboolean
fill_host (const PsCostRequest *request, PsCosts *costs, GError **error)
{
  const PsMeasurement *op = cost_request_plain (request, PS_SUBJECT_HOST, "op");
  gint64 send_ns, receive_ns;

  if (!mean_post (request, "send", &send_ns, error) || !mean_post (request, "receive", &receive_ns, error))
    return FALSE;
  costs->op_ns = op != NULL ? op->time.median_ns : 0;
  costs->post_ns = send_ns >= 0 && receive_ns >= 0 ? (send_ns + receive_ns) / 2 : costs->op_ns;
  for (guint i = 1; i <= 2 * costs->n_stages && !cost_request_is_imported (request); i++)
    costs->transfer_ns[i] = MAX (costs->transfer_ns[i] - costs->post_ns, 0);
  return TRUE;
}

/* A line through two measured points; beyond the last one it is continued, but never falls. */
static gint64
interpolate (const PsMeasurement *a, const PsMeasurement *b, gint64 bytes)
{
  if (a == b)
    return a->time.median_ns;
  gboolean beyond = bytes > b->bytes;
  double slope = (double)(b->time.median_ns - a->time.median_ns) / (double)(b->bytes - a->bytes);
  if (beyond && slope < 0)
    slope = 0;
  const PsMeasurement *from = beyond ? b : a;
  gint64 ns = from->time.median_ns + llrint (slope * (double)(bytes - from->bytes));
  return CLAMP (ns, 0, PS_MAX_TIME_NS);
}

/* The parts of what a stage was measured to hold. A device that holds less than the model's formulas has others. */
static void
fill_state (const PsCostRequest *request, PsCosts *costs, guint stage)
{
  PsStateBytes state = ps_model_state (request->model, cost_request_parameters (request, &costs->shapes[stage]));

  if (state.weight_bytes + state.gradient_bytes + state.optimizer_bytes <= costs->stage[stage].weight_bytes)
    costs->stage[stage].state = state;
}

/* The boundaries of a profile without a model are those of its run. */
static void
fill_boundaries (const PsCostRequest *request, PsCosts *costs)
{
  for (guint back = 0; back < 2; back++)
    for (guint stage = 0; stage < costs->n_stages; stage++)
      {
        g_autofree char *key = ps_stage_key (stage, costs->n_stages, back == 1);
        const PsMeasurement *m = cost_request_plain (request, PS_SUBJECT_TRANSFER, key);

        costs->transfer_ns[1 + back * costs->n_stages + stage] = m != NULL ? m->time.median_ns : -1;
      }
  ps_costs_guess_transfers (costs);
}

/* The time of a boundary's message from a device to another. */
static gint64
transfer_ns (const PsCostRequest *request, guint from, guint to, PsOrigin *origin)
{
  g_autoptr (GPtrArray) transfers = cost_request_link (request, from, to, origin);
  gint64 bytes = ps_model_boundary_bytes (request->model);
  const PsMeasurement *below, *above;

  cost_request_neighbours (transfers, bytes, &below, &above);
  if (above->bytes != bytes)
    *origin = PS_ORIGIN_INTERPOLATED;
  return interpolate (below, above, bytes);
}

/* Stage i counts as on device i modulo n_devices. A V's stages have these links too where places read alike from both
 * ends. */
static gboolean
fill_transfers (const PsCostRequest *request, PsCosts *costs, GError **error)
{
  g_autoptr (GPtrArray) transfers = cost_request_messages (request, PS_SUBJECT_TRANSFER);
  guint p = request->n_devices;

  if (p > 1 && cost_request_is_imported (request) && transfers->len == 0)
    costs->transfer_origin = PS_ORIGIN_MODELLED; /* they take no time */
  if (p == 1 || costs->transfer_origin == PS_ORIGIN_MODELLED)
    return TRUE;
  if (transfers->len == 0)
    {
      set_missing (request, "transfer times", error);
      return FALSE;
    }
  for (guint stage = 0; stage < costs->n_stages; stage++)
    {
      guint device = stage % p, next = (stage + 1) % p, previous = (stage + p - 1) % p;

      costs->transfer_ns[ps_transfer_forward (costs, stage)]
          = transfer_ns (request, device, next, &costs->transfer_origin);
      costs->transfer_ns[ps_transfer_backward (costs, stage)]
          = transfer_ns (request, device, previous, &costs->transfer_origin);
    }
  return TRUE;
}

/* Sets the parts of one stage's ops. FALSE: not all of its slices were measured. */
static gboolean
fill_parts (const PsCostRequest *request, const char *key, guint stage, const PsCosts *costs, PsSliceParts *parts)
{
  for (guint kind = 0; kind < PS_OP_O; kind++)
    for (guint slice = 0; slice < parts->n; slice++)
      {
        g_autofree char *shape = ps_slice_key (key, slice, parts->n);
        guint share = cost_request_share (request, stage);
        const PsMeasurement *m = kind == PS_OP_R ? cost_request_recompute (request, shape, share)
                                                 : cost_request_op (request, shape, share, (PsOpKind)kind);
        gint64 whole_ns = ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns;

        if (m == NULL || whole_ns <= 0)
          return FALSE;
        parts->part[(kind * parts->n + slice) * costs->n_stages + stage]
            = (double)op_ns (request, m) / (double)whole_ns;
      }
  return TRUE;
}

/* Time of a slice's message over that of a whole one. */
static double
transfer_part (const PsCostRequest *request, guint n_slices)
{
  g_autoptr (GPtrArray) transfers = cost_request_messages (request, PS_SUBJECT_TRANSFER);
  gint64 bytes = request->model != NULL ? ps_model_boundary_bytes (request->model) : 0, whole_ns;
  const PsMeasurement *below, *above;

  if (transfers->len == 0 || bytes == 0)
    return 1;
  cost_request_neighbours (transfers, bytes, &below, &above);
  whole_ns = interpolate (below, above, bytes);
  cost_request_neighbours (transfers, bytes / n_slices, &below, &above);
  return whole_ns > 0 ? MIN ((double)interpolate (below, above, bytes / n_slices) / (double)whole_ns, 1) : 1;
}

/* Adds the parts that slices take, for each number of slices that all stages were measured with. */
static void
fill_slices (const PsCostRequest *request, char *const *keys, PsCosts *costs)
{
  for (guint n = cost_request_slices (request, keys[0], 0); n > 0; n = cost_request_slices (request, keys[0], n))
    {
      g_autoptr (PsSliceParts) parts = ps_slice_parts_new (n, costs->n_stages);
      double transfer = transfer_part (request, n);
      gboolean whole = TRUE;

      for (guint stage = 0; stage < costs->n_stages && whole; stage++)
        whole = fill_parts (request, keys[stage], stage, costs, parts);
      if (!whole)
        continue;
      for (guint i = 0; i < 2 * costs->n_stages; i++)
        parts->transfer[i] = transfer;
      ps_costs_add_slices (costs, g_steal_pointer (&parts));
    }
}

/* Finds how far the sentinel moved beside the measurements that these stages use, and those of no stage. */
static gboolean
find_unrest (const PsCostRequest *request, char *const *keys, PsCosts *costs, GError **error)
{
  g_autoptr (GPtrArray) sentinels = ps_costdb_sentinels (request->db, request->profile->name, error);
  g_autofree double *shifts = g_new0 (double, request->measurements->len);

  if (sentinels == NULL)
    return FALSE;
  ps_sentinel_shifts (sentinels, request->measurements, shifts);
  for (guint i = 0; i < request->measurements->len; i++)
    {
      const PsMeasurement *m = request->measurements->pdata[i];

      if (m->subject != PS_SUBJECT_OP || g_strv_contains ((const char *const *)keys, m->shape))
        costs->unrest = MAX (costs->unrest, shifts[i]);
    }
  return TRUE;
}

/* "; the machine was not quiet: ..." or nothing. */
char *
ps_unrest_to_text (double unrest, const char *rows)
{
  if (unrest <= PS_SENTINEL_TOLERANCE)
    return g_strdup ("");
  return g_strdup_printf ("this machine was not quiet: +-%.0f %%; %s%srows closer to each other than that may stand in "
                          "another order",
                          100 * unrest, rows, *rows ? " measured then; " : "");
}

static char *
describe_unrest (const PsCosts *costs)
{
  return costs->unrest > PS_SENTINEL_TOLERANCE ? g_strdup_printf (
             "; the machine was not quiet then: its sentinel op moved by up to %.0f %%", 100 * costs->unrest)
                                               : g_strdup ("");
}

static PsCosts *
costs_from_request (const PsCostRequest *request, GError **error)
{
  guint n_stages = request->n_devices * request->n_chunks;
  g_autoptr (PsCosts) costs = ps_costs_new (n_stages);
  g_auto (GStrv) keys = cost_request_keys (request, costs, error);

  if (request->model != NULL)
    costs->shapes = g_memdup2 (request->shapes, n_stages * sizeof *request->shapes);
  costs->time_origin = costs->transfer_origin = PS_ORIGIN_MEASURED;
  for (guint stage = 0; stage < n_stages; stage++)
    if (keys == NULL || !fill_stage (request, keys[stage], stage, costs, error))
      return NULL;
  for (guint stage = 0; stage < n_stages && request->model != NULL; stage++)
    fill_state (request, costs, stage);
  if (request->model == NULL)
    fill_boundaries (request, costs);
  else if (!fill_transfers (request, costs, error))
    return NULL;
  if (!fill_host (request, costs, error))
    return NULL;
  fill_slices (request, keys, costs);
  costs->memory_origin = PS_ORIGIN_MEASURED;
  costs->loop_only = request->shares != NULL;
  if (!find_unrest (request, keys, costs, error))
    return NULL;
  g_autofree char *unrest = describe_unrest (costs);
  g_autofree char *tensor = describe_tensor (request);
  g_free (costs->source);
  costs->source = cost_request_is_imported (request)
                      ? g_strdup_printf ("profile '%s' of %s: imported from %s", request->profile->name,
                                         request->db->file->path, request->profile->source)
                      : g_strdup_printf ("profile '%s' of %s: %s%s%s%s over %s on %s (%s), measured %s%s",
                                         request->profile->name, request->db->file->path, request->profile->device,
                                         tensor, request->shares != NULL ? " with shares " : "",
                                         request->profile->shares, request->profile->transport, request->profile->host,
                                         request->profile->processor, request->profile->created, unrest);
  return g_steal_pointer (&costs);
}

PsCosts *
ps_costdb_stage_costs (PsCostDb *db, const char *profile_name, const PsModel *model, const PsStageShape *shapes,
                       guint n_devices, guint n_chunks, gboolean op_by_op, GError **error)
{
  g_auto (PsCostRequest) request
      = { .db = db, .model = model, .n_devices = n_devices, .n_chunks = n_chunks, .op_by_op = op_by_op };

  return cost_request_open (&request, profile_name, shapes, error) ? costs_from_request (&request, error) : NULL;
}

PsCosts *
ps_costdb_costs (PsCostDb *db, const char *profile, const PsModel *model, guint n_devices, guint n_chunks,
                 GError **error)
{
  return ps_costdb_stage_costs (db, profile, model, NULL, n_devices, n_chunks, FALSE, error);
}

/* How long devices take to add up a stage's gradients, by the all-reduces that were measured; 0: none was. */
static gint64
reduce_ns (GPtrArray *reductions, gint64 bytes)
{
  const PsMeasurement *below, *above;

  if (reductions->len == 0)
    return 0;
  cost_request_neighbours (reductions, bytes, &below, &above);
  return interpolate (below, above, bytes);
}

/* The all-reduces of n devices. */
static GPtrArray *
reductions_of (PsCostRequest *request, guint n)
{
  request->n_devices = n;
  return n > 1 ? cost_request_messages (request, PS_SUBJECT_ALL_REDUCE) : g_ptr_array_new ();
}

gboolean
ps_costdb_set_reduce (PsCostDb *db, const char *profile_name, PsCosts *costs, guint n_replicas, GError **error)
{
  g_autoptr (PsProfile) profile = ps_costdb_profile (db, profile_name, error);
  g_auto (PsCostRequest) request = { .db = db };

  request.measurements = profile != NULL ? ps_costdb_measurements (db, profile->name, FALSE, error) : NULL;
  if (request.measurements == NULL)
    return FALSE;
  g_autoptr (GPtrArray) of_one = reductions_of (&request, n_replicas);
  g_autoptr (GPtrArray) of_two = reductions_of (&request, 2 * n_replicas);
  for (guint stage = 0; stage < costs->n_stages; stage++)
    {
      PsStageCost *cost = &costs->stage[stage];

      cost->reduce_ns = reduce_ns (of_one, cost->state.gradient_bytes);
      cost->reduce2_ns = reduce_ns (of_two, cost->state.gradient_bytes);
    }
  return TRUE;
}

/* The samples of the rows that costs come from, and the same rows in all calibrations of a profile. */

/* The samples over their median; NULL where there are none or the median is no time. */
static GArray *
relative_samples (const PsMeasurement *m, double *largest)
{
  if (m->n_samples == 0 || m->time.median_ns <= 0)
    return NULL;
  GArray *samples = g_array_sized_new (FALSE, FALSE, sizeof (double), m->n_samples);
  for (guint i = 0; i < m->n_samples; i++)
    {
      double sample = (double)m->samples_ns[i] / (double)m->time.median_ns;

      g_array_append_val (samples, sample);
      *largest = MAX (*largest, sample);
    }
  return samples;
}

/* Notes the row of a cost, with its samples; rows holds all rows. m NULL: the cost has none. */
static gboolean
take_row (const PsCostRequest *request, PsCostSpread *spread, GPtrArray *rows, PsMeasurement *m, guint cost,
          GArray **samples, GError **error)
{
  spread->row[cost] = PS_NO_ROW;
  if (m == NULL)
    return TRUE;
  if (!g_ptr_array_find (rows, m, &spread->row[cost]))
    {
      spread->row[cost] = rows->len;
      g_ptr_array_add (rows, m);
      if (!costdb_read_samples (request->db, m, error))
        return FALSE;
    }
  *samples = relative_samples (m, &spread->largest);
  return TRUE;
}

/* Adds one calibration's measurements of the rows, and its readings of the sentinel. kept owns the measurements. */
static gboolean
add_calibration (const PsCostRequest *request, const PsProfile *profile, GPtrArray *rows, GPtrArray *sentinels,
                 GPtrArray *kept, GError **error)
{
  GPtrArray *all = ps_costdb_measurements (request->db, profile->name, FALSE, error);
  GPtrArray *readings = NULL;

  if (all != NULL)
    {
      g_ptr_array_add (kept, all);
      readings = ps_costdb_sentinels (request->db, profile->name, error);
    }
  if (readings == NULL)
    return FALSE;
  g_ptr_array_add (sentinels, readings);
  for (guint row = 0; row < rows->len; row++)
    {
      GPtrArray *calibrations = rows->pdata[row];

      g_ptr_array_add (calibrations, (gpointer)ps_measurement_find (all, calibrations->pdata[0]));
    }
  return TRUE;
}

/* Lists each row in the calibrations up to the request's. */
static gboolean
add_calibrations (const PsCostRequest *request, GPtrArray *rows, GPtrArray *sentinels, GPtrArray *kept, GError **error)
{
  for (guint i = 0; i < request->profiles->len; i++)
    {
      const PsProfile *profile = request->profiles->pdata[i];

      if (ps_profile_is_same (profile, request->profile) && profile->number <= request->profile->number
          && !add_calibration (request, profile, rows, sentinels, kept, error))
        return FALSE;
    }
  return TRUE;
}

/* Says how runs differ, from the rows in all calibrations. */
static gboolean
add_runs (const PsCostRequest *request, PsCostSpread *spread, GPtrArray *measured, GError **error)
{
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  g_autoptr (GPtrArray) sentinels = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  g_autoptr (GPtrArray) kept = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);

  for (guint row = 0; row < measured->len; row++)
    {
      g_ptr_array_add (rows, g_ptr_array_new ());
      g_ptr_array_add (rows->pdata[row], measured->pdata[row]);
    }
  if (!add_calibrations (request, rows, sentinels, kept, error))
    return FALSE;
  /* The measurement with its samples stood first, to be looked for. Its place is the last one. */
  for (guint row = 0; row < rows->len; row++)
    {
      GPtrArray *calibrations = rows->pdata[row];

      g_ptr_array_remove_index (calibrations, 0);
      calibrations->pdata[calibrations->len - 1] = measured->pdata[row];
    }
  spread->n_rows = rows->len;
  spread->deviation = g_new0 (double, rows->len);
  ps_cost_spread_set_runs (spread, rows, sentinels);
  return TRUE;
}

/* The error of interpolation belongs to each transfer of a size that was not measured. */
static void
add_interpolation (GPtrArray *transfers, PsCostSpread *spread)
{
  g_autofree gint64 *bytes = g_new (gint64, transfers->len), *ns = g_new (gint64, transfers->len);
  guint row = spread->row[PS_N_OP_KINDS * spread->n_stages];
  double error;

  for (guint i = 0; i < transfers->len; i++)
    {
      bytes[i] = ((const PsMeasurement *)transfers->pdata[i])->bytes;
      ns[i] = MAX (((const PsMeasurement *)transfers->pdata[i])->time.median_ns, 1);
    }
  error = ps_interpolation_error (bytes, ns, transfers->len);
  if (!isnan (error))
    spread->deviation[row] = hypot (spread->deviation[row], 1.4826 * error);
}

static PsCostSpread *
spread_from_request (const PsCostRequest *request, GError **error)
{
  guint n_stages = request->n_devices * request->n_chunks;
  g_auto (GStrv) keys = cost_request_keys (request, NULL, error);

  if (keys == NULL)
    return NULL;
  g_autoptr (GPtrArray) rows = g_ptr_array_new ();
  g_autoptr (PsCostSpread) spread = g_new0 (PsCostSpread, 1);
  spread->n_stages = n_stages;
  spread->largest = 1;
  spread->op = g_new0 (GArray *, (gsize)PS_N_OP_KINDS * n_stages);
  spread->row = g_new (guint, (gsize)PS_N_OP_KINDS * n_stages + 1);
  for (guint i = 0; i < PS_N_OP_KINDS * n_stages; i++)
    {
      PsOpKind kind = (PsOpKind)(i / n_stages);
      guint stage = i % n_stages;
      guint share = cost_request_share (request, stage);
      const PsMeasurement *m = kind == PS_OP_R ? cost_request_recompute (request, keys[stage], share)
                                               : cost_request_op (request, keys[stage], share, kind);

      if (!take_row (request, spread, rows, (PsMeasurement *)m, i, &spread->op[i], error))
        return NULL;
    }
  g_autoptr (GPtrArray) transfers = cost_request_messages (request, PS_SUBJECT_TRANSFER);
  const PsMeasurement *below = NULL, *above = NULL;
  if (transfers->len > 0 && request->model != NULL)
    cost_request_neighbours (transfers, ps_model_boundary_bytes (request->model), &below, &above);
  if (!take_row (request, spread, rows, (PsMeasurement *)above, PS_N_OP_KINDS * n_stages, &spread->transfer, error)
      || !add_runs (request, spread, rows, error))
    return NULL;
  if (above != NULL && above->bytes != ps_model_boundary_bytes (request->model))
    add_interpolation (transfers, spread);
  return g_steal_pointer (&spread);
}

PsCostSpread *
ps_costdb_spread (PsCostDb *db, const char *profile_name, const PsModel *model, const PsStageShape *shapes,
                  guint n_devices, guint n_chunks, GError **error)
{
  g_auto (PsCostRequest) request = { .db = db, .model = model, .n_devices = n_devices, .n_chunks = n_chunks };

  return cost_request_open (&request, profile_name, shapes, error) ? spread_from_request (&request, error) : NULL;
}

void
ps_cost_spread_free (PsCostSpread *spread)
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
