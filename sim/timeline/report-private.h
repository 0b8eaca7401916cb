/* report-private.h - the cells and columns of a table. Private to libpipesim. */
#ifndef PIPESIM_REPORT_PRIVATE_H
#define PIPESIM_REPORT_PRIVATE_H

#include <pipesim/report.h>

G_BEGIN_DECLS

typedef struct
{
  gboolean set;
  union
  {
    gint64 integer; /* INTEGER, TIME, SIZE, BOOLEAN */
    double ratio;   /* RATIO, PERCENT */
    char *text;
    PsTable *table;
    GArray *numbers;  /* of double */
    GPtrArray *lists; /* of GStrv */
  };
} PsCell;

struct _PsTable
{
  const PsColumn *columns;
  guint n_columns;
  GPtrArray *rows; /* of PsCell[n_columns] */
};

G_END_DECLS

#endif
