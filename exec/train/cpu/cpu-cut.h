/* cpu-cut.h - the part of a layer's parameters that a device has which shares the layer with others. */
#pragma once

#include "cpu-stage.h"

/* Copies this device's part of an array of the whole stage's parameters. */
void ps_cpu_stage_cut (const PsCpuStage *stage, float *own, const float *whole);

/* Writes this device's part into an array of the whole stage's parameters. What all devices have comes from the first
 * of them, and all else becomes zero: the arrays of all devices add up to the whole. */
void ps_cpu_stage_join (const PsCpuStage *stage, const float *own, float *whole);

/* The sum of the squares of factor times the numbers of an array, as far as they count for this device: those of all
 * devices add up to that of the whole stage. */
double ps_cpu_stage_squares (const PsCpuStage *stage, const float *own, float factor);
