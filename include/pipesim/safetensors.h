/* safetensors.h - files of named arrays, as Hugging Face's safetensors writes them: the length of a JSON header in
 * eight bytes, the header, and the arrays one after the other (https://huggingface.co/docs/safetensors, "Format"). */
#ifndef PIPESIM_SAFETENSORS_H
#define PIPESIM_SAFETENSORS_H

#include <pipesim/base.h>

G_BEGIN_DECLS

#define PS_TENSOR_MAX_DIMENSIONS 8

typedef struct
{
  char *name;
  char *type; /* "F32", "BF16", ... */
  guint n_dimensions;
  gint64 shape[PS_TENSOR_MAX_DIMENSIONS];
  gsize first; /* of its bytes, counted from the end of the header */
  gsize n_bytes;
} PsTensorEntry;

typedef struct
{
  GPtrArray *entries;   /* of PsTensorEntry, as the header has them */
  GHashTable *by_name;  /* name -> entry */
  GHashTable *metadata; /* key -> text; empty: the file has none */
  gsize header_bytes;   /* before the arrays */
} PsSafetensors;

/* Reads the header in the bytes of a file, which must have the arrays that it names one after the other and nothing
 * else. Errors: PS_ERROR_INPUT "where: ...". Free with ps_safetensors_free. */
PsSafetensors *ps_safetensors_parse (const char *where, const void *bytes, gsize n_bytes,
                                     GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_safetensors_free (PsSafetensors *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSafetensors, ps_safetensors_free)

/* NULL: there is none of that name. */
const PsTensorEntry *ps_safetensors_find (const PsSafetensors *file, const char *name);

/* The header of a file with arrays of floats under these names, which follow each other in this order: "F32", rows x
 * columns each; rows 0: a vector. metadata: pairs of key and text, NULL at the end. Free with g_free. */
typedef struct
{
  char *name;
  gsize rows, columns;
} PsTensorShape;
char *ps_safetensors_header (const PsTensorShape *tensors, guint n, const char *const *metadata, gsize *n_bytes);

G_END_DECLS

#endif
