/* describe.h - exec's help. */
#pragma once

#include <pipesim/option.h>

/* The help of exec. Its text tells of devices and transports of this build, files, GPUs, processes and exit codes; it
 * is *owned, free it with g_free after the help's last use. */
PsCommandHelp ps_exec_describe (char **owned);
