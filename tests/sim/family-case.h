/* family-case.h - a family's schedule, with what the simulator says about it at costs that are the same on every stage,
 * and the rows of peer_schedulers.csv. */
#pragma once

#include "reference.h"

#include <string.h>

static inline PsSchedule *generate (const char *name, guint p, guint m, guint v, GError **error)
{
  PsFamilySetting setting = { .n_devices = p, .n_microbatches = m, .n_chunks = v };

  return ps_family_generate (ps_family_find (name), &setting, error);
}

/* The order of a device, written out; two ops of a pair are joined by '+'. */
static inline void assert_order (const char *name, guint p, guint m, guint v, guint device, const char *expected)
{
  g_autoptr (PsSchedule) schedule = fine (generate (name, p, m, v, &error));

  g_autoptr (GString) text = g_string_new (NULL);
  char buffer[48];
  gboolean joined = TRUE;

  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++) {
    g_string_append_printf (text, "%s%s", joined ? "" : " ", ps_op_format (schedule->ops[i], buffer));
    joined = schedule->ops[i].paired;
    if (joined)
      g_string_append_c (text, '+');
  }
  g_assert_cmpstr (text->str, ==, expected);
}

/* A setting that the family refuses, and what it says. */
static inline void assert_refused (const char *name, guint p, guint m, guint v, const char *message)
{
  refused (generate (name, p, m, v, &error), PS_ERROR_USAGE, message);
}

/* A schedule with what the simulator says about it. */
typedef struct {
  PsProgram *program;
  PsCosts *costs;
  PsSimulation *simulation;
} Case;

static inline void case_clear (Case *test)
{
  g_clear_pointer (&test->simulation, ps_simulation_free);
  g_clear_pointer (&test->program, ps_program_free);
  g_clear_pointer (&test->costs, ps_costs_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Case, case_clear)

/* Costs in nanoseconds and bytes, the same on every stage; wact of the act bytes are kept until W. */
typedef struct {
  gint64 f, b, w, c, pair, act, wact;
} Units;

static inline PsCosts *unit_costs (guint n_stages, Units units)
{
  const gint64 durations[]
      = { [PS_OP_F] = units.f, [PS_OP_B] = units.b, [PS_OP_W] = units.w, [PS_OP_BW] = units.b + units.w };
  PsCosts *costs = ps_costs_new (n_stages);

  for (guint stage = 0; stage < n_stages; stage++) {
    for (guint kind = 0; kind <= PS_OP_BW; kind++)
      ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns = durations[kind];
    costs->transfer_ns[ps_transfer_forward (costs, stage)] = units.c;
    costs->transfer_ns[ps_transfer_backward (costs, stage)] = units.c;
    costs->stage[stage].pair_ns = units.pair ? units.pair : -1;
    ps_costs_set_memory (costs, stage, units.act, units.wact);
  }
  return costs;
}

static inline void simulate (Case *test, PsSchedule *schedule, PsCosts *costs)
{
  test->program = lower (schedule);
  test->costs = costs;
  test->simulation = ps_simulation_new (test->program);
  ps_simulate (test->program, costs, test->simulation);
}

static inline void simulate_family (Case *test, const char *name, guint p, guint m, guint v, Units units)
{
  PsSchedule *schedule = fine (generate (name, p, m, v, &error));

  simulate (test, schedule, unit_costs (schedule->placement->n_stages, units));
}

/* Under costs as --costs takes them. */
static inline void predict (Case *test, const char *name, guint p, guint m, guint v, const char *costs)
{
  PsSchedule *schedule = fine (generate (name, p, m, v, &error));
  PsCosts *parsed = fine (ps_costs_parse (costs, p, v, &error));

  simulate (test, schedule, parsed);
}

/* The ops of a pair one after the other, each handing its result on at its own end. */
static inline void simulate_apart (Case *test, const char *name, guint p, guint m, guint v, Units units)
{
  PsSchedule *schedule = fine (generate (name, p, m, v, &error));

  for (guint i = 0; i < ps_schedule_n_ops (schedule); i++)
    schedule->ops[i].paired = FALSE;
  simulate (test, schedule, unit_costs (schedule->placement->n_stages, units));
}

/* A row of peer_schedulers.csv. */
typedef struct {
  guint p, m;
  Units units;
  gint64 limit;
  gint64 makespan, span, peak;
} PeerRow;

typedef void (*PeerCheck) (const PeerRow *row, const char *family);

typedef struct {
  const char *scheduler;
  const char *family;
  PeerCheck check;
} PeerQuery;

static inline gboolean check_peer_row (const ReferenceRow *row, gpointer data)
{
  const PeerQuery *query = data;

  if (!g_str_equal (reference_text (row, "scheduler"), query->scheduler)
      || !g_ascii_isdigit (*reference_text (row, "devices")))
    return FALSE;
  query->check (&(PeerRow){ .p = reference_count (row, "devices"),
                            .m = reference_count (row, "microbatches"),
                            .units = { .f = reference_integer (row, "f"),
                                       .b = reference_integer (row, "b"),
                                       .w = reference_integer (row, "w"),
                                       .c = reference_integer (row, "c"),
                                       .act = reference_integer (row, "mem_f"),
                                       .wact = -reference_integer (row, "mem_w") },
                            .limit = reference_integer (row, "mem_limit"),
                            .makespan = reference_integer (row, "makespan"),
                            .span = reference_integer (row, "max_span"),
                            .peak = reference_integer (row, "peak_mem") },
                query->family);
  return TRUE;
}

/* Calls check for every row of that scheduler; how many there are, 0 where the file is not there. */
static inline guint each_peer_row (const char *scheduler, const char *family, PeerCheck check)
{
  PeerQuery query = { scheduler, family, check };

  return reference_rows ("peer_schedulers.csv", check_peer_row, &query);
}

static inline gint64 peak_bytes (const Case *test)
{
  gint64 peak = 0;

  for (guint device = 0; device < test->simulation->n_devices; device++)
    peak = MAX (peak, test->simulation->device[device].peak_bytes);
  return peak;
}
