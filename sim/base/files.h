/* files.h - gzip files, written and read, and the files of data/ that the library holds. Private to the project. */
#pragma once

#include <pipesim/base.h>

/* The contents as a gzip file: fast rather than small. NULL: there is no memory for it. */
GBytes *ps_pack (const char *contents, gsize n);

gboolean ps_is_packed (const char *contents, gsize n);

/* Unpacks a file piece by piece; one that is not packed is copied. The data must outlive it. Free with
 * ps_unpacker_free. */
typedef struct _PsUnpacker PsUnpacker;
PsUnpacker *ps_unpacker_new (const char *data, gsize size);
void ps_unpacker_free (PsUnpacker *unpacker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsUnpacker, ps_unpacker_free)
void ps_unpacker_rewind (PsUnpacker *unpacker);

/* Fills the block with the next n bytes; *n_read is less at the end alone. Files that hold more than 100 times their
 * size are refused. Errors: PS_ERROR_INPUT with where. */
gboolean ps_unpacker_read (PsUnpacker *unpacker, const char *where, char *block, gsize n, gsize *n_read,
                           GError **error);

/* All that a gzip file holds, up to 1 GiB, and a NUL after it. Errors: PS_ERROR_INPUT with where. Free with g_free. */
char *ps_unpack (const char *where, const char *data, gsize size, gsize *length, GError **error);

/* A file that a program holds. */
typedef struct {
  const char *name; /* "models/tiny-gpt.ini", as in data/ */
  const char *text;
} PsDataFile;

/* The files of data/: models, clusters and schemas. data/embed.py makes such tables; the last file has no name. */
extern const PsDataFile ps_data_files[];

/* NULL: there is no such file in the table. */
static inline const char *ps_data_file_text (const PsDataFile *file, const char *name)
{
  while (file->name != NULL && !g_str_equal (file->name, name))
    file++;
  return file->text;
}
