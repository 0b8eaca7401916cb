#include <pipesim/cluster.h>
