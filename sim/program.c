#include <pipesim/program.h>
