/* format-io.h - schedules read and written in a format by its name, where nothing may go wrong, and a small one. */
#pragma once

#include "error-rig.h"

#include <pipesim/formats.h>

#include <string.h>

static inline const PsFormat *format_named (const char *name)
{
  return fine (ps_format_find (name, &error));
}

static inline PsSchedule *read_as (const char *format, const char *text)
{
  PsSchedule *schedule = fine (format_named (format)->read ("test.csv", text, strlen (text), &error));

  fine (ps_schedule_validate (schedule, &error));
  return schedule;
}

static inline char *write_as (const char *format, const PsSchedule *schedule)
{
  return fine (format_named (format)->write (schedule, &error));
}

/* F and BW of every microbatch on one device with all stages. */
static inline PsSchedule *small_schedule (PsPlacementKind kind, guint n_devices, guint n_chunks)
{
  PsPlacement *placement = ps_placement_new (kind, n_devices, n_chunks);
  guint n_stages = placement->n_stages;
  PsScheduleBuilder *builder = ps_schedule_builder_new ("small", placement, 1);

  for (guint d = 0; d < n_devices; d++) {
    for (guint stage = 0; stage < n_stages; stage++)
      if (ps_placement_device (placement, 0, stage) == d)
        ps_schedule_builder_add (builder, PS_OP_F, stage, 0);
    for (guint stage = n_stages; stage-- > 0;)
      if (ps_placement_device (placement, 0, stage) == d)
        ps_schedule_builder_add (builder, PS_OP_BW, stage, 0);
    ps_schedule_builder_next_device (builder);
  }
  return ps_schedule_builder_end (builder);
}
