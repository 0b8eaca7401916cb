/* example.c - libpipesim in one page: first a prediction as `pipesim predict` makes it, then the steps that it is made
 * of.
 *
 *   cc example.c $(pkg-config --cflags --libs --static pipesim) -o example
 */
#include <pipesim/pipesim.h>

#include <stdio.h>

static void print (const char *name, gint64 time_ns, gint64 peak_bytes)
{
  g_autofree char *time = ps_format_time (time_ns), *peak = ps_format_size (peak_bytes);

  printf ("%-6s %s, device 0 holds %s at its peak\n", name, time, peak);
}

/* A setting holds what the options of the command line say. The predictor reads costs once for all schedules. */
static gboolean predict (GError **error)
{
  static const char *const names[] = { "gpipe", "1f1b", "zb-h1" };
  g_autoptr (PsSetting) setting = ps_setting_new ();
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);

  setting->n_devices = 4;
  setting->n_microbatches = 8;
  /* F, B and W take 1 ms each, a transfer 100 us, a microbatch keeps 2 MiB from F on. */
  setting->costs = g_strdup ("f=1ms,b=1ms,w=1ms,c=100us,act=2MiB");
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autoptr (PsPrediction) prediction = ps_predictor_predict (predictor, names[i], error);

    if (prediction == NULL)
      return FALSE;
    print (names[i], prediction->metrics.iteration_ns, prediction->simulation->device[0].peak_bytes);
  }
  return TRUE;
}

/* The same step by step, for programs with costs or schedules of their own. */
static gboolean simulate (GError **error)
{
  const PsFamilySetting setting = { .n_devices = 4, .n_microbatches = 8, .n_chunks = 1 };
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,b=1ms,w=1ms,c=100us,act=2MiB", 4, 1, error);
  g_autoptr (PsSchedule) schedule = ps_family_generate (ps_family_find ("1f1b"), &setting, error);

  if (costs == NULL || schedule == NULL || !ps_schedule_validate (schedule, error))
    return FALSE;
  g_autoptr (PsProgram) program = ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, error);
  if (program == NULL)
    return FALSE;
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  ps_simulate (program, costs, simulation);
  print ("1f1b", simulation->makespan_ns, simulation->device[0].peak_bytes);
  return TRUE;
}

int main (void)
{
  g_autoptr (GError) error = NULL;

  if (predict (&error) && simulate (&error))
    return 0;
  fprintf (stderr, "example: %s\n", error->message);
  return 1;
}
