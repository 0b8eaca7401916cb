/* steady.h - iterations back to back where devices never meet, an independent run in every lane. Private to
 * libpipesim. */
#pragma once

#include "draws.h"
#include "simulate/steady-recurrence.h"

/* The state with which each run of a block begins: the devices' ready times and all other carried slots, after
 * iterations at mean times that repeat themselves. Constant once made. */
typedef struct
{
  const PsDraws *draws;
  const PsSteadyRecurrence *recurrence;
  const double *speed; /* [n_devices] as in PsEventsSetting; NULL: 1 everywhere */
  gint64 *carried_ns;  /* [n_slots - first_carry] */
  guint n_cycle;       /* iterations at mean times after which that state comes back; 0: it does not */
  gint64 *missing_ns;  /* [n_cycle] what each of them is shorter than their mean */
} PsSteady;

/* events as given to ps_steady_recurrence_new; all must outlive it. Fails with PS_ERROR_USAGE if integers could not
 * hold the times of a run. single: for ps_steady_run_single only. */
gboolean ps_steady_init (PsSteady *steady, const PsDraws *draws, const PsSteadyRecurrence *recurrence,
                         const PsEventsSetting *events, gboolean single, GError **error);
void ps_steady_clear (PsSteady *steady);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsSteady, ps_steady_clear)

/* Samples of a block: first the first iterations of its runs, then their second ones, and so on. */
#define PS_STEADY_BLOCK (PS_STEADY_ITERATIONS * PS_STEADY_RUNS)

/* Samples from `first` on, a multiple of PS_STEADY_BLOCK, into [PS_STEADY_BLOCK]; luck is scratch, of the same
 * draws. */
void ps_steady_run (const PsSteady *steady, PsLuck *luck, guint first, gint64 *iteration_ns);

/* PS_SCENARIO_LANES samples of one iteration that begins on all devices at once and ends when all gradients are
 * reduced. Not for asynchronous schedules. */
void ps_steady_run_single (const PsSteady *steady, PsLuck *luck, guint first, gint64 *reduced_ns);
