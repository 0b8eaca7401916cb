/* predictor.h - the chain from a setting to a prediction: costs, schedule, program, simulation, figures, timeline. */
#ifndef PIPESIM_PREDICTOR_H
#define PIPESIM_PREDICTOR_H

#include <pipesim/events.h>
#include <pipesim/intervals.h>
#include <pipesim/sources.h>
#include <pipesim/timeline.h>

G_BEGIN_DECLS

/* One schedule under one setting, simulated. */
typedef struct
{
  PsCosts *costs;
  PsProgram *program; /* owns the schedule; ps_program_add_streams makes it fit to run */
  PsSimulation *simulation;
  PsIteration iteration; /* the time that metrics call the iteration time */
  PsMetrics metrics;
  PsInterval interval;         /* of the iteration time; ps_predictor_add_interval sets it */
  gint64 lower_bound_ns;       /* of the makespan; of the period where iterations overlap (bound.h) */
  gboolean feasible;           /* all devices keep to ps_setting_memory_limit */
  const char *fits;            /* ps_fits, "yes" where feasible */
  guint *order;                /* [m] the microbatch of --lengths that each of the schedule is, counted from 0; NULL:
                                  they are alike */
  gint64 even_ns;              /* iteration time with the even layout, where none was asked for and another was better;
                                  0: none was */
  struct PsEventsTask *events; /* see ps_prediction_events */
} PsPrediction;

void ps_prediction_free (PsPrediction *prediction);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPrediction, ps_prediction_free)

/* The options that the events engine ran with; NULL: the relaxation engine was enough. Lives as long as the prediction.
 */
const PsEventsSetting *ps_prediction_events (const PsPrediction *prediction);

/* The program that the engine was given. It is the prediction's, unless --ready-order took its order as a hint: the
 * prediction's program then has the order that came out. Lives as long as the prediction. */
const PsProgram *ps_prediction_hint (const PsPrediction *prediction);

/* The stages that the costs are of, as --layout takes them: "even" or a string of layout-string.h. NULL: costs of no
 * model. Free with g_free. */
char *ps_prediction_layout (const PsPrediction *prediction);

/* The timeline of the simulation, with the iteration time and the interval of the prediction. Free with
 * ps_timeline_free. */
PsTimeline *ps_prediction_timeline (const PsPrediction *prediction);

/* Takes the steps from a setting to a prediction, and keeps results that predictions share: the costs of each number of
 * devices and chunks are read once. For one thread. */
typedef struct _PsPredictor PsPredictor;

/* setting: lives longer; without ps_predictor_set_key its costs stay as they are. given: costs that replace the
 * setting's for as many stages as they have, on the devices that hold these stages; they live longer; NULL: none. */
PsPredictor *ps_predictor_new (const PsSetting *setting, const PsCosts *given);

/* Lets microbatches with an R cost this (ps_setting_recomputed), where all others cost what was given. It lives longer.
 */
void ps_predictor_give_recomputed (PsPredictor *predictor, const PsCosts *recomputed);
void ps_predictor_free (PsPredictor *predictor);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPredictor, ps_predictor_free)

/* Appends numbers that tell the costs of the current setting from those of other settings of its sizes. */
typedef void (*PsKeyFunction) (gpointer data, GArray *key);

/* Lets the setting change between predictions. */
void ps_predictor_set_key (PsPredictor *predictor, PsKeyFunction key, gpointer data);

/* ps_setting_costs, read once for each size. They live as long as the predictor, with a key function until the next
 * call. */
const PsCosts *ps_predictor_costs (PsPredictor *predictor, guint n_devices, guint n_chunks, GError **error);

/* A family's schedule for -p, -m, -v, --slices and --group, or a schedule file (recognised by '/' or '.' in the text,
 * or by existing). Families that look at costs get the setting's, if it has any. -p, -m and -v, when given, must agree
 * with the file; --comm-order, when given, replaces the file's own sends and receives. The schedule is validated. An
 * unknown name's message lists the families. Free with ps_schedule_free. */
PsSchedule *ps_predictor_schedule (PsPredictor *predictor, const char *name_or_file,
                                   GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* That schedule lowered with --comm-order. Free with ps_program_free. */
PsProgram *ps_predictor_program (PsPredictor *predictor, const char *name_or_file,
                                 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The whole chain, with the engine that the setting needs. Where the setting leaves the layout of a model's
 * stages open and the best one differs from the even one, both are predicted, and the better one is returned: one that
 * fits the memory limit, then the faster one. Errors are those of ps_setting_costs and ps_predictor_schedule,
 * PS_ERROR_USAGE for options that the costs cannot serve, and PS_ERROR_SCHEDULE where the run deadlocks. Free with
 * ps_prediction_free. */
PsPrediction *ps_predictor_predict (PsPredictor *predictor, const char *name_or_file,
                                    GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same for a valid schedule, which is taken over. */
PsPrediction *ps_predictor_predict_schedule (PsPredictor *predictor, PsSchedule *schedule,
                                             GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Sets the interval for a run of n_steps, where the setting's costs are measured; it stays 0 where they are not. */
gboolean ps_predictor_add_interval (PsPredictor *predictor, PsPrediction *prediction, guint n_steps, GError **error);

/* One prediction, of which nothing is kept. */
PsPrediction *ps_predict (const PsSetting *setting, const char *name_or_file, GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
