/* partial.h - a schedule in the making: which ops are placed, when each device is free, and what is possible next. */
#ifndef PS_SEARCH_PARTIAL_H
#define PS_SEARCH_PARTIAL_H

#include "order.h"

G_BEGIN_DECLS

/* What all partial schedules of one problem share. */
typedef struct
{
  const Problem *problem;
  guint n_chains;
  guint *producer; /* [n_chains] chain whose op of the same microbatch a chain's op needs; NO_OP: none */
  gint64 *tail;    /* [n_chains] least time from an op's end to the end of the last op that counts and needs it */
  gsize size;      /* bytes of a Partial with its arrays */
} PartialFrame;

PartialFrame *partial_frame_new (const Problem *problem);
void partial_frame_free (PartialFrame *frame);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PartialFrame, partial_frame_free)

/* One block of memory, copied with its arrays by partial_assign. */
typedef struct
{
  guint n_placed;
  gint64 bound;      /* no completion is better */
  gint64 weight;     /* sum of the bounds of all devices */
  gint64 *end;       /* [n_ops] of the placed ops */
  gint64 *release;   /* [n_chains] earliest start of the chain's next op, exact when it is available */
  gint64 *free_ns;   /* [n_devices] */
  gint64 *level;     /* [n_devices] memory */
  guint32 *sequence; /* [n_ops] as in Order */
  guint32 *fill;     /* [n_devices] next position there */
  guint32 *next;     /* [n_chains] microbatch */
  guint8 *refused;   /* [n_chains] forwards that wait until their device has done something else */
} Partial;

Partial *partial_new (const PartialFrame *frame); /* nothing placed; free with g_free */
void partial_assign (const PartialFrame *frame, Partial *partial, const Partial *from);

/* The next op of a chain, which must be available, is placed at its release; bound and weight follow. */
void partial_place (const PartialFrame *frame, Partial *partial, guint chain);

/* The possible next steps: of the device whose next op can end first, every op that could start before that moment
 * (Giffler and Thompson, Operations Research 8, 1960). Writes chains (room for n_chains), most urgent first; returns
 * how many, 0 at a dead end. *device and *moment are that device and moment. */
guint partial_choices (const PartialFrame *frame, const Partial *partial, guint *chains, guint *device, gint64 *moment);

/* A forward that fits the memory now may have to wait for one that is not there yet. Whether the device may have to do
 * without its forwards: only where the op that can end first is a forward and memory is limited. */
gboolean partial_may_refuse (const PartialFrame *frame, const Partial *partial, guint device, gint64 moment);

/* Refuses the forwards that could start before the moment, until the device has done something else. */
void partial_refuse (const PartialFrame *frame, Partial *partial, guint device, gint64 moment);

/* When devices are free and what was made but not used yet arrives: of two partial schedules of the same ops, the one
 * whose times are all no later is as good. Returns how many (at most n_devices + n_ops). */
guint partial_times (const PartialFrame *frame, const Partial *partial, gint64 *times);

G_END_DECLS

#endif
