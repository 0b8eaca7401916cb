/* transfers.c - times messages and sums: many sizes one by one, and a few sizes in each way of sharing the machine. A
 * transfer lasts as its consumer sees it: from the sender's call until the receiver holds the data. */
#include "measure.h"

#include "links.h"

#include "clock.h"
#include "run/transports.h"

#define SMALLEST_BYTES 8

/* Some twenty sizes together get about the time of two runs of ops. */
#define TIME_SHARE 10

#define TIMEOUT_NS G_GINT64_CONSTANT (60000000000)

/* Messages of a step there and back, or sums: fewer of large ones. Before the first sum of a step devices meet, so that
 * it may wait; few should. */
#define MAX_MESSAGES 16
#define LEAST_SUMS 4
#define STEP_BYTES G_GINT64_CONSTANT (16777216)

#define N_LOADS 2 /* F and BW that a computing device runs in a step */

/* Of the model of a message */
#define LONGEST_SEQUENCE 1024
#define HEAD_SIZE 64

/* Of messages to itself: a launch is short, and each size sets up a new communicator. */
#define N_SELF_SAMPLES 200
#define SELF_STEP 64

/* What goes on at the same time. */
typedef enum {
  PS_TRAFFIC_PING_PONG,
  PS_TRAFFIC_BOTH_WAYS,      /* each device sends when it receives */
  PS_TRAFFIC_TWO_PAIRS,      /* two ping-pongs */
  PS_TRAFFIC_DURING_COMPUTE, /* further devices compute, or the accelerators of both if each has its own */
  PS_TRAFFIC_ALL_REDUCE,     /* no messages: all processes add up */
  PS_N_TRAFFICS
} PsTraffic;

static const char *const shapes[PS_N_TRAFFICS] = { "", "both-ways", "pairs=2", "during-compute", "" };

GArray *ps_transfer_sizes (gint64 boundary_bytes)
{
  GArray *sizes = g_array_new (FALSE, FALSE, sizeof (gint64));
  gint64 previous = 0;

  for (gint64 size = SMALLEST_BYTES; previous < 4 * boundary_bytes; size *= 2) {
    if (previous < boundary_bytes && boundary_bytes < size)
      g_array_append_val (sizes, boundary_bytes);
    g_array_append_val (sizes, size);
    previous = size;
  }
  return sizes;
}

PsModel *ps_model_with_boundary (gint64 bytes)
{
  PsModel *model = g_new0 (PsModel, 1);
  gint64 elements = bytes / (gint64)sizeof (float);
  gint64 hidden = 1;

  /* hidden and sequence become about equal, so that neither is absurd. */
  while (elements % (hidden * 2) == 0 && hidden * hidden < elements)
    hidden *= 2;
  gint64 sequence = elements / hidden, batch = 1;
  /* Heads and sequences have sizes that every device takes, although no op runs. */
  while (sequence % 2 == 0 && sequence > LONGEST_SEQUENCE) {
    sequence /= 2;
    batch *= 2;
  }
  *model = (PsModel){ .name = g_strdup ("transfer"),
                      .layers = 2,
                      .hidden = (guint)hidden,
                      .heads = (guint)MAX (hidden / HEAD_SIZE, 1),
                      .kv_heads = (guint)MAX (hidden / HEAD_SIZE, 1),
                      .sequence = (guint)sequence,
                      .feed_forward = 1,
                      .vocabulary = 2,
                      .microbatch_size = (guint)batch };
  return model;
}

/* What an endpoint knows of the messages of a step, by the clock of all: when it handed its own over and when those of
 * its partner could be used. */
typedef struct {
  gint64 sent_ns[MAX_MESSAGES];
  PsTransferTimes came[MAX_MESSAGES];
  gint64 computed_ns; /* when the first device of this process that computes had done so; 0: there is none */
} Ends;

/* A run under way. Endpoints are the devices that send: two or four of one process, or one of each process. */
typedef struct {
  const PsCalibration *calibration;
  PsTraffic traffic;
  guint link[2]; /* devices; in one process endpoints 0 and 1 stand for them */
  guint n_endpoints;
  guint n_loads;      /* devices that compute: after the endpoints of one process, or after each process's own */
  guint n_messages;   /* of an endpoint in a step */
  gint64 offset_ns;   /* what makes a time of this process one by the clock of all */
  gint64 begin_ns;    /* of the second step */
  PsSampler *sampler; /* the first process's */
  PsCondition *during;
} Transfer;

static gboolean is_remote (const Transfer *transfer)
{
  return transfer->calibration->processes != NULL;
}

/* TRUE: each endpoint has an accelerator to itself, which computes while it sends. */
static gboolean computes_itself (const PsCalibration *calibration)
{
  return calibration->transport->exclusive && calibration->device->splits;
}

/* Its own index: it waits. */
static guint partner_of (const Transfer *transfer, guint endpoint)
{
  const guint *link = transfer->link;
  guint n_pairs = transfer->traffic == PS_TRAFFIC_TWO_PAIRS ? 2 : 1;

  if (is_remote (transfer) && n_pairs == 1)
    return endpoint == link[0] ? link[1] : endpoint == link[1] ? link[0] : endpoint;
  return endpoint < 2 * n_pairs ? (endpoint + n_pairs) % (2 * n_pairs) : endpoint;
}

/* Device number of an endpoint, and of a load of one, in the run. */
static guint device_of (const Transfer *transfer, guint endpoint)
{
  return is_remote (transfer) ? endpoint * (1 + transfer->n_loads) : endpoint;
}

static guint n_devices (const Transfer *transfer)
{
  return is_remote (transfer) ? device_of (transfer, transfer->n_endpoints) : transfer->n_endpoints + transfer->n_loads;
}

/* Streams */

static PsOp message_op (const Transfer *transfer, guint endpoint, guint i)
{
  gboolean lower = endpoint < partner_of (transfer, endpoint);

  return (PsOp){ .kind = lower ? PS_OP_F : PS_OP_B, .stage = lower ? 0 : 1, .microbatch = i & G_MAXINT32 };
}

/* The lower one of a pair sends first; both ways, each does. */
static void add_messages (const Transfer *transfer, GArray *stream, guint endpoint)
{
  guint partner = partner_of (transfer, endpoint), peer = device_of (transfer, partner);
  gboolean first = endpoint < partner || transfer->traffic == PS_TRAFFIC_BOTH_WAYS;

  for (guint i = 0; i < transfer->n_messages && partner != endpoint; i++) {
    PsOp own = message_op (transfer, endpoint, i), other = message_op (transfer, partner, i);

    ps_stream_add (stream, PS_INSTRUCTION_RECEIVE, other, peer);
    if (first)
      ps_stream_add (stream, PS_INSTRUCTION_SEND, own, peer);
    ps_stream_add (stream, PS_INSTRUCTION_WAIT, other, peer);
    if (!first)
      ps_stream_add (stream, PS_INSTRUCTION_SEND, own, peer);
  }
}

static void add_load (GArray *stream)
{
  for (guint i = 0; i < 2 * N_LOADS; i++)
    ps_stream_add (stream, PS_INSTRUCTION_COMPUTE,
                   (PsOp){ .kind = i % 2 == 0 ? PS_OP_F : PS_OP_BW, .stage = PS_LAYER_STAGE }, 0);
}

/* Writes the stream of a device, and finds its place and model. Endpoints have a place of their own, also where fewer
 * devices are calibrated. A load has its endpoint's accelerator, or a place after all endpoints, in the first process.
 */
static void set_device (const Transfer *transfer, guint device, GArray *stream, guint *place, const PsModel **model)
{
  guint per_endpoint = is_remote (transfer) ? 1 + transfer->n_loads : 1;
  guint endpoint = device / per_endpoint, load = device % per_endpoint;
  gboolean own = computes_itself (transfer->calibration);

  if (!is_remote (transfer) && device >= transfer->n_endpoints) {
    load = 1 + device - transfer->n_endpoints;
    endpoint = own ? load - 1 : 0;
  }
  if (load == 0)
    add_messages (transfer, stream, endpoint);
  else if (own ? partner_of (transfer, endpoint) != endpoint : endpoint == 0)
    add_load (stream);
  *place = load > 0 && !own                                                    ? transfer->n_endpoints + load - 1
           : is_remote (transfer) || transfer->traffic == PS_TRAFFIC_TWO_PAIRS ? endpoint
                                                                               : transfer->link[endpoint];
  if (load > 0)
    *model = transfer->calibration->model;
}

/* Samples */

/* From the sender's call until the other could use it. Some classes don't know at the receiver's end when it was sent.
 */
static gint64 message_ns (const Ends *from, const Ends *to, guint i)
{
  return to->came[i].end_ns - (to->came[i].start_ns > 0 ? to->came[i].start_ns : from->sent_ns[i]);
}

/* Between processes, where clocks may be off against each other, there and back count together: the error cancels. */
static void add_pair (const Transfer *transfer, const Ends *a, const Ends *b, guint i, gint64 elapsed_ns)
{
  gint64 there = message_ns (a, b, i), back = message_ns (b, a, i);

  ps_sampler_add (transfer->sampler, is_remote (transfer) ? (there + back) / 2 : there, elapsed_ns);
  if (!is_remote (transfer))
    ps_sampler_add (transfer->sampler, back, elapsed_ns);
}

/* Messages that were sent while every load computed; the first one was in any case. */
static void add_samples (const Transfer *transfer, const Ends *ends, guint n_processes)
{
  gint64 computed_ns = G_MAXINT64;

  for (guint i = 0; i < n_processes; i++)
    if (ends[i].computed_ns > 0)
      computed_ns = MIN (computed_ns, ends[i].computed_ns);
  for (guint i = 0; i < transfer->n_messages; i++)
    for (guint k = 0; k < transfer->n_endpoints; k++) {
      const Ends *a = &ends[k], *b = &ends[partner_of (transfer, k)];

      if (a < b && (i == 0 || MAX (a->sent_ns[i], b->sent_ns[i]) <= computed_ns))
        add_pair (transfer, a, b, i, a->came[i].end_ns - transfer->begin_ns);
    }
}

/* The endpoint that a device is, if it is one. */
static Ends *ends_of (const Transfer *transfer, Ends *ends, guint device)
{
  if (is_remote (transfer))
    return device % (1 + transfer->n_loads) == 0 ? ends : NULL;
  return device < transfer->n_endpoints ? &ends[device] : NULL;
}

/* Notes what the endpoints here know. Those of one process know all, in `ends`; a further process has one. */
static void read_ends (const Transfer *transfer, const GArray *events, Ends *ends)
{
  for (guint k = 0; k < events->len; k++) {
    const PsMeasuredEvent *event = &g_array_index (events, PsMeasuredEvent, k);
    gboolean last = k + 1 == events->len || event[1].device != event->device;
    guint i = event->instruction.op.microbatch;
    Ends *own = ends_of (transfer, ends, event->device);
    PsTransferTimes *came = own != NULL ? &own->came[i] : NULL;

    if (own == NULL && last && event->instruction.type == PS_INSTRUCTION_COMPUTE) {
      gint64 end_ns = event->times.end_ns + transfer->offset_ns;

      ends->computed_ns = ends->computed_ns > 0 ? MIN (ends->computed_ns, end_ns) : end_ns;
    } else if (own != NULL && event->instruction.type == PS_INSTRUCTION_SEND)
      own->sent_ns[i] = event->times.start_ns + transfer->offset_ns;
    else if (own != NULL && event->instruction.type == PS_INSTRUCTION_WAIT) {
      came->start_ns = event->times.start_ns > 0 ? event->times.start_ns + transfer->offset_ns : 0;
      came->end_ns = event->times.end_ns + transfer->offset_ns;
    }
  }
}

static void take_messages (Transfer *transfer, const GArray *events)
{
  g_autofree Ends *ends = g_new0 (Ends, transfer->n_endpoints);

  read_ends (transfer, events, ends);
  if (is_remote (transfer)) {
    g_autofree Ends *own = g_memdup2 (ends, sizeof *ends);

    ps_processes_exchange (transfer->calibration->processes, own, sizeof *own, ends, TIMEOUT_NS);
  }
  add_samples (transfer, ends, transfer->n_endpoints);
}

/* Those of the first device here. */
static void add_sums (Transfer *transfer, const GArray *events)
{
  for (guint i = 0; i < transfer->n_messages; i++) {
    const PsTimes *times = &g_array_index (events, PsMeasuredEvent, i).times;

    ps_sampler_add (transfer->sampler, times->end_ns - times->start_ns,
                    times->end_ns + transfer->offset_ns - transfer->begin_ns);
  }
}

/* PsMeasuring.step: the first step connects and warms up. */
static gboolean take_step (const PsMeasuredStep *step, gpointer data, gboolean *more, GError **error)
{
  Transfer *transfer = data;

  if (step->number == 0)
    transfer->begin_ns = ps_clock_now () + transfer->offset_ns;
  else if (transfer->traffic == PS_TRAFFIC_ALL_REDUCE)
    add_sums (transfer, step->events);
  else
    take_messages (transfer, step->events);
  *more = ps_calib_agree (transfer->calibration, transfer->sampler->stop == NULL);
  if (!*more)
    ps_conditions_median (step->conditions, 0, transfer->begin_ns - transfer->offset_ns, ps_clock_now (),
                          transfer->during);
  return TRUE;
}

/* The run */

/* For an all-reduce every endpoint is a replica of a pipeline of one device. */
static gboolean run_transfer (Transfer *transfer, gint64 bytes, GError **error)
{
  const PsCalibration *calibration = transfer->calibration;
  const gboolean sums = transfer->traffic == PS_TRAFFIC_ALL_REDUCE;
  const guint n = sums ? 1 : n_devices (transfer);
  const gboolean few = transfer->n_endpoints > calibration->n_local;
  const PsStageShape stages[PS_LAYER_STAGES] = { [PS_LAYER_STAGE] = { .n_layers = 1 } };
  g_autoptr (PsModel) model = ps_model_with_boundary (bytes);
  g_autoptr (GPtrArray) streams = g_ptr_array_new_with_free_func ((GDestroyNotify)g_array_unref);
  g_autofree guint *places = g_new0 (guint, n);
  g_autofree const PsModel **models = g_new (const PsModel *, n);
  const PsMeasuring measuring = { .places = places,
                                  .n_local = sums  ? 1
                                             : few ? transfer->n_endpoints
                                                   : calibration->n_local,
                                  .models = models,
                                  .n_sums = sums ? transfer->n_messages : 0,
                                  .step = take_step,
                                  .data = transfer };
  const PsRunSetting setting = { .device = calibration->device,
                                 .transport = calibration->transport,
                                 .model = model,
                                 .shapes = stages,
                                 .n_steps = 1,
                                 .seed = calibration->seed,
                                 .timeout_ns = TIMEOUT_NS,
                                 .shares = few || sums ? NULL : calibration->shares,
                                 .n_replicas = sums ? transfer->n_endpoints : 1,
                                 .processes = calibration->processes,
                                 .measuring = &measuring };

  for (guint i = 0; i < n; i++) {
    GArray *stream = g_array_new (FALSE, FALSE, sizeof (PsInstruction));

    models[i] = model;
    if (!sums)
      set_device (transfer, i, stream, &places[i], &models[i]);
    g_ptr_array_add (streams, stream);
  }
  return ps_measuring_run ((GArray **)streams->pdata, n, PS_LAYER_STAGES, MAX_MESSAGES, 1, &setting, error);
}

/* How many devices are busy; 0: the traffic needs more than there are here. */
static guint busy_devices (const PsCalibration *calibration, PsTraffic traffic)
{
  const PsTransportClass *transport = calibration->transport;
  const PsDeviceClass *device = calibration->device;
  const guint n_ranks = calibration->processes != NULL ? ps_processes_n_ranks (calibration->processes) : 0;
  const guint n_local = calibration->n_local, n_endpoints = MAX (n_ranks, 2);
  /* FALSE where the transport needs an accelerator for each device and devices of this process have to share one. */
  const gboolean apart = !transport->exclusive || (device->splits && calibration->sharing == 1);
  /* Whether two devices of this process can add up numbers, as both weight copies of a stage do. */
  const gboolean adds
      = !transport->spans_processes && device->gradient_memory != NULL && device->write == NULL && n_local >= 2;

  switch (traffic) {
  case PS_TRAFFIC_TWO_PAIRS:
    return n_ranks >= 4 || (n_ranks == 0 && n_local >= 4 && apart) ? 4 : 0;
  case PS_TRAFFIC_DURING_COMPUTE:
    if (computes_itself (calibration))
      return 2;
    return n_local > n_endpoints ? n_local - n_endpoints + 2 : 0;
  case PS_TRAFFIC_ALL_REDUCE:
    return transport->sum == NULL ? 0 : n_ranks > 0 ? n_ranks : adds ? 2 : 0;
  default:
    return 2;
  }
}

static Transfer new_transfer (const PsCalibration *calibration, const PsCalibOrder *order, PsSampler *sampler,
                              PsCondition *during)
{
  PsProcesses *processes = calibration->processes;
  const PsTraffic traffic = (PsTraffic)order->traffic;
  const guint n_ranks = ps_processes_n_ranks (processes);
  guint n_endpoints = processes != NULL ? n_ranks : traffic == PS_TRAFFIC_TWO_PAIRS ? 4 : 2, n_loads = 0;

  const gint64 least = traffic == PS_TRAFFIC_ALL_REDUCE ? LEAST_SUMS : 1;

  if (traffic == PS_TRAFFIC_DURING_COMPUTE)
    n_loads = !computes_itself (calibration) ? calibration->n_local - n_endpoints : processes != NULL ? 1 : 2;
  return (Transfer){ .calibration = calibration,
                     .traffic = traffic,
                     .link = { (guint)order->link[0], (guint)order->link[1] },
                     .n_endpoints = n_endpoints,
                     .n_loads = n_loads,
                     .n_messages = (guint)CLAMP (STEP_BYTES / order->bytes, least, MAX_MESSAGES),
                     .offset_ns = ps_processes_clock_offset (processes, ps_processes_rank (processes)),
                     .sampler = sampler,
                     .during = during };
}

gboolean ps_calibrate_others_transfer (const PsCalibration *calibration, const PsCalibOrder *order, GError **error)
{
  PsSampler none = { .stop = "elsewhere" };
  PsCondition unused;
  Transfer transfer = new_transfer (calibration, order, &none, &unused);

  return run_transfer (&transfer, order->bytes, error);
}

/* What is measured together: a run, and the shape of its measurement. The link is for traffic with one pair. */
typedef struct {
  PsCalibOrder order;
  const char *shape;
} Message;

static void add_message (GArray *messages, PsTraffic traffic, const char *shape, guint a, guint b, gint64 bytes)
{
  const Message message = { { .bytes = bytes, .traffic = traffic, .link = { (gint32)a, (gint32)b } }, shape };

  g_array_append_val (messages, message);
}

/* All sizes over the first link of each class, and one size over the links to look at; a few sizes in each other way.
 */
static GArray *list_messages (const PsCalibration *calibration, GArray *links)
{
  const PsModel *model = calibration->model;
  gint64 boundary = ps_model_boundary_bytes (model);
  const gint64 few[] = { SMALLEST_BYTES, boundary / 4 / SMALLEST_BYTES * SMALLEST_BYTES, boundary };
  const PsStageShape share = { .n_layers = model->layers / calibration->n_devices };
  gint64 gradients = ps_model_stage_parameters (model, &share) * (gint64)sizeof (float), size = boundary;
  g_autoptr (GArray) sizes = ps_transfer_sizes (boundary);
  GArray *messages = g_array_new (FALSE, FALSE, sizeof (Message));

  for (guint k = 0; k < sizes->len; k++)
    add_message (messages, PS_TRAFFIC_PING_PONG, "", 0, 1, g_array_index (sizes, gint64, k));
  for (guint i = 0; i < links->len; i++) {
    const PsCalibLink *link = &g_array_index (links, PsCalibLink, i);

    for (guint k = 0; k < sizes->len && link->first && *link->shape; k++)
      add_message (messages, PS_TRAFFIC_PING_PONG, link->shape, link->a, link->b, g_array_index (sizes, gint64, k));
    if (link->sampled)
      add_message (messages, PS_TRAFFIC_PING_PONG, link->key, link->a, link->b, boundary);
  }
  for (guint traffic = PS_TRAFFIC_BOTH_WAYS; traffic < PS_N_TRAFFICS; traffic++)
    for (guint k = 0; k < G_N_ELEMENTS (few); k++)
      if (k == 0 || few[k] > few[k - 1])
        add_message (messages, (PsTraffic)traffic, shapes[traffic], 0, 1, few[k]);
  /* Doubled, so that a model of that boundary has sizes that every device takes. */
  while (size < gradients && size <= G_MAXINT / 2)
    size *= 2;
  if (size > boundary)
    add_message (messages, PS_TRAFFIC_ALL_REDUCE, "", 0, 1, size);
  return messages;
}

static gboolean measure (const PsCalibration *calibration, const PsCalibOrder *order, PsMeasurement *m, GError **error)
{
  PsSamplingRule rule = calibration->rule;
  g_auto (PsSampler) sampler = { 0 };
  Transfer transfer = new_transfer (calibration, order, &sampler, &m->during);

  rule.time_limit_ns /= TIME_SHARE;
  ps_sampler_init (&sampler, &rule);
  ps_calib_tell (calibration, order);
  if (!run_transfer (&transfer, order->bytes, error))
    return FALSE;
  ps_sampler_finish (&sampler, m);
  return calibration->sink (m, calibration->data, error);
}

gboolean ps_calibrate_transfers (const PsCalibration *calibration, GError **error)
{
  g_autoptr (GArray) links = ps_calib_links (calibration->places, calibration->known);
  g_autoptr (GArray) messages = list_messages (calibration, links);
  gboolean begun = FALSE;

  for (guint i = 0; i < messages->len; i++) {
    const Message *message = &g_array_index (messages, Message, i);
    g_autoptr (PsMeasurement) m = g_new0 (PsMeasurement, 1);

    m->subject = message->order.traffic == PS_TRAFFIC_ALL_REDUCE ? PS_SUBJECT_ALL_REDUCE : PS_SUBJECT_TRANSFER;
    m->shape = g_strdup (message->shape);
    m->bytes = message->order.bytes;
    m->devices = busy_devices (calibration, (PsTraffic)message->order.traffic);
    m->sharing = calibration->sharing;
    if (m->devices == 0 || !calibration->wanted (m, calibration->data))
      continue;
    if ((!begun && !ps_calib_read_sentinel (calibration, error)) || !measure (calibration, &message->order, m, error))
      return FALSE;
    begun = TRUE;
  }
  return TRUE;
}

/* Messages of a device to itself, from device memory */

typedef struct {
  const PsTransportClass *transport;
  PsMeasurement *measurement;
  guint n; /* samples */
} SelfSend;

/* PsMeasuring.step: the transport has a loop of its own, on the device's thread. */
static gboolean send_to_itself (const PsMeasuredStep *step, gpointer data, gboolean *more, GError **error)
{
  const SelfSend *self = data;
  g_autofree gint64 *samples_ns = g_new0 (gint64, self->n);

  *more = FALSE;
  if (!self->transport->self_send (step->devices[0], (gsize)self->measurement->bytes, self->n, samples_ns, error))
    return FALSE;
  ps_measurement_complete (self->measurement, "sample cap", samples_ns, self->n);
  ps_condition_read (step->devices[0], &self->measurement->after);
  return TRUE;
}

/* By a whole accelerator: libraries of messages know no parts. */
static gboolean calibrate_self_send (const PsCalibration *calibration, const PsTransportClass *transport, gint64 bytes,
                                     GError **error)
{
  g_autoptr (PsMeasurement) m = g_new0 (PsMeasurement, 1);
  g_autoptr (GArray) stream = g_array_new (FALSE, FALSE, sizeof (PsInstruction));
  SelfSend self = { transport, m, MIN (N_SELF_SAMPLES, calibration->rule.max_samples) };
  const PsMeasuring measuring = { .n_local = 1, .step = send_to_itself, .data = &self };
  const PsRunSetting setting = { .device = calibration->device,
                                 .transport = &ps_threads_transport,
                                 .model = calibration->model,
                                 .n_steps = 1,
                                 .n_replicas = 1,
                                 .seed = calibration->seed,
                                 .measuring = &measuring };

  m->subject = PS_SUBJECT_SELF_SEND;
  m->shape = g_strconcat (transport->name, "-self", NULL);
  m->bytes = bytes;
  m->devices = m->sharing = 1;
  if (!calibration->wanted (m, calibration->data))
    return TRUE;
  return ps_measuring_run (&stream, 1, 1, 1, 1, &setting, error) && calibration->sink (m, calibration->data, error);
}

gboolean ps_calibrate_self_sends (const PsCalibration *calibration, GError **error)
{
  const gint64 boundary = ps_model_boundary_bytes (calibration->model);
  guint n;
  const PsTransportClass *const *transports = ps_transport_table (&n);

  for (guint i = 0; i < n && calibration->device->write != NULL; i++) {
    const PsTransportClass *transport = ps_transport_find (transports[i]->name, NULL);

    if (transport == NULL || transport->self_send == NULL
        || (transport->available != NULL && !transport->available (NULL)))
      continue;
    for (gint64 bytes = SMALLEST_BYTES; bytes < boundary; bytes *= SELF_STEP)
      if (!calibrate_self_send (calibration, transport, bytes, error))
        return FALSE;
    if (!calibrate_self_send (calibration, transport, boundary, error))
      return FALSE;
  }
  return TRUE;
}
