/* device.h - devices run ops: the interface between executor, calibrator and the code under exec/train. */
#ifndef PIPESIM_DEVICE_H
#define PIPESIM_DEVICE_H

#include <pipesim/cluster.h>
#include <pipesim/costs.h>
#include <pipesim/schedule.h>

G_BEGIN_DECLS

typedef struct _PsDevice PsDevice;
typedef struct _PsDeviceClass PsDeviceClass;

/* Uses of allocated bytes. */
typedef enum {
  PS_USE_STATE,      /* weights, gradients, optimizer state, fixed workspace: from add_stage to close */
  PS_USE_ACTIVATION, /* kept from F for B and W, and needed by an op while it runs */
  PS_USE_BUFFER,     /* tensors between devices: outputs not yet sent, inputs not yet consumed */
  PS_N_USE_KINDS
} PsUseKind;

typedef struct {
  gint64 current[PS_N_USE_KINDS]; /* bytes held now */
  gint64 peak_bytes;              /* most of STATE + ACTIVATION together since the last reset_peak */
} PsMemoryUse;

/* The current bytes that count for peak_bytes. */
static inline gint64 ps_memory_use_held (const PsMemoryUse *use)
{
  return use->current[PS_USE_STATE] + use->current[PS_USE_ACTIVATION];
}

/* When something ran, by CLOCK_MONOTONIC in ns. */
typedef struct {
  gint64 start_ns;
  gint64 end_ns;
} PsTimes;

/* A boundary tensor of one slice: `bytes` of device memory. For the cpu device s*b*h floats over the slices, for
 * accelerators s*b*h elements of the model's precision in the accelerator's memory; paced and null devices have data
 * NULL and bytes 0. */
typedef struct {
  PsDevice *device; /* the device that allocated it and will free it */
  gsize bytes;
  void *data;
  gint64 ready_ns; /* when its transport had it ready, or a paced device should have made it, CLOCK_MONOTONIC; 0: made
                      on this device */
  void *ready; /* after `start`: an event of the accelerator (cudaEvent_t) that data must wait for; NULL: it is there */
} PsTensor;

/* What a training learns from, and how fast. */
typedef struct {
  GBytes *text;         /* each byte is a token; NULL: tokens drawn from the seed, the same ones in every step */
  double learning_rate; /* learning rate of Adam, at its highest */
  double least_rate;    /* at the end of the decay */
  guint warm_up;        /* steps in which the rate rises to its highest */
  guint decay;          /* the rate falls as a cosine from the warm-up to this step and then stays; 0: no decay */
} PsTraining;

typedef struct {
  const PsModel *model; /* NULL allowed for classes that do not compute */
  const PsCosts *costs; /* paced: durations; others ignore it; NULL allowed */
  double speed;         /* paced: an op takes 1 / speed of its duration; 0 counts as 1 */
  guint n_stages;       /* stages of the whole model */
  guint n_microbatches;
  guint n_summed;             /* microbatches of each replica whose gradients an O takes; 0: all of them */
  gboolean tentative;         /* O makes weights for the ops that follow, and `settle` makes the step final */
  gboolean endless;           /* no meeting of all devices comes before or after an O */
  guint n_slices;             /* slices of each sequence; 0 counts as 1 */
  gboolean forward_only;      /* every op is an F: it keeps keys and values only, and the last slice of a sequence drops
                                 those of all */
  const guint *slice_tokens;  /* [n_slices] tokens of each; messages keep the size of the longest. NULL: equally long */
  guint n_versions;           /* versions of the weights that the schedule keeps on this device; 0 counts as 1 */
  int core;                   /* logical core for the thread that will use the device; -1: leave it to the system */
  guint64 seed;               /* seed of weights and data: equal seeds, equal bits, however the model is cut */
  const PsTraining *training; /* NULL: no text, and a rate of 0.001 throughout */

  /* For classes on accelerators; others ignore these. This host runs n_local devices (0 counts as 1), and this one is
   * number `index` of them. They spread over the accelerators in runs of equal length; the devices on one accelerator
   * share it. */
  guint index;
  guint n_local;
  const guint *shares; /* [n_local] proportion in which devices on one accelerator split it, each above 0, rounded to
                          what the hardware can split; NULL: equal parts */
  gboolean exclusive;  /* every device has an accelerator to itself: accelerator number `index` of its process. Numbers
                          wrap around where a launcher shows each process its own accelerator  only */

  const guint *parts; /* [n_stages] each stage takes the choices of a device whose `part` is that; NULL: the device's
                         own. For a reference that has to give the bits of a run on parts */

  /* n_replicas copies of the pipeline (0 counts as 1) train together, each with microbatches of its own. Microbatch i
   * of this one is number replica * n_microbatches + i of the data; O divides by the microbatches of all. */
  guint replica;
  guint n_replicas;

  /* n_tensor devices (0 counts as 1) share the layers of their stages, as in Megatron-LM (arXiv 1909.08053, section 3),
   * and this one has part `tensor`: heads of attention and columns of the feed-forward. Embedding, norms, head and
   * boundary tensors are whole on each. */
  guint tensor;
  guint n_tensor;

  /* Ops call it: replaces n numbers by their sums over the devices that share the layer, the same bits on each, for all
   * that follows in the device's queue (see PsDeviceClass.stream). All of them run the same ops in the same order.
   * NULL: ops leave their sums out, to be timed without them. */
  gboolean (*add_up) (gpointer data, float *values, gsize n, GError **error);
  gpointer add_up_data;

  gboolean pairs; /* the schedule has pairs of ops, see PsDeviceClass.overlaps */

  gboolean sharded; /* the optimizer state of each stage is spread over the replicas (ZeRO stage 1): this one has share
                       `replica` of them, see ps_share_begin, and O steps the parameters of that share alone */

  /* Microbatches may have different lengths. */
  const guint16 *length;    /* PsSchedule.length, for costs of several lengths; NULL: they are alike */
  const guint8 *recomputed; /* ps_schedule_recomputed: those microbatches of a stage have an R, so that their F keeps
                               what full recomputation does, if the stage's shape says none; NULL: there is no R */
  const guint *tokens; /* [n_tokens] of the sequences of microbatch i modulo n_tokens, from 1 to the model's; messages
                          keep their size, and n_slices is 1. NULL: all have the model's */
  guint n_tokens;

  guint ahead;       /* ops that `start` may start before an earlier one has ended; 0: only `run` is called */
  gint64 timeout_ns; /* longest wait for one op of these; 0: for ever */
} PsDeviceSetting;

/* Where share i of n numbers begins that are divided into n_shares; share i ends where the next one begins. */
static inline gsize ps_share_begin (gsize n, guint i, guint n_shares)
{
  return n * i / n_shares;
}

/* The arrays of numbers that a training goes on from. */
typedef enum {
  PS_STATE_WEIGHTS,
  PS_STATE_FIRST_MOMENT, /* first moment of Adam */
  PS_STATE_SECOND_MOMENT,
  PS_N_STATE_ARRAYS
} PsStateArray;

typedef struct {
  gsize n; /* parameters of the stage */
  float *array[PS_N_STATE_ARRAYS];
  guint64 n_updates; /* how often O has run */
} PsStageState;

/* Numbers of some devices of one process, to be added up. */
typedef struct {
  PsDevice *const *devices; /* [n_devices] */
  float *const *values;     /* [n_devices] where the n numbers of each are */
  guint n_devices;
  guint own; /* the place of this thread's device */
  gsize n;
} PsDeviceSum;

typedef enum {
  PS_SUM_SHOW, /* first, of this device alone (n_devices 1) */
  PS_SUM_ADD,  /* when all have done that: adds up in memory of the device's own */
  PS_SUM_TAKE, /* when all have done that: the sums replace the numbers */
} PsSumPhase;

/* One pipeline rank's compute device. All calls on one device come from one thread at a time, which has called attach
 * first. Functions that can fail return FALSE or NULL and set an error that begins with the stage where one is
 * involved. No hook may be NULL unless its comment says so. */
struct _PsDeviceClass {
  const char *name;        /* "cpu" */
  const char *description; /* one line */
  gboolean computes;       /* TRUE: losses and gradients are real numbers */
  gboolean measures;       /* TRUE: its op times are worth calibrating */
  gboolean splits;         /* TRUE: PsDeviceSetting.shares means something */
  gboolean tensor;         /* TRUE: PsDeviceSetting.n_tensor means something */
  gboolean lengths;        /* TRUE: PsDeviceSetting.tokens means something */
  gboolean overlaps;       /* TRUE: with PsDeviceSetting.pairs both ops of a pair run at the same time */

  /* NULL: always there. Else says in one line why the class cannot be used here (PS_ERROR_UNAVAILABLE). Called before
   * every other hook but libraries. */
  gboolean (*available) (GError **error);

  /* setting and what it points to outlive the device. */
  PsDevice *(*open) (const PsDeviceSetting *setting, GError **error);
  void (*close) (PsDevice *device);

  /* Binds the calling thread to the device (core pinning, library thread counts). */
  gboolean (*attach) (PsDevice *device, GError **error);

  /* Where a device of that setting stands in its machine (costdb.h); it need not be open. NULL: not known. Free with
   * g_free. */
  char *(*place) (const PsDeviceSetting *setting);

  /* Makes a stage resident: weights from (seed, layer number), gradients and optimizer state zero. */
  gboolean (*add_stage) (PsDevice *device, guint stage, const PsStageShape *shape, GError **error);

  /* A tensor of the boundary size, in PS_USE_BUFFER. */
  PsTensor *(*tensor_new) (PsDevice *device);
  void (*tensor_free) (PsTensor *tensor);

  /* For classes whose tensors are not host memory: copies all `bytes` of a tensor from and to host memory. NULL: data
   * is host memory. The calling thread has attached the tensor's device. */
  gboolean (*write) (PsTensor *tensor, const void *bytes, GError **error);
  gboolean (*read) (PsTensor *tensor, void *bytes, GError **error);

  /* Copies a tensor of another device of the class to one of this thread's device; done on return. No op uses the
   * source meanwhile. With PsDeviceSetting.ahead it may return before: the copy waits for the op that makes the source,
   * the next op waits for the copy, the memory of the source is not used again before, and *times, which must stay, is
   * the copy's own when `await` has returned. NULL: memcpy does it. */
  gboolean (*copy) (PsTensor *to, PsTensor *from, PsTimes *times, GError **error);

  /* Called before the first op of a step, number `step` of the training, counted from 0: until the next call F and W
   * read its data, and O takes its learning rate (train/data.h). NULL: nothing to do. */
  gboolean (*begin) (PsDevice *device, guint64 step, GError **error);

  /* Ops of the stage read the weights as they were after `version` O, until its next O. The newest
   * n_versions are kept; PS_ERROR_SCHEDULE for another one. NULL: only one is. */
  gboolean (*use_version) (PsDevice *device, guint stage, guint64 version, GError **error);

  /* Between the last W of a stage and its O: the square of the norm of the gradients that O would use. Where devices
   * share layers, all of theirs add up to that of the stage. NULL: the class neither knows norms nor scales gradients.
   */
  double (*norm_square) (PsDevice *device, guint stage);

  /* Steps the optimizer with the gradients times scale, whether a tentative O has run or not, and clears them. 1: as O;
   * 0: weights and optimizer state stay as they were. NULL where norm_square is. */
  gboolean (*settle) (PsDevice *device, guint stage, float scale, GError **error);

  /* Drops all that F has kept for backwards that have not run. NULL where norm_square is. */
  void (*forget) (PsDevice *device);

  /* Runs one op and returns when its result may be sent; that of the first op of a pair may be sent when the second has
   * returned, and nothing but memory, reset_peak, begin and use_version is called meanwhile.
   *
   * - F: input is the activation from stage - 1 (taken), NULL on stage 0, which reads the tokens of its microbatch;
   *   *output the activation for stage + 1 (caller's), NULL on the last stage, which notes the loss.
   * - B: input is the gradient from stage + 1 (taken), NULL on the last stage; *output the gradient for stage - 1, NULL
   *   on stage 0.
   * - W: no input, no output; adds to the stage's weight gradients.
   * - BW: as B, and adds to the weight gradients: the bits are those of B followed by W.
   * - O: microbatch ignored; one Adam step with the gradients divided by the number of microbatches (n_summed); clears
   *   them. It makes the next version of the stage's weights.
   *
   * Tokens and targets depend on seed and microbatch, and with a text on the step: see `begin`. */
  gboolean (*run) (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, GError **error);

  /* As run, but returns when the op is in the device's queue: after all that was started before, and counted in memory
   * as if it were done. Its result may be sent (PsTensor.ready). Sleeps first until at most PsDeviceSetting.ahead ops
   * are unfinished. *times must stay: it is the op's own when `await` has returned. NULL: ops run one by one. */
  gboolean (*start) (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, PsTimes *times, GError **error);

  /* Sleeps until all that was started is done. The error names the op that has failed, and says how many ops after it
   * may have failed too. NULL where start is. */
  gboolean (*await) (PsDevice *device, GError **error);

  /* Loss of a microbatch from the latest F on the last stage; NaN for classes that do not compute. */
  double (*loss) (PsDevice *device, guint microbatch);

  /* Accumulated gradients of a stage as one array of floats in a fixed order (*n elements), valid until the next run.
   * Where devices share layers, the array is that of the whole stage: all of theirs add up to it. NULL for classes that
   * do not compute. */
  const float *(*gradients) (PsDevice *device, guint stage, gsize *n);

  /* The same numbers where they lie in the device's own memory, for transports that add them up over replicas. NULL:
   * replicas are not supported. */
  float *(*gradient_memory) (PsDevice *device, guint stage, gsize *n);

  /* The newest weights of a stage, in the order of `gradients`, where they lie in the device's own memory. After an O
   * the transport fills in the shares of the other replicas. NULL: the class holds the whole optimizer state. */
  float *(*weight_memory) (PsDevice *device, guint stage, gsize *n);

  /* Copies the state of a stage to or from arrays on the host, in the order of `gradients` and as whole as these. A
   * sharded device copies its own share of moments, in its place. NULL, both: the class has none. */
  gboolean (*read_state) (PsDevice *device, guint stage, PsStageState *state, GError **error);
  gboolean (*write_state) (PsDevice *device, guint stage, const PsStageState *state, GError **error);

  /* The accelerator's queue (cudaStream_t) in which ops run, for transports that add up within ops in its order. NULL:
   * there is none, and sums are done when add_up returns. */
  void *(*stream) (PsDevice *device);

  /* Adds up within ops in the order of `stream`: each phase goes into the queue and returns. n is at most a boundary
   * tensor's. SHOW returns FALSE without an error for numbers in the host's memory, which are not for this hook. NULL
   * where stream is, or the transport adds up in a copy on the host. */
  gboolean (*sum) (const PsDeviceSum *sum, PsSumPhase phase, GError **error);

  /* Time of the latest run on the accelerator itself, without the host's part in it. NULL: the class knows no such
   * difference. */
  gint64 (*op_ns) (PsDevice *device);

  /* Empties the caches that ops find their data in, and waits for that. NULL: not possible. */
  gboolean (*flush_cache) (PsDevice *device, GError **error);

  /* Keeps n_blocks multiprocessors of a whole accelerator from ops until the next call, as pending receives of a
   * transport do. It lasts a second at most; 0: none. NULL: not possible. */
  gboolean (*occupy) (PsDevice *device, guint n_blocks, GError **error);

  /* The state of the hardware at this moment; may take milliseconds. From any thread, even while the device's own runs
   * an op. NULL: nothing is known of it. */
  void (*condition) (PsDevice *device, PsCondition *condition);

  /* Devices among which this one's accelerator is split, this one included. NULL: each has its own. */
  guint (*sharing) (PsDevice *device);

  /* The size of the device's part of an accelerator, in multiprocessors: parts of one size make the same choices. NULL:
   * choices do not depend on it. */
  guint (*part) (PsDevice *device);

  /* choices: the decisions that the class has made by timing in this process and that decide the bits it computes. The
   * bytes mean the same to other processes and are stored with profiles. Free with g_bytes_unref.
   *
   * adopt_choices: takes over such decisions; they replace own ones where both have decided. Decisions of another
   * accelerator or version of a library are passed over. PS_ERROR_INPUT for bytes that are no choices. NULL, both: the
   * class decides nothing so.
   */
  GBytes *(*choices) (PsDevice *device);
  gboolean (*adopt_choices) (PsDevice *device, GBytes *choices, GError **error);

  void (*memory) (PsDevice *device, PsMemoryUse *use);
  void (*reset_peak) (PsDevice *device); /* peak := current */

  /* Model of the hardware that computes: "NVIDIA H200 (132 multiprocessors)". NULL hook or result: the host's
   * processor. Free with g_free. */
  char *(*processor) (void);

  /* The libraries that a measurement depends on: "OpenBLAS 0.3.21 SkylakeX". NULL hook: nothing to say. Free with
   * g_free. */
  char *(*libraries) (void);

  /* One line of what makes the devices opened so far slower than they could be: a part of their accelerator that is
   * idle, a library that does not know the processor. NULL hook or result: nothing does. Free with g_free. */
  char *(*warning) (void);
};

/* The member that names a class; class itself is a word of C++. */
#ifdef __cplusplus
#define PS_CLASS class_
#else
#define PS_CLASS class
#endif

/* Implementations put this first in their own struct. */
struct _PsDevice {
  const PsDeviceClass *PS_CLASS;
};

/* The table of classes, to be listed: those of modules have names and descriptions only. ps_device_find loads the
 * module where the class is in one. Errors: PS_ERROR_USAGE with the names that there are, PS_ERROR_UNAVAILABLE where
 * the module is not there or can't be loaded. Part of libpipesim-exec. */
const PsDeviceClass *const *ps_device_table (guint *n);
const PsDeviceClass *ps_device_find (const char *name, GError **error);

/* Cores that this process may use, of which PsDeviceSetting.core is one; 0: not known. Part of libpipesim-exec. */
guint ps_count_cores (void);

/* PsDeviceSetting.shares of n devices from a list as ps_shares_parse reads it. where: the option, for errors
 * (PS_ERROR_USAGE). Free with g_free. */
guint *ps_device_shares_parse (const PsDeviceClass *PS_CLASS, const char *where, const char *text, guint n,
                               GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
