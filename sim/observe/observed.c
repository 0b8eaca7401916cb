/* observed.c - reads what runs left on disk, timelines and logs of timers, collects their samples, and makes costs of
 * them. */
#include "timeline-private.h"

#include <pipesim/observe.h>

#include <math.h>
#include <string.h>

/* The lists of PsObserved, and how many there are of each: so many times the stages, and so many more. */
static const struct {
  gsize offset;
  guint times;
  guint more;
} lists[] = {
  { offsetof (PsObserved, op), PS_N_OP_KINDS, 0 },
  { offsetof (PsObserved, warm), PS_N_OP_KINDS, 0 },
  { offsetof (PsObserved, cold), PS_N_OP_KINDS, 0 },
  { offsetof (PsObserved, take), PS_N_OP_KINDS, 0 },
  { offsetof (PsObserved, give), PS_N_OP_KINDS, 0 },
  { offsetof (PsObserved, state), 1, 0 },
  { offsetof (PsObserved, pair), 1, 0 },
  { offsetof (PsObserved, transfer), 2, 1 },
};

static GArray ***list_at (PsObserved *observed, guint i)
{
  return (GArray ***)(gpointer)((char *)observed + lists[i].offset);
}

static guint list_length (const PsObserved *observed, guint i)
{
  return lists[i].times * observed->n_stages + lists[i].more;
}

static GArray *new_samples (void)
{
  return g_array_new (FALSE, FALSE, sizeof (gint64));
}

PsObserved *ps_observed_new (void)
{
  PsObserved *observed = g_new0 (PsObserved, 1);

  observed->host = new_samples ();
  observed->message = new_samples ();
  observed->send = new_samples ();
  observed->receive = new_samples ();
  observed->source = g_string_new (NULL);
  return observed;
}

static gboolean set_stages (PsObserved *observed, const char *where, guint n_stages, GError **error)
{
  if (observed->n_stages == 0) {
    observed->n_stages = n_stages;
    observed->estimated = g_new0 (guint, n_stages);
    for (guint i = 0; i < G_N_ELEMENTS (lists); i++) {
      GArray **list = *list_at (observed, i) = g_new (GArray *, list_length (observed, i));

      for (guint k = 0; k < list_length (observed, i); k++)
        list[k] = new_samples ();
    }
  }
  return n_stages == observed->n_stages
         || ps_refuse (error, PS_ERROR_INPUT, "%s: a run of %u stages, after %s of %u", where, n_stages,
                       observed->source->str, observed->n_stages);
}

void ps_observed_free (PsObserved *observed)
{
  if (observed == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (lists) && observed->n_stages > 0; i++) {
    for (guint k = 0; k < list_length (observed, i); k++)
      g_array_unref ((*list_at (observed, i))[k]);
    g_free (*list_at (observed, i));
  }
  g_array_unref (observed->host);
  g_array_unref (observed->message);
  g_array_unref (observed->send);
  g_array_unref (observed->receive);
  g_string_free (observed->source, TRUE);
  g_free (observed->estimated);
  g_free (observed->model_name);
  g_free (observed->links);
  g_free (observed);
}

/* Times of one timeline */

/* One result, from its op to the device that needs it. */
typedef struct {
  gint64 made_ns;    /* its op has ended; -1: not seen, as the next two */
  gint64 sent_ns;    /* its send is posted */
  gint64 arrived_ns; /* at the device that needs it */
  guint device;      /* its op's */
} Result;

typedef struct {
  PsObserved *observed;
  const PsTimeline *timeline;
  guint n_slices;
  Result *results;
} Reader;

static Result *result_of (const Reader *reader, PsOp op)
{
  const PsTimeline *timeline = reader->timeline;
  gsize cell = ((gsize)op.stage * timeline->n_microbatches + op.microbatch) * reader->n_slices + op.slice;

  return &reader->results[2 * cell + (op.kind != PS_OP_F)];
}

/* When the results were made, and when their messages were sent and arrived, as records of their own tell. */
static void note_results (Reader *reader)
{
  const PsTimeline *timeline = reader->timeline;

  reader->n_slices = ps_timeline_n_slices (timeline);
  gsize n = 2 * (gsize)timeline->n_stages * timeline->n_microbatches * reader->n_slices;
  reader->results = g_new (Result, n);
  for (gsize i = 0; i < n; i++)
    reader->results[i] = (Result){ -1, -1, -1, 0 };
  for (guint i = 0; i < timeline->ops->len; i++) {
    const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

    if (!timeline->apart && (span->op.kind == PS_OP_F || ps_op_is_backward (span->op)))
      *result_of (reader, span->op) = (Result){ span->end_ns, span->end_ns, -1, span->device };
  }
  for (guint i = 0; i < timeline->posts->len; i++) {
    const PsSpan *post = &g_array_index (timeline->posts, PsSpan, i);

    if (post->post == PS_INSTRUCTION_SEND)
      result_of (reader, post->op)->sent_ns = post->end_ns;
  }
  for (guint i = 0; i < timeline->transfers->len; i++) {
    const PsSpan *transfer = &g_array_index (timeline->transfers, PsSpan, i);

    result_of (reader, transfer->op)->arrived_ns = transfer->end_ns;
  }
}

static void add_transfer (PsObserved *observed, PsOp producer, gint64 ns)
{
  g_array_append_val (observed->transfer[1 + (producer.kind != PS_OP_F) * observed->n_stages + producer.stage], ns);
}

static void observe_messages (const Reader *reader)
{
  const PsTimeline *timeline = reader->timeline;
  PsObserved *observed = reader->observed;

  for (guint i = 0; i < timeline->posts->len; i++) {
    const PsSpan *post = &g_array_index (timeline->posts, PsSpan, i);
    gint64 ns = post->end_ns - post->start_ns;

    g_array_append_val (post->post == PS_INSTRUCTION_SEND ? observed->send : observed->receive, ns);
  }
  for (guint i = 0; i < timeline->transfers->len; i++) {
    const PsSpan *transfer = &g_array_index (timeline->transfers, PsSpan, i);

    add_transfer (observed, transfer->op, transfer->end_ns - transfer->start_ns);
  }
  for (guint i = 0; timeline->transfers->len == 0 && i < timeline->waits->len; i++) {
    const PsSpan *wait = &g_array_index (timeline->waits, PsSpan, i);
    const Result *result = result_of (reader, wait->op);
    gint64 ns = wait->end_ns - result->sent_ns;

    if (result->made_ns >= 0 && result->device != wait->device && wait->start_ns < result->sent_ns && ns >= 0)
      add_transfer (observed, wait->op, ns);
  }
}

/* The gap between two ops. Where no posts are known they are part of it. With one message it is the host time of an op
 * and of a message. With two it says nothing, because the op waits for either. */
static void observe_gap (const Reader *reader, const PsSpan *previous, const PsSpan *span, guint *post, guint *wait)
{
  const PsTimeline *timeline = reader->timeline;
  const Result *input = NULL, *output = NULL;
  gboolean posts_known = timeline->posts->len > 0, waits_known = timeline->waits->len > 0;
  PsOp producer, consumer = previous->op;
  gint64 begin_ns = previous->end_ns, ns;
  guint stage;

  if (ps_op_input (span->op, timeline->n_stages, &producer))
    input = result_of (reader, producer);
  if (input != NULL && (input->made_ns < 0 || input->device == span->device))
    input = NULL; /* no other device makes it */
  if (ps_op_output (previous->op, timeline->n_stages, &stage)) {
    consumer.stage = (guint16)stage;
    output = result_of (reader, consumer);
  }
  gboolean sent = output != NULL && output->made_ns >= 0 && output->device != previous->device;
  guint n_messages = posts_known ? 0 : sent + (input != NULL);
  if (input != NULL && !waits_known)
    begin_ns = MAX (begin_ns, input->arrived_ns);
  ns = span->start_ns - begin_ns - ps_spans_cover (timeline->posts, post, span->device, begin_ns, span->start_ns)
       - ps_spans_cover (timeline->waits, wait, span->device, begin_ns, span->start_ns);
  if (n_messages > 1 || (input != NULL && !waits_known && input->arrived_ns < 0))
    return;
  ns = MAX (ns, 0);
  g_array_append_val (n_messages == 1 ? reader->observed->message : reader->observed->host, ns);
}

/* The gap before a pair has the host times of both its ops; O has none. */
static gboolean is_plain (const PsSpan *span, const PsSpan *before)
{
  return !span->op.paired && span->op.kind != PS_OP_O
         && (before == NULL || !before->op.paired || before->device != span->device);
}

static void observe_op (const Reader *reader, const PsSpan *span, const PsSpan *before, guint n)
{
  PsObserved *observed = reader->observed;
  gint64 ns = (span->end_ns - span->start_ns) * reader->n_slices;
  guint f = n == 2 && span[0].op.kind != PS_OP_F;

  if (n == 2)
    g_array_append_val (observed->pair[span[f].op.stage], ns);
  else if (span->op.kind == PS_OP_O)
    g_array_append_val (observed->op[PS_OP_O * observed->n_stages + span->op.stage],
                        (gint64){ span->end_ns - span->start_ns });
  else {
    guint cell = span->op.kind * observed->n_stages + span->op.stage;
    gboolean warm = before != NULL && !before->op.paired && ps_op_is_warm (before->op, span->op);

    g_array_append_val (observed->op[cell], ns);
    g_array_append_val (warm ? observed->warm[cell] : observed->cold[cell], ns);
  }
}

static void observe_ops (const Reader *reader)
{
  const GArray *ops = reader->timeline->ops;
  guint post = 0, wait = 0, n;

  for (guint i = 0; i < ops->len; i += n) {
    const PsSpan *span = &g_array_index (ops, PsSpan, i);

    n = span->op.paired && i + 1 < ops->len && span[1].device == span->device ? 2 : 1;
    observe_op (reader, span, i > 0 && span[-1].device == span->device ? span - 1 : NULL, n);
    if (i > 0 && span[-1].device == span->device && is_plain (span, NULL)
        && is_plain (&span[-1], i > 1 ? &span[-2] : NULL))
      observe_gap (reader, &span[-1], span, &post, &wait);
  }
}

/* Memory of one timeline */

/* Goes along the curve of one device. */
typedef struct {
  const GArray *points;
  guint next;   /* the first point that was not passed */
  gint64 level; /* the bytes held before it */
} Curve;

static const PsMemoryPoint *next_point (const Curve *curve, guint device)
{
  const PsMemoryPoint *point
      = curve->next < curve->points->len ? &g_array_index (curve->points, PsMemoryPoint, curve->next) : NULL;

  return point != NULL && point->device == device ? point : NULL;
}

/* Passes the points up to that instant; returns the highest level until then. */
static gint64 pass (Curve *curve, guint device, gint64 until_ns)
{
  gint64 highest = curve->level;
  const PsMemoryPoint *point;

  while ((point = next_point (curve, device)) != NULL && point->time_ns <= until_ns) {
    curve->level = point->bytes;
    highest = MAX (highest, point->bytes);
    curve->next++;
  }
  return highest;
}

/* Until the first op a device holds its stages' weights, gradients and optimizer state, in equal parts. */
static void begin_device (PsObserved *observed, const GArray *ops, guint first, Curve *curve)
{
  guint device = g_array_index (ops, PsSpan, first).device, n_chunks = 0, end = first;

  while (curve->next < curve->points->len && g_array_index (curve->points, PsMemoryPoint, curve->next).device < device)
    curve->next++;
  curve->level = 0;
  if (next_point (curve, device) != NULL)
    curve->level = g_array_index (curve->points, PsMemoryPoint, curve->next++).bytes;
  for (; end < ops->len && g_array_index (ops, PsSpan, end).device == device; end++)
    n_chunks = MAX (n_chunks, g_array_index (ops, PsSpan, end).chunk + 1U);
  gint64 part = curve->level / n_chunks;
  for (guint i = first; i < end; i++)
    g_array_append_val (observed->state[g_array_index (ops, PsSpan, i).op.stage], part);
}

static void observe_memory (PsObserved *observed, const PsTimeline *timeline)
{
  const GArray *ops = timeline->ops;
  Curve curve = { .points = timeline->memory };

  if (timeline->origin != PS_ORIGIN_MEASURED || timeline->memory->len == 0)
    return;
  for (guint i = 0; i < ops->len; i++) {
    const PsSpan *span = &g_array_index (ops, PsSpan, i);
    guint cell = span->op.kind * observed->n_stages + span->op.stage;

    if (i == 0 || span[-1].device != span->device)
      begin_device (observed, ops, i, &curve);
    gint64 before = curve.level, peak = pass (&curve, span->device, span->end_ns);
    gint64 take = peak - before, give = peak - curve.level;
    if (span->op.paired)
      continue;
    g_array_append_val (observed->take[cell], take);
    g_array_append_val (observed->give[cell], give);
  }
}

gboolean ps_observed_add (PsObserved *observed, const char *where, GPtrArray *timelines, GError **error)
{
  for (guint i = 0; i < timelines->len; i++) {
    const PsTimeline *timeline = timelines->pdata[i];
    Reader reader = { .observed = observed, .timeline = timeline };

    if (!set_stages (observed, where, timeline->n_stages, error))
      return FALSE;
    observed->n_devices = timeline->n_devices;
    observed->origin = MAX (observed->origin, timeline->origin);
    observed->apart |= timeline->apart;
    note_results (&reader);
    observe_ops (&reader);
    observe_messages (&reader);
    observe_memory (observed, timeline);
    g_free (reader.results);
  }
  observed->n_iterations += timelines->len;
  g_string_append_printf (
      observed->source, "%s%s, %u iteration%s%s", observed->source->len > 0 ? "; " : "", where, timelines->len,
      timelines->len == 1 ? "" : "s",
      timelines->len > 0 && ((const PsTimeline *)timelines->pdata[0])->apart ? ", ranks recorded apart" : "");
  return TRUE;
}

/* Samples from the log of Megatron-LM's timers. Launchers may put a word before each of its lines. */

/* Values of arguments that are no number. */
#define MISSING (-2)
#define OTHER (-1)

enum { WORLD, PIPELINE, DATA, MICRO, GLOBAL, VIRTUAL, RAMP_UP, OUTSIDE, N_ARGUMENTS };

static const char *const arguments[N_ARGUMENTS]
    = { "world_size",        "pipeline_model_parallel_size",         "data_parallel_size", "micro_batch_size",
        "global_batch_size", "virtual_pipeline_model_parallel_size", "rampup_batch_size",  "use_tp_pp_dp_mapping" };

static const char *const timers[] = { "forward-compute", "backward-compute" }; /* F and BW */
#define N_TIMERS G_N_ELEMENTS (timers)

typedef struct {
  PsObserved *observed;
  const char *where;
  gint64 argument[N_ARGUMENTS];
  guint p;
  guint v;
  guint m;
  double *ms;              /* [timer * p + device] sum over the ranks of a device; NULL: no timers yet */
  gint64 n_read[N_TIMERS]; /* ranks, which come in order */
  guint timer;             /* of the ranks that follow; N_TIMERS: another one */
  guint n_intervals;
} TimerLog;

/* Arguments */

/* "NAME ..... VALUE". None and False count as 0. */
static gboolean read_argument (TimerLog *reader, const char *body, GError **error)
{
  for (guint i = 0; i < N_ARGUMENTS; i++) {
    guint64 number = 0;
    gint64 said = OTHER;

    if (!g_str_has_prefix (body, arguments[i]) || !g_str_has_prefix (body + strlen (arguments[i]), " ."))
      continue;
    body = strrchr (body, ' ') + 1;
    if (g_str_equal (body, "None") || g_str_equal (body, "False")
        || g_ascii_string_to_unsigned (body, 10, 0, G_MAXINT32, &number, NULL))
      said = (gint64)number;
    if (reader->argument[i] != MISSING && reader->argument[i] != said)
      return ps_refuse (error, PS_ERROR_INPUT, "%s: holds runs of different %s; the log of one run would be right",
                        reader->where, arguments[i]);
    reader->argument[i] = said;
    break;
  }
  return TRUE;
}

static gboolean take_arguments (TimerLog *reader, GError **error)
{
  const gint64 *a = reader->argument;
  gint64 v = a[VIRTUAL] == MISSING || a[VIRTUAL] == 0 ? 1 : a[VIRTUAL];

  for (guint i = 0; i < VIRTUAL; i++)
    if (a[i] >= 0 && a[i] < 1)
      return ps_refuse (error, PS_ERROR_INPUT, "%s: %s is 0; 1 or more would be right", reader->where, arguments[i]);
    else if (a[i] < 1)
      return ps_refuse (error, PS_ERROR_INPUT,
                        "%s: no %s among arguments before the timers; a log from the run's start on would be right",
                        reader->where, arguments[i]);
  if (a[RAMP_UP] != MISSING && a[RAMP_UP] != 0)
    return ps_refuse (error, PS_ERROR_INPUT,
                      "%s: with rampup_batch_size the number of microbatches changes; a run without would be right",
                      reader->where);
  if (a[PIPELINE] > PS_MAX_DEVICES || v < 1 || v > PS_MAX_STAGES / a[PIPELINE]
      || a[WORLD] % (a[PIPELINE] * a[DATA]) != 0 || a[GLOBAL] % (a[MICRO] * a[DATA]) != 0
      || a[GLOBAL] / (a[MICRO] * a[DATA]) > PS_MAX_MICROBATCHES)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: world, batch and parallel sizes among the arguments fit no pipeline",
                      reader->where);
  reader->p = (guint)a[PIPELINE];
  reader->v = (guint)v;
  reader->m = (guint)(a[GLOBAL] / (a[MICRO] * a[DATA]));
  reader->ms = g_new (double, (gsize)N_TIMERS * reader->p);
  return set_stages (reader->observed, reader->where, reader->p * reader->v, error);
}

/* Intervals */

/* Takes an interval that has all ranks, in place of the first one, which warms up. Each of a device's stages takes the
 * mean over them, its ranks and microbatches; that is an estimate if it has several. */
static void end_interval (TimerLog *reader)
{
  PsObserved *observed = reader->observed;
  gint64 world = reader->argument[WORLD];
  double n_ops = (double)world / reader->p * reader->m * reader->v;

  if (reader->n_read[0] < world || reader->n_read[1] < world)
    return;
  reader->n_intervals++;
  for (guint i = 0; i < N_TIMERS * observed->n_stages; i++) {
    guint timer = i / observed->n_stages, stage = i % observed->n_stages;
    PsOpKind kind = timer == 0 ? PS_OP_F : PS_OP_BW;
    GArray *samples = observed->op[kind * observed->n_stages + stage];
    gint64 ns = llround (1e6 * reader->ms[timer * reader->p + stage % reader->p] / n_ops);

    if (reader->n_intervals == 2)
      g_array_set_size (samples, samples->len - 1);
    g_array_append_val (samples, ns);
    if (reader->v > 1)
      observed->estimated[stage] |= 1U << kind;
  }
}

static gboolean begin_interval (TimerLog *reader, GError **error)
{
  if (reader->ms != NULL)
    end_interval (reader);
  else if (!take_arguments (reader, error))
    return FALSE;
  memset (reader->ms, 0, N_TIMERS * reader->p * sizeof *reader->ms);
  memset (reader->n_read, 0, sizeof reader->n_read);
  reader->timer = N_TIMERS;
  return TRUE;
}

/* Adds a time of n ranks. It has two decimals, as all have; one that is cut has fewer, and its interval is not whole.
 */
static void add_time (TimerLog *reader, guint timer, guint device, const char *text, gint64 n)
{
  char *end;
  double ms = g_ascii_strtod (text, &end);

  if (end < text + 4 || end[-3] != '.' || !(ms >= 0 && ms <= PS_MAX_TIME_NS / 1e6))
    return;
  reader->ms[timer * reader->p + device] += ms * (double)n;
  reader->n_read[timer] += n;
}

/* "NAME:" begins the times of all ranks, "rank  3: 12.34". Ranks of a stage follow each other, unless the mapping has
 * replicas outermost. "NAME ....: (12.34, 56.78)" has the least and the greatest time, or that alone. */
static gboolean read_timer (TimerLog *reader, const char *body, GError **error)
{
  const gint64 *a = reader->argument;

  if (g_str_has_prefix (body, "rank ") && reader->timer < N_TIMERS) {
    gint64 per_stage = a[WORLD] / a[PIPELINE] / (a[OUTSIDE] == OTHER ? a[DATA] : 1);
    char *end;
    guint64 rank = g_ascii_strtoull (body + strlen ("rank "), &end, 10);

    if (*end == ':' && rank < (guint64)a[WORLD] && (gint64)rank == reader->n_read[reader->timer])
      add_time (reader, reader->timer, (guint)((gint64)rank / per_stage % a[PIPELINE]), end + 1, 1);
  } else if (g_str_has_suffix (body, ":"))
    reader->timer = N_TIMERS;
  for (guint i = 0; i < N_TIMERS; i++) {
    if (!g_str_has_prefix (body, timers[i]))
      continue;
    if (g_str_equal (body + strlen (timers[i]), ":"))
      reader->timer = i;
    else if (g_str_has_prefix (body + strlen (timers[i]), " .") && reader->p > 1)
      return ps_refuse (error, PS_ERROR_INPUT,
                        "%s: its timers have one range for all %u stages; --timing-log-option all would be right",
                        reader->where, reader->p);
    else if (g_str_has_prefix (body + strlen (timers[i]), " .") && reader->n_read[i] == 0)
      add_time (reader, i, 0, strrchr (body, ' '), a[WORLD]);
  }
  return TRUE;
}

/* Lines */

static gboolean read_lines (TimerLog *reader, GBytes *log, GError **error)
{
  gsize length;
  const char *text = g_bytes_get_data (log, &length), *end = text + length;

  while (text < end) {
    const char *newline = memchr (text, '\n', (gsize)(end - text)), *line_end = newline != NULL ? newline : end;
    g_autofree char *line = g_strchomp (g_strndup (text, (gsize)(line_end - text)));
    const char *body = strstr (line, "  ");

    if (strstr (line, PS_TIMERS_HEADING) != NULL) {
      if (!begin_interval (reader, error))
        return FALSE;
    } else if (body != NULL) {
      body += strspn (body, " ");
      if (!read_argument (reader, body, error) || (reader->ms != NULL && !read_timer (reader, body, error)))
        return FALSE;
    }
    text = newline != NULL ? newline + 1 : end;
  }
  if (reader->ms != NULL)
    end_interval (reader);
  return reader->n_intervals > 0
         || ps_refuse (
             error, PS_ERROR_INPUT,
             "%s: no log interval has forward-compute and backward-compute of all ranks; --timing-log-level 2 "
             "and --timing-log-option all would be right",
             reader->where);
}

gboolean ps_observed_add_log (PsObserved *observed, const char *where, GBytes *log, GError **error)
{
  TimerLog reader = { .observed = observed, .where = where };

  for (guint i = 0; i < N_ARGUMENTS; i++)
    reader.argument[i] = MISSING;
  gboolean ok = read_lines (&reader, log, error);
  g_free (reader.ms);
  if (!ok)
    return FALSE;
  guint n = MAX (reader.n_intervals, 2) - 1;
  observed->n_devices = reader.p;
  observed->origin = MAX (observed->origin, PS_ORIGIN_MEASURED);
  g_string_append_printf (observed->source, "%s%s, timers of %u log interval%s: means over %u microbatches",
                          observed->source->len > 0 ? "; " : "", where, n, n == 1 ? "" : "s", reader.m);
  if (reader.v > 1)
    g_string_append_printf (observed->source, " and the %u stages of a device", reader.v);
  return TRUE;
}

/* Reading runs */

static void scale_spans (GArray *spans, double factor)
{
  for (guint i = 0; i < spans->len; i++) {
    PsSpan *span = &g_array_index (spans, PsSpan, i);

    span->start_ns = llround ((double)span->start_ns * factor);
    span->end_ns = llround ((double)span->end_ns * factor);
  }
}

#define MIN_FACTOR 0.5 /* no profiler doubles the time of a step, */
#define MAX_FACTOR 1.1 /* and noise alone makes one shorter */

/* Reads the run at "PATH", or at "PATH=T" where there is no file of that name. Its timelines become the last element of
 * runs, its name that of names; a log is added at once. T over the time that an iteration takes goes to factors. */
static gboolean load_path (PsObserved *observed, const char *text, GPtrArray *runs, GPtrArray *names, GArray *factors,
                           GError **error)
{
  const char *equals = strrchr (text, '=');
  g_autofree char *path = g_strdup (text);
  g_autoptr (GBytes) log = NULL;
  gint64 step_ns = -1;

  if (equals != NULL && equals > text && !g_file_test (text, G_FILE_TEST_EXISTS)) {
    path[equals - text] = '\0';
    if (!ps_parse_time (text, equals + 1, &step_ns, error))
      return FALSE;
  }
  GPtrArray *timelines = ps_timelines_load_or_log (path, &log, error);
  if (log != NULL && step_ns >= 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: is a log of timers, without profiler; PATH without =T would be right",
                      path);
  if (log != NULL)
    return ps_observed_add_log (observed, path, log, error);
  if (timelines == NULL)
    return FALSE;
  if (step_ns >= 0 && ((const PsTimeline *)timelines->pdata[0])->apart) {
    g_ptr_array_unref (timelines);
    return ps_refuse (error, PS_ERROR_INPUT,
                      "%s: its ranks were recorded apart, so it shows no iteration; PATH without =T would be right",
                      path);
  }
  g_ptr_array_add (names, g_steal_pointer (&path));
  g_ptr_array_add (runs, timelines);
  double factor = (double)step_ns / (double)MAX (ps_iteration_spread (timelines).median_ns, 1);
  if (step_ns >= 0)
    g_array_append_val (factors, factor);
  return TRUE;
}

/* Adds a run whose times are multiplied; factor 0: as they are. */
static gboolean add_run (PsObserved *observed, const char *path, GPtrArray *timelines, double factor, GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s, times x %.3f as without profiler", path, factor);

  for (guint i = 0; i < timelines->len && factor > 0; i++) {
    PsTimeline *timeline = timelines->pdata[i];

    scale_spans (timeline->ops, factor);
    scale_spans (timeline->transfers, factor);
    scale_spans (timeline->posts, factor);
    scale_spans (timeline->waits, factor);
    timeline->iteration_ns = llround ((double)timeline->iteration_ns * factor);
  }
  return ps_observed_add (observed, factor > 0 ? where : path, timelines, error);
}

/* The median of the factors counts: one disturbed run does no harm. */
gboolean ps_observed_load (PsObserved *observed, const char *const *paths, guint n, GError **error)
{
  g_autoptr (GPtrArray) runs = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GArray) factors = g_array_new (FALSE, FALSE, sizeof (double));
  double factor = 0;

  for (guint i = 0; i < n; i++)
    if (!load_path (observed, paths[i], runs, names, factors, error))
      return FALSE;
  g_array_sort (factors, ps_compare_double);
  if (factors->len > 0) {
    factor = g_array_index (factors, double, factors->len / 2);
    if (factor < MIN_FACTOR || factor > MAX_FACTOR)
      return ps_refuse (error, PS_ERROR_INPUT,
                        "%s: T is %.3g of the time that an iteration takes in the trace, and no profiler does that; "
                        "the time of a step with the profiler off would be right",
                        (const char *)names->pdata[0], factor);
  }
  for (guint i = 0; i < runs->len; i++)
    if (!add_run (observed, names->pdata[i], runs->pdata[i], factor, error))
      return FALSE;
  return TRUE;
}

/* Estimates */

/* The median of samples; otherwise: where there are none. */
static gint64 median_of (const GArray *samples, gint64 otherwise)
{
  g_autofree gint64 *values = g_memdup2 (samples->data, samples->len * sizeof *values);

  return samples->len > 0 ? ps_median (values, samples->len) : otherwise;
}

static gint64 mean_of (const GArray *samples)
{
  return ps_mean ((const gint64 *)(gconstpointer)samples->data, samples->len);
}

static gint64 known_ns (const PsObserved *observed, PsOpKind kind, guint stage)
{
  return median_of (observed->op[(gsize)kind * observed->n_stages + stage], -1);
}

static void estimate (PsObserved *observed, PsOpKind kind, guint stage, double ns)
{
  gint64 rounded = llrint (ns);

  g_array_append_val (observed->op[(gsize)kind * observed->n_stages + stage], rounded);
  observed->estimated[stage] |= 1U << kind;
}

static void estimate_stage (PsObserved *observed, const PsModel *model, const PsStageShape *shape, guint stage)
{
  double b_flops = (double)ps_model_stage_flops (model, shape, PS_OP_B);
  double w_flops = (double)ps_model_stage_flops (model, shape, PS_OP_W);
  gint64 b = known_ns (observed, PS_OP_B, stage), w = known_ns (observed, PS_OP_W, stage);
  gint64 whole = known_ns (observed, PS_OP_BW, stage);

  if (whole < 0 && b >= 0 && w >= 0)
    estimate (observed, PS_OP_BW, stage, (double)(b + w));
  if (whole < 0)
    return;
  if (b < 0)
    estimate (observed, PS_OP_B, stage, (double)whole * b_flops / (b_flops + w_flops));
  if (w < 0)
    estimate (observed, PS_OP_W, stage, (double)whole * w_flops / (b_flops + w_flops));
}

gboolean ps_observed_estimate (PsObserved *observed, const PsModel *model, GError **error)
{
  g_autofree PsStageShape *shapes = g_new0 (PsStageShape, observed->n_stages);

  if (!ps_model_split (model, observed->n_stages, shapes, error))
    return FALSE;
  for (guint stage = 0; stage < observed->n_stages; stage++)
    estimate_stage (observed, model, &shapes[stage], stage);
  g_free (observed->model_name);
  observed->model_name = g_strdup (model->name);
  return TRUE;
}

/* Costs */

static void fill_stage (const PsObserved *observed, PsCosts *costs, guint stage)
{
  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++) {
    gint64 ns = known_ns (observed, (PsOpKind)kind, stage);

    ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns = MAX (ns, 0);
    if (ns < 0 && kind <= PS_OP_BW)
      costs->stage[stage].unknown |= 1U << kind;
  }
  ps_costs_guess (costs, stage);
  if (observed->op[PS_OP_R * observed->n_stages + stage]->len == 0)
    ps_costs_op (costs, PS_OP_R, stage)->duration_ns = ps_costs_op (costs, PS_OP_F, stage)->duration_ns;
  costs->stage[stage].pair_ns = median_of (observed->pair[stage], costs->stage[stage].pair_ns);
}

/* Ops that no run has: a whole backward gives back what its parts do; W gives back all that a whole backward does. */
static void fill_missing (const PsObserved *observed, PsCosts *costs, guint stage)
{
  PsOpCost *b = ps_costs_op (costs, PS_OP_B, stage), *w = ps_costs_op (costs, PS_OP_W, stage);
  PsOpCost *whole = ps_costs_op (costs, PS_OP_BW, stage), *f = ps_costs_op (costs, PS_OP_F, stage);
  guint n = observed->n_stages;

  if (observed->take[PS_OP_BW * n + stage]->len == 0) {
    whole->take_bytes = b->take_bytes;
    whole->give_bytes = b->give_bytes + w->give_bytes;
  } else if (observed->take[PS_OP_W * n + stage]->len == 0)
    *w = (PsOpCost){ w->duration_ns, whole->take_bytes, whole->give_bytes };
  *ps_costs_op (costs, PS_OP_R, stage)
      = (PsOpCost){ ps_costs_op (costs, PS_OP_R, stage)->duration_ns, f->take_bytes, f->give_bytes };
}

static void fill_memory (const PsObserved *observed, PsCosts *costs, guint stage)
{
  if (observed->state[stage]->len == 0)
    return;
  costs->stage[stage].weight_bytes = median_of (observed->state[stage], 0);
  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++) {
    guint i = kind * observed->n_stages + stage;

    ps_costs_op (costs, (PsOpKind)kind, stage)->take_bytes = median_of (observed->take[i], 0);
    ps_costs_op (costs, (PsOpKind)kind, stage)->give_bytes = median_of (observed->give[i], 0);
  }
  fill_missing (observed, costs, stage);
}

/* Without posts: gaps with one message less the host time of an op. In gaps beyond twice the median a device also
 * idled.
 */
GArray *ps_observed_posts (const PsObserved *observed, guint type)
{
  gint64 op_ns = median_of (observed->host, 0), usual_ns = median_of (observed->message, 0);

  if (observed->send->len > 0 && observed->receive->len > 0)
    return g_array_ref (type == PS_INSTRUCTION_SEND ? observed->send : observed->receive);
  GArray *parts = new_samples ();
  for (guint i = 0; observed->host->len > 0 && i < observed->message->len; i++) {
    gint64 gap_ns = g_array_index (observed->message, gint64, i), ns = MAX (gap_ns - op_ns, 0);

    if (gap_ns <= 2 * usual_ns)
      g_array_append_val (parts, ns);
  }
  return parts;
}

guint ps_observed_estimated (const PsObserved *observed)
{
  guint kinds = 0;

  for (guint stage = 0; stage < observed->n_stages; stage++)
    kinds |= observed->estimated[stage];
  return kinds;
}

char *ps_observed_describe (const PsObserved *observed)
{
  GString *kinds = g_string_new (NULL);
  guint estimated = ps_observed_estimated (observed), n_transfers = 0;

  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
    if (estimated & 1U << kind)
      g_string_append_printf (kinds, "%s%s", kinds->len > 0 ? ", " : "", ps_op_kind_name ((PsOpKind)kind));
  if (kinds->len > 0)
    g_string_prepend (kinds, "; estimated, not measured: ");
  if (kinds->len > 0 && observed->model_name != NULL)
    g_string_append_printf (kinds, " by the operations of %s", observed->model_name);
  for (guint i = 1; i <= 2 * observed->n_stages; i++)
    n_transfers += observed->transfer[i]->len;
  if (observed->links != NULL)
    g_string_append_printf (kinds, "; transfers and memory of %s", observed->links);
  else if (observed->n_stages > 1 && n_transfers == 0)
    g_string_append (kinds, "; no transfer was seen, so they take no time");
  g_string_prepend (kinds, observed->source->str);
  return g_string_free (observed->links != NULL ? g_string_prepend (kinds, "ops of ") : kinds, FALSE);
}

PsCosts *ps_observed_costs (const PsObserved *observed, guint n_devices, guint n_chunks, GError **error)
{
  guint n_stages = n_devices * n_chunks;
  g_autoptr (GArray) send = ps_observed_posts (observed, PS_INSTRUCTION_SEND);
  g_autoptr (GArray) receive = ps_observed_posts (observed, PS_INSTRUCTION_RECEIVE);

  if (n_stages != observed->n_stages)
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: %u stages, so it has no costs for %u devices with %u each",
                           observed->source->str, observed->n_stages, n_devices, n_chunks);
  PsCosts *costs = ps_costs_new (n_stages);
  for (guint stage = 0; stage < n_stages; stage++) {
    fill_stage (observed, costs, stage);
    fill_memory (observed, costs, stage);
  }
  for (guint i = 1; i <= 2 * n_stages; i++)
    costs->transfer_ns[i] = median_of (observed->transfer[i], -1);
  costs->transfer_origin = costs->memory_origin = observed->origin;
  ps_costs_guess_transfers (costs); /* and says so in transfer_origin */
  costs->op_ns = costs->post_ns = median_of (observed->host, costs->op_ns);
  if (send->len > 0 && receive->len > 0)
    costs->post_ns = (mean_of (send) + mean_of (receive)) / 2;
  costs->time_origin = ps_observed_estimated (observed) ? MAX (PS_ORIGIN_MODELLED, observed->origin) : observed->origin;
  g_free (costs->source);
  costs->source = ps_observed_describe (observed);
  return costs;
}

gboolean ps_observed_tells_warm (const PsObserved *observed, guint cell)
{
  return observed->warm[cell]->len >= PS_MEDIAN_MIN_SAMPLES && observed->cold[cell]->len >= PS_MEDIAN_MIN_SAMPLES;
}

void ps_observed_tell_warm (const PsObserved *observed, PsCosts *costs)
{
  for (guint i = 0; i < PS_OP_O * costs->n_stages; i++) {
    gint64 cold_ns = ps_observed_tells_warm (observed, i) ? median_of (observed->cold[i], 0) : 0;

    if (cold_ns <= 0)
      continue;
    if (costs->warm == NULL) {
      costs->warm = g_new (double, (gsize)PS_OP_O * costs->n_stages);
      for (guint k = 0; k < PS_OP_O * costs->n_stages; k++)
        costs->warm[k] = 1;
    }
    costs->warm[i] = (double)median_of (observed->warm[i], 0) / (double)cold_ns;
    ps_costs_op (costs, (PsOpKind)(i / costs->n_stages), i % costs->n_stages)->duration_ns = cold_ns;
  }
}

/* Spread: as if the runs were one calibration */

typedef struct {
  PsCostSpread *spread;
  GPtrArray *rows; /* of GPtrArray of one PsMeasurement */
} Collector;

/* The samples over their median. Notes them as another row, that of the cost; no samples: the cost has none. */
static GArray *add_row (Collector *collector, guint cost, const GArray *samples)
{
  guint n = samples->len;

  collector->spread->row[cost] = PS_NO_ROW;
  if (n == 0)
    return NULL;
  PsMeasurement *m = g_new0 (PsMeasurement, 1);
  GPtrArray *row = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free);
  GArray *relative = g_array_sized_new (FALSE, FALSE, sizeof (double), n);
  g_autofree gint64 *distances = g_new (gint64, n);
  m->samples_ns = g_memdup2 (samples->data, n * sizeof *m->samples_ns);
  m->n_samples = m->time.n = n;
  m->time.median_ns = median_of (samples, 0);
  for (guint i = 0; i < n; i++) {
    double sample = (double)m->samples_ns[i] / (double)MAX (m->time.median_ns, 1);

    distances[i] = ABS (m->samples_ns[i] - m->time.median_ns);
    g_array_append_val (relative, sample);
    collector->spread->largest = MAX (collector->spread->largest, sample);
  }
  m->time.mad_ns = ps_median (distances, n);
  g_ptr_array_add (row, m);
  collector->spread->row[cost] = collector->rows->len;
  g_ptr_array_add (collector->rows, row);
  return relative;
}

/* All boundaries together, each relative to its own median: so a slow link is no spread. */
static GArray *relative_transfers (const PsObserved *observed)
{
  GArray *all = new_samples ();

  for (guint i = 1; i <= 2 * observed->n_stages; i++) {
    const GArray *samples = observed->transfer[i];
    gint64 median_ns = MAX (median_of (samples, 0), 1);

    for (guint k = 0; k < samples->len; k++) {
      double relative = (double)g_array_index (samples, gint64, k) / (double)median_ns;
      gint64 ns = llround (1e6 * MIN (relative, 1e6));

      g_array_append_val (all, ns);
    }
  }
  return all;
}

PsCostSpread *ps_observed_spread (const PsObserved *observed)
{
  guint n = observed->n_stages, n_ops = PS_N_OP_KINDS * n;
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  g_autoptr (GPtrArray) sentinels = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  g_autoptr (GArray) transfers = relative_transfers (observed);
  PsCostSpread *spread = g_new0 (PsCostSpread, 1);
  Collector collector = { spread, rows };

  spread->n_stages = n;
  spread->largest = 1;
  spread->op = g_new0 (GArray *, n_ops);
  spread->row = g_new (guint, n_ops + 1);
  for (guint i = 0; i < n_ops; i++) {
    gboolean like_forward = i / n == PS_OP_R && observed->op[i]->len == 0;

    spread->op[i] = add_row (&collector, i, observed->op[like_forward ? PS_OP_F * n + i % n : i]);
  }
  spread->transfer = add_row (&collector, n_ops, transfers);
  spread->n_rows = rows->len;
  spread->deviation = g_new0 (double, rows->len);
  g_ptr_array_add (sentinels, g_ptr_array_new ());
  ps_cost_spread_set_runs (spread, rows, sentinels);
  return spread;
}
