#include <pipesim/families.h>
