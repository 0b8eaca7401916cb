/* fiber.h - several call stacks on one operating system thread, one running at a time. */
#pragma once

#include <stddef.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

struct PsFiber {
#if defined(__x86_64__)
  void *top; /* where the registers lie that a switch saved */
#else
  ucontext_t context;
#endif
};

/* Prepares a fiber that runs entry on the given stack when it is first switched to. entry never returns. */
void ps_fiber_init (PsFiber *fiber, void *stack, size_t bytes, void (*entry) ());

/* Goes on in `to`, whose stack lies in these bytes with those of all fibers that it hands over to; `from` is this
 * thread's own stack. Returns when one of them switches back. */
void ps_fiber_enter (PsFiber *from, PsFiber *to, const void *stacks, size_t bytes);

/* Goes on in `to`; returns when something switches back to `from`, which is the fiber that calls. */
void ps_fiber_switch (PsFiber *from, PsFiber *to);
