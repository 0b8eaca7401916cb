/* machine.cpp - the emulated runtime API's devices and memory. */
#include "machine.h"
#include "stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cuda.h>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

static std::mutex lock;
static std::map<const void *, std::pair<size_t, int> > blocks; /* size and device by start; under lock */
static size_t in_use, limit;                                   /* under lock */
/* Fresh memory is NaNs up to here. Only workspaces of cuBLASLt, which the emulated one leaves alone, are larger. */
static const size_t most_filled = 4 << 20;
static thread_local int current_device;
static thread_local cudaError_t last_error;
static std::atomic<bool> holds_copies;

static int
number_from (const char *variable, int otherwise)
{
  const char *text = getenv (variable);

  return text != nullptr ? atoi (text) : otherwise;
}

const char *
cudaGetErrorString (cudaError_t error)
{
  switch (error)
    {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "peer access is already enabled";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    }
  return "unknown error";
}

cudaError_t
cudaGetLastError (void)
{
  const cudaError_t error = last_error;

  last_error = cudaSuccess;
  return error;
}

cudaError_t
ps_emulator_refuse (cudaError_t error)
{
  last_error = error;
  return error;
}

cudaError_t
cudaRuntimeGetVersion (int *version)
{
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t
cudaDriverGetVersion (int *version)
{
  *version = number_from ("PS_EMULATED_DRIVER", CUDART_VERSION);
  return cudaSuccess;
}

cudaError_t
cudaGetDeviceCount (int *count)
{
  *count = 0;
  if (number_from ("PS_EMULATED_DRIVER", CUDART_VERSION) < CUDART_VERSION)
    return cudaErrorInsufficientDriver;
  *count = number_from ("PS_EMULATED_GPUS", 1);
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t
cudaSetDevice (int device)
{
  int count;
  const cudaError_t status = cudaGetDeviceCount (&count);

  if (status != cudaSuccess)
    return status;
  if (device < 0 || device >= count)
    return cudaErrorInvalidDevice;
  current_device = device;
  ps_emulator_leave_green_context ();
  return cudaSuccess;
}

cudaError_t
cudaGetDevice (int *device)
{
  *device = current_device;
  return cudaSuccess;
}

static int
queues ()
{
  static const int n = number_from ("CUDA_DEVICE_MAX_CONNECTIONS", 8);

  return n;
}

int
ps_emulator_queues (void)
{
  return queues ();
}

cudaError_t
cudaGetDeviceProperties (cudaDeviceProp *properties, int)
{
  *properties = {};
  strcpy (properties->name, "emulated GPU");
  properties->totalGlobalMem = (size_t)1 << 30;
  queues ();
  properties->major = number_from ("PS_EMULATED_CAPABILITY", 9);
  properties->multiProcessorCount = number_from ("PS_EMULATED_SMS", 132);
  properties->l2CacheSize = 1 << 20;
  return cudaSuccess;
}

cudaError_t
cudaDeviceGetAttribute (int *value, cudaDeviceAttr attribute, int)
{
  *value
      = attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 227 * 1024 : number_from ("PS_EMULATED_CAPABILITY", 9);
  return cudaSuccess;
}

cudaError_t
cudaDeviceCanAccessPeer (int *can, int device, int peer)
{
  *can = device != peer;
  return cudaSuccess;
}

/* From the current device; pairs are noted so that tests can ask for them. */
static std::mutex peers_lock;
static std::set<std::pair<int, int> > peers;

cudaError_t
cudaDeviceEnablePeerAccess (int peer, unsigned)
{
  std::lock_guard<std::mutex> guard (peers_lock);

  return peers.insert ({ current_device, peer }).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
}

int
ps_emulator_reaches (int device, int peer)
{
  std::lock_guard<std::mutex> guard (peers_lock);

  return peers.count ({ device, peer }) > 0;
}

cudaError_t
cudaDeviceGetPCIBusId (char *bus, int size, int device)
{
  snprintf (bus, (size_t)size, "0000:%02x:00.0", (unsigned)device);
  return cudaSuccess;
}

cudaError_t
cudaDeviceSynchronize (void)
{
  return cudaSuccess;
}

cudaError_t
cudaMalloc (void **memory, size_t bytes)
{
  std::lock_guard<std::mutex> guard (lock);

  if (ps_emulator_is_capturing ())
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

cudaError_t
cudaHostAlloc (void **memory, size_t bytes, unsigned)
{
  *memory = malloc (bytes);
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t
cudaFreeHost (void *memory)
{
  free (memory);
  return cudaSuccess;
}

cudaError_t
cudaFree (void *memory)
{
  std::lock_guard<std::mutex> guard (lock);
  const auto block = blocks.find (memory);

  if (memory == nullptr)
    return cudaSuccess;
  if (block == blocks.end ())
    return cudaErrorInvalidValue;
  in_use -= block->second.first;
  blocks.erase (block);
  free (memory);
  return cudaSuccess;
}

size_t
ps_emulator_memory_in_use (void)
{
  std::lock_guard<std::mutex> guard (lock);

  return in_use;
}

size_t
ps_emulator_blocks_in_use (void)
{
  std::lock_guard<std::mutex> guard (lock);

  return blocks.size ();
}

void
ps_emulator_limit_memory (size_t bytes)
{
  std::lock_guard<std::mutex> guard (lock);

  limit = bytes;
}

void
ps_emulator_hold_copies (int hold)
{
  holds_copies = hold != 0;
}

cudaError_t
cudaPointerGetAttributes (cudaPointerAttributes *attributes, const void *memory)
{
  std::lock_guard<std::mutex> guard (lock);
  auto block = blocks.upper_bound (memory);

  *attributes = {};
  if (block == blocks.begin ())
    return cudaSuccess;
  --block;
  if ((const char *)memory < (const char *)block->first + block->second.first)
    *attributes = { cudaMemoryTypeDevice, block->second.second };
  return cudaSuccess;
}

cudaError_t
cudaMemcpyAsync (void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t stream)
{
  return ps_emulator_stream_do (stream, [=] {
    while (holds_copies)
      std::this_thread::sleep_for (std::chrono::microseconds (100));
    if (bytes > 0)
      memcpy (to, from, bytes);
    return true;
  });
}

static cudaStream_t
stream_of_copies (void)
{
  cudaStream_t stream;

  cudaStreamCreateWithFlags (&stream, 0);
  return stream;
}

/* Returns when the host's memory has been read; other streams do not wait for the rest. */
cudaError_t
cudaMemcpy (void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
  static const cudaStream_t copies = stream_of_copies ();
  const std::string read ((const char *)from, kind == cudaMemcpyHostToDevice ? bytes : 0);

  if (kind == cudaMemcpyHostToDevice)
    return ps_emulator_stream_do (copies, [=] { return read.copy ((char *)to, bytes) == bytes; });
  ps_emulator_stream_drain (copies);
  return cudaMemcpyAsync (to, from, bytes, kind, nullptr);
}

cudaError_t
cudaMemsetAsync (void *memory, int value, size_t bytes, cudaStream_t stream)
{
  return ps_emulator_stream_do (stream, [=] {
    if (bytes > 0)
      memset (memory, value, bytes);
    return true;
  });
}

cudaError_t
cudaMemset (void *memory, int value, size_t bytes)
{
  return cudaMemsetAsync (memory, value, bytes, nullptr);
}
