/* port.h - a TCP port for a test. */
#ifndef PS_TEST_PORT_H
#define PS_TEST_PORT_H

#include <glib.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* One that was free a moment ago. */
static inline guint16
free_port (void)
{
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
  socklen_t length = sizeof address;
  int fd = socket (AF_INET, SOCK_STREAM, 0);

  g_assert_cmpint (bind (fd, (struct sockaddr *)(void *)&address, sizeof address), ==, 0);
  g_assert_cmpint (getsockname (fd, (struct sockaddr *)(void *)&address, &length), ==, 0);
  close (fd);
  return ntohs (address.sin_port);
}

#endif
