/* partial.h - a schedule in the making: the ops placed, when each device is free, and which steps are possible. */
#pragma once

#include "order.h"

/* Data that all partial schedules of one problem share. */
typedef struct
{
  const PsProblem *problem;
  guint n_chains;
  guint *producer; /* [n_chains] chain whose op of the same microbatch this chain's op needs; NO_OP: none */
  gint64 *tail;    /* [n_chains] least time from an op's end to the end of the last op that needs it and counts */
  gsize size;      /* bytes of a PsPartial with its arrays */
} PsPartialFrame;

PsPartialFrame *ps_partial_frame_new (const PsProblem *problem);
void ps_partial_frame_free (PsPartialFrame *frame);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPartialFrame, ps_partial_frame_free)

/* One block of memory, copied with its arrays by ps_partial_assign. */
typedef struct
{
  guint n_placed;
  gint64 bound;      /* no completion can be better */
  gint64 weight;     /* sum of the bounds of all devices */
  gint64 *end;       /* [n_ops] of the placed ops */
  gint64 *release;   /* [n_chains] earliest start of the chain's next op, exact when it is available */
  gint64 *free_ns;   /* [n_devices] */
  gint64 *level;     /* [n_devices] memory */
  guint32 *sequence; /* [n_ops] as in PsOrder */
  guint32 *fill;     /* [n_devices] next position there */
  guint32 *next;     /* [n_chains] microbatch */
  guint8 *refused;   /* [n_chains] forwards that wait until their device has done something else */
} PsPartial;

PsPartial *ps_partial_new (const PsPartialFrame *frame); /* Nothing placed; free with g_free. */
void ps_partial_assign (const PsPartialFrame *frame, PsPartial *partial, const PsPartial *from);

/* Places the next op of a chain, which must be available, at its release, and updates bound and weight. */
void ps_partial_place (const PsPartialFrame *frame, PsPartial *partial, guint chain);

/* Lists the possible next steps. They are of the device whose next op can end first: all its ops that could start
 * before that moment (Giffler and Thompson, Operations Research 8, 1960). Writes chains (room for n_chains), most
 * urgent first, and returns how many; 0: a dead end. *device and *moment are that device and that moment. */
guint ps_partial_choices (const PsPartialFrame *frame, const PsPartial *partial, guint *chains, guint *device,
                          gint64 *moment);

/* Whether the device may have to refuse its forwards: a forward that fits the memory now may have to wait for a later
 * one. That is so only if memory is limited and the op that can end first is a forward. */
gboolean ps_partial_may_refuse (const PsPartialFrame *frame, const PsPartial *partial, guint device, gint64 moment);

/* Refuses the forwards that could start before the moment, until the device has done something else. */
void ps_partial_refuse (const PsPartialFrame *frame, PsPartial *partial, guint device, gint64 moment);

/* Writes the times that decide a comparison: when devices are free, and when results that are made but not used arrive.
 * A partial schedule of the same ops with no time later is as good. Returns how many (at most n_devices + n_ops). */
guint ps_partial_times (const PsPartialFrame *frame, const PsPartial *partial, gint64 *times);
