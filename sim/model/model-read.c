/* model-read.c - reads models: .ini descriptions, the config.json of transformers (config.c), and the arguments of Megatron-LM
 * (launch-keys.c). */
#include "launch-text.h"
#include "model-private.h"

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
