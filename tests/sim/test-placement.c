/* Tests of schedule.h. */
#include <pipesim/schedule.h>

static void
assert_devices (const PsPlacement *placement, guint copy, const char *expected)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint stage = 0; stage < placement->n_stages; stage++)
    g_string_append_printf (text, "%s%u", stage ? " " : "", ps_placement_device (placement, copy, stage));
  g_assert_cmpstr (text->str, ==, expected);
}

static void
test_known (void)
{
  g_autoptr (PsPlacement) loop = ps_placement_new (PS_PLACEMENT_LOOP, 3, 2);
  g_autoptr (PsPlacement) v = ps_placement_new (PS_PLACEMENT_V, 3, 2);
  g_autoptr (PsPlacement) wave = ps_placement_new (PS_PLACEMENT_WAVE, 2, 4);
  g_autoptr (PsPlacement) both = ps_placement_new (PS_PLACEMENT_BIDIRECTIONAL, 3, 1);

  assert_devices (loop, 0, "0 1 2 0 1 2");
  assert_devices (v, 0, "0 1 2 2 1 0");
  assert_devices (wave, 0, "0 1 1 0 0 1 1 0");
  assert_devices (both, 0, "0 1 2");
  assert_devices (both, 1, "2 1 0");
  g_assert_cmpuint (v->chunk[5], ==, 1);
  g_assert_cmpuint (wave->chunk[4], ==, 2);
  g_assert_cmpuint (both->chunk[3 + 1], ==, 1);
  g_assert_cmpuint (ps_placement_max_chunks (wave), ==, 4);
  g_assert_cmpuint (ps_placement_max_chunks (both), ==, 1);
}

static void
test_recognised (void)
{
  static const guint16 v[] = { 0, 1, 1, 0 }, loop[] = { 0, 1, 0, 1 }, both[] = { 0, 1, 1, 0 }, other[] = { 0, 0, 1 };
  g_autoptr (PsPlacement) a = ps_placement_new_custom (2, 4, 1, v);
  g_autoptr (PsPlacement) b = ps_placement_new_custom (2, 4, 1, loop);
  g_autoptr (PsPlacement) c = ps_placement_new_custom (2, 2, 2, both);
  g_autoptr (PsPlacement) d = ps_placement_new_custom (2, 3, 1, other);
  g_autoptr (PsPlacement) e = ps_placement_copy (d);

  g_assert_cmpint (a->kind, ==, PS_PLACEMENT_V);
  g_assert_cmpint (b->kind, ==, PS_PLACEMENT_LOOP);
  g_assert_cmpint (c->kind, ==, PS_PLACEMENT_BIDIRECTIONAL);
  g_assert_cmpint (d->kind, ==, PS_PLACEMENT_CUSTOM);
  assert_devices (e, 0, "0 0 1");
}

/* Both copies count; the stage of another device does not. Three stages on device 0 of two are its most chunks. */
static void
test_holds (void)
{
  static const guint16 other[] = { 0, 1, 0, 0 };
  g_autoptr (PsPlacement) both = ps_placement_new (PS_PLACEMENT_BIDIRECTIONAL, 4, 1);
  g_autoptr (PsPlacement) loop = ps_placement_new (PS_PLACEMENT_LOOP, 4, 2);
  g_autoptr (PsPlacement) custom = ps_placement_new_custom (2, 4, 1, other);

  for (guint device = 0; device < 4; device++)
    {
      for (guint stage = 0; stage < 4; stage++)
        g_assert_cmpint (ps_placement_holds (both, device, stage), ==, device == stage || device + stage == 3);
      for (guint stage = 0; stage < 8; stage++)
        g_assert_cmpint (ps_placement_holds (loop, device, stage), ==, stage % 4 == device);
    }
  g_assert_cmpuint (ps_placement_max_chunks (custom), ==, 3);
  g_assert_cmpuint (custom->chunk[3], ==, 2);
  g_assert_cmpuint (custom->chunk[1], ==, 0);
}

/* Devices that hold different numbers of stages, or copies of another kind, make none of the known placements. */
static void
test_unknown (void)
{
  static const guint16 uneven[] = { 0, 1, 2, 0 }, half[] = { 0, 1, 0, 1 }, wave[] = { 0, 1, 1, 0, 0, 1 },
                       thrice[] = { 0, 1, 1, 0, 1, 0 }, alone[] = { 0, 0 };
  static const struct
  {
    guint n_devices, n_stages, n_copies;
    const guint16 *device;
    PsPlacementKind kind;
  } rows[] = { { 3, 4, 1, uneven, PS_PLACEMENT_CUSTOM },
               { 2, 2, 2, half, PS_PLACEMENT_CUSTOM },
               { 2, 6, 1, wave, PS_PLACEMENT_WAVE },
               { 2, 6, 1, thrice, PS_PLACEMENT_CUSTOM },
               { 1, 2, 1, alone, PS_PLACEMENT_LOOP } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (PsPlacement) placement
          = ps_placement_new_custom (rows[i].n_devices, rows[i].n_stages, rows[i].n_copies, rows[i].device);

      g_assert_cmpint (placement->kind, ==, rows[i].kind);
    }
}

static void
test_names (void)
{
  PsPlacementKind kind;

  g_assert_true (ps_placement_parse ("x", "V", &kind, NULL));
  g_assert_cmpint (kind, ==, PS_PLACEMENT_V);
  g_assert_false (ps_placement_parse ("x", "custom", &kind, NULL));
  g_assert_false (ps_placement_parse ("x", "v", &kind, NULL));
  g_assert_cmpstr (ps_placement_name (PS_PLACEMENT_BIDIRECTIONAL), ==, "bidirectional");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/placement/known", test_known);
  g_test_add_func ("/placement/recognised", test_recognised);
  g_test_add_func ("/placement/holds", test_holds);
  g_test_add_func ("/placement/unknown", test_unknown);
  g_test_add_func ("/placement/names", test_names);
  return g_test_run ();
}
