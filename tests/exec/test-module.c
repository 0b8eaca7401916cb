/* Tests of exec/module.h: which modules are loaded, and what is said of those that are not. */
#include "error-rig.h"
#include "module.h"

static void
test_missing (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (ps_module_function ("x device", "no-such", "ps_x_class", &error));
  assert_error (&error, PS_ERROR_UNAVAILABLE, "x device: there is no pipesim-no-such.so in *");
}

/* Every time that it is asked for. */
static void
test_foreign (void)
{
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (ps_module_function ("x device", "foreign", "ps_foreign_class", &error));
      g_assert_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE);
      g_assert_true (g_str_has_prefix (error->message, "x device: "));
      g_assert_true (
          g_str_has_suffix (error->message, "pipesim-foreign.so was built with another pipesim; build both together"));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/module/missing", test_missing);
  g_test_add_func ("/module/foreign", test_foreign);
  return g_test_run ();
}
