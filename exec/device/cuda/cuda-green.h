/* cuda-green.h - green contexts through the driver's entry points, which are looked up at run time: the program must
 * start without a driver. */
#ifndef PIPESIM_CUDA_GREEN_H
#define PIPESIM_CUDA_GREEN_H

#include "cuda-context.h"

/* Gives the context the part number `index` of n of its GPU's multiprocessors, and a stream there. Every device splits
 * anew: equal splits give equal parts. shares[n] as in PsDeviceSetting; NULL: equal. sms[n] become the
 * multiprocessors of all parts. TRUE with *reason (free with g_free) when green contexts can't be had here. */
gboolean ps_cuda_green_open (PsCudaContext *context, guint n, guint index, const guint *shares, guint *sms,
                             char **reason, GError **error);
gboolean ps_cuda_green_enter (const PsCudaContext *context, GError **error);
void ps_cuda_green_close (PsCudaContext *context);

#endif
