/* explain.c - critical path, slack and idle time from the times of one simulation. */
#include <pipesim/answer.h>

/* The end of an op, or of the transfer of a step's input. */
typedef struct
{
  gint64 end_ns;
  guint32 step;
  gboolean transfer;
} Ending;

typedef struct
{
  const PsProgram *program;
  const PsCosts *costs;
  const PsSimulation *simulation;
  gint64 begin_ns;       /* first op's start */
  GArray *endings;       /* of Ending, by time, ops before transfers, ids falling; only where transfers queue */
  guint8 *passed;        /* [2 * n_steps] the op or transfer is on the path already */
  const gint64 *host_ns; /* of times that were measured; NULL: they were not */
} Times;

static void
times_clear (Times *times)
{
  g_clear_pointer (&times->endings, g_array_unref);
  g_free (times->passed);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Times, times_clear)

static gint64
end_of (const Times *times, guint step)
{
  return times->simulation->end_ns[step + 1];
}

static gint64
start_of (const Times *times, guint step)
{
  return ps_simulation_start (times->program, times->costs, times->simulation, step);
}

static gint64
transfer_start (const Times *times, guint step)
{
  gint64 start_ns, end_ns;

  ps_simulation_transfer (times->program, times->costs, times->simulation, step, &start_ns, &end_ns);
  return start_ns;
}

static gint64
transfer_end (const Times *times, guint step)
{
  gint64 start_ns, end_ns;

  ps_simulation_transfer (times->program, times->costs, times->simulation, step, &start_ns, &end_ns);
  return end_ns;
}

/* The critical path, from its end to its beginning */

static void
prepend (PsExplanation *explanation, PsPathKind kind, guint step, gint64 start_ns, gint64 end_ns)
{
  PsPathPart part = { kind, step, start_ns, end_ns };

  if (end_ns > start_ns)
    g_array_append_val (explanation->path, part);
}

static int
compare_endings (gconstpointer a, gconstpointer b)
{
  const Ending *x = a, *y = b;

  return x->end_ns != y->end_ns       ? PS_COMPARE (x->end_ns, y->end_ns)
         : x->transfer != y->transfer ? PS_COMPARE (x->transfer, y->transfer)
                                      : PS_COMPARE (y->step, x->step);
}

static void
collect_endings (Times *times)
{
  guint n = times->program->n_steps;

  times->endings = g_array_sized_new (FALSE, FALSE, sizeof (Ending), 2 * n);
  for (guint i = 0; i < n; i++)
    {
      Ending op = { end_of (times, i), i, FALSE };

      g_array_append_val (times->endings, op);
      if (times->program->steps[i].input)
        {
          Ending transfer = { transfer_end (times, i), i, TRUE };

          g_array_append_val (times->endings, transfer);
        }
    }
  g_array_sort (times->endings, compare_endings);
}

static gboolean
touches (const Times *times, const Ending *ending, guint a, guint b)
{
  const PsStep *step = &times->program->steps[ending->step];
  guint from = ending->transfer ? times->program->steps[step->input - 1].device : step->device;

  return from == a || from == b || (ending->transfer && (step->device == a || step->device == b));
}

/* The last ending up to a time on one of two devices; NULL: there is none. */
static const Ending *
last_ending (const Times *times, gint64 time_ns, guint a, guint b)
{
  guint i = ps_first_after (times->endings, offsetof (Ending, end_ns), time_ns);

  while (i-- > 0)
    {
      const Ending *ending = &g_array_index (times->endings, Ending, i);

      if (!times->passed[2 * ending->step + ending->transfer] && touches (times, ending, a, b))
        return ending;
    }
  return NULL;
}

/* Finds the cause of a start at time_ns on devices a and b, if neither the producer nor the op before it ended then:
 * the last ending on those devices. */
static gboolean
find_other_cause (const Times *times, PsExplanation *explanation, gint64 time_ns, guint a, guint b, Ending *cause)
{
  const Ending *found = times->endings != NULL ? last_ending (times, time_ns, a, b) : NULL;

  if (found == NULL)
    return FALSE;
  *cause = *found;
  prepend (explanation, PS_PATH_WAIT, cause->step, cause->end_ns, time_ns);
  return TRUE;
}

/* A measured op starts some time after its cause: the later of the op before it and its transfer. */
static gboolean
find_measured_cause (const Times *times, PsExplanation *explanation, guint step, Ending *cause)
{
  const PsStep *s = &times->program->steps[step];
  gint64 input_ns = s->input ? transfer_end (times, step) : G_MININT64;
  gint64 previous_ns = s->previous ? end_of (times, s->previous - 1) : G_MININT64;

  if (!s->input && !s->previous)
    return FALSE;
  *cause = input_ns > previous_ns ? (Ending){ input_ns, step, TRUE } : (Ending){ previous_ns, s->previous - 1, FALSE };
  prepend (explanation, PS_PATH_WAIT, step, cause->end_ns, start_of (times, step));
  return TRUE;
}

static gboolean
cause_of_op (const Times *times, PsExplanation *explanation, guint step, Ending *cause)
{
  const PsStep *s = &times->program->steps[step];
  gint64 start_ns = start_of (times, step);

  if (s->previous && end_of (times, s->previous - 1) == start_ns)
    *cause = (Ending){ start_ns, s->previous - 1, FALSE };
  else if (s->input && transfer_end (times, step) == start_ns)
    *cause = (Ending){ start_ns, step, TRUE };
  else if (times->host_ns != NULL)
    return find_measured_cause (times, explanation, step, cause);
  else
    return find_other_cause (times, explanation, start_ns, s->device, s->device, cause);
  return TRUE;
}

static gboolean
cause_of_transfer (const Times *times, PsExplanation *explanation, guint step, Ending *cause)
{
  const PsStep *s = &times->program->steps[step];
  gint64 start_ns = transfer_start (times, step);

  if (end_of (times, s->input - 1) != start_ns && times->host_ns == NULL)
    return find_other_cause (times, explanation, start_ns, times->program->steps[s->input - 1].device, s->device,
                             cause);
  *cause = (Ending){ end_of (times, s->input - 1), s->input - 1, FALSE };
  prepend (explanation, PS_PATH_WAIT, step, cause->end_ns, start_ns);
  return TRUE;
}

static Ending
last_op (const Times *times)
{
  const PsSchedule *schedule = times->program->schedule;
  Ending last = { G_MININT64, 0, FALSE };

  for (guint device = 0; device < schedule->placement->n_devices; device++)
    if (schedule->first[device] < schedule->first[device + 1])
      {
        guint step = times->program->step_of[schedule->first[device + 1] - 1];

        if (end_of (times, step) > last.end_ns)
          last = (Ending){ end_of (times, step), step, FALSE };
      }
  return last;
}

static void
reverse (GArray *parts)
{
  for (guint i = 0; i < parts->len / 2; i++)
    {
      PsPathPart *a = &g_array_index (parts, PsPathPart, i);
      PsPathPart *b = &g_array_index (parts, PsPathPart, parts->len - 1 - i);
      PsPathPart swap = *a;

      *a = *b;
      *b = swap;
    }
}

static void
find_path (Times *times, PsExplanation *explanation)
{
  Ending at = last_op (times);
  gboolean found = TRUE;

  while (found && at.end_ns > times->begin_ns)
    {
      gint64 start_ns = at.transfer ? transfer_start (times, at.step) : start_of (times, at.step);

      times->passed[2 * at.step + at.transfer] = TRUE;
      prepend (explanation, at.transfer ? PS_PATH_TRANSFER : PS_PATH_OP, at.step, start_ns, at.end_ns);
      if (start_ns <= times->begin_ns)
        break;
      found = at.transfer ? cause_of_transfer (times, explanation, at.step, &at)
                          : cause_of_op (times, explanation, at.step, &at);
    }
  reverse (explanation->path);
}

/* Slack: how late each op may end at most, from the last op to the first. */
static void
find_slack (const Times *times, PsExplanation *explanation)
{
  const PsProgram *program = times->program;
  gint64 *late = g_new (gint64, program->n_steps);
  gint64 last_ns = last_op (times).end_ns;

  for (guint i = 0; i < program->n_steps; i++)
    late[i] = last_ns;
  for (guint i = program->n_steps; i-- > 0;)
    {
      const PsStep *step = &program->steps[i];
      gint64 start_ns = late[i] - ps_step_duration (program, times->costs, i);

      if (step->previous)
        late[step->previous - 1] = MIN (late[step->previous - 1], start_ns);
      if (step->input)
        late[step->input - 1] = MIN (late[step->input - 1], start_ns - times->costs->transfer_ns[step->transfer]);
    }
  for (guint i = 0; i < program->n_steps; i++)
    late[i] -= end_of (times, i);
  explanation->slack_ns = late;
}

/* Idle time */

/* Gives a cause the part of the gap that lies before `until`; the gap then begins there. */
static void
give (gint64 *idle_ns, PsIdle idle, gint64 *begin_ns, gint64 until_ns, gint64 end_ns)
{
  gint64 until = MIN (until_ns, end_ns);

  if (until <= *begin_ns)
    return;
  idle_ns[idle] += until - *begin_ns;
  *begin_ns = until;
}

static void
explain_gap (const Times *times, guint step, gint64 begin_ns, gint64 *idle_ns)
{
  const PsStep *s = &times->program->steps[step];
  gint64 end_ns = start_of (times, step);

  if (s->input)
    {
      gboolean forward = ps_program_producer (times->program, step).kind == PS_OP_F;

      give (idle_ns, forward ? PS_IDLE_FORWARD : PS_IDLE_BACKWARD, &begin_ns, end_of (times, s->input - 1), end_ns);
      give (idle_ns, PS_IDLE_CHANNEL, &begin_ns, transfer_start (times, step), end_ns);
      give (idle_ns, PS_IDLE_TRANSFER, &begin_ns, transfer_end (times, step), end_ns);
    }
  if (times->host_ns != NULL)
    give (idle_ns, PS_IDLE_HOST, &begin_ns, begin_ns + times->host_ns[step], end_ns);
  give (idle_ns, times->host_ns != NULL ? PS_IDLE_UNEXPLAINED : PS_IDLE_CHANNEL, &begin_ns, end_ns, end_ns);
}

static int
compare_starts (gconstpointer a, gconstpointer b, gpointer data)
{
  const Times *times = data;
  guint x = *(const guint32 *)a, y = *(const guint32 *)b;
  gint64 start_x = start_of (times, x), start_y = start_of (times, y);

  return start_x != start_y ? PS_COMPARE (start_x, start_y) : PS_COMPARE (x, y);
}

/* A device's steps as they ran. That may differ from the schedule's order if it is only a hint. */
static GArray *
steps_of (const Times *times, guint device)
{
  const PsProgram *program = times->program;
  const guint *first = program->schedule->first;
  GArray *steps = g_array_new (FALSE, FALSE, sizeof (guint32));

  g_array_append_vals (steps, &program->step_of[first[device]], first[device + 1] - first[device]);
  if (times->simulation->start_ns != NULL)
    g_array_sort_with_data (steps, compare_starts, (gpointer)times);
  return steps;
}

static void
explain_device (const Times *times, guint device, gint64 iteration_ns, gint64 *idle_ns)
{
  g_autoptr (GArray) steps = steps_of (times, device);
  gint64 makespan_ns = times->simulation->makespan_ns, clock_ns = times->begin_ns;

  for (guint i = 0; i < steps->len; i++)
    {
      guint step = g_array_index (steps, guint32, i);

      if (i == 0)
        give (idle_ns, PS_IDLE_WARM_UP, &clock_ns, start_of (times, step), G_MAXINT64);
      else if (clock_ns < start_of (times, step))
        explain_gap (times, step, clock_ns, idle_ns);
      clock_ns = end_of (times, step);
    }
  idle_ns[PS_IDLE_HOST] += times->simulation->device[device].host_ns;
  idle_ns[PS_IDLE_DRAIN] = times->begin_ns + makespan_ns - clock_ns;
  idle_ns[PS_IDLE_SYNC] = iteration_ns - makespan_ns - times->simulation->device[device].optimizer_ns;
}

static gint64
first_start (const PsSimulation *simulation)
{
  gint64 first = G_MAXINT64;

  for (guint device = 0; device < simulation->n_devices; device++)
    first = MIN (first, simulation->device[device].start_ns);
  return first;
}

static PsExplanation *
explain (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation, gint64 iteration_ns,
         const gint64 *host_ns)
{
  PsExplanation *explanation = g_new0 (PsExplanation, 1);
  g_auto (Times) times = { .program = program, .costs = costs, .simulation = simulation, .host_ns = host_ns };

  explanation->n_steps = program->n_steps;
  explanation->n_devices = simulation->n_devices;
  explanation->n_iterations = 1;
  explanation->makespan_ns = simulation->makespan_ns;
  explanation->path = g_array_new (FALSE, FALSE, sizeof (PsPathPart));
  explanation->idle_ns = g_new0 (gint64, (gsize)simulation->n_devices * PS_N_IDLE);
  times.begin_ns = first_start (simulation);
  times.passed = g_new0 (guint8, 2 * (gsize)program->n_steps);
  if (simulation->transfer_end_ns == NULL)
    find_slack (&times, explanation);
  else if (host_ns == NULL)
    collect_endings (&times);
  find_path (&times, explanation);
  for (guint device = 0; device < simulation->n_devices; device++)
    explain_device (&times, device, iteration_ns, &explanation->idle_ns[(gsize)device * PS_N_IDLE]);
  return explanation;
}

PsExplanation *
ps_explain (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation, gint64 iteration_ns)
{
  return explain (program, costs, simulation, iteration_ns, NULL);
}

PsExplanation *
ps_explain_measured (const PsProgram *program, const PsSimulation *simulation, const gint64 *host_ns,
                     gint64 iteration_ns)
{
  return explain (program, NULL, simulation, iteration_ns, host_ns);
}

void
ps_explanation_free (PsExplanation *explanation)
{
  if (explanation == NULL)
    return;
  g_array_unref (explanation->path);
  g_free (explanation->slack_ns);
  g_free (explanation->idle_ns);
  g_free (explanation);
}

const char *
ps_idle_name (PsIdle idle)
{
  static const char *const names[PS_N_IDLE]
      = { "warm_up", "forward", "backward", "transfer", "channel", "drain", "sync", "host", "unexplained" };

  g_return_val_if_fail (idle < PS_N_IDLE, NULL);
  return names[idle];
}
