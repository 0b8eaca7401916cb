/* provenance.h - the facts about a machine that give its measurements a meaning. */
#pragma once

#include <pipesim/costdb.h>
#include <pipesim/transport.h>

/* Returns a profile that describes this machine, this build and this moment. Free with ps_profile_free. */
PsProfile *ps_profile_new_here (const char *name, const PsModel *model, const PsDeviceClass *device,
                                const PsTransportClass *transport);
