/* predict-memory.h - pipesim predict --memory: where the bytes of each device go at its peak. */
#pragma once

#include <pipesim/option.h>
#include <pipesim/setting.h>

/* The rows of all schedules, collected for one printed table. */
typedef struct _PsMemoryRows PsMemoryRows;

PsMemoryRows *ps_memory_rows_new (void);
void ps_memory_rows_free (PsMemoryRows *rows);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsMemoryRows, ps_memory_rows_free)

/* Adds the devices of a prediction; returns them as the nested table of --json. */
PsTable *ps_memory_rows_add (PsMemoryRows *rows, const PsPrediction *prediction);

/* The printed table; parts that no device has are left out. Free with g_free. */
char *ps_memory_rows_to_text (const PsMemoryRows *rows);
