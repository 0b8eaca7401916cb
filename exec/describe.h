/* describe.h - exec's help. */
#pragma once

#include <pipesim/command.h>

/* Fills help. Returns its text, on devices and transports of this build, files, GPUs, processes and exit codes; free it
 * with g_free after help's last use. */
char *ps_exec_describe (PsCommandHelp *help);
