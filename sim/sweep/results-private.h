/* results-private.h - the database of results, for the files that store rows and answer questions. Private to
 * libpipesim. */
#pragma once

#include "database/database.h"
#include <pipesim/results.h>

/* How the file keeps predictions. Columns that are the same in all of them are literals of the view `prediction`, all
 * others are in the table `varying`. In a file of version 4, `prediction` is a table that has all. */
struct _PsResults
{
  PsDatabase *file;
  gboolean *varies; /* [columns] of the table; NULL: not known yet, or no prediction is stored */
  PsValue *same;    /* [columns] where they do not vary; texts are owned */
  gboolean whole;   /* the table is `prediction` */
  gint64 schema;    /* SQLite's count of changes to the schema up to which these hold; -1: they are to be read */
  PsRows *many;     /* insert ROWS_AT_ONCE rows, or a single one; NULL: not made yet */
  PsRows *single;
  PsRows *skipped;
};

/* Appends a value as an SQL literal. */
void ps_results_quote (GString *sql, const PsValue *value);
