/* setting-lengths.h - a prediction's costs and order where microbatches have different lengths. Private to libpipesim.
 */
#pragma once

#include <pipesim/program.h>
#include <pipesim/setting.h>

/* How many lengths costs can have: transfers have an entry for each, and their numbers have 16 bits. */
static inline guint
ps_lengths_most (guint n_stages)
{
  return G_MAXUINT16 / (2 * n_stages);
}

/* --lengths, which must have that number of microbatches. */
PsLengths *ps_lengths_find (const PsSetting *setting, guint n_microbatches, guint n_stages, GError **error);

/* The costs of n_slices slices for all lengths, without host times. whole are the setting's costs. Checks whether
 * n_microbatches of each length would give exact sums. Tokens change modelled costs as --sequence does, and measured
 * costs as the number of floating-point operations and the bytes of the model's formulas. */
PsCosts *ps_lengths_costs (const PsSetting *setting, const PsLengths *lengths, const PsCosts *whole, guint n_devices,
                           guint n_slices, GError **error);

/* The costs of n_slices slices of microbatches that are alike, without host times. Slices that are known
 * (PsCosts.slice_parts) are each a length of its own. */
PsCosts *ps_slices_costs (const PsCosts *whole, guint n_slices);

/* Gives the slices of the program's microbatches the lengths that ps_slices_costs made. If the schedule has an R, the
 * costs are those of the average slice and of ps_setting_recomputed, which each have one length. */
void ps_program_set_slices (PsProgram *program, const PsCosts *costs);

/* Gives the program's microbatches their lengths in the order asked for. Returns which microbatch of the file each of
 * them is; free with g_free.
 *
 * The best order here is that of the least makespan by the relaxation engine, among orders that keep every device
 * within memory_limit (NULL: none) if there are any. It is exact where the lengths have at most PS_MAX_ORDERS different
 * orders. Otherwise the best of the other three orders is improved by swaps of two microbatches, until none helps or
 * PS_MAX_SWAP_STEPS ops have been simulated.
 *
 * A predictor prices this order and the three others as the setting asks, with channels, speeds and all-reduces, and
 * takes the fastest of the four for --microbatch-order best. */
guint *ps_lengths_arrange (const PsLengths *lengths, PsMicrobatchOrder order, const PsCosts *costs,
                           const gint64 *memory_limit, PsProgram *program);

#define PS_MAX_ORDERS 5040
#define PS_MAX_SWAP_STEPS 40000000
