/* scenarios-kernel.h - the inner loops of the scenario engine. Private to libpipesim. */
#pragma once

#include <pipesim/simulate.h>

/* Size of a slot, and of a cost of one class, for one block of scenarios. Two of the widest registers let more lanes
 * share the reading of a step. That is 32 lanes of 32 bits or 16 of 64. */
#define PS_SCENARIO_BLOCK_BYTES 128

/* Walks n steps. slots, durations and transfers hold blocks; slots are indexed by slot, the others by the step's
 * classes. */
typedef void (*PsScenarioWalk) (const PsScenarioStep *steps, guint n, gpointer slots, gconstpointer durations,
                                gconstpointer transfers);

typedef struct
{
  PsScenarioWalk walk_32;
  PsScenarioWalk walk_64;
  PsScenarioWalk walk_steps_32; /* durations and transfers are indexed by the step's place among the n; half blocks */
  PsScenarioWalk walk_steps_64; /* the same with whole blocks */
} PsScenarioKernel;

/* NULL: not available in this build or on this processor. */
const PsScenarioKernel *ps_scenario_kernel (PsKernel kernel);
