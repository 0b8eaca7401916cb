/* uncertainty-private.h - parts shared by sampling and the tornado. Private to libpipesim. */
#pragma once

#include <pipesim/answer.h>

/* The causes of spread that take part. */
typedef struct
{
  const PsPart *part; /* jitter of this part only; NULL: of all parts, or of none if slowness >= 0 */
  gint slowness;      /* this slowness only; -1: all, or none if part is set */
} PsCauses;

#define PS_ALL_CAUSES ((PsCauses){ NULL, -1 })

gint64 *ps_uncertainty_run (const PsProgram *program, const PsCosts *costs, const PsUncertainty *uncertainty,
                            const PsSampling *sampling, PsCauses causes, GError **error) G_GNUC_WARN_UNUSED_RESULT;
