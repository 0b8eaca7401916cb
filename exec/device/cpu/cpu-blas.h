/* cpu-blas.h - OpenBLAS, loaded when the first cpu device is opened. As a library that programs are linked with it
 * would start a thread per core before main, and take address space for each, in programs that never multiply. */
#ifndef PIPESIM_CPU_BLAS_H
#define PIPESIM_CPU_BLAS_H

#include <cblas.h>
#include <glib.h>

G_BEGIN_DECLS

/* What the cpu device calls of it; NULL before ps_cpu_blas_load. */
typedef struct
{
  __typeof__ (cblas_sgemm) *sgemm;
  __typeof__ (openblas_get_config) *config;
  __typeof__ (openblas_get_corename) *corename;
} PsCpuBlas;

extern PsCpuBlas ps_cpu_blas;

/* Loads it once, without threads of its own; it stays to the end of the program. From any thread. Errors:
 * PS_ERROR_UNAVAILABLE. */
gboolean ps_cpu_blas_load (GError **error);

G_END_DECLS

#endif
