/* verify.h - checks that a pipeline computed the same numbers as one device alone, and runs programs to compare them
 * with their predictions. */
#pragma once

#include "runtime.h"

#include <pipesim/observe.h>
#include <pipesim/setting.h>

/* The largest difference of gradients that counts as equal, as a part of the largest gradient. */
#define PS_VERIFY_TOLERANCE 1e-5

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
