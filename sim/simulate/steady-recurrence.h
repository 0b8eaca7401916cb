/* steady-recurrence.h - one round of an endless run (iterations/rounds.h) as steps of the scenario engine. Private to
 * libpipesim. */
#pragma once

#include <pipesim/simulate.h>

/* The time that a step takes between its input and its end. */
typedef enum
{
  PS_STEADY_FIXED,   /* always fixed_ns */
  PS_STEADY_OP,      /* the op of a step of the program */
  PS_STEADY_MESSAGE, /* the message that a step of the program waits for */
  PS_STEADY_UPDATE,  /* fixed_ns, of which optimizer_ns is the O of a device */
} PsSteadyKind;

typedef struct
{
  guint8 kind;     /* PsSteadyKind */
  gboolean delays; /* the input is a message under way, the one of `step` */
  guint32 step;    /* of the program; of an update, the device */
  gint64 fixed_ns;
  gint64 optimizer_ns;
} PsSteadyTime;

/* Every event of the round is one or more steps in one slot. Events that the next round reads are copied to carried
 * slots, and a round leaves nothing else. */
typedef struct
{
  guint n_steps;
  guint n_slots;         /* slot 0 holds 0 for ever */
  PsScenarioStep *steps; /* [n_steps] their op and transfer are not used */
  PsSteadyTime *times;   /* [n_steps] */
  guint first_carry;     /* slots first_carry .. n_slots - 1 are carried over */
  guint n_updates;       /* number of devices */
  guint32 *update;       /* [n_updates] the carried slot of each device's optimizer step */
  guint32 reduced;       /* carried slot of when all gradients are reduced; not of asynchronous schedules */
  gint64 sum_ns;         /* of all fixed times */
} PsSteadyRecurrence;

/* Errors: PS_ERROR_SCHEDULE where the instructions wait for each other in a circle, and where durations are not known
 * beforehand (links, overlap_slowdown, ready_order). events NULL: transfers of pure latency. Free with
 * ps_steady_recurrence_free.
 */
PsSteadyRecurrence *ps_steady_recurrence_new (const PsProgram *program, const PsCosts *costs,
                                              const PsEventsSetting *events, PsReduce reduce,
                                              GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_steady_recurrence_free (PsSteadyRecurrence *recurrence);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSteadyRecurrence, ps_steady_recurrence_free)
