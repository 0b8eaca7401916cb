/* beam.h - many partial schedules side by side; only the most promising ones are continued. */
#pragma once

#include "order.h"
#include "random.h"

typedef struct
{
  guint width;  /* partial schedules kept per op placed */
  double blend; /* weight of the devices' mean bound, against the largest bound, in the rank */
  double noise; /* ns, random addition */
  PsRandom random;
  gint64 stop_at_ns;                 /* a schedule must be better than this to be returned */
  gboolean (*go_on) (gpointer data); /* called before each partial schedule is continued; FALSE ends the search */
  gpointer data;
} PsBeam;

/* Builds schedules op by op as branch and bound does (exact.h) but keeps the best `width` of each size. TRUE: order is
 * evaluated, a solution, and better than stop_at_ns. */
gboolean ps_beam_search (PsOrder *order, PsBeam *beam);
