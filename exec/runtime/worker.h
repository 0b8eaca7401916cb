/* worker.h - one device's thread: it walks the device's script, step after step, and records what happens. */
#ifndef PIPESIM_EXEC_WORKER_H
#define PIPESIM_EXEC_WORKER_H

#include "processes/crew.h"
#include "recorder.h"
#include "runtime.h"

G_BEGIN_DECLS

/* Shared by all threads; constant while they run, but for what is said to be written. */
typedef struct
{
  const PsProgram *program;
  const PsRunSetting *setting;
  PsScript *scripts;
  PsStageShape *shapes; /* [n_stages]; all zero without a model */
  guint first;          /* the devices of this process: first .. first + n_here - 1 */
  guint n_here;
  guint replica; /* of the pipeline, that these belong to */
  guint n_replicas;
  guint8 *uses; /* [from * n_devices + to] whether messages go that way */
  PsTransportGroup group;
  PsTransport *transport;
  PsCrew *crew;
  PsRecorder *recorder; /* each device writes its own part, device 0 also the steps' */
  PsRunResult *result;  /* each device writes its own stages' and microbatches' part */
} PsRun;

typedef struct
{
  PsRun *run;
  guint index;
  const PsScript *script;
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

G_END_DECLS

#endif
