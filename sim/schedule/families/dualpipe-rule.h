/* dualpipe-rule.h - the order that DualPipe and DualPipeV share. */
#pragma once

#include "families-private.h"

/* One device in the rule's terms. Two streams of microbatches meet here: phase 0 is the one whose source is nearer than
 * its end. */
typedef struct
{
  guint half;           /* P: devices from one end to where the streams meet */
  guint distance;       /* h: devices between this one and its end, 0 .. P - 1 */
  guint n_microbatches; /* of each phase */
  guint stage[2];       /* [phase] */
  guint first[2];       /* [phase] first microbatch */
  /* state of ps_dualpipe_add */
  guint next_forward[2];  /* [phase] */
  guint next_backward[2]; /* [phase] */
  PsOp *weights;          /* [2 n_microbatches] W put off, in the order of their B */
  guint n_weights;
  guint n_weights_done;
  PsScheduleBuilder *builder;
} PsDualPipeDevice;

/* Adds the device's whole order to the builder. n_microbatches >= 2 P. */
void ps_dualpipe_add (PsDualPipeDevice *device, PsScheduleBuilder *builder);
