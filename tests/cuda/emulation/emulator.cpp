/* emulator.cpp - the scheduler: a thread that waits hands over to the next one that need not. */
#include <atomic>
#include <mutex>
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

/* The sweep over the threads of a block: a warp again and again until all of it waits for others, which makes it as
 * different from them as can be, then the next warp. */
struct Sweep
{
  unsigned warp = 0, lane = 0; /* the next to look at */
  bool warp_ran = false;       /* since its first lane was looked at */
  bool block_ran = false;      /* a warp did, since the first warp was looked at */
};

/* What a launch runs on. Its fibers stay for the next block and, by idle_machines, for the next launch. */
struct Machine
{
  PsFiber start = {}; /* the thread that launches */
  char *stacks = nullptr;
  Thread threads[max_threads];
  unsigned n_prepared = 0; /* threads with a fiber */
  std::vector<Warp> warps;
  Meeting barrier;
  unsigned alive = 0;
  Sweep sweep;
  bool backwards = false;
  Thread *current = nullptr;
  unsigned char *shared = nullptr;
  const std::function<void ()> *body = nullptr;
};

static std::mutex idle_lock;
static std::vector<Machine *> &idle_machines = *new std::vector<Machine *>; /* under idle_lock; no exit ends them */

PS_EMULATOR_LOCAL static __thread Machine *machine; /* that this thread's launch runs on */
static std::atomic<bool> backwards_order;

PS_EMULATOR_LOCAL __thread uint3 threadIdx, blockIdx;
PS_EMULATOR_LOCAL __thread dim3 blockDim, gridDim;

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

static bool
can_run (const Thread *thread)
{
  return thread->running && (thread->waits_for == nullptr || thread->waits_for->generation != thread->since);
}

static Thread *
thread_at (const Sweep *sweep)
{
  const unsigned at = sweep->warp * warp_size + sweep->lane;

  return &machine->threads[machine->backwards ? machine->warps.size () * warp_size - 1 - at : at];
}

/* The sweep's next thread that can run; NULL: the block has ended. */
static Thread *
next_thread ()
{
  Sweep *sweep = &machine->sweep;

  while (machine->alive > 0)
    {
      while (sweep->lane < warp_size)
        {
          Thread *thread = thread_at (sweep);
          sweep->lane++;
          if (!can_run (thread))
            continue;
          sweep->warp_ran = true;
          return thread;
        }
      sweep->lane = 0;
      sweep->block_ran |= sweep->warp_ran;
      if (!sweep->warp_ran)
        sweep->warp++;
      sweep->warp_ran = false;
      if (sweep->warp < machine->warps.size ())
        continue;
      if (!sweep->block_ran)
        ps_emulator_fail ("all threads wait: some barrier or warp instruction is not reached by all");
      sweep->warp = 0;
      sweep->block_ran = false;
    }
  return nullptr;
}

/* The fiber of the next thread, which is current then; that of the launch when there is none. */
static PsFiber *
next_fiber ()
{
  Thread *next = next_thread ();

  machine->current = next;
  if (next == nullptr)
    return &machine->start;
  next->waits_for = nullptr;
  threadIdx = next->index;
  return &next->fiber;
}

static void
wait_for (const Meeting *meeting)
{
  Thread *self = machine->current;

  self->waits_for = meeting;
  self->since = meeting->generation;
  ps_fiber_switch (&self->fiber, next_fiber ());
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

/* --- blocks --- */

/* Not inlined: the switch at its end may return to another operating system thread, whose variables lie elsewhere. */
__attribute__ ((noinline)) static void
run_thread ()
{
  Thread *self = machine->current;

  (*machine->body) ();
  self->running = false;
  machine->alive--;
  if (machine->barrier.arrived > 0 && machine->barrier.arrived == machine->alive)
    release (&machine->barrier);
  ps_fiber_switch (&self->fiber, next_fiber ());
}

static void
fiber_entry ()
{
  for (;;)
    run_thread ();
}

static void
prepare_threads (unsigned n)
{
  if (machine->stacks == nullptr)
    {
      void *memory = mmap (nullptr, max_threads * stack_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED)
        ps_emulator_fail ("no memory for the stacks");
      machine->stacks = (char *)memory;
    }
  for (; machine->n_prepared < n; machine->n_prepared++)
    {
      char *stack = machine->stacks + machine->n_prepared * stack_bytes;
      mprotect (stack, guard_bytes, PROT_NONE);
      ps_fiber_init (&machine->threads[machine->n_prepared].fiber, stack + guard_bytes, stack_bytes - guard_bytes,
                     fiber_entry);
    }
}

static void
run_block (unsigned n, size_t shared_bytes)
{
  machine->barrier = {};
  machine->alive = n;
  machine->sweep = {};
  machine->warps.assign (n / warp_size, {});
  for (unsigned i = 0; i < n; i++)
    {
      Thread *thread = &machine->threads[i];
      thread->index = { i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y };
      thread->running = true;
      thread->waits_for = nullptr;
      thread->warp = &machine->warps[i / warp_size];
      thread->lane = i % warp_size;
      thread->copies.resize (1);
      thread->copies[0].clear ();
    }
  memset (machine->shared, 0xff, shared_bytes);
  ps_fiber_enter (&machine->start, next_fiber (), machine->stacks, n * stack_bytes);
}

static bool
is_launchable (dim3 grid, dim3 block)
{
  const size_t n = (size_t)block.x * block.y * block.z;

  return grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x < 1u << 31 && grid.y < 65536 && grid.z < 65536 && n > 0
         && n <= max_threads && block.z <= 64;
}

static Machine *
take_machine ()
{
  std::lock_guard<std::mutex> guard (idle_lock);

  if (idle_machines.empty ())
    return new Machine;
  Machine *taken = idle_machines.back ();
  idle_machines.pop_back ();
  return taken;
}

static void
return_machine ()
{
  std::lock_guard<std::mutex> guard (idle_lock);

  idle_machines.push_back (machine);
}

bool
ps_emulator_run (dim3 grid, dim3 block, size_t shared_bytes, const std::function<void ()> &thread)
{
  const unsigned n = block.x * block.y * block.z;
  const size_t n_blocks = (size_t)grid.x * grid.y * grid.z;

  if (!is_launchable (grid, block) || shared_bytes > max_shared_bytes)
    return false;
  if (n % warp_size != 0)
    ps_emulator_fail ("blocks of whole warps only");
  machine = take_machine ();
  machine->backwards = backwards_order;
  machine->body = &thread;
  machine->shared = (unsigned char *)aligned_alloc (1024, shared_bytes / 1024 * 1024 + 1024);
  prepare_threads (n);
  gridDim = grid;
  blockDim = block;
  for (size_t i = 0; i < n_blocks; i++)
    {
      const size_t at = machine->backwards ? n_blocks - 1 - i : i;
      blockIdx = { (unsigned)(at % grid.x), (unsigned)(at / grid.x % grid.y), (unsigned)(at / grid.x / grid.y) };
      run_block (n, shared_bytes);
    }
  free (machine->shared);
  return_machine ();
  return true;
}
