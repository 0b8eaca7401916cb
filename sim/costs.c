#include <pipesim/costs.h>
