/* costs.c - the cost table: made by hand or from the command line, and its checks. */
#include <pipesim/costs.h>

#include <math.h>
#include <string.h>

PsCosts *
ps_costs_new (guint n_stages)
{
  PsCosts *costs = g_new0 (PsCosts, 1);

  costs->n_stages = n_stages;
  costs->n_lengths = 1;
  costs->dense_copies = 1;
  costs->expert_copies = 1;
  costs->stage = g_new0 (PsStageCost, n_stages);
  costs->op = g_new0 (PsOpCost, (gsize)PS_N_OP_KINDS * n_stages);
  costs->transfer_ns = g_new0 (gint64, 1 + 2 * (gsize)n_stages);
  costs->message_bytes = g_new0 (gint64, 1 + 2 * (gsize)n_stages);
  for (guint stage = 0; stage < n_stages; stage++)
    costs->stage[stage].pair_ns = costs->stage[stage].host_ns = -1;
  costs->source = g_strdup ("");
  return costs;
}

PsCosts *
ps_costs_copy (const PsCosts *costs)
{
  gsize n = costs->n_stages, all = n * costs->n_lengths;
  PsCosts *copy = g_new (PsCosts, 1);

  *copy = *costs;
  copy->stage = g_memdup2 (costs->stage, n * sizeof *costs->stage);
  copy->shapes = g_memdup2 (costs->shapes, n * sizeof *costs->shapes);
  copy->op = g_memdup2 (costs->op, PS_N_OP_KINDS * all * sizeof *costs->op);
  copy->host_time = g_memdup2 (costs->host_time, PS_N_OP_KINDS * all * sizeof *costs->host_time);
  copy->transfer_ns = g_memdup2 (costs->transfer_ns, (1 + 2 * all) * sizeof *costs->transfer_ns);
  copy->message_bytes = g_memdup2 (costs->message_bytes, (1 + 2 * all) * sizeof *costs->message_bytes);
  copy->pairs_ns = g_memdup2 (costs->pairs_ns, all * sizeof *costs->pairs_ns);
  copy->warm = g_memdup2 (costs->warm, PS_OP_O * n * sizeof *costs->warm);
  copy->slice_parts = costs->slice_parts != NULL ? g_ptr_array_ref (costs->slice_parts) : NULL;
  copy->source = g_strdup (costs->source);
  return copy;
}

void
ps_costs_free (PsCosts *costs)
{
  if (costs == NULL)
    return;
  g_free (costs->stage);
  g_free (costs->shapes);
  g_free (costs->op);
  g_free (costs->host_time);
  g_free (costs->transfer_ns);
  g_free (costs->message_bytes);
  g_free (costs->pairs_ns);
  g_free (costs->warm);
  g_clear_pointer (&costs->slice_parts, g_ptr_array_unref);
  g_free (costs->source);
  g_free (costs);
}

static gint64
divide (gint64 value, guint n)
{
  return value < 0 ? value : (value + n / 2) / n;
}

static gint64
net_bytes (const PsCosts *costs, PsOpKind kind, guint stage)
{
  const PsOpCost *op = ps_costs_op (costs, kind, stage);

  return op->take_bytes - op->give_bytes;
}

void
ps_costs_balance (PsCosts *rounded, const PsCosts *costs, guint stage)
{
  gint64 kept = net_bytes (costs, PS_OP_F, stage), left = net_bytes (rounded, PS_OP_F, stage);

  if (kept + net_bytes (costs, PS_OP_BW, stage) == 0)
    ps_costs_op (rounded, PS_OP_BW, stage)->give_bytes += left + net_bytes (rounded, PS_OP_BW, stage);
  left += net_bytes (rounded, PS_OP_B, stage) + net_bytes (rounded, PS_OP_W, stage);
  if (kept + net_bytes (costs, PS_OP_B, stage) + net_bytes (costs, PS_OP_W, stage) == 0)
    ps_costs_op (rounded, PS_OP_B, stage)->give_bytes += left;
}

void
ps_costs_set_memory (PsCosts *costs, guint stage, gint64 act_bytes, gint64 wact_bytes)
{
  ps_costs_op (costs, PS_OP_F, stage)->take_bytes = act_bytes;
  ps_costs_op (costs, PS_OP_R, stage)->take_bytes = act_bytes;
  ps_costs_op (costs, PS_OP_B, stage)->give_bytes = act_bytes - wact_bytes;
  ps_costs_op (costs, PS_OP_W, stage)->give_bytes = wact_bytes;
  ps_costs_op (costs, PS_OP_BW, stage)->give_bytes = act_bytes;
}

void
ps_costs_copy_stage (PsCosts *costs, guint stage, const PsCosts *from, guint from_stage)
{
  costs->stage[stage] = from->stage[from_stage];
  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
    *ps_costs_op (costs, (PsOpKind)kind, stage) = *ps_costs_op (from, (PsOpKind)kind, from_stage);
}

PsSliceParts *
ps_slice_parts_new (guint n_slices, guint n_stages)
{
  PsSliceParts *parts = g_new0 (PsSliceParts, 1);

  parts->n = n_slices;
  parts->part = g_new (double, (gsize)PS_OP_O *n_slices *n_stages);
  parts->transfer = 1;
  return parts;
}

void
ps_slice_parts_free (PsSliceParts *parts)
{
  if (parts == NULL)
    return;
  g_free (parts->part);
  g_free (parts);
}

static const PsSliceParts *
find_parts (const PsCosts *costs, guint n_slices)
{
  for (guint i = 0; costs->slice_parts != NULL && i < costs->slice_parts->len; i++)
    if (((const PsSliceParts *)costs->slice_parts->pdata[i])->n == n_slices)
      return costs->slice_parts->pdata[i];
  return NULL;
}

gboolean
ps_costs_has_slices (const PsCosts *costs, guint n_slices)
{
  return find_parts (costs, n_slices) != NULL;
}

/* Sets the times of slices first .. first + n - 1: their average. */
static void
set_slice_times (const PsCosts *costs, const PsSliceParts *parts, guint first, guint n, PsCosts *slice)
{
  for (gsize i = 0; i < (gsize)PS_OP_O * costs->n_stages; i++)
    {
      gsize kind = i / costs->n_stages, stage = i % costs->n_stages;
      double sum = 0;

      for (guint k = first; k < first + n; k++)
        sum += parts->part[(kind * parts->n + k) * costs->n_stages + stage];
      slice->op[i].duration_ns = llrint ((double)costs->op[i].duration_ns * sum / n);
    }
  for (gsize i = 1; i <= 2 * (gsize)costs->n_stages; i++)
    slice->transfer_ns[i] = llrint ((double)costs->transfer_ns[i] * parts->transfer);
}

/* An equal part of everything. */
static PsCosts *
equal_slice (const PsCosts *costs, guint n_slices)
{
  PsCosts *slice = ps_costs_copy (costs);

  for (gsize i = 0; i < (gsize)PS_OP_O * costs->n_stages; i++)
    {
      slice->op[i].duration_ns = divide (costs->op[i].duration_ns, n_slices);
      slice->op[i].take_bytes = divide (costs->op[i].take_bytes, n_slices);
      slice->op[i].give_bytes = divide (costs->op[i].give_bytes, n_slices);
    }
  for (guint stage = 0; stage < costs->n_stages; stage++)
    {
      PsStageCost *cost = &slice->stage[stage];

      cost->pair_ns = divide (cost->pair_ns, n_slices);
      cost->host_ns = divide (cost->host_ns, n_slices);
      cost->tensor_ns = divide (cost->tensor_ns, n_slices);
      ps_costs_balance (slice, costs, stage);
    }
  for (gsize i = 1; i <= 2 * (gsize)costs->n_stages; i++)
    slice->message_bytes[i] = divide (costs->message_bytes[i], n_slices);
  return slice;
}

PsCosts *
ps_costs_slice (const PsCosts *costs, guint n_slices)
{
  const PsSliceParts *parts = find_parts (costs, n_slices);
  PsCosts *slice = equal_slice (costs, n_slices);

  if (parts != NULL)
    set_slice_times (costs, parts, 0, n_slices, slice);
  return slice;
}

PsCosts *
ps_costs_nth_slice (const PsCosts *costs, guint n_slices, guint slice)
{
  const PsSliceParts *parts = find_parts (costs, n_slices);
  PsCosts *of_slice = equal_slice (costs, n_slices);

  if (parts != NULL)
    set_slice_times (costs, parts, slice, 1, of_slice);
  return of_slice;
}

PsCosts *
ps_costs_least_slice (const PsCosts *costs, guint n_slices)
{
  PsCosts *least = ps_costs_nth_slice (costs, n_slices, 0);

  for (guint k = 1; k < n_slices && ps_costs_has_slices (costs, n_slices); k++)
    {
      g_autoptr (PsCosts) slice = ps_costs_nth_slice (costs, n_slices, k);

      for (guint i = 0; i < PS_OP_O * costs->n_stages; i++)
        least->op[i].duration_ns = MIN (least->op[i].duration_ns, slice->op[i].duration_ns);
    }
  return least;
}

void
ps_costs_set_messages (PsCosts *costs, gint64 bytes)
{
  for (guint stage = 0; stage + 1 < costs->n_stages; stage++)
    {
      costs->message_bytes[ps_transfer_forward (costs, stage)] = bytes;
      costs->message_bytes[ps_transfer_backward (costs, stage + 1)] = bytes;
      ps_costs_op (costs, PS_OP_R, stage + 1)->take_bytes
          = MAX (ps_costs_op (costs, PS_OP_F, stage + 1)->take_bytes - bytes, 0);
    }
}

static const char *const key_names[PS_N_COST_KEYS]
    = { "f",  "b",    "w",   "bw",   "c",    "o",       "pair",    "reduce", "reduce2", "r",  "host",
        "op", "post", "act", "wact", "keep", "weights", "version", "grad",   "opt",     "msg" };

const char *
ps_cost_key_name (PsCostKey key)
{
  g_return_val_if_fail ((guint)key < PS_N_COST_KEYS, NULL);
  return key_names[key];
}

/* One value per stage for each key that was given; NULL for the others. */
typedef struct
{
  guint n_devices;
  guint n_chunks;
  guint n_stages;
  gint64 *values[PS_N_COST_KEYS];
} Spec;

static void
spec_clear (Spec *spec)
{
  for (guint key = 0; key < PS_N_COST_KEYS; key++)
    g_free (spec->values[key]);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Spec, spec_clear)

static gboolean
parse_value (PsCostKey key, const char *text, gint64 *value, GError **error)
{
  g_autofree char *where = g_strdup_printf ("--costs: %s", key_names[key]);

  return key >= PS_COST_ACT ? ps_parse_size (where, text, value, error) : ps_parse_time (where, text, value, error);
}

/* Costs of a boundary, not of a stage. */
static gboolean
is_per_transfer (PsCostKey key)
{
  return key == PS_COST_C || key == PS_COST_MSG;
}

/* The same for every device, however many chunks it has. */
static gboolean
is_per_device (PsCostKey key)
{
  return key == PS_COST_OP || key == PS_COST_POST;
}

/* A device's share, split over its chunks: the first chunks take the remainder, so that the sum is exact. */
static void
spread (const Spec *spec, PsCostKey key, gint64 share, gint64 *values)
{
  for (guint stage = 0; stage < spec->n_stages; stage++)
    {
      gint64 chunk = stage / spec->n_devices;

      values[stage] = is_per_transfer (key) || is_per_device (key)
                          ? share
                          : share / spec->n_chunks + (chunk < share % spec->n_chunks);
    }
}

static gboolean
parse_values (Spec *spec, PsCostKey key, const char *text, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (text, ":", -1);
  guint n_parts = g_strv_length (parts);
  guint wanted = is_per_transfer (key) ? spec->n_stages - 1 : spec->n_stages;

  if (n_parts != 1 && is_per_device (key))
    return ps_refuse (error, PS_ERROR_USAGE, "--costs: %s has %u values; give 1, for all devices", key_names[key],
                      n_parts);
  if (n_parts != 1 && n_parts != wanted)
    return ps_refuse (error, PS_ERROR_USAGE, "--costs: %s has %u values; give 1, or %u (one per %s)", key_names[key],
                      n_parts, wanted, is_per_transfer (key) ? "boundary" : "stage");
  g_autofree gint64 *values = g_new0 (gint64, spec->n_stages);
  for (guint i = 0; i < n_parts; i++)
    if (!parse_value (key, parts[i], &values[i], error))
      return FALSE;
  if (n_parts == 1 && wanted != 1)
    spread (spec, key, values[0], values);
  spec->values[key] = g_steal_pointer (&values);
  return TRUE;
}

static gboolean
parse_entry (Spec *spec, const char *entry, GError **error)
{
  const char *equals = strchr (entry, '=');
  g_autofree char *name = g_strndup (entry, equals != NULL ? (gsize)(equals - entry) : strlen (entry));
  PsCostKey key = 0;

  while (key < PS_N_COST_KEYS && !g_str_equal (name, key_names[key]))
    key++;
  if (key == PS_N_COST_KEYS || equals == NULL)
    return ps_refuse (
        error, PS_ERROR_USAGE,
        "--costs: '%s' is not KEY=VALUE with a key of f, b, w, bw, c, o, pair, reduce, reduce2, r, host, op, post, "
        "act, wact, keep, weights, version, grad, opt, msg",
        entry);
  if (spec->values[key] != NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--costs: %s is given twice", name);
  return parse_values (spec, key, equals + 1, error);
}

static gint64
spec_get (const Spec *spec, PsCostKey key, guint stage, gint64 fallback)
{
  return spec->values[key] != NULL ? spec->values[key][stage] : fallback;
}

static gboolean
spec_is_complete (const Spec *spec, GError **error)
{
  gboolean split = spec->values[PS_COST_B] != NULL && spec->values[PS_COST_W] != NULL;

  if (spec->values[PS_COST_F] != NULL
      && (split
          || (spec->values[PS_COST_BW] != NULL && spec->values[PS_COST_B] == NULL && spec->values[PS_COST_W] == NULL)))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE,
                    "--costs: give f, and either b and w or bw alone, such as f=1ms,b=1ms,w=1ms");
}

static void
fill_times (PsCosts *costs, const Spec *spec, guint stage)
{
  gint64 f = spec_get (spec, PS_COST_F, stage, 0);
  gint64 whole = spec_get (spec, PS_COST_BW, stage, 0);
  gint64 b = spec_get (spec, PS_COST_B, stage, whole / 2);
  gint64 w = spec_get (spec, PS_COST_W, stage, whole - whole / 2);
  PsStageCost *cost = &costs->stage[stage];

  ps_costs_op (costs, PS_OP_F, stage)->duration_ns = f;
  ps_costs_op (costs, PS_OP_R, stage)->duration_ns = spec_get (spec, PS_COST_R, stage, f);
  ps_costs_op (costs, PS_OP_B, stage)->duration_ns = b;
  ps_costs_op (costs, PS_OP_W, stage)->duration_ns = w;
  ps_costs_op (costs, PS_OP_BW, stage)->duration_ns = spec_get (spec, PS_COST_BW, stage, b + w);
  ps_costs_op (costs, PS_OP_O, stage)->duration_ns = spec_get (spec, PS_COST_O, stage, 0);
  cost->pair_ns = spec_get (spec, PS_COST_PAIR, stage, -1);
  cost->reduce_ns = spec_get (spec, PS_COST_REDUCE, stage, 0);
  cost->reduce2_ns = spec_get (spec, PS_COST_REDUCE2, stage, cost->reduce_ns);
  cost->host_ns = spec_get (spec, PS_COST_HOST, stage, -1);
}

static void
fill_boundaries (PsCosts *costs, const Spec *spec, guint stage)
{
  costs->transfer_ns[ps_transfer_forward (costs, stage)] = spec_get (spec, PS_COST_C, stage, 0);
  costs->message_bytes[ps_transfer_forward (costs, stage)] = spec_get (spec, PS_COST_MSG, stage, 0);
  if (stage == 0)
    return;
  costs->transfer_ns[ps_transfer_backward (costs, stage)] = spec_get (spec, PS_COST_C, stage - 1, 0);
  costs->message_bytes[ps_transfer_backward (costs, stage)] = spec_get (spec, PS_COST_MSG, stage - 1, 0);
}

static void
fill_state (PsCosts *costs, const Spec *spec, guint stage)
{
  gint64 weights = spec_get (spec, PS_COST_WEIGHTS, stage, 0);
  gint64 grad = spec_get (spec, PS_COST_GRAD, stage, 0);
  gint64 opt = spec_get (spec, PS_COST_OPT, stage, 0);
  PsStageCost *cost = &costs->stage[stage];

  cost->weight_bytes = weights;
  cost->version_bytes = spec_get (spec, PS_COST_VERSION, stage, weights - grad - opt);
  if (spec->values[PS_COST_GRAD] != NULL || spec->values[PS_COST_OPT] != NULL)
    cost->state
        = (PsStateBytes){ .weight_bytes = weights - grad - opt, .gradient_bytes = grad, .optimizer_bytes = opt };
}

/* The name of a part that is larger than its whole; *whole is the name of the whole. NULL: all fit. */
static const char *
find_misfit (const Spec *spec, guint stage, const char **whole)
{
  gint64 act = spec_get (spec, PS_COST_ACT, stage, 0), weights = spec_get (spec, PS_COST_WEIGHTS, stage, 0);

  *whole = "act";
  if (spec_get (spec, PS_COST_WACT, stage, 0) > act)
    return "wact";
  if (spec_get (spec, PS_COST_KEEP, stage, 0) > act)
    return "keep";
  *whole = "weights";
  return spec_get (spec, PS_COST_GRAD, stage, 0) + spec_get (spec, PS_COST_OPT, stage, 0) > weights ? "grad + opt"
                                                                                                    : NULL;
}

static gboolean
fill_stage (PsCosts *costs, const Spec *spec, guint stage, GError **error)
{
  const char *whole, *part = find_misfit (spec, stage, &whole);
  gint64 act = spec_get (spec, PS_COST_ACT, stage, 0);

  if (part != NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--costs: %s is larger than %s on stage %u", part, whole, stage);
  fill_times (costs, spec, stage);
  fill_boundaries (costs, spec, stage);
  fill_state (costs, spec, stage);
  ps_costs_set_memory (costs, stage, act, spec_get (spec, PS_COST_WACT, stage, act));
  gint64 input = stage > 0 ? spec_get (spec, PS_COST_MSG, stage - 1, 0) : 0;
  ps_costs_op (costs, PS_OP_R, stage)->take_bytes -= spec_get (spec, PS_COST_KEEP, stage, MIN (input, act));
  return TRUE;
}

PsCosts *
ps_costs_parse (const char *text, guint n_devices, guint n_chunks, GError **error)
{
  g_auto (Spec) spec = { .n_devices = n_devices, .n_chunks = n_chunks, .n_stages = n_devices * n_chunks };
  g_auto (GStrv) entries = g_strsplit (text, ",", -1);

  for (guint i = 0; entries[i] != NULL; i++)
    if (!parse_entry (&spec, entries[i], error))
      return NULL;
  if (!spec_is_complete (&spec, error))
    return NULL;
  g_autoptr (PsCosts) costs = ps_costs_new (spec.n_stages);
  g_free (costs->source);
  costs->source = g_strdup ("command line");
  costs->op_ns = spec_get (&spec, PS_COST_OP, 0, 0);
  costs->post_ns = spec_get (&spec, PS_COST_POST, 0, costs->op_ns);
  for (guint stage = 0; stage < spec.n_stages; stage++)
    if (!fill_stage (costs, &spec, stage, error))
      return NULL;
  return g_steal_pointer (&costs);
}

/* The sum of n_microbatches of every entry must stay below 2^62: then no start, end or memory level overflows. */
static gboolean
add_times (gint64 *sum, gint64 value, guint n_microbatches)
{
  gint64 product;

  return value >= 0 && !__builtin_mul_overflow (value, (gint64)n_microbatches, &product)
         && !__builtin_add_overflow (*sum, product, sum) && *sum < ((gint64)1 << 62);
}

static gboolean
add_stage (const PsCosts *costs, guint stage, guint n_microbatches, gint64 *time, gint64 *bytes)
{
  const PsStageCost *cost = &costs->stage[stage];

  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
    {
      const PsOpCost *op = ps_costs_op (costs, (PsOpKind)kind, stage);

      if (!add_times (time, op->duration_ns, n_microbatches) || !add_times (time, costs->op_ns, n_microbatches)
          || !add_times (time, costs->post_ns, 2 * n_microbatches) || !add_times (bytes, op->take_bytes, n_microbatches)
          || !add_times (bytes, MAX (op->give_bytes, -op->give_bytes), n_microbatches))
        return FALSE;
    }
  return add_times (time, MAX (cost->pair_ns, 0), n_microbatches)
         && add_times (time, costs->transfer_ns[ps_transfer_forward (costs, stage)], n_microbatches)
         && add_times (time, costs->transfer_ns[ps_transfer_backward (costs, stage)], n_microbatches)
         && add_times (time, MAX (cost->reduce_ns, cost->reduce2_ns), n_microbatches)
         && add_times (time, MAX (cost->host_ns, 0), n_microbatches)
         && add_times (time, cost->gather_ns, n_microbatches) && add_times (bytes, cost->whole_bytes, n_microbatches)
         && add_times (bytes, costs->message_bytes[ps_transfer_forward (costs, stage)], n_microbatches)
         && add_times (bytes, costs->message_bytes[ps_transfer_backward (costs, stage)], n_microbatches)
         && add_times (bytes, cost->weight_bytes, n_microbatches)
         && add_times (bytes, cost->version_bytes, n_microbatches);
}

gboolean
ps_costs_check (const PsCosts *costs, guint n_microbatches, GError **error)
{
  gint64 time = 0, bytes = 0;

  for (guint stage = 0; stage < costs->n_stages; stage++)
    if (!add_stage (costs, stage, n_microbatches, &time, &bytes))
      return ps_refuse (error, PS_ERROR_USAGE,
                        "%s: costs of stage %u are negative, or too large for exact sums over %u microbatches",
                        costs->source, stage, n_microbatches);
  return TRUE;
}
