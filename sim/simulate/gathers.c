/* gathers.c - when weights are gathered, and how long they are whole. */
#include "gathers.h"
#include "program/weight-window.h"

#define WINDOW (PS_WEIGHT_WINDOW + 1)

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

/* The windows of a device's cells, found from the end; that of a pair is at its first op. */
static void find_windows (const PsSchedule *schedule, guint device, PsWeightWindow *windows)
{
  guint first = schedule->first[device];
  PsWeightWindow window = { 0 };

  for (guint next = schedule->first[device + 1], place; next > first; next = place) {
    place = ps_weight_window_back (&window, schedule, first, next);
    windows[place - first] = window;
  }
}

static PsGather *gather_at (const PsGathers *gathers, guint index)
{
  return &g_array_index (gathers->gather, PsGather, index);
}

/* The place of a stage in `open`, which has the index + 1 of each gather whose weights are there; WINDOW: it has none.
 */
static guint find_open (const PsGathers *gathers, const guint *open, guint stage)
{
  guint i = 0;

  while (i < WINDOW && (open[i] == 0 || gather_at (gathers, open[i] - 1)->stage != stage))
    i++;
  return i;
}

/* Drops the stages that leave the window, and gathers those that come in. */
static void change_window (PsGathers *gathers, guint *open, const PsWeightWindow *window, guint place)
{
  guint n = ps_weight_window_size (window), free = 0;

  for (guint i = 0; i < WINDOW; i++)
    if (open[i] > 0 && !ps_weight_window_holds (window->stage, n, gather_at (gathers, open[i] - 1)->stage)) {
      gather_at (gathers, open[i] - 1)->until = place;
      open[i] = 0;
    }
  for (guint k = 0; k < n; k++)
    if (find_open (gathers, open, window->stage[k]) == WINDOW) {
      const PsGather gather = { .place = place, .stage = window->stage[k] };

      while (open[free] > 0)
        free++;
      g_array_append_val (gathers->gather, gather);
      open[free] = gathers->gather->len;
    }
}

static void add_device (PsGathers *gathers, const PsSchedule *schedule, guint device)
{
  const PsWeightWindow none = { 0 };
  guint first = schedule->first[device], last = schedule->first[device + 1], n;
  g_autofree PsWeightWindow *windows = g_new0 (PsWeightWindow, last - first + 1);
  guint open[WINDOW] = { 0 };

  find_windows (schedule, device, windows);
  for (guint place = first; place < last; place += n) {
    n = cell_size (schedule, place);
    change_window (gathers, open, &windows[place - first], place);
    for (guint i = place; i < place + n; i++)
      gathers->of[i] = open[find_open (gathers, open, schedule->ops[i].stage)] - 1;
  }
  change_window (gathers, open, &none, last);
}

void ps_gathers_init (PsGathers *gathers, const PsProgram *program)
{
  guint n = program->schedule->placement->n_devices;

  gathers->n_devices = n;
  gathers->first = g_new (guint, n + 1);
  gathers->gather = g_array_new (FALSE, FALSE, sizeof (PsGather));
  gathers->of = g_new (guint32, ps_schedule_n_ops (program->schedule) + 1);
  gathers->next = g_new (guint, n);
  gathers->channel_ns = g_new0 (gint64, n);
  for (guint d = 0; d < n; d++) {
    gathers->first[d] = gathers->next[d] = gathers->gather->len;
    add_device (gathers, program->schedule, d);
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
