/* data.h - initial weights and training data from a seed, the same on every device class and however the model is cut.
 */
#pragma once

#include <pipesim/device.h>

/* A stream of numbers is a layer's number, or one of these. */
#define PS_DATA_STREAM_EMBEDDING 0xffffff00u
#define PS_DATA_STREAM_HEAD 0xffffff01u

/* Makes n numbers with mean 0 and the given standard deviation that depend on (seed, stream, index) alone. They are
 * sums of four uniform numbers, hence nearly normal. */
void ps_data_weights (float *weights, gsize n, float deviation, guint64 seed, guint32 stream, guint32 index);

/* Makes words[row * (sequence + 1) + i] for `batch` rows: word i is input token i of a sequence, word i + 1 its target.
 * Most tokens follow from the token before them, so that there is something to learn. */
void ps_data_words (guint32 *words, guint batch, guint sequence, guint vocabulary, guint64 seed, guint microbatch);

/* The same rows from a text of more than `sequence` bytes: each begins at a place drawn from the seed and the row's
 * number among all rows of the training. */
void ps_data_text (guint32 *words, guint batch, guint sequence, GBytes *text, guint64 seed, guint64 microbatch);

/* Makes the words of the device's own microbatch in a step, from the text of its training or without one. */
void ps_data_read (guint32 *words, const PsDeviceSetting *setting, guint64 step, guint microbatch);

/* The learning rate in a step, counted from 0, as Megatron-LM's OptimizerParamScheduler has it (warm-up from 0,
 * cosine). training NULL: 0.001. */
double ps_data_rate (const PsTraining *training, guint64 step);

/* The text that ships: sums of two numbers below a hundred in words, one to a line, the same in every run. */
#define PS_CORPUS_SUMS "sums"

/* The bytes of a text: PS_CORPUS_SUMS or a file. Each byte is a token, so the model needs a vocabulary of 256, and the
 * text has to be longer than a sequence. Errors: PS_ERROR_USAGE "option: ...", PS_ERROR_IO. Free with
 * g_bytes_unref. */
GBytes *ps_corpus_load (const char *option, const char *name, const PsModel *model,
                        GError **error) G_GNUC_WARN_UNUSED_RESULT;
