/* condition.c - the reasons that slow hardware down, in words. */
#include <pipesim/cluster.h>

static const struct
{
  PsThrottle bit;
  const char *name;

} reasons[] = { { PS_THROTTLE_POWER, "power" },
                { PS_THROTTLE_HEAT, "heat" },
                { PS_THROTTLE_HARDWARE, "hardware" },
                { PS_THROTTLE_SETTING, "setting" } };

char *
ps_throttle_to_text (guint throttle)
{
  if (!(throttle & PS_THROTTLE_KNOWN))
    return NULL;
  GString *text = g_string_new (NULL);
  for (guint i = 0; i < G_N_ELEMENTS (reasons); i++)
    if (throttle & reasons[i].bit)
      g_string_append_printf (text, "%s%s", text->len > 0 ? " " : "", reasons[i].name);
  return g_string_free (text, FALSE);
}

static guint
find_reason (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (reasons); i++)
    if (g_str_equal (name, reasons[i].name))
      return reasons[i].bit;
  return 0;
}

gboolean
ps_throttle_parse (const char *text, guint *throttle)
{
  *throttle = text != NULL ? PS_THROTTLE_KNOWN : 0;
  if (text == NULL || *text == '\0')
    return TRUE;
  g_auto (GStrv) names = g_strsplit (text, " ", -1);
  for (guint i = 0; names[i] != NULL; i++)
    {
      guint bit = find_reason (names[i]);

      if (bit == 0 || *throttle & bit)
        return FALSE;
      *throttle |= bit;
    }
  return TRUE;
}

gboolean
ps_condition_throttled (const PsCondition *before, const PsCondition *after, gboolean *known)
{
  guint either = before->throttle | after->throttle;

  *known = (before->throttle & after->throttle & PS_THROTTLE_KNOWN) != 0;
  return (either & ~(guint)PS_THROTTLE_KNOWN) != 0;
}
