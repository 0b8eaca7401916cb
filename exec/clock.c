/* clock.c - sleeping until a moment of the monotonic clock, comparing it with that of another host, and the time of
 * day. */
#include "clock.h"

#include <errno.h>

/* A sched_yield here would let a busy neighbour keep the core for milliseconds. */
void ps_clock_spin_until (gint64 deadline_ns)
{
  while (ps_clock_now () < deadline_ns)
    ;
}

void ps_clock_sleep_until (gint64 deadline_ns)
{
  gint64 wake_ns = deadline_ns - PS_CLOCK_SPIN_NS;

  if (wake_ns > ps_clock_now ()) {
    struct timespec wake = ps_clock_timespec (wake_ns);

    while (clock_nanosleep (CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) == EINTR)
      ;
  }
  ps_clock_spin_until (deadline_ns);
}

char *ps_moment_now (void)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();

  return g_date_time_format (now, "%Y-%m-%dT%H:%M:%S.%fZ");
}

void ps_clock_condition_init (pthread_cond_t *condition)
{
  pthread_condattr_t attributes;

  pthread_condattr_init (&attributes);
  pthread_condattr_setclock (&attributes, CLOCK_MONOTONIC);
  pthread_cond_init (condition, &attributes);
  pthread_condattr_destroy (&attributes);
}

gint64 ps_clock_estimate (const gint64 *sent_ns, const gint64 *there_ns, const gint64 *came_ns, guint n,
                          gint64 *uncertainty_ns)
{
  guint best = 0;

  for (guint i = 1; i < n; i++)
    if (came_ns[i] - sent_ns[i] < came_ns[best] - sent_ns[best])
      best = i;
  gint64 trip_ns = came_ns[best] - sent_ns[best];
  *uncertainty_ns = (trip_ns + 1) / 2;
  return sent_ns[best] + trip_ns / 2 - there_ns[best];
}
