/* load.c - reads /proc/stat. */
#include "load.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static double seconds_of (struct timeval time)
{
  return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

void ps_processor_times_read (PsProcessorTimes *times)
{
  FILE *file = fopen ("/proc/stat", "re");
  double user, nice, system, idle, waiting, interrupts, soft, stolen, tick = (double)sysconf (_SC_CLK_TCK);
  struct rusage usage;

  *times = (PsProcessorTimes){ 0 };
  if (getrusage (RUSAGE_SELF, &usage) == 0)
    times->own = seconds_of (usage.ru_utime) + seconds_of (usage.ru_stime);
  if (file != NULL
      && fscanf (file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle, &waiting, &interrupts,
                 &soft, &stolen)
             == 8) {
    times->busy = (user + nice + system + interrupts + soft + stolen) / tick;
    times->all = times->busy + (idle + waiting) / tick;
  }
  if (file != NULL)
    fclose (file);
}

double ps_processor_times_others (const PsProcessorTimes *before, const PsProcessorTimes *after)
{
  double all = after->all - before->all, others = after->busy - before->busy - (after->own - before->own);

  return before->all > 0 && all > 0 ? MAX (others, 0) / all : NAN;
}
