/* shipped.c - finds the descriptions that the library holds. */
#include <pipesim/model.h>

#include "base/data-files.h"

#include <string.h>

static int
compare_names (const void *a, const void *b)
{
  return g_strcmp0 (*(const char *const *)a, *(const char *const *)b);
}

/* The name of a description in that folder; NULL: the file is none. */
static char *
name_in (const char *folder, const PsDataFile *file)
{
  gsize n = strlen (folder);

  return g_str_has_prefix (file->name, folder) && file->name[n] == '/'
             ? g_strndup (file->name + n + 1, strlen (file->name + n + 1) - strlen (".ini"))
             : NULL;
}

char **
ps_shipped_names (const char *folder)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();

  for (const PsDataFile *file = ps_data_files; file->name != NULL; file++)
    {
      char *name = name_in (folder, file);

      if (name != NULL)
        g_ptr_array_add (names, name);
    }
  g_assert (names->len > 0);
  g_ptr_array_sort (names, compare_names);
  g_ptr_array_add (names, NULL);
  return (char **)g_ptr_array_free (g_steal_pointer (&names), FALSE);
}

char *
ps_shipped_text (const char *folder, const char *name)
{
  g_autofree char *path = g_strdup_printf ("%s/%s.ini", folder, name);

  return g_strdup (ps_data_file_text (path));
}

char *
ps_shipped_about (const char *text)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  GString *about = g_string_new (NULL);

  for (guint i = 0; lines[i] != NULL && lines[i][0] == '#'; i++)
    g_string_append_printf (about, "%s%s", i > 0 ? " " : "", g_strstrip (lines[i] + 1));
  return g_string_free (about, FALSE);
}
