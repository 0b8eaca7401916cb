/* bench-clock.h - nanoseconds by a clock, for benchmarks. */
#pragma once

#include <glib.h>

#include <time.h>

static inline gint64 clock_ns (clockid_t clock)
{
  struct timespec time;

  clock_gettime (clock, &time);
  return (gint64)time.tv_sec * 1000000000 + time.tv_nsec;
}
