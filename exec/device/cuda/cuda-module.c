/* cuda-module.c - the row "cuda" of the table: loads the module that holds the real class. */
#include "device/devices.h"
#include "module.h"

typedef const PsDeviceClass *(*ClassFunction) (void);

static const PsDeviceClass *
load_class (GError **error)
{
  ClassFunction function = (ClassFunction)ps_module_function ("cuda device", "cuda", "ps_cuda_device_class", error);

  return function != NULL ? function () : NULL;
}

static gboolean
cuda_available (GError **error)
{
  const PsDeviceClass *class = load_class (error);

  return class != NULL && class->available (error);
}

static PsDevice *
cuda_open (const PsDeviceSetting *setting, GError **error)
{
  const PsDeviceClass *class = load_class (error);

  return class != NULL && class->available (error) ? class->open (setting, error) : NULL;
}

static char *
cuda_processor (void)
{
  const PsDeviceClass *class = load_class (NULL);

  return class != NULL ? class->processor () : NULL;
}

static char *
cuda_libraries (void)
{
  const PsDeviceClass *class = load_class (NULL);

  return class != NULL ? class->libraries () : g_strdup ("no CUDA");
}

static char *
cuda_idle (void)
{
  const PsDeviceClass *class = load_class (NULL);

  return class != NULL ? class->idle () : NULL;
}

const PsDeviceClass ps_cuda_device = {
  .name = "cuda",
  .description = "a real transformer stage on an NVIDIA GPU or a part of one, fp32 or bf16",
  .computes = TRUE,
  .measures = TRUE,
  .splits = TRUE,
  .available = cuda_available,
  .open = cuda_open,
  .processor = cuda_processor,
  .libraries = cuda_libraries,
  .idle = cuda_idle,
};
