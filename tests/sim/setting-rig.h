/* setting-rig.h - settings from command lines, and the errors of wrong ones. */
#pragma once

#include "error-rig.h"

#include <pipesim/setting.h>

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

/* Reads a command line as a subcommand would. */
static inline PsSetting *parse (const char *line, GError **error)
{
  g_autofree char *whole = g_strconcat ("test ", line, NULL);
  g_auto (GStrv) argv = NULL;
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  g_autoptr (PsSetting) setting = ps_setting_new ();
  int argc;

  g_assert_true (g_shell_parse_argv (whole, &argc, &argv, NULL));
  ps_options_add (ps_setting_options, setting, context);
  if (!g_option_context_parse_strv (context, &argv, error) || !ps_setting_check (setting, error))
    return NULL;
  return g_steal_pointer (&setting);
}

static inline PsSetting *parse_good (const char *line)
{
  return fine (parse (line, &error));
}

/* The error must be a usage error, one line, and hold both texts. */
static inline void assert_usage (const GError *error, const char *where, const char *value)
{
  g_assert_nonnull (error);
  g_assert_cmpint (ps_error_exit_code (error), ==, 2);
  g_assert_null (strchr (error->message, '\n'));
  if (strstr (error->message, where) == NULL || strstr (error->message, value) == NULL)
    g_error ("'%s' names not both '%s' and '%s'", error->message, where, value);
}

/* Writes text to a temporary file; free the name with g_free after removing it. */
static inline char *temporary (const char *text)
{
  char *path = NULL;
  int fd = fine (g_file_open_tmp ("test-setting-XXXXXX.json", &path, &error));

  close (fd);
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  return path;
}
