/* methods.h - how a search makes orders: from published and from shorter schedules, by list scheduling, by local
 * search, and from blocks that repeat. */
#pragma once

#include "order.h"

/* Called before moves are made; FALSE ends the method. */
typedef gboolean (*PsSpend) (guint64 n_moves, gpointer data);

/* Takes a solution, and the name of the method. */
typedef void (*PsOffer) (const PsOrder *order, const char *found_by, gpointer data);

/* Starts. */

/* A schedule and its price. */
typedef struct {
  PsSchedule *schedule; /* NULL: none */
  gint64 price_ns;      /* G_MAXINT64: it is not to be returned */
  const char *found_by;
} PsPriced;

/* Prices a schedule, takes it over, and keeps it if it is the first or better. Returns its price. */
gint64 ps_priced_take (PsPriced *best, const PsSearchSetting *setting, PsSchedule *schedule, const char *found_by);

/* A problem and where to start. */
typedef struct {
  PsProblem *problem; /* NULL: none */
  PsOrder *order;     /* an evaluated solution */
  gint64 lower_bound_ns;
} PsStart;

/* Fills a problem's start with the best order: of the families with this placement that keep to the limit, and of a
 * plain rule. If `priced` is not NULL, it also takes the order and the families' schedules with a flush, as they were
 * generated. */
void ps_start_init (PsStart *start, const PsSearchSetting *setting, PsPriced *priced);
void ps_start_clear (PsStart *start);

/* The bound of a start; the setting's costs are those of a slice. */
gint64 ps_start_bound (const PsSearchSetting *setting, const PsProblem *problem);

/* Fills the order with one microbatch after the other, of the copies alternately, through all stages and back, fused
 * where that takes less memory. It fits if each device has ps_search_least_memory. */
void ps_order_one_by_one (PsOrder *order);

/* Makes `order` the best of the orders that repeat a part of `from`: the ops between a cut and the same cut some
 * microbatches later. `from` is an evaluated solution of the same problem with fewer microbatches. A cut is the set of
 * ops that have started at some moment, so every device repeats the same microbatches. FALSE: no such order is a
 * solution, or spend returned FALSE; else `order` is evaluated. */
gboolean ps_order_lengthen (PsOrder *order, const PsOrder *from, PsSpend spend, gpointer data);

/* List scheduling: time runs forward, and each free device takes the op with the lowest score. */

/* The order that ops are to run in. List scheduling need not keep to it. */
typedef struct {
  guint32 *list; /* [n_ops] F and B of each device in order, from problem->first on */
  guint8 *n_w;   /* [n_ops] W that have room after the op at that place. NULL: W run wherever the device would wait */
  guint n_last;  /* F and B run as soon as they can when this number of F of the device's first stage is left */
} PsPlan;

/* A linear rule of the device's place x and the chunk's place y, both in [0, 1]. */
typedef struct {
  double base;
  double by_device;
  double by_chunk;
} PsPolicyRule;

/* An op that can start at time t has score t + bias * its duration; the lowest score goes first. The bias of W says how
 * long a device would rather wait for another op. `ahead` is how many microbatches beyond the pipeline's depth a device
 * accepts. */
typedef struct {
  PsPolicyRule bias[N_KINDS];
  PsPolicyRule pair; /* bias of pairs; 0 if problem->joins is FALSE */
  gboolean pairs;    /* forwards and backwards may run in pairs */
  gboolean fuses;    /* backwards run as BW where BW may be better */
  PsPolicyRule ahead;
  guint group;        /* 0: forwards and backwards of all chunks compete; N: N microbatches run in a chunk in a row */
  const PsPlan *plan; /* NULL: none */
} PsPolicy;

void ps_policy_draw (PsPolicy *policy, const PsProblem *problem, PsRandom *random);
void ps_policy_change (PsPolicy *policy, PsRandom *random, double step);

/* Fills the order's sequence by the policy. It keeps room for the oldest microbatch of every device, where there is no
 * plan. So one copy without groups and plan always succeeds if each device has ps_search_least_memory and W takes
 * nothing at its start. Else it may get stuck, and returns FALSE. */
gboolean ps_list_schedule (PsOrder *order, const PsPolicy *policy);

/* Local search: single ops move along their device, worse orders are taken with falling probability. */

typedef struct {
  PsRandom *random;
  double hot;      /* temperature at the start, ns */
  double cold;     /* at the end */
  double price;    /* of a byte of excess at the start, ns; ten times that at the end; negative: no excess is allowed */
  double pull;     /* weight of the devices' mean finish in the cost that is minimised */
  guint64 n_moves; /* to try */
  gint64 stop_at_ns; /* an objective that ends the search: a lower bound */
  PsSpend spend;     /* NULL: always TRUE */
  PsOffer offer;     /* receives the best so far at moments that depend on n_moves alone, but not at the
                        end; NULL: none */
  gpointer data;
} PsAnnealing;

/* Improves the order (evaluated, a solution) in place; at the end it is the best solution met. Orders before that may
 * exceed limits, at a rising price. Returns the moves tried. */
guint64 ps_anneal (PsOrder *order, const PsAnnealing *annealing);

/* Orders that repeat a block: the slots of ps_family_v_hops, with waits of their own, or periods of a cell. */

typedef struct {
  guint n_waves; /* microbatches of each copy in a period */
  gint64 period; /* ns */
  gint64 *start; /* [n_waves * 2 * n_stages] ns: the wave's F of each stage, then its B */
} PsCell;

typedef struct {
  guint8 *wait; /* [2 * n_stages] slots before F and B of each stage */
  PsCell cell;
  guint n_w;      /* of every two W, that the cell has room for */
  double factor;  /* the cell's period in parts of the work in it */
  double pace;    /* least time between microbatches, in parts of what time and memory allow on average */
  guint burst;    /* microbatches that may come ahead of the pace */
  gboolean has_w; /* whether the plan says where W run */
  guint n_last;   /* as in PsPlan */
} PsBlock;

typedef struct {
  gboolean have_slots; /* slots, not cells */
  PsRandom *random;
  PsBlock best;
  gint64 best_ns;  /* objective of its order; G_MAXINT64: none yet */
  guint64 n_tries; /* orders of one search */
  guint64 n_moves; /* that an order counts as */
  PsSpend spend;
  PsOffer offer; /* receives each solution no worse than the one before */
  gpointer data;
} PsBlocks;

void ps_blocks_init (PsBlocks *blocks, const PsProblem *problem);
void ps_blocks_clear (PsBlocks *blocks);

/* Whether blocks may help: no ops are sliced or joined, and the problem is a V of two chunks, which has slots, or is
 * large and has cells. */
gboolean ps_blocks_suit (const PsProblem *problem, gboolean have_slots);

/* Tries blocks, each like the last good one with a change. `scratch` takes their orders. */
void ps_blocks_search (PsBlocks *blocks, PsOrder *scratch);
