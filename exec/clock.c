/* clock.c - sleeping until a moment of the monotonic clock. */
#include "clock.h"

#include <errno.h>

/* A sched_yield here would let a busy neighbour keep the core for milliseconds. */
void
ps_clock_spin_until (gint64 deadline_ns)
{
  while (ps_clock_now () < deadline_ns)
    ;
}

void
ps_clock_sleep_until (gint64 deadline_ns)
{
  gint64 wake_ns = deadline_ns - PS_CLOCK_SPIN_NS;

  if (wake_ns > ps_clock_now ())
    {
      struct timespec wake = ps_clock_timespec (wake_ns);

      while (clock_nanosleep (CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) == EINTR)
        ;
    }
  ps_clock_spin_until (deadline_ns);
}

void
ps_clock_condition_init (pthread_cond_t *condition)
{
  pthread_condattr_t attributes;

  pthread_condattr_init (&attributes);
  pthread_condattr_setclock (&attributes, CLOCK_MONOTONIC);
  pthread_cond_init (condition, &attributes);
  pthread_condattr_destroy (&attributes);
}
