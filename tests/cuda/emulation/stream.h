/* stream.h - emulated streams. Kernels, copies and fills run at once in the calling thread; other emulated libraries
 * may put work into a stream that ends later. So a stream is a queue: whatever comes after such work waits for it. With
 * PS_EMULATED_ASYNC in the environment a thread of the stream does all work, as on a GPU, and each piece of work up to
 * PS_EMULATED_DELAY_US late.
 * Work that is captured only becomes a node of a graph. */
#pragma once

#include <cuda_runtime.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls work (data) in the stream's own thread, in order. It must not call the emulated API on this stream. */
void ps_emulator_stream_push (cudaStream_t stream, void (*work) (void *data), void *data);

/* Waits until the stream is empty. NULL, the default stream, always is. Fails while the stream is captured. */
cudaError_t ps_emulator_stream_drain (cudaStream_t stream);

/* From now on streams work in threads of their own, and work begins when n streams have some; 0: ends that. have_met:
 * whether n had. Called when all streams are empty. */
void ps_emulator_meet (unsigned n);
bool ps_emulator_have_met (void);

/* Returns the error, and notes it as the one that the thread's cudaGetLastError gives once. */
cudaError_t ps_emulator_refuse (cudaError_t error);

/* Whether the calling thread captures a stream: most of the API is forbidden to it then. */
bool ps_emulator_is_capturing (void);

#ifdef __cplusplus
}

#include <functional>

/* Does work after all that the stream still has to do, or, where it is captured, notes it. work returns FALSE for what
 * a GPU would refuse to launch. */
cudaError_t ps_emulator_stream_do (cudaStream_t stream, const std::function<bool ()> &work);
#endif
