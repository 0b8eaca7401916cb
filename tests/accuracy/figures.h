/* figures.h - how far predictions are from measured runs. */
#pragma once

#include "rows.h"

/* Of the relative errors predicted / measured - 1 of a data set, as parts of 1. */
typedef struct {
  guint n;         /* rows that were measured and predicted */
  double bias;     /* mean of the errors */
  double mape;     /* mean of the errors without sign */
  double median;   /* of the errors without sign */
  double p95;      /* of the errors without sign */
  double worst;    /* the error that is largest without sign */
  double constant; /* mape after all predictions are multiplied by one factor */
  double rank; /* Spearman's correlation within series of 3 rows or more, mean over their rows; NAN: no such series */
} Figures;

typedef enum {
  FIGURE_TIME,
  FIGURE_FROM_ONE, /* time, with a speed that one row gave */
  FIGURE_MEMORY,
} FigureKind;

/* FALSE: the row has no such figure, or none was predicted. */
gboolean row_error (const Row *row, FigureKind kind, double *error);

/* Of the rows of `set` in rows; set NULL: of all. */
Figures figures_of (const GPtrArray *rows, const DataSet *set, FigureKind kind);
