/* runtime.h - runs a program for real: one thread per device walks its instruction stream, step after step. What a
 * training goes on from, whether a run computed the numbers of one device alone, and how it compares with its
 * prediction. */
#pragma once

#include "run/crew.h"
#include "run/measuring.h"

#include <pipesim/device.h>
#include <pipesim/observe.h>
#include <pipesim/setting.h>
#include <pipesim/transport.h>

/* The state of a training in a safetensors file: weights and both moments of Adam, in fp32.
 *
 * The weights have the names and shapes that Hugging Face's transformers gives those of a GPT-2 (gelu), or of a Phi-3
 * (swiglu). The moments stand under the same names after "optimizer.exp_avg." and "optimizer.exp_avg_sq.". A checkpoint
 * knows no stages: another schedule, layout, number of devices or device class can go on with it. */

typedef struct _PsCheckpoint PsCheckpoint;

/* Room for the state of a model, to be filled and written. data: what is said of the data that it went through. */
PsCheckpoint *ps_checkpoint_new (const PsModel *model, const char *data);

/* The state in a file, which must be that of this model. Errors: PS_ERROR_IO, PS_ERROR_INPUT "path: ...". */
PsCheckpoint *ps_checkpoint_load (const char *path, const PsModel *model, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_checkpoint_free (PsCheckpoint *checkpoint);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCheckpoint, ps_checkpoint_free)

/* Steps that a loaded training has done, and the data that they went through; NULL: not said. */
guint ps_checkpoint_step (const PsCheckpoint *checkpoint);
const char *ps_checkpoint_data (const PsCheckpoint *checkpoint);

/* Makes n numbers whole of which a device has a part. */
typedef gboolean (*PsCheckpointGather) (float *values, gsize n, PsStateArray array, gpointer data, GError **error);

/* Fills in the state of a stage from the device that holds it, or gives the device the state. The device's thread
 * calls it, several threads at a time for different stages. fills FALSE: the device only helps another one to gather.
 * gather: called for each array. */
gboolean ps_checkpoint_take (PsCheckpoint *checkpoint, PsDevice *device, guint stage, const PsStageShape *shape,
                             gboolean fills, PsCheckpointGather gather, gpointer data, GError **error);
gboolean ps_checkpoint_give (const PsCheckpoint *checkpoint, PsDevice *device, guint stage, const PsStageShape *shape,
                             GError **error);

/* Where array number 0 .. PS_N_STATE_ARRAYS - 1 of a stage lies in a new checkpoint, to be carried to another process.
 */
gpointer ps_checkpoint_part (PsCheckpoint *checkpoint, const PsStageShape *shape, guint array, gsize *n_bytes);

/* Writes the file, which appears whole or not at all. */
gboolean ps_checkpoint_write (PsCheckpoint *checkpoint, const char *path, guint step, GError **error);

/* Runs */

/* A step that has ended. */
typedef struct {
  guint number; /* among all of the training, from 1 */
  gint64 iteration_ns;
  double loss; /* mean over the microbatches of all replicas; NaN from devices that do not compute */
} PsStepReport;

typedef struct {
  const PsDeviceClass *device;
  const PsTransportClass *transport;
  const PsModel *model;       /* NULL allowed for devices that do not compute */
  const PsStageShape *shapes; /* [n_stages] of the model; NULL: those of ps_model_split */
  const PsCosts *costs; /* durations of ops on a paced device, and the least time of every message; NULL: real time */
  const double *speed;  /* [n_devices] of paced devices, see PsDeviceSetting; NULL: 1 everywhere */
  guint n_steps;        /* training steps, >= 1 */
  guint64 seed;         /* seed of weights and data */
  const PsCheckpoint *start;  /* that devices which compute go on from, its steps being done; NULL: none */
  const char *save;           /* file that gets a checkpoint at the end; NULL: none */
  guint save_every;           /* steps from one checkpoint to the next; 0: the last step only */
  const char *data;           /* with save: what the checkpoint says of the data */
  const PsTraining *training; /* see PsDeviceSetting; NULL allowed */
  gint64 timeout_ns;          /* longest wait for one message; 0: for ever */
  const guint *shares;        /* [devices] see PsDeviceSetting; NULL: equal parts */
  const guint *parts;         /* [n_stages] see PsDeviceSetting; NULL: each device's own */
  guint n_replicas;           /* copies of the pipeline; 0: one, or as many as there are processes for */
  guint n_tensor;             /* pipelines that share the layers, of devices that compute; 0 counts as 1 */
  const guint *slice_tokens;  /* [slices] see PsDeviceSetting; NULL: equally long */
  const guint *tokens;        /* [n_tokens] see PsDeviceSetting; NULL: microbatches are alike */
  guint n_tokens;
  gboolean zero;          /* spread the optimizer state over the replicas: see PsDeviceSetting.sharded */
  GBytes *choices;        /* PsDeviceClass.choices that devices adopt before they choose; NULL: none */
  guint ahead;            /* see PsDeviceSetting, for devices with `start`; 0 for others */
  gboolean bypass;        /* step the optimizer without a meeting, see bypass.h; asynchronous schedules do so anyway */
  double clip;            /* greatest global norm of the gradients; 0: any, also in steps with NaN unless `bypass` */
  const guint *delays;    /* [n_stages] for a reference: ps_schedule_delay of the schedule that it stands for */
  gboolean gradients;     /* collect gradients (devices that compute) */
  PsProcesses *processes; /* of this run; NULL: all devices are here */
  /* Some device's thread of rank 0 calls this after each step while all devices wait, which no iteration time counts;
   * NULL: no calls. FALSE: the step that has begun is the last one. In an endless run device 0 calls it while the
   * others run on, and FALSE lets two more steps begin; the loss is NaN where another process has it. Only a run in one
   * process without gradients may return FALSE. */
  gboolean (*progress) (const PsStepReport *step, gpointer data);
  gpointer progress_data;
  /* NULL: the run trains. Else the program is that of ps_measuring_run, n_steps is 1 and n_replicas given, and
   * nothing is collected. The result has no timeline. */
  const PsMeasuring *measuring;
} PsRunSetting;

/* The gradients of each stage after all microbatches were added up, before O. */
typedef struct {
  guint n_steps;
  guint n_stages;
  guint64 *digest; /* [stage * n_steps + step] ps_gradients_digest */
  float **last;    /* [n_stages] gradients of the last step */
  gsize *n;        /* [n_stages] */
  guint *parts;    /* [n_stages] PsDeviceClass.part of the device that computed them; 0: it has no part */
} PsRunGradients;

/* Returns a digest of 64 bits of n numbers. Arrays that differ in one number differ in their digests. Other differences
 * stay unseen with a probability of 2^-64. A device hashes all gradients in every step, so this runs about as fast as
 * memory can be read. */
guint64 ps_gradients_digest (const float *values, gsize n);

typedef struct {
  guint n_steps; /* finished steps */
  guint n_stages;
  guint n_microbatches;       /* microbatches of all replicas, replica after replica */
  gint64 *iteration_ns;       /* [n_steps] from all devices ready to all devices ready for the next step */
  gint64 median_iteration_ns; /* over the steps after the first */
  gint64 clock_mhz;           /* the lowest median clock of a device; 0: not known */
  guint n_rollbacks;          /* steps that `bypass` has taken back */
  double *losses;             /* [step * n_microbatches + microbatch]; NaN from devices that do not compute */
  gboolean emulated;          /* the device computes, but its times say nothing about the hardware that it stands for */
  guint timeline_step;        /* the step with the median iteration time */
  PsTimeline *timeline;       /* measured timeline of that step */
  PsRunGradients *gradients;  /* NULL unless asked for */
} PsRunResult;

/* Opens the devices (each pinned to a core of its own if there are enough), runs all steps and closes the devices. The
 * first failure of any device ends the run with its error.
 *
 * D replicas of T pipelines, which share the layers of their devices, have p devices each. Every one of n processes
 * runs k = D T p / n devices, of one pipeline or of whole ones. Where no D is given, k is 1 if there are at least p
 * processes, and p / n if there are n < p. Rank r runs devices of pipeline r k / p, from device r k mod p on. All ranks
 * call this with the same program and setting.
 *
 * An asynchronous schedule runs endlessly: devices meet before the first step and after the last one only. Each runs
 * its round (PsRound) over and over, with an O after every PsSchedule.update_every microbatches of a stage. An
 * iteration lasts from the moment when device 0 has done all of a step to the same moment of the next one.
 *
 * Rank 0 gets the whole result. Its timeline and gradients are those of replica 0; all replicas have the same gradients
 * after adding up. Other ranks get only their own part, and timeline is NULL. A failure on any rank is the error of
 * all. Free with ps_run_result_free. */
PsRunResult *ps_run (const PsProgram *program, const PsRunSetting *setting, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_run_result_free (PsRunResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsRunResult, ps_run_result_free)

/* The same for a program that is these streams, with PsRunSetting.measuring; there is no result. streams: [n_devices]
 * of PsInstruction. n_stages of the model; a device holds those that it runs ops of. */
gboolean ps_measuring_run (GArray *const *streams, guint n_devices, guint n_stages, guint n_microbatches,
                           guint n_slices, const PsRunSetting *setting, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The copies of a pipeline of n_devices that run with the setting. */
guint ps_run_n_replicas (const PsRunSetting *setting, guint n_devices);

/* Returns the mean loss over the microbatches of a step. */
double ps_run_result_mean_loss (const PsRunResult *result, guint step);

/* Checks that a pipeline computed the same numbers as one device alone. */

/* The largest difference of gradients that counts as equal, as a part of the largest gradient. */
#define PS_VERIFY_TOLERANCE 1e-5

/* The same of gradients where devices share layers in fp32, whose sums have another order. With two devices they differ
 * by 6e-7 in the first step, whole or in slices; Adam's step has the sign of tiny gradients, so that they differ by
 * 6e-6 in the second and by up to 3e-5 in the third to eighth. */
#define PS_VERIFY_SPLIT_GRADIENT 1e-4

/* The same for bf16 and devices that share layers, each of which rounds its part of a sum: some roundings of losses;
 * gradients after some steps of Adam, whose direction for tiny gradients is the sign of their error. */
#define PS_VERIFY_ROUNDED_LOSS 1e-3
#define PS_VERIFY_ROUNDED_GRADIENT 0.1

typedef enum {
  PS_CHECK_NOT_RUN,
  PS_CHECK_BIT_EQUAL, /* every loss and every gradient of every step */
  /* Losses of all steps and gradients of the last one differ by at most PS_VERIFY_TOLERANCE, or as said above. */
  PS_CHECK_EQUAL_WITHIN,
  PS_CHECK_DIFFERS,
} PsCheck;

const char *ps_check_name (PsCheck check); /* "not run", "bit-equal", "equal-within", "differs" */

typedef struct {
  PsCheck check;
  double loss_difference;     /* largest |a - b| / |b| over steps and microbatches */
  double gradient_difference; /* last step: largest |a - b| over all gradients / largest |b| */
  char *first_difference;     /* "step 2: gradients of stage 1"; NULL when bit-equal */
} PsVerdict;

void ps_verdict_clear (PsVerdict *verdict);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsVerdict, ps_verdict_clear)

/* Makes the program that trains the same stages on one device: microbatch after microbatch, all F, then all BW from the
 * last stage to the first; but the gradients of the weights are added up in the schedule's order, where that is another
 * one. Each weight copy of the schedule has a device of its own, with the microbatches that use it;
 * their gradients are added up as those of the schedule are. Slices stay slices. Of a schedule whose stages use older
 * weights, the program is the sequential emulation: PsRunSetting.delays says how many updates old they are.
 * n_microbatches: of all replicas. */
PsProgram *ps_verify_reference (const PsSchedule *schedule, guint n_microbatches);

/* Compares two runs with the same numbers of steps, microbatches and stages, both with gradients; b is the
 * reference. */
void ps_verify_compare (const PsRunResult *a, const PsRunResult *b, PsVerdict *verdict);

/* Runs the reference of the schedule in this process with the setting of `result`'s run, and compares. Clear the
 * verdict with ps_verdict_clear. */
gboolean ps_verify (const PsSchedule *schedule, const PsRunResult *result, const PsRunSetting *setting,
                    PsVerdict *verdict, GError **error);

/* A program that is run and compared with its prediction. */
typedef struct {
  char *started;            /* ISO 8601 UTC */
  PsRunResult *result;      /* its timeline is NULL on other ranks than 0, which have nothing of what follows either */
  PsComparison *comparison; /* NULL without prediction */
  gint64 replayed_makespan_ns; /* simulated with the op and transfer times of the measured timeline; 0 without
                                  prediction */
} PsComparedRun;

void ps_compared_run_clear (PsComparedRun *compared);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsComparedRun, ps_compared_run_clear)

/* The timeline that a run is held against: a schedule that never drains in its steady state, as it is measured. Free
 * with ps_timeline_free. */
PsTimeline *ps_compared_run_prediction (const PsPrediction *prediction);

/* Runs the program. prediction: that of the same program; NULL: there are no costs. The caller clears the compared in
 * any case. */
gboolean ps_compared_run_make (PsComparedRun *compared, const PsProgram *program, const PsPrediction *prediction,
                               const PsRunSetting *setting, GError **error);

/* Stores the run and its prediction in a database, with the profile (NULL: the only one) that the costs came from. */
gboolean ps_compared_run_store (const PsComparedRun *compared, const PsProgram *program, const PsRunSetting *setting,
                                PsCheck check, const char *db, const char *profile, GError **error);
