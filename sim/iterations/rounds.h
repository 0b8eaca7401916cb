/* rounds.h - one iteration of a program as a round of an event graph. Private to libpipesim. */
#pragma once

#include "event-graph.h"
#include "reductions.h"

/* Goes on by one round, where no graph knows the durations beforehand; simulation has run it.
 * ready_ns [n_devices] becomes when each device is ready for the next round, counted from the earliest of these
 * moments. Returns that moment. */
gint64 ps_rounds_advance (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                          PsReduce reduce, gint64 *ready_ns);

/* The same where each device has reduced in the order that reductions say. */
gint64 ps_rounds_end (const PsReductions *reductions, const PsProgram *program, const PsCosts *costs,
                      const PsSimulation *simulation, PsReduce reduce, gint64 *ready_ns);

/* The optimizer step of an asynchronous schedule that follows a step, if that ends the last microbatch of an update; an
 * all-reduce that overlaps with nothing comes between. FALSE: none does. pending [n_copies * n_stages], 0 when a round
 * begins, counts microbatches. */
gboolean ps_rounds_update_after (const PsProgram *program, guint step, const PsCosts *costs,
                                 const PsEventsSetting *setting, PsReduce reduce, guint *pending, gint64 *duration_ns);

/* Rounds of pure latency, one after the other, at the times of the costs. All that a round reads of the one before is a
 * row, of times counted from the moment when the first device is ready; that of the first round is all 0. */
typedef struct _PsEndless PsEndless;

PsEndless *ps_endless_new (const PsProgram *program, const PsCosts *costs, PsReduce reduce);
void ps_endless_free (PsEndless *endless);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsEndless, ps_endless_free)
guint ps_endless_n_columns (const PsEndless *endless);

/* Runs a round from the row before to the row after. Returns the time between the moments that they count from. */
gint64 ps_endless_run (PsEndless *endless, const gint64 *before, gint64 *after);

/* Numbers of events. The steps come first, by their ids. From first_message on there are a sending and a receiving for
 * each step with an input, if messages have events of their own. All-reduces follow, one for each weight copy of each
 * stage, then the state and the update of each device. Asynchronous schedules have one more event for each step of the
 * program, the optimizer step that follows it; few take time. */
typedef struct
{
  guint first_message;
  guint first_reduction;
  guint first_update;
  guint first_single; /* n_events where the update ends the iteration */
  guint n_events;
} PsRoundEvents;

void ps_round_events_init (PsRoundEvents *events, const PsProgram *program, const PsEventsSetting *setting);

/* The graph whose period is that of the program without a meeting at the optimizer. simulation NULL: durations come
 * from the setting. setting NULL, too: they come from the costs, and transfers are of pure latency. */
PsEventGraph *ps_rounds_new (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                             const PsEventsSetting *setting, PsReduce reduce);
