#include <pipesim/base.h>

int
main (void)
{
  return 0;
}
