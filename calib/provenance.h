/* provenance.h - the texts of a profile: the facts about a machine that give its measurements a meaning. */
#pragma once

#include <pipesim/costdb.h>
#include <pipesim/transport.h>

/* Returns a profile that describes this machine, this build and this moment. Free with ps_profile_free. */
PsProfile *ps_profile_new_here (const char *name, const PsModel *model, const PsDeviceClass *device,
                                const PsTransportClass *transport);

/* The texts of a profile that are shown, and where they are. */
typedef struct {
  const char *key;
  gsize offset; /* of a char * in PsProfile */
} PsProfileText;

#define PS_N_PROFILE_TEXTS 14
extern const PsProfileText ps_profile_texts[PS_N_PROFILE_TEXTS];

/* Makes "" of all texts that are NULL. */
void ps_profile_complete (PsProfile *profile);
