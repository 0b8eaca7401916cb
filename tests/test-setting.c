/* Tests of setting.h. */
#include <pipesim/setting.h>

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  return g_test_run ();
}
