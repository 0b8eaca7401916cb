/* Tests of all families together: 2,000 random settings are generated, validated, lowered, simulated, and carried
 * through every format that can hold them. */
#include "cases.h"
#include "lower.h"
#include "random-schedule.h"
#include <pipesim/bound.h>
#include <pipesim/schedule.h>
#include <pipesim/formats.h>

#include <string.h>

typedef struct {
  PsFamilySetting family;
  PsCosts *costs;
  gint64 *limit;
} Setting;

static void setting_clear (Setting *setting)
{
  ps_costs_free (setting->costs);
  g_free (setting->limit);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Setting, setting_clear)

static PsCosts *draw_costs (GRand *rand, guint n_stages)
{
  PsCosts *costs = ps_costs_new (n_stages);

  for (guint stage = 0; stage < n_stages; stage++) {
    gint64 act = 1 + random_below (rand, 1000);

    for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
      ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns = 1 + random_below (rand, 1000);
    ps_costs_op (costs, PS_OP_BW, stage)->duration_ns
        = ps_costs_op (costs, PS_OP_B, stage)->duration_ns + ps_costs_op (costs, PS_OP_W, stage)->duration_ns;
    ps_costs_set_memory (costs, stage, act, random_below (rand, (guint)act + 1));
    costs->stage[stage].weight_bytes = costs->stage[stage].version_bytes = random_below (rand, 1000);
  }
  for (guint i = 1; i <= 2 * n_stages; i++)
    costs->transfer_ns[i] = random_below (rand, 300);
  return costs;
}

static void draw_setting (GRand *rand, const PsFamily *family, Setting *setting)
{
  PsFamilySetting *size = &setting->family;

  size->n_devices = 1 + random_below (rand, 9);
  size->n_microbatches = 1 + random_below (rand, 30);
  size->n_chunks = random_below (rand, 4) ? family->default_chunks : 1 + random_below (rand, 4);
  if (family->default_slices && random_below (rand, 2))
    size->n_slices = 1 + random_below (rand, 6);
  if (family->groups && random_below (rand, 4) == 0)
    size->group_size = 1 + random_below (rand, 12);
  if (family->defers && random_below (rand, 4) == 0)
    size->defer_head = 1 + random_below (rand, 12);
  size->costs = setting->costs = draw_costs (rand, size->n_devices * size->n_chunks);
  if (random_below (rand, 2)) {
    setting->limit = g_new (gint64, size->n_devices);
    for (guint d = 0; d < size->n_devices; d++)
      setting->limit[d] = 2000 + random_below (rand, 20000);
    size->memory_limit = setting->limit;
  }
}

static gboolean same_order (const PsSchedule *a, const PsSchedule *b)
{
  return a->n_microbatches == b->n_microbatches && a->placement->n_devices == b->placement->n_devices
         && ps_schedule_n_ops (a) == ps_schedule_n_ops (b)
         && memcmp (a->first, b->first, (a->placement->n_devices + 1) * sizeof *a->first) == 0
         && memcmp (a->ops, b->ops, ps_schedule_n_ops (a) * sizeof *a->ops) == 0
         && memcmp (a->placement->device, b->placement->device, a->placement->n_stages * sizeof *a->placement->device)
                == 0;
}

/* What a format can write, it reads back to the same order. */
static guint check_formats (const PsSchedule *schedule)
{
  guint n, n_held = 0;
  const PsFormat *const *formats = ps_format_table (&n);

  for (guint i = 0; i < n; i++) {
    g_autoptr (GError) error = NULL;
    g_autofree char *text = formats[i]->write != NULL ? formats[i]->write (schedule, &error) : NULL;

    if (error != NULL)
      g_assert_error (error, PS_ERROR, PS_ERROR_SCHEDULE);
    if (text == NULL || formats[i]->read == NULL)
      continue;
    g_autoptr (PsSchedule) read = fine (formats[i]->read ("text", text, strlen (text), &error));
    g_assert_true (same_order (schedule, read));
    n_held++;
  }
  return n_held;
}

static void check_simulation (const PsProgram *program, const PsCosts *costs, const gint64 *limit)
{
  const PsSchedule *schedule = program->schedule;
  gint64 busy = 0, work = 0, held = 0, weights = 0;
  g_autoptr (PsSimulation) simulation = simulated (program, costs);

  for (guint d = 0; d < simulation->n_devices; d++) {
    busy += simulation->device[d].busy_ns;
    held += simulation->device[d].held_bytes;
    if (limit != NULL)
      g_assert_cmpint (simulation->device[d].peak_bytes, <=, limit[d]);
  }
  for (guint i = 0; i < program->n_steps; i++)
    work += costs->op[program->steps[i].cost].duration_ns;
  for (gsize i = 0; i < (gsize)schedule->placement->n_copies * schedule->placement->n_stages; i++) {
    guint device = schedule->placement->device[i];

    weights += ps_costs_held_bytes (costs, i % schedule->placement->n_stages,
                                    schedule->weight_versions != NULL ? schedule->weight_versions[device] : 1);
  }
  /* Pairs cost what their parts cost here; slices share a microbatch out with rounding, so that memory need not come
   * back exactly. */
  g_assert_cmpint (busy, ==, work);
  if (schedule->n_slices == 1)
    g_assert_cmpint (held, ==, weights);
  g_assert_cmpint (ps_schedule_bound (schedule, costs, FALSE), <=, simulation->makespan_ns);
}

static gboolean check_setting (const PsFamily *family, const Setting *setting, guint *n_held)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSchedule) schedule = ps_family_generate (family, &setting->family, &error);

  if (schedule == NULL) {
    g_assert_true (g_str_has_prefix (error->message, family->name));
    g_assert_null (strchr (error->message, '\n'));
    g_assert_true (g_error_matches (error, PS_ERROR, PS_ERROR_USAGE) || (family->uses_costs && setting->limit));
    return FALSE;
  }
  fine (ps_schedule_validate (schedule, &error));
  *n_held += check_formats (schedule);
  g_autoptr (PsCosts) costs = ps_costs_slice (setting->costs, schedule->n_slices);
  g_autoptr (PsProgram) program = fine (ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, &error));
  assert_runs_on_all_channels (program);
  check_simulation (program, costs, family->uses_costs ? setting->limit : NULL);
  return TRUE;
}

static void test_random_settings (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (21);
  guint n, n_held = 0, n_settings = n_cases (2000);
  const PsFamily *const *families = ps_family_table (&n);
  g_autofree guint *n_generated = g_new0 (guint, n);

  for (guint i = 0; i < n_settings; i++) {
    g_auto (Setting) setting = { 0 };

    draw_setting (rand, families[i % n], &setting);
    n_generated[i % n] += check_setting (families[i % n], &setting, &n_held);
  }
  for (guint i = 0; i < n; i++) {
    g_test_message ("%s: %u of about %u settings allowed", families[i]->name, n_generated[i], n_settings / n);
    g_assert_cmpuint (n_generated[i], >, 0);
  }
  g_test_message ("%u round trips through formats", n_held);
  g_assert_cmpuint (n_held, >=, n_settings / 2);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/catalogue/random-settings", test_random_settings);
  return g_test_run ();
}
