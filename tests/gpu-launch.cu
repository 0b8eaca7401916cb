/* gpu-launch.cu - what launching costs on this GPU, measured: a kernel and waiting for it, a kernel in a stream of
 * many, and a kernel that is a node of a CUDA graph. For tests/gpu.sh; exits with 77 where there is no GPU. */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

static const int n_nodes = 200, n_samples = 200;

__global__ void empty_kernel (void)
{
}

static void check (cudaError_t status, const char *what)
{
  if (status == cudaSuccess)
    return;
  printf ("%s: %s\n", what, cudaGetErrorString (status));
  exit (1);
}

template <typename Work> static double median_us (Work work)
{
  std::vector<double> times;

  work ();
  for (int i = 0; i < n_samples; i++) {
    auto begin = std::chrono::steady_clock::now ();
    work ();
    times.push_back (std::chrono::duration<double, std::micro> (std::chrono::steady_clock::now () - begin).count ());
  }
  std::nth_element (times.begin (), times.begin () + n_samples / 2, times.end ());
  return times[n_samples / 2];
}

int main (void)
{
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t made;
  int count = 0;

  if (cudaGetDeviceCount (&count) != cudaSuccess || count == 0) {
    printf ("no GPU here\n");
    return 77;
  }
  check (cudaStreamCreateWithFlags (&stream, cudaStreamNonBlocking), "stream");
  const double alone = median_us ([&] {
    empty_kernel<<<1, 32, 0, stream>>> ();
    check (cudaStreamSynchronize (stream), "kernel");
  });
  const double many = median_us ([&] {
    for (int i = 0; i < n_nodes; i++)
      empty_kernel<<<1, 32, 0, stream>>> ();
    check (cudaStreamSynchronize (stream), "kernels");
  });

  check (cudaStreamBeginCapture (stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < n_nodes; i++)
    empty_kernel<<<1, 32, 0, stream>>> ();
  check (cudaStreamEndCapture (stream, &graph), "capture");
  check (cudaGraphInstantiate (&made, graph, 0), "graph");
  const double in_graph = median_us ([&] {
    check (cudaGraphLaunch (made, stream), "launch");
    check (cudaStreamSynchronize (stream), "graph");
  });
  printf ("a kernel alone %.2f us, in a stream of %d %.2f us each, in a graph of %d %.2f us each\n", alone, n_nodes,
          many / n_nodes, n_nodes, in_graph / n_nodes);
  return 0;
}
