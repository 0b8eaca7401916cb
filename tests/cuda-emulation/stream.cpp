/* stream.cpp - emulated streams and events. */
#include "stream.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

using Clock = std::chrono::steady_clock;

struct CUstream_st
{
  std::mutex lock;
  std::condition_variable changed;
  std::deque<std::function<void ()> > queue;
  std::thread worker; /* starts with the first work */
  bool busy = false;
  bool ended = false;
};

struct CUevent_st
{
  std::mutex lock;
  std::condition_variable reached;
  unsigned long n_recorded = 0, n_reached = 0;
  Clock::time_point time;
};

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

void
ps_emulator_stream_drain (cudaStream_t stream)
{
  if (stream == nullptr)
    return;
  std::unique_lock<std::mutex> guard (stream->lock);
  stream->changed.wait (guard, [=] { return is_empty (stream); });
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
  ps_emulator_stream_drain (stream);
  return cudaSuccess;
}

cudaError_t
cudaStreamQuery (cudaStream_t stream)
{
  if (stream == nullptr)
    return cudaSuccess;
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
cudaEventDestroy (cudaEvent_t event)
{
  delete event;
  return cudaSuccess;
}

static void
reach (cudaEvent_t event, unsigned long number)
{
  std::lock_guard<std::mutex> guard (event->lock);

  event->n_reached = number;
  event->time = Clock::now ();
  event->reached.notify_all ();
}

cudaError_t
cudaEventRecord (cudaEvent_t event, cudaStream_t stream)
{
  unsigned long number;

  {
    std::lock_guard<std::mutex> guard (event->lock);
    number = ++event->n_recorded;
  }
  if (cudaStreamQuery (stream) == cudaSuccess)
    reach (event, number);
  else
    push (stream, [=] { reach (event, number); });
  return cudaSuccess;
}

/* Until what was recorded by now has been reached. */
static void
await_event (cudaEvent_t event, unsigned long number)
{
  std::unique_lock<std::mutex> guard (event->lock);

  event->reached.wait (guard, [=] { return event->n_reached >= number; });
}

static unsigned long
latest_record (cudaEvent_t event)
{
  std::lock_guard<std::mutex> guard (event->lock);

  return event->n_recorded;
}

cudaError_t
cudaEventSynchronize (cudaEvent_t event)
{
  await_event (event, latest_record (event));
  return cudaSuccess;
}

cudaError_t
cudaEventQuery (cudaEvent_t event)
{
  std::lock_guard<std::mutex> guard (event->lock);

  return event->n_reached == event->n_recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t
cudaStreamWaitEvent (cudaStream_t stream, cudaEvent_t event, unsigned)
{
  const unsigned long number = latest_record (event);

  if (stream == nullptr)
    await_event (event, number);
  else if (cudaEventQuery (event) != cudaSuccess)
    push (stream, [=] { await_event (event, number); });
  return cudaSuccess;
}

cudaError_t
cudaEventElapsedTime (float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
  if (cudaEventQuery (start) != cudaSuccess || cudaEventQuery (end) != cudaSuccess)
    return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli> (end->time - start->time).count ();
  return cudaSuccess;
}
