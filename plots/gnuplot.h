/* gnuplot.h - pictures by gnuplot. Nothing else in this project knows that gnuplot exists. */
#ifndef PS_GNUPLOT_H
#define PS_GNUPLOT_H

#include <pipesim/base.h>

G_BEGIN_DECLS

/* Pixels of a letter's place in a terminal, for layouts. */
#define PS_TERMINAL_COLUMN 8
#define PS_TERMINAL_ROW 16

/* What every picture is asked for with. */
typedef struct
{
  char *output;      /* path; its ending says the format: .svg, .png or .pdf */
  gboolean terminal; /* to standard output as text, in place of output; width and height are set */
  gboolean plain;    /* terminal: no colours */
  char *title;       /* NULL: the picture's own */
  guint width;       /* pixels, 1/96 inch in PDF; 0: as the picture likes */
  guint height;
  gboolean transfers; /* timelines: draw them too */
} PsPicture;

/* Pixels that a letter of names and figures is wide, for layouts. */
double ps_picture_letter (const PsPicture *picture);

/* Refuses an output whose ending is no known format. Errors: PS_ERROR_USAGE. */
gboolean ps_picture_check (const PsPicture *picture, GError **error);

/* Appends 'name = "text"'. */
void ps_gnuplot_append_text (GString *script, const char *name, const char *text);

/* Appends a text between double quotes, for commands and data blocks. Signs are written in octal: gnuplot looks for the
 * end of the string, backquoted commands and macros before it reads them. Control characters become blanks. */
void ps_gnuplot_append_quoted (GString *script, const char *text);

/* Appends a row of a data block: x y "text" colour. */
void ps_gnuplot_append_label (GString *rows, double x, double y, const char *text, guint32 colour);

/* Appends "name = value", always with a decimal point: gnuplot divides integers as C does. */
void ps_gnuplot_append_number (GString *script, const char *name, double value);

/* Draws: the terminal for picture's format at width x height layout pixels, then `variables` (assignments and data
 * blocks), then the template of that name ("timeline.gp"). A PNG of no given size gets twice the pixels, to be sharp in
 * print. In a terminal it appears on standard output, else picture->output appears whole or not at all. Errors:
 * PS_ERROR_UNAVAILABLE without gnuplot, PS_ERROR_IO with gnuplot's last words. */
gboolean ps_gnuplot_draw (const PsPicture *picture, guint width, guint height, const char *variables,
                          const char *template_name, GError **error);

G_END_DECLS

#endif
