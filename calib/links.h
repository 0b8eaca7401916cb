/* links.h - the links between the devices of a pipeline: those of one class are measured once, and a few of them are
 * looked at again. */
#pragma once

#include "measure.h"

#include <pipesim/costdb.h>

/* A link from one device to the next; the last device has one to the first. */
typedef struct {
  guint a, b;             /* a < b */
  const char *link_class; /* interned, as the next two */
  const char *shape;      /* of the transfers that stand for its class (PsMeasurement) */
  const char *key;        /* of those over this link alone */
  gboolean first;         /* of its class: the transfers of the class are measured over it */
  gboolean sampled;       /* it is measured by itself too, with one size */
  double change;    /* how much longer its own transfers take than those of its class; NaN: it was not looked at */
  gboolean differs; /* these differ (ps_links_differ) */
} PsCalibLink;

/* The places of all devices, as PsProfile.places; "": not known, as where not every device is here, or has a process of
 * its own. All processes call it. Free with g_free. */
char *ps_calib_places (const PsCalibration *calibration);

/* The links of devices at these places, device after device; none where places are NULL or "". A few
 * links of a class are sampled. All of them are once one of them differs by the measurements in `known`, which may be
 * NULL. Free with g_array_unref. */
GArray *ps_calib_links (const char *places, GPtrArray *known);

/* "links of class network: 1-2 stands for it; 0-3 differs, +41.0 %", one line for each class; "" where there is one
 * link. Links that were not looked at have their numbers alone. Free with g_free. */
char *ps_calib_links_to_text (const char *places, GPtrArray *measurements);

/* The same as JSON, an object for each link: {"link": "0-3", "class": "network", "stands_for_class": false, "change":
 * 0.41, "differs": true}; change is null where the link was not looked at. Free with g_free. */
char *ps_calib_links_to_json (const char *places, GPtrArray *measurements);
