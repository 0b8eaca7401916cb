#include <pipesim/simulate.h>
