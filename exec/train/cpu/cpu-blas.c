/* cpu-blas.c - loads OpenBLAS. */
#include "cpu-blas.h"

#include <pipesim/base.h>

#include <gmodule.h>

#define LIBRARY "libopenblas.so.0" /* the library's name for the loader, the same for every version */

PsCpuBlas ps_cpu_blas;

static gboolean find_functions (GModule *library)
{
  return g_module_symbol (library, "openblas_get_config", (gpointer *)&ps_cpu_blas.config)
         && g_module_symbol (library, "openblas_get_corename", (gpointer *)&ps_cpu_blas.corename)
         && g_module_symbol (library, "cblas_sgemm", (gpointer *)&ps_cpu_blas.sgemm);
}

gboolean ps_cpu_blas_load (GError **error)
{
  static GMutex mutex;
  G_GNUC_UNUSED g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&mutex);

  if (ps_cpu_blas.sgemm != NULL)
    return TRUE;
  g_setenv ("OPENBLAS_NUM_THREADS", "1", TRUE); /* each device has its own thread */
  GModule *library = g_module_open (LIBRARY, G_MODULE_BIND_LOCAL);
  if (library != NULL && find_functions (library)) {
    g_module_make_resident (library);
    return TRUE;
  }
  return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cpu device: OpenBLAS can't be loaded: %s", g_module_error ());
}
