/* setting-comm.h - the options about transfers: how they share channels and links, in which order they are posted, and
 * what they do to devices. Private to libpipesim. */
#ifndef PIPESIM_SETTING_COMM_H
#define PIPESIM_SETTING_COMM_H

#include <pipesim/setting.h>

G_BEGIN_DECLS

/* What GOption wrote. */
typedef struct
{
  char *comm;
  char *order;
  char *eager;
  gboolean blocking;
  char *speed;
  char *slowdown;
  char *ready_order;
  gboolean share_links;
  char *bandwidth;
  char *latency;
} PsCommText;

void ps_comm_text_clear (PsCommText *text);
void ps_comm_add_options (PsCommText *text, GOptionContext *context);

/* Reads the texts into the setting. Errors: PS_ERROR_USAGE. */
gboolean ps_comm_read (const PsCommText *text, PsSetting *setting, GError **error);

/* Refuses options that say nothing together. Errors: PS_ERROR_USAGE. */
gboolean ps_comm_check (const PsSetting *setting, GError **error);

G_END_DECLS

#endif
