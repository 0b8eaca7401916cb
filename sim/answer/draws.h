/* draws.h - times of a program's ops and transfers in samples of varying costs, and in the iterations before a sample.
 * Private to libpipesim. */
#pragma once

#include "jitter.h"
#include "uncertainty-private.h"

#include <math.h>

/* The source of the draws of one class of ops or transfers. */
typedef struct
{
  gint64 base_ns;
  gint64 host_ns;         /* part of it that no slow device and no speed changes */
  const GArray *measured; /* of double; NULL: none */
  gboolean jitters;
  gboolean apart;   /* it takes time, but none that jitters by the table of PsJitter */
  guint row;        /* of PsCostSpread, if samples are of different runs */
  double deviation; /* of that row's factor; 0: it has none */
} PsDrawSource;

/* A time that jitters by the table of PsJitter. */
typedef struct
{
  PsDrawStart start; /* with its stream: PS_STREAM_OP or PS_STREAM_TRANSFER */
  guint32 class;     /* of ops or transfers */
  guint32 step;
} PsDraw;

/* A time that is always 0. */
typedef struct
{
  guint32 stream; /* PS_STREAM_OP or PS_STREAM_TRANSFER */
  guint32 step;
} PsZero;

/* Constant once made, so that threads may share it. Everything that it is made of must outlive it. */
typedef struct
{
  const PsRecurrence *recurrence;
  const PsCosts *costs;
  const PsUncertainty *uncertainty;
  guint64 seed;
  PsCauses causes;
  PsKernel kernel;
  guint bits;             /* of the integers that times are written to: 64, or 32 as in ps_draws_bits */
  guint run_samples;      /* samples that one lane takes of the same run, if samples are of different runs */
  PsJitter *jitter;       /* NULL: none */
  PsDrawSource *op;       /* [n_op_classes] */
  PsDrawSource *transfer; /* [n_transfer_classes] */
  PsDrawStart *start;     /* [n_steps] of their draws, in stream 0 */
  gboolean apart;         /* a time of some step is */
  guint32 *first_draw;    /* [n_steps + 1] */
  PsDraw *draw;           /* of step i: from first_draw[i] to before first_draw[i + 1] */
  guint32 *first_zero;    /* [n_steps + 1] */
  PsZero *zero;           /* of step i, likewise */
} PsDraws;

void ps_draws_init (PsDraws *draws, const PsRecurrence *recurrence, const PsCosts *costs,
                    const PsUncertainty *uncertainty, guint64 seed, PsCauses causes);
void ps_draws_clear (PsDraws *draws);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsDraws, ps_draws_clear)

/* The longest time, in ns, that all ops and transfers of an iteration can take one after the other. events (or NULL)
 * gives speeds and slow-down. */
double ps_draws_longest (const PsDraws *draws, const PsEventsSetting *events);

/* The fewest bits that hold every end of an iteration whose transfers never queue: 32 or 64. */
guint ps_draws_bits (const PsDraws *draws);

#define PS_LUCK_QUEUE 128

/* PS_SCENARIO_LANES samples side by side; one thread uses one at a time. */
typedef struct
{
  const PsDraws *draws;
  guint first;         /* sample of the first lane */
  guint before;        /* iterations before that sample; 0: the sample itself */
  double *op_ns;       /* [n_op_classes][PS_SCENARIO_LANES] base time and slowness */
  double *transfer_ns; /* [n_transfer_classes][PS_SCENARIO_LANES] */
  double *slowness;    /* [n_devices][PS_SCENARIO_LANES] the factor of each device's O */
  guint n_queued;
  PsJitterTime queue[PS_LUCK_QUEUE]; /* asked for and not found yet */
} PsLuck;

void ps_luck_init (PsLuck *luck, const PsDraws *draws);
void ps_luck_clear (PsLuck *luck);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsLuck, ps_luck_clear)

/* Begins the samples from `first` on, a multiple of PS_SCENARIO_LANES. If before > 0: the iterations that many places
 * before them, with draws of their own. */
void ps_luck_begin (PsLuck *luck, guint first, guint before);

/* Begins mean times in every lane instead: without jitter, and with slowness weighed by its probability. */
void ps_luck_begin_mean (PsLuck *luck);

/* The time of a device's O in a lane. */
static inline gint64
ps_luck_optimizer (const PsLuck *luck, guint device, guint lane, gint64 optimizer_ns)
{
  return llrint ((double)optimizer_ns * luck->slowness[(gsize)device * PS_SCENARIO_LANES + lane]);
}

/* Times of a step's op, and of the transfer of its input, in every lane, to the nearest nanosecond; 0 where the step's
 * class is 0. ns: of guint32 or gint64. They may be written as late as in ps_luck_flush. */
void ps_luck_op (PsLuck *luck, guint step, gpointer ns);
void ps_luck_transfer (PsLuck *luck, guint step, gpointer ns);
void ps_luck_flush (PsLuck *luck);

/* Both times of n steps, written when it returns. */
void ps_luck_steps (PsLuck *luck, guint first, guint n, gpointer op_ns, gpointer transfer_ns);
