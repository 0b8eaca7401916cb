/* nccl.cpp - emulated NCCL: rank 0 of a communicator listens at an abstract Unix address that the id names, the others
 * connect; operations run in the threads of their streams. */
#include <nccl.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

typedef std::unique_lock<std::mutex> Lock;

static std::mutex listeners_mutex;
static std::map<std::string, int> listeners; /* of ids made here and not used yet; under listeners_mutex */

struct ncclComm {
  int rank, n_ranks;
  std::string address;
  std::vector<int> peers; /* descriptors; rank 0: of rank i at i, else of rank 0 at 0 */
  std::thread opener;     /* opens the communicator, then takes its messages */
  std::mutex mutex;       /* for the rest */
  std::condition_variable changed;
  ncclResult_t state = ncclInProgress;
  bool aborted = false;
  int n_pending = 0; /* operations not done yet */

  template <typename Change> void change (const Change &change_members)
  {
    const Lock lock (mutex);

    change_members ();
    changed.notify_all ();
  }

  void set_state (ncclResult_t next)
  {
    change ([=] { state = next; });
  }

  /* As a kernel that polls for what never comes. */
  void wait_for_abort ()
  {
    Lock lock (mutex);

    changed.wait (lock, [=] { return aborted; });
  }

  bool is_aborted ()
  {
    const Lock lock (mutex);

    return aborted;
  }

  /* Waits for the descriptor in pieces, so that aborting ends it. */
  bool await (int fd, short events)
  {
    pollfd item = { fd, events, 0 };

    while (!is_aborted ())
      if (poll (&item, 1, 20) > 0)
        return true;
    return false;
  }

  /* FALSE: aborted, which is waited for when the other end is gone. */
  bool move (int peer, void *bytes, size_t n, bool out)
  {
    const int fd = peers[(size_t)peer];

    for (char *at = (char *)bytes; n > 0;) {
      if (!await (fd, out ? POLLOUT : POLLIN))
        return false;
      const ssize_t moved = out ? ::send (fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT) : recv (fd, at, n, MSG_DONTWAIT);
      if (moved > 0) {
        at += moved;
        n -= (size_t)moved;
      } else if (moved == 0 || (errno != EAGAIN && errno != EINTR)) {
        set_state (ncclRemoteError);
        wait_for_abort ();
        return false;
      }
    }
    return true;
  }

  bool write (int peer, const void *bytes, size_t n)
  {
    return move (peer, const_cast<void *> (bytes), n, true);
  }

  bool read (int peer, void *bytes, size_t n)
  {
    return move (peer, bytes, n, false);
  }

  bool open ();
  bool take_ranks ();
};

static int bind_or_connect (const std::string &name, bool binds)
{
  const int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const socklen_t length = (socklen_t)(offsetof (sockaddr_un, sun_path) + 1 + name.size ());
  sockaddr_un address = {};

  address.sun_family = AF_UNIX;
  memcpy (address.sun_path + 1, name.data (), name.size ());
  if (fd >= 0
      && (binds ? bind (fd, (const sockaddr *)&address, length) == 0 && listen (fd, 16) == 0
                : connect (fd, (const sockaddr *)&address, length) == 0))
    return fd;
  close (fd);
  return -1;
}

ncclResult_t ncclGetUniqueId (ncclUniqueId *id)
{
  static int n_made;
  const Lock lock (listeners_mutex);
  const std::string name = "pipesim-nccl-" + std::to_string (getpid ()) + "-" + std::to_string (n_made++);

  *id = {};
  memcpy (id->internal, name.data (), name.size ());
  listeners[name] = bind_or_connect (name, true);
  return listeners[name] >= 0 ? ncclSuccess : ncclSystemError;
}

/* Rank 0: every other rank connects and says who it is. */
bool ncclComm::take_ranks ()
{
  int listener;
  bool fine = true;

  {
    const Lock lock (listeners_mutex);
    const auto found = listeners.find (address);
    if (found == listeners.end ())
      return false;
    listener = found->second;
    listeners.erase (found);
  }
  for (int i = 1; i < n_ranks && fine; i++) {
    int other = 0;

    fine = await (listener, POLLIN);
    peers[0] = fine ? accept4 (listener, nullptr, nullptr, SOCK_CLOEXEC) : -1;
    fine = fine && peers[0] >= 0 && read (0, &other, sizeof other) && other > 0 && other < n_ranks;
    if (fine)
      std::swap (peers[(size_t)other], peers[0]);
  }
  close (listener);
  return fine;
}

/* Nobody is ready before all are. */
bool ncclComm::open ()
{
  char ready = 1;

  if (rank > 0) {
    peers[0] = bind_or_connect (address, false);
    return peers[0] >= 0 && write (0, &rank, sizeof rank) && read (0, &ready, 1);
  }
  bool fine = take_ranks ();
  for (int i = 1; i < n_ranks && fine; i++)
    fine = write (i, &ready, 1);
  return fine;
}

ncclResult_t ncclCommInitRankConfig (ncclComm_t *made, int n_ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
  const ncclComm_t comm = *made = new ncclComm;

  comm->rank = rank;
  comm->n_ranks = n_ranks;
  comm->address = id.internal;
  comm->peers.assign ((size_t)n_ranks, -1);
  comm->opener = std::thread ([=] { comm->set_state (comm->open () ? ncclSuccess : ncclSystemError); });
  return config->blocking == 0 ? ncclInProgress : ncclInvalidUsage;
}

ncclResult_t ncclCommGetAsyncError (ncclComm_t comm, ncclResult_t *result)
{
  const Lock lock (comm->mutex);

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
  return result == ncclSuccess       ? "no error"
         : result == ncclRemoteError ? "remote process exited or there was a network error"
         : result == ncclInProgress  ? "NCCL operation in progress"
                                     : "invalid usage";
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
ncclResult_t ncclCommDestroy (ncclComm_t comm)
{
  if (comm->opener.joinable ())
    comm->opener.join ();
  {
    Lock lock (comm->mutex);
    comm->changed.wait (lock, [=] { return comm->n_pending == 0; });
  }
  for (const int fd : comm->peers)
    if (fd >= 0)
      close (fd);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort (ncclComm_t comm)
{
  comm->change ([=] { comm->aborted = true; });
  return ncclCommDestroy (comm);
}

/* --- operations --- */

static long number_from (const char *name)
{
  const char *text = getenv (name);

  return text != nullptr ? atol (text) : 0;
}

/* Puts an operation into the stream. A communicator that does not block takes it in a thread of its own, which needs
 * PS_EMULATED_POST_US microseconds. With PS_EMULATED_STUCK_POSTS the thread never ends, as where the other end never
 * posts its first message. */
static ncclResult_t enqueue (ncclComm_t comm, cudaStream_t stream, std::function<void ()> operation)
{
  const long post_us = number_from ("PS_EMULATED_POST_US");
  const bool stuck = getenv ("PS_EMULATED_STUCK_POSTS") != nullptr;
  auto push = [=] {
    comm->change ([=] { comm->n_pending++; });
    ps_emulator_stream_do (stream, [=] {
      if (!comm->is_aborted ())
        operation ();
      comm->change ([=] { comm->n_pending--; });
    });
  };

  if (post_us == 0 && !stuck) {
    push ();
    return ncclSuccess;
  }
  comm->set_state (ncclInProgress);
  comm->opener.join ();
  comm->opener = std::thread ([=] {
    std::this_thread::sleep_for (std::chrono::microseconds (post_us));
    if (stuck)
      return comm->wait_for_abort ();
    push ();
    comm->set_state (ncclSuccess);
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

/* The receiver says how much it has room for; only then the data comes. */
ncclResult_t ncclSend (const void *from, size_t n, ncclDataType_t type, int, ncclComm_t comm, cudaStream_t stream)
{
  static std::atomic<long> n_sends;
  const int peer = comm->rank == 0 ? 1 : 0;

  if (type != ncclChar || comm->n_ranks > 2)
    return ncclInvalidArgument;
  if (comm->n_ranks == 1) {
    mirrored = from;
    return ncclSuccess;
  }
  const bool is_lost = ++n_sends == number_from ("PS_EMULATED_LOST_SEND");
  return enqueue (comm, stream, [=] {
    size_t room = 0;

    if (is_lost || (comm->read (peer, &room, sizeof room) && room != n))
      comm->wait_for_abort ();
    else if (room == n)
      comm->write (peer, from, n);
  });
}

ncclResult_t ncclRecv (void *to, size_t n, ncclDataType_t type, int, ncclComm_t comm, cudaStream_t stream)
{
  const void *from = mirrored;
  const int peer = comm->rank == 0 ? 1 : 0;

  if (type != ncclChar || comm->n_ranks > 2 || (comm->n_ranks == 1 && from == nullptr))
    return ncclInvalidArgument;
  mirrored = nullptr;
  return enqueue (comm, stream, [=] {
    if (comm->n_ranks == 1)
      memcpy (to, from, n);
    else if (comm->write (peer, &n, sizeof n))
      comm->read (peer, to, n);
  });
}

/* To rank 0 and back. */
static void add (ncclComm_t comm, const float *from, float *to, size_t n)
{
  const size_t bytes = n * sizeof *to;
  std::vector<float> sum (from, from + n), other (n);
  bool fine = true;

  for (int i = 1; comm->rank == 0 && i < comm->n_ranks && fine; i++) {
    fine = comm->read (i, other.data (), bytes);
    for (size_t at = 0; at < n; at++)
      sum[at] += other[at];
  }
  for (int i = 1; comm->rank == 0 && i < comm->n_ranks && fine; i++)
    fine = comm->write (i, sum.data (), bytes);
  if (comm->rank > 0)
    fine = comm->write (0, sum.data (), bytes) && comm->read (0, sum.data (), bytes);
  if (fine)
    memcpy (to, sum.data (), bytes);
}

ncclResult_t ncclAllReduce (const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t, ncclComm_t comm,
                            cudaStream_t stream)
{
  cudaPointerAttributes attributes;

  cudaPointerGetAttributes (&attributes, to);
  if (type != ncclFloat || attributes.type != cudaMemoryTypeDevice)
    return ncclInvalidArgument;
  return enqueue (comm, stream, [=] { add (comm, (const float *)from, (float *)to, n); });
}
