/* table-private.h - the cells and columns of a table. Private to libpipesim. */
#pragma once

#include <pipesim/option.h>

typedef struct
{
  gboolean set;
  union
  {
    gint64 integer; /* INTEGER, TIME, SIZE, BOOLEAN */
    double ratio;   /* RATIO, NUMBER, RATE, PERCENT */
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
  GPtrArray *rows;              /* of PsCell[n_columns] */
  const PsColumnChoice *choice; /* NULL: none was made */
  const char *const *usual;     /* keys; NULL: all */
};

#define PS_COLUMN_BIT(type) (1U << (type))

#define PS_COLUMNS_OF_REALS                                                                                            \
  (PS_COLUMN_BIT (PS_COLUMN_RATIO) | PS_COLUMN_BIT (PS_COLUMN_NUMBER) | PS_COLUMN_BIT (PS_COLUMN_RATE)                 \
   | PS_COLUMN_BIT (PS_COLUMN_PERCENT))
