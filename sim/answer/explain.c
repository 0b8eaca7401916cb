/* explain.c - critical path, slack and idle time from the times of one simulation; the circle that sets the pace where
 * devices never meet; and the parts that would pay off if they were faster. */
#include "simulate/rounds.h"
#include "simulate/simulate-private.h"

#include <pipesim/answer.h>

#include <math.h>

/* The end of an op, or of the transfer of a step's input. */
typedef struct {
  gint64 end_ns;
  guint32 step;
  gboolean transfer;
} Ending;

typedef struct {
  const PsProgram *program;
  const PsCosts *costs;
  const PsSimulation *simulation;
  gint64 begin_ns;       /* first op's start */
  GArray *endings;       /* of Ending, by time, ops before transfers, ids falling; NULL: not needed so far */
  guint8 *passed;        /* [2 * n_steps] the op or transfer is on the path already */
  const gint64 *host_ns; /* of times that were measured; NULL: they were not */
} Times;

static void times_clear (Times *times)
{
  g_clear_pointer (&times->endings, g_array_unref);
  g_free (times->passed);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Times, times_clear)

static gint64 end_of (const Times *times, guint step)
{
  return times->simulation->end_ns[step + 1];
}

static gint64 start_of (const Times *times, guint step)
{
  return ps_simulation_start (times->program, times->costs, times->simulation, step);
}

static gint64 transfer_start (const Times *times, guint step)
{
  gint64 start_ns, end_ns;

  ps_simulation_transfer (times->program, times->costs, times->simulation, step, &start_ns, &end_ns);
  return start_ns;
}

static gint64 transfer_end (const Times *times, guint step)
{
  gint64 start_ns, end_ns;

  ps_simulation_transfer (times->program, times->costs, times->simulation, step, &start_ns, &end_ns);
  return end_ns;
}

/* The critical path, from its end to its beginning */

static void add_part (GArray *path, PsPathKind kind, guint step, gint64 start_ns, gint64 end_ns)
{
  PsPathPart part = { kind, step, start_ns, end_ns };

  if (end_ns > start_ns)
    g_array_append_val (path, part);
}

static int compare_endings (gconstpointer a, gconstpointer b)
{
  const Ending *x = a, *y = b;

  return x->end_ns != y->end_ns       ? PS_COMPARE (x->end_ns, y->end_ns)
         : x->transfer != y->transfer ? PS_COMPARE (x->transfer, y->transfer)
                                      : PS_COMPARE (y->step, x->step);
}

static void collect_endings (Times *times)
{
  guint n = times->program->n_steps;

  times->endings = g_array_sized_new (FALSE, FALSE, sizeof (Ending), 2 * n);
  for (guint i = 0; i < n; i++) {
    Ending op = { end_of (times, i), i, FALSE };

    g_array_append_val (times->endings, op);
    if (times->program->steps[i].input) {
      Ending transfer = { transfer_end (times, i), i, TRUE };

      g_array_append_val (times->endings, transfer);
    }
  }
  g_array_sort (times->endings, compare_endings);
}

static gboolean touches (const Times *times, const Ending *ending, guint a, guint b)
{
  const PsStep *step = &times->program->steps[ending->step];
  guint from = ending->transfer ? times->program->steps[step->input - 1].device : step->device;

  return from == a || from == b || (ending->transfer && (step->device == a || step->device == b));
}

/* The last ending up to a time on one of two devices; NULL: there is none. */
static const Ending *last_ending (const Times *times, gint64 time_ns, guint a, guint b)
{
  guint i = ps_first_after (times->endings, offsetof (Ending, end_ns), time_ns);

  while (i-- > 0) {
    const Ending *ending = &g_array_index (times->endings, Ending, i);

    if (!times->passed[2 * ending->step + ending->transfer] && touches (times, ending, a, b))
      return ending;
  }
  return NULL;
}

/* Finds the cause of a start at time_ns on devices a and b, if neither the producer nor the op before it ended then:
 * the last ending on those devices. */
static gboolean find_other_cause (Times *times, GArray *path, gint64 time_ns, guint a, guint b, Ending *cause)
{
  if (times->simulation->transfer_end_ns == NULL)
    return FALSE;
  if (times->endings == NULL)
    collect_endings (times);
  const Ending *found = last_ending (times, time_ns, a, b);
  if (found == NULL)
    return FALSE;
  *cause = *found;
  add_part (path, PS_PATH_WAIT, cause->step, cause->end_ns, time_ns);
  return TRUE;
}

/* A measured op starts some time after its cause: the later of the op before it and its transfer. */
static gboolean find_measured_cause (const Times *times, GArray *path, guint step, Ending *cause)
{
  const PsStep *s = &times->program->steps[step];
  gint64 input_ns = s->input ? transfer_end (times, step) : G_MININT64;
  gint64 previous_ns = s->previous ? end_of (times, s->previous - 1) : G_MININT64;

  if (!s->input && !s->previous)
    return FALSE;
  *cause = input_ns > previous_ns ? (Ending){ input_ns, step, TRUE } : (Ending){ previous_ns, s->previous - 1, FALSE };
  add_part (path, PS_PATH_WAIT, step, cause->end_ns, start_of (times, step));
  return TRUE;
}

static gboolean cause_of_op (Times *times, GArray *path, guint step, Ending *cause)
{
  const PsStep *s = &times->program->steps[step];
  gint64 start_ns = start_of (times, step);

  if (s->previous && end_of (times, s->previous - 1) == start_ns)
    *cause = (Ending){ start_ns, s->previous - 1, FALSE };
  else if (s->input && transfer_end (times, step) == start_ns)
    *cause = (Ending){ start_ns, step, TRUE };
  else if (times->host_ns != NULL)
    return find_measured_cause (times, path, step, cause);
  else
    return find_other_cause (times, path, start_ns, s->device, s->device, cause);
  return TRUE;
}

static gboolean cause_of_transfer (Times *times, GArray *path, guint step, Ending *cause)
{
  const PsStep *s = &times->program->steps[step];
  gint64 start_ns = transfer_start (times, step);

  if (end_of (times, s->input - 1) != start_ns && times->host_ns == NULL)
    return find_other_cause (times, path, start_ns, times->program->steps[s->input - 1].device, s->device, cause);
  if (end_of (times, s->input - 1) < start_ns && s->previous && end_of (times, s->previous - 1) == start_ns) {
    *cause = (Ending){ start_ns, s->previous - 1, FALSE }; /* a measured receiver comes late */
    return TRUE;
  }
  *cause = (Ending){ end_of (times, s->input - 1), s->input - 1, FALSE };
  add_part (path, PS_PATH_WAIT, step, cause->end_ns, start_ns);
  return TRUE;
}

static Ending last_op (const Times *times)
{
  const PsSchedule *schedule = times->program->schedule;
  Ending last = { G_MININT64, 0, FALSE };

  for (guint device = 0; device < schedule->placement->n_devices; device++)
    if (schedule->first[device] < schedule->first[device + 1]) {
      guint step = times->program->step_of[schedule->first[device + 1] - 1];

      if (end_of (times, step) > last.end_ns)
        last = (Ending){ end_of (times, step), step, FALSE };
    }
  return last;
}

static void find_path (Times *times, GArray *path)
{
  Ending at = last_op (times);
  gboolean found = TRUE;

  while (found && at.end_ns > times->begin_ns) {
    gint64 start_ns = at.transfer ? transfer_start (times, at.step) : start_of (times, at.step);

    times->passed[2 * at.step + at.transfer] = TRUE;
    add_part (path, at.transfer ? PS_PATH_TRANSFER : PS_PATH_OP, at.step, start_ns, at.end_ns);
    if (start_ns <= times->begin_ns)
      break;
    found = at.transfer ? cause_of_transfer (times, path, at.step, &at) : cause_of_op (times, path, at.step, &at);
  }
  for (guint i = 0, k = path->len; i + 1 < k; i++) {
    PsPathPart *a = &g_array_index (path, PsPathPart, i), *b = &g_array_index (path, PsPathPart, --k), swap = *a;

    *a = *b;
    *b = swap;
  }
}

/* Slack: what a step's end and the longest path after it leave of the time until the last op's end. */
static void find_slack (const Times *times, PsExplanation *explanation)
{
  const PsEventsSetting latency = { 0 };
  gint64 *slack_ns = ps_step_tails (times->program, times->costs, &latency), last_ns = last_op (times).end_ns;

  for (guint i = 0; i < times->program->n_steps; i++)
    slack_ns[i] = last_ns - slack_ns[i] + ps_step_duration (times->program, times->costs, i) - end_of (times, i);
  explanation->slack_ns = slack_ns;
}

/* Idle time */

/* Gives a cause the part of the gap that lies before `until`; the gap then begins there. */
static void give (gint64 *idle_ns, PsIdle idle, gint64 *begin_ns, gint64 until_ns, gint64 end_ns)
{
  gint64 until = MIN (until_ns, end_ns);

  if (until <= *begin_ns)
    return;
  idle_ns[idle] += until - *begin_ns;
  *begin_ns = until;
}

static void explain_gap (const Times *times, guint step, gint64 begin_ns, gint64 *idle_ns)
{
  const PsStep *s = &times->program->steps[step];
  gint64 end_ns = start_of (times, step);

  if (s->input) {
    gboolean forward = ps_program_producer (times->program, step).kind == PS_OP_F;

    give (idle_ns, forward ? PS_IDLE_FORWARD : PS_IDLE_BACKWARD, &begin_ns, end_of (times, s->input - 1), end_ns);
    give (idle_ns, PS_IDLE_CHANNEL, &begin_ns, transfer_start (times, step), end_ns);
    give (idle_ns, PS_IDLE_TRANSFER, &begin_ns, transfer_end (times, step), end_ns);
  }
  if (times->host_ns != NULL)
    give (idle_ns, PS_IDLE_HOST, &begin_ns, begin_ns + times->host_ns[step], end_ns);
  give (idle_ns, times->host_ns != NULL ? PS_IDLE_UNEXPLAINED : PS_IDLE_CHANNEL, &begin_ns, end_ns, end_ns);
}

static int compare_starts (gconstpointer a, gconstpointer b, gpointer data)
{
  const Times *times = data;
  guint x = *(const guint32 *)a, y = *(const guint32 *)b;
  gint64 start_x = start_of (times, x), start_y = start_of (times, y);

  return start_x != start_y ? PS_COMPARE (start_x, start_y) : PS_COMPARE (x, y);
}

/* A device's steps as they ran. That may differ from the schedule's order if it is only a hint. */
static GArray *steps_of (const Times *times, guint device)
{
  const PsProgram *program = times->program;
  const guint *first = program->schedule->first;
  GArray *steps = g_array_new (FALSE, FALSE, sizeof (guint32));

  g_array_append_vals (steps, &program->step_of[first[device]], first[device + 1] - first[device]);
  if (times->simulation->start_ns != NULL)
    g_array_sort_with_data (steps, compare_starts, (gpointer)times);
  return steps;
}

static void explain_device (const Times *times, guint device, gint64 iteration_ns, gint64 *idle_ns)
{
  g_autoptr (GArray) steps = steps_of (times, device);
  gint64 makespan_ns = times->simulation->makespan_ns, clock_ns = times->begin_ns;

  for (guint i = 0; i < steps->len; i++) {
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

static void times_init (Times *times, const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation)
{
  *times = (Times){ .program = program, .costs = costs, .simulation = simulation, .begin_ns = G_MAXINT64 };
  for (guint device = 0; device < simulation->n_devices; device++)
    times->begin_ns = MIN (times->begin_ns, simulation->device[device].start_ns);
  times->passed = g_new0 (guint8, 2 * (gsize)program->n_steps);
}

static PsExplanation *explanation_new (const PsProgram *program)
{
  PsExplanation *explanation = g_new0 (PsExplanation, 1);

  explanation->n_steps = program->n_steps;
  explanation->n_devices = program->schedule->placement->n_devices;
  explanation->path = g_array_new (FALSE, FALSE, sizeof (PsPathPart));
  return explanation;
}

static PsExplanation *explain (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                               gint64 iteration_ns, const gint64 *host_ns)
{
  PsExplanation *explanation = explanation_new (program);
  g_auto (Times) times = { 0 };

  times_init (&times, program, costs, simulation);
  times.host_ns = host_ns;
  explanation->n_iterations = 1;
  explanation->makespan_ns = simulation->makespan_ns;
  explanation->idle_ns = g_new0 (gint64, (gsize)simulation->n_devices * PS_N_IDLE);
  if (simulation->transfer_end_ns == NULL)
    find_slack (&times, explanation);
  find_path (&times, explanation->path);
  for (guint device = 0; device < simulation->n_devices; device++)
    explain_device (&times, device, iteration_ns, &explanation->idle_ns[(gsize)device * PS_N_IDLE]);
  return explanation;
}

PsExplanation *ps_explain (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                           gint64 iteration_ns)
{
  return explain (program, costs, simulation, iteration_ns, NULL);
}

PsExplanation *ps_explain_measured (const PsProgram *program, const PsSimulation *simulation, const gint64 *host_ns,
                                    gint64 iteration_ns)
{
  return explain (program, NULL, simulation, iteration_ns, host_ns);
}

void ps_explanation_free (PsExplanation *explanation)
{
  if (explanation == NULL)
    return;
  g_array_unref (explanation->path);
  g_free (explanation->slack_ns);
  g_free (explanation->idle_ns);
  g_free (explanation);
}

const char *ps_idle_name (PsIdle idle)
{
  static const char *const names[PS_N_IDLE]
      = { "warm_up", "forward", "backward", "transfer", "channel", "drain", "sync", "host", "unexplained" };

  g_return_val_if_fail (idle < PS_N_IDLE, NULL);
  return names[idle];
}

/* Where devices never meet */

PsExplanation *ps_explain_steady (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *events,
                                  PsReduce reduce, GError **error)
{
  static const PsPathKind kinds[] = { [PS_ROUND_OP] = PS_PATH_OP,
                                      [PS_ROUND_TRANSFER] = PS_PATH_TRANSFER,
                                      [PS_ROUND_REDUCE] = PS_PATH_REDUCE,
                                      [PS_ROUND_OPTIMIZER] = PS_PATH_OPTIMIZER };
  g_autoptr (PsRounds) rounds = NULL;
  g_autoptr (GArray) circle = NULL;
  PsExplanation *explanation;

  if (events != NULL && !ps_events_setting_is_fixed (events))
    return ps_refuse_null (
        error, PS_ERROR_SCHEDULE,
        "%s: with shared links, overlap slow-down or ready order no one circle sets the pace; --sync "
        "global can be explained",
        program->schedule->name);
  rounds = ps_rounds_new (program, costs, events, reduce, error);
  if (rounds == NULL)
    return NULL;
  circle = ps_rounds_circle (rounds);
  explanation = explanation_new (program);
  for (guint i = 0; i < circle->len; i++) {
    const PsCircleEvent *at = &g_array_index (circle, PsCircleEvent, i);
    gint64 end_ns = explanation->makespan_ns + at->duration_ns;

    explanation->n_iterations += at->before ? 1 : 0;
    add_part (explanation->path, kinds[at->kind], at->step, explanation->makespan_ns, end_ns);
    explanation->makespan_ns = end_ns;
  }
  return explanation;
}

/* Parts that could be made faster */

char *ps_part_format (const PsPart *part)
{
  switch (part->kind) {
  case PS_PART_KIND:
    return g_strdup (ps_op_kind_name ((PsOpKind)part->a));
  case PS_PART_LINK:
    return g_strdup_printf ("link %u-%u", part->a, part->b);
  default:
    return g_strdup_printf ("%s %u", part->kind == PS_PART_STAGE ? "stage" : "device", part->a);
  }
}

static PsOp op_of (const PsProgram *program, guint step)
{
  return program->schedule->ops[program->op_of[step]];
}

static gboolean has_op (const PsPart *part, const PsProgram *program, guint step)
{
  switch (part->kind) {
  case PS_PART_KIND:
    return op_of (program, step).kind == part->a;
  case PS_PART_STAGE:
    return op_of (program, step).stage == part->a;
  case PS_PART_DEVICE:
    return program->steps[step].device == part->a;
  default:
    return FALSE;
  }
}

gint64 ps_part_of_op (const PsPart *part, const PsProgram *program, const PsCosts *costs, guint step)
{
  __extension__ typedef __int128 Wide; /* the product of two sums of times */
  gint64 whole = ps_step_duration (program, costs, step), a, b, first;

  if (program->pair == NULL || program->pair[step] != PS_PAIR_SECOND)
    return has_op (part, program, step) ? whole : 0;
  a = costs->op[program->steps[step - 1].cost].duration_ns;
  b = costs->op[program->steps[step].cost].duration_ns;
  first = a + b == 0 ? whole / 2 : (gint64)(((Wide)whole * a + (a + b) / 2) / (a + b));
  return (has_op (part, program, step - 1) ? first : 0) + (has_op (part, program, step) ? whole - first : 0);
}

static gint64 transfer_ns_of (const PsProgram *program, const PsCosts *costs, guint step)
{
  return program->steps[step].input != 0 ? costs->transfer_ns[program->steps[step].transfer] : 0;
}

gint64 ps_part_of_transfer (const PsPart *part, const PsProgram *program, const PsCosts *costs, guint step)
{
  const PsStep *s = &program->steps[step];

  if (s->input == 0 || part->kind != PS_PART_LINK)
    return 0;
  guint from = program->steps[s->input - 1].device;
  gboolean same = part->a == MIN (from, s->device) && part->b == MAX (from, s->device);
  return same ? costs->transfer_ns[s->transfer] : 0;
}

/* Whether a device's ops are exactly those of one stage; the stage then stands for it. */
static gboolean is_stage (const PsPlacement *placement, guint device)
{
  guint n_held = 0;

  for (guint i = 0; i < placement->n_stages; i++)
    n_held += placement->device[i] == device;
  return placement->n_copies == 1 && n_held == 1;
}

static void append_part (GArray *parts, PsPartKind kind, guint a, guint b)
{
  PsPart part = { kind, a, b };

  g_array_append_val (parts, part);
}

/* All parts that take any time under these costs, by kind, then a, then b. Free with g_array_unref. */
static GArray *all_parts (const PsProgram *program, const PsCosts *costs)
{
  const PsPlacement *placement = program->schedule->placement;
  guint p = placement->n_devices;
  GArray *parts = g_array_new (FALSE, FALSE, sizeof (PsPart));
  gboolean kinds[PS_N_OP_KINDS] = { FALSE };
  g_autofree gboolean *stages = g_new0 (gboolean, placement->n_stages), *devices = g_new0 (gboolean, p);
  g_autofree guint8 *links = g_new0 (guint8, (gsize)p * p); /* from the lower device to the higher one */

  for (guint i = 0; i < program->n_steps; i++) {
    const PsStep *step = &program->steps[i];
    guint first = program->pair != NULL && program->pair[i] == PS_PAIR_SECOND ? i - 1 : i;

    for (guint k = first; k <= i && ps_step_duration (program, costs, i) > 0; k++)
      kinds[op_of (program, k).kind] = stages[op_of (program, k).stage] = devices[step->device] = TRUE;
    if (transfer_ns_of (program, costs, i) == 0)
      continue;
    guint from = program->steps[step->input - 1].device;
    links[(gsize)MIN (from, step->device) * p + MAX (from, step->device)] = TRUE;
  }
  for (guint i = 0; i < PS_N_OP_KINDS; i++)
    if (kinds[i])
      append_part (parts, PS_PART_KIND, i, 0);
  for (guint i = 0; i < placement->n_stages; i++)
    if (stages[i])
      append_part (parts, PS_PART_STAGE, i, 0);
  for (guint i = 0; i < p; i++)
    if (devices[i] && !is_stage (placement, i))
      append_part (parts, PS_PART_DEVICE, i, 0);
  for (gsize i = 0; i < (gsize)p * p; i++)
    if (links[i])
      append_part (parts, PS_PART_LINK, (guint)(i / p), (guint)(i % p));
  return parts;
}

/* What faster parts save: the iteration runs again for each. */

typedef struct {
  const PsProgram *program;
  const PsCosts *costs;
  PsEventsSetting setting; /* with the times below */
  gint64 *duration_ns;     /* [n_steps] */
  gint64 *transfer_ns;     /* [n_steps] */
  PsRounds *rounds;        /* NULL: devices meet */
  PsEvents *events;        /* NULL: transfers never queue */
  PsSimulation *simulation;
} Engine;

static void engine_clear (Engine *engine)
{
  g_free (engine->duration_ns);
  g_free (engine->transfer_ns);
  ps_rounds_free (engine->rounds);
  ps_events_free (engine->events);
  ps_simulation_free (engine->simulation);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Engine, engine_clear)

static void engine_init (Engine *engine, const PsProgram *program, const PsCosts *costs, const PsEventsSetting *events)
{
  *engine = (Engine){ .program = program, .costs = costs };
  if (events != NULL)
    engine->setting = *events;
  engine->setting.duration_ns = engine->duration_ns = g_new0 (gint64, program->n_steps);
  engine->setting.transfer_ns = engine->transfer_ns = g_new0 (gint64, program->n_steps);
}

/* A time in units of 1 / scale ns, with a share of one part of it saved. */
static gint64 saved (gint64 whole_ns, gint64 part_ns, double saving, gint64 scale)
{
  return whole_ns * scale - llrint (saving * (double)part_ns * (double)scale);
}

/* The makespan or the time of an iteration, in units of 1 / scale ns, with a part (NULL: none) saving. */
static gboolean run (Engine *engine, const PsPart *part, double saving, gint64 scale, gint64 *time, GError **error)
{
  const PsProgram *program = engine->program;
  const PsCosts *costs = engine->costs;

  for (guint i = 0; i < program->n_steps; i++) {
    engine->duration_ns[i] = saved (ps_step_duration (program, costs, i),
                                    part != NULL ? ps_part_of_op (part, program, costs, i) : 0, saving, scale);
    engine->transfer_ns[i] = saved (transfer_ns_of (program, costs, i),
                                    part != NULL ? ps_part_of_transfer (part, program, costs, i) : 0, saving, scale);
  }
  if (engine->rounds != NULL) {
    ps_rounds_set_times (engine->rounds, engine->duration_ns, engine->transfer_ns, NULL);
    *time = ps_rounds_period (engine->rounds).period_ns;
    return TRUE;
  }
  if (engine->events == NULL)
    ps_simulate_steps (program, costs, engine->duration_ns, engine->transfer_ns, engine->simulation);
  else if (!ps_events_run (engine->events, costs, engine->simulation, error))
    return FALSE;
  *time = engine->simulation->makespan_ns;
  return TRUE;
}

/* The length of a path as a function of the saving s of one part: whole - s * part. */
typedef struct {
  double whole;
  double part;
} Line;

static double value_at (Line line, double s)
{
  return line.whole - s * line.part;
}

/* The starts of the last run of the relaxation engine, whose costs do not have its times. */
static void complete_times (const Engine *engine)
{
  PsSimulation *simulation = engine->simulation;
  guint n = engine->program->n_steps;

  ps_simulation_allot_times (simulation);
  for (guint i = 0; i < n; i++) {
    simulation->start_ns[i] = simulation->end_ns[i + 1] - engine->duration_ns[i];
    simulation->transfer_start_ns[i] = simulation->end_ns[engine->program->steps[i].input];
    simulation->transfer_end_ns[i] = simulation->transfer_start_ns[i] + engine->transfer_ns[i];
  }
}

/* That of the path that was critical in the last run. */
static Line critical_line (const Engine *engine, const PsPart *part, gint64 scale)
{
  const PsProgram *program = engine->program;
  const PsCosts *costs = engine->costs;
  g_autoptr (GArray) path = g_array_new (FALSE, FALSE, sizeof (PsPathPart));
  g_auto (Times) times = { 0 };
  Line line = { 0, 0 };

  if (engine->events == NULL)
    complete_times (engine);
  times_init (&times, program, costs, engine->simulation);
  find_path (&times, path);
  for (guint i = 0; i < path->len; i++) {
    const PsPathPart *piece = &g_array_index (path, PsPathPart, i);

    if (piece->kind == PS_PATH_WAIT)
      line.whole += (double)(piece->end_ns - piece->start_ns) / (double)scale;
    else if (piece->kind == PS_PATH_OP)
      line = (Line){ line.whole + (double)ps_step_duration (program, costs, piece->step),
                     line.part + (double)ps_part_of_op (part, program, costs, piece->step) };
    else
      line = (Line){ line.whole + (double)transfer_ns_of (program, costs, piece->step),
                     line.part + (double)ps_part_of_transfer (part, program, costs, piece->step) };
  }
  return line;
}

/* The finest scale that leaves room for the sum of all times and for ops that are slowed down. */
static gint64 fine_scale (const Engine *engine)
{
  double sum = 1;
  gint64 scale = 1 << 20;

  for (guint i = 0; i < engine->program->n_steps; i++)
    sum += (double)ps_step_duration (engine->program, engine->costs, i)
           + (double)transfer_ns_of (engine->program, engine->costs, i);
  while (scale > 1 && sum * (double)scale > 1e18)
    scale /= 2;
  return scale;
}

#define LEAST_SAVING 1e-10 /* below this, rounding decides */

/* Finds the line just beyond 0: the path at a saving so small that it is critical at 0 too. *found: there is one. */
static gboolean line_at_zero (Engine *engine, const PsPart *part, gint64 scale, double tolerance, double makespan_ns,
                              Line *line, gboolean *found, GError **error)
{
  gint64 unused;

  *found = FALSE;
  for (double s = 1.0 / 64; s > LEAST_SAVING && !*found; s /= 16) {
    if (!run (engine, part, s, scale, &unused, error))
      return FALSE;
    *line = critical_line (engine, part, scale);
    *found = line->whole >= makespan_ns - tolerance;
  }
  return TRUE;
}

#define MOST_STEPS 64 /* of the search for a change point; each finds another path */

/* Finds the first corner of the makespan as a function of s; NAN if the search does not end. s begins at 1. It moves
 * down to where the line of the path critical at s meets that of the path critical at 0, until both are the same. */
static gboolean find_change_point (Engine *engine, const PsPart *part, double makespan_ns, double *change_point,
                                   GError **error)
{
  gint64 scale = fine_scale (engine), makespan;
  double s = 1, tolerance = 2.0 * engine->program->n_steps / (double)scale;
  gboolean found;
  Line zero;

  *change_point = NAN;
  if (!line_at_zero (engine, part, scale, tolerance, makespan_ns, &zero, &found, error))
    return FALSE;
  for (guint i = 0; found && i < MOST_STEPS; i++) {
    Line line;

    if (!run (engine, part, s, scale, &makespan, error))
      return FALSE;
    if ((double)makespan / (double)scale <= value_at (zero, s) + tolerance) {
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

PS_DEFINE_ORDER (compare_what_ifs, PsWhatIf, iteration_ns)

static GArray *what_if (Engine *engine, gint64 rest_ns, double saving, guint n_best, GError **error)
{
  g_autoptr (GArray) parts = all_parts (engine->program, engine->costs);
  g_autoptr (GArray) what_ifs = g_array_sized_new (FALSE, TRUE, sizeof (PsWhatIf), parts->len);
  gint64 base_ns, time_ns;

  if (!run (engine, NULL, 0, 1, &base_ns, error))
    return NULL;
  for (guint i = 0; i < parts->len; i++) {
    PsWhatIf saves = { .part = g_array_index (parts, PsPart, i), .change_point = NAN };

    if (!run (engine, &saves.part, saving, 1, &time_ns, error))
      return NULL;
    saves.iteration_ns = time_ns + rest_ns;
    saves.gain = (double)(base_ns - time_ns) / (double)(base_ns + rest_ns);
    g_array_append_val (what_ifs, saves);
  }
  g_array_sort (what_ifs, compare_what_ifs);
  g_array_set_size (what_ifs, MIN (what_ifs->len, n_best));
  for (guint i = 0; i < what_ifs->len; i++) {
    PsWhatIf *saves = &g_array_index (what_ifs, PsWhatIf, i);

    if (!run (engine, &saves->part, 1, 1, &time_ns, error))
      return NULL;
    saves->least_ns = time_ns + rest_ns;
    if (engine->rounds == NULL && engine->setting.speed == NULL && ps_events_setting_is_fixed (&engine->setting)
        && !find_change_point (engine, &saves->part, (double)base_ns, &saves->change_point, error))
      return NULL;
  }
  return g_steal_pointer (&what_ifs);
}

GArray *ps_what_if (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *events, gint64 rest_ns,
                    double saving, guint n_best, GError **error)
{
  g_auto (Engine) engine = { 0 };

  g_return_val_if_fail (saving > 0 && saving <= 1, NULL);
  engine_init (&engine, program, costs, events);
  engine.simulation = ps_simulation_new (program);
  engine.simulation->times_only = TRUE;
  if (events != NULL)
    engine.events = ps_events_new (program, costs, &engine.setting, error);
  return events == NULL || engine.events != NULL ? what_if (&engine, rest_ns, saving, n_best, error) : NULL;
}

GArray *ps_what_if_steady (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *events,
                           PsReduce reduce, double saving, guint n_best, GError **error)
{
  g_auto (Engine) engine = { 0 };

  g_return_val_if_fail (saving > 0 && saving <= 1, NULL);
  engine_init (&engine, program, costs, events);
  engine.rounds = ps_rounds_new (program, costs, &engine.setting, reduce, error);
  return engine.rounds != NULL ? what_if (&engine, 0, saving, n_best, error) : NULL;
}
