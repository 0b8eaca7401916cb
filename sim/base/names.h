/* names.h - the two functions that every named enumeration has: its names and back. Private to the project. */
#pragma once

#include <pipesim/base.h>

/* Defines prefix_name (Type) and prefix_parse (where, text, Type *, error) as their headers declare them. Names are
 * initialisers of an array over the values of Type, which count from 0. */
#define PS_DEFINE_NAMES(Type, prefix, ...)                                                                             \
  static const char *const prefix##_names[] = { __VA_ARGS__ };                                                         \
                                                                                                                       \
  const char *prefix##_name (Type value)                                                                               \
  {                                                                                                                    \
    g_return_val_if_fail ((guint)value < G_N_ELEMENTS (prefix##_names), NULL);                                         \
    return prefix##_names[value];                                                                                      \
  }                                                                                                                    \
                                                                                                                       \
  gboolean prefix##_parse (const char *where, const char *text, Type *value, GError **error)                           \
  {                                                                                                                    \
    return ps_parse_name (where, text, prefix##_names, G_N_ELEMENTS (prefix##_names), value, error);                   \
  }
