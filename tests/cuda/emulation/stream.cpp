/* stream.cpp - emulated streams, events and graphs. */
#include "stream.h"

#include "emulator.h"
#include "machine.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <stdlib.h>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;

struct CUgraph_st
{
  std::vector<std::function<bool ()> > nodes; /* one after the other */
};

struct CUgraphExec_st
{
  std::vector<std::function<bool ()> > nodes;
};

static std::atomic<unsigned> n_streams;

struct CUstream_st
{
  std::mutex lock;
  std::condition_variable changed;
  std::deque<std::function<void ()> > queue;
  std::thread worker; /* starts with the first work */
  std::minstd_rand chance{ ++n_streams };
  bool busy = false;
  bool ended = false;
  cudaGraph_t captured = nullptr; /* what is being captured */
  bool spoilt = false;            /* by a call that can't be */
};

static thread_local cudaStream_t capturing; /* by this thread */
static std::atomic<unsigned> n_captures, n_graph_launches;

/* TRUE: streams run what they are given in threads of their own. */
static std::atomic<bool> asynchronous = getenv ("PS_EMULATED_ASYNC") != nullptr;

/* Work waits until streams_wanted streams have some at the same time. */
static std::mutex meeting;
static std::condition_variable met;
static std::set<cudaStream_t> present;
static unsigned streams_wanted;
static bool late;

/* Work in streams shares it: an event may be destroyed while streams wait for it. */
struct Moment
{
  std::mutex lock;
  std::condition_variable reached;
  unsigned long n_recorded = 0, n_reached = 0;
  Clock::time_point time;
};

struct CUevent_st
{
  std::shared_ptr<Moment> moment = std::make_shared<Moment> ();
};

/* Sleeps up to PS_EMULATED_DELAY_US. */
static void
dawdle (cudaStream_t stream)
{
  static const char *const text = getenv ("PS_EMULATED_DELAY_US");
  static const unsigned longest = text != nullptr ? (unsigned)atoi (text) : 0;

  if (longest > 0)
    std::this_thread::sleep_for (std::chrono::microseconds (stream->chance () % (longest + 1)));
}

static void
work_through (cudaStream_t stream)
{
  std::unique_lock<std::mutex> guard (stream->lock);

  for (;;)
    {
      stream->changed.wait (guard, [=] { return stream->ended || !stream->queue.empty (); });
      if (stream->queue.empty ())
        return;
      const auto work = std::move (stream->queue.front ());
      stream->queue.pop_front ();
      stream->busy = true;
      guard.unlock ();
      dawdle (stream);
      work ();
      guard.lock ();
      stream->busy = false;
      stream->changed.notify_all ();
    }
}

static void
push (cudaStream_t stream, std::function<void ()> work)
{
  std::lock_guard<std::mutex> guard (stream->lock);

  stream->queue.push_back (std::move (work));
  if (!stream->worker.joinable ())
    stream->worker = std::thread (work_through, stream);
  stream->changed.notify_all ();
}

void
ps_emulator_stream_push (cudaStream_t stream, void (*work) (void *data), void *data)
{
  push (stream, [=] { work (data); });
}

static bool
is_empty (cudaStream_t stream)
{
  return stream->queue.empty () && !stream->busy;
}

/* What can't be captured and so ends the capture: CUDA C++ Programming Guide, "Prohibited and Unhandled Operations". */
static bool
spoil (cudaStream_t stream)
{
  if (stream == nullptr || stream->captured == nullptr)
    return false;
  stream->spoilt = true;
  return true;
}

cudaError_t
ps_emulator_stream_drain (cudaStream_t stream)
{
  if (stream == nullptr)
    return cudaSuccess;
  if (spoil (stream))
    return cudaErrorStreamCaptureUnsupported;
  std::unique_lock<std::mutex> guard (stream->lock);
  stream->changed.wait (guard, [=] { return is_empty (stream); });
  return cudaSuccess;
}

bool
ps_emulator_is_capturing (void)
{
  return capturing != nullptr;
}

void
ps_emulator_meet (unsigned n)
{
  std::lock_guard<std::mutex> guard (meeting);

  asynchronous = n > 0 || getenv ("PS_EMULATED_ASYNC") != nullptr;
  streams_wanted = n;
  late = false;
  present.clear ();
  met.notify_all ();
}

bool
ps_emulator_have_met (void)
{
  std::lock_guard<std::mutex> guard (meeting);

  return !late && present.size () >= streams_wanted;
}

/* Ten seconds mean that the other streams' work never comes. */
static void
meet (cudaStream_t stream)
{
  std::unique_lock<std::mutex> guard (meeting);

  present.insert (stream);
  met.notify_all ();
  late |= !met.wait_for (guard, std::chrono::seconds (10), [] { return present.size () >= streams_wanted; });
}

cudaError_t
ps_emulator_stream_do (cudaStream_t stream, const std::function<bool ()> &work)
{
  if (stream != nullptr && stream->captured != nullptr)
    {
      stream->captured->nodes.push_back (work);
      return cudaSuccess;
    }
  if (stream != nullptr && asynchronous)
    {
      push (stream, [=] {
        meet (stream);
        if (!work ())
          ps_emulator_fail ("a launch is refused");
      });
      return cudaSuccess;
    }
  ps_emulator_stream_drain (stream);
  return work () ? cudaSuccess : cudaErrorInvalidConfiguration;
}

cudaError_t
cudaStreamCreateWithFlags (cudaStream_t *stream, unsigned)
{
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t
cudaStreamCreateWithPriority (cudaStream_t *stream, unsigned flags, int)
{
  return cudaStreamCreateWithFlags (stream, flags);
}

cudaError_t
cudaDeviceGetStreamPriorityRange (int *least, int *greatest)
{
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t
cudaStreamDestroy (cudaStream_t stream)
{
  if (stream == nullptr)
    return cudaErrorInvalidResourceHandle;
  {
    std::lock_guard<std::mutex> guard (stream->lock);
    stream->ended = true;
    stream->changed.notify_all ();
  }
  if (stream->worker.joinable ())
    stream->worker.join ();
  delete stream;
  return cudaSuccess;
}

cudaError_t
cudaStreamSynchronize (cudaStream_t stream)
{
  return ps_emulator_stream_drain (stream);
}

cudaError_t
cudaStreamQuery (cudaStream_t stream)
{
  if (stream == nullptr)
    return cudaSuccess;
  if (spoil (stream))
    return cudaErrorStreamCaptureUnsupported;
  std::lock_guard<std::mutex> guard (stream->lock);
  return is_empty (stream) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t
cudaEventCreateWithFlags (cudaEvent_t *event, unsigned)
{
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t
cudaEventCreate (cudaEvent_t *event)
{
  return cudaEventCreateWithFlags (event, cudaEventDefault);
}

cudaError_t
cudaEventDestroy (cudaEvent_t event)
{
  delete event;
  return cudaSuccess;
}

static void
reach (Moment *moment, unsigned long number)
{
  std::lock_guard<std::mutex> guard (moment->lock);

  moment->n_reached = number;
  moment->time = Clock::now ();
  moment->reached.notify_all ();
}

cudaError_t
cudaEventRecord (cudaEvent_t event, cudaStream_t stream)
{
  const std::shared_ptr<Moment> moment = event->moment;
  unsigned long number;

  if (spoil (stream))
    return cudaErrorStreamCaptureUnsupported;
  {
    std::lock_guard<std::mutex> guard (moment->lock);
    number = ++moment->n_recorded;
  }
  if (cudaStreamQuery (stream) == cudaSuccess)
    reach (moment.get (), number);
  else
    push (stream, [=] { reach (moment.get (), number); });
  return cudaSuccess;
}

/* Until what was recorded by now has been reached. */
static void
await_event (Moment *moment, unsigned long number)
{
  std::unique_lock<std::mutex> guard (moment->lock);

  moment->reached.wait (guard, [=] { return moment->n_reached >= number; });
}

static unsigned long
latest_record (cudaEvent_t event)
{
  std::lock_guard<std::mutex> guard (event->moment->lock);

  return event->moment->n_recorded;
}

cudaError_t
cudaEventSynchronize (cudaEvent_t event)
{
  await_event (event->moment.get (), latest_record (event));
  return cudaSuccess;
}

cudaError_t
cudaEventQuery (cudaEvent_t event)
{
  std::lock_guard<std::mutex> guard (event->moment->lock);

  return event->moment->n_reached == event->moment->n_recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t
cudaStreamWaitEvent (cudaStream_t stream, cudaEvent_t event, unsigned)
{
  const std::shared_ptr<Moment> moment = event->moment;
  const unsigned long number = latest_record (event);

  if (spoil (stream))
    return cudaErrorStreamCaptureUnsupported;
  if (stream == nullptr)
    await_event (moment.get (), number);
  else if (cudaEventQuery (event) != cudaSuccess)
    push (stream, [=] { await_event (moment.get (), number); });
  return cudaSuccess;
}

cudaError_t
cudaEventElapsedTime (float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
  if (latest_record (start) == 0 || latest_record (end) == 0)
    return ps_emulator_refuse (cudaErrorInvalidResourceHandle);
  if (cudaEventQuery (start) != cudaSuccess || cudaEventQuery (end) != cudaSuccess)
    return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli> (end->moment->time - start->moment->time).count ();
  return cudaSuccess;
}

cudaError_t
cudaStreamBeginCapture (cudaStream_t stream, cudaStreamCaptureMode)
{
  if (stream == nullptr || stream->captured != nullptr)
    return cudaErrorStreamCaptureUnsupported;
  stream->captured = new CUgraph_st;
  stream->spoilt = false;
  capturing = stream;
  return cudaSuccess;
}

cudaError_t
cudaStreamEndCapture (cudaStream_t stream, cudaGraph_t *graph)
{
  *graph = nullptr;
  if (stream == nullptr || capturing != stream)
    return cudaErrorStreamCaptureUnsupported;
  capturing = nullptr;
  std::swap (*graph, stream->captured);
  if (!stream->spoilt)
    return cudaSuccess;
  cudaGraphDestroy (*graph);
  *graph = nullptr;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t
cudaGraphDestroy (cudaGraph_t graph)
{
  delete graph;
  return cudaSuccess;
}

cudaError_t
cudaGraphInstantiate (cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long)
{
  *made = new CUgraphExec_st{ graph->nodes };
  n_captures++;
  return cudaSuccess;
}

cudaError_t
cudaGraphExecDestroy (cudaGraphExec_t made)
{
  delete made;
  return cudaSuccess;
}

cudaError_t
cudaGraphLaunch (cudaGraphExec_t made, cudaStream_t stream)
{
  n_graph_launches++;
  return ps_emulator_stream_do (stream, [=] {
    for (const auto &node : made->nodes)
      if (!node ())
        return false;
    return true;
  });
}

void
ps_emulator_graphs (unsigned *captures, unsigned *launches)
{
  *captures = n_captures;
  *launches = n_graph_launches;
}
