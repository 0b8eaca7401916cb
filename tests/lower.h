/* lower.h - programs of schedules that are valid. */
#pragma once

#include <pipesim/families.h>
#include <pipesim/program.h>

/* Takes the schedule. */
static inline PsProgram *
lower (PsSchedule *schedule)
{
  g_autoptr (GError) error = NULL;

  ps_schedule_validate (schedule, &error);
  g_assert_no_error (error);
  PsProgram *program = ps_program_lower (schedule, PS_COMM_ASAP, &error);
  g_assert_no_error (error);
  return program;
}

static inline guint
n_channels (void)
{
  guint n;

  ps_channel_table (&n);
  return n;
}

static inline void
assert_runs_on_all_channels (const PsProgram *program)
{
  for (guint channel = 0; channel < n_channels (); channel++)
    {
      g_autoptr (GError) error = NULL;

      ps_program_check (program, (PsChannel)channel, &error);
      g_assert_no_error (error);
    }
}

/* v 0: as many chunks as the family has by itself. */
static inline PsProgram *
lower_family (const char *name, guint p, guint m, guint v)
{
  g_autoptr (GError) error = NULL;
  const PsFamily *family = ps_family_find (name);
  PsFamilySetting setting = { .n_devices = p, .n_microbatches = m, .n_chunks = v ? v : family->default_chunks };
  PsSchedule *schedule = ps_family_generate (family, &setting, &error);

  g_assert_no_error (error);
  return lower (schedule);
}
