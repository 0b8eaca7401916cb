/* recorder.h - what really happened: start, end and memory of every op, start and end of every transfer, and how long
 * posting it held the host. All room is there before the run; each device's thread writes its own part only, without
 * locks. */
#pragma once

#include "script.h"

#include <pipesim/timeline.h>
#include <pipesim/transport.h>

typedef struct
{
  PsTimes times;
  gint64 held_bytes; /* STATE + ACTIVATION after the op */
  gint64 peak_bytes; /* most of it during the op */
} PsOpRecord;

/* How long the host was held by one call of the transport's send or receive. A transfer starts when its send does. */
typedef struct
{
  gint64 start_ns;
  gint64 end_ns;
} PsPostRecord;

/* One device; a step's records follow those of the step before. */
typedef struct
{
  guint n_ops;       /* per step: the computes in their order, then O of each stage that the script leaves to the end */
  guint n_posts;     /* per step: sends and receives, in order */
  guint n_transfers; /* per step: messages that it waited for, in order */
  PsOpRecord *ops;   /* [n_steps * n_ops] */
  PsPostRecord *posts;        /* [n_steps * n_posts] */
  PsTransferTimes *transfers; /* [n_steps * n_transfers] */
  gint64 *held_bytes;         /* [n_steps] STATE + ACTIVATION at the begin of the step */
  gint64 clock_mhz;           /* median over all steps; 0: not known */
} PsDeviceRecord;

typedef struct
{
  guint n_devices;
  guint n_pipelines; /* in this process; the results are those of the first */
  guint n_steps;
  PsDeviceRecord *device; /* [n_pipelines * n_devices] */
  gint64 *begin_ns; /* [n_steps + 1] when all devices were ready for the step; last entry: for the end. In an endless
                       run, when device 0 had done all of the step before */
  gint64 *pause_ns; /* [n_steps] spent between work and O on reading losses and gradients, which training does not do */
} PsRecorder;

/* Bytes that a recorder keeps of each step. */
gsize ps_recorder_step_bytes (const PsScript *scripts, guint n_devices);

/* scripts has an entry per device of a pipeline. */
PsRecorder *ps_recorder_new (const PsScript *scripts, guint n_devices, guint n_pipelines, guint n_steps);
void ps_recorder_free (PsRecorder *recorder);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsRecorder, ps_recorder_free)

/* From the begin of a step to the begin of the next, less the pause. */
gint64 ps_recorder_iteration (const PsRecorder *recorder, guint step);

/* The step whose iteration time is the median over the steps after the first (of the only one if there is but one). */
guint ps_recorder_median_step (const PsRecorder *recorder);

/* The measured timeline of one step, times since its begin, or since its first op where an endless run has started the
 * step before that. As in a simulated one O has no span: it shows in iteration_ns, and in memory. */
PsTimeline *ps_recorder_timeline (const PsRecorder *recorder, const PsProgram *program, const PsScript *scripts,
                                  guint step);
