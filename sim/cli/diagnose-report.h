/* diagnose-report.h - a diagnosis as sections with a table each: as text, JSON, or for a page. */
#pragma once

#include "diagnose-run.h"

typedef struct
{
  char *title;
  PsTable *table;    /* NULL: the title says all */
  guint n_rows;      /* that a text shows */
  PsColumn *columns; /* owned, where the table's are not static */
} PsDiagnosisSection;

/* The parts of an iteration: op kinds, pairs, then the causes of idle time. */
#define PS_DIAGNOSIS_N_BUSY (PS_N_OP_KINDS + 1)
#define PS_DIAGNOSIS_N_PARTS (PS_DIAGNOSIS_N_BUSY + PS_N_IDLE)

/* "F", "pairs", "warm-up". */
const char *ps_diagnosis_part_title (guint part);

/* The time of each part on each device: [device * PS_DIAGNOSIS_N_PARTS + part]. Free with g_free. */
gint64 *ps_diagnosis_parts (const PsDiagnosis *diagnosis);

/* How much longer a time is, as a part of the other: -0.1 is 10 % less. */
double ps_diagnosis_change (gint64 time_ns, gint64 from_ns);

/* The lines about the whole run. Free with g_free. */
char *ps_diagnosis_summary (const PsDiagnosis *diagnosis);

/* The sections (PsDiagnosisSection), with the n_rivals best schedules and the run's. Free with g_ptr_array_unref. */
GPtrArray *ps_diagnosis_sections (const PsDiagnosis *diagnosis, guint n_rivals);

/* One page of text with the columns of the choice, and JSON "pipesim-diagnosis/1". Errors: those of ps_tables_choose.
 * Free with g_free. */
char *ps_diagnosis_to_text (const PsDiagnosis *diagnosis, const PsColumnChoice *choice, GError **error);
char *ps_diagnosis_to_json (const PsDiagnosis *diagnosis);
