/* data.h - initial weights and training data from a seed, the same on every device class and however the model is cut.
 */
#ifndef PIPESIM_EXEC_DATA_H
#define PIPESIM_EXEC_DATA_H

#include <glib.h>

G_BEGIN_DECLS

/* Where a number stream belongs: a layer's number, or one of these. */
#define PS_DATA_STREAM_EMBEDDING 0xffffff00u
#define PS_DATA_STREAM_HEAD 0xffffff01u

/* n numbers with mean 0 and the given standard deviation that depend on (seed, stream, index) alone; nearly normal:
 * sums of four uniform numbers. */
void ps_data_weights (float *weights, gsize n, float deviation, guint64 seed, guint32 stream, guint32 index);

/* words[row * (sequence + 1) + i], for `batch` rows: the input token i of a sequence and, one further, its target. Each
 * token determines the next one most of the time, so that there is something to learn. */
void ps_data_words (guint32 *words, guint batch, guint sequence, guint vocabulary, guint64 seed, guint microbatch);

G_END_DECLS

#endif
