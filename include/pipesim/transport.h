/* transport.h - carries tensors between devices: the interface between executor, calibrator and the code under
 * exec/run. */
#ifndef PIPESIM_TRANSPORT_H
#define PIPESIM_TRANSPORT_H

#include <pipesim/device.h>

G_BEGIN_DECLS

typedef struct _PsTransport PsTransport;
typedef struct _PsTransportClass PsTransportClass;

/* The devices of a run, for a transport that connects them and that finds out by itself when one of them fails. */
typedef struct {
  gpointer data;

  /* Every device gives n_bytes and gets the bytes of all: all[(pipeline * n_devices + device) * n_bytes]. The thread of
   * each device calls it as often and with the same sizes as all others do. */
  gboolean (*exchange) (gpointer data, guint device, gconstpointer mine, gsize n_bytes, gpointer all, GError **error);

  /* Ends the run everywhere with an error (taken), which aborts this transport. From any thread. */
  void (*fail) (gpointer data, GError *error);
} PsTransportGroup;

typedef struct {
  /* All classes read these. */
  guint n_devices;
  gsize message_bytes; /* bytes of every message */
  gint64 timeout_ns;   /* a wait longer than this fails, naming the message; 0: never */

  /* Where pipelines train together; others may find zeros. Pipeline replica * n_tensor + part has that part of every
   * layer (see PsDeviceSetting). Device d of pipeline k belongs to the process of rank (k * n_devices + d) / n_here. */
  guint first; /* the devices of this process are first .. first + n_here - 1, from n_devices on those of the next
                  pipelines: hooks know them by these numbers, and their peers too */
  guint n_here;
  guint pipeline; /* the pipeline that device `first` belongs to */
  guint n_replicas;
  guint n_tensor;    /* 0 counts as 1 */
  const guint *twin; /* [n_devices] the device with the same stages in the other weight copy; NULL: one copy */
  const guint *tied; /* [n_devices] for devices of embedding and head that share a matrix, the device with the other
                        one; itself for all else. NULL: nothing is shared */
  gint64 clock_offset_ns; /* add it to a time of this process to get the time by the clock of all */
  const PsTransportGroup *group;

  /* For classes that number messages by their names (mpi): names have stages and slices below these; 0: 256 and 8. */
  guint n_stages;
  guint n_slices;

  /* For classes with a join hook that open channels one by one, on accelerators that they choose (nccl). */
  guint local;        /* number of device `first` among all devices of this host */
  const guint8 *uses; /* [from * n_devices + to] whether messages go from one to the other */
} PsTransportSetting;

/* The devices that add up numbers together: a device and ... */
typedef enum {
  PS_CIRCLE_WEIGHTS,  /* its twin, replica after replica: they have the same weights */
  PS_CIRCLE_REPLICAS, /* itself in all replicas */
  PS_CIRCLE_TENSOR,   /* the devices that have the other parts of its layers */
  PS_CIRCLE_TIED,     /* the one in its pipeline that shares a matrix with it */
  PS_N_CIRCLE_KINDS
} PsCircleKind;

/* The halves of a sum; a circle's numbers are in as many shares as it has devices (ps_share_begin). */
typedef enum {
  PS_SUM_SCATTER = 1, /* each device gets the sums of its share; its other shares become undefined */
  PS_SUM_GATHER = 2,  /* each device gives its share, and all get all shares; the memory is the host's own */
  PS_SUM_WHOLE = PS_SUM_SCATTER | PS_SUM_GATHER,
} PsSumHalves;

/* When a message moved: start_ns: the sender handed it over; 0: only the sender knows. end_ns: the receiver could use
 * it. Where the device runs ahead of its host (PsDeviceSetting.ahead), only after its `await`. */
typedef PsTimes PsTransferTimes;

/* Messages are named by the producing op: F of stage s is the activation for stage s + 1, B of stage s the gradient for
 * stage s - 1 (BW is named B). Receives may be posted and waited for in another order than the sends. No hook may be
 * NULL unless said. */
struct _PsTransportClass {
  const char *name; /* "threads" */
  const char *description;
  gboolean spans_processes; /* the devices may be in several processes */
  gboolean ordered;         /* both ends of a channel must send and receive its messages in one order */
  gboolean exclusive;       /* devices can't share an accelerator */
  gboolean occupies;        /* a posted receive holds part of the accelerator until it is done */
  gboolean splits_sums;     /* `sum` knows all circles and halves; else the whole, and not PS_CIRCLE_REPLICAS */

  /* Says in one line why the class can't be used here (PS_ERROR_UNAVAILABLE). NULL: it always can. */
  gboolean (*available) (GError **error);

  /* The libraries that a measurement depends on: "Open MPI v4.1.4". NULL hook: none. Free with g_free. */
  char *(*libraries) (void);

  /* The memory that setting points to outlives the transport. */
  PsTransport *(*open) (const PsTransportSetting *setting, GError **error);
  void (*close) (PsTransport *transport);

  /* Connects a device of this process to its peers and warms the connections up. Each device's own thread, which has
   * attached the device, calls it once before any other call for the device. NULL: nothing to do. */
  gboolean (*join) (PsTransport *transport, guint at, PsDevice *device, GError **error);

  /* Gives up the connections of a device; the device's thread calls it last. NULL: nothing to do. */
  void (*part) (PsTransport *transport, guint at);

  /* Starts sending; never waits for the receiver. Takes the tensor and frees it (by its device's class) once it is
   * sent. Data may still have to wait for PsTensor.ready. delay_ns: the message may not be used before that much time
   * has passed since this call (paced runs; 0 otherwise). The receiver's tensor is ready delay_ns after the sender's
   * was (PsTensor.ready_ns; 0: at this call), but not before the message came. */
  gboolean (*send) (PsTransport *transport, guint from, guint to, PsOp message, PsTensor *tensor, gint64 delay_ns,
                    GError **error);

  /* Announces that `at` will want that message. tensor_new of `into` is where it will land. */
  gboolean (*receive) (PsTransport *transport, guint at, guint from, PsOp message, GError **error);

  /* Sleeps (no busy CPU) until the message is there, or until the next op of `into` will find it there; returns it in a
   * tensor of device `into` (caller's). *times must stay until the device's `await`. */
  PsTensor *(*wait) (PsTransport *transport, guint at, guint from, PsOp message, PsDevice *into, PsTransferTimes *times,
                     GError **error);

  /* Sleeps until every message that `from` has sent was taken, or its bytes have left; then all its tensors are freed.
   * Called by `from`'s thread. */
  gboolean (*flush) (PsTransport *transport, guint from, GError **error);

  /* Adds up the n numbers at `values`, in the device's own memory, over the devices of a circle, also while messages
   * run. All of them call it in the same order; done on return, or over PS_CIRCLE_TENSOR in the order of
   * PsDeviceClass.stream. Each gets the same bits. The two halves one after the other give the bits of the whole. Over
   * PS_CIRCLE_TENSOR the numbers may also be in the host's memory. NULL: the class does not add up. */
  gboolean (*sum) (PsTransport *transport, guint at, PsCircleKind kind, PsSumHalves halves, float *values, gsize n,
                   GError **error);

  /* Times n_samples messages of n_bytes from a device to itself, which take as long as launching a transfer does.
   * samples_ns[n_samples]. The calling thread has attached the device. NULL: there is nothing to launch. */
  gboolean (*self_send) (PsDevice *device, gsize n_bytes, guint n_samples, gint64 *samples_ns, GError **error);

  /* Wakes every waiter with PS_ERROR_IO "run aborted"; later calls fail with the same error. From any thread. */
  void (*abort) (PsTransport *transport);
};

struct _PsTransport {
  const PsTransportClass *PS_CLASS;
};

/* The table of classes, to be listed: those of modules have names, descriptions and `occupies` only. ps_transport_find
 * loads the module where the class is in one. Errors: PS_ERROR_USAGE with the names that there are,
 * PS_ERROR_UNAVAILABLE where the module is not there or can't be loaded. Part of libpipesim-exec. */
const PsTransportClass *const *ps_transport_table (guint *n);
const PsTransportClass *ps_transport_find (const char *name, GError **error);

G_END_DECLS

#endif
