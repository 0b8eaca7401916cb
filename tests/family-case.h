/* family-case.h - a family's schedule with what the simulator says about it, at costs that are the same on every stage,
 * and the rows of peer_schedulers.csv for schedules on a V. */
#ifndef PIPESIM_TESTS_FAMILY_CASE_H
#define PIPESIM_TESTS_FAMILY_CASE_H

#include <pipesim/families.h>
#include <pipesim/simulate.h>

#include <string.h>

static inline PsSchedule *
generate (const char *name, guint p, guint m, guint v, GError **error)
{
  PsFamilySetting setting = { .n_devices = p, .n_microbatches = m, .n_chunks = v };
  return ps_family_generate (ps_family_find (name), &setting, error);
}

/* A schedule with what the simulator says about it. */
typedef struct
{
  PsProgram *program;
  PsCosts *costs;
  PsSimulation *simulation;
} Case;

static inline void
case_clear (Case *test)
{
  g_clear_pointer (&test->simulation, ps_simulation_free);
  g_clear_pointer (&test->program, ps_program_free);
  g_clear_pointer (&test->costs, ps_costs_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Case, case_clear)

/* Costs in nanoseconds and bytes, the same on every stage; wact of the act bytes are kept until W. */
typedef struct
{
  gint64 f, b, w, c, pair, act, wact;
} Units;

static inline PsCosts *
unit_costs (guint n_stages, Units units)
{
  const gint64 durations[]
      = { [PS_OP_F] = units.f, [PS_OP_B] = units.b, [PS_OP_W] = units.w, [PS_OP_BW] = units.b + units.w };
  PsCosts *costs = ps_costs_new (n_stages);
  for (guint stage = 0; stage < n_stages; stage++)
    {
      for (guint kind = 0; kind <= PS_OP_BW; kind++)
        ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns = durations[kind];
      costs->transfer_ns[ps_transfer_forward (costs, stage)] = units.c;
      costs->transfer_ns[ps_transfer_backward (costs, stage)] = units.c;
      costs->pair_ns[stage] = units.pair ? units.pair : -1;
      ps_costs_set_memory (costs, stage, units.act, units.wact);
    }
  return costs;
}

static inline void
simulate (Case *test, PsSchedule *schedule, PsCosts *costs)
{
  g_autoptr (GError) error = NULL;
  ps_schedule_validate (schedule, &error);
  g_assert_no_error (error);
  test->program = ps_program_lower (schedule, &error);
  g_assert_no_error (error);
  test->costs = costs;
  test->simulation = ps_simulation_new (test->program);
  ps_simulate (test->program, costs, test->simulation);
}

static inline void
simulate_family (Case *test, const char *name, guint p, guint m, guint v, Units units)
{
  g_autoptr (GError) error = NULL;
  PsSchedule *schedule = generate (name, p, m, v, &error);
  g_assert_no_error (error);
  simulate (test, schedule, unit_costs (schedule->placement->n_stages, units));
}

/* The ops of a pair one after the other, each handing its result on at its own end. */
static inline void
simulate_apart (Case *test, const char *name, guint p, guint m, guint v, Units units)
{
  g_autoptr (GError) error = NULL;
  PsSchedule *schedule = generate (name, p, m, v, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < ps_schedule_n_ops (schedule); i++)
    schedule->ops[i].paired = FALSE;
  simulate (test, schedule, unit_costs (schedule->placement->n_stages, units));
}

static inline char *
reference_path (const char *name)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "..", "..", "shared", "reference", name, NULL);
  if (g_file_test (path, G_FILE_TEST_EXISTS))
    return g_steal_pointer (&path);
  g_test_skip ("no reference files beside this checkout");
  return NULL;
}

/* peer_schedulers.csv: scheduler, placement, chunks, devices, microbatches, f, b, w, c, cost_is_per, mem_f, mem_b,
 * mem_w, mem_limit, makespan, max_span, peak_mem. */
typedef struct
{
  char *scheduler;
  guint p, m;
  Units units;
  gint64 limit;
  gint64 makespan, span, peak;
} PeerRow;

static inline gboolean
read_peer_row (const char *line, PeerRow *row)
{
  g_auto (GStrv) cells = g_strsplit (line, ",", -1);
  if (g_strv_length (cells) != 17 || !g_ascii_isdigit (cells[3][0]))
    return FALSE;
  gint64 value[17];
  for (guint i = 0; i < 17; i++)
    value[i] = g_ascii_strtoll (cells[i], NULL, 10);
  *row = (PeerRow){
    .scheduler = g_strdup (cells[0]),
    .p = (guint)value[3],
    .m = (guint)value[4],
    .limit = value[13],
    .units = { .f = value[5], .b = value[6], .w = value[7], .c = value[8], .act = value[10], .wact = -value[12] },
    .makespan = value[14],
    .span = value[15],
    .peak = value[16]
  };
  return TRUE;
}

typedef void (*PeerCheck) (const PeerRow *row, const char *family);

static inline guint
each_peer_row (const char *scheduler, const char *family, PeerCheck check)
{
  g_autofree char *path = reference_path ("peer_schedulers.csv"), *text = NULL;
  guint n = 0;
  if (!path)
    return 0;
  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i]; i++)
    {
      PeerRow row;
      if (!g_str_has_prefix (lines[i], scheduler) || lines[i][strlen (scheduler)] != ','
          || !read_peer_row (lines[i], &row))
        continue;
      check (&row, family);
      g_free (row.scheduler);
      n++;
    }
  return n;
}

static inline gint64
peak_bytes (const Case *test)
{
  gint64 peak = 0;
  for (guint device = 0; device < test->simulation->n_devices; device++)
    peak = MAX (peak, test->simulation->device[device].peak_bytes);
  return peak;
}

#endif
