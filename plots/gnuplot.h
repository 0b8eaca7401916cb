/* gnuplot.h - pictures by gnuplot. Nothing else in this project knows that gnuplot exists. */
#pragma once

#include <pipesim/base.h>

/* Width and height in pixels of a letter in a terminal, for layouts. */
#define PS_TERMINAL_COLUMN 8
#define PS_TERMINAL_ROW 16

/* The options that all pictures have. */
typedef struct
{
  char *output;      /* path; its ending says the format: .svg, .png or .pdf */
  gboolean terminal; /* to standard output as text, in place of output; width and height are set */
  gboolean plain;    /* terminal: no colours */
  char *title;       /* NULL: the picture's own */
  guint width;       /* pixels, 1/96 inch in PDF; 0: the picture decides */
  guint height;
  gboolean transfers; /* timelines: draw them too */
} PsPicture;

/* Width in pixels of a letter of names and figures, for layouts. */
double ps_picture_letter (const PsPicture *picture);

/* Refuses an output whose ending is no known format. Errors: PS_ERROR_USAGE. */
gboolean ps_picture_check (const PsPicture *picture, GError **error);

/* Appends 'name = "text"'. */
void ps_gnuplot_append_text (GString *script, const char *name, const char *text);

/* Appends a text between double quotes, for commands and data blocks. Signs are written in octal, because gnuplot looks
 * for the end of the string, backquotes and macros before it reads them. Control characters become blanks. */
void ps_gnuplot_append_quoted (GString *script, const char *text);

/* Appends a row of a data block: x y "text" colour. */
void ps_gnuplot_append_label (GString *rows, double x, double y, const char *text, guint32 colour);

/* Appends "name = value", always with a decimal point: gnuplot divides integers as C does. */
void ps_gnuplot_append_number (GString *script, const char *name, double value);

/* Draws a picture of width x height layout pixels. gnuplot reads the terminal for the picture's format, then
 * `variables` (assignments and data blocks), then the template ("timeline.gp"). A PNG without a given size gets twice
 * the pixels, to be sharp in print. In a terminal the picture appears on standard output, else picture->output appears
 * whole or not at all. Errors: PS_ERROR_UNAVAILABLE without gnuplot, PS_ERROR_IO with gnuplot's last words. */
gboolean ps_gnuplot_draw (const PsPicture *picture, guint width, guint height, const char *variables,
                          const char *template_name, GError **error);
