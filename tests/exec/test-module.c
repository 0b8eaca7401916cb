/* Tests of exec/module.h: which modules are loaded, and what is said of those that are not. */
#include "error-rig.h"
#include "module.h"

static void test_missing (void)
{
  refused (ps_module_function ("x device", "no-such", "ps_x_class", &error), PS_ERROR_UNAVAILABLE,
           "x device: there is no pipesim-no-such.so in *");
}

/* Every time that it is asked for. */
static void test_foreign (void)
{
  for (guint i = 0; i < 2; i++) {
    refused (ps_module_function ("x device", "foreign", "ps_foreign_class", &error), PS_ERROR_UNAVAILABLE,
             "x device: *pipesim-foreign.so was built with another pipesim; build both together");
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/module/missing", test_missing);
  g_test_add_func ("/module/foreign", test_foreign);
  return g_test_run ();
}
