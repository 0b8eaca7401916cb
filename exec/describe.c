/* describe.c - exec's help. */
#include "describe.h"

#include "corpus.h"

#include <pipesim/transport.h>

PsCommandHelp
ps_exec_describe (char **owned)
{
  GString *text = g_string_new ("Devices:\n");
  guint n_devices, n_transports;
  const PsDeviceClass *const *devices = ps_device_table (&n_devices);
  const PsTransportClass *const *transports = ps_transport_table (&n_transports);

  for (guint i = 0; i < n_devices; i++)
    g_string_append_printf (text, "  %-10s %s\n", devices[i]->name, devices[i]->description);
  g_string_append (text, "\nTransports:\n");
  for (guint i = 0; i < n_transports; i++)
    g_string_append_printf (text, "  %-10s %s%s\n", transports[i]->name, transports[i]->description,
                            transports[i]->occupies ? "; default --comm-order: planned" : "");
  g_string_append (
      text,
      "\nTimelines are written natively, or as Chrome trace (Perfetto, chrome://tracing) to a FILE that ends in\n"
      ".trace.json. FILE.gz is packed. The measured timeline is the step whose iteration time is the median over the\n"
      "steps after the first. It also says how long posting each send and receive held its device's host (\"posts\").\n"
      "Device paced needs costs. Device cpu needs a model; with costs, too, the run is compared with a prediction.\n"
      "\n--text " PS_CORPUS_SUMS
      " trains on sums of two numbers in words; the model needs a vocabulary of 256 at least.\n"
      "Every synchronous schedule, layout and number of devices gives the same losses, and can go on with any\n"
      "other's checkpoint. A checkpoint of a gelu model has the names and shapes of transformers' GPT-2.\n"
      "\nDevices that share a GPU get parts of its multiprocessors (green contexts), equal ones or in proportion to\n"
      "--sm-shares. A part is one or more of the pieces that the GPU can split off (8 multiprocessors on Hopper);\n"
      "equal shares get equal parts. A profile predicts the device and the shares that it was measured with. It\n"
      "brings the algorithms of cuBLASLt that it was measured with, for that version and model of GPU. Its times are\n"
      "of ops one by one, with the host's part in each; --ahead 0 runs them so, too.\n"
      "\nIn the environment, PIPESIM_CUDA_GRAPHS=1 launches each op as one CUDA graph instead of kernel by kernel.\n"
      "PIPESIM_CUDA_WAIT=spin waits for a GPU without sleeping. PIPESIM_CUDA_HOPPER=0 lets attention use only the\n"
      "instructions that older GPUs have, too. Each op is an NVTX range with PyTorch's name for it, such as PP:0F3.\n"
      "\nNCCL's receives occupy multiprocessors from their post on. So with transport nccl --comm-order is planned by\n"
      "default, in the prediction too, and NCCL_MAX_P2P_NCHANNELS in the environment is 4 unless it is set.\n"
      "\nOne process uses all cores and GPUs of a machine, with a thread for each device. Several processes need MPI:\n"
      "started by mpirun or srun --mpi=pmix, each process runs one device, or an equal part of them where there are\n"
      "fewer processes. With d times as many processes as devices, d copies of the pipeline add up their gradients.\n"
      "Rank 0 prints. --replicas D says how many copies there are: then one process can run several.\n"
      "--tensor T lets T copies share their layers (devices cpu and cuda).\n"
      "\nCtrl-C (SIGINT) or SIGTERM ends a run of one process after the step under way, and the results so far are\n"
      "printed (not with --check).\n"
      "\nExit codes: 0 done, 1 failed or --check differs, 2 wrong usage, 3 outside --tolerance.\n");
  *owned = g_string_free (text, FALSE);
  return (PsCommandHelp){
    .summary = "Runs a schedule for real, and holds it against its prediction where costs are given.",
    .text = *owned,
    .examples = "pipesim exec -s 1f1b -p 2 -m 4 --model tiny-gpt --device cpu --check\n"
                "pipesim exec -s zb-h1 -p 4 -m 8 --costs f=1ms,b=1ms,w=1ms --device paced --trace measured.json"
                " --predicted predicted.json\n"
                "mpirun -n 2 pipesim exec -s 1f1b -p 2 -m 4 --model tiny-gpt --device cpu --transport mpi\n",
  };
}
