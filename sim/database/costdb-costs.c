/* costdb-costs.c - turns a profile into the costs of a pipeline: picks the measured rows that fit and interpolates
 * transfers. */
#include "costdb-private.h"

#include "text.h"

#include <math.h>
#include <string.h>

/* Everything one request works with. */
typedef struct
{
  PsCostDb *db;
  GPtrArray *profiles;
  const PsProfile *profile; /* one of them */
  PsModel *stored;          /* the model of the profile, if none was given */
  const PsModel *model;
  GPtrArray *measurements;
  guint *shares; /* [n_devices] of the profile; NULL: equal parts */
  guint n_devices;
  guint n_chunks;
} Request;

static void
request_clear (Request *request)
{
  g_clear_pointer (&request->profiles, g_ptr_array_unref);
  g_clear_pointer (&request->stored, ps_model_free);
  g_clear_pointer (&request->measurements, g_ptr_array_unref);
  g_free (request->shares);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Request, request_clear)

/* The last calibration has its number only when that is asked for. */
static gboolean
is_named (const PsProfile *profile, const char *name)
{
  g_autofree char *numbered = g_strdup_printf ("%s#%u", profile->name, profile->number);

  return g_str_equal (profile->name, name) || g_str_equal (numbered, name);
}

static const PsProfile *
choose_profile (PsCostDb *db, GPtrArray *profiles, const char *name, GError **error)
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
is_better (const Request *request, const PsMeasurement *a, const PsMeasurement *b)
{
  guint wanted = request->n_devices;

  if (b == NULL || a->devices != b->devices)
    return is_closer (wanted, a->devices, b != NULL ? b->devices : 0);
  return is_closer (wanted, a->sharing, b->sharing);
}

/* A stage's share of an accelerator under placement loop; 0: equal ones. */
static guint
share_of (const Request *request, guint stage)
{
  return request->shares != NULL ? request->shares[stage % request->n_devices] : 0;
}

static const PsMeasurement *
find_op (const Request *request, const char *shape, guint share, PsOpKind kind)
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

/* No device of this build runs R by itself; F stands for it where nothing else was measured. */
static const PsMeasurement *
find_recompute (const Request *request, const char *shape, guint share)
{
  const PsMeasurement *measured = find_op (request, shape, share, PS_OP_R);

  return measured != NULL ? measured : find_op (request, shape, share, PS_OP_F);
}

static void
set_missing (const Request *request, const char *what, GError **error)
{
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT,
               "%s: profile '%s' has no %s; measure it with: pipesim calib run --db %s --profile %s --model FILE -p %u "
               "-v %u%s%s",
               request->db->file->path, request->profile->name, what, request->db->file->path, request->profile->name,
               request->n_devices, request->n_chunks, request->shares != NULL ? " --sm-shares " : "",
               request->profile->shares);
}

static char *
describe_op (PsOpKind kind, const char *shape, guint share)
{
  g_autofree char *part = share ? g_strdup_printf (" with share %u", share) : g_strdup ("");

  return g_strdup_printf ("%s of stage shape '%s'%s", ps_op_kind_name (kind), shape, part);
}

static gboolean
fill_stage (const Request *request, const PsStageShape *shape, guint stage, PsCosts *costs, GError **error)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW, PS_OP_O };
  g_autofree char *key = ps_stage_shape_key (shape);

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      const PsMeasurement *m = find_op (request, key, share_of (request, stage), kinds[i]);

      if (m == NULL)
        {
          g_autofree char *what = describe_op (kinds[i], key, share_of (request, stage));

          set_missing (request, what, error);
          return FALSE;
        }
      *ps_costs_op (costs, kinds[i], stage)
          = (PsOpCost){ .duration_ns = m->time.median_ns, .take_bytes = m->take_bytes, .give_bytes = m->give_bytes };
      costs->stage[stage].weight_bytes = m->state_bytes;
    }
  const PsMeasurement *again = find_recompute (request, key, share_of (request, stage));
  *ps_costs_op (costs, PS_OP_R, stage) = *ps_costs_op (costs, PS_OP_F, stage);
  ps_costs_op (costs, PS_OP_R, stage)->duration_ns = again->time.median_ns;
  costs->stage[stage].version_bytes
      = ps_model_stage_parameters (request->model, shape) * ps_precision_bytes (request->model->precision);
  return TRUE;
}

/* TRUE: a transfer with nothing beside it. */
static gboolean
is_transfer (const PsMeasurement *m)
{
  return m->subject == PS_SUBJECT_TRANSFER && *m->shape == '\0';
}

/* One of the transfers that suit; NULL: none was measured. */
static const PsMeasurement *
choose_transfer (const Request *request)
{
  const PsMeasurement *best = NULL;

  for (guint i = 0; i < request->measurements->len; i++)
    {
      const PsMeasurement *m = request->measurements->pdata[i];

      if (is_transfer (m) && is_better (request, m, best))
        best = m;
    }
  return best;
}

/* The transfers that suit, by size. */
static GPtrArray *
suitable_transfers (const Request *request)
{
  GPtrArray *transfers = g_ptr_array_new ();
  const PsMeasurement *chosen = choose_transfer (request);

  for (guint i = 0; i < request->measurements->len; i++)
    {
      PsMeasurement *m = request->measurements->pdata[i];

      if (is_transfer (m) && m->devices == chosen->devices && m->sharing == chosen->sharing)
        g_ptr_array_add (transfers, m);
    }
  return transfers;
}

/* The two measured sizes on whose line `bytes` lies: the nearest below and above, or the two outermost on its side.
 * Both are the same where it is exactly that size, or where only one was measured. */
static void
find_neighbours (GPtrArray *transfers, gint64 bytes, const PsMeasurement **below, const PsMeasurement **above)
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

static gboolean
fill_transfers (const Request *request, PsCosts *costs, GError **error)
{
  if (request->n_devices == 1)
    {
      costs->transfer_origin = PS_ORIGIN_MEASURED;
      return TRUE;
    }
  gint64 bytes = ps_model_boundary_bytes (request->model);
  const PsMeasurement *below, *above;
  g_autoptr (GPtrArray) transfers = suitable_transfers (request);
  if (transfers->len == 0)
    {
      set_missing (request, "transfer times", error);
      return FALSE;
    }
  find_neighbours (transfers, bytes, &below, &above);
  gint64 ns = interpolate (below, above, bytes);
  costs->transfer_origin = above->bytes == bytes ? PS_ORIGIN_MEASURED : PS_ORIGIN_INTERPOLATED;
  for (guint stage = 0; stage < costs->n_stages; stage++)
    {
      costs->transfer_ns[ps_transfer_forward (costs, stage)] = ns;
      costs->transfer_ns[ps_transfer_backward (costs, stage)] = ns;
    }
  return TRUE;
}

/* "; the machine was not quiet: ..." or nothing. */
static char *
describe_unrest (const Request *request, GError **error)
{
  g_autoptr (GPtrArray) sentinels = ps_costdb_sentinels (request->db, request->profile->name, error);
  double shift = sentinels != NULL ? ps_sentinel_shifts (sentinels, request->measurements, NULL) : 0;

  if (sentinels == NULL)
    return NULL;
  return shift > PS_SENTINEL_TOLERANCE
             ? g_strdup_printf ("; the machine was not quiet then: its sentinel op moved by up to %.0f %%", 100 * shift)
             : g_strdup ("");
}

static PsCosts *
costs_from_request (const Request *request, GError **error)
{
  guint n_stages = request->n_devices * request->n_chunks;
  g_autofree PsStageShape *shapes = g_new0 (PsStageShape, n_stages);
  g_autoptr (PsCosts) costs = ps_costs_new (n_stages);

  if (!ps_model_split (request->model, n_stages, shapes, error))
    return NULL;
  for (guint stage = 0; stage < n_stages; stage++)
    if (!fill_stage (request, &shapes[stage], stage, costs, error))
      return NULL;
  ps_costs_set_messages (costs, ps_model_boundary_bytes (request->model));
  if (!fill_transfers (request, costs, error))
    return NULL;
  costs->time_origin = PS_ORIGIN_MEASURED;
  costs->memory_origin = PS_ORIGIN_MEASURED;
  costs->loop_only = request->shares != NULL;
  g_autofree char *unrest = describe_unrest (request, error);
  if (unrest == NULL)
    return NULL;
  g_free (costs->source);
  costs->source = g_strdup_printf ("profile '%s' of %s: %s%s%s over %s on %s (%s), measured %s%s",
                                   request->profile->name, request->db->file->path, request->profile->device,
                                   request->shares != NULL ? " with shares " : "", request->profile->shares,
                                   request->profile->transport, request->profile->host, request->profile->processor,
                                   request->profile->created, unrest);
  return g_steal_pointer (&costs);
}

static PsModel *
stored_model (PsCostDb *db, const PsProfile *profile, GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s: profile '%s'", db->file->path, profile->name);

  return ps_model_parse (where, profile->model_text, strlen (profile->model_text), error);
}

/* Measured times say nothing about another model. */
static gboolean
check_model (PsCostDb *db, const PsProfile *profile, const PsModel *model, GError **error)
{
  g_autofree char *digest = ps_model_digest (model);

  if (g_str_equal (digest, profile->model_digest))
    return TRUE;
  g_autoptr (PsModel) stored = stored_model (db, profile, error);
  if (stored == NULL)
    return FALSE;
  if (stored->precision != model->precision)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: profile '%s' was measured with precision = %s, not %s",
                 db->file->path, profile->name, ps_precision_name (stored->precision),
                 ps_precision_name (model->precision));
  else
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT,
                 "%s: profile '%s' was measured with another model than '%s' (its '%s' differs in some figure)",
                 db->file->path, profile->name, model->name, profile->model_name);
  return FALSE;
}

/* Unequal shares are those of so many devices and no others. */
static gboolean
read_shares (Request *request, GError **error)
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

/* Finds profile, model, shares and measurements; db, model, n_devices and n_chunks are set. */
static gboolean
open_request (Request *request, const char *profile_name, gboolean with_samples, GError **error)
{
  g_return_val_if_fail (request->n_devices >= 1 && request->n_chunks >= 1, FALSE);
  request->profiles = ps_costdb_profiles (request->db, error);
  request->profile
      = request->profiles != NULL ? choose_profile (request->db, request->profiles, profile_name, error) : NULL;
  if (request->profile == NULL
      || (request->model != NULL && !check_model (request->db, request->profile, request->model, error)))
    return FALSE;
  if (request->model == NULL)
    request->model = request->stored = stored_model (request->db, request->profile, error);
  if (request->model == NULL || !read_shares (request, error))
    return FALSE;
  request->measurements = ps_costdb_measurements (request->db, request->profile->name, with_samples, error);
  return request->measurements != NULL;
}

PsCosts *
ps_costdb_costs (PsCostDb *db, const char *profile_name, const PsModel *model, guint n_devices, guint n_chunks,
                 GError **error)
{
  g_auto (Request) request = { .db = db, .model = model, .n_devices = n_devices, .n_chunks = n_chunks };

  return open_request (&request, profile_name, FALSE, error) ? costs_from_request (&request, error) : NULL;
}

/* The samples over their median; NULL where there are none or the median is no time. */
static GArray *
relative_samples (const PsMeasurement *m, double *largest)
{
  if (m == NULL || m->n_samples == 0 || m->time.median_ns <= 0)
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

static PsCostSpread *
spread_from_request (const Request *request, GError **error)
{
  guint n_stages = request->n_devices * request->n_chunks;
  g_autofree PsStageShape *shapes = g_new0 (PsStageShape, n_stages);

  if (!ps_model_split (request->model, n_stages, shapes, error))
    return NULL;
  PsCostSpread *spread = g_new0 (PsCostSpread, 1);
  spread->n_stages = n_stages;
  spread->largest = 1;
  spread->op = g_new0 (GArray *, (gsize)PS_N_OP_KINDS * n_stages);
  for (guint i = 0; i < PS_N_OP_KINDS * n_stages; i++)
    {
      PsOpKind kind = (PsOpKind)(i / n_stages);
      guint stage = i % n_stages;
      g_autofree char *key = ps_stage_shape_key (&shapes[stage]);
      guint share = share_of (request, stage);
      const PsMeasurement *m
          = kind == PS_OP_R ? find_recompute (request, key, share) : find_op (request, key, share, kind);

      spread->op[i] = relative_samples (m, &spread->largest);
    }
  g_autoptr (GPtrArray) transfers = suitable_transfers (request);
  const PsMeasurement *below = NULL, *above = NULL;
  if (transfers->len > 0)
    find_neighbours (transfers, ps_model_boundary_bytes (request->model), &below, &above);
  spread->transfer = relative_samples (above, &spread->largest);
  return spread;
}

PsCostSpread *
ps_costdb_spread (PsCostDb *db, const char *profile_name, const PsModel *model, guint n_devices, guint n_chunks,
                  GError **error)
{
  g_auto (Request) request = { .db = db, .model = model, .n_devices = n_devices, .n_chunks = n_chunks };

  return open_request (&request, profile_name, TRUE, error) ? spread_from_request (&request, error) : NULL;
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
  g_free (spread);
}

PsModel *
ps_costdb_model (PsCostDb *db, const char *profile_name, GError **error)
{
  g_autoptr (GPtrArray) profiles = ps_costdb_profiles (db, error);
  const PsProfile *profile = profiles != NULL ? choose_profile (db, profiles, profile_name, error) : NULL;

  return profile != NULL ? stored_model (db, profile, error) : NULL;
}

PsProfile *
ps_costdb_profile (PsCostDb *db, const char *name, GError **error)
{
  g_autoptr (GPtrArray) profiles = ps_costdb_profiles (db, error);
  const PsProfile *profile = profiles != NULL ? choose_profile (db, profiles, name, error) : NULL;
  guint place;

  return profile != NULL && g_ptr_array_find (profiles, profile, &place) ? g_ptr_array_steal_index (profiles, place)
                                                                         : NULL;
}
