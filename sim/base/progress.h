/* progress.h - whether programs show progress (base.h). Private to sim/base. */
#pragma once

#include <glib.h>

/* Lets standard error show progress from here on, if it is a terminal that can wipe a line; FALSE: it shows none. */
void ps_progress_allow (gboolean allow);
