/* processes.h - the other processes of a program that a launcher has started several times. */
#ifndef PIPESIM_EXEC_PROCESSES_H
#define PIPESIM_EXEC_PROCESSES_H

#include "rendezvous.h"

G_BEGIN_DECLS

/* Finds them, by what the launcher has put into the environment (launch.h); *others is NULL where there are none. End
 * with ps_rendezvous_leave. */
gboolean ps_processes_join (PsRendezvous **others, GError **error);

/* At the end of the work, whether it has failed (*error is set) or not: makes the failure of this process everybody's,
 * or everybody's this one's. All stay until the last has come here, as launchers end a run when a process has ended
 * early. others may be NULL. */
void ps_processes_part (PsRendezvous *others, GError **error);

G_END_DECLS

#endif
