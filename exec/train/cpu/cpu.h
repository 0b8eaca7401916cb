/* cpu.h - the kernels of the cpu backend, and OpenBLAS. */
#pragma once

#include "train/kernels.h"

#include <cblas.h>
#include <glib.h>

extern const PsKernels ps_cpu_kernels;

/* The functions of OpenBLAS; NULL before ps_cpu_blas_load. It is loaded when the first cpu device is opened: a program
 * linked with it would start a thread per core before main, and each thread takes address space. */
typedef struct {
  __typeof__ (cblas_sgemm) *sgemm;
  __typeof__ (openblas_get_config) *config;
  __typeof__ (openblas_get_corename) *corename;
} PsCpuBlas;

extern PsCpuBlas ps_cpu_blas;

/* Loads OpenBLAS once, without threads of its own. It stays to the end of the program. From any thread. Errors:
 * PS_ERROR_UNAVAILABLE. */
gboolean ps_cpu_blas_load (GError **error);
