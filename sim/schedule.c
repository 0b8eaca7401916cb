#include <pipesim/schedule.h>
