/* cpu.h - the backend "cpu" of train/kernels.h. */
#pragma once

#include "train/kernels.h"
#include "train/memory.h"

#include "cpu-blas.h"
#include "cpu-memory.h"

extern const PsKernels ps_cpu_kernels;
