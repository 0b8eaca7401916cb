/* ini.h - strict reading of the small .ini descriptions under data/ (models, clusters). Private to libpipesim.
 *
 * GKeyFile accepts unknown and repeated keys and groups; a description must not contain them. A reader opens a
 * description, asks for its keys one after the other and then finishes. The first error is remembered, later calls
 * return 0, and ps_ini_finish reports the error.
 */
#pragma once

#include <pipesim/base.h>

typedef struct _PsIni PsIni;

/* Finds and reads a description. A text with a '/' or ending in ".ini" is a path; any other is the name of one shipped
 * in `folder` ("models", "clusters") or, failing that, of a file. Errors: PS_ERROR_IO, PS_ERROR_INPUT. Free *text with
 * g_free. */
gboolean ps_ini_read (const char *path, const char *folder, char **text, gsize *length, GError **error);

/* Reads and parses a description. It must consist of the one group and of keys from the
 * NULL-terminated list. Errors: PS_ERROR_IO, PS_ERROR_INPUT. Free with ps_ini_free. */
PsIni *ps_ini_load (const char *path, const char *folder, const char *group, const char *const *keys,
                    GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same for text in memory; `where` names it in messages. */
PsIni *ps_ini_parse (const char *where, const char *text, gsize length, const char *group, const char *const *keys,
                     GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_ini_free (PsIni *ini);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsIni, ps_ini_free)

/* Base name of the file without ".ini", or the shipped name. */
const char *ps_ini_name (const PsIni *ini);

/* TRUE: the key is there. Readers ask for an optional key only then. */
gboolean ps_ini_has (const PsIni *ini, const char *key);

/* Values of required keys. Texts are free of white space at both ends and not empty; free with g_free. */
char *ps_ini_text (PsIni *ini, const char *key);
gint64 ps_ini_integer (PsIni *ini, const char *key, gint64 low, gint64 high);
double ps_ini_real (PsIni *ini, const char *key, double low, double high);
gint64 ps_ini_time (PsIni *ini, const char *key); /* "5us"; nanoseconds */
gint64 ps_ini_size (PsIni *ini, const char *key); /* "80GiB"; bytes */
double ps_ini_rate (PsIni *ini, const char *key); /* "450GB/s"; bytes per second */

/* Index of the value in a NULL-terminated list. */
guint ps_ini_choice (PsIni *ini, const char *key, const char *const *choices);

/* Records that the value of `key` is wrong; the message follows "FILE: [group] key: ". */
void ps_ini_fail (PsIni *ini, const char *key, const char *format, ...) G_GNUC_PRINTF (3, 4);

/* FALSE and the first error, if there was one. */
gboolean ps_ini_finish (PsIni *ini, GError **error);
