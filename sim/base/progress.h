/* progress.h - what the printing functions of base.h do about the line of progress. Private to sim/base. */
#pragma once

#include <glib.h>

/* Lets standard error show progress from here on, if it is a terminal that can wipe a line; FALSE: it shows none. */
void ps_progress_allow (gboolean allow);

/* Wipes the line, if one is shown. */
void ps_progress_wipe (void);
