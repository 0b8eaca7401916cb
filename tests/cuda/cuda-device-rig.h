/* cuda-device-rig.h - what the tests of the cuda device share. They run on a GPU where there is one, else skip; and
 * where PIPESIM_MODULE_DIR names a module it must be there: that is how they run on the emulation. */
#pragma once

#include "device-rig.h"
#include "module.h"

static const PsDeviceClass *cuda_device;
static char *cuda_problem; /* why the device can't be used here; NULL: it can */

static inline void cuda_init (int *argc, char ***argv)
{
  g_autoptr (GError) error = NULL;

  g_test_init (argc, argv, NULL);
  cuda_device = ps_device_find ("cuda", &error);
  /* Programs ask for the processor first where they have costs. */
  G_GNUC_UNUSED g_autofree char *processor = cuda_device != NULL ? cuda_device->processor () : NULL;
  if (cuda_device != NULL && cuda_device->available (&error))
    return;
  if (g_getenv (PS_MODULE_DIR_VARIABLE) != NULL)
    g_error ("%s", error->message);
  cuda_problem = g_strdup (error->message);
}

static inline void cuda_skip (void)
{
  g_test_skip (cuda_problem);
}

static inline void cuda_add (const char *path, GTestFunc test)
{
  g_test_add_func (path, cuda_problem == NULL ? test : cuda_skip);
}

/* A function of the emulated machine; NULL on a real one. */
static inline PsModuleFunction cuda_probe (const char *function)
{
  return ps_module_function ("test", "cuda", function, NULL);
}

static inline void cuda_skip_real (void)
{
  g_test_skip ("only the emulation can be asked that");
}

/* A test of what only the emulation can be asked. */
static inline void cuda_add_emulated (const char *path, GTestFunc test)
{
  cuda_add (path, cuda_probe ("ps_emulator_memory_in_use") != NULL ? test : cuda_skip_real);
}

static inline PsModel cuda_model (PsPrecision precision, PsMlp mlp)
{
  PsModel model = small_model (4, 64, 2, 12);

  model.precision = precision;
  model.mlp = mlp;
  model.vocabulary = 43;
  if (mlp == PS_MLP_SWIGLU)
    model.kv_heads = 1;
  return model;
}

static inline GBytes *altered (GBytes *bytes, gsize at)
{
  gsize n;
  gconstpointer data = g_bytes_get_data (bytes, &n);
  guint8 *copy = g_memdup2 (data, n);

  copy[at] ^= 1;
  return g_bytes_new_take (copy, n);
}
