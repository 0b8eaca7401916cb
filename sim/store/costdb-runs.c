/* costdb-runs.c - reads real runs back. */
#include "costdb-private.h"

void
ps_run_record_free (PsRunRecord *run)
{
  if (run == NULL)
    return;
  g_free (run->profile);
  g_free (run->schedule);
  g_free (run->device);
  g_free (run->transport);
  g_free (run->check);
  g_free (run->started);
  g_free (run);
}

/* Columns as in the query of ps_costdb_runs. */
static gpointer
read_run (PsRows *rows, gpointer data, GError **error)
{
  PsRunRecord *run = g_new0 (PsRunRecord, 1);

  run->profile = ps_rows_text (rows, 0);
  run->schedule = ps_rows_text (rows, 1);
  run->device = ps_rows_text (rows, 2);
  run->transport = ps_rows_text (rows, 3);
  run->n_devices = (guint)ps_rows_integer (rows, 4);
  run->n_chunks = (guint)ps_rows_integer (rows, 5);
  run->n_microbatches = (guint)ps_rows_integer (rows, 6);
  run->n_steps = (guint)ps_rows_integer (rows, 7);
  run->predicted_iteration_ns = ps_rows_integer (rows, 8);
  run->measured_iteration_ns = ps_rows_integer (rows, 9);
  run->predicted_peak_bytes = ps_rows_integer (rows, 10);
  run->measured_peak_bytes = ps_rows_integer (rows, 11);
  run->clock_mhz = ps_rows_integer (rows, 12);
  run->check = ps_rows_text (rows, 13);
  run->started = ps_rows_text (rows, 14);
  return run;
}

GPtrArray *
ps_costdb_runs (PsCostDb *db, GError **error)
{
  g_autoptr (PsRows) rows
      = ps_rows_new (db->file, error,
                     "SELECT profile, schedule, device, transport, devices, chunks, microbatches, steps, "
                     "predicted_iteration_ns, measured_iteration_ns, predicted_peak_bytes, measured_peak_bytes, "
                     "clock_mhz, \"check\", started FROM run ORDER BY id",
                     "");

  return ps_rows_collect (rows, read_run, NULL, (GDestroyNotify)ps_run_record_free, error);
}
