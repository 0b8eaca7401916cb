/* Tests of placement.h. */
#include <pipesim/placement.h>

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
  g_test_add_func ("/placement/names", test_names);
  return g_test_run ();
}
