/* Tests of cluster.h. */
#include <pipesim/cluster.h>

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  return g_test_run ();
}
