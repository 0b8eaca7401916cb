/* clock.c - sleeping until a moment of the monotonic clock. */
#include "clock.h"

#include <errno.h>
#include <sched.h>

void
ps_clock_spin_until (gint64 deadline_ns)
{
  /* Many paced devices share few cores and often end at the same moment: whoever only watches the clock lets the others go first. */
  while (ps_clock_now () < deadline_ns)
    sched_yield ();
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
