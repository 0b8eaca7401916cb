/* socket.c - TCP connections with deadlines. All descriptors are non-blocking; poll does the waiting. */
#include "socket.h"

#include "clock.h"

#include <pipesim/base.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024
#define RETRY_NS G_GINT64_CONSTANT (50000000)

typedef struct addrinfo AddrInfo;
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AddrInfo, freeaddrinfo)

int
ps_socket_timeout (gint64 deadline_ns)
{
  gint64 left_ns = deadline_ns - ps_clock_now ();

  return left_ns <= 0 ? 0 : (int)MIN (G_MAXINT, (left_ns + 999999) / 1000000);
}

static gboolean
fail (GError **error, const char *host, guint16 port, const char *cause)
{
  g_set_error (error, PS_ERROR, PS_ERROR_IO, "%s port %u: %s", host, port, cause);
  return FALSE;
}

static AddrInfo *
look_up (const char *host, guint16 port, GError **error)
{
  const AddrInfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
  g_autofree char *service = g_strdup_printf ("%u", port);
  AddrInfo *found = NULL;
  int code = getaddrinfo (host, service, &hints, &found);

  if (code != 0)
    fail (error, host, port, code == EAI_SYSTEM ? g_strerror (errno) : gai_strerror (code));
  return code == 0 ? found : NULL;
}

static gboolean
is_loopback (const struct sockaddr *address)
{
  if (address->sa_family == AF_INET)
    return ntohl (((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
  return address->sa_family == AF_INET6
         && IN6_IS_ADDR_LOOPBACK (&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

/* A new socket for an address, -1 with errno set when there is none. */
static int
open_socket (int family)
{
  int one = 1;
  int fd = socket (family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

  if (fd >= 0)
    {
      setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
      setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
  return fd;
}

static int
listen_at (const struct sockaddr *address, socklen_t length)
{
  int zero = 0;
  int fd = open_socket (address->sa_family);
  int cause;

  if (fd < 0)
    return -1;
  if (address->sa_family == AF_INET6)
    setsockopt (fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
  if (bind (fd, address, length) == 0 && listen (fd, BACKLOG) == 0)
    return fd;
  cause = errno;
  close (fd);
  errno = cause;
  return -1;
}

/* At all addresses; machines without IPv6 listen by IPv4 alone. */
static int
listen_anywhere (guint16 port)
{
  const struct sockaddr_in6 all = { .sin6_family = AF_INET6, .sin6_port = htons (port), .sin6_addr = in6addr_any };
  const struct sockaddr_in all4
      = { .sin_family = AF_INET, .sin_port = htons (port), .sin_addr.s_addr = htonl (INADDR_ANY) };
  int fd = listen_at ((const struct sockaddr *)(const void *)&all, sizeof all);

  if (fd < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL))
    fd = listen_at ((const struct sockaddr *)(const void *)&all4, sizeof all4);
  return fd;
}

int
ps_socket_listen (const char *host, guint16 port, GError **error)
{
  g_autoptr (AddrInfo) found = look_up (host, port, error);
  int fd;

  if (found == NULL)
    return -1;
  fd = is_loopback (found->ai_addr) ? listen_at (found->ai_addr, found->ai_addrlen) : listen_anywhere (port);
  if (fd < 0)
    fail (error, host, port, g_strerror (errno));
  return fd;
}

gboolean
ps_socket_await (int fd, short events, gint64 deadline_ns)
{
  struct pollfd item = { .fd = fd, .events = events };
  int n;

  while ((n = poll (&item, 1, ps_socket_timeout (deadline_ns))) < 0 && errno == EINTR)
    ;
  return n > 0;
}

/* Where nobody listens yet, a connection can meet itself: the system may have chosen that very port for its own end. */
static gboolean
is_own_echo (int fd)
{
  struct sockaddr_storage own = { 0 }, peer = { 0 };
  socklen_t own_length = sizeof own, peer_length = sizeof peer;

  return getsockname (fd, (struct sockaddr *)(void *)&own, &own_length) == 0
         && getpeername (fd, (struct sockaddr *)(void *)&peer, &peer_length) == 0 && own_length == peer_length
         && memcmp (&own, &peer, own_length) == 0;
}

/* Zero, or the errno of the failure. */
static int
connect_to (int fd, const AddrInfo *address, gint64 deadline_ns)
{
  int cause = 0;
  socklen_t size = sizeof cause;

  if (connect (fd, address->ai_addr, address->ai_addrlen) == 0)
    return 0;
  if (errno != EINPROGRESS)
    return errno;
  if (!ps_socket_await (fd, POLLOUT, deadline_ns))
    return ETIMEDOUT;
  return getsockopt (fd, SOL_SOCKET, SO_ERROR, &cause, &size) == 0 ? cause : errno;
}

static int
connect_once (const AddrInfo *addresses, gint64 deadline_ns, int *cause)
{
  for (const AddrInfo *address = addresses; address != NULL; address = address->ai_next)
    {
      int fd = open_socket (address->ai_family);

      *cause = fd < 0 ? errno : connect_to (fd, address, deadline_ns);
      if (*cause == 0 && is_own_echo (fd))
        *cause = ECONNREFUSED;
      if (*cause == 0)
        return fd;
      if (fd >= 0)
        close (fd);
    }
  return -1;
}

int
ps_socket_connect (const char *host, guint16 port, gint64 deadline_ns, GError **error)
{
  g_autoptr (AddrInfo) found = look_up (host, port, error);
  int cause = ETIMEDOUT;
  int fd;

  if (found == NULL)
    return -1;
  while ((fd = connect_once (found, deadline_ns, &cause)) < 0 && ps_clock_now () + RETRY_NS < deadline_ns)
    g_usleep (RETRY_NS / 1000);
  if (fd < 0)
    fail (error, host, port, g_strerror (cause));
  return fd;
}

int
ps_socket_accept (int listener)
{
  int one = 1;
  int fd = accept4 (listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

  if (fd >= 0)
    setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

static gboolean
is_temporary (int cause)
{
  return cause == EAGAIN || cause == EWOULDBLOCK || cause == EINTR;
}

gboolean
ps_socket_write (int fd, gconstpointer bytes, gsize n_bytes, gint64 deadline_ns, GError **error)
{
  const guint8 *at = bytes;
  int cause = 0;

  while (n_bytes > 0 && cause == 0)
    {
      gssize n = send (fd, at, n_bytes, MSG_NOSIGNAL);

      if (n >= 0)
        {
          at += n;
          n_bytes -= (gsize)n;
        }
      else if (!is_temporary (errno))
        cause = errno;
      else if (!ps_socket_await (fd, POLLOUT, deadline_ns))
        cause = ETIMEDOUT;
    }
  if (cause != 0)
    g_set_error (error, PS_ERROR, PS_ERROR_IO, "can't be written to: %s", g_strerror (cause));
  return cause == 0;
}

gssize
ps_socket_read (int fd, gpointer bytes, gsize n_bytes)
{
  gssize n = recv (fd, bytes, n_bytes, 0);

  if (n > 0)
    return n;
  return n < 0 && is_temporary (errno) ? 0 : -1;
}
