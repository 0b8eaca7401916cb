/* emulator.cpp - the scheduler: sweeps over the warps of a block and lets each run until it waits for others. */
#include <atomic>
#include <memory>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <vector>

#include "device-language.h"
#include "emulator.h"
#include "fiber.h"

static const unsigned max_threads = 1024;
static const unsigned warp_size = 32;
static const size_t stack_bytes = 256 * 1024;
static const size_t guard_bytes = 4096;
static const size_t max_shared_bytes = 227 * 1024; /* what one block may have on compute capability 9.0 */

/* Threads wait for the generation to change. */
struct Meeting
{
  unsigned generation = 0;
  unsigned arrived = 0;
};

struct Warp
{
  Meeting meeting;
  const char *what = nullptr;
  void *operands[warp_size] = {};
};

struct Copy
{
  void *to;
  const void *from;
  size_t bytes;
};

struct Thread
{
  PsFiber fiber = {};
  uint3 index = {};
  bool running = false;
  const Meeting *waits_for = nullptr;
  unsigned since = 0; /* the generation of waits_for when it began to wait */
  Warp *warp = nullptr;
  unsigned lane = 0;
  std::vector<std::vector<Copy> > copies; /* groups, the last one open */
};

/* One per operating system thread that launches kernels: the fibers stay for the next block. */
struct Machine
{
  PsFiber scheduler = {};
  char *stacks = nullptr;
  std::vector<std::unique_ptr<Thread> > threads;
  std::vector<Warp> warps;
  Meeting barrier;
  unsigned alive = 0;
  Thread *current = nullptr;
  uint3 *index = nullptr; /* of the current one: threadIdx */
  unsigned char *shared = nullptr;
  const std::function<void ()> *body = nullptr;

  ~Machine ()
  {
    if (stacks != nullptr)
      munmap (stacks, max_threads * stack_bytes);
  }
};

/* This thread's machine, from its first kernel on. A use of the pointer need not ask whether the machine was made. */
static thread_local Machine *machine;
static std::atomic<bool> backwards_order;

thread_local uint3 threadIdx, blockIdx;
thread_local dim3 blockDim, gridDim;

void
ps_emulator_fail (const char *message)
{
  fprintf (stderr, "emulated CUDA kernel, block %u,%u,%u thread %u: %s\n", blockIdx.x, blockIdx.y, blockIdx.z,
           threadIdx.x, message);
  abort ();
}

void
ps_emulator_set_backwards (bool backwards)
{
  backwards_order = backwards;
}

bool
ps_emulator_is_backwards ()
{
  return backwards_order;
}

unsigned char *
ps_emulator_shared_bytes ()
{
  return machine->shared;
}

static void
leave ()
{
  Thread *self = machine->current;

  ps_fiber_switch (&self->fiber, &machine->scheduler);
}

static void
wait_for (const Meeting *meeting)
{
  Thread *self = machine->current;

  self->waits_for = meeting;
  self->since = meeting->generation;
  leave ();
}

static void
release (Meeting *meeting)
{
  meeting->arrived = 0;
  meeting->generation++;
}

void
ps_emulator_sync_block ()
{
  Meeting *barrier = &machine->barrier;

  barrier->arrived++;
  if (barrier->arrived == machine->alive)
    release (barrier);
  else
    wait_for (barrier);
}

void
ps_emulator_warp (const char *what, void *operand, void (*perform) (void *const *operands))
{
  Thread *self = machine->current;
  Warp *warp = self->warp;

  if (warp->meeting.arrived > 0 && warp->what != what && strcmp (warp->what, what) != 0)
    ps_emulator_fail ("lanes of one warp are at different instructions");
  warp->what = what;
  warp->operands[self->lane] = operand;
  warp->meeting.arrived++;
  if (warp->meeting.arrived < warp_size)
    {
      wait_for (&warp->meeting);
      return;
    }
  perform (warp->operands);
  release (&warp->meeting);
}

/* --- asynchronous copies --- */

static void
perform (const Copy &copy)
{
  if (copy.from != nullptr)
    memcpy (copy.to, copy.from, copy.bytes);
  else
    memset (copy.to, 0, copy.bytes);
}

void
ps_emulator_copy_async (void *to, const void *from, size_t bytes)
{
  const Copy copy = { to, from, bytes };

  if (((uintptr_t)to | (uintptr_t)from) % bytes != 0)
    ps_emulator_fail ("an asynchronous copy is not aligned");
  if (backwards_order)
    machine->current->copies.back ().push_back (copy);
  else
    perform (copy);
}

void
ps_emulator_copy_commit ()
{
  machine->current->copies.emplace_back ();
}

void
ps_emulator_copy_wait (unsigned groups)
{
  auto &copies = machine->current->copies;

  while (copies.size () > groups + 1)
    {
      for (const Copy &copy : copies.front ())
        perform (copy);
      copies.erase (copies.begin ());
    }
}

/* --- the scheduler --- */

static void
fiber_entry ()
{
  for (;;)
    {
      Thread *self = machine->current;
      (*machine->body) ();
      self->running = false;
      machine->alive--;
      if (machine->barrier.arrived > 0 && machine->barrier.arrived == machine->alive)
        release (&machine->barrier);
      leave ();
    }
}

static Thread *
new_thread (unsigned i)
{
  char *stack = machine->stacks + i * stack_bytes;
  Thread *thread = new Thread;

  mprotect (stack, guard_bytes, PROT_NONE);
  thread->lane = i % warp_size;
  ps_fiber_init (&thread->fiber, stack + guard_bytes, stack_bytes - guard_bytes, fiber_entry);
  return thread;
}

static void
provide_threads (unsigned n)
{
  if (machine->stacks == nullptr)
    {
      void *memory = mmap (nullptr, max_threads * stack_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED)
        ps_emulator_fail ("no memory for the stacks");
      machine->stacks = (char *)memory;
    }
  while (machine->threads.size () < n)
    machine->threads.emplace_back (new_thread ((unsigned)machine->threads.size ()));
}

static void
start_block (unsigned n, size_t shared_bytes)
{
  machine->barrier = {};
  machine->alive = n;
  machine->warps.assign (n / warp_size, {});
  for (unsigned i = 0; i < n; i++)
    {
      Thread *thread = machine->threads[i].get ();
      thread->index = { i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y };
      thread->running = true;
      thread->waits_for = nullptr;
      thread->warp = &machine->warps[i / warp_size];
      thread->copies.assign (1, {});
    }
  memset (machine->shared, 0xff, shared_bytes);
}

static bool
can_run (const Thread *thread)
{
  return thread->running && (thread->waits_for == nullptr || thread->waits_for->generation != thread->since);
}

static void
run_thread (Thread *thread)
{
  thread->waits_for = nullptr;
  machine->current = thread;
  *machine->index = thread->index;
  ps_fiber_switch (&machine->scheduler, &thread->fiber);
}

/* Runs a warp until all of it waits for others, which makes it as different from them as can be. FALSE: it waits. */
static bool
run_warp (unsigned first, bool backwards)
{
  bool ran = false, progress = true;

  while (progress)
    {
      progress = false;
      for (unsigned i = 0; i < warp_size; i++)
        {
          Thread *thread = machine->threads[first + (backwards ? warp_size - 1 - i : i)].get ();
          if (!can_run (thread))
            continue;
          progress = true;
          run_thread (thread);
        }
      ran |= progress;
    }
  return ran;
}

static void
run_block (unsigned n, size_t shared_bytes, bool backwards)
{
  start_block (n, shared_bytes);
  while (machine->alive > 0)
    {
      bool progress = false;
      for (unsigned first = 0; first < n; first += warp_size)
        progress |= run_warp (backwards ? n - warp_size - first : first, backwards);
      if (!progress)
        ps_emulator_fail ("all threads wait: some barrier or warp instruction is not reached by all");
    }
}

static bool
is_launchable (dim3 grid, dim3 block)
{
  const size_t n = (size_t)block.x * block.y * block.z;

  return grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x < 1u << 31 && grid.y < 65536 && grid.z < 65536 && n > 0
         && n <= max_threads && block.z <= 64;
}

bool
ps_emulator_run (dim3 grid, dim3 block, size_t shared_bytes, const std::function<void ()> &thread)
{
  const bool backwards = backwards_order;
  const unsigned n = block.x * block.y * block.z;
  const size_t n_blocks = (size_t)grid.x * grid.y * grid.z;

  if (!is_launchable (grid, block) || shared_bytes > max_shared_bytes)
    return false;
  if (n % warp_size != 0)
    ps_emulator_fail ("blocks of whole warps only");
  static thread_local Machine own;
  machine = &own;
  machine->index = &threadIdx;
  provide_threads (n);
  machine->body = &thread;
  machine->shared = (unsigned char *)aligned_alloc (1024, shared_bytes / 1024 * 1024 + 1024);
  gridDim = grid;
  blockDim = block;
  for (size_t i = 0; i < n_blocks; i++)
    {
      const size_t at = backwards ? n_blocks - 1 - i : i;
      blockIdx = { (unsigned)(at % grid.x), (unsigned)(at / grid.x % grid.y), (unsigned)(at / grid.x / grid.y) };
      run_block (n, shared_bytes, backwards);
    }
  free (machine->shared);
  machine->shared = nullptr;
  return true;
}
