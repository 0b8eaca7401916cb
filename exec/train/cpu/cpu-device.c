/* cpu-device.c - the class "cpu": a transformer stage in fp32 that really trains. */
#include <hwloc.h>
#include <math.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "cpu-blas.h"
#include "cpu-cache.h"
#include "cpu-stage.h"
#include "cpu-update.h"
#include "train/devices.h"
#include "places.h"

/* OpenBLAS takes 128 MiB of address space for each thread that multiplies. Without room it tries again for ever. */
#define BLAS_ROOM ((gsize)256 << 20)

typedef struct {
  PsDevice base;
  PsDeviceSetting setting;
  PsCpuContext context;
  PsCpuStage **stages; /* [n_stages], NULL where not resident */
  PsCpuFlush flush;
  gint processor;  /* logical processor on which the latest op began; atomic */
  void *blas_room; /* address space reserved for OpenBLAS until attach; NULL: released */
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
  PsCpuSizes sizes;
  void *blas_room;

  if (setting->model == NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE, "cpu device: needs a model description");
  if (!ps_cpu_sizes_init (&sizes, setting->model, MAX (1, setting->n_slices), error) || !ps_cpu_blas_load (error)
      || !take_blas_room (&blas_room, error))
    return NULL;

  CpuDevice *device = g_new0 (CpuDevice, 1);
  device->base.class = &ps_cpu_device;
  device->setting = *setting;
  device->blas_room = blas_room;
  device->context.sizes = device->context.whole_sizes = sizes;
  ps_cpu_sizes_share (&device->context.sizes, MAX (1, setting->n_tensor), setting->tensor);
  device->context.memory = ps_cpu_memory_new (0);
  device->context.host = ps_cpu_memory_new (0);
  device->context.n_microbatches = setting->n_microbatches;
  device->context.n_summed = setting->n_summed > 0 ? setting->n_summed : setting->n_microbatches;
  device->context.n_replicas = MAX (1, setting->n_replicas);
  device->context.seed = setting->seed;
  device->context.setting = &device->setting;
  device->stages = g_new0 (PsCpuStage *, setting->n_stages);
  return &device->base;
}

static void cpu_close (PsDevice *device)
{
  CpuDevice *cpu = cpu_device (device);

  if (cpu == NULL)
    return;
  for (guint i = 0; i < cpu->setting.n_stages; i++)
    ps_cpu_stage_free (cpu->stages[i]);
  g_free (cpu->stages);
  ps_cpu_flush_clear (&cpu->flush);
  release_blas_room (cpu);
  ps_memory_pool_free (cpu->context.memory);
  ps_memory_pool_free (cpu->context.host);
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

static gboolean pin (int core, GError **error)
{
  hwloc_topology_t topology;
  gboolean ok = TRUE;

  if (hwloc_topology_init (&topology) != 0)
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

static gboolean cpu_attach (PsDevice *device, GError **error)
{
  const int core = cpu_device (device)->setting.core;

  release_blas_room (cpu_device (device));
#ifdef __SSE__
  /* Denormal numbers count as zero: they take a hundred times longer, and op times must not depend on the data. */
  _mm_setcsr (_mm_getcsr () | 0x8040);
#endif
  return core < 0 || pin (core, error);
}

static gboolean cpu_add_stage (PsDevice *device, guint stage, const PsStageShape *shape, GError **error)
{
  CpuDevice *cpu = cpu_device (device);

  g_return_val_if_fail (stage < cpu->setting.n_stages && cpu->stages[stage] == NULL, FALSE);

  cpu->stages[stage] = ps_cpu_stage_new (&cpu->context, stage, shape, error);
  return cpu->stages[stage] != NULL;
}

static gsize tensor_bytes (const CpuDevice *cpu)
{
  return ps_cpu_sizes_message (&cpu->context.sizes) * sizeof (float);
}

static PsTensor *wrap (CpuDevice *cpu, float *block)
{
  PsTensor *tensor = g_new (PsTensor, 1);

  *tensor = (PsTensor){ .device = &cpu->base, .bytes = tensor_bytes (cpu), .data = block };
  return tensor;
}

static PsTensor *cpu_tensor_new (PsDevice *device)
{
  CpuDevice *cpu = cpu_device (device);
  float *block = ps_cpu_memory_take (cpu->context.memory, ps_cpu_sizes_message (&cpu->context.sizes), PS_USE_BUFFER);

  return block != NULL ? wrap (cpu, block) : NULL;
}

static void cpu_tensor_free (PsTensor *tensor)
{
  if (tensor == NULL)
    return;
  ps_memory_pool_give (cpu_device (tensor->device)->context.memory, tensor->data);
  g_free (tensor);
}

static gboolean run_on_stage (PsCpuStage *stage, PsOp op, float *input, float **output, GError **error)
{
  switch (op.kind) {
  case PS_OP_F:
    return ps_cpu_stage_forward (stage, op, input, output, error);
  case PS_OP_B:
    return ps_cpu_stage_backward (stage, op, input, output, error);
  case PS_OP_BW:
    return ps_cpu_stage_backward (stage, op, input, output, error) && ps_cpu_stage_weight_gradients (stage, op, error);
  case PS_OP_W:
    return ps_cpu_stage_weight_gradients (stage, op, error);
  case PS_OP_R:
    return ps_cpu_stage_recompute (stage, op, error);
  case PS_OP_O:
    ps_cpu_stage_optimize (stage);
    return TRUE;
  default:
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "stage %u: the cpu device can't run %s", op.stage,
                      ps_op_kind_name (op.kind));
  }
}

/* Makes a tensor of zeros where one is wanted and *block is NULL, and gives back one that is not wanted. */
static gboolean fit (CpuDevice *cpu, gboolean wanted, float **block, GError **error)
{
  const gsize n = ps_cpu_sizes_message (&cpu->context.sizes);

  if (!wanted)
    ps_memory_pool_give (cpu->context.memory, g_steal_pointer (block));
  if (!wanted || *block != NULL)
    return TRUE;
  *block = ps_cpu_memory_take (cpu->context.memory, n, PS_USE_BUFFER);
  if (*block == NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cpu device: no memory for a boundary tensor");
  memset (*block, 0, n * sizeof (float));
  return TRUE;
}

/* Gives the op the length of its microbatch. */
static void set_length (CpuDevice *cpu, PsOp op)
{
  const PsDeviceSetting *setting = &cpu->setting;
  PsCpuSizes *sizes = &cpu->context.sizes;

  if (setting->tokens == NULL)
    return;
  sizes->sequence = (int)setting->tokens[op.microbatch % setting->n_tokens];
  sizes->tokens = sizes->batch * sizes->sequence;
}

static gboolean cpu_run (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, GError **error)
{
  CpuDevice *cpu = cpu_device (device);
  float *result = NULL;
  guint next;

  g_return_val_if_fail (input == NULL || input->device == device, FALSE);

  g_atomic_int_set (&cpu->processor, sched_getcpu ());
  if (!ps_device_check_op (op.stage < cpu->setting.n_stages && cpu->stages[op.stage] != NULL, op, error)) {
    cpu_tensor_free (input);
    return FALSE;
  }

  float *block = input != NULL ? input->data : NULL;
  g_free (input);
  PsCpuStage *stage = cpu->stages[op.stage];
  set_length (cpu, op);
  const gboolean ok = fit (cpu, ps_device_op_reads (ps_cpu_stage_shape (stage), op), &block, error)
                      && run_on_stage (stage, op, block, &result, error)
                      && fit (cpu, ps_op_output (op, cpu->setting.n_stages, &next), &result, error);
  g_assert (output != NULL || result == NULL);
  if (output != NULL)
    *output = result != NULL ? wrap (cpu, result) : NULL;
  return ok;
}

static gboolean cpu_begin (PsDevice *device, guint64 step, GError **error)
{
  cpu_device (device)->context.step = step;
  return TRUE;
}

static gboolean cpu_use_version (PsDevice *device, guint stage, guint64 version, GError **error)
{
  return ps_cpu_stage_use (cpu_device (device)->stages[stage], version, error);
}

static double cpu_norm_square (PsDevice *device, guint stage)
{
  return ps_cpu_stage_norm_square (cpu_device (device)->stages[stage]);
}

static gboolean cpu_settle (PsDevice *device, guint stage, float scale, GError **error)
{
  ps_cpu_stage_settle (cpu_device (device)->stages[stage], scale);
  return TRUE;
}

static void cpu_forget (PsDevice *device)
{
  CpuDevice *cpu = cpu_device (device);

  for (guint i = 0; i < cpu->setting.n_stages; i++)
    if (cpu->stages[i] != NULL)
      ps_cpu_stage_forget (cpu->stages[i]);
}

static double cpu_loss (PsDevice *device, guint microbatch)
{
  CpuDevice *cpu = cpu_device (device);
  double loss = NAN;

  for (guint i = cpu->setting.n_stages; i-- > 0 && isnan (loss);)
    if (cpu->stages[i] != NULL)
      loss = ps_cpu_stage_loss (cpu->stages[i], microbatch);
  return loss;
}

static float *cpu_gradient_memory (PsDevice *device, guint stage, gsize *n)
{
  PsCpuStage *resident = cpu_device (device)->stages[stage];

  g_return_val_if_fail (resident != NULL, NULL);

  *n = ps_cpu_stage_parameters (resident);
  return ps_cpu_stage_gradients (resident);
}

static float *cpu_weight_memory (PsDevice *device, guint stage, gsize *n)
{
  const PsCpuStage *resident = cpu_device (device)->stages[stage];

  *n = ps_cpu_stage_parameters (resident);
  return ps_cpu_stage_newest (resident);
}

static const float *cpu_gradients (PsDevice *device, guint stage, gsize *n)
{
  PsCpuStage *resident = cpu_device (device)->stages[stage];

  g_return_val_if_fail (resident != NULL, NULL);

  return ps_cpu_stage_joined_gradients (resident, n);
}

static gboolean cpu_read_state (PsDevice *device, guint stage, PsStageState *state, GError **error)
{
  ps_cpu_stage_read_state (cpu_device (device)->stages[stage], state);
  return TRUE;
}

static gboolean cpu_write_state (PsDevice *device, guint stage, const PsStageState *state, GError **error)
{
  ps_cpu_stage_write_state (cpu_device (device)->stages[stage], state);
  return TRUE;
}

static void cpu_memory (PsDevice *device, PsMemoryUse *use)
{
  ps_memory_pool_use (cpu_device (device)->context.memory, use);
}

static void cpu_reset_peak (PsDevice *device)
{
  ps_memory_pool_reset_peak (cpu_device (device)->context.memory);
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

static gboolean cpu_flush_cache (PsDevice *device, GError **error)
{
  if (ps_cpu_flush (&cpu_device (device)->flush))
    return TRUE;
  return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cpu device: no memory to empty the caches with");
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
  .add_stage = cpu_add_stage,
  .tensor_new = cpu_tensor_new,
  .tensor_free = cpu_tensor_free,
  .begin = cpu_begin,
  .use_version = cpu_use_version,
  .norm_square = cpu_norm_square,
  .settle = cpu_settle,
  .forget = cpu_forget,
  .run = cpu_run,
  .loss = cpu_loss,
  .gradients = cpu_gradients,
  .gradient_memory = cpu_gradient_memory,
  .weight_memory = cpu_weight_memory,
  .read_state = cpu_read_state,
  .write_state = cpu_write_state,
  .flush_cache = cpu_flush_cache,
  .condition = cpu_condition,
  .memory = cpu_memory,
  .reset_peak = cpu_reset_peak,
  .libraries = cpu_libraries,
  .warning = cpu_warning,
};
