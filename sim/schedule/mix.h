/* mix.h - a bound for a device on which each microbatch of a stage may recompute by an R, and so hold less memory, or
 * not. docs/bounds.md proves it. Private to libpipesim. */
#pragma once

#include <pipesim/bound.h>

/* Bytes times time. */
__extension__ typedef __int128 PsByteTime;

/* A stage of the device. */
typedef struct
{
  guint n;          /* microbatches */
  gint64 forward;   /* its longest F */
  gint64 kept;      /* least bytes from F to B of a microbatch with an R */
  PsOpCost again;   /* least time of an R, and the bytes that a microbatch without one keeps more; 0: none has one */
  PsByteTime area;  /* least bytes times time of a microbatch without an R */
  PsByteTime saved; /* how much less the least of one with an R is */
} PsMixStage;

typedef struct
{
  const PsMixStage *stage;
  guint n_stages;
  gint64 begin;     /* earliest start of any op */
  gint64 gradient;  /* earliest start of any B */
  gint64 load;      /* all work but R, at least */
  gint64 room;      /* bytes for activations, more than 0 */
  PsByteTime empty; /* part of room times the time up to the end that cannot be held */
} PsMix;

/* Least end of the device over all choices of microbatches that have an R. */
gint64 ps_mix_bound (const PsMix *mix);

/* The R of a stage where bounds let any microbatch have one (PsCosts.may_recompute), as PsMixStage.again. None has one
 * where pairs have times of their own, which may hide that of an R. */
PsOpCost ps_mix_again (const PsCosts *costs, guint stage);
