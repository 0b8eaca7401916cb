/* model-private.h - what the sources about models share. Private to libpipesim. */
#pragma once

#include <pipesim/model.h>

typedef enum
{
  PS_FIELD_COUNT,  /* guint */
  PS_FIELD_REAL,   /* double */
  PS_FIELD_CHOICE, /* an enumeration or a gboolean */
} PsModelFieldType;

typedef enum
{
  PS_FIELD_REQUIRED,
  PS_FIELD_OPTIONAL, /* 0 unless given; ps_model_fill_defaults knows better */
  PS_FIELD_LATER,    /* came later: at `fallback` it is not written, so that digests of models already measured stay */
} PsFieldPresence;

typedef struct
{
  const char *key; /* of an .ini file */
  PsFieldPresence presence;
  PsModelFieldType type;
  gsize offset;    /* in PsModel */
  double high;     /* of counts and reals */
  double low;      /* of them, where they are given */
  double fallback; /* where they are not */
  const char *const *choices;
  const char *config; /* keys of a config.json, any of them; "": none */
} PsModelField;

/* Every field but the name; *n entries. */
const PsModelField *ps_model_fields (guint *n);
double ps_model_field_value (const PsModel *model, const PsModelField *field);
void ps_model_set_field (PsModel *model, const PsModelField *field, double value);

/* Gives optional fields that are 0 their defaults. */
void ps_model_fill_defaults (PsModel *model);

/* Says which fields contradict each other, and sets the key to blame; NULL: none do. Free with g_free. */
char *ps_model_find_misfit (const PsModel *model, const char **key);

/* ps_model_parse of a config.json. */
PsModel *ps_model_parse_config (const char *where, const char *text, gsize length, GError **error);

/* Matrices and biases of one expert. */
gint64 ps_model_expert_parameters (const PsModel *model);

/* A figure of a layer, and its sum over the layers of a stage and of its modules of multi-token prediction. */
typedef gint64 (*PsLayerFigure) (const PsModel *model, PsLayerKind kind);
gint64 ps_model_sum_layers (const PsModel *model, const PsStageShape *shape, PsLayerFigure figure);
