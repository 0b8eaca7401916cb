/* sweep-fields.c - what a sweep can vary. */
#include "sweep-private.h"

#include <string.h>

#define PART(member)                                                                                                   \
  {                                                                                                                    \
    offsetof (PsSetting, member), sizeof ((PsSetting *)NULL)->member                                                   \
  }

/* A key of costs by itself. */
#define COST(key, type, unit)                                                                                          \
  {                                                                                                                    \
    "costs." key, type, "cost_" key "_" unit, NULL, PS_KEY_COSTS, FALSE,                                               \
    {                                                                                                                  \
      {                                                                                                                \
        0, 0                                                                                                           \
      }                                                                                                                \
    }                                                                                                                  \
  }
#define COST_TIME(key) COST (key, PS_FIELD_TIME, "ns")
#define COST_SIZE(key) COST (key, PS_FIELD_SIZE, "bytes")

/* Those that much depends on come first and change slowest. */
static const PsField fields[] = {
  { "devices", PS_FIELD_COUNT, NULL, NULL, PS_KEY_PROGRAM, TRUE, { PART (n_devices) } },
  { "chunks", PS_FIELD_COUNT, NULL, "auto", PS_KEY_PROGRAM, TRUE, { PART (n_chunks) } },
  { "model", PS_FIELD_TEXT, "model", NULL, PS_KEY_COSTS | PS_KEY_SOURCE, TRUE, { PART (model) } },
  { "precision", PS_FIELD_TEXT, "precision", NULL, PS_KEY_COSTS | PS_KEY_SOURCE, TRUE, { PART (precision) } },
  { "cluster", PS_FIELD_TEXT, "cluster", NULL, PS_KEY_COSTS, TRUE, { PART (cluster) } },
  { "db", PS_FIELD_TEXT, "db", NULL, PS_KEY_COSTS | PS_KEY_SOURCE, TRUE, { PART (db) } },
  { "profile", PS_FIELD_TEXT, "profile", NULL, PS_KEY_COSTS | PS_KEY_SOURCE, TRUE, { PART (profile) } },
  { "costs", PS_FIELD_TEXT, "costs", NULL, PS_KEY_COSTS, TRUE, { PART (costs) } },
  COST_TIME ("f"),
  COST_TIME ("b"),
  COST_TIME ("w"),
  COST_TIME ("bw"),
  COST_TIME ("c"),
  COST_TIME ("o"),
  COST_TIME ("pair"),
  COST_TIME ("reduce"),
  COST_TIME ("reduce2"),
  COST_TIME ("r"),
  COST_TIME ("host"),
  COST_SIZE ("act"),
  COST_SIZE ("wact"),
  COST_SIZE ("keep"),
  COST_SIZE ("weights"),
  COST_SIZE ("version"),
  COST_SIZE ("grad"),
  COST_SIZE ("opt"),
  COST_SIZE ("msg"),
  { "microbatch-size", PS_FIELD_COUNT, NULL, NULL, PS_KEY_COSTS, FALSE, { PART (microbatch_size) } },
  { "recompute", PS_FIELD_TEXT, "recompute", NULL, PS_KEY_COSTS, TRUE, { PART (recompute) } },
  { "offload", PS_FIELD_FACTOR, "offload", NULL, PS_KEY_COSTS, TRUE, { PART (offload) } },
  { "replicas", PS_FIELD_COUNT, "replicas", NULL, PS_KEY_COSTS, TRUE, { PART (n_replicas) } },
  { "tensor", PS_FIELD_COUNT, "tensor", NULL, PS_KEY_COSTS, TRUE, { PART (n_tensor) } },
  { "zero", PS_FIELD_COUNT, "zero", NULL, PS_KEY_COSTS, TRUE, { PART (zero) } },
  { "bandwidth-factor", PS_FIELD_FACTOR, "bandwidth_factor", NULL, PS_KEY_COSTS, TRUE, { PART (bandwidth_factor) } },
  { "latency-factor", PS_FIELD_FACTOR, "latency_factor", NULL, PS_KEY_COSTS, TRUE, { PART (latency_factor) } },
  { "reduce", PS_FIELD_TEXT, "reduce", NULL, 0, TRUE, { PART (reduce) } },
  { "sync", PS_FIELD_TEXT, "sync", NULL, PS_KEY_LIMIT, TRUE, { PART (sync) } },
  { "comm", PS_FIELD_TEXT, "comm", NULL, 0, TRUE, { PART (comm) } },
  { "eager", PS_FIELD_SIZE, "eager_bytes", NULL, 0, TRUE, { PART (eager_bytes) } },
  { "blocking", PS_FIELD_FLAG, "blocking", NULL, 0, TRUE, { PART (blocking) } },
  { "share-links", PS_FIELD_FLAG, "share_links", NULL, 0, TRUE, { PART (share_links) } },
  { "speed", PS_FIELD_FACTORS, "speed", NULL, 0, TRUE, { PART (speed), PART (n_speeds) } },
  { "overlap-slowdown", PS_FIELD_FACTOR, "overlap_slowdown", NULL, 0, TRUE, { PART (overlap_slowdown) } },
  { "ready-order", PS_FIELD_COUNT, "ready_order", "none", 0, TRUE, { PART (ready_order) } },
  { "comm-order", PS_FIELD_TEXT, "comm_order", NULL, PS_KEY_PROGRAM, TRUE, { PART (comm_order), PART (reorder) } },
  { "placement", PS_FIELD_TEXT, NULL, NULL, PS_KEY_PROGRAM, TRUE, { PART (text) } },
  { "slices", PS_FIELD_COUNT, NULL, "auto", PS_KEY_PROGRAM, TRUE, { PART (n_slices) } },
  { "group", PS_FIELD_COUNT, "group_size", "auto", PS_KEY_PROGRAM, TRUE, { PART (group_size) } },
  { "memory-limit",
    PS_FIELD_SIZE,
    "memory_limit_bytes",
    "none",
    PS_KEY_LIMIT,
    TRUE,
    { PART (memory_limit), PART (n_memory_limits) } },
  { "global-batch", PS_FIELD_COUNT, NULL, NULL, PS_KEY_PROGRAM, FALSE, { { 0, 0 } } },
  { "microbatches", PS_FIELD_COUNT, NULL, NULL, PS_KEY_PROGRAM, TRUE, { PART (n_microbatches) } },
  { "schedule", PS_FIELD_TEXT, NULL, NULL, PS_KEY_PROGRAM, FALSE, { { 0, 0 } } },
};

const PsField *
ps_sweep_field_find (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (fields); i++)
    if (g_str_equal (fields[i].name, name))
      return &fields[i];
  return NULL;
}

char *
ps_sweep_field_names (void)
{
  g_autoptr (GString) names = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (fields); i++)
    g_string_append_printf (names, "%s%s", i ? " " : "", fields[i].name);
  return g_string_free (g_steal_pointer (&names), FALSE);
}

const char *
ps_sweep_field_cost (const PsField *field)
{
  return g_str_has_prefix (field->name, "costs.") ? field->name + strlen ("costs.") : NULL;
}
