/* threads-sum.h - sums over devices whose threads are in one process: the part of the class "threads" that makes them.
 */
#pragma once

#include "transport/transports.h"

typedef struct _PsThreadsPlace PsThreadsPlace;

/* A transport of the class begins with this. */
typedef struct
{
  PsTransport base;
  PsTransportSetting setting;
  guint n; /* devices of all pipelines */
  gint aborted;
  PsThreadsPlace *place; /* [n] of each device */
} PsThreadsSum;

/* The caller sets the class. */
void ps_threads_sum_init (PsThreadsSum *sum, const PsTransportSetting *setting);
void ps_threads_sum_clear (PsThreadsSum *sum);

/* Wakes all that add up with PS_ERROR_IO "run aborted". From any thread. */
void ps_threads_sum_abort (PsThreadsSum *sum);

/* Hooks of PsTransportClass. Share s of the numbers (ps_share_begin) is added up in the order s + 1, s + 2, ..., s, as
 * by ps_mpi_sum. */
gboolean ps_threads_join (PsTransport *transport, guint at, PsDevice *device, GError **error);
gboolean ps_threads_sum (PsTransport *transport, guint at, PsCircleKind kind, PsSumHalves halves, float *values,
                         gsize n, GError **error);
