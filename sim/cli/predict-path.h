/* predict-path.h - the critical path of an explanation. */
#pragma once

#include "predict-explain.h"

struct _PsExplainReport
{
  const PsPrediction *prediction;
  const PsSimulation *simulation; /* explained, as are the figures: the prediction's, or measured */
  const PsMetrics *metrics;
  gboolean measured;
  gboolean steady; /* devices never meet */
  PsExplanation *explanation;
  GArray *what_ifs; /* PsWhatIf */
  double saving;
};

/* "F0.1", "F4.0+BW1.3", of a transfer the op whose result travels, of an all-reduce "stage 3". Free with g_free. */
char *ps_explain_part_name (const PsExplainReport *report, const PsPathPart *part);

/* The time of each kind on the path: "F 8 ms, BW 16 ms, transfers 600 us". Free with g_free. */
char *ps_explain_path_summary (const PsExplainReport *report);

/* The path for people; ops of a device without a gap share a row. Free with g_free. */
char *ps_explain_path_to_text (const PsExplainReport *report);
