/* clock.h - the monotonic clock in nanoseconds, sleeping and waiting by it, and the time of day as text. */
#pragma once

#include <glib.h>

#include <pthread.h>
#include <time.h>

/* A sleep ends this long before its deadline and spinning begins. Longer spins meet the deadline more often (a virtual
 * machine wakes sleepers 20 to 80 us late). But threads that share cores then hinder each other. */
#define PS_CLOCK_SPIN_NS G_GINT64_CONSTANT (20000)

/* CLOCK_MONOTONIC in ns. */
static inline gint64 ps_clock_now (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (gint64)now.tv_sec * G_GINT64_CONSTANT (1000000000) + now.tv_nsec;
}

static inline struct timespec ps_clock_timespec (gint64 ns)
{
  return (struct timespec){ .tv_sec = ns / G_GINT64_CONSTANT (1000000000),
                            .tv_nsec = ns % G_GINT64_CONSTANT (1000000000) };
}

/* This moment in UTC as in ISO 8601, with microseconds: moments sort as texts do. Free with g_free. */
char *ps_moment_now (void);

/* Returns at deadline_ns, or as soon after it as the system lets this thread run. It sleeps until PS_CLOCK_SPIN_NS
 * before, then spins. */
void ps_clock_sleep_until (gint64 deadline_ns);

/* Makes a condition whose timed waits use this clock. */
void ps_clock_condition_init (pthread_cond_t *condition);

/* Spins until deadline_ns. */
void ps_clock_spin_until (gint64 deadline_ns);

/* The offset between two clocks from n round trips: at sent_ns[i] by the own clock a question went out, at there_ns[i]
 * by the other clock it was answered, and at came_ns[i] the answer was back. The shortest round trip bounds the error
 * best (as in NTP's clock filter, RFC 5905 section 10): own = there + offset, within half of that trip. */
gint64 ps_clock_estimate (const gint64 *sent_ns, const gint64 *there_ns, const gint64 *came_ns, guint n,
                          gint64 *uncertainty_ns);
