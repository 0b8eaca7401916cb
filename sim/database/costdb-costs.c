/* costdb-costs.c - turns a profile into the costs of a pipeline: takes times and sizes from the rows that fit, and
 * interpolates transfers. */
#include "costdb-private.h"

#include <pipesim/layout-string.h>

#include <math.h>

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

/* A warm op counts beside one that is not, with as many devices busy. In a calibration, a backward whose gradient comes
 * from another stage waits, and its data gets cold. */
static void
fill_warm (const PsCostRequest *request, const char *key, guint stage, PsCosts *costs)
{
  g_autofree char *warm = g_strconcat (key, PS_WARM_SUFFIX, NULL);

  for (guint kind = 0; kind < PS_OP_O; kind++)
    {
      guint share = ps_cost_request_share (request, stage);
      const PsMeasurement *m = ps_cost_request_op (request, warm, share, (PsOpKind)kind);
      const PsMeasurement *other = ps_cost_request_op (request, key, share, (PsOpKind)kind);
      gboolean waits = !ps_cost_request_is_imported (request) && (kind == PS_OP_B || kind == PS_OP_BW)
                       && stage + 1 < costs->n_stages;

      if (waits || m == NULL || other == NULL || m->devices != other->devices || other->time.median_ns <= 0)
        continue;
      if (costs->warm == NULL)
        {
          costs->warm = g_new (double, (gsize)PS_OP_O * costs->n_stages);
          for (guint i = 0; i < PS_OP_O * costs->n_stages; i++)
            costs->warm[i] = 1;
        }
      costs->warm[kind * costs->n_stages + stage] = (double)m->time.median_ns / (double)other->time.median_ns;
    }
}

static gboolean
fill_stage (const PsCostRequest *request, const char *key, guint stage, PsCosts *costs, GError **error)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW, PS_OP_O };
  const PsMeasurement *pair = ps_cost_request_plain (request, PS_SUBJECT_PAIR, key);

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      const PsMeasurement *m = ps_cost_request_op (request, key, ps_cost_request_share (request, stage), kinds[i]);

      if (m == NULL && ps_cost_request_is_imported (request))
        {
          costs->stage[stage].unknown |= (1U << kinds[i]) & ~(1U << PS_OP_O);
          continue;
        }
      if (m == NULL)
        {
          g_autofree char *what = describe_op (kinds[i], key, ps_cost_request_share (request, stage));

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
  fill_warm (request, key, stage, costs);
  if (pair != NULL)
    costs->stage[stage].pair_ns = pair->time.median_ns;
  const PsMeasurement *again = ps_cost_request_recompute (request, key, ps_cost_request_share (request, stage));
  *ps_costs_op (costs, PS_OP_R, stage) = *ps_costs_op (costs, PS_OP_F, stage);
  if (again != NULL)
    ps_costs_op (costs, PS_OP_R, stage)->duration_ns = again->time.median_ns;
  return TRUE;
}

/* The mean of all posts of that name; -1: there are none. */
static gboolean
mean_post (const PsCostRequest *request, const char *name, gint64 *ns, GError **error)
{
  g_autoptr (PsMeasurement) samples = g_new0 (PsMeasurement, 1);
  const PsMeasurement *m = ps_cost_request_plain (request, PS_SUBJECT_HOST, name);

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
static gboolean
fill_host (const PsCostRequest *request, PsCosts *costs, GError **error)
{
  const PsMeasurement *op = ps_cost_request_plain (request, PS_SUBJECT_HOST, "op");
  gint64 send_ns, receive_ns;

  if (!mean_post (request, "send", &send_ns, error) || !mean_post (request, "receive", &receive_ns, error))
    return FALSE;
  costs->op_ns = op != NULL ? op->time.median_ns : 0;
  costs->post_ns = send_ns >= 0 && receive_ns >= 0 ? (send_ns + receive_ns) / 2 : costs->op_ns;
  for (guint i = 1; i <= 2 * costs->n_stages && !ps_cost_request_is_imported (request); i++)
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
  PsStateBytes state = ps_model_state (request->model, ps_cost_request_parameters (request, &costs->shapes[stage]));

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
        const PsMeasurement *m = ps_cost_request_plain (request, PS_SUBJECT_TRANSFER, key);

        costs->transfer_ns[1 + back * costs->n_stages + stage] = m != NULL ? m->time.median_ns : -1;
      }
  ps_costs_guess_transfers (costs);
}

/* The time of a boundary's message from a device to another. */
static gint64
transfer_ns (const PsCostRequest *request, guint from, guint to, PsOrigin *origin)
{
  g_autoptr (GPtrArray) transfers = ps_cost_request_link (request, from, to, origin);
  gint64 bytes = ps_model_boundary_bytes (request->model);
  const PsMeasurement *below, *above;

  ps_cost_request_neighbours (transfers, bytes, &below, &above);
  if (above->bytes != bytes)
    *origin = PS_ORIGIN_INTERPOLATED;
  return interpolate (below, above, bytes);
}

/* Stage i counts as on device i modulo n_devices. A V's stages have these links too where places read alike from both
 * ends. */
static gboolean
fill_transfers (const PsCostRequest *request, PsCosts *costs, GError **error)
{
  g_autoptr (GPtrArray) transfers = ps_cost_request_messages (request, PS_SUBJECT_TRANSFER);
  guint p = request->n_devices;

  if (p > 1 && ps_cost_request_is_imported (request) && transfers->len == 0)
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
        guint share = ps_cost_request_share (request, stage);
        const PsMeasurement *m = kind == PS_OP_R ? ps_cost_request_recompute (request, shape, share)
                                                 : ps_cost_request_op (request, shape, share, (PsOpKind)kind);
        gint64 whole_ns = ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns;

        if (m == NULL || whole_ns <= 0)
          return FALSE;
        parts->part[(kind * parts->n + slice) * costs->n_stages + stage] = (double)m->time.median_ns / (double)whole_ns;
      }
  return TRUE;
}

/* Time of a slice's message over that of a whole one. */
static double
transfer_part (const PsCostRequest *request, guint n_slices)
{
  g_autoptr (GPtrArray) transfers = ps_cost_request_messages (request, PS_SUBJECT_TRANSFER);
  gint64 bytes = request->model != NULL ? ps_model_boundary_bytes (request->model) : 0, whole_ns;
  const PsMeasurement *below, *above;

  if (transfers->len == 0 || bytes == 0)
    return 1;
  ps_cost_request_neighbours (transfers, bytes, &below, &above);
  whole_ns = interpolate (below, above, bytes);
  ps_cost_request_neighbours (transfers, bytes / n_slices, &below, &above);
  return whole_ns > 0 ? MIN ((double)interpolate (below, above, bytes / n_slices) / (double)whole_ns, 1) : 1;
}

/* Adds the parts that slices take, for each number of slices that all stages were measured with. */
static void
fill_slices (const PsCostRequest *request, char *const *keys, PsCosts *costs)
{
  for (guint n = ps_cost_request_slices (request, keys[0], 0); n > 0; n = ps_cost_request_slices (request, keys[0], n))
    {
      g_autoptr (PsSliceParts) parts = ps_slice_parts_new (n, costs->n_stages);
      gboolean whole = TRUE;

      for (guint stage = 0; stage < costs->n_stages && whole; stage++)
        whole = fill_parts (request, keys[stage], stage, costs, parts);
      if (!whole)
        continue;
      for (guint i = 0; i < 2 * costs->n_stages; i++)
        parts->transfer[i] = transfer_part (request, n);
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
  g_auto (GStrv) keys = ps_cost_request_keys (request, costs, error);

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
  costs->source = ps_cost_request_is_imported (request)
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
                       guint n_devices, guint n_chunks, GError **error)
{
  g_auto (PsCostRequest) request = { .db = db, .model = model, .n_devices = n_devices, .n_chunks = n_chunks };

  return ps_cost_request_open (&request, profile_name, shapes, error) ? costs_from_request (&request, error) : NULL;
}

PsCosts *
ps_costdb_costs (PsCostDb *db, const char *profile, const PsModel *model, guint n_devices, guint n_chunks,
                 GError **error)
{
  return ps_costdb_stage_costs (db, profile, model, NULL, n_devices, n_chunks, error);
}

/* How long devices take to add up a stage's gradients, by the all-reduces that were measured; 0: none was. */
static gint64
reduce_ns (GPtrArray *reductions, gint64 bytes)
{
  const PsMeasurement *below, *above;

  if (reductions->len == 0)
    return 0;
  ps_cost_request_neighbours (reductions, bytes, &below, &above);
  return interpolate (below, above, bytes);
}

/* The all-reduces of n devices. */
static GPtrArray *
reductions_of (PsCostRequest *request, guint n)
{
  request->n_devices = n;
  return n > 1 ? ps_cost_request_messages (request, PS_SUBJECT_ALL_REDUCE) : g_ptr_array_new ();
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
