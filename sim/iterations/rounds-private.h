/* rounds-private.h - a round while it is built. Private to sim/rounds*.c. */
#ifndef PIPESIM_ROUNDS_PRIVATE_H
#define PIPESIM_ROUNDS_PRIVATE_H

#include "drain.h"
#include "rounds.h"

G_BEGIN_DECLS

#define PS_NO_EVENT G_MAXUINT

typedef struct
{
  const PsProgram *program;
  const PsCosts *costs;
  const PsSimulation *simulation; /* NULL: durations are those of the costs */
  const PsEventsSetting *setting;
  PsReduce reduce;
  PsEventGraph *graph;
  PsReductions reductions;
  PsDrain drain;
  guint *last; /* [n_devices] what the device did last in this round; PS_NO_EVENT: nothing yet */
  PsRoundEvents events;
} PsRounds;

/* The device does `event` next: when it has done what it did before, in its first round when it is ready. */
void ps_rounds_follow (PsRounds *rounds, guint device, guint event);

/* An op, and what it needs from another device by pure latency. */
void ps_rounds_add_op (PsRounds *rounds, guint op);

/* All ops and messages, where transfers queue, are eager or hold up devices. */
void ps_rounds_add_messages (PsRounds *rounds);

G_END_DECLS

#endif
