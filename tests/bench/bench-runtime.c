/* bench-runtime.c - what the executor itself takes between ops: runs on devices whose ops take no time. Started by
 * mpirun as several processes, it measures the mpi transport between them. */
#include "bench-clock.h"
#include "lower.h"

#include "run/crew.h"
#include "run/runtime.h"

#include "train/devices.h"

#include <locale.h>
#include <stdio.h>

#define N_STEPS 60

static PsProgram *program_of (const char *name, guint n_devices, guint n_microbatches)
{
  const PsFamily *family = ps_family_find (name);
  const PsFamilySetting setting
      = { .n_devices = n_devices, .n_microbatches = n_microbatches, .n_chunks = family->default_chunks };

  return lower (ps_family_generate (family, &setting, NULL));
}

/* The median time from the end of an op to the start of the next on the same device. */
static gint64 median_gap (const PsTimeline *timeline)
{
  g_autoptr (GArray) gaps = g_array_new (FALSE, FALSE, sizeof (gint64));

  for (guint i = 1; i < timeline->ops->len; i++) {
    const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);
    gint64 gap_ns = span->start_ns - span[-1].end_ns;

    if (span->device == span[-1].device)
      g_array_append_val (gaps, gap_ns);
  }
  return ps_median ((gint64 *)(gpointer)gaps->data, gaps->len);
}

/* The median time from a sender's handing over a message until its receiver has it. 0: there is none. */
static gint64 median_transfer (const PsTimeline *timeline)
{
  g_autofree gint64 *times_ns = g_new (gint64, timeline->transfers->len);

  for (guint i = 0; i < timeline->transfers->len; i++) {
    const PsSpan *span = &g_array_index (timeline->transfers, PsSpan, i);

    times_ns[i] = span->end_ns - span->start_ns;
  }
  return timeline->transfers->len > 0 ? ps_median (times_ns, timeline->transfers->len) : 0;
}

static void measure (const char *name, guint n_devices, guint n_microbatches, const char *transport,
                     PsProcesses *processes)
{
  g_autoptr (PsProgram) program = program_of (name, n_devices, n_microbatches);
  g_autoptr (GError) error = NULL;
  const PsRunSetting setting = { .device = &ps_null_device,
                                 .transport = ps_transport_find (transport, &error),
                                 .n_steps = N_STEPS,
                                 .processes = processes };
  gint64 begin_ns = clock_ns (CLOCK_PROCESS_CPUTIME_ID), used_ns;
  double n_ops = (double)ps_schedule_n_ops (program->schedule), n_here;

  g_assert_no_error (error);
  g_autoptr (PsRunResult) result = fine (ps_run (program, &setting, &error));
  used_ns = clock_ns (CLOCK_PROCESS_CPUTIME_ID) - begin_ns;
  n_here = n_ops * N_STEPS / ps_processes_n_ranks (processes);
  if (result->timeline == NULL)
    return;
  printf ("%-6s p %u m %3u  %-7s  %2u processes  %5.0f ns of a core per op  %6" G_GINT64_FORMAT
          " ns from op to op  %6" G_GINT64_FORMAT
          " ns per message  %6.0f ns of iteration per op and device  %.2f messages per op\n",
          name, n_devices, n_microbatches, transport, ps_processes_n_ranks (processes), (double)used_ns / n_here,
          median_gap (result->timeline), median_transfer (result->timeline),
          (double)result->median_iteration_ns * n_devices / n_ops, program->n_messages / n_ops);
}

static int report (const GError *error, gpointer data)
{
  g_printerr ("bench-runtime: %s\n", error->message);
  return 1;
}

int main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  PsProcesses *processes;

  setlocale (LC_CTYPE, "");
  if (!ps_processes_join (&processes, report, NULL, &error))
    return report (error, NULL);
  if (processes == NULL) {
    measure ("gpipe", 1, 512, "threads", NULL);
    measure ("gpipe", 2, 256, "threads", NULL);
    measure ("1f1b", 2, 256, "threads", NULL);
    measure ("zb-h1", 4, 128, "threads", NULL);
  } else {
    measure ("gpipe", ps_processes_n_ranks (processes), 256, "mpi", processes);
    measure ("1f1b", ps_processes_n_ranks (processes), 256, "mpi", processes);
  }
  ps_processes_part (processes, NULL);
  return 0;
}
