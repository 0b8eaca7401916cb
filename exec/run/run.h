/* run.h - what the files of this folder share about a run: the scripts of its devices, what they record, the threads of
 * the devices, and what ranks send each other at the end. */
#pragma once

#include "run/crew.h"
#include "runtime.h"

#include <pipesim/costs.h>
#include <pipesim/program.h>
#include <pipesim/timeline.h>
#include <pipesim/transport.h>

/* script.c: the instruction stream of one device with everything looked up: where each tensor lies between the
 * instruction that makes it and the one that uses it, and how long each message takes at least. */

#define PS_NO_SLOT G_MAXUINT

typedef struct {
  PsInstruction instruction;
  guint take;      /* slot of the tensor that this uses up: a compute's input, a send's message; or PS_NO_SLOT */
  guint put;       /* slot for the tensor that this makes: a compute's output, a wait's message; or PS_NO_SLOT */
  gint64 delay_ns; /* sends: see transport.h */
  guint index;     /* among the device's computes, posts or waits of a step */
  guint8 ahead;    /* 1: of the step after the one whose round it is in, see PsRound */
} PsAction;

typedef struct {
  guint n_actions;
  PsAction *actions;
  guint n_slots;
  guint n_ops;     /* computes among the actions */
  guint n_posts;   /* sends and receives among them */
  guint n_waits;   /* waits among them */
  guint n_updates; /* O that follow when all devices have met; 0: they are among the computes */
  guint end;       /* the last compute among the actions that is not ahead */
  guint n_stages;  /* stages that the device holds, once per weight copy */
  guint *stages;   /* ascending, so that all devices with the same stages add up their gradients in one order */
} PsScript;

/* Scripts of all devices, of one round (PsRound), in an array of the program's number of devices. costs give the delays
 * of messages; NULL: none. measuring: see PsRunSetting; its scripts have no slots. */
PsScript *ps_scripts_new (const PsProgram *program, const PsCosts *costs, const PsMeasuring *measuring);
void ps_scripts_free (PsScript *scripts, guint n_devices);

/* Where a device validates a step that it has begun without a barrier (worker.c), and what it does after a step was
 * taken back. */
typedef struct {
  guint validate; /* index of the action before which it validates */
  guint8 *posted; /* [n_actions] receives that stand before that place, of messages that no sender has sent at its own:
                     they stay posted */
  GArray *stray;  /* of PsInstruction: messages that were sent and that nobody will use, by their waits, or by their
                     receives where these stand after the place */
} PsBypassPlan;

/* One for each device. Free with ps_bypass_plans_free. */
PsBypassPlan *ps_bypass_plans_new (const PsScript *scripts, const PsProgram *program);
void ps_bypass_plans_free (PsBypassPlan *plans, guint n_devices);

/* recorder.c: what really happened: start, end and memory of every op, start and end of every transfer, and how long
 * posting it held the host. All room is there before the run; each device's thread writes its own part only, without
 * locks. */

typedef struct {
  PsTimes times;
  gint64 held_bytes; /* STATE + ACTIVATION after the op */
  gint64 peak_bytes; /* most of it during the op */
} PsOpRecord;

/* One device; a step's records follow those of the step before. */
typedef struct {
  guint n_ops;       /* per step: the computes in their order, then O of each stage that the script leaves to the end */
  guint n_posts;     /* per step: sends and receives, in order */
  guint n_transfers; /* per step: messages that it waited for, in order */
  gsize n_bytes;     /* of the arrays that follow, in one block */
  PsOpRecord *ops;   /* [n_steps * n_ops] */
  PsTimes *posts;    /* [n_steps * n_posts] how long the host was held by a call of the transport's send or receive. A
                        transfer starts when its send does */
  PsTimes *transfers; /* [n_steps * n_transfers] */
  gint64 *held_bytes; /* [n_steps] STATE + ACTIVATION at the begin of the step */
  gint64 *own_ns;     /* [n_ops] of the latest step: the accelerator's own times; 0: not known */
  gint64 clock_mhz;   /* median over all steps; 0: not known */
} PsDeviceRecord;

typedef struct {
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

/* A result before the run. All losses are NaN. There are gradients only if the setting asks for them and the device
 * computes. Free with ps_run_result_free. */
PsRunResult *ps_run_result_new (const PsProgram *program, const PsRunSetting *setting, guint n_replicas);

/* The state of a run that all threads share. It is constant while they run, except members said to be written. */
typedef struct {
  const PsProgram *program;
  const PsRunSetting *setting;
  PsScript *scripts;
  PsStageShape *shapes; /* [n_stages]; all zero without a model */
  guint first;          /* the devices of this process: first .. first + n_here - 1, as in PsTransportSetting */
  guint n_here;
  guint pipeline;    /* the one that device `first` belongs to */
  guint n_pipelines; /* n_replicas * n_tensor of them */
  guint n_replicas;
  guint n_tensor;
  guint *twin; /* see PsTransportSetting */
  guint *tied; /* the same */
  guint embedding_stage;
  guint loss_stage;    /* the one that makes the losses, with the head */
  PsBypassPlan *plans; /* [n_devices]; NULL: devices that step their optimizer have met */
  gboolean endless;    /* devices never meet between steps */
  guint8 *uses;        /* [from * n_devices + to] TRUE: messages go from `from` to `to` */
  PsTransportGroup group;
  PsTransport *transport;
  PsCrew *crew;
  PsRecorder *recorder;     /* each device writes its own part, by `at`; device 0 also the steps' */
  PsRunResult *result;      /* each device writes its own stages' and microbatches' part */
  PsCheckpoint *saved;      /* the same; NULL: none is wanted */
  PsDevice **devices;       /* [n_here] */
  PsConditions *conditions; /* of them; NULL: not known */
  gint64 *state_bytes;      /* [at * n_stages + stage] what adding each took; each device writes its own */
  gboolean measures_on;     /* PsMeasuring.step wants another step; written while all devices wait */
} PsRun;

/* recorder.c: empties events and adds those of the latest step, of all devices of this process (PsMeasuredStep). */
void ps_run_events (const PsRun *run, GArray *events);

/* worker.c: the thread of one device. */

typedef struct {
  PsRun *run;
  guint at;    /* first .. first + n_here - 1 of the run */
  guint index; /* of its pipeline's devices */
  const PsScript *script;
  PsDeviceSetting setting;
  PsDevice *device;
  PsTensor **slots;
  guint64 *n_updates; /* [n_stages] O that have run */
  guint step;         /* of the latest op; G_MAXUINT: none has run */
  guint8 *recomputed; /* PsDeviceSetting.recomputed */
  double *squares;    /* [n_stages] of the norms of gradients, as far as they are known; PS_UNKNOWN_NORM if not */
  float scale;        /* the factor of all gradients for the next O; 0: there is none; below 0: `settle` will do it */
  PsTransferTimes unrecorded; /* of messages that no record is for */
  guint n_measured;           /* steps of a run that measures */
  PsLoneInputs inputs;        /* of these */
  PsTensor *addends;          /* PsMeasuring.n_sums; NULL until then */
  GThread *thread;
} PsWorker;

/* Opens the device, and pins it to its own core if n_cores suffice for all. After a failure, too, the caller must call
 * ps_worker_close. */
gboolean ps_worker_open (PsWorker *worker, PsRun *run, guint at, guint n_cores, GError **error);
void ps_worker_close (PsWorker *worker);

/* The body of the thread: runs all steps. A failure ends the run. */
gpointer ps_worker_main (gpointer worker);

#define PS_UNKNOWN_NORM (-1.0)

/* The factor of all gradients under a global norm; squares [n_stages]: of the norms of stages, as far as they are
 * known. 0: the step is left out, since a gradient is no finite number. clip 0: no clipping. */
float ps_run_clip (const double *squares, guint n_stages, double clip);

/* Whether the device gives the gradients of a stage to the result: it is the one with weight copy 0. */
static inline gboolean ps_gives_gradients (const PsSchedule *schedule, guint device, guint stage)
{
  return ps_placement_device (schedule->placement, 0, stage) == device;
}

/* recorder.c: after the last step, on every rank: completes rank 0's recorder and result by those of the other
 * processes, with times by the clock of rank 0. Nothing to do where there are no others. */
void ps_gather (PsRun *run);

/* On every rank at a time when its devices wait: completes the checkpoint of rank 0. */
void ps_gather_checkpoint (PsRun *run);
