/* explain-rig.h - explained programs. */
#pragma once

#include "lower.h"

#include <pipesim/answer.h>

typedef struct {
  PsProgram *program;
  PsCosts *costs;
  PsSimulation *simulation;
  PsExplanation *explanation;
} Case;

static inline void case_clear (Case *test)
{
  g_clear_pointer (&test->explanation, ps_explanation_free);
  g_clear_pointer (&test->simulation, ps_simulation_free);
  g_clear_pointer (&test->program, ps_program_free);
  g_clear_pointer (&test->costs, ps_costs_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Case, case_clear)

static inline void explain (Case *test, PsProgram *program, PsCosts *costs)
{
  test->program = program;
  test->costs = costs;
  test->simulation = ps_simulation_new (test->program);
  ps_simulate (test->program, costs, test->simulation);
  test->explanation = ps_explain (test->program, costs, test->simulation,
                                  test->simulation->makespan_ns + test->simulation->optimizer_ns);
}

static inline void explain_family (Case *test, const char *name, guint p, guint m, const char *costs)
{
  const PsFamily *family = ps_family_find (name);
  PsCosts *parsed = fine (ps_costs_parse (costs, p, family->default_chunks, &error));

  explain (test, lower_family (name, p, m, 0), parsed);
}
