/* example.c - libpipesim in one page: generates schedules, simulates them and prints times and memory.
 *
 *   cc example.c $(pkg-config --cflags --libs --static pipesim) -o example
 */
#include <pipesim/families.h>
#include <pipesim/report.h>

#include <stdio.h>

static PsProgram *
make_program (const char *name, guint n_devices, guint n_microbatches, GError **error)
{
  const PsFamilySetting setting = { .n_devices = n_devices, .n_microbatches = n_microbatches, .n_chunks = 1 };
  g_autoptr (PsSchedule) schedule = ps_family_generate (ps_family_find (name), &setting, error);

  if (schedule == NULL || !ps_schedule_validate (schedule, error))
    return NULL;
  return ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, error);
}

static gboolean
simulate (const char *name, const PsCosts *costs, guint n_microbatches, GError **error)
{
  g_autoptr (PsProgram) program = make_program (name, costs->n_stages, n_microbatches, error);
  g_autoptr (PsSimulation) simulation = NULL;
  g_autofree char *makespan = NULL, *peak = NULL;

  if (program == NULL)
    return FALSE;
  simulation = ps_simulation_new (program);
  ps_simulate (program, costs, simulation);
  makespan = ps_format_time (simulation->makespan_ns);
  peak = ps_format_size (simulation->device[0].peak_bytes);
  printf ("%-6s %s, device 0 holds %s at its peak\n", name, makespan, peak);
  return TRUE;
}

int
main (void)
{
  static const char *const names[] = { "gpipe", "1f1b", "zb-h1" };
  g_autoptr (GError) error = NULL;
  /* Four devices: F, B and W take 1 ms each, a transfer 100 us, a microbatch keeps 2 MiB from F on. */
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,b=1ms,w=1ms,c=100us,act=2MiB", 4, 1, &error);

  for (gsize i = 0; costs != NULL && i < G_N_ELEMENTS (names); i++)
    if (!simulate (names[i], costs, 8, &error))
      break;
  if (error != NULL)
    fprintf (stderr, "example: %s\n", error->message);
  return error != NULL ? 1 : 0;
}
