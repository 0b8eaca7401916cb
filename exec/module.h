/* module.h - classes that live in modules of their own, so that a program starts where their libraries are absent. */
#pragma once

#include "run/crew.h"

#include <pipesim/transport.h>

#include <gmodule.h>

/* An environment variable: the only folder that modules come from. Unset: the folder of the running program, then
 * lib/pipesim beside that folder. */
#define PS_MODULE_DIR_VARIABLE "PIPESIM_MODULE_DIR"

/* Sums up the structs that program and module share. Every module defines ps_module_stamp as this; a module that was
 * built with other structs is refused. */
#define PS_MODULE_STAMP                                                                                                \
  ((guint64)sizeof (PsDeviceClass) << 48 ^ (guint64)sizeof (PsDeviceSetting) << 32                                     \
   ^ (guint64)sizeof (PsTransportClass) << 16 ^ (guint64)sizeof (PsTransportSetting)                                   \
   ^ (guint64)sizeof (PsProcesses) << 8)
extern G_MODULE_EXPORT const guint64 ps_module_stamp;

typedef void (*PsModuleFunction) (void); /* to be cast to its real type */

/* Loads pipesim-NAME.so unless it is loaded, and looks up a function in it; it stays loaded to the end of the program.
 * `where` begins every message: "cuda device". Fails with PS_ERROR_UNAVAILABLE and one line that says which
 * file was not there, which library it misses, or that it is of another build. From any thread. */
PsModuleFunction ps_module_function (const char *where, const char *name, const char *function, GError **error);

/* The class in pipesim-NAME.so that its function ps_NAME_KIND_class returns; kind: "device" or "transport". NULL with
 * an error when it can't be loaded. */
gconstpointer ps_module_class (const char *name, const char *kind, GError **error);
