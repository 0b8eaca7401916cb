/* observed.c - collects the samples of timelines. */
#include <pipesim/observe.h>

/* The way of one result from its op to the device that needs it. */
typedef struct
{
  gint64 made_ns;    /* its op has ended; -1: not seen, as the next two */
  gint64 sent_ns;    /* its send is posted */
  gint64 arrived_ns; /* at the device that needs it */
  guint device;      /* its op's */
} Result;

typedef struct
{
  PsObserved *observed;
  const PsTimeline *timeline;
  guint n_slices;
  Result *results;
} Reader;

PsObserved *
ps_observed_new (void)
{
  PsObserved *observed = g_new0 (PsObserved, 1);

  observed->host = g_array_new (FALSE, FALSE, sizeof (gint64));
  observed->message = g_array_new (FALSE, FALSE, sizeof (gint64));
  observed->send = g_array_new (FALSE, FALSE, sizeof (gint64));
  observed->receive = g_array_new (FALSE, FALSE, sizeof (gint64));
  observed->source = g_string_new (NULL);
  return observed;
}

static GArray **
new_lists (guint n)
{
  GArray **lists = g_new (GArray *, n);

  for (guint i = 0; i < n; i++)
    lists[i] = g_array_new (FALSE, FALSE, sizeof (gint64));
  return lists;
}

static void
free_lists (GArray **lists, guint n)
{
  for (guint i = 0; lists != NULL && i < n; i++)
    g_array_unref (lists[i]);
  g_free (lists);
}

void
ps_observed_free (PsObserved *observed)
{
  if (observed == NULL)
    return;
  free_lists (observed->op, PS_N_OP_KINDS * observed->n_stages);
  free_lists (observed->warm, PS_N_OP_KINDS * observed->n_stages);
  free_lists (observed->cold, PS_N_OP_KINDS * observed->n_stages);
  free_lists (observed->take, PS_N_OP_KINDS * observed->n_stages);
  free_lists (observed->give, PS_N_OP_KINDS * observed->n_stages);
  free_lists (observed->state, observed->n_stages);
  free_lists (observed->pair, observed->n_stages);
  free_lists (observed->transfer, 1 + 2 * observed->n_stages);
  g_array_unref (observed->host);
  g_array_unref (observed->message);
  g_array_unref (observed->send);
  g_array_unref (observed->receive);
  g_string_free (observed->source, TRUE);
  g_free (observed->estimated);
  g_free (observed->model_name);
  g_free (observed);
}

/* Results */

static Result *
result_of (const Reader *reader, PsOp op)
{
  const PsTimeline *timeline = reader->timeline;
  gsize cell = ((gsize)op.stage * timeline->n_microbatches + op.microbatch) * reader->n_slices + op.slice;

  return &reader->results[2 * cell + (op.kind != PS_OP_F)];
}

/* The result that op needs, if another device makes it; NULL: none does. */
static Result *
foreign_input (const Reader *reader, const PsSpan *span)
{
  PsOp producer;

  if (!ps_op_input (span->op, reader->timeline->n_stages, &producer))
    return NULL;
  Result *result = result_of (reader, producer);
  return result->made_ns >= 0 && result->device != span->device ? result : NULL;
}

static void
note_ops (Reader *reader)
{
  const PsTimeline *timeline = reader->timeline;

  reader->n_slices = ps_timeline_n_slices (timeline);
  gsize n = 2 * (gsize)timeline->n_stages * timeline->n_microbatches * reader->n_slices;
  reader->results = g_new (Result, n);
  for (gsize i = 0; i < n; i++)
    reader->results[i] = (Result){ -1, -1, -1, 0 };
  for (guint i = 0; i < timeline->ops->len; i++)
    {
      const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

      if (span->op.kind == PS_OP_F || ps_op_is_backward (span->op))
        *result_of (reader, span->op) = (Result){ span->end_ns, span->end_ns, -1, span->device };
    }
}

/* The messages' own records: when they were sent and when they arrived. */
static void
note_messages (Reader *reader)
{
  const PsTimeline *timeline = reader->timeline;

  for (guint i = 0; i < timeline->posts->len; i++)
    {
      const PsSpan *post = &g_array_index (timeline->posts, PsSpan, i);

      if (post->post == PS_INSTRUCTION_SEND)
        result_of (reader, post->op)->sent_ns = post->end_ns;
    }
  for (guint i = 0; i < timeline->transfers->len; i++)
    {
      const PsSpan *transfer = &g_array_index (timeline->transfers, PsSpan, i);

      result_of (reader, transfer->op)->arrived_ns = transfer->end_ns;
    }
}

/* Samples */

static GArray *
boundary (const PsObserved *observed, PsOp producer)
{
  return observed->transfer[1 + (producer.kind != PS_OP_F) * observed->n_stages + producer.stage];
}

static void
observe_transfers (const Reader *reader)
{
  const PsTimeline *timeline = reader->timeline;

  for (guint i = 0; i < timeline->transfers->len; i++)
    {
      const PsSpan *transfer = &g_array_index (timeline->transfers, PsSpan, i);
      gint64 ns = transfer->end_ns - transfer->start_ns;

      g_array_append_val (boundary (reader->observed, transfer->op), ns);
    }
  for (guint i = 0; timeline->transfers->len == 0 && i < timeline->waits->len; i++)
    {
      const PsSpan *wait = &g_array_index (timeline->waits, PsSpan, i);
      const Result *result = result_of (reader, wait->op);
      gint64 ns = wait->end_ns - result->sent_ns;

      if (result->made_ns >= 0 && result->device != wait->device && wait->start_ns < result->sent_ns && ns >= 0)
        g_array_append_val (boundary (reader->observed, wait->op), ns);
    }
}

static void
observe_posts (const Reader *reader)
{
  const GArray *posts = reader->timeline->posts;

  for (guint i = 0; i < posts->len; i++)
    {
      const PsSpan *post = &g_array_index (posts, PsSpan, i);
      gint64 ns = post->end_ns - post->start_ns;

      g_array_append_val (post->post == PS_INSTRUCTION_SEND ? reader->observed->send : reader->observed->receive, ns);
    }
}

/* TRUE: the result of the op goes to another device. */
static gboolean
is_sent (const Reader *reader, const PsSpan *span)
{
  PsOp consumer = span->op;
  guint stage;

  if (!ps_op_output (span->op, reader->timeline->n_stages, &stage))
    return FALSE;
  consumer.stage = (guint16)stage;
  return result_of (reader, consumer)->made_ns >= 0 && result_of (reader, consumer)->device != span->device;
}

/* The gap between two ops. Where no posts are known they are part of it. With one message it is the host time of an op
 * and of a message. With two it says nothing, because the op waits for either. */
static void
observe_gap (const Reader *reader, const PsSpan *previous, const PsSpan *span, guint *post, guint *wait)
{
  const PsTimeline *timeline = reader->timeline;
  const Result *input = foreign_input (reader, span);
  gboolean posts_known = timeline->posts->len > 0, waits_known = timeline->waits->len > 0;
  guint n_messages = posts_known ? 0 : is_sent (reader, previous) + (input != NULL);
  gint64 begin_ns = previous->end_ns, ns;

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
static gboolean
is_plain (const PsSpan *span, const PsSpan *before)
{
  return !span->op.paired && span->op.kind != PS_OP_O
         && (before == NULL || !before->op.paired || before->device != span->device);
}

static void
observe_op (const Reader *reader, const PsSpan *span, const PsSpan *before, guint n)
{
  PsObserved *observed = reader->observed;
  gint64 ns = (span->end_ns - span->start_ns) * reader->n_slices;
  guint f = n == 2 && span[0].op.kind != PS_OP_F;

  if (n == 2)
    g_array_append_val (observed->pair[span[f].op.stage], ns);
  else if (span->op.kind == PS_OP_O)
    g_array_append_val (observed->op[PS_OP_O * observed->n_stages + span->op.stage],
                        (gint64){ span->end_ns - span->start_ns });
  else
    {
      guint cell = span->op.kind * observed->n_stages + span->op.stage;
      gboolean warm = before != NULL && !before->op.paired && ps_op_is_warm (before->op, span->op);

      g_array_append_val (observed->op[cell], ns);
      g_array_append_val (warm ? observed->warm[cell] : observed->cold[cell], ns);
    }
}

static void
observe_ops (const Reader *reader)
{
  const GArray *ops = reader->timeline->ops;
  guint post = 0, wait = 0, n;

  for (guint i = 0; i < ops->len; i += n)
    {
      const PsSpan *span = &g_array_index (ops, PsSpan, i);

      n = span->op.paired && i + 1 < ops->len && span[1].device == span->device ? 2 : 1;
      observe_op (reader, span, i > 0 && span[-1].device == span->device ? span - 1 : NULL, n);
      if (i > 0 && span[-1].device == span->device && is_plain (span, NULL)
          && is_plain (&span[-1], i > 1 ? &span[-2] : NULL))
        observe_gap (reader, &span[-1], span, &post, &wait);
    }
}

static void
observe (PsObserved *observed, const PsTimeline *timeline)
{
  Reader reader = { .observed = observed, .timeline = timeline };

  note_ops (&reader);
  note_messages (&reader);
  observe_ops (&reader);
  observe_posts (&reader);
  observe_transfers (&reader);
  g_free (reader.results);
}

gboolean
ps_observed_set_stages (PsObserved *observed, const char *where, guint n_stages, GError **error)
{
  if (observed->n_stages == 0)
    {
      observed->n_stages = n_stages;
      observed->op = new_lists (PS_N_OP_KINDS * n_stages);
      observed->warm = new_lists (PS_N_OP_KINDS * n_stages);
      observed->cold = new_lists (PS_N_OP_KINDS * n_stages);
      observed->take = new_lists (PS_N_OP_KINDS * n_stages);
      observed->give = new_lists (PS_N_OP_KINDS * n_stages);
      observed->state = new_lists (n_stages);
      observed->pair = new_lists (n_stages);
      observed->estimated = g_new0 (guint, n_stages);
      observed->transfer = new_lists (1 + 2 * n_stages);
    }
  return n_stages == observed->n_stages
         || ps_refuse (error, PS_ERROR_INPUT, "%s: a run of %u stages, after %s of %u", where, n_stages,
                       observed->source->str, observed->n_stages);
}

gboolean
ps_observed_add (PsObserved *observed, const char *where, GPtrArray *timelines, GError **error)
{
  for (guint i = 0; i < timelines->len; i++)
    {
      const PsTimeline *timeline = timelines->pdata[i];

      if (!ps_observed_set_stages (observed, where, timeline->n_stages, error))
        return FALSE;
      observed->n_devices = timeline->n_devices;
      observed->origin = MAX (observed->origin, timeline->origin);
      observe (observed, timeline);
      ps_observed_add_memory (observed, timeline);
    }
  observed->n_iterations += timelines->len;
  g_string_append_printf (observed->source, "%s%s, %u iteration%s", observed->source->len > 0 ? "; " : "", where,
                          timelines->len, timelines->len == 1 ? "" : "s");
  return TRUE;
}
