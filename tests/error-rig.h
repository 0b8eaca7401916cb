/* error-rig.h - calls that must not fail, and errors that tests expect. */
#pragma once

#include <pipesim/base.h>

#include <string.h>

/* What a call returns that must not fail: it sets no error, and returns not 0. `&error` is an argument of it. */
#define fine(call)                                                                                                     \
  (__extension__({                                                                                                     \
    g_autoptr (GError) error = NULL;                                                                                   \
    __typeof__ (call) result_ = (call);                                                                                \
    g_assert_no_error (error);                                                                                         \
    g_assert_true (result_ != 0);                                                                                      \
    result_;                                                                                                           \
  }))

/* The error's code, and its message: one line that matches a pattern with * and ?. Clears the error. */
#define assert_error(error, error_code, pattern)                                                                       \
  G_STMT_START                                                                                                         \
  {                                                                                                                    \
    g_assert_error (*(error), PS_ERROR, (gint)(error_code));                                                           \
    g_assert_null (strchr ((*(error))->message, '\n'));                                                                \
    if (!g_pattern_match_simple (pattern, (*(error))->message))                                                        \
      g_assert_cmpstr ((*(error))->message, ==, pattern);                                                              \
    g_clear_error (error);                                                                                             \
  }                                                                                                                    \
  G_STMT_END

/* For a call that must fail: it returns 0, and its error is as in assert_error. `&error` is an argument of the call. */
#define refused(call, error_code, pattern)                                                                             \
  G_STMT_START                                                                                                         \
  {                                                                                                                    \
    g_autoptr (GError) error = NULL;                                                                                   \
    g_assert_true (!(call));                                                                                           \
    assert_error (&error, error_code, pattern);                                                                        \
  }                                                                                                                    \
  G_STMT_END
