/* families.c - the table of schedule families. */
#include "families-private.h"

#define ROW(name) &ps_family_##name,
static const PsFamily *const table[] = { FAMILIES };

const PsFamily *const *ps_family_table (guint *n)
{
  *n = G_N_ELEMENTS (table);
  return table;
}

char **ps_family_names (char *const *asked)
{
  char **names;

  if (asked != NULL && (asked[1] != NULL || !g_str_equal (asked[0], "all")))
    return g_strdupv ((char **)asked);
  names = g_new0 (char *, G_N_ELEMENTS (table) + 1);
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    names[i] = g_strdup (table[i]->name);
  return names;
}

const PsFamily *ps_family_find (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (g_str_equal (table[i]->name, name))
      return table[i];
  return NULL;
}
