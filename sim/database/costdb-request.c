/* costdb-request.c - picks the measured rows that fit a pipeline. */
#include "costdb-private.h"

#include "text.h"

#include <pipesim/places.h>
#include <pipesim/tensor.h>

#include <string.h>

void
ps_cost_request_clear (PsCostRequest *request)
{
  g_clear_pointer (&request->profiles, g_ptr_array_unref);
  g_clear_pointer (&request->stored, ps_model_free);
  g_clear_pointer (&request->measurements, g_ptr_array_unref);
  g_free (request->shares);
  g_free (request->shapes);
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
is_better (const PsCostRequest *request, const PsMeasurement *a, const PsMeasurement *b)
{
  guint wanted = request->n_devices;

  if (b == NULL || a->devices != b->devices)
    return is_closer (wanted, a->devices, b != NULL ? b->devices : 0);
  return is_closer (wanted, a->sharing, b->sharing);
}

guint
ps_cost_request_share (const PsCostRequest *request, guint stage)
{
  return request->shares != NULL ? request->shares[stage % request->n_devices] : 0;
}

const PsMeasurement *
ps_cost_request_op (const PsCostRequest *request, const char *shape, guint share, PsOpKind kind)
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
const PsMeasurement *
ps_cost_request_recompute (const PsCostRequest *request, const char *shape, guint share)
{
  const PsMeasurement *measured = ps_cost_request_op (request, shape, share, PS_OP_R);

  return measured != NULL ? measured : ps_cost_request_op (request, shape, share, PS_OP_F);
}

gboolean
ps_cost_request_is_imported (const PsCostRequest *request)
{
  return *request->profile->source != '\0';
}

const PsMeasurement *
ps_cost_request_plain (const PsCostRequest *request, PsSubject subject, const char *shape)
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

GPtrArray *
ps_cost_request_messages (const PsCostRequest *request, PsSubject subject)
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
  return ps_cost_request_messages (request, PS_SUBJECT_TRANSFER);
}

GPtrArray *
ps_cost_request_link (const PsCostRequest *request, guint a, guint b, PsOrigin *origin)
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

void
ps_cost_request_neighbours (GPtrArray *transfers, gint64 bytes, const PsMeasurement **below,
                            const PsMeasurement **above)
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

gint64
ps_cost_request_parameters (const PsCostRequest *request, const PsStageShape *shape)
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

guint
ps_cost_request_slices (const PsCostRequest *request, const char *key, guint n)
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

char **
ps_cost_request_keys (const PsCostRequest *request, PsCosts *costs, GError **error)
{
  guint n = request->n_devices * request->n_chunks;
  const PsStageShape *shapes = request->shapes;
  g_autofree char *first = ps_stage_key (0, n, FALSE);
  g_auto (GStrv) keys = g_new0 (char *, n + 1);

  if (request->model == NULL && ps_cost_request_plain (request, PS_SUBJECT_OP, first) == NULL)
    return ps_refuse_null (error, PS_ERROR_INPUT,
                           "%s: profile '%s' is of other stages than %u, and without a model: %s",
                           request->db->file->path, request->profile->name, n, request->profile->source);
  for (guint stage = 0; stage < n; stage++)
    {
      keys[stage] = request->model != NULL ? ps_stage_shape_key (&shapes[stage]) : ps_stage_key (stage, n, FALSE);
      if (request->model != NULL && costs != NULL)
        costs->stage[stage].version_bytes
            = ps_cost_request_parameters (request, &shapes[stage]) * ps_precision_bytes (request->model->precision);
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

  return ps_cost_request_op (request, key, ps_cost_request_share (request, stage), PS_OP_F) != NULL;
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

gboolean
ps_cost_request_open (PsCostRequest *request, const char *profile_name, const PsStageShape *shapes, GError **error)
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
  request->measurements = ps_costdb_measurements (request->db, request->profile->name, FALSE, error);
  if (request->measurements != NULL)
    find_measured (request);
  return request->measurements != NULL;
}
