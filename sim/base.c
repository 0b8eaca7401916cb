#include <pipesim/base.h>
