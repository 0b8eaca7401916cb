/* profile-fields.h - the members of a profile's text, for its writer and its reader. Private to
 * sim/store. */
#pragma once

#include <pipesim/costdb.h>

#include <stddef.h>

#define PS_PROFILE_FORMAT "pipesim-profile/1"

/* A text (char *) or a number (gint64) of a structure. */
typedef struct
{
  const char *key;
  gsize offset;
} PsProfileField;

static inline gpointer
ps_profile_field_at (gconstpointer structure, const PsProfileField *field)
{
  return (char *)structure + field->offset;
}

#define PS_N_PROFILE_TEXTS 12
extern const PsProfileField ps_profile_texts[PS_N_PROFILE_TEXTS];

/* Numbers of PsMeasurement except n. */
#define PS_N_MEASUREMENT_NUMBERS 9
extern const PsProfileField ps_measurement_numbers[PS_N_MEASUREMENT_NUMBERS];

#define PS_N_CONDITION_NUMBERS 4
extern const PsProfileField ps_condition_numbers[PS_N_CONDITION_NUMBERS];
