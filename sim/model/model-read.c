/* model-read.c - reads models: .ini descriptions, the config.json of transformers (config.c), and the arguments of
 * Megatron-LM (launch-facts.c). */
#include "launch-text.h"
#include "model-private.h"

#include <string.h>

/* The arguments say a pattern of all layers. */
static PsModel *parse_launch (const char *where, const char *text, PsLaunchForm form, GError **error)
{
  g_autofree char *ini = ps_launch_model_text (where, text, form, error);
  g_autoptr (PsModel) model = ini != NULL ? ps_model_parse_ini (where, ini, strlen (ini), error) : NULL;

  if (model != NULL && model->pattern != NULL && ps_model_layer_units (model, 0, (PsUnitKind[2]){ 0 }) == 2
      && strchr (model->pattern, '/') == NULL)
    ps_model_simplify_pattern (model);
  return g_steal_pointer (&model);
}

PsModel *ps_model_parse (const char *where, const char *text, gsize length, GError **error)
{
  gsize first = 0;

  while (first < length && g_ascii_isspace (text[first]))
    first++;
  g_autofree char *copy = g_strndup (text, length);
  PsLaunchForm form
      = strlen (copy) == length ? ps_launch_form (copy) : PS_LAUNCH_NONE; /* NUL bytes are refused below */
  if (form != PS_LAUNCH_NONE)
    return parse_launch (where, copy, form, error);
  return first < length && text[first] == '{' ? ps_model_parse_config (where, text, length, error)
                                              : ps_model_parse_ini (where, text, length, error);
}

PsModel *ps_model_load (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;
  gboolean done = strchr (path, ' ') != NULL ? ps_launch_open (path, &text, &length, error)
                                             : ps_ini_read (path, "models", &text, &length, error);

  return done ? ps_model_parse (path, text, length, error) : NULL;
}
