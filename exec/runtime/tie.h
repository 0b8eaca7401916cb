/* tie.h - the gradient of a matrix that embedding and head share: each of their stages holds the matrix and adds the
 * other's gradient to its own, so that both stay the same. */
#pragma once

#include "worker.h"

/* The two stages that share the matrix, and which of them a device holds. */
typedef struct
{
  guint stages[2]; /* with the embedding, with the head */
  gboolean has[2]; /* whether the device holds them */
  guint peer;      /* the device with the other one; the device itself where it holds both */
} PsTie;

/* FALSE: the model shares no matrix, or the device holds neither stage. */
gboolean ps_tie_find (const PsRun *run, guint device, PsTie *tie);

/* Adds up the two gradients; every device's thread calls it once a step, after ps_sum_gradients. */
gboolean ps_tie_add (PsWorker *worker, GError **error);
