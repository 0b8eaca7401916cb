/* beam.h - many partial schedules side by side, of which only the most promising go on. */
#ifndef PS_SEARCH_BEAM_H
#define PS_SEARCH_BEAM_H

#include "order.h"
#include "random.h"

G_BEGIN_DECLS

typedef struct
{
  guint width;  /* partial schedules kept per op placed */
  double blend; /* part of the devices' mean bound in what ranks them, beside the largest */
  double noise; /* ns, random addition */
  PsRandom random;
  gint64 stop_at_ns;                 /* only better schedules are wanted */
  gboolean (*go_on) (gpointer data); /* asked before each partial schedule that is to grow */
  gpointer data;
} PsBeam;

/* Builds schedules op by op as branch and bound does (exact.h) but keeps the best `width` of each size. TRUE: order is
 * evaluated, a solution, and better than stop_at_ns. */
gboolean ps_beam_search (PsOrder *order, PsBeam *beam);

G_END_DECLS

#endif
