#include <pipesim/placement.h>
