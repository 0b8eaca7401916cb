/* crew.h - the threads of a run, one per device, in one process or in several: they meet, exchange bytes and stop
 * together. */
#pragma once

#include "processes.h"

#include <pipesim/device.h>

typedef struct _PsCrew PsCrew;

/* A crew with n_here members in this process, and as many in every other one. A wait for other processes lasts
 * timeout_ns at most (0: for ever). processes outlives the crew. */
PsCrew *ps_crew_new (guint n_here, PsProcesses *processes, gint64 timeout_ns);
void ps_crew_free (PsCrew *crew);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCrew, ps_crew_free)

/* Sleeps until all members of all processes have come; *moment_ns is when the last one did, as this process saw it, the
 * same for all its members. member: 0 .. n_here - 1. FALSE with the crew's error once it has failed. */
gboolean ps_crew_meet (PsCrew *crew, guint member, gint64 *moment_ns, GError **error);

/* Every member gives n_bytes and gets the bytes of all, process by process: all[members of all processes * n_bytes]. */
gboolean ps_crew_exchange (PsCrew *crew, guint member, gconstpointer mine, gsize n_bytes, gpointer all, GError **error);

/* Notes the error (taken) unless there is one, and wakes all members so that they end. Where there are other processes,
 * it ends all of them instead and does not return. From any thread. */
void ps_crew_fail (PsCrew *crew, GError *error);

/* failed is called when the crew fails, and at once if it has; it may be called more than once, from any thread. NULL:
 * nothing is called any more. */
void ps_crew_watch (PsCrew *crew, void (*failed) (gpointer data), gpointer data);

/* FALSE with the error that the crew has failed with; TRUE if it has not. */
gboolean ps_crew_check (PsCrew *crew, GError **error);

/* Makes the devices of all processes use the same algorithms, which each device has chosen by timing. Then all of them,
 * and the reference run of one device, give the same bits. Every member of all processes, n_members together, calls it
 * with its device after that has chosen. Afterwards each device knows the choices of all, and where they differ the
 * first member's count. Nothing to do for classes without choices. */
gboolean ps_choices_agree (PsCrew *crew, guint member, guint n_members, PsDevice *device, GError **error);
