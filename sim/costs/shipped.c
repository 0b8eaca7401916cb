/* shipped.c - finds the descriptions that the library holds. */
#include <pipesim/shipped.h>

#include "pipesim-data.h"

#include <stdlib.h>
#include <string.h>

static int
compare_names (const void *a, const void *b)
{
  return g_strcmp0 (*(const char *const *)a, *(const char *const *)b);
}

char **
ps_shipped_names (const char *folder)
{
  g_autofree char *path = g_strdup_printf ("/pipesim/data/%s", folder);
  char **names = g_resource_enumerate_children (ps_data_get_resource (), path, G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);

  g_assert (names != NULL);
  qsort (names, g_strv_length (names), sizeof *names, compare_names);
  for (guint i = 0; names[i] != NULL; i++)
    names[i][strlen (names[i]) - strlen (".ini")] = '\0';
  return names;
}

/* The static library drops the constructor that would register the resource, so it is asked for by name. */
char *
ps_shipped_text (const char *folder, const char *name)
{
  g_autofree char *path = g_strdup_printf ("/pipesim/data/%s/%s.ini", folder, name);
  g_autoptr (GBytes) bytes = g_resource_lookup_data (ps_data_get_resource (), path, G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);

  return bytes != NULL ? g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes)) : NULL;
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
