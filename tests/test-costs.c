/* Tests of costs.h. */
#include <pipesim/costs.h>

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  return g_test_run ();
}
