/* data.h - initial weights and training data from a seed, the same on every device class and however the model is cut.
 */
#ifndef PIPESIM_EXEC_DATA_H
#define PIPESIM_EXEC_DATA_H

#include <glib.h>

G_BEGIN_DECLS

/* A stream of numbers is a layer's number, or one of these. */
#define PS_DATA_STREAM_EMBEDDING 0xffffff00u
#define PS_DATA_STREAM_HEAD 0xffffff01u

/* Makes n numbers with mean 0 and the given standard deviation that depend on (seed, stream, index) alone. They are
 * sums of four uniform numbers, hence nearly normal. */
void ps_data_weights (float *weights, gsize n, float deviation, guint64 seed, guint32 stream, guint32 index);

/* Makes words[row * (sequence + 1) + i] for `batch` rows: word i is input token i of a sequence, word i + 1 its target.
 * Most tokens follow from the token before them, so that there is something to learn. */
void ps_data_words (guint32 *words, guint batch, guint sequence, guint vocabulary, guint64 seed, guint microbatch);

G_END_DECLS

#endif
