/* greedy.h - list scheduling: time runs forward, and each free device takes the op with the lowest score. */
#pragma once

#include "problem.h"
#include "order.h"
#include "random.h"

/* The order that ops are to run in. List scheduling need not keep to it. */
typedef struct
{
  guint32 *list; /* [n_ops] F and B of each device in order, from problem->first on */
  guint8 *n_w;   /* [n_ops] W that have room after the op at that place. NULL: W run wherever the device would wait */
  guint n_last;  /* F and B run as soon as they can when this number of F of the device's first stage is left */
} PsPlan;

/* A linear rule of the device's place x and the chunk's place y, both in [0, 1]. */
typedef struct
{
  double base;
  double by_device;
  double by_chunk;
} PsPolicyRule;

/* An op that can start at time t has score t + bias * its duration; the lowest score goes first. The bias of W says how
 * long a device would rather wait for another op. `ahead` is how many microbatches beyond the pipeline's depth a device
 * accepts. */
typedef struct
{
  PsPolicyRule bias[N_KINDS];
  PsPolicyRule pair; /* bias of pairs; 0 if problem->joins is FALSE */
  gboolean pairs;    /* forwards and backwards may run in pairs */
  gboolean fuses;    /* backwards run as BW where BW may be better */
  PsPolicyRule ahead;
  guint group; /* 0: forwards and backwards of all chunks compete; N: N microbatches go through a chunk in a row */
  const PsPlan *plan; /* the order to follow; NULL: none */
} PsPolicy;

void ps_policy_draw (PsPolicy *policy, const PsProblem *problem, PsRandom *random);

void ps_policy_change (PsPolicy *policy, PsRandom *random, double step);

/* Fills the order's sequence by the policy. It keeps room for the oldest microbatch of every device, where there is no
 * plan. So one copy without groups and plan always succeeds if each device has ps_search_least_memory and W takes
 * nothing at its start. Else it may get stuck, and returns FALSE. */
gboolean ps_greedy_build (PsOrder *order, const PsPolicy *policy);
