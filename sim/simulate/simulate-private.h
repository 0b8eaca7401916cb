/* simulate-private.h - functions that both engines share. Private to libpipesim. */
#pragma once

#include <pipesim/simulate.h>

/* Duration of the pair that ends with the step `second`. */
static inline gint64
ps_pair_duration (const PsProgram *program, const PsCosts *costs, guint second)
{
  return ps_costs_pair_ns (costs, program->steps[second - 1].cost, program->steps[second].cost);
}

/* Clears the results, then sets weights, O and busy time (the sum of the ops' costs), which need no engine. */
void ps_simulation_begin (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation);

/* ps_simulate, but a device starts its first op at ready_ns [n_devices] or later, and peaks count ops alone. */
void ps_simulate_from (const PsProgram *program, const PsCosts *costs, const gint64 *ready_ns,
                       PsSimulation *simulation);

/* Adds the buffers of messages (simulate.h) to the peaks, after a run whose peaks count ops alone. Does nothing if no
 * message has a known size. */
void ps_simulation_count_buffers (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation);

/* Sets the figures that follow from the starts and ends of all devices. */
void ps_simulation_finish (PsSimulation *simulation);
