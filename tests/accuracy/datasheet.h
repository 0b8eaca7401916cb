/* datasheet.h - the machines of the rows by what their datasheets state, and nothing else. */
#pragma once

#include "rows.h"

/* The machine that the row ran on. Its name says of which shipped cluster's GPU it is. leave_out: the clusters that
 * ship with this GPU are not its class. NULL: it has no datasheet here. Free with ps_cluster_free. */
PsCluster *datasheet_cluster (const Row *row);
