/* simulate-private.h - functions that the engines share. Private to libpipesim. */
#pragma once

#include <pipesim/simulate.h>

#include <math.h>

/* Duration of the pair that ends with the step `second`. */
static inline gint64
ps_pair_duration (const PsProgram *program, const PsCosts *costs, guint second)
{
  return ps_costs_pair_ns (costs, program->steps[second - 1].cost, program->steps[second].cost);
}

/* The time that ops of that duration take on a device. */
static inline gint64
ps_event_at_speed (const PsEventsSetting *setting, guint device, gint64 duration_ns)
{
  return setting->speed != NULL && setting->speed[device] != 1 ? llrint ((double)duration_ns / setting->speed[device])
                                                               : duration_ns;
}

/* The time that a step of that duration takes on its device. Its host time does not depend on the speed. */
static inline gint64
ps_event_step_at_speed (const PsEventsSetting *setting, const PsProgram *program, const PsCosts *costs, guint step,
                        gint64 duration_ns)
{
  if (setting->speed == NULL)
    return duration_ns;
  gint64 host_ns = MIN (ps_host_time_sum (ps_step_host_time (program, costs, step)), duration_ns);
  return host_ns + ps_event_at_speed (setting, program->steps[step].device, duration_ns - host_ns);
}

/* Clears the results, then sets weights, O and busy time (the sum of the ops' costs), which need no engine. */
void ps_simulation_begin (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation);

/* Adds the buffers of messages to the peaks, after a run whose peaks count ops alone. Does nothing if no message has a
 * known size. */
void ps_simulation_count_buffers (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation);

/* Sets the figures that follow from the starts and ends of all devices. */
void ps_simulation_finish (PsSimulation *simulation);

/* The weights of a stage that a device has gathered (ZeRO's stage 3): from the start of the gather until the end of the
 * op before which they are dropped. */
typedef struct
{
  guint device;
  gint64 bytes;
  gint64 from_ns;
  gint64 until_ns;
} PsWholeWeights;

/* All of them in a finished simulation, by device. Free with g_array_unref. */
GArray *ps_simulation_whole_weights (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation);
