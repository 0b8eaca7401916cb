/* describe.h - the part of exec's help after its options. */
#ifndef PIPESIM_EXEC_DESCRIBE_H
#define PIPESIM_EXEC_DESCRIBE_H

#include <glib.h>

/* Devices and transports of this build, files, GPUs, processes and exit codes. Free with g_free. */
char *ps_exec_describe (void);

#endif
