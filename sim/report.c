#include <pipesim/report.h>
