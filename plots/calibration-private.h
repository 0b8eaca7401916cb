/* calibration-private.h - the two panels of a calibration's picture. */
#pragma once

#include "calibration-plot.h"

/* Measurements taken in one way: with the same number of busy devices and of sharers of the accelerator, and the same
 * caches. */
typedef struct
{
  char *name;      /* "2 busy", "alone, cold" */
  GPtrArray *rows; /* of PsMeasurement, not owned, as the profile has them */
} PsCalibrationWay;

/* A part of the picture, in pixels from its lower left corner. */
typedef struct
{
  double left;
  double right;
  double top;
  double bottom;
  double letter; /* width of a letter */
} PsPanel;

/* Output of a panel. Texts are in pixels, all else is in the panel's axes. */
typedef struct
{
  GString *script; /* everything else */
  GString *points; /* x y pointtype colour */
  GString *bars;   /* x y dx dy colour: from quartile to quartile */
  GString *least;  /* x y colour */
  GString *texts;  /* x y "text" colour */
  GString *right;  /* the same, ending at x */
  GString *marks;  /* x y pointtype colour, in pixels */
} PsCalibrationData;

/* The height that the panel of the ops needs, and the width that their names need left of it. */
double ps_calibration_ops_height (const GPtrArray *ways, gboolean terminal);
double ps_calibration_ops_left (const GPtrArray *ways, double letter);

void ps_calibration_append_transfers (PsCalibrationData *data, const PsPanel *panel, const GPtrArray *ways);
void ps_calibration_append_ops (PsCalibrationData *data, const PsPanel *panel, const GPtrArray *ways);

#define PS_CALIBRATION_TEXT 0x333333
#define PS_CALIBRATION_FAINT 0x666666
