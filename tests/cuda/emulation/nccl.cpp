/* nccl.cpp - emulated NCCL: rank 0 of a communicator listens at an abstract Unix address that the id names, the others
 * connect; operations run in the threads of their streams. */
#include <nccl.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct ncclComm {
  int rank, n_ranks;
  std::string address;
  std::vector<int> peers; /* descriptors; rank 0: of rank i at i, else of rank 0 at 0 */
  std::thread opener;     /* opens the communicator, then takes its messages */
  std::mutex lock;
  std::condition_variable changed;
  ncclResult_t state = ncclInProgress;
  bool aborted = false;
  int n_pending = 0; /* operations not done yet */
};

static std::mutex listeners_lock;
static std::map<std::string, int> listeners; /* of ids made here and not used yet */

static int new_socket (void)
{
  return socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static socklen_t fill_address (const std::string &name, sockaddr_un *address)
{
  *address = {};
  address->sun_family = AF_UNIX;
  memcpy (address->sun_path + 1, name.data (), name.size ());
  return (socklen_t)(offsetof (sockaddr_un, sun_path) + 1 + name.size ());
}

ncclResult_t ncclGetUniqueId (ncclUniqueId *id)
{
  static int n_made;
  std::lock_guard<std::mutex> guard (listeners_lock);
  const std::string name = "pipesim-nccl-" + std::to_string (getpid ()) + "-" + std::to_string (n_made++);
  sockaddr_un address;
  const socklen_t length = fill_address (name, &address);
  const int fd = new_socket ();

  if (fd < 0 || bind (fd, (const sockaddr *)&address, length) != 0 || listen (fd, 16) != 0)
    return ncclSystemError;
  listeners[name] = fd;
  memset (id, 0, sizeof *id);
  memcpy (id->internal, name.data (), name.size ());
  return ncclSuccess;
}

static bool is_aborted (ncclComm_t comm)
{
  std::lock_guard<std::mutex> guard (comm->lock);

  return comm->aborted;
}

static void set_state (ncclComm_t comm, ncclResult_t state)
{
  std::lock_guard<std::mutex> guard (comm->lock);

  comm->state = state;
  comm->changed.notify_all ();
}

/* As a kernel that polls for what never comes. */
static void wait_for_abort (ncclComm_t comm)
{
  std::unique_lock<std::mutex> guard (comm->lock);

  comm->changed.wait (guard, [=] { return comm->aborted; });
}

/* The other end is gone. */
static void hang (ncclComm_t comm)
{
  set_state (comm, ncclRemoteError);
  wait_for_abort (comm);
}

/* Waits for the descriptor in pieces, so that aborting ends it. */
static bool await (ncclComm_t comm, int fd, short events)
{
  pollfd item = { fd, events, 0 };

  while (!is_aborted (comm))
    if (poll (&item, 1, 20) > 0)
      return true;
  return false;
}

static bool move_bytes (ncclComm_t comm, int fd, void *bytes, size_t n, bool out)
{
  char *at = (char *)bytes;

  while (n > 0) {
    if (!await (comm, fd, out ? POLLOUT : POLLIN))
      return false;
    const ssize_t moved = out ? send (fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT) : recv (fd, at, n, MSG_DONTWAIT);
    if (moved > 0) {
      at += moved;
      n -= (size_t)moved;
    } else if (moved == 0 || (errno != EAGAIN && errno != EINTR)) {
      hang (comm);
      return false;
    }
  }
  return true;
}

static bool write_all (ncclComm_t comm, int fd, const void *bytes, size_t n)
{
  return move_bytes (comm, fd, const_cast<void *> (bytes), n, true);
}

static bool read_all (ncclComm_t comm, int fd, void *bytes, size_t n)
{
  return move_bytes (comm, fd, bytes, n, false);
}

/* Rank 0: every other rank connects and says who it is. */
static bool take_ranks (ncclComm_t comm)
{
  int listener;

  {
    std::lock_guard<std::mutex> guard (listeners_lock);
    const auto found = listeners.find (comm->address);
    if (found == listeners.end ())
      return false;
    listener = found->second;
    listeners.erase (found);
  }
  bool fine = true;
  for (int i = 1; i < comm->n_ranks && fine; i++) {
    int rank = 0;
    fine = await (comm, listener, POLLIN);
    const int fd = fine ? accept4 (listener, nullptr, nullptr, SOCK_CLOEXEC) : -1;
    fine = fine && fd >= 0 && read_all (comm, fd, &rank, sizeof rank) && rank > 0 && rank < comm->n_ranks;
    if (fine)
      comm->peers[(size_t)rank] = fd;
  }
  close (listener);
  return fine;
}

static bool join_rank_0 (ncclComm_t comm)
{
  sockaddr_un address;
  const socklen_t length = fill_address (comm->address, &address);
  const int fd = new_socket ();

  comm->peers[0] = fd;
  return fd >= 0 && connect (fd, (const sockaddr *)&address, length) == 0
         && write_all (comm, fd, &comm->rank, sizeof comm->rank);
}

static void open_comm (ncclComm_t comm)
{
  char ready = 1;
  bool fine = comm->rank == 0 ? take_ranks (comm) : join_rank_0 (comm);

  /* Nobody is ready before all are. */
  for (int i = 1; comm->rank == 0 && i < comm->n_ranks && fine; i++)
    fine = write_all (comm, comm->peers[(size_t)i], &ready, 1);
  if (comm->rank > 0)
    fine = fine && read_all (comm, comm->peers[0], &ready, 1);
  set_state (comm, fine ? ncclSuccess : ncclSystemError);
}

ncclResult_t ncclCommInitRankConfig (ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
  if (config->blocking != 0)
    return ncclInvalidUsage;
  *comm = new ncclComm;
  (*comm)->rank = rank;
  (*comm)->n_ranks = n_ranks;
  (*comm)->address = id.internal;
  (*comm)->peers.assign ((size_t)n_ranks, -1);
  (*comm)->opener = std::thread (open_comm, *comm);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError (ncclComm_t comm, ncclResult_t *result)
{
  std::lock_guard<std::mutex> guard (comm->lock);

  *result = comm->state;
  return ncclSuccess;
}

ncclResult_t ncclGetVersion (int *version)
{
  *version = 22809;
  return ncclSuccess;
}

const char *ncclGetErrorString (ncclResult_t result)
{
  static const char *const names[] = { "no error",
                                       "unhandled cuda error",
                                       "unhandled system error",
                                       "internal error",
                                       "invalid argument",
                                       "invalid usage",
                                       "remote process exited or there was a network error",
                                       "NCCL operation in progress" };

  return names[result];
}

const char *ncclGetLastError (ncclComm_t)
{
  return "";
}

ncclResult_t ncclCommFinalize (ncclComm_t)
{
  return ncclSuccess;
}

/* Once no operation is left that knows it. */
static void free_comm (ncclComm_t comm)
{
  if (comm->opener.joinable ())
    comm->opener.join ();
  {
    std::unique_lock<std::mutex> guard (comm->lock);
    comm->changed.wait (guard, [=] { return comm->n_pending == 0; });
  }
  for (const int fd : comm->peers)
    if (fd >= 0)
      close (fd);
  delete comm;
}

ncclResult_t ncclCommDestroy (ncclComm_t comm)
{
  free_comm (comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort (ncclComm_t comm)
{
  {
    std::lock_guard<std::mutex> guard (comm->lock);
    comm->aborted = true;
    comm->changed.notify_all ();
  }
  free_comm (comm);
  return ncclSuccess;
}

/* An operation in a stream. */
struct Operation {
  enum Kind { SEND, RECEIVE, ADD, MIRROR, LOST } kind;
  ncclComm_t comm;
  const void *from;
  void *to;
  size_t n_bytes;
};

/* The receiver says how much it has room for; only then the data comes. */
static void do_send (const Operation &operation)
{
  const int fd = operation.comm->peers[operation.comm->rank == 0 ? 1 : 0];
  size_t room = 0;

  if (!read_all (operation.comm, fd, &room, sizeof room))
    return;
  if (room != operation.n_bytes)
    hang (operation.comm);
  else
    write_all (operation.comm, fd, operation.from, operation.n_bytes);
}

static void do_receive (const Operation &operation)
{
  const int fd = operation.comm->peers[operation.comm->rank == 0 ? 1 : 0];

  if (write_all (operation.comm, fd, &operation.n_bytes, sizeof operation.n_bytes))
    read_all (operation.comm, fd, operation.to, operation.n_bytes);
}

/* To rank 0 and back. */
static void do_add (const Operation &operation)
{
  ncclComm_t comm = operation.comm;
  const size_t n = operation.n_bytes / sizeof (float);
  std::vector<float> sum ((const float *)operation.from, (const float *)operation.from + n), other (n);
  bool fine = true;

  for (int i = 1; comm->rank == 0 && i < comm->n_ranks && fine; i++) {
    fine = read_all (comm, comm->peers[(size_t)i], other.data (), operation.n_bytes);
    for (size_t at = 0; at < n; at++)
      sum[at] += other[at];
  }
  for (int i = 1; comm->rank == 0 && i < comm->n_ranks && fine; i++)
    fine = write_all (comm, comm->peers[(size_t)i], sum.data (), operation.n_bytes);
  if (comm->rank > 0)
    fine = write_all (comm, comm->peers[0], sum.data (), operation.n_bytes)
           && read_all (comm, comm->peers[0], sum.data (), operation.n_bytes);
  if (fine)
    memcpy (operation.to, sum.data (), operation.n_bytes);
}

static void perform (const Operation &operation)
{
  ncclComm_t comm = operation.comm;

  if (!is_aborted (comm))
    switch (operation.kind) {
    case Operation::SEND:
      do_send (operation);
      break;
    case Operation::RECEIVE:
      do_receive (operation);
      break;
    case Operation::ADD:
      do_add (operation);
      break;
    case Operation::MIRROR:
      memcpy (operation.to, operation.from, operation.n_bytes);
      break;
    case Operation::LOST:
      wait_for_abort (comm);
      break;
    }
  std::lock_guard<std::mutex> guard (comm->lock);
  comm->n_pending--;
  comm->changed.notify_all ();
}

/* The number that an environment variable has; 0: none. */
static long number_from (const char *name)
{
  const char *text = getenv (name);

  return text != nullptr ? atol (text) : 0;
}

/* Whether this send is the one that a test wants lost. */
static bool is_lost (void)
{
  static std::atomic<long> n_sends;

  return ++n_sends == number_from ("PS_EMULATED_LOST_SEND");
}

static void push (const Operation &operation, cudaStream_t stream)
{
  {
    std::lock_guard<std::mutex> guard (operation.comm->lock);
    operation.comm->n_pending++;
  }
  ps_emulator_stream_do (stream, [=] { perform (operation); });
}

/* A communicator that does not block takes a message in a thread of its own, which needs PS_EMULATED_POST_US
 * microseconds. With PS_EMULATED_STUCK_POSTS the thread never ends, as where the other end never posts its first
 * message. */
static ncclResult_t enqueue (const Operation &operation, cudaStream_t stream)
{
  const long post_us = number_from ("PS_EMULATED_POST_US");
  const bool stuck = getenv ("PS_EMULATED_STUCK_POSTS") != nullptr;

  if (post_us == 0 && !stuck) {
    push (operation, stream);
    return ncclSuccess;
  }
  ncclComm_t comm = operation.comm;
  set_state (comm, ncclInProgress);
  comm->opener.join ();
  comm->opener = std::thread ([=] {
    std::this_thread::sleep_for (std::chrono::microseconds (post_us));
    if (stuck)
      return wait_for_abort (comm);
    push (operation, stream);
    set_state (comm, ncclSuccess);
  });
  return ncclInProgress;
}

/* A rank's send to itself waits here for its receive. */
static thread_local const void *mirrored;

ncclResult_t ncclGroupStart (void)
{
  mirrored = nullptr;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd (void)
{
  return mirrored == nullptr ? ncclSuccess : ncclInvalidUsage;
}

ncclResult_t ncclSend (const void *from, size_t n, ncclDataType_t type, int, ncclComm_t comm, cudaStream_t stream)
{
  if (type != ncclChar || comm->n_ranks > 2)
    return ncclInvalidArgument;
  if (comm->n_ranks == 2)
    return enqueue ({ is_lost () ? Operation::LOST : Operation::SEND, comm, from, nullptr, n }, stream);
  mirrored = from;
  return ncclSuccess;
}

ncclResult_t ncclRecv (void *to, size_t n, ncclDataType_t type, int, ncclComm_t comm, cudaStream_t stream)
{
  if (type != ncclChar || comm->n_ranks > 2 || (comm->n_ranks == 1 && mirrored == nullptr))
    return ncclInvalidArgument;
  if (comm->n_ranks == 2)
    return enqueue ({ Operation::RECEIVE, comm, nullptr, to, n }, stream);
  const Operation mirror = { Operation::MIRROR, comm, mirrored, to, n };
  mirrored = nullptr;
  return enqueue (mirror, stream);
}

ncclResult_t ncclAllReduce (const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t, ncclComm_t comm,
                            cudaStream_t stream)
{
  cudaPointerAttributes attributes;

  cudaPointerGetAttributes (&attributes, to);
  if (type != ncclFloat || attributes.type != cudaMemoryTypeDevice)
    return ncclInvalidArgument;
  return enqueue ({ Operation::ADD, comm, from, to, n * sizeof (float) }, stream);
}
