/* places.c - compares places of devices, level by level. */
#include <pipesim/costdb.h>

#include <math.h>
#include <string.h>

/* The number of direct links that a place has to another, by what stands after its "+"; 0: none. */
static guint
direct_links (const char *place, const char *bus_id)
{
  const char *links = strchr (place, '+');
  g_auto (GStrv) items = g_strsplit (links != NULL ? links + 1 : "", ",", -1);

  for (char **item = items; *item != NULL; item++)
    {
      const char *times = strrchr (*item, '*');

      if (times != NULL && strlen (bus_id) == (gsize)(times - *item) && g_str_has_prefix (*item, bus_id))
        return (guint)g_ascii_strtoull (times + 1, NULL, 10);
    }
  return 0;
}

/* The bus id in the last level of an accelerator's place, without its links. Free with g_free. */
static char *
bus_id_of (const char *place)
{
  const char *id = strstr (place, "GPU:");

  return id != NULL ? g_strndup (id + strlen ("GPU:"), strcspn (id, "+") - strlen ("GPU:")) : g_strdup ("");
}

static guint
count_direct (const char *a, const char *b)
{
  g_autofree char *id_a = bus_id_of (a), *id_b = bus_id_of (b);

  if (*id_a == '\0' || g_str_equal (id_a, id_b))
    return 0;
  return MAX (direct_links (a, id_b), MIN (direct_links (a, "switch"), direct_links (b, "switch")));
}

/* How many levels both ways share, from the host on. */
static guint
count_common (char *const *a, char *const *b)
{
  guint n = 0;

  while (a[n] != NULL && b[n] != NULL && g_str_equal (a[n], b[n]))
    n++;
  return n;
}

char *
ps_link_class (const char *a, const char *b)
{
  g_autofree char *way_a = g_strndup (a, strcspn (a, "+")), *way_b = g_strndup (b, strcspn (b, "+"));
  g_auto (GStrv) levels_a = g_strsplit (way_a, "/", -1), levels_b = g_strsplit (way_b, "/", -1);
  guint n_common = count_common (levels_a, levels_b), n_direct = count_direct (a, b);

  if (n_common == 0)
    return g_strdup ("network");
  if (n_direct > 0)
    return g_strdup_printf ("nvlink*%u", n_direct);
  if (n_common == 1)
    return g_strdup ("machine");
  return g_ascii_strdown (levels_a[n_common - 1], (gssize)strcspn (levels_a[n_common - 1], ":"));
}

char *
ps_places_link_class (const char *places, guint a, guint b)
{
  g_auto (GStrv) all = g_strsplit (places, ";", -1);

  return MAX (a, b) < g_strv_length (all) ? ps_link_class (all[a], all[b]) : NULL;
}

char *
ps_link_key (guint a, guint b)
{
  return g_strdup_printf ("link=%u-%u", MIN (a, b), MAX (a, b));
}

char *
ps_link_class_key (const char *link_class)
{
  return g_strconcat ("link=", link_class, NULL);
}

static gboolean
is_outside (const PsStatistics *time, gint64 ns)
{
  return ns < time->q1_ns || ns > time->q3_ns;
}

gboolean
ps_links_differ (const PsMeasurement *a, const PsMeasurement *b)
{
  return is_outside (&a->time, b->time.median_ns) && is_outside (&b->time, a->time.median_ns)
         && fabs ((double)(a->time.median_ns - b->time.median_ns))
                > PS_SENTINEL_TOLERANCE * (double)MIN (a->time.median_ns, b->time.median_ns);
}
