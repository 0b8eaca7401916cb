/* worker.h - one device's thread: it walks the device's plan, step after step, and records what happens. */
#ifndef PIPESIM_EXEC_WORKER_H
#define PIPESIM_EXEC_WORKER_H

#include "barrier.h"
#include "recorder.h"
#include "runtime.h"

#include <pthread.h>

G_BEGIN_DECLS

/* Shared by all threads; constant while they run, but for what is said to be written. */
typedef struct
{
  const PsProgram *program;
  const PsRunSetting *setting;
  PsPlan *plans;
  PsStageShape *shapes; /* [n_stages]; all zero without a model */
  PsTransport *transport;
  PsBarrier *barrier;
  PsRecorder *recorder; /* each device writes its own part, device 0 also the steps' */
  PsRunResult *result;  /* each device writes its own stages' and microbatches' part */
  pthread_mutex_t lock;
  GError *error; /* the first one; under lock */
} PsRun;

typedef struct
{
  PsRun *run;
  guint index;
  const PsPlan *plan;
  PsDeviceSetting setting;
  PsDevice *device;
  PsTensor **slots;
  GThread *thread;
} PsWorker;

/* Opens the device, pinned to a core of its own if n_cores suffice for all. On failure ps_worker_close is due all the
 * same. */
gboolean ps_worker_open (PsWorker *worker, PsRun *run, guint index, guint n_cores, GError **error);
void ps_worker_close (PsWorker *worker);

/* Body of the thread: all steps. A failure ends the run. */
gpointer ps_worker_main (gpointer worker);

/* Notes the error (taken), unless another came first, and wakes all workers so that they end. From any thread. */
void ps_run_fail (PsRun *run, GError *error);

G_END_DECLS

#endif
