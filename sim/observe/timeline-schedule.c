/* timeline-schedule.c - the schedule that a timeline shows. */
#include <pipesim/timeline.h>

#define NOWHERE G_MAXUINT16

/* The devices that hold the stages. A microbatch whose stages lie elsewhere than those of microbatch 0 uses a second
 * copy of the weights. */
typedef struct
{
  guint n_stages;
  guint n_copies;
  guint16 *device; /* [2 * n_stages] */
  guint8 *copy;    /* [n_microbatches] */
} Map;

static void
map_clear (Map *map)
{
  g_free (map->device);
  g_free (map->copy);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Map, map_clear)

static gboolean
is_part (const PsSpan *span)
{
  return span->op.kind != PS_OP_O;
}

/* The device of every (stage, microbatch): [stage * n_microbatches + microbatch]. */
static guint16 *
devices_of (const PsTimeline *timeline)
{
  gsize n = (gsize)timeline->n_stages * timeline->n_microbatches;
  guint16 *device = g_new (guint16, n);

  for (gsize i = 0; i < n; i++)
    device[i] = NOWHERE;
  for (guint i = 0; i < timeline->ops->len; i++)
    {
      const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

      if (is_part (span))
        device[(gsize)span->op.stage * timeline->n_microbatches + span->op.microbatch] = span->device;
    }
  return device;
}

static gboolean
map_stages (Map *map, const PsTimeline *timeline, GError **error)
{
  guint m = timeline->n_microbatches;
  g_autofree guint16 *device = devices_of (timeline);

  for (guint stage = 0; stage < map->n_stages; stage++)
    for (guint microbatch = 0; microbatch < m; microbatch++)
      {
        guint16 at = device[(gsize)stage * m + microbatch];

        if (at == NOWHERE)
          return ps_refuse (error, PS_ERROR_INPUT, "the timeline has no op of stage %u and microbatch %u", stage,
                            microbatch);
        if (microbatch == 0)
          map->device[stage] = at;
        if (at != map->device[stage])
          map->copy[microbatch] = 1;
        if (map->copy[microbatch] == 1)
          map->n_copies = 2;
      }
  for (guint microbatch = 0; microbatch < m; microbatch++)
    for (guint stage = 0; stage < map->n_stages && map->copy[microbatch] == 1; stage++)
      map->device[map->n_stages + stage] = device[(gsize)stage * m + microbatch];
  return TRUE;
}

PsSchedule *
ps_timeline_schedule (const PsTimeline *timeline, GError **error)
{
  g_auto (Map) map = { .n_stages = timeline->n_stages, .n_copies = 1 };
  g_autoptr (PsSchedule) schedule = NULL;
  guint next = 0;

  map.device = g_new0 (guint16, 2 * (gsize)map.n_stages);
  map.copy = g_new0 (guint8, timeline->n_microbatches);
  if (!map_stages (&map, timeline, error))
    return NULL;
  PsScheduleBuilder *builder = ps_schedule_builder_new (
      timeline->schedule, ps_placement_new_custom (timeline->n_devices, map.n_stages, map.n_copies, map.device),
      timeline->n_microbatches);
  for (guint device = 0; device < timeline->n_devices; device++)
    {
      for (; next < timeline->ops->len && g_array_index (timeline->ops, PsSpan, next).device == device; next++)
        if (is_part (&g_array_index (timeline->ops, PsSpan, next)))
          ps_schedule_builder_add_op (builder, g_array_index (timeline->ops, PsSpan, next).op);
      ps_schedule_builder_next_device (builder);
    }
  schedule = ps_schedule_builder_end (builder);
  schedule->n_slices = ps_timeline_n_slices (timeline);
  if (map.n_copies > 1)
    schedule->copy = g_steal_pointer (&map.copy);
  return ps_schedule_validate (schedule, error) ? g_steal_pointer (&schedule) : NULL;
}
