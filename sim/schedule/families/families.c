/* families.c - the table of schedule families. */
#include "families-private.h"

#include <string.h>

#define ROW(name) &ps_family_##name,
static const PsFamily *const table[] = { FAMILIES };

const PsFamily *const *ps_family_table (guint *n)
{
  *n = G_N_ELEMENTS (table);
  return table;
}

char **ps_family_names (char *const *asked, guint n_chunks)
{
  char **names;

  if (asked != NULL && (asked[1] != NULL || !g_str_equal (asked[0], "all"))) {
    names = g_new0 (char *, g_strv_length ((char **)asked) + 1);
    for (guint i = 0; asked[i] != NULL; i++)
      names[i] = g_strdup (ps_family_own_name (asked[i], n_chunks));
    return names;
  }
  names = g_new0 (char *, G_N_ELEMENTS (table) + 1);
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    names[i] = g_strdup (table[i]->name);
  return names;
}

static gboolean is_class (const char *torch, const char *name)
{
  const char *class = g_str_has_prefix (name, "Schedule") ? name + strlen ("Schedule") : name;

  return torch != NULL && g_ascii_strcasecmp (torch, class) == 0;
}

static gboolean is_called (const PsFamily *family, const char *name)
{
  g_auto (GStrv) also = g_strsplit (family->also != NULL ? family->also : "", " ", -1);

  return g_ascii_strcasecmp (family->name, name) == 0 || is_class (family->torch, name)
         || g_strv_contains ((const char *const *)also, name);
}

const PsFamily *ps_family_find (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (g_str_equal (table[i]->name, name))
      return table[i];
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (is_called (table[i], name))
      return table[i];
  return NULL;
}

const char *ps_family_own_name (const char *name, guint n_chunks)
{
  const PsFamily *family = ps_family_find (name);

  for (guint i = 0; i < G_N_ELEMENTS (table) && n_chunks == 1; i++)
    if (is_class (table[i]->torch_one, name))
      return table[i]->name;
  return family != NULL ? family->name : name;
}
