/* ways.h - the least times of a microbatch's way through the stages. Its F, B and W may run alone, B and W as BW, or F
 * and BW as a pair. The bounds are made of these times; docs/bounds.md proves each. */
#pragma once

#include <pipesim/bound.h>

/* Most weight copies of a placement. */
#define MAX_COPIES 2

/* Whether the pairs of any stage have a time of their own. */
gboolean ps_costs_have_pair_times (const PsCosts *costs);

/* Arrays marked [i] have an entry i = copy * n_stages + stage. All times are ns. */
typedef struct
{
  const PsPlacement *placement;
  const PsCosts *costs;
  guint m[MAX_COPIES]; /* microbatches of each copy */
  gint64 *least_pair;  /* [n_devices] shortest pair of any stage there; G_MAXINT64: none */
  gint64 *forward;     /* [n_stages] least time from the start of a stage's F to its result */
  gint64 *backward;    /* [i] least time from the start of a stage's B to its gradient */
  gint64 *own;         /* [i] least time from the start of a stage's B to the end of its W */
  gint64 *arrival;     /* [i] earliest start of any F of the stage */
  gint64 *gradient;    /* [i] earliest arrival of any gradient at the stage */
  gint64 *turn;        /* [i] least time from the end of a microbatch's F to the start of its B */
  gint64 *rest;        /* [i] least time from the start of a microbatch's B to the end of its last op anywhere */
} PsWays;

/* Placement and costs must outlive the ways. */
void ps_ways_init (PsWays *ways, const PsPlacement *placement, const PsCosts *costs, const guint m[MAX_COPIES]);
void ps_ways_clear (PsWays *ways);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsWays, ps_ways_clear)

static inline gint64
ps_ways_duration (const PsWays *ways, PsOpKind kind, guint stage)
{
  return ps_costs_op (ways->costs, kind, stage)->duration_ns;
}

/* A stage's whole backward where it is in no pair. */
static inline gint64
ps_ways_backward_alone (const PsWays *ways, guint stage)
{
  return MIN (ps_ways_duration (ways, PS_OP_B, stage) + ps_ways_duration (ways, PS_OP_W, stage),
              ps_ways_duration (ways, PS_OP_BW, stage));
}

/* The work of a device if a given number of its forwards, and as many of its backwards, are in no pair. */
typedef struct
{
  gint64 all;      /* nothing in pairs, every backward in the shorter way */
  guint n;         /* most pairs that save time */
  gint64 *saved;   /* [n + 1] most that this many pairs save together; each adds less than the one before; NULL: none */
  guint n_forward; /* all forwards */
} PsWaysLoad;

void ps_ways_load_init (PsWaysLoad *load, const PsWays *ways, guint device);
void ps_ways_load_clear (PsWaysLoad *load);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsWaysLoad, ps_ways_load_clear)

/* The least time for the device's work, and the least if at least n forwards are in no pair. */
gint64 ps_ways_load_least (const PsWaysLoad *load);
gint64 ps_ways_load_apart (const PsWaysLoad *load, guint n);

/* The way of one microbatch of the copy through all stages and back, if no other comes before it. */
gint64 ps_ways_chain (const PsWays *ways, guint copy);
