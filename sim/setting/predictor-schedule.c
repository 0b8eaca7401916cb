/* predictor-schedule.c - generates a family's schedule, with room for its messages, or reads a schedule file. */
#include "predictor-schedule.h"

#include <pipesim/formats.h>
#include <pipesim/simulate.h>

#include <string.h>

#define MAX_TIGHTER 6 /* schedules; nearly always the second leaves enough room */

/* Takes from each device's limit what its peak exceeds the given limit by, times `factor`; FALSE: no peak does.
 * Transfers never queue here: families see costs, not channels. */
static gboolean
tighten (const PsSchedule *schedule, const PsFamilySetting *size, gint64 factor, gint64 *limit)
{
  g_autoptr (PsProgram) program = ps_program_lower (ps_schedule_copy (schedule), PS_COMM_ASAP, NULL);
  g_autoptr (PsSimulation) simulation = program != NULL ? ps_simulation_new (program) : NULL;
  g_autoptr (PsCosts) costs = ps_costs_copy (size->costs);
  gboolean exceeds = FALSE;

  if (program == NULL)
    return FALSE;
  ps_costs_add_host_time (costs, schedule->placement->device, schedule->placement->n_copies);
  ps_simulate (program, costs, simulation);
  for (guint d = 0; d < simulation->n_devices; d++)
    {
      gint64 excess = simulation->device[d].peak_bytes - size->memory_limit[d];

      limit[d] -= factor * MAX (excess, 0);
      exceeds |= excess > 0;
    }
  return exceeds;
}

/* A family keeps to its limit but counts the bytes of ops only: the limit sinks until the buffers of messages fit
 * beside them. If the family finds no schedule at a lower limit, its last one stays. */
static PsSchedule *
generate_within (const PsFamily *family, const PsFamilySetting *size, GError **error)
{
  PsSchedule *schedule = ps_family_generate (family, size, error);
  g_autofree gint64 *limit = g_memdup2 (size->memory_limit, size->n_devices * sizeof *limit);
  PsFamilySetting tight = *size;
  gboolean counts = schedule != NULL && limit != NULL && size->costs != NULL;

  tight.memory_limit = limit;
  for (guint i = 0; counts && i < MAX_TIGHTER && tighten (schedule, size, 1 << i, limit); i++)
    {
      PsSchedule *tighter = ps_family_generate (family, &tight, NULL);

      if (tighter == NULL)
        break;
      ps_schedule_free (schedule);
      schedule = tighter;
    }
  return schedule;
}

static PsSchedule *
generate (const PsSetting *setting, const PsFamily *family, const PsCosts *costs, GError **error)
{
  g_autofree gint64 *limit = NULL;
  PsFamilySetting size = {
    .n_devices = setting->n_devices,
    .n_microbatches = setting->n_microbatches,
    .n_chunks = setting->n_chunks != 0 ? setting->n_chunks : family->default_chunks,
    .n_slices = setting->n_slices,
    .group_size = setting->group_size,
    .defer_head = setting->defer_head,
    .costs = costs,
    .by_makespan = setting->sync == PS_SYNC_GLOBAL,
  };

  if (size.n_devices == 0 || size.n_microbatches == 0)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "%s: missing; schedule '%s' is generated for -p devices and -m microbatches",
                           size.n_devices == 0 ? "-p/--devices" : "-m/--microbatches", family->name);
  if ((costs != NULL && !ps_costs_check (costs, size.n_microbatches, error))
      || (family->uses_costs && !ps_setting_memory_limit (setting, size.n_devices, &limit, NULL, error)))
    return NULL;
  size.memory_limit = limit;
  return generate_within (family, &size, error);
}

static gboolean
check_agrees (const char *path, const char *option, guint given, guint found, GError **error)
{
  if (given == 0 || given == found)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s %u: the schedule of %s has %u", option, given, path, found);
}

static PsSchedule *
read_file (const PsSetting *setting, const char *path, GError **error)
{
  g_autoptr (PsSchedule) schedule = ps_format_read (path, error);
  const PsPlacement *placement;

  if (schedule == NULL)
    return NULL;
  if (setting->reorder)
    g_clear_pointer (&schedule->posts, g_array_unref);
  placement = schedule->placement;
  if (!check_agrees (path, "-p", setting->n_devices, placement->n_devices, error)
      || !check_agrees (path, "-m", setting->n_microbatches, schedule->n_microbatches, error)
      || !check_agrees (path, "-v", setting->n_chunks, ps_placement_max_chunks (placement), error))
    return NULL;
  if (ps_schedule_validate (schedule, error))
    return g_steal_pointer (&schedule);
  g_prefix_error (error, "%s: ", path);
  return NULL;
}

static gboolean
is_file (const char *text)
{
  return strpbrk (text, "/.") != NULL || g_file_test (text, G_FILE_TEST_EXISTS);
}

static void
refuse_name (const char *name, GError **error)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);
  g_autofree const char **names = g_new (const char *, n);
  g_autofree char *problem = g_strdup_printf ("schedule '%s': no such family or file; families are:", name);

  for (guint i = 0; i < n; i++)
    names[i] = families[i]->name;
  ps_refuse_name (error, problem, name, names, n);
}

static gboolean
has_wanted_placement (const PsSetting *setting, const PsSchedule *schedule, GError **error)
{
  if (!setting->has_placement || schedule->placement->kind == setting->placement)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--placement %s: schedule '%s' has placement %s",
                    ps_placement_name (setting->placement), schedule->name,
                    ps_placement_name (schedule->placement->kind));
}

PsSchedule *
ps_schedule_find (const PsSetting *setting, const char *name_or_file, const PsCosts *costs, GError **error)
{
  const PsFamily *family = ps_family_find (name_or_file);
  g_autoptr (PsSchedule) schedule = NULL;

  if (family != NULL)
    schedule = generate (setting, family, costs, error);
  else if (is_file (name_or_file))
    schedule = read_file (setting, name_or_file, error);
  else
    refuse_name (name_or_file, error);
  return schedule != NULL && has_wanted_placement (setting, schedule, error) ? g_steal_pointer (&schedule) : NULL;
}
