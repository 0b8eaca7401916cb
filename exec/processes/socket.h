/* socket.h - TCP connections with deadlines. Moments are of CLOCK_MONOTONIC in ns; failures PS_ERROR_IO. */
#ifndef PIPESIM_EXEC_SOCKET_H
#define PIPESIM_EXEC_SOCKET_H

#include <glib.h>

G_BEGIN_DECLS

/* Listens at a port: at the host's loopback address if it has one of these, else at all addresses of this machine, IPv4
 * and IPv6. Returns a descriptor to close, or -1. */
int ps_socket_listen (const char *host, guint16 port, GError **error);

/* Connects to the first address of the host that answers, and tries again until the deadline while none does: rank 0
 * may not be there yet. Returns a descriptor to close, or -1. */
int ps_socket_connect (const char *host, guint16 port, gint64 deadline_ns, GError **error);

/* The next connection of a listening socket; -1: there is none now. */
int ps_socket_accept (int listener);

/* Sleeps until the descriptor has one of the poll events, or the deadline has come (FALSE). */
gboolean ps_socket_await (int fd, short events, gint64 deadline_ns);

/* Writes all bytes. Never raises SIGPIPE. */
gboolean ps_socket_write (int fd, gconstpointer bytes, gsize n_bytes, gint64 deadline_ns, GError **error);

/* Reads what is there, at most n_bytes, without waiting. Returns how many, 0: nothing now, -1: the other side has
 * closed, or the connection is broken. */
gssize ps_socket_read (int fd, gpointer bytes, gsize n_bytes);

/* Milliseconds for poll until a moment, rounded up; 0 when it has passed. */
int ps_socket_timeout (gint64 deadline_ns);

G_END_DECLS

#endif
