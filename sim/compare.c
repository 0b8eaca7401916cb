#include <pipesim/compare.h>
