/* option.h - what programs read from command lines and specs, and what they print: options, tables, and --help.
 *
 * An option has a name, what it may say, and the member that its value goes to. Command lines and the specs of sweeps
 * read by the same rows. A table of options is an array of rows that ends with PS_OPTION_END. The values of a table are
 * members of one struct, its base; the macros below say which member and check its type. */
#ifndef PIPESIM_OPTION_H
#define PIPESIM_OPTION_H

#include <pipesim/base.h>
#include <stdio.h>

G_BEGIN_DECLS

/* The type of the member, and what the option may say. */
typedef enum {
  PS_OPTION_FLAG,    /* gboolean; a command line gives the option alone, a spec says yes or no */
  PS_OPTION_COUNT,   /* guint from low to high */
  PS_OPTION_NAME,    /* an enumeration, by parse and name_of */
  PS_OPTION_INTEGER, /* gint64 from low to high */
  PS_OPTION_TIME,    /* gint64, ns */
  PS_OPTION_SIZE,    /* gint64, bytes */
  PS_OPTION_RATE,    /* gint64, bytes per second */
  PS_OPTION_NUMBER,  /* double from low to high */
  PS_OPTION_PERCENT, /* double from low to high percent, kept as a ratio */
  PS_OPTION_TEXT,    /* char *; parse, unless NULL, must accept it */
  PS_OPTION_FILE,    /* char *, in the encoding of file names */
  PS_OPTION_TEXTS,   /* char **, NULL-terminated: one more each time the option is given */
  PS_OPTION_FILES,   /* char **, the same of files */
  PS_OPTION_LIST,    /* char **, NULL-terminated: the parts between commas, and more each time the option is given */
  PS_OPTION_FACTORS, /* double *, each from low to high: "0.8", or "1:0.8:1" with one for each device */
  PS_OPTION_SIZES,   /* gint64 *: "1GiB", or "1GiB:2GiB" with one for each device */
  PS_OPTION_COUNTS,  /* guint *, each from low to high: "1,2" */
  PS_OPTION_ROWS,    /* no option, but the rows of another table; the member is their base */
  PS_OPTION_ROWS_AT, /* no option, but the rows of another table; the member points to their base */
} PsOptionType;

/* The heading of help that an option stands under. */
typedef enum {
  PS_GROUP_OWN, /* the command's own */
  PS_GROUP_WHAT,
  PS_GROUP_COSTS,
  PS_GROUP_MACHINE,
  PS_GROUP_CHANNELS,
  PS_GROUP_TRAINING,
  PS_GROUP_VARIATION,
  PS_GROUP_OUTPUT,
  PS_N_GROUPS
} PsOptionGroup;

typedef struct PsOption {
  const char *name; /* without dashes; "": the arguments that belong to no option; NULL: the table ends */
  char letter;      /* 0: none */
  guint8 group;     /* PsOptionGroup */
  guint16 flags;    /* bits of the table's owner; of included rows: help leaves out options with one of these */
  guint16 only;     /* of included rows: those with one of these bits alone; 0: all */
  PsOptionType type;
  gsize offset; /* offset of the member in the base */
  gsize given;  /* offset of a guint, the number of values given: of FACTORS, SIZES, COUNTS and each the length; 0: no
                   such  member */
  gsize each;   /* COUNT, NAME and NUMBER: offset of a guint * or double *, which "a:b" goes to, as one for each stage;
                   given counts these alone; 0: no such member. The member of a COUNT is then their number */
  const char *prefix; /* word before a value and ':', which sets the gboolean at prefix_offset; NULL: there is none */
  gsize prefix_offset;
  double low, high; /* bounds; high 0: G_MAXINT64 */
  double initial;   /* value of a COUNT, INTEGER, NUMBER, PERCENT or TIME that is not given */
  const char *none; /* word for the option not given; NULL: there is none */
  const char *any;  /* word that sets the gboolean at any_offset, on command lines only; NULL: there is none */
  gsize any_offset;
  gboolean (*parse) (const char *where, const char *text, guint *value, GError **error);
  const char *(*name_of) (guint value);
  const char *argument; /* the value in help: "SIZE" */
  const char *help;
  const char *otherwise; /* what holds where the option is not given; NULL: the initial value; "": it must be given */
  void (*add_values) (GString *help); /* ends the help on command lines with the values; NULL: help says all */
  gboolean joins;                     /* TEXT and FILE: given again, it is joined to the text before it with ':' */
  gboolean single; /* TEXT and FILE: given again, or with ',', it is refused, for other commands take several */
  gboolean hidden; /* not on command lines: a field of specs alone */
  const struct PsOption *rows;      /* for PS_OPTION_ROWS and PS_OPTION_ROWS_AT */
  const struct PsSweepField *sweep; /* for the options of SETTING: how sweeps vary and store it; NULL: they do not */
} PsOption;

/* One row: PS_OPTION ("jobs", 'j', PS_COUNT (Options, n_jobs, 1, 1024), "N", "Threads", .initial = 1). */
#define PS_OPTION(name_, letter_, value_, argument_, ...)                                                              \
  {                                                                                                                    \
    .name = name_, .letter = letter_, value_, .argument = argument_, .help = __VA_ARGS__                               \
  }
#define PS_OPTION_INCLUDE(Base, member, rows_)                                                                         \
  {                                                                                                                    \
    .name = "", .type = PS_OPTION_ROWS, .offset = offsetof (Base, member), .rows = rows_                               \
  }
#define PS_OPTION_INCLUDE_AT(Base, member, rows_, without)                                                             \
  {                                                                                                                    \
    .name = "", .type = PS_OPTION_ROWS_AT, .offset = offsetof (Base, member), .rows = rows_, .flags = without          \
  }
#define PS_OPTION_END                                                                                                  \
  {                                                                                                                    \
    .name = NULL                                                                                                       \
  }

/* The value of a row: what it is, and the member that holds it. PS_MEMBER is offsetof for a member of that type only.
 */
#define PS_MEMBER(Base, member, Type)                                                                                  \
  (offsetof (Base, member) + 0 * sizeof (TRUE ? &((Base *)NULL)->member : (Type *)NULL))
#define PS_VALUE(Kind, Base, member, Type) .type = PS_OPTION_##Kind, .offset = PS_MEMBER (Base, member, Type)
#define PS_FLAG(Base, member) PS_VALUE (FLAG, Base, member, gboolean)
#define PS_COUNT(Base, member, low_, high_) PS_VALUE (COUNT, Base, member, guint), .low = low_, .high = high_
#define PS_INTEGER(Base, member, low_, high_) PS_VALUE (INTEGER, Base, member, gint64), .low = low_, .high = high_
#define PS_NUMBER(Base, member, low_, high_) PS_VALUE (NUMBER, Base, member, double), .low = low_, .high = high_
#define PS_PERCENT(Base, member, low_, high_) PS_VALUE (PERCENT, Base, member, double), .low = low_, .high = high_
#define PS_TIME(Base, member) PS_VALUE (TIME, Base, member, gint64)
#define PS_SIZE(Base, member) PS_VALUE (SIZE, Base, member, gint64)
#define PS_RATE(Base, member) PS_VALUE (RATE, Base, member, gint64)
#define PS_COUNTS(Base, member, n_member, low_, high_)                                                                 \
  PS_VALUE (COUNTS, Base, member, guint *), .given = PS_MEMBER (Base, n_member, guint), .low = low_, .high = high_
#define PS_TEXT(Base, member) PS_VALUE (TEXT, Base, member, char *)
#define PS_FILE(Base, member) PS_VALUE (FILE, Base, member, char *)
#define PS_TEXTS(Base, member) PS_VALUE (TEXTS, Base, member, char **)
#define PS_FILES(Base, member) PS_VALUE (FILES, Base, member, char **)
#define PS_LIST(Base, member) PS_VALUE (LIST, Base, member, char **)

/* prefix_parse and prefix_name are those of the enumeration, as PS_DEFINE_NAMES makes them. */
#define PS_NAME(Base, member, prefix)                                                                                  \
  PS_VALUE (NAME, Base, member, guint), .parse = prefix##_parse, .name_of = prefix##_name

/* The row of that long name; NULL: there is none. */
const PsOption *ps_option_find (const PsOption *rows, const char *name);

/* Adds the rows as main entries of the context, of which it is the only table, and sets initial values. Values go to
 * base while the context parses. Errors are then those of ps_option_read. Rows and base must outlive the context.
 * Programs call ps_command_parse, which has a help of its own. */
void ps_options_add (const PsOption *rows, gpointer base, GOptionContext *context);

/* Gives every option the value of one that is not given, and frees texts and lists. Hidden options and the base of
 * ROWS_AT stay as they are. */
void ps_options_reset (const PsOption *rows, gpointer base);

/* Reads the text into the option's member, in place of its value. text NULL: a flag that is given. Errors:
 * PS_ERROR_USAGE
 * "-p/--devices: ...", with a name without dashes for hidden options. */
gboolean ps_option_read (const PsOption *option, gpointer base, const char *text, GError **error);

/* Copies the option's value from one base to another; texts and lists are shared. */
void ps_option_copy (const PsOption *option, gconstpointer from, gpointer to);

/* TRUE if the value is the initial one. */
gboolean ps_option_is_initial (const PsOption *option, gconstpointer base);

/* The option as a command line has it: "-p 4", "--blocking", "--eager 1024B". Not of TEXTS and FILES. Free with
 * g_free. */
char *ps_option_typed (const PsOption *option, gconstpointer base);

/* A value as tables and databases hold it. */
typedef enum {
  PS_VALUE_NONE, /* NULL */
  PS_VALUE_INTEGER,
  PS_VALUE_REAL,
  PS_VALUE_TEXT,
} PsValueType;

typedef struct {
  PsValueType type;
  union {
    gint64 integer;
    double real;
    const char *text; /* not owned */
  };
} PsValue;

/* The option's value so: of SIZES the smallest; FACTORS are NONE, and several values for stages are a text. Valid while
 * the base is. */
PsValue ps_option_value (const PsOption *option, gconstpointer base);

/* One column model for printed tables and --json, so that the two cannot drift apart. */

typedef enum {
  PS_COLUMN_TEXT,
  PS_COLUMN_INTEGER,
  PS_COLUMN_TIME,    /* gint64 ns; printed with a unit, JSON as integer ns */
  PS_COLUMN_SIZE,    /* gint64 bytes; printed with a unit, JSON as integer bytes */
  PS_COLUMN_RATIO,   /* double; printed with four decimals */
  PS_COLUMN_NUMBER,  /* double; printed as by ps_format_number */
  PS_COLUMN_RATE,    /* double, bytes per second; printed as by ps_format_rate, JSON as a number */
  PS_COLUMN_PERCENT, /* double; printed as signed percent (0.01 -> +1.00 %), JSON as ratio */
  PS_COLUMN_BOOLEAN,
  PS_COLUMN_TABLE, /* a nested PsTable, JSON only */
  PS_COLUMN_JSON,  /* a value of JSON as it is, JSON only */
} PsColumnType;

typedef struct {
  const char *key;   /* JSON key, stable: "makespan_ns" */
  const char *title; /* heading of the printed table; NULL: JSON only */
  PsColumnType type;
} PsColumn;

/* A column, and where its cells come from: a member of the struct that a row is made of, or a function of that struct.
 */
typedef struct PsCellColumn {
  PsColumn column;
  guint16 offset;
  guint8 size;    /* size of the member: an integer without sign, or a gint64, a double, a text; 0: none */
  gboolean known; /* an integer or double is known where it is above 0 */
  gpointer (*get) (gconstpointer row); /* makes a text or a PsTable, which the table takes; NULL: there is none */
  const struct PsCellColumn *of; /* key, heading and type, and the member where none is given here, are those of the
                                    column with this key in an array that ends with the key NULL; a title here goes
                                    before, and "" is none; NULL: they stand here */
} PsCellColumn;

/* One column: PS_CELL (PsMetrics, makespan_ns, "makespan_ns", "makespan", TIME). An unknown value is no cell, a text
 * NULL neither. Cells of PS_CELL_SET are set by their key. */
#define PS_CELL_ROW(key_, title_, type_, ...)                                                                          \
  {                                                                                                                    \
    .column = { key_, title_, PS_COLUMN_##type_ }, __VA_ARGS__                                                         \
  }
#define PS_CELL_AT(Struct, member) .offset = offsetof (Struct, member), .size = sizeof (((Struct *)NULL)->member)
#define PS_CELL(Struct, member, key, title, type) PS_CELL_ROW (key, title, type, PS_CELL_AT (Struct, member))
#define PS_CELL_KNOWN(Struct, member, key, title, type)                                                                \
  PS_CELL_ROW (key, title, type, PS_CELL_AT (Struct, member), .known = TRUE)
#define PS_CELL_GET(get_, key, title, type) PS_CELL_ROW (key, title, type, .get = get_)
#define PS_CELL_SET(key, title, type) PS_CELL_ROW (key, title, type, .size = 0)

/* Whether people may call the column so: by its key or its title. Case does not count, and '-', '_' and blanks are
 * alike. */
gboolean ps_column_is_called (const PsColumn *column, const char *name);

typedef struct _PsTable PsTable;

/* Keys and titles stay the caller's, and must outlive the table. */
PsTable *ps_table_new (const PsColumn *columns, guint n_columns);
void ps_table_free (PsTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsTable, ps_table_free)

/* A table of n_rows structs, each of `size` bytes. */
PsTable *ps_table_of (const PsCellColumn *columns, guint n_columns, gconstpointer rows, gsize size, guint n_rows);

/* Adds a row made of such a struct. */
void ps_table_add (PsTable *table, gconstpointer row);

/* Another heading for a column; NULL: JSON only. */
void ps_table_set_title (PsTable *table, const char *key, const char *title);

/* Begins a row; the ps_table_set_* calls that follow fill it. A cell never set prints as "-" and is null in JSON. key
 * must be a column of that type (programmer's duty). */
void ps_table_add_row (PsTable *table);
void ps_table_set_text (PsTable *table, const char *key, const char *value);
void ps_table_set_integer (PsTable *table, const char *key, gint64 value); /* INTEGER, TIME, SIZE */
void ps_table_set_ratio (PsTable *table, const char *key,
                         double value); /* RATIO, NUMBER, RATE, PERCENT; NaN reads as never set */
void ps_table_set_boolean (PsTable *table, const char *key, gboolean value);
void ps_table_set_table (PsTable *table, const char *key, PsTable *value /* taken; NULL: none */);
void ps_table_set_numbers (PsTable *table, const char *key, const double *values, guint n); /* JSON: an array */
void ps_table_set_json (PsTable *table, const char *key, char *value /* taken */);
guint ps_table_n_rows (const PsTable *table);

/* What a command prints: JSON, or a table (Markdown and CSV too) with these columns. */
typedef struct {
  char **columns; /* what people call them, in that order; NULL: not given */
  gboolean wide;  /* all that have a title */
  gboolean json;
} PsColumnChoice;

/* --columns and --wide; their base is a PsColumnChoice. */
extern const PsOption ps_column_rows[];

/* The rows of --json, --columns and --wide for a member that is a PsColumnChoice. */
#define PS_OPTION_TABLE(Base, member, format)                                                                          \
  PS_OPTION ("json", 0, PS_FLAG (Base, member.json), NULL, "Print JSON (format " format ")",                           \
             .group = PS_GROUP_OUTPUT),                                                                                \
      PS_OPTION_INCLUDE (Base, member, ps_column_rows)

/* Refuses columns where no table is printed: JSON holds all of them. Errors: PS_ERROR_USAGE. */
gboolean ps_column_choice_check (const PsColumnChoice *choice, GError **error);

/* Lets each of the n tables show the columns of a checked choice that it has. Errors: PS_ERROR_USAGE where none of them
 * has one. */
gboolean ps_tables_choose (PsTable *const *tables, guint n, const PsColumnChoice *choice, GError **error);

/* Lets a table show a choice, once that has been checked. wide: the keys of columns that need --wide or --columns,
 * ending with NULL; NULL: there are none. choice NULL: none. Choice and keys must outlive the table. CSV without a
 * choice has all columns. Errors: PS_ERROR_USAGE. */
gboolean ps_table_choose (PsTable *table, const PsColumnChoice *choice, const char *const *wide, GError **error);

/* Keeps the first n rows. */
void ps_table_truncate (PsTable *table, guint n);

/* Stable sort by an INTEGER, TIME, SIZE, RATIO, NUMBER, TEXT or BOOLEAN column (no before yes), unset cells last. */
void ps_table_sort (PsTable *table, const char *key, gboolean descending);

/* The width of the window: of the environment's COLUMNS, else of the terminal that is standard output; 0: there is no
 * terminal. */
guint ps_window_columns (void);

/* Letters of a line on standard error where there is no window. */
#define PS_TALK_COLUMNS 80

/* Sentences around a table, in lines that fit the window and end with "\n"; "" for "". otherwise: letters of a line
 * where there is no window; 0: all. Free with g_free. */
char *ps_fit_sentence (const char *text, guint otherwise);

/* Aligned text, numbers right, one line per row under a heading; texts as ps_format_line makes them, as in the next
 * two. "" where the choice shows no column. A table wider than ps_window_columns gets narrower, step by step until it
 * fits: headings take several lines; columns that are equal in all rows become a line above the table; long texts take
 * several lines; columns stand one blank apart instead of two; the columns that are left form a part below, which
 * repeats those that tell the rows apart. Free with g_free. */
char *ps_table_to_text (const PsTable *table);

/* The same as a table of Markdown. Free with g_free. */
char *ps_table_to_markdown (const PsTable *table);

/* The values of --json as comma-separated lines (RFC 4180) under their keys, nested columns left out; a cell never set
 * is empty. Free with g_free. */
char *ps_table_to_csv (const PsTable *table);

/* An object {"format": format, <extra keys>, "results": [one object per row]}, keys in column order. extra alternates
 * key and value and ends with NULL; values are JSON strings. Ends with a newline. Free with g_free. */
char *ps_table_to_json (const PsTable *table, const char *format, const char *const *extra);

/* The same, with further keys before the results whose values are JSON. */
char *ps_table_to_json_with (const PsTable *table, const char *format, const char *const *extra,
                             const char *const *values);

/* Prints the table as its choice says: as JSON, else as text. */
gboolean ps_table_print (const PsTable *table, const char *format, const char *const *extra, GError **error);

/* Writes text to standard output as ps_format_page makes it, and reports failure (full disk, closed pipe) as
 * PS_ERROR_IO. */
gboolean ps_print (const char *text, GError **error);

/* The same for text that colours a terminal. */
gboolean ps_print_coloured (const char *text, GError **error);

/* The command lines of all programs: reading their options, and the text of --help. */

/* The text of --help without the options. Lines of text and examples end with "\n". */
typedef struct {
  const char *arguments; /* after the name of the program: "RESULTS.db"; NULL: nothing */
  const char *summary;   /* before the options, in sentences */
  const char *text;      /* after the options; NULL: nothing */
  const char *examples;  /* command lines, each on a line of its own */
} PsCommandHelp;

/* Reads the command line into base by the rows and removes their options from it, as g_option_context_parse does.
 * --help prints the options in groups, as wide as the window, and ends the program. Errors: those of GOption and of
 * ps_option_read; an unknown option is PS_ERROR_USAGE and names the one that may be meant. */
gboolean ps_command_parse (const PsCommandHelp *help, const PsOption *rows, gpointer base, int *argc, char ***argv,
                           GError **error);

/* The options in groups, a line each. Free with g_free. */
char *ps_command_options (const PsOption *rows);

/* A page of help as wide as the window. The rest of a line that is cut begins below its first letter, or below the one
 * after its first gap of two blanks or more. Free with g_free. */
char *ps_command_page (const char *text);

G_END_DECLS

#endif
