#include <pipesim/timeline.h>
