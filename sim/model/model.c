/* model.c - reads model descriptions, writes them, and cuts models into stages. */
#include <pipesim/model.h>

#include "ini.h"
#include "model-private.h"

static double
read_field (PsIni *ini, const PsModelField *field)
{
  if (field->presence != PS_FIELD_REQUIRED && !ps_ini_has (ini, field->key))
    return field->fallback;
  if (field->type == PS_FIELD_CHOICE)
    return ps_ini_choice (ini, field->key, field->choices);
  if (field->type == PS_FIELD_REAL)
    return ps_ini_real (ini, field->key, field->low, field->high);
  return (double)ps_ini_integer (ini, field->key, (gint64)field->low, (gint64)field->high);
}

static void
read_keys (PsIni *ini, PsModel *model)
{
  guint n;
  const PsModelField *fields = ps_model_fields (&n);

  model->name = ps_ini_has (ini, "name") ? ps_ini_text (ini, "name") : g_strdup (ps_ini_name (ini));
  for (guint i = 0; i < n; i++)
    ps_model_set_field (model, &fields[i], read_field (ini, &fields[i]));
}

static PsModel *
model_from_ini (PsIni *ini, GError **error)
{
  g_autoptr (PsModel) model = g_new0 (PsModel, 1);
  const char *key;

  read_keys (ini, model);
  if (!ps_ini_finish (ini, error))
    return NULL;
  ps_model_fill_defaults (model);
  g_autofree char *misfit = ps_model_find_misfit (model, &key);
  if (misfit != NULL)
    ps_ini_fail (ini, key, "%s", misfit);
  return ps_ini_finish (ini, error) ? g_steal_pointer (&model) : NULL;
}

/* Every key there is, ended by NULL. */
static const char **
known_keys (void)
{
  guint n;
  const PsModelField *fields = ps_model_fields (&n);
  const char **keys = g_new0 (const char *, n + 2);

  keys[0] = "name";
  for (guint i = 0; i < n; i++)
    keys[i + 1] = fields[i].key;
  return keys;
}

static gboolean
is_json (const char *text, gsize length)
{
  gsize i = 0;

  while (i < length && g_ascii_isspace (text[i]))
    i++;
  return i < length && text[i] == '{';
}

PsModel *
ps_model_parse (const char *where, const char *text, gsize length, GError **error)
{
  g_autofree const char **keys = known_keys ();

  if (is_json (text, length))
    return ps_model_parse_config (where, text, length, error);
  g_autoptr (PsIni) ini = ps_ini_parse (where, text, length, "model", keys, error);
  return ini != NULL ? model_from_ini (ini, error) : NULL;
}

PsModel *
ps_model_load (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  return ps_ini_read (path, "models", &text, &length, error) ? ps_model_parse (path, text, length, error) : NULL;
}

/* Everything but the name. */
static void
append_fields (GString *text, const PsModel *model)
{
  guint n;
  const PsModelField *fields = ps_model_fields (&n);

  for (guint i = 0; i < n; i++)
    {
      const PsModelField *field = &fields[i];
      char number[G_ASCII_DTOSTR_BUF_SIZE];
      double value = ps_model_field_value (model, field);

      /* A model made by code has 0 where it says nothing. */
      if (field->presence == PS_FIELD_LATER && (value == field->fallback || value < field->low))
        continue;
      g_string_append_printf (text, "%s = %s\n", field->key,
                              field->type == PS_FIELD_CHOICE ? field->choices[(guint)value]
                                                             : g_ascii_dtostr (number, sizeof number, value));
    }
}

char *
ps_model_digest (const PsModel *model)
{
  g_autoptr (GString) text = g_string_new (NULL);

  append_fields (text, model);
  return g_compute_checksum_for_string (G_CHECKSUM_SHA256, text->str, -1);
}

char *
ps_model_to_text (const PsModel *model)
{
  GString *text = g_string_new ("[model]\n");

  g_string_append_printf (text, "name = %s\n", model->name);
  append_fields (text, model);
  return g_string_free (text, FALSE);
}

/* Fewer layers than stages: units stand alone, but for the first two and the last ones as far as they have to. */
static void
split_units (const PsModel *model, guint n_stages, PsStageShape *shapes)
{
  guint n_units;
  g_autofree PsStageShape *units = ps_model_units (model, &n_units);
  g_autofree guint *end = g_new (guint, n_stages);
  guint joined = n_units > n_stages; /* to the first */

  for (guint s = 0; s < n_stages; s++)
    end[s] = s + 1 + joined;
  end[n_stages - 1] = n_units;
  ps_stage_shapes_join (units, end, n_stages, shapes);
}

gboolean
ps_model_split (const PsModel *model, guint n_stages, PsStageShape *shapes, GError **error)
{
  guint layer = 0, n_units = model->layers + model->mtp + 2;

  g_return_val_if_fail (n_stages >= 1, FALSE);
  if (n_stages > n_units)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "model '%s': its %u layers, embedding and loss cannot be cut into %u stages (devices times "
                      "chunks)",
                      model->name, model->layers, n_stages);
  if (n_stages > model->layers)
    {
      split_units (model, n_stages, shapes);
      return TRUE;
    }
  for (guint s = 0; s < n_stages; s++)
    {
      guint n_layers = model->layers / n_stages + (s < model->layers % n_stages ? 1 : 0);

      shapes[s] = (PsStageShape){
        .first_layer = layer, .n_layers = n_layers, .embedding = s == 0, .head = s == n_stages - 1
      };
      layer += n_layers;
    }
  shapes[n_stages - 1].n_mtp = model->mtp;
  return TRUE;
}

gboolean
ps_stage_shapes_are_even (const PsStageShape *shapes, guint n_stages)
{
  const PsStageShape *last = &shapes[n_stages - 1];
  guint n_layers = last->first_layer + last->n_layers;

  for (guint s = 0; s < n_stages; s++)
    if (shapes[s].n_layers != n_layers / n_stages + (s < n_layers % n_stages) || shapes[s].embedding != (s == 0)
        || shapes[s].head != (s + 1 == n_stages) || (shapes[s].n_mtp > 0 && s + 1 < n_stages))
      return FALSE;
  return TRUE;
}

PsStageShape *
ps_model_units (const PsModel *model, guint *n)
{
  PsStageShape *units = g_new0 (PsStageShape, model->layers + model->mtp + 2);
  guint i = 0;

  units[i++].embedding = TRUE;
  for (guint layer = 0; layer < model->layers; layer++)
    units[i++] = (PsStageShape){ .first_layer = layer, .n_layers = 1 };
  for (guint module = 0; module < model->mtp; module++)
    units[i++] = (PsStageShape){ .first_layer = model->layers, .n_mtp = 1 };
  units[i++] = (PsStageShape){ .first_layer = model->layers, .head = TRUE };
  *n = i;
  return units;
}

void
ps_stage_shapes_join (const PsStageShape *units, const guint *end, guint n_stages, PsStageShape *shapes)
{
  for (guint s = 0, unit = 0; s < n_stages; s++)
    {
      shapes[s] = (PsStageShape){ .first_layer = units[unit].first_layer };
      for (; unit < end[s]; unit++)
        {
          shapes[s].embedding |= units[unit].embedding;
          shapes[s].n_layers += units[unit].n_layers;
          shapes[s].n_mtp += units[unit].n_mtp;
          shapes[s].head |= units[unit].head;
        }
    }
}

char *
ps_stage_shape_key (const PsStageShape *shape)
{
  g_autofree char *mtp = shape->n_mtp > 0 ? g_strdup_printf (",mtp=%u", shape->n_mtp) : g_strdup ("");

  char ratio[G_ASCII_DTOSTR_BUF_SIZE];
  g_autofree char *offload = shape->offload > 0
                                 ? g_strconcat (",offload=", g_ascii_dtostr (ratio, sizeof ratio, shape->offload), NULL)
                                 : g_strdup ("");
  g_autofree char *tensor = shape->n_tensor > 1 ? g_strdup_printf (",tensor=%u", shape->n_tensor) : g_strdup ("");

  return g_strdup_printf ("layers=%u%s%s%s%s%s%s%s", shape->n_layers, shape->embedding ? ",embedding" : "", mtp,
                          shape->head ? ",head" : "", shape->recompute != PS_RECOMPUTE_NONE ? ",recompute=" : "",
                          shape->recompute != PS_RECOMPUTE_NONE ? ps_recompute_name (shape->recompute) : "", offload,
                          tensor);
}
