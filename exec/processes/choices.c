/* choices.c - exchanges choices, which are of different lengths. */
#include "choices.h"

#include <string.h>

/* The last member's first, because a later adoption counts. */
static gboolean
adopt_all (PsDevice *device, const guint8 *all, const guint64 *sizes, guint n_members, gsize longest, GError **error)
{
  for (guint i = n_members; i-- > 0;)
    {
      g_autoptr (GBytes) choices = g_bytes_new (all + i * longest, sizes[i]);

      if (!device->class->adopt_choices (device, choices, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
ps_choices_agree (PsCrew *crew, guint member, guint n_members, PsDevice *device, GError **error)
{
  g_autofree guint64 *sizes = g_new (guint64, n_members);
  g_autofree guint8 *mine = NULL, *all = NULL;
  g_autoptr (GBytes) choices = NULL;
  gsize n_bytes, longest = 0;

  if (device->class->choices == NULL)
    return TRUE;
  choices = device->class->choices (device);
  gconstpointer bytes = g_bytes_get_data (choices, &n_bytes);
  guint64 own_size = n_bytes;
  if (!ps_crew_exchange (crew, member, &own_size, sizeof own_size, sizes, error))
    return FALSE;
  for (guint i = 0; i < n_members; i++)
    longest = MAX (longest, sizes[i]);
  mine = g_malloc0 (MAX (longest, 1));
  all = g_malloc (MAX (longest * n_members, 1));
  if (n_bytes > 0)
    memcpy (mine, bytes, n_bytes);
  return ps_crew_exchange (crew, member, mine, longest, all, error)
         && adopt_all (device, all, sizes, n_members, longest, error);
}
