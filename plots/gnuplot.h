/* gnuplot.h - pictures by gnuplot. Nothing else in this project knows that gnuplot exists. */
#pragma once

#include <pipesim/base.h>

/* The text of a template, or of a part of the page, that lies in this folder. */
const char *ps_plot_file (const char *name);

/* Width and height in pixels of a letter in a terminal, for layouts. */
#define PS_TERMINAL_COLUMN 8
#define PS_TERMINAL_ROW 16

/* The options that all pictures have. */
typedef struct {
  char *output;      /* path; its ending says the format: .svg, .png or .pdf */
  gboolean terminal; /* to standard output as text, in place of output; width and height are set */
  gboolean plain;    /* terminal: no colours */
  char **inlined;    /* for a page: gets the SVG element, in place of output; free with g_free */
  char *title;       /* NULL: the picture's own */
  guint width;       /* pixels, 1/96 inch in PDF; 0: the picture decides */
  guint height;
  gboolean transfers; /* timelines: draw them too */
} PsPicture;

/* Refuses an output whose ending is no known format, or none that the gnuplot found here draws. Errors: PS_ERROR_USAGE,
 * PS_ERROR_UNAVAILABLE. */
gboolean ps_picture_check (const PsPicture *picture, GError **error);

/* Appends 'name = "text"'. */
void ps_gnuplot_append_text (GString *script, const char *name, const char *text);

/* Appends a text between double quotes, for commands and data blocks. Signs are written in octal, because gnuplot looks
 * for the end of the string, backquotes and macros before it reads them. Control characters become blanks. */
void ps_gnuplot_append_quoted (GString *script, const char *text);

/* Appends an array of n elements (one, if n is 0: gnuplot has no empty arrays), and its i-th element, from 1 on. */
void ps_gnuplot_append_array (GString *script, const char *name, guint n);
void ps_gnuplot_append_element (GString *script, const char *array, guint i, const char *text);

/* The same for the name of a tick, in which gnuplot looks for formats. */
void ps_gnuplot_append_tick (GString *script, const char *array, guint i, const char *text);

/* Appends "name = value", always with a decimal point: gnuplot divides integers as C does. */
void ps_gnuplot_append_number (GString *script, const char *name, double value);

/* Draws a picture of width x height layout pixels, unless the picture has its own size. gnuplot reads the terminal for
 * the picture's format, the variables title (`title`, unless the picture has one), width, height and letter (its
 * width in pixels), then `variables` (assignments and data blocks), style.gp and the template
 * ("timeline.gp"). A PNG without a given size gets twice the pixels, to be sharp in print. In a terminal the picture
 * appears on standard output, else picture->output appears whole or not at all. SVG shows hypertext, which is escaped
 * as in a URI, as the title of its point. Errors: PS_ERROR_UNAVAILABLE without gnuplot, PS_ERROR_IO with gnuplot's last
 * words. */
gboolean ps_gnuplot_draw (const PsPicture *picture, const char *title, guint width, guint height, const char *variables,
                          const char *template_name, GError **error);
