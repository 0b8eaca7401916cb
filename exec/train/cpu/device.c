/* device.c - the class "cpu": a transformer in fp32 that really trains, a thread per device. The transformer does it
 * over the kernels of kernels.c; here are cores, caches and the clock. */
#include "cpu.h"
#include "places.h"
#include "train/devices.h"
#include "train/transformer.h"

#include <hwloc.h>
#include <sched.h>
#include <sys/mman.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

/* OpenBLAS takes 128 MiB of address space for each thread that multiplies. Without room it tries again for ever. */
#define BLAS_ROOM ((gsize)256 << 20)

typedef struct {
  PsTransformer transformer;
  PsQueue queue;
  gint processor;  /* logical processor on which the latest op began; atomic */
  void *blas_room; /* address space reserved for OpenBLAS until attach; NULL: released */
  guint8 *flush;   /* buffer of flush_bytes that pushes everything else out of the caches; NULL until first used */
  gsize flush_bytes;
} CpuDevice;

static CpuDevice *cpu_device (PsDevice *device)
{
  return (CpuDevice *)device;
}

static void release_blas_room (CpuDevice *cpu)
{
  if (cpu->blas_room != NULL)
    munmap (cpu->blas_room, BLAS_ROOM);
  cpu->blas_room = NULL;
}

static gboolean take_blas_room (void **room, GError **error)
{
  *room = mmap (NULL, BLAS_ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (*room != MAP_FAILED)
    return TRUE;
  return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                    "cpu device: no address space for OpenBLAS (see ulimit -v): each device needs 256 MiB of it");
}

static PsDevice *cpu_open (const PsDeviceSetting *setting, GError **error)
{
  void *blas_room;

  if (!ps_cpu_blas_load (error) || !take_blas_room (&blas_room, error))
    return NULL;

  CpuDevice *cpu = g_new0 (CpuDevice, 1);
  cpu->blas_room = blas_room;
  if (!ps_transformer_init (&cpu->transformer, &ps_cpu_device, &ps_cpu_kernels, setting, error)) {
    release_blas_room (cpu);
    g_free (cpu);
    return NULL;
  }
  cpu->transformer.queue = &cpu->queue;
  return &cpu->transformer.base;
}

static void cpu_close (PsDevice *device)
{
  CpuDevice *cpu = cpu_device (device);

  if (cpu == NULL)
    return;
  ps_transformer_clear (&cpu->transformer);
  g_free (cpu->flush);
  release_blas_room (cpu);
  g_free (cpu);
}

/* Containers can forbid binding: then the system places the thread. */
static gboolean bind_to_core (hwloc_topology_t topology, int core, GError **error)
{
  const hwloc_obj_t processor = ps_find_core (topology, core);

  if (processor == NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cpu device: core %d does not exist, this machine has %d", core,
                      hwloc_get_nbobjs_by_type (topology, HWLOC_OBJ_PU));
  if (hwloc_set_cpubind (topology, processor->cpuset, HWLOC_CPUBIND_THREAD) != 0)
    g_info ("cpu device: core %d: the system does not permit binding", core);
  return TRUE;
}

static gboolean cpu_attach (PsDevice *device, GError **error)
{
  const int core = cpu_device (device)->transformer.setting.core;
  hwloc_topology_t topology;
  gboolean ok = TRUE;

  release_blas_room (cpu_device (device));
#ifdef __SSE__
  /* Denormal numbers count as zero: they take a hundred times longer, and op times must not depend on the data. */
  _mm_setcsr (_mm_getcsr () | 0x8040);
#endif
  if (core < 0 || hwloc_topology_init (&topology) != 0)
    return TRUE;
  if (hwloc_topology_load (topology) == 0)
    ok = bind_to_core (topology, core, error);
  hwloc_topology_destroy (topology);
  return ok;
}

static char *cpu_place (const PsDeviceSetting *setting)
{
  return ps_place_of_core (setting->core);
}

static gboolean cpu_run (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, GError **error)
{
  g_atomic_int_set (&cpu_device (device)->processor, sched_getcpu ());
  return ps_transformer_run (device, op, input, output, error);
}

static gsize largest_cache (void)
{
  static const hwloc_obj_type_t types[] = { HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE };
  const gsize likely_bytes = (gsize)64 << 20; /* where the system does not tell */
  hwloc_topology_t topology;
  gsize bytes = 0;

  if (hwloc_topology_init (&topology) != 0)
    return likely_bytes;
  if (hwloc_topology_load (topology) == 0)
    for (guint i = 0; i < G_N_ELEMENTS (types); i++) {
      const hwloc_obj_t cache = hwloc_get_obj_by_type (topology, types[i], 0);

      if (cache != NULL)
        bytes = MAX (bytes, (gsize)cache->attr->cache.size);
    }
  hwloc_topology_destroy (topology);
  return bytes > 0 ? bytes : likely_bytes;
}

/* Writes twice the largest cache on the calling thread's core. */
static gboolean cpu_flush_cache (PsDevice *device, GError **error)
{
  CpuDevice *cpu = cpu_device (device);

  if (cpu->flush == NULL) {
    cpu->flush_bytes = 2 * largest_cache ();
    cpu->flush = g_try_malloc0 (cpu->flush_bytes);
  }
  if (cpu->flush == NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cpu device: no memory to empty the caches with");
  /* Writes other bytes each time: the compiler might see that equal bytes change nothing. */
  memset (cpu->flush, cpu->flush[0] + 1, cpu->flush_bytes);
  return TRUE;
}

/* The clock stays 0 on virtual machines that do not tell. */
static void cpu_condition (PsDevice *device, PsCondition *condition)
{
  g_autofree char *path = g_strdup_printf ("/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq",
                                           MAX (g_atomic_int_get (&cpu_device (device)->processor), 0));
  g_autofree char *khz = NULL;

  *condition = (PsCondition){ 0 };
  if (g_file_get_contents (path, &khz, NULL, NULL))
    condition->clock_mhz = (gint64)(g_ascii_strtoull (khz, NULL, 10) / 1000);
}

/* openblas_get_config says "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...". */
static char *cpu_libraries (void)
{
  if (!ps_cpu_blas_load (NULL))
    return g_strdup ("no OpenBLAS");

  g_auto (GStrv) words = g_strsplit (ps_cpu_blas.config (), " ", 3);
  return g_strdup_printf ("OpenBLAS %s %s", g_strv_length (words) > 1 ? words[1] : "?", ps_cpu_blas.corename ());
}

/* OpenBLAS takes a processor that is newer than itself for its oldest one. */
static char *cpu_warning (void)
{
#ifdef __x86_64__
  if (ps_cpu_blas_load (NULL) && g_str_equal (ps_cpu_blas.corename (), "Prescott") && __builtin_cpu_supports ("avx2"))
    return g_strdup_printf ("OpenBLAS does not know this processor and uses its slowest kernels, those of Prescott; "
                            "OPENBLAS_CORETYPE=%s in the environment asks for faster ones",
                            __builtin_cpu_supports ("avx512vl") ? "SkylakeX" : "Haswell");
#endif
  return NULL;
}

const PsDeviceClass ps_cpu_device = {
  .name = "cpu",
  .description = "a real transformer stage in fp32 on one core, matrix products by OpenBLAS",
  .computes = TRUE,
  .measures = TRUE,
  .tensor = TRUE,
  .lengths = TRUE,
  .open = cpu_open,
  .close = cpu_close,
  .attach = cpu_attach,
  .place = cpu_place,
  .add_stage = ps_transformer_add_stage,
  .tensor_new = ps_transformer_tensor_new,
  .tensor_free = ps_transformer_tensor_free,
  .run = cpu_run,
  .weight_memory = ps_transformer_weight_memory,
  .flush_cache = cpu_flush_cache,
  .condition = cpu_condition,
  .memory = ps_transformer_memory,
  .libraries = cpu_libraries,
  .warning = cpu_warning,
  PS_TRANSFORMER_HOOKS,
};
