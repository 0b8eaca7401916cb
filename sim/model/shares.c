/* shares.c - the proportion in which devices split accelerators. */
#include <pipesim/cluster.h>

static guint
common_divisor (const guint *shares, guint n)
{
  gint64 divisor = 0;

  for (guint i = 0; i < n; i++)
    divisor = ps_common_divisor (divisor, shares[i]);
  return (guint)MAX (divisor, 1);
}

guint *
ps_shares_parse (const char *where, const char *text, guint *n, GError **error)
{
  g_auto (GStrv) items = g_strsplit (text, ",", -1);

  *n = g_strv_length (items);
  g_autofree guint *shares = g_new (guint, MAX (*n, 1));
  for (guint i = 0; i < *n; i++)
    {
      gint64 share;

      if (!ps_parse_integer (where, items[i], 1, PS_MAX_SHARE, &share, error))
        return NULL;
      shares[i] = (guint)share;
    }
  guint divisor = common_divisor (shares, *n);
  for (guint i = 0; i < *n; i++)
    shares[i] /= divisor;
  return g_steal_pointer (&shares);
}

static gboolean
are_equal (const guint *shares, guint n)
{
  for (guint i = 1; i < n; i++)
    if (shares[i] != shares[0])
      return FALSE;
  return TRUE;
}

char *
ps_shares_to_text (const guint *shares, guint n)
{
  GString *text = g_string_new (NULL);

  if (shares == NULL || are_equal (shares, n))
    return g_string_free (text, FALSE);
  guint divisor = common_divisor (shares, n);
  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "%s%u", i ? "," : "", shares[i] / divisor);
  return g_string_free (text, FALSE);
}

const char *
ps_shares_describe (const char *text)
{
  return *text ? text : "equal";
}
