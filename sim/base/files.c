/* files.c - files that appear whole or not at all, text files read whole, and gzip files. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* Gzip files. */

#define BLOCK_BYTES (1 << 16)
/* Texts of programs shrink to a tenth or so. More than this, and it is there to fill a memory or to take time. */
#define MOST_TIMES 100
#define ANY_RATIO_BYTES (16 << 20) /* where a text may begin with whatever it likes */
#define MAX_WHOLE_BYTES ((gsize)1 << 30)

GBytes *ps_pack (const char *contents, gsize n)
{
  GByteArray *packed = g_byte_array_new ();
  g_autofree guchar *block = g_malloc (BLOCK_BYTES);
  const guchar *end = (const guchar *)contents + n;
  z_stream stream = { .next_in = (guchar *)contents };
  int result = deflateInit2 (&stream, Z_BEST_SPEED, Z_DEFLATED, 16 + MAX_WBITS, MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY);

  while (result == Z_OK) {
    stream.avail_in = (guint)MIN (end - stream.next_in, G_MAXINT);
    stream.next_out = block;
    stream.avail_out = BLOCK_BYTES;
    result = deflate (&stream, end - stream.next_in > G_MAXINT ? Z_NO_FLUSH : Z_FINISH);
    g_byte_array_append (packed, block, BLOCK_BYTES - stream.avail_out);
  }
  deflateEnd (&stream);
  if (result == Z_STREAM_END)
    return g_byte_array_free_to_bytes (packed);
  g_byte_array_unref (packed);
  return NULL;
}

gboolean ps_is_packed (const char *contents, gsize n)
{
  return n >= 2 && memcmp (contents, "\x1f\x8b", 2) == 0;
}

struct _PsUnpacker {
  guchar *data;
  gsize size;
  gboolean packed;
  gsize n_copied; /* where it is not */
  z_stream stream;
  int result; /* of zlib: Z_OK, or Z_STREAM_END after the last byte */
};

PsUnpacker *ps_unpacker_new (const char *data, gsize size)
{
  PsUnpacker *unpacker = g_new0 (PsUnpacker, 1);

  unpacker->data = (guchar *)data;
  unpacker->size = size;
  unpacker->packed = ps_is_packed (data, size);
  unpacker->result = inflateInit2 (&unpacker->stream, 16 + MAX_WBITS);
  unpacker->stream.next_in = unpacker->data;
  return unpacker;
}

void ps_unpacker_free (PsUnpacker *unpacker)
{
  if (unpacker == NULL)
    return;
  inflateEnd (&unpacker->stream);
  g_free (unpacker);
}

void ps_unpacker_rewind (PsUnpacker *unpacker)
{
  unpacker->n_copied = 0;
  unpacker->result = inflateReset (&unpacker->stream);
  unpacker->stream.next_in = unpacker->data;
}

gboolean ps_unpacker_read (PsUnpacker *unpacker, const char *where, char *block, gsize n, gsize *n_read, GError **error)
{
  z_stream *stream = &unpacker->stream;

  if (!unpacker->packed) {
    *n_read = MIN (n, unpacker->size - unpacker->n_copied);
    memcpy (block, unpacker->data + unpacker->n_copied, *n_read);
    unpacker->n_copied += *n_read;
    return TRUE;
  }
  stream->next_out = (guchar *)block;
  stream->avail_out = (guint)MIN (n, G_MAXINT);
  while (unpacker->result == Z_OK && stream->avail_out > 0) {
    stream->avail_in = (guint)MIN (unpacker->size - (gsize)(stream->next_in - unpacker->data), G_MAXINT);
    unpacker->result = inflate (stream, Z_NO_FLUSH);
  }
  *n_read = (gsize)((char *)stream->next_out - block);
  if (stream->total_out > ANY_RATIO_BYTES && stream->total_out / MOST_TIMES > stream->total_in)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: cannot unpack: it holds more than %d times its size", where,
                      MOST_TIMES);
  if (unpacker->result == Z_OK || unpacker->result == Z_STREAM_END)
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: cannot unpack: %s", where,
                    unpacker->result == Z_BUF_ERROR ? "the file is cut off" : "the file is damaged");
}

char *ps_unpack (const char *where, const char *data, gsize size, gsize *length, GError **error)
{
  g_autoptr (PsUnpacker) unpacker = ps_unpacker_new (data, size);
  g_autoptr (GByteArray) text = g_byte_array_new ();
  gsize n = BLOCK_BYTES;

  for (*length = 0; n == BLOCK_BYTES && *length <= MAX_WHOLE_BYTES; *length += n) {
    g_byte_array_set_size (text, (guint)(*length + BLOCK_BYTES + 1));
    if (!ps_unpacker_read (unpacker, where, (char *)text->data + *length, BLOCK_BYTES, &n, error))
      return NULL;
  }
  if (*length > MAX_WHOLE_BYTES)
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: cannot unpack: it holds more than 1 GiB", where);
  text->data[*length] = '\0';
  return (char *)g_byte_array_free (g_steal_pointer (&text), FALSE);
}

/* Writing and reading. */

#define MAX_FILE_BYTES (G_GINT64_CONSTANT (1) << 30)

static gboolean set_io_error (const char *path, const char *what, int code, GError **error)
{
  return ps_refuse (error, PS_ERROR_IO, "%s: %s: %s", path, what, g_strerror (code));
}

static gboolean write_all (int fd, const char *contents, gsize length)
{
  while (length > 0) {
    gssize written = write (fd, contents, length);

    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return FALSE;
    contents += written;
    length -= (gsize)written;
  }
  return TRUE;
}

#define READER_WAIT_US (2 * G_USEC_PER_SEC)

/* A pipe opens for writing while a program reads it; one that is just starting gets some time. */
static int open_in_place (const char *path)
{
  gint64 end_us = g_get_monotonic_time () + READER_WAIT_US;
  int fd;

  while ((fd = g_open (path, O_WRONLY | O_NONBLOCK | O_CLOEXEC, 0)) < 0 && errno == ENXIO
         && g_get_monotonic_time () < end_us)
    g_usleep (10000);
  if (fd >= 0)
    fcntl (fd, F_SETFL, fcntl (fd, F_GETFL) & ~O_NONBLOCK);
  return fd;
}

/* Devices, pipes and the like cannot be replaced by a rename and are written in place. */
static gboolean write_in_place (const char *path, const char *contents, gsize length, GError **error)
{
  int fd = open_in_place (path);

  if (fd < 0 && errno == ENXIO)
    return ps_refuse (error, PS_ERROR_IO, "%s: no program reads this pipe", path);
  if (fd < 0)
    return set_io_error (path, "cannot open for writing", errno, error);
  gboolean done = write_all (fd, contents, length);
  int code = errno;
  if (close (fd) != 0 && done) {
    done = FALSE;
    code = errno;
  }
  return done || set_io_error (path, "cannot write", code, error);
}

static char *being_written; /* the temporary file of write_aside; NULL: none */

/* Removes the temporary file, then raises the signal again for its default action. */
static void remove_temporary (int number)
{
  const char *path = g_atomic_pointer_get (&being_written);

  if (path != NULL)
    unlink (path);
  raise (number);
}

void ps_catch_signals (void)
{
  static const int numbers[] = { SIGHUP, SIGINT, SIGTERM, SIGXFSZ };
  const struct sigaction action = { .sa_handler = remove_temporary, .sa_flags = (int)SA_RESETHAND };
  struct sigaction old;

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (sigaction (numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
      sigaction (numbers[i], &action, NULL);
}

static gint noted; /* atomic: see ps_note_signals */

static void note_signal (int number)
{
  g_atomic_int_set (&noted, number);
}

const gint *ps_note_signals (void)
{
  static const int numbers[] = { SIGINT, SIGTERM };
  const struct sigaction action = { .sa_handler = note_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART };
  struct sigaction old;

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (sigaction (numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
      sigaction (numbers[i], &action, NULL);
  return &noted;
}

/* The file at the end of all links of path, which form no circle. It need not exist. */
static char *follow_links (const char *path)
{
  char *target = g_strdup (path);

  for (char *link = g_file_read_link (target, NULL); link != NULL; link = g_file_read_link (target, NULL)) {
    g_autofree char *folder = g_path_get_dirname (target);

    g_free (target);
    target = g_path_is_absolute (link) ? g_strdup (link) : g_build_filename (folder, link, NULL);
    g_free (link);
  }
  return target;
}

/* Ignores failure: a file system that cannot do this has no need of it. */
static void sync_folder (const char *path)
{
  g_autofree char *folder = g_path_get_dirname (path);
  int fd = g_open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

  if (fd < 0)
    return;
  fsync (fd);
  close (fd);
}

/* `old` is the file that is replaced; NULL: none. */
static gboolean write_aside (const char *path, const GStatBuf *old, const char *contents, gsize length, GError **error)
{
  g_autofree char *temporary = g_strconcat (path, ".XXXXXX", NULL);

  g_atomic_pointer_set (&being_written, temporary);
  int fd = g_mkstemp_full (temporary, O_RDWR | O_CLOEXEC, 0666);
  gboolean done = fd >= 0 && (old == NULL || fchmod (fd, old->st_mode & 07777) == 0) && write_all (fd, contents, length)
                  && fsync (fd) == 0;
  int code = errno;
  if (fd >= 0 && close (fd) != 0 && done) {
    done = FALSE;
    code = errno;
  }
  if (done && g_rename (temporary, path) != 0) {
    done = FALSE;
    code = errno;
  }
  if (fd >= 0 && !done)
    g_unlink (temporary);
  g_atomic_pointer_set (&being_written, NULL);
  if (done)
    sync_folder (path);
  return done || set_io_error (path, fd < 0 ? "cannot create" : "cannot write", code, error);
}

/* A database is never replaced: its log is a file next to it, and its contents took long to measure. */
static gboolean is_database (const char *path)
{
  static const char mark[] = "SQLite format 3";
  char head[sizeof mark] = "";
  FILE *file = fopen (path, "re");
  gsize n = file != NULL ? fread (head, 1, sizeof head, file) : 0;

  if (file != NULL)
    fclose (file);
  return n == sizeof head && memcmp (head, mark, sizeof mark) == 0;
}

gboolean ps_write_file (const char *path, const char *contents, gssize length, GError **error)
{
  gsize n = length < 0 ? strlen (contents) : (gsize)length;
  g_autoptr (GBytes) packed = NULL;

  if (g_str_has_suffix (path, ".gz")) {
    packed = ps_pack (contents, n);
    if (packed == NULL)
      return ps_refuse (error, PS_ERROR_IO, "%s: no memory to pack it", path);
    contents = g_bytes_get_data (packed, &n);
  }
  if (g_str_equal (path, "-"))
    return ps_write_stream (stdout, contents, n) || set_io_error ("standard output", "cannot write", errno, error);
  GStatBuf status;
  gboolean exists = g_stat (path, &status) == 0;
  if (!exists && errno == ELOOP)
    return set_io_error (path, "cannot write", ELOOP, error);
  if (exists && S_ISDIR (status.st_mode))
    return set_io_error (path, "cannot write", EISDIR, error);
  if (exists && !S_ISREG (status.st_mode))
    return write_in_place (path, contents, n, error);
  if (is_database (path))
    return ps_refuse (error, PS_ERROR_IO, "%s: is a database, and is not overwritten", path);
  g_autofree char *target = follow_links (path);
  return write_aside (target, exists ? &status : NULL, contents, n, error);
}

/* The errno that keeps path from being written, in place if it is no regular file; 0: none. */
static int check_path (const char *path)
{
  g_autofree char *folder = g_path_get_dirname (path);
  GStatBuf status;

  if (g_stat (path, &status) == 0 && S_ISDIR (status.st_mode))
    return EISDIR;
  if (g_stat (path, &status) == 0 && !S_ISREG (status.st_mode))
    return access (path, W_OK) != 0 ? errno : 0;
  if (g_file_test (folder, G_FILE_TEST_EXISTS) && !g_file_test (folder, G_FILE_TEST_IS_DIR))
    return ENOTDIR;
  return access (folder, W_OK | X_OK) != 0 ? errno : 0;
}

gboolean ps_output_check (const char *option, const char *path, GError **error)
{
  int cause = path == NULL || g_str_equal (path, "-") ? 0 : check_path (path);

  if (cause != 0)
    g_set_error (error, PS_ERROR, PS_ERROR_IO, "%s: %s: %s", option, path, g_strerror (cause));
  return cause == 0;
}

gboolean ps_read_file (const char *path, char **contents, gsize *length, GError **error)
{
  g_autoptr (GError) cause = NULL;
  GStatBuf status;
  gsize unasked;

  if (length == NULL)
    length = &unasked;
  if (g_stat (path, &status) != 0)
    return set_io_error (path, "cannot read", errno, error);
  if (S_ISDIR (status.st_mode))
    return set_io_error (path, "cannot read", EISDIR, error);
  if (status.st_size > MAX_FILE_BYTES)
    return set_io_error (path, "cannot read", EFBIG, error);
  if (!g_file_get_contents (path, contents, length, &cause))
    return ps_refuse (error, PS_ERROR_IO, "%s: cannot read: %s", path, cause->message);
  if (!ps_is_packed (*contents, *length))
    return TRUE;
  g_autofree char *packed = *contents;
  *contents = ps_unpack (path, packed, *length, length, error);
  return *contents != NULL;
}
