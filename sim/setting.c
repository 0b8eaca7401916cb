#include <pipesim/setting.h>
