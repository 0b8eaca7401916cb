/* stream.h - emulated streams. Kernels, copies and fills run at once in the calling thread; other emulated libraries
 * may put work into a stream that ends later. So a stream is a queue: whatever comes behind such work waits for it. */
#ifndef PS_EMULATION_STREAM_H
#define PS_EMULATION_STREAM_H

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C"
{
#endif

  /* Calls work (data) in the stream's own thread, in order. It must not call the emulated API on this stream. */
  void ps_emulator_stream_push (cudaStream_t stream, void (*work) (void *data), void *data);

  /* Waits until the stream is empty. NULL, the default stream, always is. */
  void ps_emulator_stream_drain (cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
