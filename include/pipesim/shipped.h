/* shipped.h - the descriptions of models and clusters that ship with pipesim; data/README.md has their sources. */
#ifndef PIPESIM_SHIPPED_H
#define PIPESIM_SHIPPED_H

#include <pipesim/base.h>

G_BEGIN_DECLS

/* The names of the descriptions in a folder, "models" or "clusters", in alphabetical order. Free with g_strfreev. */
char **ps_shipped_names (const char *folder);

/* The description of that name as .ini text; NULL: there is none. Free with g_free. */
char *ps_shipped_text (const char *folder, const char *name);

/* The comment at the head of a description on one line: what it describes, and the source. Free with g_free. */
char *ps_shipped_about (const char *text);

G_END_DECLS

#endif
