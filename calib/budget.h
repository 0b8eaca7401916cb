/* budget.h - divides a limited time for measuring. */
#pragma once

#include "rounds.h"

/* The time limit of a rule with which everything is measured once in about half of the budget. */
gint64 ps_budget_first_limit (const PsCalibration *calibration, gint64 budget_ns);

/* Spends the time until end_ns (of ps_clock_now) on further samples. Each turn goes to the ops of one number of chunks,
 * or to the transfer, whichever is the largest part of the error of predictions (doubt.h), and lasts twice as long as
 * its last one. Ends early when more samples would change no prediction. rule.time_limit_ns is that of the first
 * measurements. Says on stderr how it goes on. */
gboolean ps_budget_spend (PsCalibRounds *rounds, const PsCalibration *calibration, gint64 end_ns, GError **error);
