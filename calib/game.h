/* game.h - messages on their way: ping-pong between pairs of players, each a device with a thread of its own, in one
 * process or in one each. */
#pragma once

#include "calibration.h"

/* The messages on their way at the same time. */
typedef enum {
  PS_WAY_ONE_BY_ONE,
  PS_WAY_BOTH_WAYS,      /* each player sends when it receives */
  PS_WAY_TWO_PAIRS,      /* two ping-pongs */
  PS_WAY_BESIDE_COMPUTE, /* devices that don't play compute, or those of the players (ps_game_load_is_own) */
  PS_WAY_ALL_REDUCE,     /* no messages: all processes add up */
  PS_N_WAYS
} PsWay;

/* A game of one size, or a rotation; the first process sends it to the others. */
typedef struct {
  gint32 way; /* PS_N_WAYS: a rotation */
  gint32 n_pairs;
  gint32 link[2];                                  /* the two that play where there is one pair, the lower one first */
  gint64 bytes;                                    /* 0, and no rotation: there is nothing more */
  gint32 n_chunks, n_slices, first, n_busy, cache; /* of a rotation, see ps_calibrate_ops */
} PsGameOrder;

/* Sends all other processes an order, which they follow too. */
void ps_game_tell_others (const PsCalibration *calibration, const PsGameOrder *order);

/* TRUE: each player has an accelerator to itself, and this one computes while it sends. */
gboolean ps_game_load_is_own (const PsCalibration *calibration);

/* Plays until the first process's sampler has stopped; others' samplers stay as they are. during: medians of the state
 * of the first device here. */
gboolean ps_game_play (const PsCalibration *calibration, const PsGameOrder *order, PsSampler *sampler,
                       PsCondition *during, GError **error);

/* Returns a model whose boundary tensor has exactly `bytes` bytes (a multiple of 4) in fp32. Nothing else of it
 * matters. */
PsModel *ps_model_with_boundary (gint64 bytes);
