#include <pipesim/costdb.h>
