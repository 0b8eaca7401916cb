/* fiber.cpp - ucontext does it everywhere, but with two system calls per switch; on x86-64 a few pushes and pops do. */
#include <stdint.h>

#include "fiber.h"

#ifdef PS_SANITIZED_STACKS
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)

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
        "  ret\n"
        ".size ps_fiber_jump, . - ps_fiber_jump\n");

void
ps_fiber_init (PsFiber *fiber, void *stack, size_t bytes, void (*entry) ())
{
  uintptr_t *top = (uintptr_t *)((uintptr_t)stack + bytes);

  *--top = 0; /* so that entry finds the stack as after a call: 8 bytes off a multiple of 16 */
  *--top = (uintptr_t)entry;
  for (int i = 0; i < 6; i++)
    *--top = 0;
  fiber->top = top;
}

void
ps_fiber_switch (PsFiber *from, PsFiber *to)
{
  ps_fiber_jump (&from->top, to->top);
}

#else

void
ps_fiber_init (PsFiber *fiber, void *stack, size_t bytes, void (*entry) ())
{
  getcontext (&fiber->context);
  fiber->context.uc_stack.ss_sp = stack;
  fiber->context.uc_stack.ss_size = bytes;
  fiber->context.uc_link = nullptr;
  makecontext (&fiber->context, entry, 0);
}

void
ps_fiber_switch (PsFiber *from, PsFiber *to)
{
  swapcontext (&from->context, &to->context);
}

#endif

void
ps_fiber_enter (PsFiber *from, PsFiber *to, const void *stacks, size_t bytes)
{
#ifdef PS_SANITIZED_STACKS
  void *fake;
  const void *own;
  size_t own_bytes;

  __sanitizer_start_switch_fiber (&fake, stacks, bytes);
  __sanitizer_finish_switch_fiber (nullptr, &own, &own_bytes);
  ps_fiber_switch (from, to);
  __sanitizer_start_switch_fiber (nullptr, own, own_bytes);
  __sanitizer_finish_switch_fiber (fake, nullptr, nullptr);
#else
  ps_fiber_switch (from, to);
#endif
}
