/* rounds.h - iterations back to back where devices never meet. Each is a round of the same events, which wait for each
 * other and for events of the round before. Private to libpipesim. */
#pragma once

#include <pipesim/simulate.h>

typedef struct _PsRounds PsRounds;

/* The rounds of a program; setting NULL: transfers of pure latency. Ops and transfers take the times of setting and
 * costs until ps_rounds_set_times. program and costs must outlive it. Errors: PS_ERROR_SCHEDULE where durations are not
 * known beforehand (links, overlap_slowdown, ready_order), and where instructions wait for each other in a circle. Free
 * with ps_rounds_free. */
PsRounds *ps_rounds_new (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                         PsReduce reduce, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_rounds_free (PsRounds *rounds);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsRounds, ps_rounds_free)

/* Times of the next rounds: of ops, before the setting's speeds, and of transfers [n_steps], as in PsEventsSetting;
 * slowness [n_devices] multiplies each device's O. NULL: those of the costs; 1. */
void ps_rounds_set_times (PsRounds *rounds, const gint64 *duration_ns, const gint64 *transfer_ns,
                          const double *slowness);

/* A row holds all times that a round reads of the one before, counted from the earliest of them; all 0 before the first
 * round. */
guint ps_rounds_n_columns (const PsRounds *rounds);

/* Runs a round; row becomes that after it. Returns the time from when the last device was ready for this round until
 * the last device is ready for the next. */
gint64 ps_rounds_run (PsRounds *rounds, gint64 *row);

/* Runs n rounds from the first on; row becomes that after them. Where rounds come to repeat each other, returns the
 * times of the next *n_cycle rounds, which come again and again. NULL: they do not, and *n_cycle is 0. */
gint64 *ps_rounds_settle (PsRounds *rounds, guint n, gint64 *row, guint *n_cycle);

/* The exact time of a round in the long run. */
PsIteration ps_rounds_period (PsRounds *rounds);

typedef enum {
  PS_ROUND_OP,
  PS_ROUND_TRANSFER,
  PS_ROUND_REDUCE,
  PS_ROUND_OPTIMIZER,
} PsRoundEventKind;

/* An event on a circle. */
typedef struct {
  PsRoundEventKind kind;
  guint step;      /* as that of PsPathPart */
  gboolean before; /* the event before it on the circle is of the round before */
  gint64 duration_ns;
} PsCircleEvent;

/* A circle of events that wait for each other and take as long as the period says, as PsCircleEvent in the order of
 * time. The first event waits for the round before. Durations sum to the period times the number of events that do so.
 * Empty where no circle takes any time. Free with g_array_unref. */
GArray *ps_rounds_circle (PsRounds *rounds);

/* Goes on by one round where durations are not known beforehand; simulation has run it. ready_ns [n_devices] becomes
 * when each device is ready for the next round, counted from the earliest of these moments. Returns that moment. */
gint64 ps_rounds_advance (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                          PsReduce reduce, gint64 *ready_ns);
