/* emulator.cpp - the interpreter of a grid: a thread that waits hands over to the next one that need not, always the
 * first warp that has one. */
#include <atomic>
#include <cuda_runtime.h>
#include <memory>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef PS_SANITIZED_STACKS
#include <sanitizer/common_interface_defs.h>
#endif

static const unsigned max_threads = 1024, warp_size = 32;
static const size_t stack_bytes = 256 * 1024;
static const size_t max_shared_bytes = 227 * 1024; /* what one block may have on compute capability 9.0 */

PS_EMULATOR_LOCAL __thread uint3 threadIdx, blockIdx;
PS_EMULATOR_LOCAL __thread dim3 blockDim, gridDim;

/* --- fibers: several call stacks on one operating system thread, one running at a time --- */

/* Saves the registers that a call keeps (System V ABI, 3.2.1), stores the stack pointer to *from and continues at to.
 */
extern "C" void ps_fiber_jump (void **from, void *to);

__asm__(".text\n"
        ".globl ps_fiber_jump\n"
        ".hidden ps_fiber_jump\n"
        ".type ps_fiber_jump, @function\n"
        "ps_fiber_jump:\n"
        "  pushq %rbp\n"
        "  pushq %rbx\n"
        "  pushq %r12\n"
        "  pushq %r13\n"
        "  pushq %r14\n"
        "  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n"
        "  popq %r14\n"
        "  popq %r13\n"
        "  popq %r12\n"
        "  popq %rbx\n"
        "  popq %rbp\n"
        "  popq %rcx\n" /* a return would be predicted wrongly */
        "  jmpq *%rcx\n"
        ".size ps_fiber_jump, . - ps_fiber_jump\n");

/* Prepares a fiber that runs entry, which never returns. Returns its stack pointer. */
static void *make_fiber (char *stack, void (*entry) ())
{
  uintptr_t *top = (uintptr_t *)(stack + stack_bytes);

  *--top = 0; /* so that entry finds the stack as after a call: 8 bytes off a multiple of 16 */
  *--top = (uintptr_t)entry;
  for (int i = 0; i < 6; i++)
    *--top = 0;
  return top;
}

/* --- the state of a block --- */

struct Thread {
  void *fiber = nullptr; /* its stack pointer while it does not run */
  uint3 index = {};
  PsEmulatorGroups copies;
};

/* Bit i stands for lane i. */
struct Warp {
  uint32_t alive, ready; /* ready: does not wait */
  unsigned n_arrived;    /* lanes at an instruction of the warp */
  const char *what;
  void *operands[warp_size];
};

/* What the grids of an operating system thread run on; its fibers stay from one block to the next. */
struct Machine {
  char *stacks;
  Thread threads[max_threads];
  unsigned n_prepared = 0; /* threads with a fiber */
  Warp warps[max_threads / warp_size];
  unsigned n_warps, n_alive, n_arrived; /* threads that have not returned; that are at the barrier */
  unsigned current;                     /* the running thread */
  bool backwards;
  unsigned char *shared;
  void *start; /* the stack pointer of the operating system thread */
  const std::function<void ()> *body;

  Machine ()
  {
    stacks = (char *)mmap (nullptr, max_threads * stack_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    shared = (unsigned char *)aligned_alloc (1024, 228 * 1024);
  }

  ~Machine ()
  {
    munmap (stacks, max_threads * stack_bytes);
    free (shared);
  }
};

static thread_local std::unique_ptr<Machine> own_machine;
PS_EMULATOR_LOCAL static __thread Machine *machine; /* own_machine, found faster */
static std::atomic<bool> backwards_order;

void ps_emulator_fail (const char *message)
{
  fprintf (stderr, "emulated CUDA kernel, block %u,%u,%u thread %u: %s\n", blockIdx.x, blockIdx.y, blockIdx.z,
           threadIdx.x, message);
  abort ();
}

extern "C" void ps_emulator_set_backwards (bool backwards)
{
  backwards_order = backwards;
}

bool ps_emulator_is_backwards ()
{
  return backwards_order;
}

bool ps_emulator_delays ()
{
  return machine->backwards;
}

unsigned char *ps_emulator_shared_bytes ()
{
  return machine->shared;
}

/* Chooses the thread that runs next. Returns its stack pointer; when the block has ended, that of the start. */
static void *next_fiber ()
{
  for (unsigned i = 0; i < machine->n_warps; i++) {
    const unsigned warp = machine->backwards ? machine->n_warps - 1 - i : i;
    const uint32_t ready = machine->warps[warp].ready;

    if (ready == 0)
      continue;
    machine->current
        = warp * warp_size + (unsigned)(machine->backwards ? 31 - __builtin_clz (ready) : __builtin_ctz (ready));
    threadIdx = machine->threads[machine->current].index;
    return machine->threads[machine->current].fiber;
  }
  if (machine->n_alive > 0)
    ps_emulator_fail ("all threads wait: some barrier or warp instruction is not reached by all");
  return machine->start;
}

/* Leaves the running thread, which is not ready any more. Returns when it is again, and chosen. */
static void hand_over ()
{
  void **fiber = &machine->threads[machine->current].fiber;

  machine->warps[machine->current / warp_size].ready &= ~(1u << machine->current % warp_size);
  ps_fiber_jump (fiber, next_fiber ());
}

/* Whether all threads are at the barrier, which then lets them go. */
static bool open_barrier ()
{
  if (machine->n_arrived < machine->n_alive)
    return false;
  machine->n_arrived = 0;
  for (unsigned i = 0; i < machine->n_warps; i++)
    machine->warps[i].ready = machine->warps[i].alive;
  return true;
}

void __syncthreads ()
{
  machine->n_arrived++;
  if (!open_barrier ())
    hand_over ();
}

void ps_emulator_warp (const char *what, void *operand, void (*perform) (void *const *operands))
{
  Warp *warp = &machine->warps[machine->current / warp_size];

  if (warp->n_arrived > 0 && warp->what != what && strcmp (warp->what, what) != 0)
    ps_emulator_fail ("lanes of one warp are at different instructions");
  warp->what = what;
  warp->operands[machine->current % warp_size] = operand;
  if (++warp->n_arrived < warp_size) {
    hand_over ();
    return;
  }
  perform (warp->operands);
  warp->n_arrived = 0;
  warp->ready = warp->alive;
}

void ps_emulator_copy_async (void *to, const void *from, size_t bytes)
{
  if (((uintptr_t)to | (uintptr_t)from) % bytes != 0)
    ps_emulator_fail ("an asynchronous copy is not aligned");
  machine->threads[machine->current].copies.add ([=] {
    if (from != nullptr)
      memcpy (to, from, bytes);
    else
      memset (to, 0, bytes);
  });
}

void ps_emulator_copy_commit ()
{
  machine->threads[machine->current].copies.commit ();
}

void ps_emulator_copy_wait (unsigned groups)
{
  machine->threads[machine->current].copies.wait (groups);
}

/* --- blocks --- */

/* A thread of one block after the other. */
static void fiber_entry ()
{
  for (;;) {
    (*machine->body) ();
    machine->n_alive--;
    machine->warps[machine->current / warp_size].alive &= ~(1u << machine->current % warp_size);
    if (machine->n_alive > 0 && machine->n_arrived > 0)
      open_barrier ();
    hand_over ();
  }
}

static void run_block (unsigned n, size_t shared_bytes)
{
  machine->n_alive = n;
  machine->n_arrived = 0;
  machine->n_warps = n / warp_size;
  for (unsigned i = 0; i < machine->n_warps; i++)
    machine->warps[i] = { 0xffffffffu, 0xffffffffu, 0, nullptr, {} };
  for (unsigned i = 0; i < n; i++) {
    machine->threads[i].index = { i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y };
    machine->threads[i].copies.wait (0);
  }
  memset (machine->shared, 0xff, shared_bytes);
#ifdef PS_SANITIZED_STACKS
  void *fake;
  const void *own;
  size_t own_bytes;

  __sanitizer_start_switch_fiber (&fake, machine->stacks, n * stack_bytes);
  __sanitizer_finish_switch_fiber (nullptr, &own, &own_bytes);
#endif
  ps_fiber_jump (&machine->start, next_fiber ());
#ifdef PS_SANITIZED_STACKS
  __sanitizer_start_switch_fiber (nullptr, own, own_bytes);
  __sanitizer_finish_switch_fiber (fake, nullptr, nullptr);
#endif
}

bool ps_emulator_can_launch (dim3 grid, dim3 block, size_t shared_bytes)
{
  const size_t n = (size_t)block.x * block.y * block.z;

  if (block.x % warp_size != 0)
    ps_emulator_fail ("blocks with rows of whole warps only");
  return grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x < 1u << 31 && grid.y < 65536 && grid.z < 65536 && n > 0
         && n <= max_threads && block.z <= 64 && shared_bytes <= max_shared_bytes;
}

void ps_emulator_run (dim3 grid, dim3 block, size_t shared_bytes, bool backwards, const std::function<void ()> &thread)
{
  const unsigned n = block.x * block.y * block.z;
  const size_t n_blocks = (size_t)grid.x * grid.y * grid.z;

  if (own_machine == nullptr)
    own_machine = std::make_unique<Machine> ();
  machine = own_machine.get ();
  machine->backwards = backwards;
  machine->body = &thread;
  for (; machine->n_prepared < n; machine->n_prepared++)
    machine->threads[machine->n_prepared].fiber
        = make_fiber (machine->stacks + machine->n_prepared * stack_bytes, fiber_entry);
  gridDim = grid;
  blockDim = block;
  for (size_t i = 0; i < n_blocks; i++) {
    const size_t at = machine->backwards ? n_blocks - 1 - i : i;

    blockIdx = { (unsigned)(at % grid.x), (unsigned)(at / grid.x % grid.y), (unsigned)(at / grid.x / grid.y) };
    run_block (n, shared_bytes);
  }
}
