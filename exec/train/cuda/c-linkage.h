/* c-linkage.h - PS_BEGIN_C and PS_END_C enclose declarations that C and C++ sources both use, as G_BEGIN_DECLS does
 * with GLib. */
#pragma once

#ifdef __cplusplus
#define PS_BEGIN_C extern "C" {
#define PS_END_C }
#else
#define PS_BEGIN_C
#define PS_END_C
#endif
