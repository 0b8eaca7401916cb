/* barrier.h - a meeting point of all device threads that can be called off. */
#ifndef PIPESIM_EXEC_BARRIER_H
#define PIPESIM_EXEC_BARRIER_H

#include <glib.h>

G_BEGIN_DECLS

typedef struct _PsBarrier PsBarrier;

PsBarrier *ps_barrier_new (guint n_threads);
void ps_barrier_free (PsBarrier *barrier);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsBarrier, ps_barrier_free)

/* Sleeps until all threads have come; *moment_ns, the same for all, is when the last one did. FALSE once aborted. */
gboolean ps_barrier_wait (PsBarrier *barrier, gint64 *moment_ns);

/* Wakes all; nobody waits here any more. */
void ps_barrier_abort (PsBarrier *barrier);

G_END_DECLS

#endif
