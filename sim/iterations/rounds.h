/* rounds.h - one iteration of a program as a round of an event graph. Private to libpipesim. */
#ifndef PIPESIM_ROUNDS_H
#define PIPESIM_ROUNDS_H

#include "event-graph.h"
#include "reductions.h"

G_BEGIN_DECLS

/* Round by round, where no graph knows the durations beforehand. ready_ns [n_devices] becomes when each device is ready
 * for the next round after this one, which simulation has run, told from the earliest of them; returns when that is. */
gint64 ps_rounds_advance (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                          const PsReductions *reductions, PsReduce reduce, gint64 *ready_ns);

/* Events: the steps by their ids; where messages have events of their own, from first_message on, two for each step
 * with an input, its sending and its receiving; an all-reduce for each weight copy of each stage, as held; the state
 * and the update of each device. */
typedef struct
{
  guint first_message;
  guint first_reduction;
  guint first_update;
  guint n_events;
} PsRoundEvents;

void ps_round_events_init (PsRoundEvents *events, const PsProgram *program, const PsEventsSetting *setting);

/* The graph whose period is that of the program without a meeting at the optimizer. simulation and setting may be NULL:
 * durations then come from the setting, else from the costs, and transfers are of pure latency. */
PsEventGraph *ps_rounds_new (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                             const PsEventsSetting *setting, PsReduce reduce);

G_END_DECLS

#endif
