/* slowness.c - slow devices and links, read from the user's text. */
#include <pipesim/answer.h>

static gboolean
parse_device (const char *where, const char *part, guint *device, GError **error)
{
  gint64 value;

  if (!ps_parse_integer (where, part, 0, PS_MAX_DEVICES - 1, &value, error))
    return FALSE;
  *device = (guint)value;
  return TRUE;
}

static gboolean
parse_place (const char *where, const char *text, const char *place, PsSlowness *slowness, GError **error)
{
  g_auto (GStrv) ends = g_strsplit (place, "-", -1);

  if (!slowness->link)
    return parse_device (where, place, &slowness->a, error);
  if (g_strv_length (ends) == 2)
    return parse_device (where, ends[0], &slowness->a, error) && parse_device (where, ends[1], &slowness->b, error);
  return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s': '%s' is no link; two devices, as in 0-1, would be right", where,
                    text, place);
}

gboolean
ps_slowness_parse (const char *where, const char *text, gboolean link, PsSlowness *slowness, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (text, ":", -1);
  guint n = g_strv_length (parts);
  g_autofree char *factor = g_strdup_printf ("%s: '%s': factor", where, text);
  g_autofree char *probability = g_strdup_printf ("%s: '%s': probability", where, text);

  *slowness = (PsSlowness){ .link = link, .probability = 1 };
  if (n != 2 && n != 3)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' is not %s:FACTOR[:PROBABILITY]", where, text,
                      link ? "A-B" : "DEVICE");
  return parse_place (where, text, parts[0], slowness, error)
         && ps_parse_number (factor, parts[1], 0.001, PS_MAX_SLOWNESS, &slowness->factor, error)
         && (n == 2 || ps_parse_number (probability, parts[2], 0, 1, &slowness->probability, error));
}

static gboolean
check_device (const PsSlowness *slowness, guint device, guint n_devices, GError **error)
{
  if (device < n_devices)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: there is no device %u; they are 0 to %u",
                    slowness->link ? "--slow-link" : "--straggler", device, n_devices - 1);
}

gboolean
ps_uncertainty_check (const PsUncertainty *uncertainty, guint n_devices, GError **error)
{
  for (guint i = 0; i < uncertainty->n_slowness; i++)
    {
      const PsSlowness *slowness = &uncertainty->slowness[i];

      if (!check_device (slowness, slowness->a, n_devices, error)
          || (slowness->link && !check_device (slowness, slowness->b, n_devices, error)))
        return FALSE;
      if (slowness->link && slowness->a == slowness->b)
        return ps_refuse (error, PS_ERROR_USAGE, "--slow-link: %u-%u is no link; two devices would be right",
                          slowness->a, slowness->b);
    }
  return TRUE;
}
