/* machine.h - what a test may ask the emulated machine. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes and blocks of device memory that cudaMalloc gave and cudaFree has not taken back. */
size_t ps_emulator_memory_in_use (void);

/* Whether a GPU may copy from another one by itself. */
int ps_emulator_reaches (int device, int peer);
size_t ps_emulator_blocks_in_use (void);

/* From now on cudaMalloc refuses what goes beyond that many bytes in use; 0: nothing. */
void ps_emulator_limit_memory (size_t bytes);

/* From now on copies wait in streams that work in threads of their own, see stream.h; 0: ends that. */
void ps_emulator_hold_copies (int hold);

/* From now on the emulated cuBLASLt has no algorithm for a fused epilogue (1), or proposes some that then don't work
 * (2); 0: it has. */
void ps_emulator_refuse_epilogues (int refuse);

/* CUDA_DEVICE_MAX_CONNECTIONS as it was when the process first asked for a GPU's properties. */
int ps_emulator_queues (void);

/* How many graphs were made and how many launched by all of the process so far. */
void ps_emulator_graphs (unsigned *captures, unsigned *launches);

/* All NVTX ranges of the calling thread so far: "(outer(inner))(next)". */
const char *ps_emulator_ranges (void);

/* Between the parts of the emulation: this thread is in the primary context again. */
void ps_emulator_leave_green_context (void);

#ifdef __cplusplus
}
#endif
