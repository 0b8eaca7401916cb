/* provenance.c - the facts about a machine that give its measurements a meaning. */
#include "provenance.h"

#include "build-commit.h"

#include <sys/utsname.h>

#define TEXT(key, member)                                                                                              \
  {                                                                                                                    \
    key, offsetof (PsProfile, member)                                                                                  \
  }

const PsProfileText ps_profile_texts[PS_N_PROFILE_TEXTS] = {
  TEXT ("profile", name),        TEXT ("model", model_name),    TEXT ("model_digest", model_digest),
  TEXT ("device", device),       TEXT ("shares", shares),       TEXT ("transport", transport),
  TEXT ("host", host),           TEXT ("processor", processor), TEXT ("kernel", kernel),
  TEXT ("libraries", libraries), TEXT ("version", version),     TEXT ("created", created),
  TEXT ("source", source),       TEXT ("places", places),
};

static void complete (char **text)
{
  if (*text == NULL)
    *text = g_strdup ("");
}

void ps_profile_complete (PsProfile *profile)
{
  for (guint i = 0; i < PS_N_PROFILE_TEXTS; i++)
    complete (G_STRUCT_MEMBER_P (profile, ps_profile_texts[i].offset));
  complete (&profile->model_text);
  complete (&profile->choices);
}

/* Returns the first "model name : ..." of /proc/cpuinfo, or the fallback: not every architecture has one. */
static char *processor_name (const char *fallback)
{
  g_autofree char *text = NULL;
  g_autoptr (GMatchInfo) match = NULL;
  g_autoptr (GRegex) pattern = g_regex_new ("^model name\\s*:\\s*(.+)$", G_REGEX_MULTILINE, 0, NULL);

  if (g_file_get_contents ("/proc/cpuinfo", &text, NULL, NULL) && g_utf8_validate (text, -1, NULL)
      && g_regex_match (pattern, text, 0, &match))
    return g_match_info_fetch (match, 1);
  return g_strdup (fallback);
}

static char *library_versions (const PsDeviceClass *device, const PsTransportClass *transport)
{
  g_autofree char *of_device = device->libraries != NULL ? device->libraries () : NULL;
  g_autofree char *of_transport = transport->libraries != NULL ? transport->libraries () : NULL;
  g_autofree char *of_database = ps_database_library ();

  return g_strdup_printf ("%s%s%s%sGLib %u.%u.%u; %s", of_device != NULL ? of_device : "",
                          of_device != NULL ? "; " : "", of_transport != NULL ? of_transport : "",
                          of_transport != NULL ? "; " : "", glib_major_version, glib_minor_version, glib_micro_version,
                          of_database);
}

PsProfile *ps_profile_new_here (const char *name, const PsModel *model, const PsDeviceClass *device,
                                const PsTransportClass *transport)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
  struct utsname system = { 0 };
  PsProfile *profile = g_new0 (PsProfile, 1);

  uname (&system);
  profile->name = g_strdup (name);
  profile->model_name = g_strdup (model->name);
  profile->model_digest = ps_model_digest (model);
  profile->model_text = ps_model_to_text (model);
  profile->device = g_strdup (device->name);
  profile->transport = g_strdup (transport->name);
  profile->host = g_utf8_make_valid (system.nodename, -1);
  profile->processor = device->processor != NULL ? device->processor () : NULL;
  if (profile->processor == NULL)
    profile->processor = processor_name (system.machine);
  profile->kernel = g_strdup_printf ("%s %s", system.sysname, system.release);
  profile->libraries = library_versions (device, transport);
  profile->version = g_strdup (PS_VERSION " " PS_COMMIT);
  profile->created = g_date_time_format (now, "%Y-%m-%dT%H:%M:%SZ");
  ps_profile_complete (profile);
  return profile;
}
