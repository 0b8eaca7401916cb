/* text.h - texts that users write: whether they are text at all, and what messages say of them. Private to libpipesim.
 */
#ifndef PIPESIM_TEXT_H
#define PIPESIM_TEXT_H

#include <pipesim/base.h>

G_BEGIN_DECLS

/* Whether the contents of a file are text that a reader may look at: not empty, of at most max_length bytes, free of
 * NUL, UTF-8. Errors: PS_ERROR_INPUT "where: ...". */
gboolean ps_text_check (const char *where, const char *text, gsize length, gsize max_length, GError **error);

/* The text in single quotes, printable and short, whatever it holds: escaped as g_strescape does, cut behind 60 bytes.
 * Free with g_free. */
char *ps_text_quote (const char *text);

/* The parsers of base.h are made for options; what is wrong in a file is wrong input. Turns what one of them has set
 * into PS_ERROR_INPUT. Returns FALSE. */
gboolean ps_text_blame_input (GError **error);

G_END_DECLS

#endif
