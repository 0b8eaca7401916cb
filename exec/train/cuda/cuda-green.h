/* cuda-green.h - green contexts. The driver's functions are looked up at run time, because the program must start
 * without a driver. */
#pragma once

#include "cuda-context.h"

/* Gives the context part number `index` of n parts of its GPU's multiprocessors, and a stream there. Every device makes
 * the whole split again: equal splits give equal parts. shares[n] is as in PsDeviceSetting; NULL: equal. sms[n] become
 * the multiprocessors of all parts. TRUE with *reason (free with g_free): green contexts are not possible here. */
gboolean ps_cuda_green_open (PsCudaContext *context, guint n, guint index, const guint *shares, guint *sms,
                             char **reason, GError **error);
/* Makes another stream in the context's part. */
gboolean ps_cuda_green_stream (PsCudaContext *context, GError **error);
gboolean ps_cuda_green_enter (const PsCudaContext *context, GError **error);
void ps_cuda_green_close (PsCudaContext *context);
