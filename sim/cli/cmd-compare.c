#include <pipesim/transport.h>
