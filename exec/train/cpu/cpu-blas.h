/* cpu-blas.h - OpenBLAS, loaded when the first cpu device is opened. A program linked with it would start a thread per
 * core before main, even if it never multiplies, and each thread takes address space. */
#pragma once

#include <cblas.h>
#include <glib.h>

/* The functions that the cpu device calls; NULL before ps_cpu_blas_load. */
typedef struct {
  __typeof__ (cblas_sgemm) *sgemm;
  __typeof__ (openblas_get_config) *config;
  __typeof__ (openblas_get_corename) *corename;
} PsCpuBlas;

extern PsCpuBlas ps_cpu_blas;

/* Loads OpenBLAS once, without threads of its own. It stays to the end of the program. From any thread. Errors:
 * PS_ERROR_UNAVAILABLE. */
gboolean ps_cpu_blas_load (GError **error);
