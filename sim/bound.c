#include <pipesim/bound.h>
