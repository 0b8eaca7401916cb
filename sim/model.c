#include <pipesim/model.h>
