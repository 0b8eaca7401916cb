/* driver.cpp - the emulated driver API: multiprocessors are split into runs, and that is all that a green context is.
 */
#include "machine.h"

#include <atomic>
#include <cuda.h>
#include <cuda_runtime.h>
#include <string>

struct CUdevResourceDesc_st
{
  unsigned first, count;
};

struct CUgreenCtx_st
{
  CUdevResourceDesc_st part;
  std::atomic<bool> is_current; /* to some thread */
};

/* The green context that is current to a thread; it leaves it when it ends. */
struct Current
{
  CUgreenCtx green = nullptr;

  bool
  enter (CUgreenCtx next)
  {
    if (next == green)
      return true;
    if (next != nullptr && next->is_current.exchange (true))
      return false;
    if (green != nullptr)
      green->is_current = false;
    green = next;
    return true;
  }

  ~Current ()
  {
    enter (nullptr);
  }
};

static thread_local Current current;

void
ps_emulator_leave_green_context (void)
{
  current.enter (nullptr);
}

/* What the API keeps to itself. */
struct Hidden
{
  unsigned first; /* multiprocessor */
  bool was_split; /* and so can't be split again */
};

static Hidden &
hidden (CUdevResource *resource)
{
  return *reinterpret_cast<Hidden *> (resource->internal);
}

static CUdevResource
make_resource (unsigned first, unsigned count, bool was_split)
{
  CUdevResource resource = {};

  resource.type = count > 0 ? CU_DEV_RESOURCE_TYPE_SM : CU_DEV_RESOURCE_TYPE_INVALID;
  resource.sm = { count, 8, 8 };
  hidden (&resource) = { first, was_split };
  return resource;
}

CUresult
cuGetErrorString (CUresult error, const char **text)
{
  *text = error == CUDA_SUCCESS                 ? "no error"
          : error == CUDA_ERROR_INVALID_VALUE   ? "invalid argument"
          : error == CUDA_ERROR_INVALID_CONTEXT ? "invalid device context"
                                                : "invalid resource configuration";
  return CUDA_SUCCESS;
}

CUresult
cuDeviceGet (CUdevice *device, int ordinal)
{
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult
cuDeviceGetDevResource (CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
  cudaDeviceProp properties;

  if (type != CU_DEV_RESOURCE_TYPE_SM)
    return CUDA_ERROR_INVALID_VALUE;
  cudaGetDeviceProperties (&properties, device);
  *resource = make_resource (0, (unsigned)properties.multiProcessorCount, false);
  return CUDA_SUCCESS;
}

CUresult
cuDevSmResourceSplitByCount (CUdevResource *result, unsigned *n_groups, const CUdevResource *input,
                             CUdevResource *remaining, unsigned, unsigned least)
{
  CUdevResource whole = *input;
  const unsigned size = (least < 8 ? 8 : least + 7) / 8 * 8;
  const unsigned n = whole.sm.smCount / size < *n_groups ? whole.sm.smCount / size : *n_groups;

  if (whole.type != CU_DEV_RESOURCE_TYPE_SM || n == 0 || hidden (&whole).was_split)
    return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  *n_groups = n;
  for (unsigned i = 0; result != nullptr && i < n; i++)
    result[i] = make_resource (hidden (&whole).first + i * size, size, true);
  if (remaining != nullptr)
    *remaining = make_resource (hidden (&whole).first + n * size, whole.sm.smCount - n * size, true);
  return CUDA_SUCCESS;
}

CUresult
cuDevResourceGenerateDesc (CUdevResourceDesc *description, CUdevResource *resources, unsigned n)
{
  unsigned count = 0;

  for (unsigned i = 0; i < n; i++)
    {
      if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
      count += resources[i].sm.smCount;
    }
  if (n == 0)
    return CUDA_ERROR_INVALID_VALUE;
  *description = new CUdevResourceDesc_st{ hidden (resources).first, count };
  return CUDA_SUCCESS;
}

/* The API has no function to free a description; it goes with what is made of it. */
CUresult
cuGreenCtxCreate (CUgreenCtx *green, CUdevResourceDesc description, CUdevice, unsigned flags)
{
  if (flags != CU_GREEN_CTX_DEFAULT_STREAM)
    return CUDA_ERROR_INVALID_VALUE;
  *green = new CUgreenCtx_st{ *description, {} };
  delete description;
  return CUDA_SUCCESS;
}

CUresult
cuGreenCtxDestroy (CUgreenCtx green)
{
  if (green->is_current)
    return CUDA_ERROR_INVALID_CONTEXT;
  delete green;
  return CUDA_SUCCESS;
}

CUresult
cuGreenCtxStreamCreate (CUstream *stream, CUgreenCtx, unsigned flags, int priority)
{
  return cudaStreamCreateWithPriority (stream, flags, priority) == cudaSuccess ? CUDA_SUCCESS
                                                                               : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuCtxFromGreenCtx (CUcontext *context, CUgreenCtx green)
{
  *context = reinterpret_cast<CUcontext> (green);
  return CUDA_SUCCESS;
}

/* A green context can be current to one thread at a time. */
CUresult
cuCtxSetCurrent (CUcontext context)
{
  return current.enter (reinterpret_cast<CUgreenCtx> (context)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

#define ENTRY(name)                                                                                                    \
  {                                                                                                                    \
#name, reinterpret_cast < void *>(name)                                                                            \
  }

cudaError_t
cudaGetDriverEntryPointByVersion (const char *symbol, void **function, unsigned, unsigned long long,
                                  cudaDriverEntryPointQueryResult *status)
{
  static const struct
  {
    const char *name;
    void *function;
  } entries[] = { ENTRY (cuGetErrorString),          ENTRY (cuDeviceGet),
                  ENTRY (cuDeviceGetDevResource),    ENTRY (cuDevSmResourceSplitByCount),
                  ENTRY (cuDevResourceGenerateDesc), ENTRY (cuGreenCtxCreate),
                  ENTRY (cuGreenCtxDestroy),         ENTRY (cuGreenCtxStreamCreate),
                  ENTRY (cuCtxFromGreenCtx),         ENTRY (cuCtxSetCurrent) };

  *function = nullptr;
  for (const auto &entry : entries)
    if (std::string (symbol) == entry.name && getenv ("PS_EMULATED_NO_GREEN_CONTEXTS") == nullptr)
      *function = entry.function;
  *status = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
