/* problem.h - a search problem in dense arrays, for the inner loops of sim/search, and the random numbers of a search.
 */
#pragma once

#include <pipesim/philox.h>
#include <pipesim/search.h>

/* Kinds in a search; equal to PS_OP_F, PS_OP_B, PS_OP_W. */
#define N_KINDS 3
#define NO_OP G_MAXUINT32

/* Adds a block of memory to those that live as long as their owner. Returns it. */
static inline gpointer ps_own (GPtrArray *owned, gpointer block)
{
  g_ptr_array_add (owned, block);
  return block;
}

/* [n] zeros of a type. */
#define PS_OWN_NEW(owned, type, n) ((type *)ps_own (owned, g_new0 (type, n)))

/* Fixed facts of an op, stored because the inner loops need them often. n_ops stands for no op. */
typedef struct {
  guint32 producer;
  guint32 consumer[2]; /* a single one is consumer[0] */
  guint16 device;
  guint16 chain;
} PsOperation;

/* Ops are numbered (stage * 3 + kind) * m + microbatch: the ops of one chain follow each other. Two weight copies are
 * two pipelines with stages of their own, copy * (stages of one copy) + stage, that share the devices; each has half of
 * the microbatches.
 *
 * Where microbatches have slices, each slice counts as a microbatch. Slices come back in reverse, so the first B of a
 * microbatch waits for its last F. The n-th F of a chain is of slice n mod n_slices; the n-th B and W count slices from
 * the last one down.
 *
 * Ops may be joined: a B and its W to BW, and these with an F of the same device to a pair. If schedules without joined
 * ops are as good, `joins` is FALSE and no order has any. */
typedef struct {
  GPtrArray *owned; /* all arrays */
  guint n_devices;
  guint n_stages;      /* of all copies */
  guint n_copy_stages; /* of one */
  guint n_copies;
  guint m; /* of each copy: microbatches, or their slices */
  guint n_slices;
  guint n_ops;
  gboolean joins;
  gboolean reserves; /* limit is below the one asked for, to leave room for buffers */
  PsObjective objective;
  PsOperation *op;    /* [n_ops] */
  guint *device;      /* [n_stages] */
  guint *first_stage; /* [n_devices + 1] into stages */
  guint *stages;      /* stages by device, in model order */
  guint *first;       /* [n_devices + 1] a device's ops in an order's sequence */
  gint64 *duration;   /* [3 * n_stages] by chain */
  gint64 *lag;   /* [3 * n_stages] time from the end of the producer of a chain's op to the arrival of its result */
  gint64 *take;  /* [3 * n_stages] memory taken at the start of an op */
  gint64 *give;  /* [3 * n_stages] memory given back at its end */
  gint64 *pair;  /* [n_stages] duration of a pair with an F of that stage; -1: no such pair could save time */
  guint8 *fuses; /* [n_stages] whether BW alone may be better than B and W */
  gint64 *bw_duration; /* [n_stages] of BW */
  gint64 *bw_take;     /* [n_stages] */
  gint64 *bw_give;     /* [n_stages] */
  gint64 *held;        /* [n_devices] weights */
  gint64 *limit;       /* [n_devices] G_MAXINT64: none */
  gint64 *asked;       /* [n_devices] the limit asked for, where `limit` may leave room for buffers */
  gint64 *begin;       /* [n_devices] earliest start of the device's first op: its span begins there */
  gint64 *offset;      /* [n_devices] added to a device's end: 0 for makespans, -begin for spans */
} PsProblem;

/* Whether any schedule keeps to the memory limit, and each copy has as many microbatches. setting->costs are those of a
 * slice. */
gboolean ps_problem_is_possible (const PsSearchSetting *setting);

/* setting->costs are those of a slice. */
PsProblem *ps_problem_new (const PsSearchSetting *setting);
void ps_problem_free (PsProblem *problem);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsProblem, ps_problem_free)

/* Whether the device could run out of memory; FALSE if all that its ops ever take fits. */
gboolean ps_problem_may_run_out (const PsProblem *problem, guint device);

/* Bytes that remain of what an F takes, after the stage's ops up to `kind`. */
gint64 ps_problem_kept (const PsProblem *problem, guint stage, PsOpKind kind);

/* The most that a B and its W, run one after the other, add to the memory of their device. */
gint64 ps_problem_apart_peak (const PsProblem *problem, guint stage);

/* Whether a stage is the first, or the last, of its copy. */
static inline gboolean is_first_stage (const PsProblem *problem, guint stage)
{
  return stage % problem->n_copy_stages == 0;
}

static inline gboolean is_last_stage (const PsProblem *problem, guint stage)
{
  return (stage + 1) % problem->n_copy_stages == 0;
}

static inline guint chain_of (const PsProblem *problem, guint op)
{
  return problem->op[op].chain;
}

static inline guint device_of (const PsProblem *problem, guint op)
{
  return problem->op[op].device;
}

static inline guint microbatch_of (const PsProblem *problem, guint op)
{
  return op - problem->op[op].chain * problem->m;
}

static inline guint op_at (const PsProblem *problem, guint stage, guint kind, guint microbatch)
{
  return (stage * N_KINDS + kind) * problem->m + microbatch;
}

/* The place of the F of a slice for its B, and of the B for its F: slices come back in reverse. */
static inline guint mirrored (const PsProblem *problem, guint microbatch)
{
  guint slice = microbatch % problem->n_slices;

  return microbatch - slice + problem->n_slices - 1 - slice;
}

/* The op that makes the input of `op`; NO_OP: none. */
static inline guint producer_of (const PsProblem *problem, guint op)
{
  guint producer = problem->op[op].producer;

  return producer == problem->n_ops ? NO_OP : producer;
}

/* The ops on any device that need the result of `op`, W of the same stage included; returns how many (0 to 2). */
static inline guint consumers_of (const PsProblem *problem, guint op, guint consumer[2])
{
  const PsOperation *operation = &problem->op[op];

  consumer[0] = operation->consumer[0];
  consumer[1] = operation->consumer[1];
  return (consumer[0] != problem->n_ops) + (consumer[1] != problem->n_ops);
}

/* A generator of ps_splitmix_next's numbers. */
typedef struct {
  guint64 state;
} PsRandom;

static inline guint64 ps_random_next (PsRandom *random)
{
  return ps_splitmix_next (&random->state);
}

/* 0 .. n - 1 */
static inline guint ps_random_below (PsRandom *random, guint n)
{
  return (guint)(((ps_random_next (random) >> 32) * n) >> 32);
}

/* [0, 1) */
static inline double ps_random_unit (PsRandom *random)
{
  return (double)(ps_random_next (random) >> 11) * 0x1p-53;
}

/* Exponentially distributed with mean 1: -log of a uniform number. It uses products and sums alone, so it is the same
 * on every machine. With u = m 2^-e, m in [1, 2), and s = (m - 1) / (m + 1): log m = 2 (s + s^3 / 3 + s^5 / 5 + ..). */
static inline double ps_random_exponential (PsRandom *random)
{
  guint64 bits = (ps_random_next (random) >> 11) | 1;
  guint e = 53 - g_bit_storage (bits) + 1;
  double m = (double)bits / (double)((guint64)1 << (53 - e)), s = (m - 1) / (m + 1), square = s * s, sum = 0;

  for (int k = 15; k > 0; k -= 2)
    sum = sum * square + 1.0 / k;
  return e * 0.69314718055994530942 - 2 * s * sum;
}
