/* transports.c - what transport classes share: the names of messages, the devices that add up, and sums.
 *
 * Sums go around a ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
 * 2009). The numbers are cut into shares. In each round a device adds its own numbers of one share to those that come
 * from the previous device, and passes the result on; the next round takes another share. Then the sums go around. Each
 * half of a sum is one way around the ring. So share s is added up in the order
 * s + 1, s + 2, ..., s: all devices get the same bits, over every transport and in every run. */
#include "run/transports.h"

#include "train/devices.h"

/* Longer arrays are added up piece by piece, so that what is under way stays small. */
#define PIECE_FLOATS ((gsize)4 << 20)

const PsOp ps_sum_message = { .kind = PS_OP_O };

/* Messages */

/* Equal for two ops that name the same message: B and BW hand on the same thing. */
static guint64 key_of (PsOp op)
{
  guint64 kind = op.kind == PS_OP_BW ? PS_OP_B : op.kind;

  return kind << 56 | (guint64)op.slice << 48 | (guint64)op.stage << 32 | op.microbatch;
}

GList *ps_message_find (const GQueue *queue, guint peer, PsOp op)
{
  const guint64 key = key_of (op);
  GList *link = queue->head;

  while (link != NULL) {
    const PsMessageName *name = link->data;

    if (name->peer == peer && key_of (name->op) == key)
      break;
    link = link->next;
  }
  return link;
}

gpointer ps_message_take (GQueue *queue, guint peer, PsOp op)
{
  GList *link = ps_message_find (queue, peer, op);
  gpointer message = link != NULL ? link->data : NULL;

  if (link != NULL)
    g_queue_delete_link (queue, link);
  return message;
}

gpointer ps_refuse_unannounced (guint own, guint peer, PsOp op, GError **error)
{
  char name[48];

  return ps_refuse_null (error, PS_ERROR_SCHEDULE, "device %u: waits for %s from device %u without a receive", own,
                         ps_op_format (op, name), peer);
}

/* Circles */

PsCircle ps_circle_of (const PsTransportSetting *setting, guint at, PsCircleKind kind)
{
  const guint n_tensor = MAX (setting->n_tensor, 1), device = at % setting->n_devices;
  const guint pipeline = setting->pipeline + at / setting->n_devices;
  const guint replica = pipeline / n_tensor, part = pipeline % n_tensor;
  const guint *pairs = kind == PS_CIRCLE_WEIGHTS ? setting->twin : kind == PS_CIRCLE_TIED ? setting->tied : NULL;
  const guint other = pairs != NULL ? pairs[device] : device;
  const guint first = MIN (device, other), pair = MAX (device, other) - first;

  if (kind == PS_CIRCLE_TENSOR)
    return (PsCircle){
      .n = n_tensor, .own = part, .first = replica * n_tensor * setting->n_devices + device, .step = setting->n_devices
    };
  if (kind == PS_CIRCLE_TIED)
    return (PsCircle){
      .n = pair > 0 ? 2 : 1, .own = device > first, .first = pipeline * setting->n_devices + first, .pair = pair
    };
  return (PsCircle){ .n = setting->n_replicas * (pair > 0 ? 2 : 1),
                     .own = pair > 0 ? 2 * replica + (device > first) : replica,
                     .first = part * setting->n_devices + first,
                     .pair = pair,
                     .step = n_tensor * setting->n_devices };
}

guint ps_circle_device (const PsCircle *circle, guint place)
{
  const guint at = place % circle->n;

  if (circle->pair == 0)
    return circle->first + at * circle->step;
  return circle->first + at / 2 * circle->step + at % 2 * circle->pair;
}

/* A sum of n numbers in as many shares as the circle has devices. */
typedef struct {
  PsTransport *transport;
  const PsCircle *circle;
  PsPassHook pass;
  float *values;
  gsize n;
  gsize first, length; /* of each share: what is under way now */
  float *staged;       /* [circle's n * length] a copy of that in the host's memory; NULL: values are there */
} Ring;

/* The part of share i that is under way now, i counted around, and its length *n. */
static float *share_at (const Ring *ring, guint i, gsize *n)
{
  const guint n_shares = ring->circle->n, share = i % n_shares;
  const gsize begin = ps_share_begin (ring->n, share, n_shares) + ring->first;
  const gsize end = ps_share_begin (ring->n, share + 1, n_shares);

  *n = begin < end ? MIN (end - begin, ring->length) : 0;
  return ring->staged != NULL ? ring->staged + share * ring->length : ring->values + begin;
}

/* Copies what is under way from the device to the host, or back. */
static gboolean stage (const Ring *ring, PsDevice *device, gboolean back, GError **error)
{
  Ring there = *ring;

  there.staged = NULL;
  for (guint i = 0; i < ring->circle->n; i++) {
    gsize n;
    float *values = share_at (&there, i, &n), *copy = share_at (ring, i, &n);

    if (n > 0
        && !(back ? ps_device_write (device, values, copy, n * sizeof *copy, error)
                  : ps_device_read (device, copy, values, n * sizeof *copy, error)))
      return FALSE;
  }
  return TRUE;
}

/* One half: gives share number `given` first, counted around, and the one before it in each step that follows. */
static gboolean go_around (const Ring *ring, guint given, gboolean adds, GError **error)
{
  const PsCircle *circle = ring->circle;
  PsPass pass = { .own = ps_circle_device (circle, circle->own),
                  .next = ps_circle_device (circle, circle->own + 1),
                  .previous = ps_circle_device (circle, circle->own + circle->n - 1),
                  .adds = adds };

  for (guint step = 1; step < circle->n; step++, given--) {
    pass.given = share_at (ring, given, &pass.n_given);
    pass.taken = share_at (ring, given - 1, &pass.n_taken);
    if (!ring->pass (ring->transport, &pass, error))
      return FALSE;
  }
  return TRUE;
}

gboolean ps_circle_sum (PsTransport *transport, const PsCircle *circle, PsPassHook pass, PsSumEnd *end,
                        PsSumHalves halves, float *values, gsize n, GError **error)
{
  const guint own = circle->own + 2 * circle->n;
  Ring ring = {
    .transport = transport, .circle = circle, .pass = pass, .values = values, .n = n, .length = PIECE_FLOATS / circle->n
  };

  if (circle->n == 1)
    return TRUE;
  if (end->device->class->read != NULL)
    ring.staged = end->staged = end->staged != NULL ? end->staged : g_new (float, PIECE_FLOATS);
  for (; ring.first * circle->n < n; ring.first += ring.length)
    if ((ring.staged != NULL && !stage (&ring, end->device, FALSE, error))
        || ((halves & PS_SUM_SCATTER) && !go_around (&ring, own - 1, TRUE, error))
        || ((halves & PS_SUM_GATHER) && !go_around (&ring, own, FALSE, error))
        || (ring.staged != NULL && !stage (&ring, end->device, TRUE, error)))
      return FALSE;
  return TRUE;
}

gboolean ps_circle_meet (PsTransport *transport, const PsCircle *circle, PsPassHook pass, GError **error)
{
  float none = 0;
  const Ring nothing = { .transport = transport, .circle = circle, .pass = pass, .values = &none };

  return go_around (&nothing, 2 * circle->n, FALSE, error);
}
