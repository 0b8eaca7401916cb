/* rotation-worker.h - the thread of one device in a rotation: it runs its stages' ops, samples and reports. */
#pragma once

#include "calibration.h"
#include "cut.h"
#include "team.h"

#include "train/conditions.h"

/* One quantity that is sampled. */
typedef struct {
  PsMeasurement *measurement; /* NULL after it was handed over */
  PsSampler sampler;
  GArray *launch_ns; /* gint64: of each sample; empty where the class does not tell the accelerator's own time */
} PsQuantity;

/* A stage on a device, with the state of its microbatches. */
typedef struct {
  guint stage;
  const PsStageShape *shape;
  gint64 state_bytes;
  GQueue unused;         /* microbatch numbers, as pointers */
  GQueue forwarded;      /* F done */
  GQueue backwarded;     /* B done, W not */
  PsQuantity **quantity; /* [slice * PS_N_OP_KINDS + kind] the worker's; NULL: not sampled. Those of warm
                            ops follow as if they were one more slice */
} PsRotationStage;

typedef struct _PsRotation PsRotation;

typedef struct {
  PsRotation *rotation;
  guint at; /* of the rotation's workers */
  PsDeviceSetting setting;
  PsDevice *device;
  PsLoneInputs inputs;
  PsRotationStage *stages;
  guint n_stages;
  GPtrArray *quantities;
  gint64 begin_ns; /* start of sampling; 0: still warming up */
  PsCondition before;
  PsOp last; /* the op that ran last */
  guint index;
  GThread *thread;
} PsRotationWorker;

struct _PsRotation {
  const PsCalibration *calibration;
  const PsCut *cut;
  PsCacheState cache;
  PsTeam *team;              /* NULL: no layers are shared */
  PsRotationWorker *workers; /* [n_workers] those of part 0 come first */
  guint n_workers;
  guint n_busy; /* of each part */
  guint n_in_flight;
  gboolean tells_warm; /* warm ops are quantities of their own */
  int n_open;          /* quantities that are still sampled; atomic */
  int failed;          /* atomic */
  GMutex mutex;
  GCond all_ready;
  guint n_ready;            /* under mutex */
  GAsyncQueue *inbox;       /* PsRotationItem, from the workers to the thread that started them */
  PsConditions *conditions; /* of the workers' devices */
};

/* A worker's report: a finished measurement, its choices, or its end, with an error if it failed. */
typedef struct {
  PsMeasurement *measurement;
  GError *error;
  GBytes *choices;
} PsRotationItem;

/* Tells all workers to end because of an error. From any thread. */
void ps_rotation_fail (PsRotation *rotation, const GError *error);

/* PsDeviceSetting.add_up of a worker. */
gboolean ps_rotation_add_up (gpointer worker, float *values, gsize n, GError **error);

/* The body of the thread: samples until no quantity of any worker is open, then reports its end. */
gpointer ps_rotation_worker_main (gpointer worker);
