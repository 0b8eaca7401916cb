/* ways.h - the least times of a microbatch's way through the stages, in whatever ops its F, B and W run: alone, B and W
 * as BW, or F and BW as a pair. What bounds are made of. docs/bounds.md proves each. */
#ifndef PS_SEARCH_WAYS_H
#define PS_SEARCH_WAYS_H

#include <pipesim/bound.h>

G_BEGIN_DECLS

/* Most weight copies of a placement. */
#define MAX_COPIES 2

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

/* The work of a device where so many of its forwards, and as many of its backwards, are in no pair. */
typedef struct
{
  gint64 all;      /* nothing in pairs, every backward in the shorter way */
  guint n;         /* pairs that save time, at most */
  gint64 *saved;   /* [n + 1] what so many pairs save together at most, each less than the one before */
  guint n_forward; /* all forwards */
} PsWaysLoad;

void ps_ways_load_init (PsWaysLoad *load, const PsWays *ways, guint device);
void ps_ways_load_clear (PsWaysLoad *load);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsWaysLoad, ps_ways_load_clear)

/* The least time in which the device can do it, and the least if so many forwards at least are in no pair. */
gint64 ps_ways_load_least (const PsWaysLoad *load);
gint64 ps_ways_load_apart (const PsWaysLoad *load, guint n);

/* One microbatch of the copy that goes all the way before any other. */
gint64 ps_ways_chain (const PsWays *ways, guint copy);

G_END_DECLS

#endif
