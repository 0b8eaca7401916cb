/* transports.h - what transport classes share: the names of messages, the devices that add up, and sums that go around
 * them. */
#pragma once

#include <pipesim/transport.h>

extern const PsTransportClass ps_threads_transport; /* between threads of one process */

/* Begins the structs that stand for messages and receives. */
typedef struct {
  guint peer; /* the device at the other end */
  PsOp op;
} PsMessageName;

/* The oldest entry of a queue of such structs with that name; NULL: there is none. */
GList *ps_message_find (const GQueue *queue, guint peer, PsOp op);

/* Takes it out of the queue. */
gpointer ps_message_take (GQueue *queue, guint peer, PsOp op);

/* FALSE with the error of all calls after an abort. */
static inline gboolean ps_refuse_aborted (GError **error)
{
  return ps_refuse (error, PS_ERROR_IO, "run aborted");
}

/* The error of a wait for a message that no receive has announced. */
gpointer ps_refuse_unannounced (guint own, guint peer, PsOp op, GError **error);

/* The devices of a PsCircleKind. */
typedef struct {
  guint n, own; /* devices, and the place of this one among them */
  guint first;  /* the device at place 0, counted over all pipelines */
  guint pair;   /* from it to the device that has the next place in the same pipeline; 0: there is none */
  guint step;   /* from it to the next device in another pipeline */
} PsCircle;

PsCircle ps_circle_of (const PsTransportSetting *setting, guint at, PsCircleKind kind);

/* The device at a place, which counts around, over all pipelines. */
guint ps_circle_device (const PsCircle *circle, guint place);

/* Names the numbers of a sum; no message between stages has it. */
extern const PsOp ps_sum_message;

/* A step of a sum: the device gives numbers to the next device of the circle and takes others from the previous one.
 * All lie in the host's memory. */
typedef struct {
  guint own, next, previous; /* counted over all pipelines */
  const float *given;
  gsize n_given;
  float *taken; /* where they go */
  gsize n_taken;
  gboolean adds; /* they are added to what is there; else they replace it */
} PsPass;

/* Neither end needs `given` any more when it returns, also after a failure. */
typedef gboolean (*PsPassHook) (PsTransport *transport, const PsPass *pass, GError **error);

/* A device that adds up. */
typedef struct {
  PsDevice *device;
  float *staged; /* room for numbers that are not in the host's memory; NULL until it is needed. Free with g_free */
} PsSumEnd;

/* PsTransportClass.sum for classes that only pass numbers on. */
gboolean ps_circle_sum (PsTransport *transport, const PsCircle *circle, PsPassHook pass, PsSumEnd *end,
                        PsSumHalves halves, float *values, gsize n, GError **error);

/* Returns when all devices of the circle have called it. */
gboolean ps_circle_meet (PsTransport *transport, const PsCircle *circle, PsPassHook pass, GError **error);
