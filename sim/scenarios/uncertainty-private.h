/* uncertainty-private.h - what sampling and the tornado share. Private to libpipesim. */
#ifndef PIPESIM_UNCERTAINTY_PRIVATE_H
#define PIPESIM_UNCERTAINTY_PRIVATE_H

#include <pipesim/uncertainty.h>

/* Which causes of spread take part. */
typedef struct
{
  const PsPart *part; /* jitter of this part alone; NULL: of all, or of none if slowness >= 0 */
  gint slowness;      /* this one alone; -1: all, or none if part is set */
} PsCauses;

#define PS_ALL_CAUSES ((PsCauses){ NULL, -1 })

gint64 *ps_uncertainty_run (const PsProgram *program, const PsCosts *costs, const PsUncertainty *uncertainty,
                            const PsSampling *sampling, PsCauses causes, GError **error) G_GNUC_WARN_UNUSED_RESULT;

#endif
