/* base.h - the words that all other headers use: limits, errors, op kinds, origins of figures; and how times and sizes
 * are read and printed.
 *
 * Times are integer nanoseconds and sizes integer bytes throughout (gint64). Sums are exact, so that two engines can be
 * compared with ==.
 */
#ifndef PIPESIM_BASE_H
#define PIPESIM_BASE_H

#include <glib.h>
#include <stdio.h>

G_BEGIN_DECLS

#define PS_VERSION "0.1.0"

/* Limits that every reader and option parser enforces; inside them no index and no sum overflows. */
#define PS_MAX_DEVICES 4096
#define PS_MAX_STAGES 16384
#define PS_MAX_GPUS (1 << 19) /* GPUs of a cluster; PS_MAX_DEVICES limits one pipeline */
#define PS_MAX_MICROBATCHES (1 << 20)
#define PS_MAX_OPS (1 << 26)
#define PS_MAX_SLICES 255
#define PS_MAX_TIME_NS G_GINT64_CONSTANT (1000000000000000) /* one op: 10^15 ns, about 11 days */
#define PS_MAX_SUM_NS 4e18                                  /* times added up as gint64 */
#define PS_MAX_SIZE_BYTES ((gint64)1 << 50)                 /* one quantity: 1 PiB */
#define PS_MIN_SPEED 0.001                                  /* speed of a device; 1: as the costs say */
#define PS_MAX_SPEED 1000
#define PS_MIN_FACTOR 0.000001 /* factor on links; 1: as described */
#define PS_MAX_FACTOR 1000000
#define PS_MAX_TOKENS G_GINT64_CONSTANT (1000000000000000)  /* of a training: 10^15 */
#define PS_MAX_PERCENT 100000                               /* limit of tolerances */
#define PS_MAX_RATE G_GINT64_CONSTANT (1000000000000000000) /* bytes per second: 10^18 */

/* The one error domain. Messages start with where ("stage 3: ...", "gpt.ini:12: ...") and name the value.
 * They are one line and end without a full stop. */
#define PS_ERROR (ps_error_quark ())
GQuark ps_error_quark (void);

typedef enum {
  PS_ERROR_USAGE,       /* an option or argument is wrong; programs exit with 2 */
  PS_ERROR_INPUT,       /* a file holds something wrong or foreign; 1 */
  PS_ERROR_IO,          /* reading or writing failed; 1 */
  PS_ERROR_SCHEDULE,    /* a schedule breaks a rule: incomplete, misplaced, out of order, deadlock; 1 */
  PS_ERROR_UNAVAILABLE, /* the machine or build lacks something; 1 */
} PsError;

/* Sets an error of that code with a message as of printf; returns FALSE. */
gboolean ps_refuse (GError **error, PsError code, const char *format, ...) G_GNUC_PRINTF (3, 4);

/* The same for a function that returns a pointer; returns NULL. */
gpointer ps_refuse_null (GError **error, PsError code, const char *format, ...) G_GNUC_PRINTF (3, 4);

/* The exit code for an error: 2 for PS_ERROR_USAGE and errors of GOption, 1 for all others. */
int ps_error_exit_code (const GError *error);

/* The message as ps_format_line makes it. GOption does not say which argument is no text; this line names it. argv is
 * the command line and ends with NULL. Free with g_free. */
char *ps_error_line (const GError *error, char *const *argv);

/* Prints "where: " and that line on standard error, and returns the exit code. */
int ps_error_report (const char *where, const GError *error, char *const *argv);

/* Where a figure comes from. Every stored or printed figure says which it is. */
typedef enum {
  PS_ORIGIN_GIVEN,        /* typed in by the user */
  PS_ORIGIN_MEASURED,     /* read from a clock or an allocator while the real thing ran */
  PS_ORIGIN_INTERPOLATED, /* between measured points */
  PS_ORIGIN_MODELLED,     /* from a formula */
  PS_ORIGIN_SIMULATED,    /* computed by the simulator from costs of any origin */
} PsOrigin;

const char *ps_origin_name (PsOrigin origin); /* "given", "measured", ... */

/* Reads the names of ps_origin_name. Errors as those of ps_parse_name. */
gboolean ps_origin_parse (const char *where, const char *text, PsOrigin *origin, GError **error);

/* The kinds of ops. B is the backward for the input, W the backward for the weights, BW both in one op. */
typedef enum {
  PS_OP_F,  /* forward */
  PS_OP_B,  /* backward for the input */
  PS_OP_W,  /* backward for the weights */
  PS_OP_BW, /* full backward in one op */
  PS_OP_R,  /* recompute of a forward */
  PS_OP_O,  /* optimizer step */
  PS_N_OP_KINDS
} PsOpKind;

/* Index of an op into PsCosts.op; length is that of its microbatch (costs.h). */
static inline guint ps_op_index (guint n_stages, guint n_lengths, guint kind, guint length, guint stage)
{
  return (kind * n_lengths + length) * n_stages + stage;
}

const char *ps_op_kind_name (PsOpKind kind); /* "F", "B", "W", "BW", "R", "O" */

/* Reads the names of ps_op_kind_name. Errors as those of ps_parse_name. */
gboolean ps_op_kind_parse (const char *where, const char *text, PsOpKind *kind, GError **error);

/* Reads "250us" or "250µs", "1.5ms", "2s", "40ns"; a bare number is refused except 0. Negative, absurd (above
 * PS_MAX_TIME_NS) and malformed texts give PS_ERROR_USAGE whose message starts with `where`. */
gboolean ps_parse_time (const char *where, const char *text, gint64 *ns, GError **error);

/* Reads "64KiB", "1.5GiB", "80GB", "512B": kB, MB, GB and TB are decimal, also without the B, and KiB, MiB, GiB and TiB
 * binary. Case does not count. A bare number is refused except 0. Wrong texts give PS_ERROR_USAGE whose message starts
 * with `where`. */
gboolean ps_parse_size (const char *where, const char *text, gint64 *bytes, GError **error);

/* Reads "10GB/s", "25GiB/s", "400Gbit/s" as bytes per second; a bare number is refused. Units are those of sizes, but
 * case counts, because "Gb" may be bits; bits are decimal. From 1 B/s to PS_MAX_RATE, else PS_ERROR_USAGE. */
gboolean ps_parse_rate (const char *where, const char *text, gint64 *bytes_per_second, GError **error);

/* Reads "1T", "300B", "15M", "2.5K" or a number alone: B is 10^9, as people count the tokens of a training. From 1 to
 * PS_MAX_TOKENS, else PS_ERROR_USAGE. */
gboolean ps_parse_tokens (const char *where, const char *text, gint64 *tokens, GError **error);

/* Reads a decimal integer in [low, high], nothing else. */
gboolean ps_parse_integer (const char *where, const char *text, gint64 low, gint64 high, gint64 *value, GError **error);

/* For main functions: sends GLib's messages to standard error, because standard output is for data, and makes what
 * g_printerr writes safe on a terminal (ps_format_page). GLib traps where it
 * gets no memory or thread; the program ends with one line and exit code 1 instead. Lets a terminal show progress. */
void ps_log_to_stderr (void);

/* What this thread prints from here on is appended to these texts: standard output's, and what g_printerr writes after
 * ps_log_to_stderr. NULL, NULL: it goes to the streams again. The texts stay the caller's. */
void ps_capture (GString *output, GString *errors);

/* Writes to stdout or stderr, or to the text that ps_capture gave for it. FALSE: it failed, and errno says why. */
gboolean ps_write_stream (FILE *stream, const char *text, gsize n);

/* For main functions: a prediction takes the memory that the one before it has freed, because the system does not get
 * it in between. The memory of a thread grows in large steps, not page by page with a system call each. Sets values of
 * glibc's mallopt, and does nothing with other C libraries. */
void ps_keep_memory (void);

/* Reads a plain decimal number in [low, high], "0.25": no sign, no exponent. Errors: PS_ERROR_USAGE. */
gboolean ps_parse_number (const char *where, const char *text, double low, double high, double *value, GError **error);

/* Reads a percentage in [low, high], "2.5" or "2.5%", as a ratio, 0.025. Errors: PS_ERROR_USAGE. */
gboolean ps_parse_percent (const char *where, const char *text, double low, double high, double *ratio, GError **error);

/* Reads one of n names as its index, such as the names of an enumeration that counts from 0. "fp4=nvfp4" after these
 * makes fp4 another word for nvfp4. *index stays as it is on failure. Errors: PS_ERROR_USAGE "where: 'TEXT' is not one
 * of A, B, C". */
gboolean ps_parse_name (const char *where, const char *text, const char *const *names, guint n, guint *index,
                        GError **error);

/* "12.35 ms", "980 ns", "1.21 s": four significant digits. Free with g_free. */
char *ps_format_time (gint64 ns);

/* "1.5 GiB", "64 KiB", "512 B": four significant digits. Free with g_free. */
char *ps_format_size (gint64 bytes);

/* "3.35 TB/s", "450 GB/s": four significant digits, decimal. Free with g_free. */
char *ps_format_rate (double bytes_per_second);

/* "0.1235", "2.013 M", "1.8 T": four significant digits, from 10000 on with a decimal prefix; "0.015625", a number of
 * at most six digits as it is. Free with g_free. */
char *ps_format_number (double value);

/* The text as one line that is safe on a terminal. Control characters (line ends and escapes too) become blanks, bytes
 * that are not UTF-8 become U+FFFD. Free with g_free. */
char *ps_format_line (const char *text);

/* The same with line ends and tabs, which a diff needs. Where it is coloured, the escape sequences that set colours and
 * styles stay, too. All that programs print goes through here: ps_print and ps_print_coloured (option.h), and
 * g_printerr (ps_log_to_stderr). Free with g_free. */
char *ps_format_page (const char *text, gboolean coloured);

/* A line on standard error that says how far long work is. Programs that call ps_log_to_stderr show it on a terminal
 * whose TERM is not dumb; nowhere else do these functions print. Whatever is printed next wipes it, and so does the end
 * of the program. For any thread.
 *
 * ps_progress_begin: work begins, from which the time left counts; time_limit_ns 0: it has none. ps_progress_due: TRUE
 * five times a second at most; it costs no more than a look at the clock. Only where it is TRUE does a caller make its
 * text and call ps_progress_show: "DONE of TOTAL UNITS, TEXT, 12 s left". total 0: it is not known, and the text stands
 * alone; units NULL: the numbers are not shown, but the time left is. ps_progress_end: wipes the line before g_print.
 */
void ps_progress_begin (gint64 time_limit_ns);
gboolean ps_progress_due (void);
void ps_progress_end (void);
void ps_progress_show (guint64 done, guint64 total, const char *units, const char *format, ...) G_GNUC_PRINTF (4, 5);

/* The end of an error about a name that is none of n: "; did you mean NAME?" with a prefix to NAME, or "" if no name is
 * close. Free with g_free. */
char *ps_did_you_mean (const char *text, const char *const *names, guint n, const char *prefix);

/* Fails about a name that is none of n: "PROBLEM NAME, NAME; did you mean NAME?", with all of them. Before a long list
 * stands what is meant: "PROBLEM; did you mean NAME? (there are NAME, NAME)", where the problem ends "PROBLEM; there
 * are". */
gboolean ps_refuse_name (GError **error, const char *problem, const char *name, const char *const *names, guint n);

/* The row of that name in a table of n pointers to structures that begin with their name (a const char *). Errors:
 * PS_ERROR_USAGE "where: 'NAME' is no WHAT; there are ..., ..." with all names. */
gconstpointer ps_table_find (const char *where, const char *what, const char *name, gconstpointer table, guint n,
                             GError **error);

/* Writes contents to path so that the file appears whole or not at all (temporary file in its folder, fsync, rename,
 * fsync of the folder). A replaced file keeps its mode. A link stays a link; the file that it leads to is written. path
 * "-" writes to standard output; a file whose name ends in .gz is packed. For one thread at a time. Errors: PS_ERROR_IO
 * with path and cause, also where the file at path is a database. */
gboolean ps_write_file (const char *path, const char *contents, gssize length, GError **error);

/* For programs, which call it once at their start: SIGHUP, SIGINT, SIGTERM and SIGXFSZ remove the temporary file of
 * ps_write_file before they end the process. An ignored signal stays ignored, and a handled one keeps its handler. */
void ps_catch_signals (void);

/* For programs that can end early with the results so far: from now on the first SIGINT or SIGTERM only sets the number
 * that is returned (atomic, 0 until then), and a second one ends the program. An ignored signal stays ignored. */
const gint *ps_note_signals (void);

/* Fails when ps_write_file could not write to path later, so that a long run does not end in vain. NULL: nothing to
 * check. Errors: PS_ERROR_IO with option, path and cause. */
gboolean ps_output_check (const char *option, const char *path, GError **error);

/* Reads a whole text file, and unpacks it where it is a gzip file; a directory, an unreadable file or one above 1 GiB
 * gives PS_ERROR_IO. Free *contents with g_free. */
gboolean ps_read_file (const char *path, char **contents, gsize *length, GError **error);

/* Below 0, 0 or above 0, as x is less than y, equal to y or more; evaluates both twice. NaN is equal to all, so that
 * arrays with NaN can't be sorted by it. */
#define PS_COMPARE(x, y) (((x) > (y)) - ((x) < (y)))

/* Define a comparison of an array's elements by a member, for qsort, g_array_sort and the like: the smallest first, or
 * the largest first. */
#define PS_DEFINE_ORDER(name, Type, member)                                                                            \
  static int name (gconstpointer a, gconstpointer b)                                                                   \
  {                                                                                                                    \
    return PS_COMPARE (((const Type *)a)->member, ((const Type *)b)->member);                                          \
  }
#define PS_DEFINE_FALLING_ORDER(name, Type, member)                                                                    \
  static int name (gconstpointer a, gconstpointer b)                                                                   \
  {                                                                                                                    \
    return PS_COMPARE (((const Type *)b)->member, ((const Type *)a)->member);                                          \
  }

/* Comparisons of gint64 and of double values: the smallest first. */
int ps_compare_int64 (gconstpointer a, gconstpointer b);
int ps_compare_double (gconstpointer a, gconstpointer b);

/* The index of the first element of an ascending array whose time is after time_ns; the array's length: there is none.
 * offset: of the gint64 in each element. */
guint ps_first_after (const GArray *array, gsize offset, gint64 time_ns);

/* The greatest common divisor, by Euclid; of 0 and a number it is the number. */
static inline gint64 ps_common_divisor (gint64 a, gint64 b)
{
  while (b != 0) {
    gint64 rest = a % b;

    a = b;
    b = rest;
  }
  return a;
}

/* Median of n values (the lower of the two middle ones for even n); values are reordered. n > 0. */
gint64 ps_median (gint64 *values, gsize n);

/* Mean of n values, rounded to the nearest. n > 0. */
gint64 ps_mean (const gint64 *values, gsize n);

G_END_DECLS

#endif
