#include <pipesim/simulate.h>

int
main (void)
{
  return 0;
}
