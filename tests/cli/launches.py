#!/usr/bin/env python3
"""launches.py - launches that --to prints, judged by what the frameworks' sources ask of a run, told here a second time.

    PIPESIM_BINDIR=build tests/cli/launches.py [-n 60] [--seed 1]

Settings of seven published models are drawn by a seed. What is printed must be what the framework takes, and be the run that was predicted: its
sizes, its stages, its order and its model. What is refused must be what the framework would refuse. The rules are those of

    Megatron-LM 0.19, 0.20  core/models/hybrid/hybrid_layer_allocation.py (pull request 4798 for groups), core/transformer/pipeline_parallel_layer_layout.py,
                         training/arguments.py, core/transformer/transformer_config.py, core/pipeline_parallel/schedules.py, core/parallel_state.py
    torchtitan 0.2, 0.3  distributed/parallel_dims.py, distributed/utils.py, models/llama3/infra/parallelize.py, trainer.py
    PyTorch 2.15         torch/distributed/pipelining/schedules.py
    DeepSpeed 0.19       runtime/pipe/module.py, runtime/pipe/engine.py

TAP is printed; a failed setting prints its command and what is wrong.
"""
import argparse, ctypes, json, os, random, re, shlex, subprocess, sys, tempfile
from itertools import takewhile

BIN = os.path.join(os.path.abspath(os.environ.get("PIPESIM_BINDIR", "build")), "pipesim")
MODELS = {  # as published: layers, hidden, heads, kv heads, feed-forward, vocabulary; experts, of them active, width of one
    "llama-3-8b": dict(L=32, h=4096, a=32, k=8, f=14336, V=128256, titan=("llama3", "llama3_8b", "8B")),
    "llama-3-70b": dict(L=80, h=8192, a=64, k=8, f=28672, V=128256, titan=("llama3", "llama3_70b", "70B")),
    "llama-3-405b": dict(L=126, h=16384, a=128, k=8, f=53248, V=128256, titan=("llama3", "CONFIG", "405B")),
    "deepseek-v3": dict(L=61, h=7168, a=128, k=128, f=18432, V=129280, E=256, top=8, fe=2048, mtp=1, dense=3, titan=("deepseek_v3", "deepseek_v3_671b", "671B")),
    "qwen3-235b-a22b": dict(L=94, h=4096, a=64, k=4, z=128, f=12288, V=151936, E=128, top=8, fe=1536, titan=("qwen3", "CONFIG", "235B-A22B")),
    "gpt-oss-120b": dict(L=36, h=2880, a=64, k=8, z=64, f=2880, V=201088, E=128, top=4, fe=2880, biased=1, titan=("gpt_oss", "gpt_oss_120b", "120b")),
    "mixtral-8x7b": dict(L=32, h=4096, a=32, k=8, f=14336, V=32000, E=8, top=2, fe=14336, titan=("MODULE", "CONFIG", "FLAVOR")),
}
FRAMEWORKS = {"megatron-gpt": ["1f1b", "interleaved", "interleaved", "interleaved-overlap", "interleaved-overlap-w"],
              "torchtitan": ["1f1b", "gpipe", "interleaved", "looped-bfs", "interleaved-zb", "zb-v", "zb-h1", "gis"], "deepspeed": ["1f1b"]}
FRAMEWORKS["torchtitan-0.2"] = FRAMEWORKS["torchtitan"]
FRAMEWORKS["megatron"] = FRAMEWORKS["megatron-gpt"]
CHUNKED = ("interleaved", "looped", "gis")
KINDS = ["none", "selective", "full", "full:layers=1", "full:uniform=2"]


CORE = os.path.join(os.path.dirname(BIN), "python", "libpipesim-core.so")  # runs commands in this process


def pipesim(*args):
    if not os.path.exists(CORE):
        r = subprocess.run([BIN, *map(str, args)], capture_output=True, text=True)
        return r.returncode, r.stdout, r.stderr
    core = ctypes.CDLL(CORE)
    core.pipesim_free.argtypes = [ctypes.c_void_p]
    argv = (ctypes.c_char_p * (len(args) + 2))(b"pipesim", *(str(x).encode() for x in args), None)
    out, error = ctypes.c_void_p(), ctypes.c_void_p()
    code = core.pipesim_run(len(args) + 1, argv, ctypes.byref(out), ctypes.byref(error))
    texts = [ctypes.string_at(x.value or 0).decode() for x in (out, error)]
    core.pipesim_free(out)
    core.pipesim_free(error)
    return code, *texts


CONVERTERS = {"fp8": "quantize.linear.float8", "mxfp8": "quantize.linear.mx"}
FORMATS = {"fp8": {"--fp8-format": "hybrid", "--fp8-recipe": "tensorwise"}, "fp8-block": {"--fp8-format": "e4m3", "--fp8-recipe": "blockwise"},
           "mxfp8": {"--fp8-format": "e4m3", "--fp8-recipe": "mxfp8"}, "nvfp4": {"--fp4-format": "e2m1", "--fp4-recipe": "nvfp4"}}


class Setting:
    """A drawn command line of predict, and what it says."""

    def __init__(self, R, to):
        self.to, self.name = to, R.choice(list(MODELS))
        self.M, self.p, self.schedule = MODELS[self.name], R.choice([1, 2, 3, 4, 4, 5, 6, 8, 8, 16]), R.choice(FRAMEWORKS[to])
        p = self.p
        self.m = R.choice([1, 3, p, 2 * p, 4 * p, p + 1, 2 * p - 1, 2 * p + 1, 3 * p + 1, R.randint(1, 64)])
        self.v = R.choice([1, 2, 2, 3, 5]) if self.schedule.startswith(CHUNKED) else 2 if self.schedule == "zb-v" else 1
        self.args = ["-s", self.schedule, "-p", p, "-m", self.m, "--model", self.name, "--cluster", "h100-80gb"]
        if self.schedule.startswith(CHUNKED):
            self.args += ["-v", self.v]
        many = to != "deepspeed"
        self.t = self.option(R, "--tensor", [2, 4, 8], .5, 1)
        self.d = self.option(R, "--replicas", [2, 3, 4, 8], .6, 1)
        self.c = self.option(R, "--context", [2, 4] if many else [], .3, 1)
        self.comm = self.option(R, "--cp-comm-type", ["p2p", "all_gather"] + ["a2a"] * to.startswith("mega") if many else [], .3, "all_gather")
        shares = self.t * self.c * self.d
        self.e = self.option(R, "--experts", [e for e in (2, 4, 8) if many and "E" in self.M and shares % e == 0], .7, 1)
        self.zero = self.option(R, "--zero", [0] if self.d == 1 else [0, 1, 2, 3], .5, 1 if self.d * self.c > 1 else 0)
        self.recompute = self.option(R, "--recompute", KINDS + (["mlp"] if "E" not in self.M else ["moe", "layernorm+moe_act"]), .5, "none")
        self.offload = self.option(R, "--offload-modules", ["core_attn", "core_attn+attn_proj", "attn_proj"], .1, "none")
        self.precision = self.option(R, "--precision", ["fp32", "fp16", "bf16", "fp8", "fp8-block", "mxfp8", "nvfp4"], .3, "bf16")
        self.grads = self.option(R, "--main-grads-dtype", ["fp32", "bf16"], .2, "fp32")
        self.moment = self.option(R, "--exp-avg-dtype", ["bf16"], .1, "fp32")
        self.optimizer = self.option(R, "--optimizer", ["muon"], .1, None)
        self.b = self.option(R, "--microbatch-size", [2, 4], .25, 1)
        self.layout = self.option(R, "--layout", ["even", "best"], .5, None)
        self.group = self.option(R, "--group", [p, p + 1, 2 * p, self.m] if self.schedule.startswith("interleaved") else [], .3, None)
        self.defer = self.option(R, "--defer-head", [2, 4] if self.schedule in ("1f1b", "interleaved") else [], .1, 0)
        self.adjacent = R.random() < .5
        self.args += ["--adjacent-replicas"] if self.adjacent else []
        if self.group is None:  # the smallest that waits for nothing, which is p where p divides m
            self.group = next((n for n in range(p, self.m + 1) if self.m % n == 0 or self.m % n >= p), self.m)
        self.one_chunk = self.schedule == "interleaved" and self.v == 1

    @classmethod
    def of_row(cls, name, row):
        """The setting of a row of plan --framework megatron."""
        s = cls.__new__(cls)
        s.to, s.name, s.M, s.schedule, s.p, s.t, s.c, s.e, s.d = "megatron", name, MODELS[name], *(row[x] for x in ("schedule", "devices", "tensor", "context", "experts", "replicas"))
        s.m, s.v, s.b, s.zero, s.recompute, s.precision, s.defer, s.adjacent, s.comm = row["microbatches"], row["chunks"], row["microbatch_size"], row["zero"], row["recompute"], "bf16", 0, True, "all_gather"
        s.offload = "none"
        s.grads, s.moment, s.optimizer = "fp32", "fp32", None
        s.args = ["-s", s.schedule, "-p", s.p, "-m", s.m] + (["-v", s.v] if s.schedule.startswith(CHUNKED) else [])
        return s

    def option(self, R, flag, values, chance, otherwise):
        if not values or R.random() >= chance:
            return otherwise
        value = R.choice(values)
        self.args += [flag, value]
        return value


def stages_of(layout):
    """Units of each stage of a layout string."""
    text = layout.replace(",", "")
    text = re.sub(r"\(([^()]*)\)\*(\d+)", lambda x: x[1] * int(x[2]), text)
    return re.sub(r"(.)\*(\d+)", lambda x: x[1] * int(x[2]), text).split("|")


def segments_of(pattern):
    """Letters of each stage of a hybrid pattern, and those of each module of multi-token prediction."""
    main, *modules = pattern.split("/")
    segments = []
    for text in main.split("|"):
        groups = re.sub(r"\[([^\[\]|]+)\]", lambda x: x[1] if "E" not in x[1][:-1] else "?", text)
        if set(groups) - set("MG*D+-E") or "[" in text.replace("][", "") and len(re.findall(r"\[[^\[\]]{2}\]", text)) * 4 != len(text):
            raise ValueError("pattern " + pattern)
        segments.append(groups)
    if len(set(modules)) > 1 or any(not x or set(x) - set("MG*D+-E") for x in modules):
        raise ValueError("modules of " + pattern)
    if "*" in main and ("D" in main or "+" in main):
        raise ValueError("* and latent attention in " + pattern)
    return segments, modules


def letters_of(M):
    """Both units of each layer."""
    return [("+" if "dense" in M else "*") + ("E" if "E" in M and i >= M.get("dense", 0) else "-") for i in range(M["L"])]


def even(M, n):
    return ["E" * (i == 0) + "t" * (M["L"] // n + (i < M["L"] % n)) + ("m" * M.get("mtp", 0) + "L") * (i == n - 1) for i in range(n)]


# ---- what frameworks refuse

def megatron_refuses(s, stages):
    overlaps, v = "overlap" in s.schedule, s.v if s.p > 1 else 1
    if s.p > 1 and v > 1 and s.m < s.p:
        yield "the group is at least p and at most m"
    if overlaps and (s.e == 1 or s.recompute.startswith("full") or s.recompute == "moe" or s.precision == "fp32" or s.p == 1):
        yield "overlap_moe_expert_parallel_comm"
    if s.offload == "attn_proj" or s.offload != "none" and s.recompute.startswith("full"):
        yield "fine_grained_activation_offloading"
    if s.moment != "fp32" and (s.zero == 0 or s.optimizer):
        yield "the precision-aware optimizer is a distributed Adam"
    if s.optimizer and s.zero >= 2:
        yield "emerging optimizers have no FSDP"
    if s.defer and s.p == 1:
        yield "embedding wgrad is put off in pipelines"
    for i, stage in enumerate(stages):
        if s.p > 1 and "m" in stage and i // s.p < v - 1:
            yield "MTP is in the last chunk of its rank"


def torch_class_refuses(s):
    rounds = max(1, s.m // s.p)
    if s.defer or s.schedule in ("zb-h1", "gis"):
        return True
    if s.schedule in ("1f1b", "gpipe") or s.one_chunk:
        return s.m < s.p
    return s.schedule.startswith("interleaved") and (s.m % rounds != 0 or s.group != s.m // rounds)


def titan_refuses(s, old):
    sharded = s.d if s.zero > 0 else 1
    divisor = s.t * (2 * s.c if s.c > 1 or old else 1)
    if s.precision not in ("fp32", "bf16", *(CONVERTERS if old else ())):
        yield "mixed_precision_param is bfloat16 or float32"
    if s.recompute == "selective":
        yield "selective saves operators, not modules"
    if s.grads != "fp32" or s.moment != "fp32" or s.optimizer:
        yield "mixed_precision_reduce is float32, both moments are alike, Muon has parameter groups"
    if "mtp" in s.M:
        yield "MTP has no pipelines"
    if s.recompute not in ("none", "full") or s.offload != "none":
        yield "activation_checkpoint"
    if s.defer and s.p == 1:
        yield "one device has no pipeline"
    if s.e > 1 and sharded * s.c * s.t % s.e:
        yield "ep divides dp_shard cp tp"
    if s.M["k"] % s.t:
        yield "heads of keys are sharded"
    if (8192 if "llama" in s.name else 4096) % divisor:
        yield "seq_len_divisor"
    if old and sharded * s.c * s.e == 1 and s.p * s.t > 1 and (s.precision != "fp32" or s.d > 1):
        yield "without FSDP: DDP alone, and no mixed precision with PP or TP"
    if s.p == 1 and s.schedule in ("gpipe", "looped-bfs", "interleaved-zb", "zb-v", "gis", "zb-h1"):
        yield None  # one device runs microbatches in turn: it depends on the order


def deepspeed_refuses(s):
    layers = s.recompute == "none" or s.recompute.startswith("full") and "layers" not in s.recompute
    if s.p > 1 and s.zero >= 2 or s.precision in FORMATS or "mtp" in s.M or s.defer or not layers or s.offload != "none":
        yield "PipelineEngine"


# ---- what is printed

def megatron_order(s, rank, n):
    """core/pipeline_parallel/schedules.py: forwards by get_schedule_table, warm-up by get_pp_rank_microbatches."""
    p, v, m = s.p, s.v, s.m
    table = [(mb, k) for at in range(0, m, n) for k in range(v) for mb in range(at, min(at + n, m))]
    back = [(mb, v - 1 - k) for mb, k in table]
    warm = (p - rank - 1) * 2 + (v - 1) * n + ("overlap" in s.schedule) if v > 1 else p - rank - 1
    warm, ops = min(warm, m * v), []
    ops += [("F",) + x for x in table[:warm]]
    for i in range(m * v):
        ops += [("F",) + table[warm + i]] if warm + i < m * v else []
        ops += [("B",) + back[i]]
    return ops


def our_order(s, folder):
    path = os.path.join(folder, "order.csv")
    args = [x for i, x in enumerate(s.args) if x in ("-p", "-m", "-v", "--group") or i > 0 and s.args[i - 1] in ("-p", "-m", "-v", "--group")]
    code, _, error = pipesim("schedule", "convert", s.schedule, *args, "--to", "torch-compute", "-o", path)
    assert code == 0, error
    ops = [[("F" if x[1] == "F" else "B", int(x[2]), int(x[0]) // s.p) for x in re.findall(r"(\d+)([FBI])(\d+)", line)] for line in open(path)]
    return ops


def judge_megatron(s, text, stages, folder):
    words = shlex.split("\n".join(x for x in text.splitlines() if not x.startswith("#")))
    launch = re.search(r"^# launch: (.*)$", text, re.M)[1]
    value = lambda flag: words[words.index(flag) + 1] if flag in words else None
    M, v, whole, full = s.M, s.v if s.p > 1 else 1, s.e > 1 or s.t > 1 and "biased" in s.M, s.recompute.startswith("full")
    number = lambda flag, otherwise=1: int(value(flag) or otherwise)
    hybrid = s.to == "megatron"
    want = {"--num-layers": None if hybrid else M["L"], "--hidden-size": M["h"], "--ffn-hidden-size": M["f"], "--num-attention-heads": M["a"], "--vocab-size": M["V"], "--normalization": "RMSNorm",
            "--position-embedding-type": "rope", "--num-query-groups": None if M["k"] == M["a"] else M["k"], "--kv-channels": M.get("z"),
            "--num-experts": M.get("E"), "--moe-router-topk": M.get("top"), "--moe-ffn-hidden-size": M.get("fe"), "--mtp-num-layers": None if hybrid else M.get("mtp"),
            "--tensor-model-parallel-size": s.t, "--pipeline-model-parallel-size": s.p, "--micro-batch-size": s.b, "--global-batch-size": s.b * s.m * s.d,
            "--context-parallel-size": None if s.c == 1 else s.c, "--cp-comm-type": None if s.c == 1 or s.comm == "p2p" else s.comm, "--expert-model-parallel-size": None if s.e == 1 else s.e,
            "--expert-tensor-parallel-size": 1 if whole else None, "--moe-token-dispatcher-type": "alltoall" if s.e > 1 else None,
            "--ckpt-format": "fsdp_dtensor" if s.zero >= 2 else None, "--recompute-granularity": None if s.recompute == "none" else "full" if full else "selective",
            "--recompute-method": None if not full else "block" if "layers" in s.recompute else "uniform",
            "--recompute-num-layers": (2 if s.to == "megatron" else 1) * int(s.recompute.split("=")[1] if "=" in s.recompute else 1) if full else None,
            "--data-parallel-sharding-strategy": {2: "optim_grads", 3: "optim_grads_params"}.get(s.zero),
            **{"--%s-%s" % (bits, key): None for bits in ("fp8", "fp4") for key in ("format", "recipe")}, **FORMATS.get(s.precision, {})}
    if "dense" in M:
        want.update({"--moe-layer-freq": None if hybrid else "([0]*3+[1]*58)", "--q-lora-rank": 1536, "--kv-lora-rank": 512, "--qk-head-dim": 128, "--v-head-dim": 128,
                     "--moe-shared-expert-intermediate-size": 2048})
    precise, narrow = s.moment != "fp32", s.grads == "bf16"
    want.update({"--optimizer": s.optimizer, "--exp-avg-dtype": s.moment if precise else None, "--exp-avg-sq-dtype": "fp32" if precise else None,
                 "--main-params-dtype": "fp32" if precise else None, "--main-grads-dtype": "bf16" if precise and narrow else None})
    alone = {"--swiglu": True, "--untie-embeddings-and-output-weights": True, "--group-query-attention": M["k"] != M["a"], "--multi-latent-attention": "dense" in M,
             "--disable-bias-linear": "biased" not in M, "--sequence-parallel": s.t > 1, "--use-distributed-optimizer": s.zero > 0,
             "--use-megatron-fsdp": s.zero >= 2, "--bf16": s.precision == "bf16" or s.precision in FORMATS, "--fp16": s.precision == "fp16",
             "--overlap-moe-expert-parallel-comm": "overlap" in s.schedule, "--delay-wgrad-compute": s.schedule.endswith("-w"),
             "--fine-grained-activation-offloading": s.offload != "none",
             "--accumulate-allreduce-grads-in-fp32": s.precision != "fp32" and not narrow,
             "--grad-reduce-in-bf16": s.precision != "fp32" and narrow, "--use-precision-aware-optimizer": precise, "--moe-grouped-gemm": "E" in M,
             "--use-tp-pp-dp-mapping": s.d > 1 and s.p > 1 and not s.adjacent and s.c == 1 and not whole}
    for flag, x in want.items():
        if value(flag) != (None if x is None else str(x)):
            yield "%s is %s, not %s" % (flag, value(flag), x)
    for flag, x in ("--recompute-modules", "none" if full or s.recompute == "selective" else s.recompute), ("--offload-modules", s.offload):
        at = words.index(flag) + 1 if flag in words else len(words)
        if set(takewhile(lambda w: not w.startswith("--"), words[at:])) != set(x.split("+")) - {"none"}:
            yield "%s is not %s" % (flag, x)
    for flag, x in alone.items():
        if (flag in words) != x:
            yield flag + (" is missing" if x else " is there")
    if ("CUDA_DEVICE_MAX_CONNECTIONS=1" in launch) != ((s.t > 1 or s.c > 1) and s.zero < 2 and "overlap" not in s.schedule):
        yield "CUDA_DEVICE_MAX_CONNECTIONS"
    if hybrid:
        letters, at, wanted = letters_of(M), 0, []
        for units in stages if s.p > 1 else ["t" * M["L"]]:
            wanted.append("".join(letters[at:at + units.count("t")]))
            at += units.count("t")
        found, modules = segments_of(value("--hybrid-layer-pattern"))
        if found != wanted or modules != [letters[-1]] * M.get("mtp", 0) or (words[words.index("--spec") + 2] != "hybrid_stack_spec") or "pretrain_hybrid.py" not in launch:
            yield "stages are %s, not %s" % (found, wanted)
        if ("[" in value("--hybrid-layer-pattern")) != ("overlap" in s.schedule):
            yield "groups"
        if "--pipeline-model-parallel-layout" in words or "--num-layers-per-virtual-pipeline-stage" in words:
            yield "stages are said twice"
    if s.p == 1:
        if "--pipeline-model-parallel-layout" in words or "--num-layers-per-virtual-pipeline-stage" in words:
            yield "stages of one device"
        return
    layout, each = value("--pipeline-model-parallel-layout"), number("--num-layers-per-virtual-pipeline-stage", 0)
    there = stages_of(layout) if layout else even(M, s.p * (M["L"] // s.p // each if each else 1))
    if not hybrid and (there != stages or (layout is None and M["L"] % (s.p * v))):
        yield "stages are %s, not %s" % (there, stages)
    if not hybrid and (there[0][:1] != "E" or there[-1][-1:] != "L"):
        yield "E first, L last"
    n = number("--microbatch-group-size-per-virtual-pipeline-stage", s.p)
    if v > 1 and not (s.p <= n <= s.m and (s.m % n == 0 or s.m % n >= s.p)):
        yield "group %d of m %d" % (n, s.m)
    if [megatron_order(s, r, n) for r in range(s.p)] != our_order(s, folder):
        yield "another order"


def judge_titan(s, text, stages, folder, old):
    plain = "\n".join(x for x in text.splitlines() if not x.startswith("#"))
    keys, M = {}, s.M
    if old:
        for line in re.sub(r"\[\n(.*?)\n\]", lambda x: json.dumps(json.loads("[" + x[1].rstrip(",").replace("\n", "") + "]")), plain, flags=re.S).splitlines():
            if " = " in line:
                keys[line.split(" = ")[0]] = json.loads(line.split(" = ")[1])
    else:
        words = shlex.split(plain)
        if not words[-1] == "activation_checkpoint:" + s.recompute or (s.p > 1 and words[-2] != "--training.disable_cuda_graphs"):
            yield "words end with " + " ".join(words[-2:])
        at = [i for i, w in enumerate(words) if w.startswith("--")]
        for i, j in zip(at, at[1:] + [len(words)]):
            keys[words[i].split(".")[-1].lstrip("-")] = words[i + 1:j] if "module_fqns" in words[i] else words[i + 1] if j > i + 1 else ""
        if "module_fqns_per_model_part" in keys:
            keys["module_fqns_per_model_part"] = [x.split(",") if x else [] for x in keys["module_fqns_per_model_part"]]
    want = {"pipeline_parallel_degree": s.p, "tensor_parallel_degree": s.t, "data_parallel_replicate_degree": 1 if s.zero else s.d,
            "data_parallel_shard_degree": s.d if s.zero else 1, "local_batch_size": s.b * (s.m if s.p > 1 else 1), "global_batch_size": s.b * s.m * s.d,
            "mixed_precision_param": "float32" if s.precision == "fp32" else "bfloat16", "context_parallel_degree": s.c if s.c > 1 else None,
            "context_parallel_rotate_method": "alltoall" if s.c > 1 and s.comm == "p2p" else None,
            "expert_parallel_degree": s.e if s.e > 1 else None, "fsdp_reshard_after_forward": {1: "never" if s.p == 1 else None, 2: "never", 3: "always"}.get(s.zero)}
    want["converters"] = [CONVERTERS[s.precision]] if s.precision in CONVERTERS else None
    want.update({"name": M["titan"][0], "flavor": M["titan"][2], "mode": s.recompute} if old else {"module": M["titan"][0], "config": M["titan"][1]})
    for key, x in want.items():
        if str(keys.get(key)) != str(x):
            yield "%s is %s, not %s" % (key, keys.get(key), x)
    if s.p == 1:
        return
    names, at = [], 0
    for units in stages:
        n = units.count("t")
        names.append(["tok_embeddings"] * ("E" in units) + ["layers.%d" % i for i in range(at, at + n)] + ["norm", "output" if old else "lm_head"] * ("L" in units))
        at += n
    if keys["module_fqns_per_model_part"] != names:
        yield "parts are %s" % keys["module_fqns_per_model_part"]
    classes = {"1f1b": "1F1B", "gpipe": "GPipe", "looped-bfs": "LoopedBFS", "interleaved": "Interleaved1F1B", "interleaved-zb": "InterleavedZeroBubble", "zb-v": "ZBVZeroBubble"}
    name, convert = keys["pipeline_parallel_schedule"], re.search(r"^# (pipesim schedule convert .*)$", text, re.M)
    if not torch_class_refuses(s):
        if name != ("1F1B" if s.one_chunk else classes[s.schedule]) or convert:
            yield "schedule " + name
    elif not convert or name != "PipelineSchedule" + ("Multi" if s.v > 1 else "Single"):
        yield "no CSV, schedule " + name
    else:
        command = shlex.split(convert[1])[1:]
        command[command.index("-o") + 1] = os.path.join(folder, "schedule.csv")
        code, _, error = pipesim(*command)
        rows = [x for x in open(command[-1])] if code == 0 else []
        if len(rows) != s.p or sum(len(re.findall(r"\d+F\d+", x)) for x in rows) != s.p * s.v * s.m:
            yield "CSV: " + error


def judge_deepspeed(s, text, stages):
    interval = 0 if s.recompute == "none" else s.recompute.split("=")[1] if "=" in s.recompute else 1
    if "activation_checkpoint_interval=%s\n" % interval not in text:
        yield "activation_checkpoint_interval"
    config = json.loads(text[text.index("\n{"):])
    if (config["train_batch_size"], config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"]) != (s.b * s.m * s.d, s.b, s.m):
        yield "batch"
    if config["zero_optimization"]["stage"] != s.zero or "topology=PipeModelDataParallelTopology(num_pp=%d, num_mp=%d, num_dp=%d)" % (s.p, s.t, s.d) not in text:
        yield "ZeRO or topology"
    parts, at = re.search(r"^parts=(\[.*\])$", text, re.M), [0]
    for units in stages:
        at.append(at[-1] + len(units))
    if json.loads(parts[1]) != at if parts else stages != even(s.M, s.p):
        yield "parts"


def judge(s, folder):
    """What is wrong; None: predict itself does not take the setting."""
    framework = s.to.split("-")[0] if s.to in ("megatron", "megatron-gpt", "deepspeed") else "none"
    code, out, _ = pipesim("predict", *s.args, "--framework", framework, "--json")
    if code != 0:
        return None
    layout = json.loads(out)["results"][0]["layout"]
    stages = even(s.M, s.p * s.v) if layout == "even" else stages_of(layout)
    code, text, error = pipesim("predict", *s.args, "--to", s.to, "--force")
    why = list(megatron_refuses(s, stages) if s.to.startswith("megatron") else deepspeed_refuses(s) if s.to == "deepspeed" else titan_refuses(s, s.to != "torchtitan"))
    if s.to.startswith("torchtitan") and s.schedule == "zb-v" and s.p > 1 and torch_class_refuses(s):
        why.append("a V comes by its class alone")
    if code != 0:
        return [] if why else ["refused without need: " + error.strip()]
    if [x for x in why if x]:
        return ["not refused: " + why[0]]
    wrong = [] if all(x.startswith("#") or "#" not in x for x in text.splitlines()) else ["a comment behind something"]
    return wrong + list(judge_megatron(s, text, stages, folder) if s.to.startswith("megatron") else judge_deepspeed(s, text, stages) if s.to == "deepspeed"
                        else judge_titan(s, text, stages, folder, s.to != "torchtitan"))


def judge_plan(R, folder):
    """The best two rows of a plan for Megatron-LM, whose batch is no multiple of the GPUs."""
    name, gpus = R.choice([("llama-3-8b", 8), ("llama-3-8b", 24), ("gpt-oss-120b", 64), ("mixtral-8x7b", 32), ("deepseek-v3", 256)])
    args = ["plan", "--model", name, "--cluster", "h200-141gb", "-g", gpus, "--global-batch", R.choice([42, 90, 150, 200, 330, 480]), "--top", 2,
            "-s", R.choice(["1f1b,interleaved", "interleaved,interleaved-overlap", "interleaved"])]
    code, out, _ = pipesim(*args, "--framework", "megatron", "--json")
    rows = [x for x in json.loads(out)["results"] if not x["not_run"]] if code == 0 else []
    for i, row in enumerate(rows):
        s = Setting.of_row(name, row)
        code, text, error = pipesim(*args, "--explain", i + 1, "--to", "megatron")
        stages = even(s.M, s.p * s.v) if row["layout"] == "even" else stages_of(row["layout"])
        for x in [error] if code else list(megatron_refuses(s, stages)) + list(judge_megatron(s, text, stages, folder)):
            yield "%s\n#   pipesim %s --explain %d --to megatron" % (x, " ".join(map(str, args)), i + 1)
    if not rows:
        yield None


# ---- both strings of Megatron-LM, read back

KEYS = """layers = %d
hidden = 256
heads = 8
kv_heads = 4
feed_forward = 512
vocabulary = 1000
sequence = 512
microbatch_size = 1
precision = bf16
mlp = swiglu
flash_attention = true
window = 128
experts = 8
active_experts = 2
expert_feed_forward = 64
mamba_heads = 8
mamba_head_size = 32
mamba_state = 16
mamba_groups = 2
delta_key_heads = 4
delta_key_size = 32
delta_value_heads = 8
delta_value_size = 32
"""
LATENT = """kv_rank = 32
q_rank = 32
nope_size = 32
rope_size = 16
value_size = 32
index_heads = 2
index_size = 16
index_top = 64
"""


def draw_trip(R, folder):
    """A model of drawn units, a drawn cut, its string in each form that can say it, and what is wrong with them."""
    latent, pair, mtp = R.random() < .3, R.random() < .7, R.choice([0, 0, 1, 2])
    mixers, n, p = "+DMG" if latent else "*wMG", R.randint(2, 24), R.choice([1, 2, 3, 4, 6])
    draw = (lambda: R.choice(mixers) + R.choice("-E")) if pair else (lambda: R.choice(mixers + "-E"))
    layers, module = [draw() for _ in range(n)], draw() if pair else R.choice(mixers) + "E"
    v = R.choice([1, 1, 2]) if p > 1 else 1
    path = os.path.join(folder, "drawn.ini")
    with open(path, "w") as file:
        file.write("[model]\nname = drawn\n" + KEYS % n + LATENT * latent + "pattern = " + "".join(layers) + ("/" + module if mtp else "") + "\n" + ("mtp = %d\n" % mtp if mtp else ""))
    within = pair and R.random() < .3
    units = list("".join(layers)) if within else layers
    cuts = sorted(R.choices(range(len(units) + 1), k=p * v - 1))
    stages = [units[a:b] for a, b in zip([0] + cuts, cuts + [len(units)])]
    apart = mtp > 0 and p > 2 and not within and R.random() < .2  # the modules in a stage of their own
    if apart:
        stages = stages[:-2] + [stages[-2] + stages[-1], []]
    given = "|".join("".join(x) for x in stages) + ("/" + module) * mtp
    if apart or not within and R.random() < .5:
        given = "".join("E" * (i == 0) + "t" * len(x) + "m" * mtp * (i == len(stages) - 1 - apart) + "L" * (i == len(stages) - 1) + "|" * (i < len(stages) - 1) for i, x in enumerate(stages))
    args = ["predict", "-s", "interleaved" if v > 1 else "1f1b", "-p", p, "-m", 2 * p] + (["-v", v] if v > 1 else []) + ["--model", path, "--cluster", "h100-80gb", "--framework", "megatron"]
    code, out, error = pipesim(*args, "--layout", given, "--json")
    if code:
        yield "%s: %s" % (given, error)
        return
    said = json.loads(out)["results"][0]
    plain = lambda text: text.replace("w", "*")
    for to in "megatron", "megatron-gpt":
        code, text, error = pipesim(*args, "--layout", given, "--to", to, "--force")
        everything = "".join(layers) + module * (mtp > 0)
        takes = not apart if to == "megatron" else pair and not any(len("".join(x)) % 2 for x in stages) and "M" not in everything and not ("D" in everything and set(everything) & set("+G"))
        if (code == 0) != takes:
            yield "%s --to %s: %s" % (given, to, error or "not refused")
        if code:
            continue
        words = shlex.split("\n".join(x for x in text.splitlines() if not x.startswith("#")))
        value = lambda flag: words[words.index(flag) + 1] if flag in words else None
        if to == "megatron":
            string = value("--hybrid-layer-pattern")
            if "t" in string or segments_of(string) != ([plain("".join(x)) for x in stages], [plain(module)] * mtp):
                yield "%s is %s" % (given, string)
        else:
            string = value("--pipeline-model-parallel-layout")
            each = int(value("--num-layers-per-virtual-pipeline-stage") or 0)
            if string is None:
                string = "|".join("E" * (i == 0) + "t" * (each or n // p) + ("m" * mtp + "L") * (i == p * v - 1) for i in range(p * v))
            found = [sum(x == "t" for x in stage) for stage in stages_of(string)]
            if found != [len("".join(x)) // 2 for x in stages]:
                yield "%s is %s" % (given, string)
        code, out, error = pipesim(*args, "--layout", string, "--json")
        again = json.loads(out)["results"][0] if code == 0 else {}
        for key in "layout", "iteration_ns", "peak_memory_bytes":
            if again.get(key) != said[key]:
                yield "%s --to %s: %s reads as %s %s, not %s %s" % (given, to, string, key, again.get(key), said[key], error)
    for form in said["layout"], given:
        code, out, error = pipesim(*args, "--layout", form, "--json")
        if code or json.loads(out)["results"][0]["iteration_ns"] != said["iteration_ns"]:
            yield "%s is printed as %s: %s" % (given, form, error)


def main():
    q = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    q.add_argument("-n", type=int, default=60, help="settings that predict takes, of each framework")
    q.add_argument("--trips", type=int, default=200, help="models and cuts whose strings are read back")
    q.add_argument("--seed", type=int, default=1)
    o = q.parse_args()
    failed = 0
    print("1..%d" % (len(FRAMEWORKS) + 2))
    with tempfile.TemporaryDirectory() as folder:
        for number, to in enumerate(FRAMEWORKS, 1):
            R, done, tries, wrong = random.Random("%s %d" % (to, o.seed)), 0, 0, []
            while done < o.n and tries < 20 * o.n:
                s = Setting(R, to)
                found, tries = judge(s, folder), tries + 1
                done += found is not None
                wrong += ["%s\n#   pipesim predict %s --to %s" % (x, " ".join(map(str, s.args)), to) for x in found or []]
            print("%sok %d - %s: %d settings, %d faults" % ("not " * bool(wrong or done < o.n), number, to, done, len(wrong)))
            for x in wrong[:10]:
                print("# " + x)
            failed += bool(wrong or done < o.n)
        R = random.Random(o.seed)
        plans = [list(judge_plan(R, folder)) for _ in range(max(o.n // 10, 1))]
        wrong = [x for found in plans for x in found if x]
        empty = sum(found == [None] for found in plans)
        print("%sok %d - rows of plan: %d plans, %d of them empty, %d faults" % ("not " * bool(wrong or empty == len(plans)), number + 1, len(plans), empty, len(wrong)))
        for x in wrong[:10]:
            print("# " + x)
        failed += bool(wrong or empty == len(plans))
        wrong = [x for _ in range(o.trips) for x in draw_trip(R, folder)]
        print("%sok %d - strings read back: %d models and cuts, %d faults" % ("not " * bool(wrong), number + 2, o.trips, len(wrong)))
        for x in wrong[:10]:
            print("# " + x)
        failed += bool(wrong)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
