/* worker.h - the thread of one device: it follows the device's script step after step, and records times and memory. */
#pragma once

#include "processes/crew.h"
#include "recorder.h"
#include "runtime.h"

typedef struct _PsBypassPlan PsBypassPlan;

/* The state of a run that all threads share. It is constant while they run, except members said to be written. */
typedef struct
{
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
  guint *twin;         /* see PsTransportSetting */
  PsBypassPlan *plans; /* [n_devices] see bypass.h; NULL: devices that step their optimizer have met */
  gboolean endless;    /* devices never meet between steps */
  guint8 *uses;        /* [from * n_devices + to] TRUE: messages go from `from` to `to` */
  PsTransportGroup group;
  PsTransport *transport;
  PsCrew *crew;
  PsRecorder *recorder; /* each device writes its own part, by `at`; device 0 also the steps' */
  PsRunResult *result;  /* each device writes its own stages' and microbatches' part */
  PsCheckpoint *saved;  /* the same; NULL: none is wanted */
} PsRun;

/* The stage that makes the losses: the one with the head. */
guint ps_run_loss_stage (const PsRun *run);

typedef struct
{
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
  double *squares;    /* [n_stages] of the norms of gradients, as far as they are known; see bypass.h */
  float scale;        /* the factor of all gradients for the next O; 0: there is none; below 0: `settle` will do it */
  PsTransferTimes unrecorded; /* of messages that no record is for */
  GThread *thread;
} PsWorker;

/* Opens the device, and pins it to its own core if n_cores suffice for all. After a failure, too, the caller must call
 * ps_worker_close. */
gboolean ps_worker_open (PsWorker *worker, PsRun *run, guint at, guint n_cores, GError **error);
void ps_worker_close (PsWorker *worker);

/* The member of the crew that the worker is. */
static inline guint
ps_worker_member (const PsWorker *worker)
{
  return worker->at - worker->run->first;
}

/* The number that transports know a device of the worker's pipeline by. */
static inline guint
ps_worker_peer (const PsWorker *worker, guint device)
{
  return worker->at - worker->index + device;
}

/* TRUE in the one pipeline whose gradients, state and times count; all others have the same, or are parts of it. */
static inline gboolean
ps_worker_counts (const PsWorker *worker)
{
  return worker->setting.replica == 0 && worker->setting.tensor == 0;
}

/* TRUE for the one device that records the steps' times. */
static inline gboolean
ps_worker_keeps_time (const PsWorker *worker)
{
  return worker->index == 0 && ps_worker_counts (worker);
}

/* Steps of the training before the first one of this run. */
guint ps_worker_steps_before (const PsWorker *worker);

/* Reports the last of `step` done steps to PsRunSetting.progress, which may end the run early. */
void ps_worker_report (PsWorker *worker, guint step);

/* Parts of a step. Ops of different steps may follow one another: turn_to makes the step's data the device's. */
gboolean ps_worker_turn_to (PsWorker *worker, guint step, GError **error);
gboolean ps_worker_act (PsWorker *worker, const PsAction *action, guint step, GError **error);

/* Waits for the ops that the device has started (PsDeviceSetting.ahead); what follows may look at their results and
 * records. */
static inline gboolean
ps_worker_catch_up (PsWorker *worker, GError **error)
{
  return worker->setting.ahead == 0 || worker->device->class->await (worker->device, error);
}

/* Add up the gradients of the stages whose O the script leaves to the end, and run these O. */
gboolean ps_worker_sum (PsWorker *worker, GError **error);
gboolean ps_worker_update (PsWorker *worker, guint step, GError **error);

/* In an endless run, when the device has done all of a step. */
gboolean ps_worker_note_end (PsWorker *worker, guint step, GError **error);

/* Messages beside those of the program, between devices of one pipeline: n_bytes of the host's memory, where tensors
 * have contents. `take` posts no receive; it drops the message where bytes is NULL. */
gboolean ps_worker_send (PsWorker *worker, guint to, PsOp name, gconstpointer bytes, gsize n_bytes, GError **error);
gboolean ps_worker_receive (PsWorker *worker, guint from, PsOp name, GError **error);
gboolean ps_worker_take (PsWorker *worker, guint from, PsOp name, gpointer bytes, gsize n_bytes, GError **error);

/* The body of the thread: runs all steps. A failure ends the run. */
gpointer ps_worker_main (gpointer worker);
