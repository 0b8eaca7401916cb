/* device.h - the interface of devices, which run ops: between executor, calibrator and the code under exec/device. */
#ifndef PIPESIM_DEVICE_H
#define PIPESIM_DEVICE_H

#include <pipesim/condition.h>
#include <pipesim/costs.h>
#include <pipesim/schedule.h>
#include <pipesim/shares.h>

G_BEGIN_DECLS

typedef struct _PsDevice PsDevice;
typedef struct _PsDeviceClass PsDeviceClass;

/* The purpose of allocated bytes. */
typedef enum
{
  PS_USE_STATE,      /* weights, gradients, optimizer state, fixed workspace: from add_stage to close */
  PS_USE_ACTIVATION, /* kept from F for B and W, and scratch of an op while it runs */
  PS_USE_BUFFER,     /* tensors on their way: outputs not yet sent, inputs not yet consumed */
  PS_N_USE_KINDS
} PsUseKind;

typedef struct
{
  gint64 current[PS_N_USE_KINDS]; /* bytes held now */
  gint64 peak_bytes;              /* largest STATE + ACTIVATION since the last reset_peak */
} PsMemoryUse;

/* STATE + ACTIVATION: peak_bytes is the largest value of this sum. */
static inline gint64
ps_memory_use_held (const PsMemoryUse *use)
{
  return use->current[PS_USE_STATE] + use->current[PS_USE_ACTIVATION];
}

/* A boundary tensor: `bytes` of device memory. The cpu device has s*b*h floats. Accelerators have s*b*h elements of the
 * model's precision in their own memory. paced and null devices have data NULL and bytes 0. */
typedef struct
{
  PsDevice *device; /* the owner: it allocated the tensor and frees it */
  gsize bytes;
  void *data;
  gint64 ready_ns; /* when its transport had it ready, CLOCK_MONOTONIC; 0: made on this device */
} PsTensor;

typedef struct
{
  const PsModel *model; /* NULL allowed for classes that do not compute */
  const PsCosts *costs; /* paced: durations; others ignore it; NULL allowed */
  guint n_stages;       /* stages of the whole model */
  guint n_microbatches;
  guint n_versions; /* versions of the weights that the schedule keeps on this device; 0 counts as 1 */
  int core;         /* logical core for the thread that will use the device; -1: leave it to the system */
  guint64 seed;     /* seed of weights and data: equal seeds give equal bits, however the model is cut */

  /* For classes on accelerators; others ignore it. This host runs n_local devices (0 counts as 1), and this one is
   * number `index` of them. They spread over the accelerators in runs of equal length. Devices on one accelerator share
   * it. */
  guint index;
  guint n_local;
  /* [n_local] proportions in which devices split the accelerator they share, each above 0. They are rounded to pieces
   * that the hardware can split off. NULL: equal parts. */
  const guint *shares;
  /* TRUE: every device has an accelerator to itself. This device takes number `index` of the accelerators that its
   * process sees, modulo their number: some launchers show each process only its own. */
  gboolean exclusive;

  /* [n_stages] part[s]: stage s takes the choices of a device whose `part` hook returns that number. NULL: the device's
   * own. A reference run uses this to give the bits of a run on parts. */
  const guint *parts;

  /* n_replicas copies of the pipeline (0 counts as 1) train together, each with its own microbatches. Microbatch i of
   * this copy is number replica * n_microbatches + i of the data. O divides by the microbatches of all copies. */
  guint replica;
  guint n_replicas;
} PsDeviceSetting;

/* The compute device of one pipeline rank. All calls on one device come from one thread at a time, and that thread has
 * called attach first. Functions that can fail return FALSE or NULL and set an error. The error begins with the stage
 * where one is involved.
 *
 * No hook may be NULL unless its comment says so. A class of the table that stands for a module has only the hooks that
 * take no device. The other hooks are called through the open device's own class. */
struct _PsDeviceClass
{
  const char *name;        /* "cpu" */
  const char *description; /* one line */
  gboolean computes;       /* TRUE: losses and gradients are real numbers */
  gboolean measures;       /* TRUE: its op times are worth calibrating */
  gboolean splits;         /* TRUE: PsDeviceSetting.shares has an effect */

  /* Says in one line why the class can't be used here (PS_ERROR_UNAVAILABLE). It is called before every other hook
   * except libraries. NULL: always available. */
  gboolean (*available) (GError **error);

  /* setting and everything it points to outlive the device. */
  PsDevice *(*open) (const PsDeviceSetting *setting, GError **error);
  void (*close) (PsDevice *device);

  /* Binds the calling thread to the device (core pinning, library thread counts). */
  gboolean (*attach) (PsDevice *device, GError **error);

  /* Makes a stage resident: weights from (seed, layer number), gradients and optimizer state zero. */
  gboolean (*add_stage) (PsDevice *device, guint stage, const PsStageShape *shape, GError **error);

  /* A tensor of the boundary size, in PS_USE_BUFFER. */
  PsTensor *(*tensor_new) (PsDevice *device);
  void (*tensor_free) (PsTensor *tensor);

  /* Copy all `bytes` of a tensor from and to host memory. The calling thread has attached the tensor's device. NULL:
   * data is host memory. */
  gboolean (*write) (PsTensor *tensor, const void *bytes, GError **error);
  gboolean (*read) (PsTensor *tensor, void *bytes, GError **error);

  /* Copies a tensor of another device of the class to a tensor of this thread's device, and returns when it is done. No
   * op uses `from` during the call. NULL: memcpy does it. */
  gboolean (*copy) (PsTensor *to, const PsTensor *from, GError **error);

  /* Runs one op and returns when its result may be sent.
   *
   * - F: input is the activation from stage - 1 (taken), NULL on stage 0, which reads the tokens of its microbatch;
   *   *output is the activation for stage + 1 (caller's), NULL on the last stage, which notes the loss.
   * - B: input is the gradient from stage + 1 (taken), NULL on the last stage; *output is the gradient for stage - 1,
   *   NULL on stage 0.
   * - W: no input, no output; adds to the stage's weight gradients.
   * - BW: as B, and adds to the weight gradients: the bits are those of B followed by W.
   * - O: microbatch ignored; one Adam step with the gradients divided by the number of microbatches; clears them.
   *
   * Tokens and targets depend on seed and microbatch alone, not on the step: the batch is fixed. */
  gboolean (*run) (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, GError **error);

  /* Returns the loss of a microbatch from the latest F on the last stage; NaN for classes that do not compute. */
  double (*loss) (PsDevice *device, guint microbatch);

  /* Returns the accumulated gradients of a stage as one array of floats in a fixed order (*n elements), valid until the
   * next run. NULL for classes that do not compute. */
  const float *(*gradients) (PsDevice *device, guint stage, gsize *n);

  /* Returns the same numbers in the device's own memory, for transports that add them up over replicas. NULL: replicas
   * are not supported. */
  float *(*gradient_memory) (PsDevice *device, guint stage, gsize *n);

  /* Returns how long the latest run took on the accelerator itself, without the host's part. NULL: the class has no
   * separate time. */
  gint64 (*op_ns) (PsDevice *device);

  /* Empties the caches in which ops find their data, and waits for that. NULL: not possible. */
  gboolean (*flush_cache) (PsDevice *device, GError **error);

  /* Keeps n_blocks multiprocessors of a whole accelerator from ops, as pending receives of a transport do. They are
   * kept until the next call, but for one second at most. 0: none. NULL: not possible. */
  gboolean (*occupy) (PsDevice *device, guint n_blocks, GError **error);

  /* Reads the state of the hardware at this moment; this may take milliseconds. Any thread may call it, also while the
   * device's own thread runs an op. NULL: the state is not known. */
  void (*condition) (PsDevice *device, PsCondition *condition);

  /* Returns the number of devices that this one's accelerator is split among, this one included. NULL: each has its
   * own. */
  guint (*sharing) (PsDevice *device);

  /* Returns the size of the device's part of an accelerator, in multiprocessors. Parts of one size make the same
   * choices. NULL: choices don't depend on it. */
  guint (*part) (PsDevice *device);

  /* choices returns the decisions that the class made by timing in this process and that decide the bits of its
   * results. The bytes mean the same to other processes and are stored with profiles. Free with g_bytes_unref.
   *
   * adopt_choices takes over the choices of another process; they replace own choices where both have decided. It
   * ignores choices for another accelerator or version of a library. PS_ERROR_INPUT: the bytes are no choices. NULL,
   * both: the class makes no such choices. */
  GBytes *(*choices) (PsDevice *device);
  gboolean (*adopt_choices) (PsDevice *device, GBytes *choices, GError **error);

  void (*memory) (PsDevice *device, PsMemoryUse *use);
  void (*reset_peak) (PsDevice *device); /* peak := current */

  /* Returns the model of the hardware that computes: "NVIDIA H200 (132 multiprocessors)". NULL hook or result: the
   * host's processor. Free with g_free. */
  char *(*processor) (void);

  /* Returns the versions that one must know to reproduce a measurement: "OpenBLAS 0.3.21 SkylakeX". NULL hook: nothing
   * to add. Free with g_free. */
  char *(*libraries) (void);

  /* Returns one line if the devices opened so far leave more than a tenth of their accelerator idle. NULL hook or
   * result: they do not. Free with g_free. */
  char *(*idle) (void);
};

/* Implementations put this first in their own struct. */
struct _PsDevice
{
  const PsDeviceClass *class;
};

/* The table of classes in this build. ps_device_find fails with PS_ERROR_USAGE and lists the names. Part of
 * libpipesim-exec. */
const PsDeviceClass *const *ps_device_table (guint *n);
const PsDeviceClass *ps_device_find (const char *name, GError **error);

/* Returns the number of cores that this process may use; PsDeviceSetting.core is one of them. 0: not known. Part of
 * libpipesim-exec. */
guint ps_count_cores (void);

/* Reads PsDeviceSetting.shares of n devices from a list, as ps_shares_parse does. where: the option, for errors
 * (PS_ERROR_USAGE). Free with g_free. */
guint *ps_device_shares_parse (const PsDeviceClass *class, const char *where, const char *text, guint n,
                               GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
