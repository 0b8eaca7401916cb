/* places.h - where devices stand in their machines, and which of the links between them are alike.
 *
 * A place is the way from the host down to the device, level by level, each level with its kind and number:
 * "node1/Package:0/L3:1/Core:4"; "node1" where the system chooses the core. The place of an accelerator ends with its
 * bus id and the number of direct links to each other one: "node1/Package:0/GPU:0000:1b:00.0+0000:3b:00.0*4", or to a
 * switch that all share: "...+switch*18". The places of devices 0, 1, ... are one text, with ";" in between.
 */
#ifndef PIPESIM_PLACES_H
#define PIPESIM_PLACES_H

#include <pipesim/costdb.h>

G_BEGIN_DECLS

/* The class of the link between two places, by the fastest that they share: "network" between hosts; "nvlink*4" where
 * accelerators have direct links; else the kind of their last common level, "package" or "l3", and "machine" where they
 * share the host alone. Links of one class are equal as far as the topology says. Free with g_free. */
char *ps_link_class (const char *a, const char *b);

/* The same for two devices of a profile; NULL: it does not know their places. */
char *ps_places_link_class (const char *places, guint a, guint b);

/* The shapes of transfers (PsMeasurement) over one link, "link=0-3" with the smaller number first, and over links of a
 * class, "link=package". Those of the class that the first link belongs to have the shape "". Free with g_free. */
char *ps_link_key (guint a, guint b);
char *ps_link_class_key (const char *link_class);

/* Whether two transfers of one size differ by more than the noise: each median lies outside the quartiles of the other,
 * and they are further apart than PS_SENTINEL_TOLERANCE. */
gboolean ps_links_differ (const PsMeasurement *a, const PsMeasurement *b);

G_END_DECLS

#endif
