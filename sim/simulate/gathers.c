/* gathers.c - when weights are gathered, and how long they are whole. */
#include "gathers.h"
#include "program/weight-window.h"

void ps_gathers_clear (PsGathers *gathers)
{
  g_free (gathers->first);
  g_clear_pointer (&gathers->gather, g_array_unref);
  g_free (gathers->of);
  g_free (gathers->next);
  g_free (gathers->channel_ns);
}
static guint cell_size (const PsSchedule *schedule, guint place)
{
  return schedule->ops[place].paired ? 2 : 1;
}

static PsGather *gather_at (const PsGathers *gathers, guint index)
{
  return &g_array_index (gathers->gather, PsGather, index);
}

/* The gathers of a device while they are found. */
typedef struct {
  PsGathers *gathers;
  guint32 *last; /* [n_stages] the last gather of each stage */
  guint place;   /* of the cell that the device has come to */
} Finder;

static void note_action (gpointer data, guint stage, gboolean gathers)
{
  const Finder *finder = data;
  const PsGather gather = { .place = finder->place, .stage = (guint16)stage };

  if (!gathers) {
    gather_at (finder->gathers, finder->last[stage])->until = finder->place;
    return;
  }
  finder->last[stage] = finder->gathers->gather->len;
  g_array_append_val (finder->gathers->gather, gather);
}

static void add_device (Finder *finder, const PsSchedule *schedule, guint device)
{
  guint first = schedule->first[device], last = schedule->first[device + 1], n;
  g_autofree PsWeightWindow *windows = ps_weight_windows (schedule, device);
  PsGathered gathered = { 0 };

  for (finder->place = first; finder->place < last; finder->place += n) {
    n = cell_size (schedule, finder->place);
    ps_gathered_change (&gathered, &windows[finder->place - first], note_action, finder);
    for (guint i = finder->place; i < finder->place + n; i++)
      finder->gathers->of[i] = finder->last[schedule->ops[i].stage];
  }
  ps_gathered_change (&gathered, &windows[last - first], note_action, finder);
}

void ps_gathers_init (PsGathers *gathers, const PsProgram *program)
{
  guint n = program->schedule->placement->n_devices;
  g_autofree guint32 *last = g_new0 (guint32, program->schedule->placement->n_stages);
  Finder finder = { .gathers = gathers, .last = last };

  gathers->n_devices = n;
  gathers->first = g_new (guint, n + 1);
  gathers->gather = g_array_new (FALSE, FALSE, sizeof (PsGather));
  gathers->of = g_new (guint32, ps_schedule_n_ops (program->schedule) + 1);
  gathers->next = g_new (guint, n);
  gathers->channel_ns = g_new0 (gint64, n);
  for (guint d = 0; d < n; d++) {
    gathers->first[d] = gathers->next[d] = gathers->gather->len;
    add_device (&finder, program->schedule, d);
  }
  gathers->first[n] = gathers->gather->len;
}

gint64 ps_gathers_wait (PsGathers *gathers, const PsProgram *program, const PsCosts *costs, guint device, guint place,
                        gint64 before_ns)
{
  guint n = cell_size (program->schedule, place), *next = &gathers->next[device];
  gint64 ready_ns = before_ns, *channel_ns = &gathers->channel_ns[device];

  for (; *next < gathers->first[device + 1] && gather_at (gathers, *next)->place <= place; ++*next) {
    PsGather *gather = gather_at (gathers, *next);

    gather->start_ns = MAX (*channel_ns, before_ns);
    *channel_ns = gather->end_ns = gather->start_ns + costs->stage[gather->stage].gather_ns;
  }
  for (guint i = place; i < place + n; i++)
    ready_ns = MAX (ready_ns, gather_at (gathers, gathers->of[i])->end_ns);
  return ready_ns;
}

GArray *ps_gathers_whole_weights (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation)
{
  const PsSchedule *schedule = program->schedule;
  GArray *held = g_array_new (FALSE, FALSE, sizeof (PsWholeWeights));
  g_auto (PsGathers) gathers = { 0 };

  ps_gathers_init (&gathers, program);
  for (guint d = 0; d < gathers.n_devices; d++) {
    gint64 before_ns = 0;

    for (guint place = schedule->first[d], n; place < schedule->first[d + 1]; place += n) {
      n = cell_size (schedule, place);
      ps_gathers_wait (&gathers, program, costs, d, place, before_ns);
      before_ns = simulation->end_ns[program->step_of[place + n - 1] + 1];
    }
    for (guint i = gathers.first[d]; i < gathers.first[d + 1]; i++) {
      const PsGather *gather = gather_at (&gathers, i);
      const PsWholeWeights whole = { d, costs->stage[gather->stage].whole_bytes, gather->start_ns,
                                     simulation->end_ns[program->step_of[gather->until - 1] + 1] };

      g_array_append_val (held, whole);
    }
  }
  return held;
}
