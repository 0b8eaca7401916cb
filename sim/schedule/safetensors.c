/* safetensors.c - reads and writes the headers of safetensors files. */
#include <pipesim/formats.h>

#include "base/json.h"

#include <string.h>

#define LENGTH_BYTES 8
#define MAX_HEADER_BYTES 100000000 /* the limit of Hugging Face's reader */

static void entry_free (gpointer data)
{
  PsTensorEntry *entry = data;

  g_free (entry->name);
  g_free (entry->type);
  g_free (entry);
}

void ps_safetensors_free (PsSafetensors *file)
{
  if (file == NULL)
    return;
  g_ptr_array_unref (file->entries);
  g_hash_table_unref (file->by_name);
  g_hash_table_unref (file->metadata);
  g_free (file);
}

const PsTensorEntry *ps_safetensors_find (const PsSafetensors *file, const char *name)
{
  return g_hash_table_lookup (file->by_name, name);
}

/* Bytes of a number of that type; 0: not known. */
static gsize type_bytes (const char *type)
{
  static const struct {
    const char *name;
    gsize bytes;
  } types[] = { { "F64", 8 }, { "I64", 8 }, { "U64", 8 },  { "F32", 4 },     { "I32", 4 },
                { "U32", 4 }, { "F16", 2 }, { "BF16", 2 }, { "I16", 2 },     { "U16", 2 },
                { "I8", 1 },  { "U8", 1 },  { "BOOL", 1 }, { "F8_E4M3", 1 }, { "F8_E5M2", 1 } };

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    if (g_str_equal (types[i].name, type))
      return types[i].bytes;
  return 0;
}

static gboolean bad_value (const char *where, const char *name, const char *key, GError **error)
{
  return ps_refuse (error, PS_ERROR_INPUT, "%s: tensor %s: no valid %s", where, name, key);
}

static gboolean read_shape (PsJsonReader *reader, PsTensorEntry *entry)
{
  if (!ps_json_enter_array (reader))
    return FALSE;
  while (ps_json_next_element (reader)) {
    gint64 *size = &entry->shape[entry->n_dimensions];

    if (++entry->n_dimensions > PS_TENSOR_MAX_DIMENSIONS || !ps_json_read_integer (reader, size) || *size < 0)
      return FALSE;
  }
  return TRUE;
}

static gboolean read_offsets (PsJsonReader *reader, PsTensorEntry *entry)
{
  gint64 offsets[2];

  if (!ps_json_enter_array (reader))
    return FALSE;
  for (guint i = 0; i < 2; i++)
    if (!ps_json_next_element (reader) || !ps_json_read_integer (reader, &offsets[i]) || offsets[i] < 0)
      return FALSE;
  if (ps_json_next_element (reader) || offsets[1] < offsets[0])
    return FALSE;
  entry->first = (gsize)offsets[0];
  entry->n_bytes = (gsize)(offsets[1] - offsets[0]);
  return TRUE;
}

static gboolean read_type (PsJsonReader *reader, PsTensorEntry *entry)
{
  const char *type;

  if (!ps_json_read_text (reader, &type) || type_bytes (type) == 0)
    return FALSE;
  entry->type = g_strdup (type);
  return TRUE;
}

/* The bytes that type and shape make; FALSE: too many to count. */
static gboolean count_bytes (const PsTensorEntry *entry, gsize *n_bytes)
{
  *n_bytes = type_bytes (entry->type);
  for (guint i = 0; i < entry->n_dimensions; i++)
    if (!g_size_checked_mul (n_bytes, *n_bytes, (gsize)entry->shape[i]))
      return FALSE;
  return TRUE;
}

/* Reads the members of a tensor, each once. */
static gboolean read_members (const char *where, PsJsonReader *reader, PsTensorEntry *entry, GError **error)
{
  static const char *const keys[] = { "dtype", "shape", "data_offsets" };
  static gboolean (*const readers[]) (PsJsonReader *, PsTensorEntry *) = { read_type, read_shape, read_offsets };
  gboolean seen[G_N_ELEMENTS (keys)] = { FALSE };
  const char *key;

  if (!ps_json_enter_object (reader))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: tensor %s: is no object", where, entry->name);
  while ((key = ps_json_next_key (reader)) != NULL) {
    guint i = 0;

    while (i < G_N_ELEMENTS (keys) && !g_str_equal (keys[i], key))
      i++;
    if (i == G_N_ELEMENTS (keys))
      return ps_refuse (error, PS_ERROR_INPUT, "%s: tensor %s: unknown key '%s'", where, entry->name, key);
    if (seen[i] || !readers[i](reader, entry))
      return bad_value (where, entry->name, keys[i], error);
    seen[i] = TRUE;
  }
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    if (!seen[i])
      return bad_value (where, entry->name, keys[i], error);
  return TRUE;
}

static gboolean read_tensor (const char *where, PsJsonReader *reader, const char *name, PsSafetensors *file,
                             GError **error)
{
  PsTensorEntry *entry = g_new0 (PsTensorEntry, 1);
  gsize n_bytes;

  entry->name = ps_format_line (name);
  g_ptr_array_add (file->entries, entry);
  if (!read_members (where, reader, entry, error))
    return FALSE;
  if (!count_bytes (entry, &n_bytes) || n_bytes != entry->n_bytes)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: tensor %s: its %" G_GSIZE_FORMAT " bytes are not its type and shape",
                      where, entry->name, entry->n_bytes);
  return g_hash_table_insert (file->by_name, entry->name, entry)
         || ps_refuse (error, PS_ERROR_INPUT, "%s: tensor %s: is there twice", where, entry->name);
}

static gboolean read_metadata (const char *where, PsJsonReader *reader, PsSafetensors *file, GError **error)
{
  const char *key, *text;

  if (!ps_json_enter_object (reader))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: __metadata__: is no object", where);
  while ((key = ps_json_next_key (reader)) != NULL) {
    g_autofree char *name = ps_format_line (key);

    if (!ps_json_read_text (reader, &text))
      return ps_refuse (error, PS_ERROR_INPUT, "%s: __metadata__: %s: is no text", where, name);
    g_hash_table_replace (file->metadata, g_steal_pointer (&name), ps_format_line (text));
  }
  return TRUE;
}

static int compare_places (gconstpointer a, gconstpointer b)
{
  const PsTensorEntry *left = *(PsTensorEntry *const *)a, *right = *(PsTensorEntry *const *)b;

  return left->first != right->first ? PS_COMPARE (left->first, right->first)
                                     : PS_COMPARE (left->n_bytes, right->n_bytes);
}

/* The arrays fill the n_bytes after the header. */
static gboolean check_places (const char *where, PsSafetensors *file, gsize n_bytes, GError **error)
{
  gsize end = 0;

  g_ptr_array_sort (file->entries, compare_places);
  for (guint i = 0; i < file->entries->len; i++) {
    const PsTensorEntry *entry = file->entries->pdata[i];

    if (entry->first != end || entry->n_bytes > n_bytes - end)
      return ps_refuse (error, PS_ERROR_INPUT,
                        "%s: tensor %s: bytes %" G_GSIZE_FORMAT " to %" G_GSIZE_FORMAT " do not follow the others, "
                        "or go beyond the file's end",
                        where, entry->name, entry->first, entry->first + entry->n_bytes);
    end += entry->n_bytes;
  }
  return end == n_bytes
         || ps_refuse (error, PS_ERROR_INPUT, "%s: %" G_GSIZE_FORMAT " bytes after the last tensor", where,
                       n_bytes - end);
}

static gboolean read_header (const char *where, const char *text, gsize length, PsSafetensors *file, GError **error)
{
  g_auto (PsJsonReader) reader = { 0 };
  const char *key;

  if (!ps_json_reader_init (&reader, where, text, (gssize)length, error))
    return FALSE;
  if (!ps_json_enter_object (&reader))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: its header is no object", where);
  while ((key = ps_json_next_key (&reader)) != NULL) {
    g_autofree char *name = g_strdup (key);

    if (!(g_str_equal (name, "__metadata__") ? read_metadata (where, &reader, file, error)
                                             : read_tensor (where, &reader, name, file, error)))
      return FALSE;
  }
  return TRUE;
}

PsSafetensors *ps_safetensors_parse (const char *where, const void *bytes, gsize n_bytes, GError **error)
{
  g_autoptr (PsSafetensors) file = g_new0 (PsSafetensors, 1);
  guint64 length = G_MAXUINT64;

  file->entries = g_ptr_array_new_with_free_func (entry_free);
  file->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  file->metadata = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  if (n_bytes >= LENGTH_BYTES)
    memcpy (&length, bytes, LENGTH_BYTES);
  length = GUINT64_FROM_LE (length);
  if (n_bytes < LENGTH_BYTES || length > MIN (n_bytes - LENGTH_BYTES, MAX_HEADER_BYTES))
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: is no safetensors file, or only the beginning of one", where);
  file->header_bytes = LENGTH_BYTES + (gsize)length;
  g_autofree char *header = g_malloc ((gsize)length + 1);
  memcpy (header, (const char *)bytes + LENGTH_BYTES, (gsize)length);
  if (!read_header (where, header, (gsize)length, file, error)
      || !check_places (where, file, n_bytes - file->header_bytes, error))
    return NULL;
  return g_steal_pointer (&file);
}

char *ps_safetensors_header (const PsTensorShape *tensors, guint n, const char *const *metadata, gsize *n_bytes)
{
  GString *text = g_string_new ("{\"__metadata__\":{");
  gsize first = 0;

  for (guint i = 0; metadata[i] != NULL; i += 2) {
    g_string_append (text, i > 0 ? "," : "");
    ps_json_append_string (text, metadata[i]);
    g_string_append_c (text, ':');
    ps_json_append_string (text, metadata[i + 1]);
  }
  g_string_append_c (text, '}');
  for (guint i = 0; i < n; i++) {
    gsize rows = tensors[i].rows, end = first + MAX (rows, 1) * tensors[i].columns * sizeof (float);

    g_string_append (text, ",\n");
    ps_json_append_string (text, tensors[i].name);
    g_string_append (text, ":{\"dtype\":\"F32\",\"shape\":[");
    if (rows > 0)
      g_string_append_printf (text, "%" G_GSIZE_FORMAT ",", rows);
    g_string_append_printf (text, "%" G_GSIZE_FORMAT "],\"data_offsets\":[%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT "]}",
                            tensors[i].columns, first, end);
    first = end;
  }
  g_string_append_c (text, '}');
  while (text->len % LENGTH_BYTES != 0)
    g_string_append_c (text, ' ');
  guint64 length = GUINT64_TO_LE ((guint64)text->len);
  g_string_prepend_len (text, (const char *)&length, LENGTH_BYTES);
  *n_bytes = text->len;
  return g_string_free (text, FALSE);
}
