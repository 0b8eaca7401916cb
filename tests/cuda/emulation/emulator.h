/* emulator.h - runs CUDA kernels, compiled by the host compiler, on the CPU: the blocks of a grid one after the other,
 * the threads of a block as fibers of the calling thread. For tests of correctness only: nothing about its speed means
 * anything.
 *
 * What it honours: barriers of a block; shuffles, votes, matrix instructions and barriers of whole warps (all 32 lanes
 * must take part); asynchronous copies and products. What it finds, and then aborts with one line on stderr: threads
 * that wait for one another for ever, lanes of a warp at different instructions. What it can't find by itself, a
 * missing barrier, shows as different results in the two orders of ps_emulator_set_backwards: a warp runs until all of
 * it waits for others.
 *
 * Several threads may run kernels at the same time.
 */
#pragma once

#include <functional>
#include <stddef.h>

#include "device-types.h"

/* Of variables of a thread that are read too often to search for them: a module that is loaded late may have a few
 * bytes at a place that is known at once. */
#define PS_EMULATOR_LOCAL __attribute__ ((tls_model ("initial-exec")))

/* Runs one grid; FALSE for sizes that a GPU would refuse. */
bool ps_emulator_run (dim3 grid, dim3 block, size_t shared_bytes, const std::function<void ()> &thread);

/* TRUE: blocks and threads run from the last to the first, and asynchronous copies happen as late as they may; FALSE,
 * from the start: first to last, and at once. For all threads of the program. */
void ps_emulator_set_backwards (bool backwards);
bool ps_emulator_is_backwards ();

/* The running block's dynamic shared memory: NaNs (bytes 0xff) when the block starts. */
unsigned char *ps_emulator_shared_bytes ();

/* Waits until all threads of the block that have not returned are here. */
void ps_emulator_sync_block ();

/* An instruction that 32 lanes execute together. Each gives its operand, which holds room for its result; when all have
 * come, perform is called once with the operands in order of the lanes. `what` names it in messages. */
void ps_emulator_warp (const char *what, void *operand, void (*perform) (void *const *operands));

/* Asynchronous copies of the calling thread to shared memory: from NULL writes zeros. */
void ps_emulator_copy_async (void *to, const void *from, size_t bytes);
void ps_emulator_copy_commit ();              /* closes a group */
void ps_emulator_copy_wait (unsigned groups); /* until at most that many of the latest groups are under way */

/* Prints the line and aborts. */
[[noreturn]] void ps_emulator_fail (const char *message);
