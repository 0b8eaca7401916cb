/* predict-energy.h - --power of predict and search: energy per iteration, and the clocks that take the least. */
#pragma once

#include <pipesim/energy.h>
#include <pipesim/predictor.h>
#include <pipesim/report.h>

typedef struct
{
  char *text; /* NULL: not given */
  PsPower power;
} PsPowerOptions;

extern const PsOption ps_power_rows[];

/* The columns about energy; tables without --power have none of them. */
#define PS_ENERGY_COLUMNS                                                                                              \
  { "energy_joules", "energy, J", PS_COLUMN_NUMBER }, { "least_energy_joules", "least energy, J", PS_COLUMN_NUMBER },  \
      { "energy_saved", "saved", PS_COLUMN_PERCENT },                                                                  \
  {                                                                                                                    \
    "clocks", NULL, PS_COLUMN_TABLE                                                                                    \
  }
#define PS_N_ENERGY_COLUMNS 4

/* Whether it is the key of one of them. */
gboolean ps_energy_has_key (const char *key);

/* Reads the power, if it was given. Errors: PS_ERROR_USAGE, also for settings under which energy is not known. */
gboolean ps_power_finish (PsPowerOptions *options, const PsSetting *setting, GError **error);

/* Sets the columns of the row; they stay empty without power, and for asynchronous schedules. */
void ps_energy_add (PsTable *table, const PsPowerOptions *options, const PsPrediction *prediction);

/* A sentence under a printed table; "" without power. */
const char *ps_energy_note (const PsPowerOptions *options);
