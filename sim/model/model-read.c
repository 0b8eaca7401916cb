/* model-read.c - reads models: .ini descriptions, the config.json of transformers (config.c), and the arguments of Megatron-LM
 * (launch-keys.c). */
#include "launch-text.h"
#include "model-private.h"

PsModel *ps_model_parse_ini (const char *where, const char *text, gsize length, GError **error)
{
  guint n;
  const PsIniField *fields = ps_model_fields (&n);
  g_autoptr (PsIni) ini = ps_ini_parse (where, text, length, "model", fields, n, error);
  g_autoptr (PsModel) model = g_new0 (PsModel, 1);
  const char *key;

  if (ini == NULL)
    return NULL;
  model->name = ps_ini_name (ini);
  ps_ini_fields (ini, fields, n, model);
  if (!ps_ini_finish (ini, error))
    return NULL;
  ps_model_fill_defaults (model);
  g_autofree char *misfit = ps_model_find_misfit (model, &key);
  if (misfit != NULL)
    ps_ini_fail (ini, key, "%s", misfit);
  return ps_ini_finish (ini, error) ? g_steal_pointer (&model) : NULL;
}

PsModel *ps_model_parse (const char *where, const char *text, gsize length, GError **error)
{
  gsize first = 0;

  while (first < length && g_ascii_isspace (text[first]))
    first++;
  g_autofree char *copy = g_strndup (text, length);
  PsLaunchForm form = ps_launch_form (copy);
  if (form != PS_LAUNCH_NONE)
    return ps_model_parse_launch (where, copy, form, error);
  return first < length && text[first] == '{' ? ps_model_parse_config (where, text, length, error)
                                              : ps_model_parse_ini (where, text, length, error);
}

PsModel *ps_model_load (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  return ps_ini_read (path, "models", &text, &length, error) ? ps_model_parse (path, text, length, error) : NULL;
}
