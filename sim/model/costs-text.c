/* costs-text.c - costs from the command line: KEY=VALUE,... */
#include <pipesim/costs.h>

#include <string.h>

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
