/* progress.h - what the printing functions of base.h do about the line of progress. Private to sim/base. */
#pragma once

#include <pipesim/base.h>

/* Lets standard error show progress from here on, if it is a terminal that can wipe a line. */
void ps_progress_allow (void);

/* Wipes the line, if one is shown. */
void ps_progress_wipe (void);

/* Whether ps_capture takes what this thread writes to standard error. */
gboolean ps_is_captured (void);
