/* costdb-costs.c - turns a profile into the costs of a pipeline: picks the measured rows that fit and interpolates
 * transfers. */
#include "costdb-private.h"

#include "text.h"

#include <pipesim/layout-string.h>

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
  guint *shares;        /* [n_devices] of the profile; NULL: equal parts */
  PsStageShape *shapes; /* [n_devices * n_chunks]; NULL without a model */
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
  g_free (request->shapes);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Request, request_clear)

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
  guint n_stages = request->n_devices * request->n_chunks;
  gboolean even = ps_stage_shapes_are_even (request->shapes, n_stages);
  g_autofree char *layout = ps_layout_string_write (request->shapes, n_stages);

  g_set_error (error, PS_ERROR, PS_ERROR_INPUT,
               "%s: profile '%s' has no %s; measure it with: pipesim calib run --db %s --profile %s --model FILE -p %u "
               "-v %u%s%s%s%s%s",
               request->db->file->path, request->profile->name, what, request->db->file->path, request->profile->name,
               request->n_devices, request->n_chunks, request->shares != NULL ? " --sm-shares " : "",
               request->profile->shares, even ? "" : " --layout '", even ? "" : layout, even ? "" : "'");
}

static char *
describe_op (PsOpKind kind, const char *shape, guint share)
{
  g_autofree char *part = share ? g_strdup_printf (" with share %u", share) : g_strdup ("");

  return g_strdup_printf ("%s of stage shape '%s'%s", ps_op_kind_name (kind), shape, part);
}

static gboolean
is_imported (const Request *request)
{
  return *request->profile->source != '\0';
}

static const PsMeasurement *
find_plain (const Request *request, PsSubject subject, const char *shape)
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
fill_stage (const Request *request, const char *key, guint stage, PsCosts *costs, GError **error)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW, PS_OP_O };
  const PsMeasurement *pair = find_plain (request, PS_SUBJECT_PAIR, key);

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      const PsMeasurement *m = find_op (request, key, share_of (request, stage), kinds[i]);

      if (m == NULL && is_imported (request))
        {
          costs->stage[stage].unknown |= (1U << kinds[i]) & ~(1U << PS_OP_O);
          continue;
        }
      if (m == NULL)
        {
          g_autofree char *what = describe_op (kinds[i], key, share_of (request, stage));

          set_missing (request, what, error);
          return FALSE;
        }
      *ps_costs_op (costs, kinds[i], stage)
          = (PsOpCost){ .duration_ns = m->time.median_ns, .take_bytes = m->take_bytes, .give_bytes = m->give_bytes };
      costs->stage[stage].weight_bytes = m->state_bytes;
      if (g_str_equal (m->stop, "estimated"))
        costs->time_origin = PS_ORIGIN_MODELLED;
    }
  ps_costs_guess (costs, stage);
  if (pair != NULL)
    costs->stage[stage].pair_ns = pair->time.median_ns;
  const PsMeasurement *again = find_recompute (request, key, share_of (request, stage));
  *ps_costs_op (costs, PS_OP_R, stage) = *ps_costs_op (costs, PS_OP_F, stage);
  if (again != NULL)
    ps_costs_op (costs, PS_OP_R, stage)->duration_ns = again->time.median_ns;
  return TRUE;
}

static void
fill_host (const Request *request, PsCosts *costs)
{
  const PsMeasurement *op = find_plain (request, PS_SUBJECT_HOST, "op");
  const PsMeasurement *send = find_plain (request, PS_SUBJECT_HOST, "send");
  const PsMeasurement *receive = find_plain (request, PS_SUBJECT_HOST, "receive");

  costs->op_ns = op != NULL ? op->time.median_ns : 0;
  costs->post_ns
      = send != NULL && receive != NULL ? (send->time.median_ns + receive->time.median_ns) / 2 : costs->op_ns;
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

/* A boundary that no message crossed in the run has the median of the others. */
static void
fill_boundaries (const Request *request, PsCosts *costs)
{
  g_autofree gint64 *known = g_new (gint64, 2 * costs->n_stages);
  guint n = 0;
  gint64 usual;

  for (guint i = 1; i <= 2 * costs->n_stages; i++)
    {
      g_autofree char *key = ps_stage_key ((i - 1) % costs->n_stages, costs->n_stages, i > costs->n_stages);
      const PsMeasurement *m = find_plain (request, PS_SUBJECT_TRANSFER, key);

      costs->transfer_ns[i] = m != NULL ? m->time.median_ns : -1;
      if (m != NULL)
        known[n++] = m->time.median_ns;
    }
  usual = n > 0 ? ps_median (known, n) : 0;
  for (guint i = 1; i <= 2 * costs->n_stages; i++)
    if (costs->transfer_ns[i] < 0)
      costs->transfer_ns[i] = usual;
}

static gboolean
fill_transfers (const Request *request, PsCosts *costs, GError **error)
{
  if (request->n_devices == 1 || (is_imported (request) && choose_transfer (request) == NULL))
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

char *
ps_stage_key (guint stage, guint n_stages, gboolean back)
{
  return g_strdup_printf ("stage=%u/%u%s", stage, n_stages, back ? ",back" : "");
}

/* The shapes of all stages, and what the model says about their sizes. costs NULL: the shapes alone. */
static char **
stage_keys (const Request *request, PsCosts *costs, GError **error)
{
  guint n = request->n_devices * request->n_chunks;
  const PsStageShape *shapes = request->shapes;
  g_autofree char *first = ps_stage_key (0, n, FALSE);
  g_auto (GStrv) keys = g_new0 (char *, n + 1);

  if (request->model == NULL && find_plain (request, PS_SUBJECT_OP, first) == NULL)
    {
      ps_refuse (error, PS_ERROR_INPUT, "%s: profile '%s' is of other stages than %u, and without a model: %s",
                 request->db->file->path, request->profile->name, n, request->profile->source);
      return NULL;
    }
  for (guint stage = 0; stage < n; stage++)
    {
      keys[stage] = request->model != NULL ? ps_stage_shape_key (&shapes[stage]) : ps_stage_key (stage, n, FALSE);
      if (request->model != NULL && costs != NULL)
        costs->stage[stage].version_bytes = ps_model_stage_parameters (request->model, &shapes[stage])
                                            * ps_precision_bytes (request->model->precision);
    }
  if (request->model != NULL && costs != NULL)
    ps_costs_set_messages (costs, ps_model_boundary_bytes (request->model));
  return g_steal_pointer (&keys);
}

static PsCosts *
costs_from_request (const Request *request, GError **error)
{
  guint n_stages = request->n_devices * request->n_chunks;
  g_autoptr (PsCosts) costs = ps_costs_new (n_stages);
  g_auto (GStrv) keys = stage_keys (request, costs, error);

  if (request->model != NULL)
    costs->shapes = g_memdup2 (request->shapes, n_stages * sizeof *request->shapes);
  costs->time_origin = costs->transfer_origin = PS_ORIGIN_MEASURED;
  for (guint stage = 0; stage < n_stages; stage++)
    if (keys == NULL || !fill_stage (request, keys[stage], stage, costs, error))
      return NULL;
  if (request->model == NULL)
    fill_boundaries (request, costs);
  else if (!fill_transfers (request, costs, error))
    return NULL;
  fill_host (request, costs);
  costs->memory_origin = PS_ORIGIN_MEASURED;
  costs->loop_only = request->shares != NULL;
  g_autofree char *unrest = describe_unrest (request, error);
  if (unrest == NULL)
    return NULL;
  g_free (costs->source);
  costs->source = is_imported (request)
                      ? g_strdup_printf ("profile '%s' of %s: imported from %s", request->profile->name,
                                         request->db->file->path, request->profile->source)
                      : g_strdup_printf ("profile '%s' of %s: %s%s%s over %s on %s (%s), measured %s%s",
                                         request->profile->name, request->db->file->path, request->profile->device,
                                         request->shares != NULL ? " with shares " : "", request->profile->shares,
                                         request->profile->transport, request->profile->host,
                                         request->profile->processor, request->profile->created, unrest);
  return g_steal_pointer (&costs);
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

static gboolean
set_shapes (Request *request, const PsStageShape *shapes, GError **error)
{
  guint n_stages = request->n_devices * request->n_chunks;

  if (request->model == NULL)
    return TRUE;
  request->shapes = shapes != NULL ? g_memdup2 (shapes, n_stages * sizeof *shapes) : g_new0 (PsStageShape, n_stages);
  return shapes != NULL || ps_model_split (request->model, n_stages, request->shapes, error);
}

/* Finds profile, model, shares, shapes and measurements; db, model, n_devices and n_chunks are set. */
static gboolean
open_request (Request *request, const char *profile_name, const PsStageShape *shapes, gboolean with_samples,
              GError **error)
{
  g_return_val_if_fail (request->n_devices >= 1 && request->n_chunks >= 1, FALSE);
  request->profiles = ps_costdb_profiles (request->db, error);
  request->profile = request->profiles != NULL
                         ? ps_costdb_choose_profile (request->db, request->profiles, profile_name, error)
                         : NULL;
  if (request->profile == NULL
      || (request->model != NULL && !ps_costdb_check_model (request->db, request->profile, request->model, error)))
    return FALSE;
  if (request->model == NULL && *request->profile->model_text != '\0')
    {
      request->model = request->stored = ps_costdb_stored_model (request->db, request->profile, error);
      if (request->model == NULL)
        return FALSE;
    }
  if (!read_shares (request, error) || !set_shapes (request, shapes, error))
    return FALSE;
  request->measurements = ps_costdb_measurements (request->db, request->profile->name, with_samples, error);
  return request->measurements != NULL;
}

PsCosts *
ps_costdb_stage_costs (PsCostDb *db, const char *profile_name, const PsModel *model, const PsStageShape *shapes,
                       guint n_devices, guint n_chunks, GError **error)
{
  g_auto (Request) request = { .db = db, .model = model, .n_devices = n_devices, .n_chunks = n_chunks };

  return open_request (&request, profile_name, shapes, FALSE, error) ? costs_from_request (&request, error) : NULL;
}

PsCosts *
ps_costdb_costs (PsCostDb *db, const char *profile, const PsModel *model, guint n_devices, guint n_chunks,
                 GError **error)
{
  return ps_costdb_stage_costs (db, profile, model, NULL, n_devices, n_chunks, error);
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

/* The row of a measurement; rows holds them all. */
static guint
row_of (GPtrArray *rows, const PsMeasurement *m)
{
  guint row = PS_NO_ROW;

  if (m == NULL || g_ptr_array_find (rows, m, &row))
    return row;
  g_ptr_array_add (rows, (gpointer)m);
  return rows->len - 1;
}

/* Says how runs differ from the one calibration that there is. */
static gboolean
add_runs (const Request *request, PsCostSpread *spread, GPtrArray *measured, GError **error)
{
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  g_autoptr (GPtrArray) sentinels = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  GPtrArray *readings = ps_costdb_sentinels (request->db, request->profile->name, error);

  if (readings == NULL)
    return FALSE;
  g_ptr_array_add (sentinels, readings);
  for (guint i = 0; i < measured->len; i++)
    {
      g_ptr_array_add (rows, g_ptr_array_new ());
      g_ptr_array_add (rows->pdata[i], measured->pdata[i]);
    }
  spread->n_rows = rows->len;
  spread->deviation = g_new0 (double, rows->len);
  ps_cost_spread_set_runs (spread, rows, sentinels);
  return TRUE;
}

static PsCostSpread *
spread_from_request (const Request *request, GError **error)
{
  guint n_stages = request->n_devices * request->n_chunks;
  g_auto (GStrv) keys = stage_keys (request, NULL, error);

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
      guint share = share_of (request, stage);
      const PsMeasurement *m = kind == PS_OP_R ? find_recompute (request, keys[stage], share)
                                               : find_op (request, keys[stage], share, kind);

      spread->op[i] = relative_samples (m, &spread->largest);
      spread->row[i] = row_of (rows, m);
    }
  g_autoptr (GPtrArray) transfers = suitable_transfers (request);
  const PsMeasurement *below = NULL, *above = NULL;
  if (transfers->len > 0 && request->model != NULL)
    find_neighbours (transfers, ps_model_boundary_bytes (request->model), &below, &above);
  spread->transfer = relative_samples (above, &spread->largest);
  spread->row[PS_N_OP_KINDS * n_stages] = row_of (rows, above);
  return add_runs (request, spread, rows, error) ? g_steal_pointer (&spread) : NULL;
}

PsCostSpread *
ps_costdb_spread (PsCostDb *db, const char *profile_name, const PsModel *model, const PsStageShape *shapes,
                  guint n_devices, guint n_chunks, GError **error)
{
  g_auto (Request) request = { .db = db, .model = model, .n_devices = n_devices, .n_chunks = n_chunks };

  return open_request (&request, profile_name, shapes, TRUE, error) ? spread_from_request (&request, error) : NULL;
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
