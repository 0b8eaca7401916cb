/* load.h - how much of this machine's processors went to others. */
#pragma once

#include <glib.h>

/* Processor seconds since the system started. */
typedef struct {
  double all;  /* of all processors, idle ones too; 0: the system does not tell */
  double busy; /* of all programs, and of other guests of the host */
  double own;  /* of this program */
} PsProcessorTimes;

void ps_processor_times_read (PsProcessorTimes *times);

/* The part of all processors that other programs and other guests had between two readings; NaN: the system does not
 * tell. */
double ps_processor_times_others (const PsProcessorTimes *before, const PsProcessorTimes *after);
