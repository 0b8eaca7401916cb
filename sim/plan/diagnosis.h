/* diagnosis.h - pipesim diagnose: a run, measured and predicted, what in it takes longer than its peers, and other
 * schedules under the same costs. */
#pragma once

#include "explain-report.h"

#include <pipesim/observe.h>

/* The work of a stage for a microbatch. However a framework divides a backward into B and W, stages compare by both. */
typedef enum {
  PS_PASS_FORWARD,
  PS_PASS_BACKWARD,
  PS_PASS_PAIR, /* F and B of different microbatches in one op, counted with the F */
  PS_N_PASSES
} PsPass;

/* A part of the run that can take longer than its peers. */
typedef enum {
  PS_SLOW_DEVICE,     /* all stages of a device with several: than the stages of others */
  PS_SLOW_STAGE,      /* than other stages */
  PS_SLOW_MICROBATCH, /* in all stages, than other microbatches */
  PS_SLOW_ITERATION,  /* than other iterations; pass does not count */
  PS_SLOW_OP,         /* the work of one stage for one microbatch in one iteration, than usually */
} PsSlowKind;

typedef struct {
  PsSlowKind kind;
  PsPass pass;
  guint device;
  guint stage;
  guint microbatch;
  guint iteration;  /* index into the iterations */
  gint64 own_ns;    /* of one microbatch in one stage, or of the iteration; medians */
  gint64 peers_ns;  /* the same of its peers */
  double ratio;     /* own / peers; of a microbatch the median over stages */
  gint64 excess_ns; /* time above that of its peers in one iteration */
} PsSlow;

/* Everything that takes longer than its peers, the largest excess first. schedule is that of all iterations.
 *
 * The peers' time is the median of all, the part's own included (ps_median: of two the lower). A part is slow above it
 * by more than 5 % (iterations and microbatches: 10 %) and by more than 3 deviations, each 1.4826 times the median
 * absolute deviation. An op is slow above 1.5 times its own median by more than a hundredth of the iteration, in
 * iterations that are not slow. Free with g_array_unref. */
GArray *ps_slow_parts (const PsSchedule *schedule, const GPtrArray *iterations);

/* The costs with the durations of each kind, and of pairs, spread evenly over the stages. Free with ps_costs_free. */
PsCosts *ps_costs_even (const PsCosts *costs);

typedef struct {
  const char *where;    /* names the run in messages */
  PsSetting *setting;   /* -p, -m and --memory-limit become those of the run */
  gint64 time_limit_ns; /* of the search; 0: none */
  double saving;        /* of the list of parts that would pay off */
} PsDiagnoseOptions;

/* A schedule under the costs of the run. */
typedef struct {
  char *name;
  guint n_chunks;
  guint n_copies;
  gboolean asynchronous;
  gboolean is_run;  /* the order and placement of the run itself */
  gboolean guessed; /* it needs costs that are guesses */
  gboolean fits;    /* the memory of the run */
  gint64 iteration_ns;
  double change_run;       /* how much longer that is than the run's, as a part of it: -0.1 is 10 % less */
  double change_predicted; /* and than the run's as predicted */
  double bubble_ratio;
  double memory_ratio; /* peak over that of the run */
} PsRival;

typedef struct {
  GPtrArray *iterations; /* of PsTimeline */
  const PsTimeline *run; /* the median one, which is explained */
  PsIterationSpread spread;
  PsMetrics metrics;        /* of the run, measured */
  PsCosts *costs;           /* medians over the iterations */
  gboolean says_memory;     /* sizes are the run's; FALSE: memory counts activations, all stages alike */
  guint guessed;            /* bit 1 << PsOpKind: costs of some stage that nothing says (ps_costs_guess) */
  PsPrediction *prediction; /* of the run's own order under the costs */
  PsSimulation *measured;   /* its steps as they were measured */
  PsExplainReport *explain;
  GArray *slow;      /* of PsSlow */
  gint64 replay_ns;  /* iteration with the run's own durations and no gaps between them */
  gint64 even_ns;    /* predicted iteration of equal stages */
  GPtrArray *rivals; /* of PsRival: fit for the run's memory, above it, two copies of the weights, asynchronous;
                        each by iteration time */
  GString *skipped;  /* schedules that cannot be, with the reasons */
} PsDiagnosis;

/* Takes the iterations of one run. Errors: PS_ERROR_INPUT where they are no schedule, and those of predictions of the
 * run's own. Free with ps_diagnosis_free. */
PsDiagnosis *ps_diagnosis_new (GPtrArray *iterations, const PsDiagnoseOptions *options,
                               GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_diagnosis_free (PsDiagnosis *diagnosis);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsDiagnosis, ps_diagnosis_free)

/* The schedule's name, with remarks: "zb-v (guess)". Free with g_free. */
char *ps_rival_label (const PsRival *rival);

/* The parts of an iteration: op kinds, pairs, then the causes of idle time. */
#define PS_DIAGNOSIS_N_BUSY (PS_N_OP_KINDS + 1)
#define PS_DIAGNOSIS_N_PARTS (PS_DIAGNOSIS_N_BUSY + PS_N_IDLE)

/* "F", "pairs", "warm-up". */
const char *ps_diagnosis_part_title (guint part);

/* The time of each part on each device: [device * PS_DIAGNOSIS_N_PARTS + part]. Free with g_free. */
gint64 *ps_diagnosis_parts (const PsDiagnosis *diagnosis);

/* The lines about the whole run. Free with g_free. */
char *ps_diagnosis_summary (const PsDiagnosis *diagnosis);

/* A part of the report. */
typedef struct {
  char *title;
  PsTable *table; /* NULL: the title says all */
  guint n_rows;   /* that a text shows */
} PsDiagnosisSection;

/* The sections (PsDiagnosisSection), with the n_rivals best schedules and the run's. Free with g_ptr_array_unref. */
GPtrArray *ps_diagnosis_sections (const PsDiagnosis *diagnosis, guint n_rivals);

/* One page of text with the columns of the choice, and JSON "pipesim-diagnosis/1". Errors: those of ps_tables_choose.
 * Free with g_free. */
char *ps_diagnosis_to_text (const PsDiagnosis *diagnosis, const PsColumnChoice *choice, GError **error);
char *ps_diagnosis_to_json (const PsDiagnosis *diagnosis);
