/* cuda-libraries.c - the GPU and the libraries that run on it, as text. */
#include "cuda-libraries.h"

#include "cuda-context.h"
#include "cuda-nvml.h"
#include "kernels.h"

#include <cublasLt.h>

char *ps_cuda_processor (void)
{
  struct cudaDeviceProp properties;

  if (cudaGetDeviceProperties (&properties, 0) != cudaSuccess)
    return NULL;
  return g_strdup_printf ("%s (%d multiprocessors)", properties.name, properties.multiProcessorCount);
}

char *ps_cuda_libraries (void)
{
  static const char *const variables[]
      = { "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING", "PIPESIM_CUDA_WAIT", "PIPESIM_CUDA_GRAPHS" };
  GString *text = g_string_new (NULL);
  g_autofree char *sharing = ps_cuda_sharing ();
  g_autofree char *build = ps_cuda_nvml_driver ();
  int runtime = 0, driver = 0;

  cudaRuntimeGetVersion (&runtime);
  cudaDriverGetVersion (&driver);
  g_string_append_printf (text, "CUDA %d.%d, driver %s%sfor CUDA %d.%d, cuBLASLt %" G_GSIZE_FORMAT ", attention by %s",
                          runtime / 1000, runtime % 1000 / 10, build != NULL ? build : "", build != NULL ? " " : "",
                          driver / 1000, driver % 1000 / 10, cublasLtGetVersion (),
                          ps_cuda_attention_uses_hopper () ? "wgmma" : "mma.sync");
  if (sharing != NULL)
    g_string_append_printf (text, ", %s", sharing);
  for (guint i = 0; i < G_N_ELEMENTS (variables); i++)
    if (g_getenv (variables[i]) != NULL)
      g_string_append_printf (text, ", %s=%s", variables[i], g_getenv (variables[i]));
  return g_string_free (text, FALSE);
}
