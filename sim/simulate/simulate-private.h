/* simulate-private.h - functions that the engines share. Private to libpipesim. */
#pragma once

#include <pipesim/simulate.h>

/* The time that ops of that duration take on a device, and that a step does on its own. The step's host time does not
 * depend on the speed. */
gint64 ps_event_at_speed (const PsEventsSetting *setting, guint device, gint64 duration_ns);
gint64 ps_event_step_at_speed (const PsEventsSetting *setting, const PsProgram *program, const PsCosts *costs,
                               guint step, gint64 duration_ns);

/* Clears the results, then sets weights, O and busy time (the sum of the ops' costs), which need no engine. */
void ps_simulation_begin (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation);

/* Makes room for the starts of steps and the times of transfers, where there is none. */
void ps_simulation_allot_times (PsSimulation *simulation);

/* The longest path from the start of each step to the end of the program while transfers do not queue. Free with
 * g_free. */
gint64 *ps_step_tails (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting);

/* Adds the buffers of messages to the peaks, after a run whose peaks count ops alone. Does nothing if no message has a
 * known size. */
void ps_simulation_count_buffers (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation);

/* Sets the figures that follow from the starts and ends of all devices. */
void ps_simulation_finish (PsSimulation *simulation);

/* With ready_order: of the messages that may begin, the one whose consumer has the largest urgency [n_steps] goes first
 * (NULL: the first to exist). exclusive: a device moves one message or runs an op, never both. */
void ps_events_rank_messages (PsEvents *events, const gint64 *urgency_ns, gboolean exclusive);
