#!/usr/bin/env python3
"""launch-files.py - launches that --from reads: files in the shapes that people use, hostile ones, and what --to prints.

    PIPESIM_BINDIR=build tests/cli/launch-files.py [-n 200] [--seed 1]

The files lie in tests/fixtures/launches. What --to prints for drawn settings (launches.py) must be the same setting again: its iteration, memory
and layout. TAP is printed.
"""
import argparse, json, os, random, re, sys, tempfile
from launches import BIN, Setting, pipesim  # noqa: F401

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "launches")
MEGATRON = "--framework megatron"
NONE_HERE = ", which is predicted as none: it takes less memory there, and more time"
TITAN = "torchrun --nnodes 32 --nproc-per-node 8 -m torchtitan.train --job.config_file titan.toml"
OF_TITAN = "--layout 'Et*10|t*11|t*10|t*10|t*10|t*10|t*10|t*9L' -s interleaved -v 2 -p 4 -m 8 --microbatch-size 1 --tensor 8 --replicas 8 --adjacent-replicas --zero 1"
FILES = [  # file, further options, what it stands for ({} is the file), what is said on standard error
    ("dense.sh", "", "--model {} " + MEGATRON + " --layout even -s interleaved -v 2 -p 4 -m 32 --microbatch-size 1 --tensor 2 --replicas 4 --adjacent-replicas --zero 1 --recompute full", ""),
    ("dense.sh", "--tensor 4", "--model {} " + MEGATRON + " --layout even -s interleaved -v 2 -p 4 -m 64 --microbatch-size 1 --replicas 2 --adjacent-replicas --zero 1 --recompute full", ""),
    ("bash dense.sh --context-parallel-size 2 --cp-comm-type a2a a2a", "", "--model '{}' " + MEGATRON + " --layout even -s interleaved -v 2 -p 4 -m 64 --microbatch-size 1 --tensor 2 --context 2 --replicas 2 --cp-comm-type a2a --adjacent-replicas --zero 1 --recompute full", ""),
    ("bash dense.sh --context-parallel-size 2 --cp-comm-type a2a+p2p", "", "--model '{}' " + MEGATRON + " --layout even -s interleaved -v 2 -p 4 -m 64 --microbatch-size 1 --tensor 2 --context 2 --replicas 2 --cp-comm-type p2p --adjacent-replicas --zero 1 --recompute full", "{}: cp_comm_type: several ways in turn are predicted as p2p"),
    ("bash titan.sh --parallelism.context_parallel_degree 2 --parallelism.context_parallel_rotate_method alltoall", "", "--model llama-3-8b --layout 'Et*8|t*9|t*8|t*7L' -s 1f1b -p 4 -m 8 --microbatch-size 1 --context 2 --cp-comm-type p2p --zero 1 --recompute full --main-grads-dtype fp32", ""),
    ("bash dense.sh --num-layers 30 --num-layers-per-virtual-pipeline-stage 4 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", "", "--model '{}' " + MEGATRON + " --layout even:embedding:loss -s interleaved -v 2 -p 4 -m 32 --microbatch-size 1 --tensor 2 --replicas 4 --adjacent-replicas --zero 1 --recompute full", ""),
    ("dense.sh", "-s 1f1b", "--model {} " + MEGATRON + " --layout even -v 1 -p 4 -m 32 --microbatch-size 1 --tensor 2 --replicas 4 --adjacent-replicas --zero 1 --recompute full", ""),
    ("dense.sh", "-s zb-v,interleaved,1f1b", "--model {} " + MEGATRON + " --layout even -v 2,1 -p 4 -m 32 --microbatch-size 1 --tensor 2 --replicas 4 --adjacent-replicas --zero 1 --recompute full", ""),
    ("bash moe.sh --moe-token-dispatcher-type flex --moe-enable-deepep", "", "--model '{}' " + MEGATRON + " --layout even -s interleaved -v 4 -p 4 -m 64 --microbatch-size 1 --tensor 2 --experts 8 --replicas 16 --adjacent-replicas --zero 1 --overlap-param-gather --moe-token-dispatcher-type deepep --recompute core_attn+moe_act", ""),
    ("moe.sh", "", "--model {} " + MEGATRON + " --layout even -s interleaved -v 4 -p 4 -m 64 --microbatch-size 1 --tensor 2 --experts 8 --replicas 16 --adjacent-replicas --zero 1 --overlap-param-gather --recompute core_attn+moe_act", ""),
    ("conditions.sh", "", "--model {} " + MEGATRON + " -s 1f1b -p 1 -m 16 --microbatch-size 1 --tensor 2 --replicas 4 --zero 0 --reduce exposed", ""),
    ("slurm.sh", "", "--model {} --framework deepspeed --layout even -s 1f1b -p 2 -m 32 --microbatch-size 1 --tensor 2 --replicas 8 --adjacent-replicas --zero 1 --main-grads-dtype bf16", ""),
    ("TP=4 sbatch slurm.sh 13B", "", "--model '{}' --framework deepspeed --layout even -s 1f1b -p 4 -m 128 --microbatch-size 1 --tensor 4 --replicas 2 --adjacent-replicas --zero 1 --recompute full --main-grads-dtype bf16", ""),
    ("bash slurm.sh 13B --micro-batch-size 2", "", "--model '{}' --framework deepspeed --layout even -s 1f1b -p 4 -m 32 --microbatch-size 2 --tensor 2 --replicas 4 --adjacent-replicas --zero 1 --recompute full --main-grads-dtype bf16", ""),
    ("sbatch -J run -N 8 --export=ALL slurm.sh 13B", "", "--model '{}' --framework deepspeed --layout even -s 1f1b -p 4 -m 32 --microbatch-size 1 --tensor 2 --replicas 8 --adjacent-replicas --zero 1 --recompute full --main-grads-dtype bf16", ""),
    ("SLURM_NNODES=2 bash slurm.sh", "", "--model '{}' --framework deepspeed --layout even -s 1f1b -p 2 -m 64 --microbatch-size 1 --tensor 2 --replicas 4 --adjacent-replicas --zero 1 --main-grads-dtype bf16", ""),
    ("words.sh", "", "--model {} " + MEGATRON + " --layout even -s 1f1b -p 2 -m 32 --microbatch-size 1 --tensor 2 --replicas 2 --adjacent-replicas --zero 0 --reduce exposed",
     "{}:3: not read, and options may be in it: PREC depends on a condition: FP8 is not set here\n{}:6: not read, and options may be in it: $(cat more.txt) is not run here"),
    ("FP8=1 bash words.sh --bf16", "", "--model '{}' " + MEGATRON + " --layout even -s 1f1b -p 2 -m 32 --microbatch-size 1 --tensor 2 --replicas 2 --adjacent-replicas --zero 0 --reduce exposed",
     "{}:6: not read, and options may be in it: $(cat more.txt) is not run here"),
    ("nemo.yaml", "", "--model {} " + MEGATRON + " --layout even -s interleaved -v 5 -p 4 -m 64 --microbatch-size 1 --tensor 4 --context 2 --replicas 2 --cp-comm-type p2p --adjacent-replicas --zero 1 --overlap-param-gather --tp-comm-overlap --main-grads-dtype bf16", ""),
    ("arguments.txt", "--replicas 8", "--model {} " + MEGATRON + " --layout 'Et*5|t*7|t*7|t*5L' -s 1f1b -p 4 -m 4 --microbatch-size 2 --adjacent-replicas --zero 0 --reduce exposed", ""),
    ("run.log", "", "--model {} " + MEGATRON + " --layout even:first=19 -s 1f1b -p 4 -m 64 --microbatch-size 1 --tensor 2 --context 2 --replicas 4 --cp-comm-type p2p --adjacent-replicas --zero 1 --recompute full:layers=4", ""),
    ("megatron.yaml", "", "--model {} " + MEGATRON + " --layout even -s 1f1b -p 2 -m 16 --microbatch-size 1 --replicas 8 --adjacent-replicas --zero 1 --recompute mlp", ""),
    ("bridge.yaml", "", "--model {} --framework megatron-bridge --layout even -s interleaved -v 5 -p 4 -m 16 --microbatch-size 1 --tensor 2 --replicas 8 --adjacent-replicas --zero 1 --overlap-param-gather --tp-comm-overlap --main-grads-dtype bf16 --fp8-param-gather", ""),
    ("bridge-named.yaml", "--model llama-3-70b --replicas 2", "--precision fp8-block --framework megatron-bridge -s 1f1b -p 1 -m 8 --microbatch-size 1 --tensor 8 --zero 1", ""),
    ("titan.toml", "", "--model llama-3-70b --layout 'Et*10|t*11|t*10|t*10|t*10|t*10|t*10|t*9L' -s interleaved -v 2 -p 4 -m 8 --microbatch-size 1 --tensor 8 --replicas 8 --adjacent-replicas --zero 1 --recompute full --main-grads-dtype fp32", ""),
    ("titan.toml", "-m 32", "--model llama-3-70b --layout 'Et*10|t*11|t*10|t*10|t*10|t*10|t*10|t*9L' -s interleaved -v 2 -p 4 --microbatch-size 1 --tensor 8 --replicas 8 --adjacent-replicas --zero 1 --recompute full --main-grads-dtype fp32", ""),
    ("titan.toml", "-s 1F1B", "--model llama-3-70b --layout 'Et*20|t*21|t*20|t*19L' -v 1 -p 4 -m 8 --microbatch-size 1 --tensor 8 --replicas 8 --adjacent-replicas --zero 1 --recompute full --main-grads-dtype fp32", ""),
    ("titan.toml", "-s Interleaved1F1B,ZBVZeroBubble", "--model llama-3-70b --layout 'Et*10|t*11|t*10|t*10|t*10|t*10|t*10|t*9L' -v 2 -p 4 -m 8 --microbatch-size 1 --tensor 8 --replicas 8 --adjacent-replicas --zero 1 --recompute full --main-grads-dtype fp32", ""),
    ("titan.toml", "-s 1F1B,DualPipeV", "--model llama-3-70b -v 1,2 -p 4 -m 8 --microbatch-size 1 --tensor 8 --replicas 8 --adjacent-replicas --zero 1 --recompute full --main-grads-dtype fp32", ""),
    ("dense.sh", "-s 1f1b", "--model {} " + MEGATRON + " --layout even -v 1 -p 4 -m 32 --microbatch-size 1 --tensor 2 --replicas 4 --adjacent-replicas --zero 1 --recompute full", ""),
    (TITAN + " --training.local_batch_size=4", "", "--model llama-3-70b --layout 'Et*10|t*11|t*10|t*10|t*10|t*10|t*10|t*9L' -s interleaved -v 2 -p 4 -m 4 --microbatch-size 1 --tensor 8 --replicas 8 --adjacent-replicas --zero 1 --recompute full --main-grads-dtype fp32", ""),
    ("titan-moe.toml", "--replicas 32", "--model deepseek-v3-671b --precision fp8 --layout 'Et*3|t*4|t*4|t*4|t*4|t*4|t*4|t*4|t*4|t*4|t*4|t*4|t*4|t*4|t*4|t*2L' -s dualpipe-v -v 2 -p 8 -m 16 --microbatch-size 1 --experts 32 --adjacent-replicas --zero 1 --recompute full --main-grads-dtype fp32",
     "{}: model.converters: forwards keep inputs of linear layers in 8 bits here, in 16 bits there; layers outside the filter count, too"),
    ("titan-0.1.toml", "--replicas 2", "--model llama-3-70b --layout 'Et*10|t*11|t*10|t*10|t*10|t*10|t*10|t*9L' -s interleaved -v 2 -p 4 -m 8 --microbatch-size 1 --tensor 8 --adjacent-replicas --zero 1 --recompute full --main-grads-dtype fp32", ""),
    ("titan.sh", "", "--model llama-3-8b --layout 'Et*8|t*9|t*8|t*7L' -s 1f1b -p 4 -m 8 --microbatch-size 1 --replicas 2 --adjacent-replicas --zero 1 --recompute full --main-grads-dtype fp32", ""),
    ("bash titan.sh --parallelism.num_pp_microbatches 16 --training.num_tokens_per_microbatch_per_dp_rank 16384 --training.max_context_length 8192", "",
     "--model llama-3-8b --layout 'Et*8|t*9|t*8|t*7L' -s 1f1b -p 4 -m 16 --microbatch-size 2 --replicas 2 --adjacent-replicas --zero 1 --recompute full --main-grads-dtype fp32", ""),
    ("bash titan.sh --parallelism.num_pp_microbatches 16 --training.num_tokens_per_train_step 2097152 --x.y 1 --x.y 2", "",
     "--model llama-3-8b --layout 'Et*8|t*9|t*8|t*7L' -s 1f1b -p 4 -m 16 --microbatch-size 8 --replicas 2 --adjacent-replicas --zero 1 --recompute full --main-grads-dtype fp32", "{}: not known: x.y"),
    ("bash titan.sh activation_checkpoint:selective", "", "--model llama-3-8b --layout 'Et*8|t*9|t*8|t*7L' -s 1f1b -p 4 -m 8 --microbatch-size 1 --replicas 2 --adjacent-replicas --zero 1 --main-grads-dtype fp32",
     "{}: activation_checkpoint.mode: selective recomputes some operators" + NONE_HERE),
    ("bash titan.sh activation_checkpoint:selective", "--recompute full", "--model llama-3-8b --layout 'Et*8|t*9|t*8|t*7L' -s 1f1b -p 4 -m 8 --microbatch-size 1 --replicas 2 --adjacent-replicas --zero 1 --main-grads-dtype fp32", ""),
    (TITAN + " --activation_checkpoint.mode selective --activation_checkpoint.selective_ac_option 1", "", "--model llama-3-70b " + OF_TITAN + " --recompute full --main-grads-dtype fp32", ""),
    (TITAN + " --activation_checkpoint.mode selective", "", "--model llama-3-70b " + OF_TITAN + " --main-grads-dtype fp32", "{}: activation_checkpoint.mode: selective recomputes one layer in 2" + NONE_HERE),
    ("torchrun --nproc-per-node 8 -m torchtitan.train --module llama3 --config llama3_8b --parallelism.tensor_parallel_degree 8", "",
     "--model llama-3-8b -s 1f1b -p 1 -m 1 --microbatch-size 1 --tensor 8 --main-grads-dtype fp32", "{}: activation_checkpoint.mode: missing; selective recomputes some operators" + NONE_HERE),
    ("deepspeed/ds_config.json", "", "--model {0}/config.json --framework deepspeed -s 1f1b -p 1 -m 16 --microbatch-size 1 --replicas 8 --zero 1", "{}: not modelled: zero_optimization.offload_optimizer.device: the optimizer's state stays on the GPU here"),
    ("deepspeed/config.json", "", "--model {}", ""),
]
FLAVORS = "llama-3-8b llama-3-70b llama-3-405b deepseek-v2 deepseek-v3-671b gpt-oss-20b gpt-oss-120b qwen3-30b-a3b qwen3-235b-a22b llama-4-maverick".split()
WORDS = "--hidden-size 64 --num-layers 8 --num-attention-heads 4 --vocab-size 100 --seq-length 64 --bf16 --micro-batch-size 1 "
HOSTILE = [  # name, text, what its one line says
    ("a command's output", "N=$(nproc)\ntorchrun --nproc-per-node 8 p.py " + WORDS + "--tensor-model-parallel-size $N\n", r":2: tensor_model_parallel_size: \$\(nproc\) is not run here"),
    ("back quotes", "torchrun --nproc-per-node 8 p.py " + WORDS + "--global-batch-size `cat batch`\n", r":1: global_batch_size: `...` is not run here"),
    ("a condition", "if [ $1 = big ]; then\n  T=8\nelse\n  T=4\nfi\ntorchrun --nproc-per-node 8 p.py " + WORDS + "--tensor-model-parallel-size $T\n", r": tensor_model_parallel_size: T depends on a condition: \$1 is not set here"),
    ("a test that fails ends it", "T=2\n[ $X = 1 ] && T=4\ntorchrun --nproc-per-node 8 p.py " + WORDS + "--tensor-model-parallel-size $T\n", r":3: tensor_model_parallel_size: T depends on a condition: X is not set here"),
    ("a variable of the environment", "torchrun --nproc-per-node 8 p.py " + WORDS + "--pipeline-model-parallel-size $PP\n", r":1: pipeline_model_parallel_size: PP is not set here"),
    ("a text that is read twice", "D=$(cat /folder/of/the/names/of/all/runs/\"of this one\")\nbash -c \"torchrun --nproc-per-node 8 p.py --save $D " + WORDS + "--tensor-model-parallel-size $N\"\n", r": tensor_model_parallel_size: N is not set here"),
    ("an argument of the script", "torchrun --nproc-per-node 8 p.py " + WORDS + "--pipeline-model-parallel-size $1\n", r":1: pipeline_model_parallel_size: \$1 is not set here"),
    ("a changed variable", "A=4x\ntorchrun --nproc-per-node 8 p.py " + WORDS + "--pipeline-model-parallel-size ${A@Q}\n", r":2: pipeline_model_parallel_size: A is changed where it is read"),
    ("no number of GPUs", WORDS + "--pipeline-model-parallel-size 4\n", r": the number of GPUs is not known .*give --replicas D"),
    ("no model", "torchrun --nproc-per-node 8 p.py --tensor-model-parallel-size 8 --micro-batch-size 1\n", r": defines no model; give --model"),
    ("no vocabulary", "torchrun --nproc-per-node 8 p.py " + WORDS.replace("--vocab-size 100", ""), r": says no vocab_size, and its tokenizer is not known here"),
    ("a batch that does not divide", "torchrun --nproc-per-node 8 p.py " + WORDS + "--global-batch-size 12\n", r": the global batch 12 is no multiple of replicas times a microbatch, 8"),
    ("GPUs that do not divide", "torchrun --nproc-per-node 8 p.py " + WORDS + "--tensor-model-parallel-size 3\n", r": GPUs 8 is no multiple of the GPUs of a replica, 3"),
    ("no number", "torchrun --nproc-per-node 8 p.py " + WORDS + "--tensor-model-parallel-size two\n", r":1: tensor_model_parallel_size: 'two' is no number"),
    ("a list of layers", "torchrun --nproc-per-node 8 p.py " + WORDS + "--num-experts 4 --moe-layer-freq '([0]*3)'\n", r":1: moe_layer_freq: expected N or a list of 0 and 1 for 8 layers"),
    ("an option in a condition", "A=(--bf16)\nif [ $X = 1 ]; then A+=(--tensor-model-parallel-size 2); fi\ntorchrun --nproc-per-node 8 p.py " + WORDS + "${A[@]}\n", r":2: tensor_model_parallel_size: A depends on a condition: X is not set here"),
    ("a loop of unknown length", "for i in $LIST; do T=$i; done\ntorchrun --nproc-per-node 8 p.py " + WORDS + "--tensor-model-parallel-size $T\n", r":2: tensor_model_parallel_size: T (is not set|depends)"),
    ("a loop without an end", "T=1\nwhile true; do T=$((T * 2)); done\ntorchrun --nproc-per-node 8 p.py " + WORDS + "--tensor-model-parallel-size $T\n", r":3: tensor_model_parallel_size: "),
    ("a function that calls itself", "#!/bin/sh\nf() { f; f; }\nf\n", r": defines no model"),
    ("a division by zero", "torchrun --nproc-per-node 8 p.py " + WORDS + "--tensor-model-parallel-size $((8 / 0))\n", r":1: tensor_model_parallel_size: \$\(\(8 / 0\)\) is not computed here"),
    ("brackets without an end", "torchrun --nproc-per-node ${X:-8 p.py " + WORDS + "\n", r": defines no model"),
    ("a here-document without an end", "cat <<EOF\ntorchrun --nproc-per-node 8 p.py\n", r": defines no model"),
    ("a script without a file", "", r"(empty|\S)"),
    ("braces of YAML", "model: {hidden_size: 4\n", r":1: model: a mapping in braces"),
    ("an interpolation of YAML", "model:\n  hidden_size: 64\n  num_layers: 8\n  vocab_size: 9\n  tensor_model_parallel_size: ${TP}\n  num_attention_heads: 4\nworld_size: 8\n", r":5: model.tensor_model_parallel_size: TP is not set here"),
    ("an alias of YAML", "model:\n  hidden_size: *size\n", r":2: '\*size' has no anchor"),
    ("a table of TOML", "[training]\nx = { a = 1\n", r":2: x has no value that is read"),
    ("a text of TOML", '[training]\nx = """a\n', r":2: a text has no end"),
    ("a flavor that does not ship", '[model]\nname = "llama3"\nflavor = "debugmodel"\n[parallelism]\ntensor_parallel_degree = 2\n', r": torchtitan's 'debugmodel' is no model that ships"),
    ("a file of TOML that is not there", "torchrun --nproc-per-node 8 -m torchtitan.train --job.config_file nowhere.toml\n", r"nowhere.toml: cannot read: No such file"),
    ("stages that do not divide", '[model]\nname = "llama3"\nflavor = "70B"\n[parallelism]\ndata_parallel_shard_degree = 1\npipeline_parallel_degree = 8\npipeline_parallel_layers_per_stage = 5\n', r": layers per stage 5 of 80 \+ 2 layers \(embedding and head count as these\): stages 17 is no multiple of -p, 8"),
    ("a line of TOML", "[training]\nx\n", r":2: expected \[section\] or key = value"),
    ("no JSON", '{\n "train_batch_size": 8,,\n}\n', r":2:\d+: "),
    ("an empty file", "", r"(empty|\S)"),
]


def print_command(path, *options):
    return pipesim("predict", "--from", path, *options, "--cluster", "h100-80gb", "--print-command")


def judge_file(name, options, expected, note):
    path = re.sub(r"[^ ]+[.](sh|txt|log|yaml|toml|json)", lambda x: os.path.join(FIXTURES, x[0]), name)
    code, out, error = print_command(path, *options.split())
    words = "pipesim predict " + expected.format(os.path.dirname(path) if "{0}" in expected else path)
    tail = " " + options if options else ""
    if code or out.strip() != words + tail + " --cluster h100-80gb":
        yield "%s: %s %s" % (name, out.strip(), error.strip())
    if error.strip().replace(path, "{}") != note:
        yield "%s says %s" % (name, error.strip())


def judge_sequences(folder):
    """GPUs of a device hold whole sequences where Megatron-LM is not told to cut them."""
    path, peaks = os.path.join(folder, "sequences.sh"), []
    for option in "", "--sequence-parallel ":
        with open(path, "w") as file:
            file.write("torchrun --nproc-per-node 8 p.py " + WORDS.replace("--seq-length 64", "--seq-length 8192") + option + "--tensor-model-parallel-size 4 --recompute-granularity full\n")
        peaks.append(json.loads(pipesim("predict", "--from", path, "--cluster", "h100-80gb", "--json")[1])["results"][0]["peak_memory_bytes"])
    if peaks[0] <= peaks[1]:
        yield "sequences: whole ones take %d bytes, cut ones %d" % tuple(peaks)


def judge_hostile(name, text, expected, folder):
    path = os.path.join(folder, "hostile")
    with open(path, "w") as file:
        file.write(text)
    code, out, error = print_command(path)
    if code == 0 or out or error.count("\n") != 1 or not re.search(expected, error):
        yield "%s: %d %s %s" % (name, code, out.strip(), error.strip())


def judge_flavor(model, folder):
    """A model by its flavor: what --to prints is read as that model, without --model."""
    path, run = os.path.join(folder, "flavor.toml"), ["--tensor", "4", "--replicas", "8", "--recompute", "full", "--sequence", "4096"]
    code, text, error = pipesim("predict", "-s", "1f1b", "-p", "4", "-m", "8", "--model", model, "--cluster", "h100-80gb", *run, "--to", "torchtitan-0.2", "--force")
    with open(path, "w") as file:
        file.write(text)
    out = print_command(path)[1]
    if code or not out.startswith("pipesim predict --model %s " % model):
        yield "%s: %s %s" % (model, error.strip(), out.strip())


def same_run(s):
    """Whether a file can say the whole of the setting: torchtitan and DeepSpeed do not say some formats, and a device alone no stages."""
    drawn = set(s.args)
    if s.v > 1 and s.p == 1 or s.p == 1 and s.schedule != "1f1b" and not s.to.startswith("mega"):
        return False
    if s.to.startswith("megatron"):
        return not ("--main-grads-dtype" in drawn and s.grads == "fp32")
    if s.to.startswith("torchtitan"):
        return not (s.zero == 0 and s.c > 1 or s.zero == s.p == 1 or "--main-grads-dtype" in drawn)
    return not drawn & {"--exp-avg-dtype", "--optimizer"}


def judge_trip(s, folder):
    """None: the framework does not run the setting, or a file cannot say all of it."""
    s.args += [] if s.adjacent else ["--adjacent-replicas"]
    code, text, _ = pipesim("predict", *s.args, "--to", s.to, "--force")
    if code or "schedule convert" in text or not same_run(s):
        return None
    path = os.path.join(folder, "launch")
    with open(path, "w") as file:
        file.write(text)
    titan = s.to.startswith("torchtitan")
    framework = ["--main-grads-dtype", "fp32"] if titan else ["--framework", "deepspeed" if s.to == "deepspeed" else "megatron"]
    model = [] if s.to.startswith("megatron") else ["--model", s.name]
    said = json.loads(pipesim("predict", *s.args, *framework, "--json")[1])["results"][0]
    code, out, error = pipesim("predict", "--from", path, "--cluster", "h100-80gb", *model, "--json")
    if code:
        return [error.strip()]
    again = json.loads(out)["results"][0]
    keys = "devices", "microbatches", "chunks", "layout", "iteration_ns", "peak_memory_bytes"
    return ["%s is %s, was %s" % (k, again[k], said[k]) for k in keys if again[k] != said[k]] + [x for x in error.splitlines() if "not known" in x]


def report(number, name, wrong):
    print("%sok %d - %s" % ("not " * bool(wrong), number, name))
    for x in wrong[:10]:
        print("# " + x)
    return bool(wrong)


def main():
    q = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    q.add_argument("-n", type=int, default=500, help="settings of each framework that are read back")
    q.add_argument("--seed", type=int, default=1)
    o = q.parse_args()
    trips = dict.fromkeys(["megatron", "megatron-gpt", "torchtitan", "torchtitan-0.2", "deepspeed"], o.n)
    print("1..%d" % (2 + len(trips)))
    with tempfile.TemporaryDirectory() as folder:
        failed = report(1, "files", [x for row in FILES for x in judge_file(*row)] + list(judge_sequences(folder)))
        wrong = [x for row in HOSTILE for x in judge_hostile(*row, folder)]
        code, out, error = print_command("nowhere --nnodes 8 x.toml")
        wrong += [] if code == 1 and "nowhere: cannot read" in error and not out else ["a command of no program: %s %s" % (code, error)]
        wrong += [x for model in FLAVORS for x in judge_flavor(model, folder)]
        failed |= report(2, "hostile files, and flavors", wrong)
        for number, (to, n) in enumerate(trips.items(), 3):
            R, done, tries, wrong = random.Random("%s %d" % (to, o.seed)), 0, 0, []
            while done < n and tries < 30 * n:
                s = Setting(R, to)
                found, tries = judge_trip(s, folder), tries + 1
                done += found is not None
                wrong += ["%s\n#   pipesim predict %s --to %s" % (x, " ".join(map(str, s.args)), to) for x in found or []]
            failed |= report(number, "read back: %s, %d settings" % (to, done), wrong + ["too few"] * (done < n))
    return failed


if __name__ == "__main__":
    sys.exit(main())
