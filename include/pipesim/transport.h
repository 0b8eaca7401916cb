/* transport.h - what carries tensors between devices: the interface between executor, calibrator and the code under
 * exec/transport. */
#ifndef PIPESIM_TRANSPORT_H
#define PIPESIM_TRANSPORT_H

#include <pipesim/device.h>

G_BEGIN_DECLS

typedef struct _PsTransport PsTransport;
typedef struct _PsTransportClass PsTransportClass;

typedef struct
{
  guint n_devices;
  gsize message_bytes; /* of every message */
  guint capacity;      /* messages that a channel (ordered pair of devices) buffers; >= 1 */
  gint64 timeout_ns;   /* a wait longer than this fails, naming the message; 0: never */
} PsTransportSetting;

/* When a message moved, by the monotonic clock (g_get_monotonic_time has only microseconds: CLOCK_MONOTONIC in ns). */
typedef struct
{
  gint64 start_ns; /* the sender handed it over */
  gint64 end_ns;   /* the receiver could use it */
} PsTransferTimes;

/* Messages are named by the producing op: F of stage s is the activation for stage s + 1, B of stage s the gradient for
 * stage s - 1 (BW is named B). Receives may be posted and waited for in another order than the sends. */
struct _PsTransportClass
{
  const char *name; /* "threads" */
  const char *description;
  gboolean (*available) (GError **error); /* NULL: always there */

  PsTransport *(*open) (const PsTransportSetting *setting, GError **error);
  void (*close) (PsTransport *transport);

  /* Starts sending; never waits for the receiver. Takes the tensor and frees it (by its device's class) once it is
   * sent. delay_ns: the message may not be used before that much time has passed since this call (paced runs; 0
   * otherwise). */
  gboolean (*send) (PsTransport *transport, guint from, guint to, PsOp message, PsTensor *tensor, gint64 delay_ns,
                    GError **error);

  /* Announces that `at` will want that message. tensor_new of `into` is where it will land. */
  gboolean (*receive) (PsTransport *transport, guint at, guint from, PsOp message, GError **error);

  /* Sleeps (no busy CPU) until the message is there; returns it in a tensor of device `into` (caller's). */
  PsTensor *(*wait) (PsTransport *transport, guint at, guint from, PsOp message, PsDevice *into, PsTransferTimes *times,
                     GError **error);

  /* Sleeps until every message that `from` has sent was taken; then all its tensors are freed. Called by `from`'s
   * thread. */
  gboolean (*flush) (PsTransport *transport, guint from, GError **error);

  /* Wakes every waiter with PS_ERROR_IO "run aborted"; later calls fail likewise. From any thread. */
  void (*abort) (PsTransport *transport);
};

struct _PsTransport
{
  const PsTransportClass *class;
};

const PsTransportClass *const *ps_transport_table (guint *n);
const PsTransportClass *ps_transport_find (const char *name, GError **error);

G_END_DECLS

#endif
