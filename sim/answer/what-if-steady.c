/* what-if-steady.c - savings of faster parts where devices never meet. Each circle of waiting that is found for one
 * part bounds the iteration time with every other part faster, so most parts need no search of their own. */
#include "what-if-private.h"

#include <math.h>

/* The iteration time with a saving on one part; until it is known, a lower bound on it. */
typedef struct
{
  gint64 time_ns;
  gboolean known;
} Answer;

typedef struct
{
  const PsRecurrence *recurrence;
  const PsCosts *costs;
  PsReduce reduce;
  PsEventsSetting setting;
  PsEvents *events;         /* NULL unless devices differ in speed */
  PsSimulation *simulation; /* NULL unless devices differ in speed */
  gint64 *duration_ns;      /* [n_steps] of setting */
  gint64 *transfer_ns;
  GArray *parts;
  double saving;
  gint64 base_ns;  /* without any saving */
  Answer *answers; /* [n parts] with `saving` of their time saved */
  Answer *leasts;  /* [n parts] with all their time saved */
} Steady;

static void
steady_clear (Steady *steady)
{
  ps_events_free (steady->events);
  ps_simulation_free (steady->simulation);
  g_free (steady->duration_ns);
  g_free (steady->transfer_ns);
  g_clear_pointer (&steady->parts, g_array_unref);
  g_free (steady->answers);
  g_free (steady->leasts);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Steady, steady_clear)

static gboolean
steady_init (Steady *steady, const PsEventsSetting *events, GError **error)
{
  const PsProgram *program = steady->recurrence->program;

  steady->setting = *events;
  steady->setting.duration_ns = steady->duration_ns = g_new0 (gint64, program->n_steps);
  steady->setting.transfer_ns = steady->transfer_ns = g_new0 (gint64, program->n_steps);
  steady->parts = ps_parts (steady->recurrence, steady->costs);
  steady->answers = g_new0 (Answer, steady->parts->len);
  steady->leasts = g_new0 (Answer, steady->parts->len);
  if (events->speed == NULL)
    return TRUE;
  steady->simulation = ps_simulation_new (program);
  steady->simulation->times_only = TRUE;
  steady->events = ps_events_new (program, steady->costs, &steady->setting, error);
  return steady->events != NULL;
}

/* The ops and transfers of a circle, and its time without any saving. */
typedef struct
{
  guint *n_ops;       /* [n_op_classes] */
  guint *n_transfers; /* [n_transfer_classes] */
  gint64 total_ns;
  gint64 n_iterations;
} Circle;

static void
circle_clear (Circle *circle)
{
  g_free (circle->n_ops);
  g_free (circle->n_transfers);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Circle, circle_clear)

static void
circle_init (Circle *circle, const Steady *steady, const PsExplanation *explanation)
{
  const PsRecurrence *recurrence = steady->recurrence;

  *circle = (Circle){ .n_ops = g_new0 (guint, recurrence->n_op_classes),
                      .n_transfers = g_new0 (guint, recurrence->n_transfer_classes),
                      .n_iterations = MAX (explanation->n_iterations, 1) };
  for (guint i = 0; i < explanation->path->len; i++)
    {
      const PsPathPart *part = &g_array_index (explanation->path, PsPathPart, i);
      const PsScenarioStep *step = &recurrence->steps[part->step];

      if (part->kind == PS_PATH_OP)
        circle->n_ops[step->op]++;
      else if (part->kind == PS_PATH_TRANSFER)
        circle->n_transfers[step->transfer]++;
      else
        circle->total_ns += part->end_ns - part->start_ns;
    }
  for (guint i = 1; i < recurrence->n_op_classes; i++)
    circle->total_ns += circle->n_ops[i] * ps_op_class_duration (&recurrence->op[i], steady->costs);
  for (guint i = 1; i < recurrence->n_transfer_classes; i++)
    circle->total_ns += circle->n_transfers[i] * ps_transfer_class_duration (&recurrence->transfer[i], steady->costs);
}

static gint64
per_iteration (gint64 total_ns, gint64 n_iterations)
{
  return (2 * total_ns + n_iterations) / (2 * n_iterations);
}

static gint64
circle_time (const Circle *circle, const Steady *steady, const PsPart *part, double saving)
{
  const PsRecurrence *recurrence = steady->recurrence;
  gint64 total_ns = circle->total_ns;

  for (guint i = 1; i < recurrence->n_op_classes; i++)
    if (circle->n_ops[i] > 0)
      total_ns -= circle->n_ops[i] * llrint (saving * (double)ps_part_of_op (part, &recurrence->op[i], steady->costs));
  for (guint i = 1; i < recurrence->n_transfer_classes; i++)
    if (circle->n_transfers[i] > 0)
      total_ns -= circle->n_transfers[i]
                  * llrint (saving * (double)ps_part_of_transfer (part, &recurrence->transfer[i], steady->costs));
  return per_iteration (total_ns, circle->n_iterations);
}

/* Raises a lower bound to a circle's time. No saving makes the iteration longer, so a bound of base_ns is the
 * answer. */
static void
raise_answer (const Steady *steady, Answer *answer, gint64 time_ns)
{
  if (!answer->known)
    *answer = (Answer){ MAX (answer->time_ns, time_ns), time_ns >= steady->base_ns };
}

/* Raises all bounds. Circles have the times of the costs, so they say nothing if devices differ in speed. */
static void
raise_all (const Steady *steady, const PsExplanation *explanation)
{
  g_auto (Circle) circle = { 0 };

  if (steady->events != NULL)
    return;
  circle_init (&circle, steady, explanation);
  for (guint i = 0; i < steady->parts->len; i++)
    {
      const PsPart *part = &g_array_index (steady->parts, PsPart, i);

      raise_answer (steady, &steady->answers[i], circle_time (&circle, steady, part, steady->saving));
      raise_answer (steady, &steady->leasts[i], circle_time (&circle, steady, part, 1));
    }
}

/* Finds the iteration time with a saving on one part (NULL: none). */
static gboolean
find_time (Steady *steady, const PsPart *part, double saving, gint64 *time_ns, GError **error)
{
  const PsProgram *program = steady->recurrence->program;
  g_autoptr (PsExplanation) explanation = NULL;

  ps_what_if_times (steady->recurrence, steady->costs, part, saving, 1, steady->duration_ns, steady->transfer_ns);
  if (steady->events != NULL && !ps_events_run (steady->events, steady->costs, steady->simulation, error))
    return FALSE;
  explanation = ps_explain_steady (program, steady->costs, steady->simulation, &steady->setting, steady->reduce, error);
  if (explanation == NULL)
    return FALSE;
  *time_ns = per_iteration (explanation->makespan_ns, MAX (explanation->n_iterations, 1));
  if (part == NULL)
    steady->base_ns = *time_ns;
  raise_all (steady, explanation);
  return TRUE;
}

static gboolean
find_answer (Steady *steady, Answer *answers, guint i, double saving, GError **error)
{
  Answer answer = { .known = TRUE };

  if (answers[i].known)
    return TRUE;
  if (!find_time (steady, &g_array_index (steady->parts, PsPart, i), saving, &answer.time_ns, error))
    return FALSE;
  answers[i] = answer;
  return TRUE;
}

/* The part that may save most among those whose time is not known; G_MAXUINT: n_best others are certain to save
 * more. */
static guint
most_promising (const Steady *steady, guint n_best)
{
  const Answer *answers = steady->answers;
  guint best = G_MAXUINT, n_before = 0;

  for (guint i = 0; i < steady->parts->len; i++)
    if (!answers[i].known && (best == G_MAXUINT || answers[i].time_ns < answers[best].time_ns))
      best = i;
  for (guint i = 0; i < steady->parts->len && best != G_MAXUINT; i++)
    n_before
        += answers[i].known
           && (answers[i].time_ns < answers[best].time_ns || (answers[i].time_ns == answers[best].time_ns && i < best));
  return n_before < n_best ? best : G_MAXUINT;
}

static GArray *
rank (const Steady *steady, guint n_best)
{
  g_autofree gint64 *time_ns = g_new (gint64, steady->parts->len + 1);

  for (guint i = 0; i < steady->parts->len; i++)
    time_ns[i] = steady->answers[i].time_ns;
  return ps_what_if_rank (steady->parts, time_ns, steady->base_ns, 0, n_best);
}

static gboolean
complete (Steady *steady, PsWhatIf *what_if, GError **error)
{
  const PsPart *parts = (const PsPart *)(gpointer)steady->parts->data;
  guint i = 0;

  while (parts[i].kind != what_if->part.kind || parts[i].a != what_if->part.a || parts[i].b != what_if->part.b)
    i++;
  if (!find_answer (steady, steady->leasts, i, 1, error))
    return FALSE;
  what_if->least_ns = steady->leasts[i].time_ns;
  what_if->change_point = NAN;
  return TRUE;
}

GArray *
ps_what_if_steady (const PsRecurrence *recurrence, const PsCosts *costs, const PsEventsSetting *events, PsReduce reduce,
                   double saving, guint n_best, GError **error)
{
  static const PsEventsSetting latency = { .comm = PS_CHANNEL_LATENCY };
  g_auto (Steady) steady = { .recurrence = recurrence, .costs = costs, .reduce = reduce, .saving = saving };
  g_autoptr (GArray) what_ifs = NULL;
  guint next;

  g_return_val_if_fail (saving > 0 && saving <= 1, NULL);
  if (!steady_init (&steady, events != NULL ? events : &latency, error)
      || !find_time (&steady, NULL, 0, &steady.base_ns, error))
    return NULL;
  while ((next = most_promising (&steady, n_best)) != G_MAXUINT)
    if (!find_answer (&steady, steady.answers, next, saving, error))
      return NULL;
  what_ifs = rank (&steady, n_best);
  for (guint i = 0; i < what_ifs->len; i++)
    if (!complete (&steady, &g_array_index (what_ifs, PsWhatIf, i), error))
      return NULL;
  return g_steal_pointer (&what_ifs);
}
