/* foreign-module.c - a module of a pipesim whose structs were others. */
#include "module.h"

#include <gmodule.h>

const guint64 ps_module_stamp = PS_MODULE_STAMP + 1;

G_MODULE_EXPORT const void *ps_foreign_class (void);

const void *ps_foreign_class (void)
{
  return "foreign";
}
