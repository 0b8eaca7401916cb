/* transfers.h - times transfers with the device and transport code that real runs use. */
#pragma once

#include "calibration.h"

/* Measures transfers between two devices, nothing else going on. Messages of 8 bytes, a quarter of the boundary
 * and all of it also go both ways at once. If there are enough devices they also go in two pairs and beside devices
 * that compute. Links between further devices are measured too, by their classes (links.h). The devices are in this
 * process, or in it and in the others of calibration->processes, which call ps_answer_transfers meanwhile. Measures
 * all-reduces too where the transport can. */
gboolean ps_calibrate_transfers (const PsCalibration *calibration, GError **error);

/* Tells the other processes that there is nothing more to measure. */
void ps_end_transfers (const PsCalibration *calibration);

/* The others: each plays along until then. */
gboolean ps_answer_transfers (const PsCalibration *calibration, GError **error);

/* Returns the sizes of transfers to measure: powers of two from 8 bytes to at least 4 times the boundary, and the
 * boundary itself. Ascending; gint64. */
GArray *ps_transfer_sizes (gint64 boundary_bytes);
