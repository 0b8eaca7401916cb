/* what-if-events.c - savings of faster parts where transfers queue: one run of the events engine per part. */
#include "what-if-private.h"

#include <math.h>

#define MOST_STEPS 64 /* steps of the search for a change point; each finds another path */

typedef struct
{
  const PsRecurrence *recurrence;
  const PsCosts *costs;
  PsEventsSetting setting;
  PsEvents *events;
  PsSimulation *simulation;
  gint64 *duration_ns; /* [n_steps] durations that the engine reads */
  gint64 *transfer_ns;
} Engine;

static void
engine_clear (Engine *engine)
{
  ps_events_free (engine->events);
  ps_simulation_free (engine->simulation);
  g_free (engine->duration_ns);
  g_free (engine->transfer_ns);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Engine, engine_clear)

static gboolean
engine_init (Engine *engine, const PsRecurrence *recurrence, const PsCosts *costs, const PsEventsSetting *events,
             GError **error)
{
  *engine = (Engine){ .recurrence = recurrence, .costs = costs, .setting = *events };
  engine->setting.duration_ns = engine->duration_ns = g_new0 (gint64, recurrence->n_steps);
  engine->setting.transfer_ns = engine->transfer_ns = g_new0 (gint64, recurrence->n_steps);
  engine->simulation = ps_simulation_new (recurrence->program);
  engine->simulation->times_only = TRUE;
  engine->events = ps_events_new (recurrence->program, costs, &engine->setting, error);
  return engine->events != NULL;
}

/* A time in units of 1 / scale ns, with a share of one part of it saved. */
static gint64
saved (gint64 whole_ns, gint64 part_ns, double saving, gint64 scale)
{
  return whole_ns * scale - llrint (saving * (double)part_ns * (double)scale);
}

static gint64
op_part (const PsPart *part, const PsOpClass *op, const PsCosts *costs)
{
  return part != NULL ? ps_part_of_op (part, op, costs) : 0;
}

static gint64
transfer_part (const PsPart *part, const PsTransferClass *transfer, const PsCosts *costs)
{
  return part != NULL ? ps_part_of_transfer (part, transfer, costs) : 0;
}

void
ps_what_if_times (const PsRecurrence *recurrence, const PsCosts *costs, const PsPart *part, double saving, gint64 scale,
                  gint64 *duration, gint64 *transfer)
{
  g_autofree gint64 *op_class = g_new0 (gint64, recurrence->n_op_classes);
  g_autofree gint64 *transfer_class = g_new0 (gint64, recurrence->n_transfer_classes);

  for (guint i = 1; i < recurrence->n_op_classes; i++)
    op_class[i] = saved (ps_op_class_duration (&recurrence->op[i], costs), op_part (part, &recurrence->op[i], costs),
                         saving, scale);
  for (guint i = 1; i < recurrence->n_transfer_classes; i++)
    transfer_class[i] = saved (ps_transfer_class_duration (&recurrence->transfer[i], costs),
                               transfer_part (part, &recurrence->transfer[i], costs), saving, scale);
  for (guint i = 0; i < recurrence->n_steps; i++)
    {
      duration[i] = op_class[recurrence->steps[i].op];
      transfer[i] = transfer_class[recurrence->steps[i].transfer];
    }
}

/* The makespan, in units of 1 / scale ns, with a part (NULL: none) saving. */
static gboolean
run (Engine *engine, const PsPart *part, double saving, gint64 scale, gint64 *makespan, GError **error)
{
  ps_what_if_times (engine->recurrence, engine->costs, part, saving, scale, engine->duration_ns, engine->transfer_ns);
  if (!ps_events_run (engine->events, engine->costs, engine->simulation, error))
    return FALSE;
  *makespan = engine->simulation->makespan_ns;
  return TRUE;
}

/* Length whole - s * part, as in what-if.c, of the path that was critical in the last run. */
typedef struct
{
  double whole;
  double part;
} Line;

static Line
critical_line (const Engine *engine, const PsPart *part, gint64 scale)
{
  const PsRecurrence *recurrence = engine->recurrence;
  const PsSimulation *simulation = engine->simulation;
  g_autoptr (PsExplanation) explanation
      = ps_explain (recurrence->program, engine->costs, simulation, simulation->makespan_ns);
  Line line = { 0, 0 };

  for (guint i = 0; i < explanation->path->len; i++)
    {
      const PsPathPart *piece = &g_array_index (explanation->path, PsPathPart, i);
      const PsScenarioStep *step = &recurrence->steps[piece->step];
      const PsOpClass *op = &recurrence->op[step->op];
      const PsTransferClass *transfer = &recurrence->transfer[step->transfer];

      if (piece->kind == PS_PATH_WAIT)
        line.whole += (double)(piece->end_ns - piece->start_ns) / (double)scale;
      else if (piece->kind == PS_PATH_OP)
        line = (Line){ line.whole + (double)ps_op_class_duration (op, engine->costs),
                       line.part + (double)ps_part_of_op (part, op, engine->costs) };
      else
        line = (Line){ line.whole + (double)ps_transfer_class_duration (transfer, engine->costs),
                       line.part + (double)ps_part_of_transfer (part, transfer, engine->costs) };
    }
  return line;
}

static double
value_at (Line line, double s)
{
  return line.whole - s * line.part;
}

/* The finest scale that leaves room for the sum of all times and for ops that are slowed down. */
static gint64
fine_scale (const PsRecurrence *recurrence, const PsCosts *costs)
{
  double sum = 1;
  gint64 scale = 1 << 20;

  for (guint i = 0; i < recurrence->n_steps; i++)
    {
      const PsScenarioStep *step = &recurrence->steps[i];

      sum += step->op ? (double)ps_op_class_duration (&recurrence->op[step->op], costs) : 0;
      sum += step->transfer ? (double)ps_transfer_class_duration (&recurrence->transfer[step->transfer], costs) : 0;
    }
  while (scale > 1 && sum * (double)scale > 1e18)
    scale /= 2;
  return scale;
}

#define LEAST_SAVING 1e-10 /* below this, rounding decides */

/* Finds the line just beyond 0: the path at a saving so small that it is critical at 0 too. *found: there is one. */
static gboolean
line_at_zero (Engine *engine, const PsPart *part, gint64 scale, double tolerance, double makespan_ns, Line *line,
              gboolean *found, GError **error)
{
  gint64 unused;

  *found = FALSE;
  for (double s = 1.0 / 64; s > LEAST_SAVING && !*found; s /= 16)
    {
      if (!run (engine, part, s, scale, &unused, error))
        return FALSE;
      *line = critical_line (engine, part, scale);
      *found = line->whole >= makespan_ns - tolerance;
    }
  return TRUE;
}

/* Finds the change point; NAN if the search does not end. */
static gboolean
find_change_point (Engine *engine, const PsPart *part, double makespan_ns, double *change_point, GError **error)
{
  gint64 scale = fine_scale (engine->recurrence, engine->costs), makespan;
  double s = 1, tolerance = 2.0 * engine->recurrence->n_steps / (double)scale;
  gboolean found;
  Line zero;

  *change_point = NAN;
  if (!line_at_zero (engine, part, scale, tolerance, makespan_ns, &zero, &found, error))
    return FALSE;
  for (guint i = 0; found && i < MOST_STEPS; i++)
    {
      Line line;

      if (!run (engine, part, s, scale, &makespan, error))
        return FALSE;
      if ((double)makespan / (double)scale <= value_at (zero, s) + tolerance)
        {
          *change_point = s;
          return TRUE;
        }
      line = critical_line (engine, part, scale);
      if (line.part >= zero.part || (zero.whole - line.whole) / (zero.part - line.part) >= s)
        return TRUE;
      s = (zero.whole - line.whole) / (zero.part - line.part);
    }
  return TRUE;
}

static gboolean
is_sum (const Engine *engine)
{
  return engine->setting.speed == NULL && ps_events_setting_is_fixed (&engine->setting);
}

static gboolean
complete (Engine *engine, gint64 base_ns, gint64 rest_ns, PsWhatIf *what_if, GError **error)
{
  gint64 least_ns;

  if (!run (engine, &what_if->part, 1, 1, &least_ns, error))
    return FALSE;
  what_if->least_ns = least_ns + rest_ns;
  what_if->change_point = NAN;
  return !is_sum (engine) || find_change_point (engine, &what_if->part, (double)base_ns, &what_if->change_point, error);
}

static GArray *
evaluate (Engine *engine, gint64 rest_ns, double saving, guint n_best, GError **error)
{
  g_autoptr (GArray) parts = ps_parts (engine->recurrence, engine->costs), what_ifs = NULL;
  g_autofree gint64 *time_ns = g_new0 (gint64, parts->len + 1);
  gint64 base_ns;

  if (!run (engine, NULL, 0, 1, &base_ns, error))
    return NULL;
  for (guint i = 0; i < parts->len; i++)
    if (!run (engine, &g_array_index (parts, PsPart, i), saving, 1, &time_ns[i], error))
      return NULL;
  what_ifs = ps_what_if_rank (parts, time_ns, base_ns, rest_ns, n_best);
  for (guint i = 0; i < what_ifs->len; i++)
    if (!complete (engine, base_ns, rest_ns, &g_array_index (what_ifs, PsWhatIf, i), error))
      return NULL;
  return g_steal_pointer (&what_ifs);
}

GArray *
ps_what_if_events (const PsRecurrence *recurrence, const PsCosts *costs, const PsEventsSetting *events, gint64 rest_ns,
                   double saving, guint n_best, GError **error)
{
  g_auto (Engine) engine = { 0 };

  g_return_val_if_fail (saving > 0 && saving <= 1, NULL);
  return engine_init (&engine, recurrence, costs, events, error) ? evaluate (&engine, rest_ns, saving, n_best, error)
                                                                 : NULL;
}
