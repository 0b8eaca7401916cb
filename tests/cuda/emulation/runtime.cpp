/* runtime.cpp - the emulated runtime: devices, memory, streams, events, graphs; the driver's green contexts; NVTX.
 * Tests look up the functions ps_emulator_* here by name, and ask them what a program can't ask CUDA. */
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cuda.h>
#include <cuda_runtime.h>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nvtx3/nvToolsExt.h>
#include <random>
#include <set>
#include <string>
#include <thread>

typedef std::unique_lock<std::mutex> Lock;
typedef std::function<void ()> Work;

static std::mutex
    mutex; /* for all variables that are neither atomic nor of a thread, and for members of streams and events */
static std::map<const void *, std::pair<size_t, int>> blocks; /* size and device by start */
static size_t in_use, limit;
static std::set<std::pair<int, int>> peers; /* device and the one that it reaches */
static std::atomic<unsigned> n_captures, n_graph_launches;
static std::atomic<bool> holds_copies;
static thread_local int current_device;
static thread_local cudaError_t last_error;

static int number_from (const char *variable, int otherwise)
{
  const char *text = getenv (variable);

  return text != nullptr ? atoi (text) : otherwise;
}

/* --- devices --- */

const char *cudaGetErrorString (cudaError_t error)
{
  static const std::map<cudaError_t, const char *> texts = {
    { cudaSuccess, "no error" },
    { cudaErrorInvalidValue, "invalid argument" },
    { cudaErrorMemoryAllocation, "out of memory" },
    { cudaErrorInvalidConfiguration, "invalid configuration argument" },
    { cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version" },
    { cudaErrorNoDevice, "no CUDA-capable device is detected" },
    { cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled" },
    { cudaErrorInvalidDevice, "invalid device ordinal" },
    { cudaErrorInvalidResourceHandle, "invalid resource handle" },
    { cudaErrorNotReady, "device not ready" },
    { cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing" },
  };

  return texts.at (error);
}

cudaError_t cudaGetLastError (void)
{
  const cudaError_t error = last_error;

  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaRuntimeGetVersion (int *version)
{
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion (int *version)
{
  *version = number_from ("PS_EMULATED_DRIVER", CUDART_VERSION);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount (int *count)
{
  *count = 0;
  if (number_from ("PS_EMULATED_DRIVER", CUDART_VERSION) < CUDART_VERSION)
    return cudaErrorInsufficientDriver;
  *count = number_from ("PS_EMULATED_GPUS", 1);
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice (int device)
{
  int count;
  const cudaError_t status = cudaGetDeviceCount (&count);

  if (status != cudaSuccess)
    return status;
  if (device < 0 || device >= count)
    return cudaErrorInvalidDevice;
  current_device = device;
  cuCtxSetCurrent (nullptr);
  return cudaSuccess;
}

cudaError_t cudaGetDevice (int *device)
{
  *device = current_device;
  return cudaSuccess;
}

/* Returns CUDA_DEVICE_MAX_CONNECTIONS as it was when the process first asked for a GPU's properties. */
extern "C" int ps_emulator_queues (void)
{
  static const int n = number_from ("CUDA_DEVICE_MAX_CONNECTIONS", 8);

  return n;
}

cudaError_t cudaGetDeviceProperties (cudaDeviceProp *properties, int)
{
  *properties = {};
  strcpy (properties->name, "emulated GPU");
  properties->totalGlobalMem = (size_t)1 << 30;
  ps_emulator_queues ();
  properties->major = number_from ("PS_EMULATED_CAPABILITY", 9);
  properties->multiProcessorCount = number_from ("PS_EMULATED_SMS", 132);
  properties->l2CacheSize = 1 << 20;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute (int *value, cudaDeviceAttr attribute, int)
{
  *value
      = attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 227 * 1024 : number_from ("PS_EMULATED_CAPABILITY", 9);
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer (int *can, int device, int peer)
{
  *can = device != peer;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess (int peer, unsigned)
{
  const Lock lock (mutex);

  return peers.insert ({ current_device, peer }).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
}

/* Whether a GPU may copy from another one by itself. */
extern "C" int ps_emulator_reaches (int device, int peer)
{
  const Lock lock (mutex);

  return peers.count ({ device, peer }) > 0;
}

cudaError_t cudaDeviceGetPCIBusId (char *bus, int size, int device)
{
  snprintf (bus, (size_t)size, "0000:%02x:00.0", (unsigned)device);
  return cudaSuccess;
}

/* --- streams: everything that comes to a stream waits for what came before --- */

struct CUgraph_st {
  std::vector<Work> nodes; /* one after the other */
};

struct CUstream_st {
  std::condition_variable changed;
  std::deque<Work> queue; /* the first is under way */
  std::thread worker;     /* starts with the first work */
  std::minstd_rand chance;
  bool ended = false;
  cudaGraph_t captured = nullptr; /* what is being captured */
  bool spoilt = false;            /* by a call that can't be */
};

static thread_local cudaStream_t capturing; /* by this thread */

/* Work waits until streams_wanted streams have some at the same time. */
static std::condition_variable met;
static std::set<cudaStream_t> present;
static unsigned streams_wanted;
static bool late;

static void work_through (cudaStream_t stream)
{
  static const unsigned longest_us = (unsigned)number_from ("PS_EMULATED_DELAY_US", 0);
  Lock lock (mutex);

  for (;;) {
    stream->changed.wait (lock, [=] { return stream->ended || !stream->queue.empty (); });
    if (stream->queue.empty ())
      return;
    Work &work = stream->queue.front ();
    lock.unlock ();
    if (longest_us > 0)
      std::this_thread::sleep_for (std::chrono::microseconds (stream->chance () % (longest_us + 1)));
    work ();
    work = nullptr;
    lock.lock ();
    stream->queue.pop_front ();
    stream->changed.notify_all ();
  }
}

static void push (cudaStream_t stream, Work work)
{
  static unsigned n_streams;
  const Lock lock (mutex);

  stream->queue.push_back (std::move (work));
  if (!stream->worker.joinable ()) {
    stream->chance.seed (++n_streams);
    stream->worker = std::thread (work_through, stream);
  }
  stream->changed.notify_all ();
}

/* Ten seconds mean that the other streams' work never comes. */
static void meet (cudaStream_t stream)
{
  Lock lock (mutex);

  present.insert (stream);
  met.notify_all ();
  late |= !met.wait_for (lock, std::chrono::seconds (10), [] { return present.size () >= streams_wanted; });
}

cudaError_t ps_emulator_stream_do (cudaStream_t stream, Work work)
{
  if (stream->captured != nullptr)
    stream->captured->nodes.push_back (std::move (work));
  else
    push (stream, [=] {
      meet (stream);
      work ();
    });
  return cudaSuccess;
}

bool ps_emulator_launch (dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, Work thread)
{
  if (!ps_emulator_can_launch (grid, block, shared_bytes))
    return false;
  const bool backwards = ps_emulator_is_backwards ();
  ps_emulator_stream_do (stream, [=] { ps_emulator_run (grid, block, shared_bytes, backwards, thread); });
  return true;
}

/* From now on work in streams begins when n streams have some; 0: ends that. Called when all streams are empty. */
extern "C" void ps_emulator_meet (unsigned n)
{
  const Lock lock (mutex);

  streams_wanted = n;
  late = false;
  present.clear ();
  met.notify_all ();
}

/* Whether n streams had some in time. */
extern "C" bool ps_emulator_have_met (void)
{
  const Lock lock (mutex);

  return !late && present.size () >= streams_wanted;
}

/* Whether the call can't be captured, and so ends the capture: CUDA C++ Programming Guide, "Prohibited and Unhandled
 * Operations". */
static bool spoils (cudaStream_t stream)
{
  stream->spoilt |= stream->captured != nullptr;
  return stream->captured != nullptr;
}

cudaError_t cudaStreamCreateWithFlags (cudaStream_t *stream, unsigned)
{
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority (cudaStream_t *stream, unsigned flags, int)
{
  return cudaStreamCreateWithFlags (stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange (int *least, int *greatest)
{
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy (cudaStream_t stream)
{
  {
    const Lock lock (mutex);
    stream->ended = true;
    stream->changed.notify_all ();
  }
  if (stream->worker.joinable ())
    stream->worker.join ();
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize (cudaStream_t stream)
{
  if (spoils (stream))
    return cudaErrorStreamCaptureUnsupported;
  Lock lock (mutex);
  stream->changed.wait (lock, [=] { return stream->queue.empty (); });
  return cudaSuccess;
}

/* --- events --- */

/* Work in streams shares it: an event may be destroyed while streams wait for it. */
struct Moment {
  std::condition_variable reached;
  unsigned long n_recorded = 0, n_reached = 0;
  std::chrono::steady_clock::time_point time;
};

struct CUevent_st {
  std::shared_ptr<Moment> moment = std::make_shared<Moment> ();
};

cudaError_t cudaEventCreateWithFlags (cudaEvent_t *event, unsigned)
{
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventCreate (cudaEvent_t *event)
{
  return cudaEventCreateWithFlags (event, cudaEventDefault);
}

cudaError_t cudaEventDestroy (cudaEvent_t event)
{
  delete event;
  return cudaSuccess;
}

/* A stream that has nothing to do reaches the event at once. */
cudaError_t cudaEventRecord (cudaEvent_t event, cudaStream_t stream)
{
  const std::shared_ptr<Moment> moment = event->moment;

  if (spoils (stream))
    return cudaErrorStreamCaptureUnsupported;
  Lock lock (mutex);
  const unsigned long number = ++moment->n_recorded;
  auto reach = [=] {
    moment->n_reached = number;
    moment->time = std::chrono::steady_clock::now ();
    moment->reached.notify_all ();
  };
  if (stream->queue.empty ()) {
    reach ();
    return cudaSuccess;
  }
  lock.unlock ();
  push (stream, [=] {
    const Lock inner (mutex);
    reach ();
  });
  return cudaSuccess;
}

/* Returns what waits until what has been recorded by now is reached. */
static Work waiting (cudaEvent_t event)
{
  const std::shared_ptr<Moment> moment = event->moment;
  const Lock lock (mutex);
  const unsigned long number = moment->n_recorded;

  return [=] {
    Lock inner (mutex);
    moment->reached.wait (inner, [=] { return moment->n_reached >= number; });
  };
}

cudaError_t cudaEventSynchronize (cudaEvent_t event)
{
  waiting (event) ();
  return cudaSuccess;
}

cudaError_t cudaEventQuery (cudaEvent_t event)
{
  const Lock lock (mutex);

  return event->moment->n_reached == event->moment->n_recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent (cudaStream_t stream, cudaEvent_t event, unsigned)
{
  if (spoils (stream))
    return cudaErrorStreamCaptureUnsupported;
  push (stream, waiting (event));
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime (float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
  const Lock lock (mutex);

  for (const Moment *moment : { start->moment.get (), end->moment.get () }) {
    if (moment->n_recorded == 0)
      return last_error = cudaErrorInvalidResourceHandle;
    if (moment->n_reached != moment->n_recorded)
      return cudaErrorNotReady;
  }
  *milliseconds = std::chrono::duration<float, std::milli> (end->moment->time - start->moment->time).count ();
  return cudaSuccess;
}

/* --- graphs --- */

cudaError_t cudaStreamBeginCapture (cudaStream_t stream, cudaStreamCaptureMode)
{
  if (stream->captured != nullptr)
    return cudaErrorStreamCaptureUnsupported;
  stream->captured = new CUgraph_st;
  stream->spoilt = false;
  capturing = stream;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture (cudaStream_t stream, cudaGraph_t *graph)
{
  *graph = nullptr;
  if (capturing != stream)
    return cudaErrorStreamCaptureUnsupported;
  capturing = nullptr;
  std::swap (*graph, stream->captured);
  if (!stream->spoilt)
    return cudaSuccess;
  cudaGraphDestroy (*graph);
  *graph = nullptr;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t cudaGraphDestroy (cudaGraph_t graph)
{
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate (cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long)
{
  *made = new CUgraph_st (*graph);
  n_captures++;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy (cudaGraphExec_t made)
{
  return cudaGraphDestroy (made);
}

cudaError_t cudaGraphLaunch (cudaGraphExec_t made, cudaStream_t stream)
{
  n_graph_launches++;
  return ps_emulator_stream_do (stream, [=] {
    for (const Work &node : made->nodes)
      node ();
  });
}

/* How many graphs were made and how many launched by all of the process so far. */
extern "C" void ps_emulator_graphs (unsigned *captures, unsigned *launches)
{
  *captures = n_captures;
  *launches = n_graph_launches;
}

/* --- memory --- */

/* Fresh memory is NaNs up to here. Only workspaces of cuBLASLt, which the emulated one leaves alone, are larger. */
static const size_t most_filled = 4 << 20;

cudaError_t cudaMalloc (void **memory, size_t bytes)
{
  const Lock lock (mutex);

  if (capturing != nullptr)
    return cudaErrorStreamCaptureUnsupported;
  if (limit > 0 && in_use + bytes > limit)
    return cudaErrorMemoryAllocation;
  *memory = bytes > 0 ? aligned_alloc (256, (bytes + 255) / 256 * 256) : nullptr;
  if (*memory == nullptr)
    return bytes > 0 ? cudaErrorMemoryAllocation : cudaSuccess;
  memset (*memory, 0xff, std::min (bytes, most_filled));
  blocks[*memory] = { bytes, current_device };
  in_use += bytes;
  return cudaSuccess;
}

cudaError_t cudaFree (void *memory)
{
  if (memory == nullptr)
    return cudaSuccess;
  const Lock lock (mutex);
  const auto block = blocks.find (memory);
  if (block == blocks.end ())
    return cudaErrorInvalidValue;
  in_use -= block->second.first;
  blocks.erase (block);
  free (memory);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc (void **memory, size_t bytes, unsigned)
{
  *memory = malloc (bytes);
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost (void *memory)
{
  free (memory);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes (cudaPointerAttributes *attributes, const void *memory)
{
  const Lock lock (mutex);
  auto block = blocks.upper_bound (memory);

  *attributes = {};
  if (block == blocks.begin ())
    return cudaSuccess;
  --block;
  if ((const char *)memory < (const char *)block->first + block->second.first)
    *attributes = { cudaMemoryTypeDevice, block->second.second };
  return cudaSuccess;
}

/* Bytes of device memory that cudaMalloc gave and cudaFree has not taken back. */
extern "C" size_t ps_emulator_memory_in_use (void)
{
  const Lock lock (mutex);

  return in_use;
}

/* From now on cudaMalloc refuses what goes beyond that many bytes in use; 0: nothing. */
extern "C" void ps_emulator_limit_memory (size_t bytes)
{
  const Lock lock (mutex);

  limit = bytes;
}

/* From now on copies wait; 0: ends that. */
extern "C" void ps_emulator_hold_copies (int hold)
{
  holds_copies = hold != 0;
}

cudaError_t cudaMemcpyAsync (void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t stream)
{
  return ps_emulator_stream_do (stream, [=] {
    while (holds_copies)
      std::this_thread::sleep_for (std::chrono::microseconds (100));
    if (bytes > 0)
      memcpy (to, from, bytes);
  });
}

cudaError_t cudaMemsetAsync (void *memory, int value, size_t bytes, cudaStream_t stream)
{
  return ps_emulator_stream_do (stream, [=] {
    if (bytes > 0)
      memset (memory, value, bytes);
  });
}

/* --- green contexts: numbers of multiprocessors --- */

struct CUgreenCtx_st {
  std::atomic<bool> is_current = false; /* to some thread */
};

/* The green context that is current to a thread; it leaves it when it ends. */
struct Current {
  CUgreenCtx green = nullptr;

  bool enter (CUgreenCtx next)
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

/* A green context can be current to one thread at a time. NULL: the primary context. */
CUresult cuCtxSetCurrent (CUcontext context)
{
  static thread_local Current current;

  return current.enter ((CUgreenCtx)context) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUdevResource make_resource (unsigned count, bool was_split)
{
  const bool is_old = number_from ("PS_EMULATED_CAPABILITY", 9) < 9;

  return { count > 0 ? CU_DEV_RESOURCE_TYPE_SM : CU_DEV_RESOURCE_TYPE_INVALID,
           { count, is_old ? 4u : 8u, is_old ? 2u : 8u },
           was_split };
}

CUresult cuGetErrorString (CUresult error, const char **text)
{
  *text = error == CUDA_SUCCESS                 ? "no error"
          : error == CUDA_ERROR_INVALID_VALUE   ? "invalid argument"
          : error == CUDA_ERROR_INVALID_CONTEXT ? "invalid device context"
                                                : "invalid resource configuration";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet (CUdevice *device, int ordinal)
{
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetDevResource (CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
  cudaDeviceProp properties;

  if (type != CU_DEV_RESOURCE_TYPE_SM)
    return CUDA_ERROR_INVALID_VALUE;
  cudaGetDeviceProperties (&properties, device);
  *resource = make_resource ((unsigned)properties.multiProcessorCount, false);
  return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount (CUdevResource *result, unsigned *n_groups, const CUdevResource *whole,
                                      CUdevResource *, unsigned, unsigned least)
{
  const unsigned step = whole->sm.smCoscheduledAlignment;
  const unsigned size = (std::max (least, whole->sm.minSmPartitionSize) + step - 1) / step * step;
  const unsigned n = std::min (whole->sm.smCount / size, *n_groups);

  if (whole->type != CU_DEV_RESOURCE_TYPE_SM || n == 0 || whole->was_split)
    return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  *n_groups = n;
  for (unsigned i = 0; i < n; i++)
    result[i] = make_resource (size, true);
  return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc (CUdevResourceDesc *description, CUdevResource *resources, unsigned n)
{
  *description = resources;
  for (unsigned i = 0; i < n; i++)
    if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM)
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  return n > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGreenCtxCreate (CUgreenCtx *green, CUdevResourceDesc, CUdevice, unsigned flags)
{
  if (flags != CU_GREEN_CTX_DEFAULT_STREAM)
    return CUDA_ERROR_INVALID_VALUE;
  *green = new CUgreenCtx_st;
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy (CUgreenCtx green)
{
  if (green->is_current)
    return CUDA_ERROR_INVALID_CONTEXT;
  delete green;
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate (CUstream *stream, CUgreenCtx, unsigned flags, int)
{
  cudaStreamCreateWithFlags (stream, flags);
  return CUDA_SUCCESS;
}

CUresult cuCtxFromGreenCtx (CUcontext *context, CUgreenCtx green)
{
  *context = (CUcontext)green;
  return CUDA_SUCCESS;
}

#define ENTRY(name)                                                                                                    \
  {                                                                                                                    \
#name, (void *)name                                                                                                \
  }

cudaError_t cudaGetDriverEntryPointByVersion (const char *symbol, void **function, unsigned, unsigned long long,
                                              cudaDriverEntryPointQueryResult *status)
{
  static const std::map<std::string, void *> entries
      = { ENTRY (cuGetErrorString),      ENTRY (cuDeviceGet),       ENTRY (cuDeviceGetDevResource),
          ENTRY (cuCtxFromGreenCtx),     ENTRY (cuCtxSetCurrent),   ENTRY (cuDevSmResourceSplitByCount),
          ENTRY (cuGreenCtxCreate),      ENTRY (cuGreenCtxDestroy), ENTRY (cuDevResourceGenerateDesc),
          ENTRY (cuGreenCtxStreamCreate) };

  *function = getenv ("PS_EMULATED_NO_GREEN_CONTEXTS") == nullptr ? entries.at (symbol) : nullptr;
  *status = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

/* --- NVTX: the ranges that a thread has opened and closed, as text --- */

static thread_local std::string ranges;

int nvtxRangePushA (const char *message)
{
  ranges += std::string ("(") + message;
  return 0;
}

int nvtxRangePop (void)
{
  ranges += ")";
  return 0;
}

/* All ranges of the calling thread so far: "(outer(inner))(next)". */
extern "C" const char *ps_emulator_ranges (void)
{
  return ranges.c_str ();
}
