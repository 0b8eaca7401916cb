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

/* "point, digest, schedule, devices, ...": the columns of a prediction. Free with g_free. */
char *ps_results_list_columns (void);

/* Appends "replicas INTEGER NOT NULL": a column of a prediction by its index. */
void ps_results_declare (GString *sql, guint column);

/* Appends a value as an SQL literal. */
void ps_results_quote (GString *sql, const PsValue *value);

/* The columns of a table or view of the file; empty: there is none of that name. Free with g_strfreev. */
char **ps_results_names (PsDatabase *file, const char *table, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Within a transaction: adds the predictions and skipped settings of the attached database `other`. */
gboolean ps_results_copy (PsResults *results, GError **error);

/* Ends a transaction that stored rows, as ps_database_end does. The form is forgotten where it fails. */
gboolean ps_results_end (PsResults *results, gboolean ok, GError **error);

/* Forgets how the file keeps predictions, and frees the statements for them. */
void ps_results_forget (PsResults *results);
