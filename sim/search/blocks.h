/* blocks.h - orders that repeat a block: the slots of ps_family_v_hops, with waits of their own, or periods of a cell.
 */
#pragma once

#include "problem.h"
#include "greedy.h"

/* A device runs N_TRACKS ops in a turn, and their W. The results of the first N_FORTH ops go to the next device. The
 * inputs of the others come from the next device. */
#define N_TRACKS 4

#define N_FORTH 2

/* Ops of a kind, of the lanes of a direction. A lane is n_devices stages, one on each device. */
typedef struct
{
  guint8 kind;
  guint8 back;
} Track;

typedef struct
{
  const PsProblem *problem;
  const Track *track; /* [N_TRACKS] */
  guint n;            /* units of a turn */
  guint n_w;          /* W that have room in a turn */
  double unit_ns;
  guint (*at)[N_TRACKS];                              /* [n_devices] positions in the turn, in units */
  gboolean (*spend) (guint64 n_moves, gpointer data); /* as of ps_cell_plan */
  gpointer data;
} PsCellPath;

/* The tracks of a problem's cells: of lanes that all go one way, or of as many back as forth. */
const Track *ps_cell_tracks (const PsProblem *problem);

/* Sets the positions for which the waits between devices are shortest in total. FALSE: there are none, or it was to
 * stop. */
gboolean ps_cell_path_find (const PsCellPath *path);

static inline gboolean
goes_back (const PsProblem *problem, guint lane)
{
  return problem->device[lane * problem->n_devices] != 0;
}

static inline guint
stage_at (const PsProblem *problem, guint lane, guint device)
{
  guint p = problem->n_devices;

  return lane * p + (goes_back (problem, lane) ? p - 1 - device : device);
}

typedef struct
{
  guint n_waves; /* microbatches of each copy in a period */
  gint64 period; /* ns */
  gint64 *start; /* [n_waves * 2 * n_stages] ns: the wave's F of each stage, then its B */
} PsCell;

/* Whether cells exist: every lane of n_devices stages goes from the first device to the last or back, and lanes go one
 * way, or as many go back as forth. */
gboolean ps_cell_suits (const PsProblem *problem);

/* Fills the cell whose waits are shortest. The period is `stretch` times the work that it has room for at the busiest
 * device. Times are rounded to units; two lanes' share of the period has n_units of them. spend is told the moves that
 * the next device counts as; FALSE ends the plan. Returns FALSE where there is no cell, or the plan was ended. */
gboolean ps_cell_plan (PsCell *cell, const PsProblem *problem, guint n_w, double stretch, guint n_units,
                       gboolean (*spend) (guint64 n_moves, gpointer data), gpointer data);

typedef struct
{
  const PsCell *cell;
  gint64 pace;                                        /* ns between microbatches of a copy, on average at least */
  guint burst;                                        /* microbatches that may enter ahead of the pace */
  gboolean (*spend) (guint64 n_moves, gpointer data); /* as of ps_cell_plan; a period counts as no moves */
  gpointer data;
} PsInjection;

/* Fills a plan: F and B of each device by their planned starts, and the W that have room after each, unless plan->n_w
 * is NULL. To the memory a W counts as run right after its B. FALSE: a microbatch does not fit the memory, or spend
 * ended the plan. */
gboolean ps_inject (const PsProblem *problem, const PsInjection *injection, PsPlan *plan);

typedef struct
{
  guint8 *wait; /* [2 * n_stages] slots before F and B of each stage */
  PsCell cell;
  guint n_w;      /* of every two W, that the cell has room for */
  double stretch; /* of the cell's period, in parts of the work in it */
  double pace;    /* least time between microbatches, in parts of what time and memory allow on average */
  guint burst;    /* microbatches that may come ahead of the pace */
  gboolean has_w; /* whether the plan says where W run */
  guint n_last;   /* as in PsPlan */
} PsBlock;

typedef struct
{
  gboolean have_slots; /* slots, not cells */
  PsRandom random;
  PsBlock best;
  gint64 best_ns;                                      /* objective of its order; G_MAXINT64: none yet */
  guint64 n_tries;                                     /* orders of one search */
  guint64 n_moves;                                     /* that an order counts as */
  gboolean (*spend) (guint64 n_moves, gpointer data);  /* told of moves before they are made; FALSE ends the search */
  void (*offer) (const PsOrder *order, gpointer data); /* told each solution that is no worse than the one before */
  gpointer data;
} PsBlocks;

void ps_blocks_init (PsBlocks *blocks, const PsProblem *problem);

void ps_blocks_clear (PsBlocks *blocks);

/* Whether blocks may help: no ops are sliced or joined, and the problem is a V of two chunks, which has slots, or is
 * large and has cells. */
gboolean ps_blocks_suit (const PsProblem *problem, gboolean have_slots);

/* Tries blocks, each like the last good one with a change. `scratch` takes their orders. */
void ps_blocks_search (PsBlocks *blocks, PsOrder *scratch);
