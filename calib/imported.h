/* imported.h - a profile of the samples that runs of another program show. */
#pragma once

#include <pipesim/observe.h>
#include <pipesim/costdb.h>

/* Every sample, under the shapes of the model's stages, or without a model (NULL) those of ps_stage_key. Stages of one
 * shape have their samples together. Nothing is known of the machine and of sizes. Errors: PS_ERROR_USAGE when the
 * model has too few layers. Free with ps_profile_contents_free. */
PsProfileContents *ps_profile_of_runs (const char *name, const PsObserved *observed, const PsModel *model,
                                       GError **error) G_GNUC_WARN_UNUSED_RESULT;
