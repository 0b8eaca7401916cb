/* data-files.h - the files of data/ that the library holds: models, clusters and schemas. Private to libpipesim. */
#pragma once

#include <glib.h>

typedef struct
{
  const char *name; /* "models/tiny-gpt.ini", as in data/ */
  const char *text;
} PsDataFile;

/* Made by data/embed.py; the last has no name. */
extern const PsDataFile ps_data_files[];

/* NULL: there is no such file. */
static inline const char *
ps_data_file_text (const char *name)
{
  const PsDataFile *file = ps_data_files;

  while (file->name != NULL && !g_str_equal (file->name, name))
    file++;
  return file->text;
}
