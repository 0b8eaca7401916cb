/* measuring.h - runs that measure (ps_measuring_run). The program is made of streams that somebody writes: nothing in
 * it makes what an op or a send takes, so the run makes that, and drops what nobody takes. */
#pragma once

#include "train/conditions.h"

#include <pipesim/costdb.h>
#include <pipesim/program.h>

/* What one instruction of a step did, by CLOCK_MONOTONIC. A wait has the times of the transfer (PsTransferTimes), a
 * send begins when the message is handed over. An O that is no instruction is one of PsMeasuring.n_sums.
 */
typedef struct {
  PsInstruction instruction;
  guint device; /* as transports number those of this process */
  PsTimes times;
  gint64 own_ns;     /* of an op: the accelerator's own time; 0: not known */
  gint64 take_bytes; /* of an op: what memory rises while it runs, and falls from there to its end */
  gint64 give_bytes;
} PsMeasuredEvent;

/* A step that has ended. */
typedef struct {
  guint number;              /* from 0; the first one warms up */
  const GArray *events;      /* of PsMeasuredEvent: those of one device after the other, in the order of its stream */
  PsDevice *const *devices;  /* of this process */
  PsConditions *conditions;  /* of these devices, by their numbers from 0; NULL: not known */
  const gint64 *state_bytes; /* [device * stages + stage] what adding each took */
} PsMeasuredStep;

/* How a run measures; see PsRunSetting.measuring. O stands in the streams: no other follows a step. */
typedef struct {
  const guint *places;          /* [devices] PsDeviceSetting.index of each; NULL: their numbers */
  guint n_local;                /* devices of one pipeline that this host is said to run at the same time */
  const PsModel *const *models; /* [devices]; NULL: all have that of the run, whose boundary messages have */
  gboolean cold;                /* caches are emptied before each op, which the class can */
  guint n_blocks;               /* multiprocessors that are kept from each op, which the class can; 0: none */
  guint n_sums;                 /* sums of a message's numbers over the replicas, at the end of each step */

  /* After each step, while all devices wait: one thread of each process calls it, the one that has attached the first
   * device here. *more: run another step; all processes have to say the same. */
  gboolean (*step) (const PsMeasuredStep *step, gpointer data, gboolean *more, GError **error);
  gpointer data;
} PsMeasuring;

/* Adds one instruction to a stream. peer: for sends, receives and waits, whose message has the name of `op`. */
void ps_stream_add (GArray *stream, PsInstructionType type, PsOp op, guint peer);

/* What a device takes that nobody makes. Its numbers are made once and copied from then on: making them takes longer
 * than an op, and neighbours would not be busy. */
typedef struct {
  PsTensor *activation, *gradient; /* originals to copy; NULL before first use */
} PsLoneInputs;

/* Returns a tensor for an op, of ordinary numbers: between -1 and 1, or a thousandth of that for a backward. Only
 * devices that compute need them. NULL: there is no memory for it, or it can't be filled. precision: the model's. The
 * calling thread has attached the device. */
PsTensor *ps_lone_input (PsLoneInputs *inputs, PsDevice *device, PsPrecision precision, PsOpKind kind, GError **error);
void ps_lone_inputs_clear (PsLoneInputs *inputs);

/* A stage of one layer in the middle of a model, which takes inputs from both sides, as a load or to be timed. */
#define PS_LAYER_STAGES 3
#define PS_LAYER_STAGE 1

/* sentinel.c: the sentinel is one op that is timed again and again: F of one layer on a whole accelerator while nothing
 * else is busy, so that its time does not depend on how devices share it. If its time changes, the machine has changed.
 */
#define PS_SENTINEL_OP "F of layers=1" /* PsSentinel.what */

/* A reading lasts so long. */
#define PS_SENTINEL_READING_NS G_GINT64_CONSTANT (150000000)

/* Times the op for PS_SENTINEL_READING_NS, or limit_ns if that is less, but PS_MEDIAN_MIN_SAMPLES times. choices: the
 * device adopts them first; NULL: none. Very short ops are timed 1,000 times. Free with ps_sentinel_free. Errors begin
 * with "sentinel: ". */
PsSentinel *ps_sentinel_read (const PsDeviceClass *class, const PsModel *model, guint64 seed, GBytes *choices,
                              gint64 limit_ns, GError **error) G_GNUC_WARN_UNUSED_RESULT;
