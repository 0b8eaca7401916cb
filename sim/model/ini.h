/* ini.h - strict reading of the small .ini descriptions under data/ (models, clusters), and finding those that ship.
 * Private to libpipesim.
 *
 * A description is one group of keys, each known and there once at most; the key "name" is always known. A reader opens
 * a description, asks for its keys and then finishes. The first error is remembered, later calls return 0, and
 * ps_ini_finish reports the error.
 */
#pragma once

#include <pipesim/base.h>

/* The type of a key's value and of the member that takes it. */
typedef enum {
  PS_INI_COUNT,  /* guint from low to high */
  PS_INI_REAL,   /* double from low to high */
  PS_INI_CHOICE, /* an enumeration or a gboolean: index of one of the choices */
  PS_INI_TIME,   /* "5us"; gint64, nanoseconds */
  PS_INI_SIZE,   /* "80GiB"; gint64, bytes */
  PS_INI_RATE,   /* "450GB/s"; double, bytes per second */
  PS_INI_TEXT,   /* char *, NULL unless given; freed with g_free */
  PS_INI_OTHER,  /* the reader asks for it */
} PsIniType;

typedef enum {
  PS_INI_REQUIRED,
  PS_INI_OPTIONAL, /* fallback unless given */
  PS_INI_LATER,    /* the same. Came later: at its fallback a model does not write it, so that digests of models already
                      measured stay */
} PsIniPresence;

typedef struct {
  const char *key;
  PsIniPresence presence;
  PsIniType type;
  gsize offset; /* of the member */
  double high;
  double low;
  double fallback;
  const char *const *choices; /* ended by NULL */
  /* Where a description omits the key, its value may be that of a description like it (cluster.c). */
  gboolean typical;  /* TRUE: whichever is like it; FALSE: only one that the description names */
  const char *with;  /* the key that this one belongs to: where that one is given, this one is not taken; NULL: none */
  const char *about; /* what the value says, for people */
} PsIniField;

typedef struct _PsIni PsIni;

/* Finds and reads a description. A text with a '/' or ending in ".ini" is a path; any other is the name of one shipped
 * in `folder` ("models", "clusters") or, failing that, of a file. Errors: PS_ERROR_IO, PS_ERROR_INPUT. Free *text with
 * g_free. */
gboolean ps_ini_read (const char *path, const char *folder, char **text, gsize *length, GError **error);

/* Parses a description with the keys of n fields; `where` names it in messages. Errors: PS_ERROR_INPUT. Free with
 * ps_ini_free. */
PsIni *ps_ini_parse (const char *where, const char *text, gsize length, const char *group, const PsIniField *fields,
                     guint n, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_ini_free (PsIni *ini);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsIni, ps_ini_free)

/* The name that the description gives itself, else the base name of the file without ".ini", or the shipped name. Free
 * with g_free. */
char *ps_ini_name (PsIni *ini);

/* Reads the fields into the members of base. */
void ps_ini_fields (PsIni *ini, const PsIniField *fields, guint n, gpointer base);

/* TRUE: the key is there. Readers ask for an optional key only then. */
gboolean ps_ini_has (const PsIni *ini, const char *key);

/* Gives the key this value, in place of the description's own. */
void ps_ini_set (PsIni *ini, const char *key, const char *value);

/* The value of a required key: free of white space at both ends and not empty. Free with g_free. */
char *ps_ini_text (PsIni *ini, const char *key);

/* Index of the value in a NULL-terminated list. */
guint ps_ini_choice (PsIni *ini, const char *key, const char *const *choices);

/* Records that the value of `key` is wrong; the message follows "FILE: [group] key: ". */
void ps_ini_fail (PsIni *ini, const char *key, const char *format, ...) G_GNUC_PRINTF (3, 4);

/* FALSE and the first error, if there was one. */
gboolean ps_ini_finish (PsIni *ini, GError **error);
