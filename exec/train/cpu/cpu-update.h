/* cpu-update.h - the weights of a stage, in all their versions, and the optimizer that steps them. */
#pragma once

#include "cpu-stage.h"

/* Takes memory for weights, gradients and optimizer state, all zero. For ps_cpu_stage_new. */
gboolean ps_cpu_stage_take_parameters (PsCpuStage *stage, GError **error);

/* The op O. */
void ps_cpu_stage_optimize (PsCpuStage *stage);

/* See PsDeviceClass. */
gboolean ps_cpu_stage_use (PsCpuStage *stage, guint64 version, GError **error);
double ps_cpu_stage_norm_square (const PsCpuStage *stage);
void ps_cpu_stage_settle (PsCpuStage *stage, float scale);
void ps_cpu_stage_read_state (const PsCpuStage *stage, PsStageState *state);
void ps_cpu_stage_write_state (PsCpuStage *stage, const PsStageState *state);

/* The newest version: an array of ps_cpu_stage_parameters floats. */
float *ps_cpu_stage_newest (const PsCpuStage *stage);
