/* transports.h - the transport classes that the table lists; each is defined in its own folder. */
#ifndef PIPESIM_EXEC_TRANSPORTS_H
#define PIPESIM_EXEC_TRANSPORTS_H

#include <pipesim/transport.h>

G_BEGIN_DECLS

extern const PsTransportClass ps_threads_transport; /* between threads of one process */

G_END_DECLS

#endif
