#!/usr/bin/env python3
"""advise.py - what advise says of launches, and the files that its diffs make.

    PIPESIM_BINDIR=build tests/cli/advise.py [FILE...]

Each row of advise for each file of tests/fixtures/launches, and for those below, has a diff that applies, and predict --from of the new file
has the row's step and memory. Logs are not edited, and DeepSpeed's JSON does not say stages: those rows say their flags. TAP is printed.
"""
import json, os, re, subprocess, sys, tempfile

BIN = os.path.join(os.path.abspath(os.environ.get("PIPESIM_BINDIR", "build")), "pipesim")
FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "launches")
CLUSTER = ["--cluster", "h100-80gb"]
FILES = [  # file, further options, rows without a diff say
    ("arguments.txt", ["-g", "32"], None), ("dense.sh", [], None), ("moe.sh", [], None), ("conditions.sh", [], None), ("slurm.sh", [], r"--(num|data|parts)"), ("titan.sh", [], None),
    ("titan.toml", [], None), ("titan-moe.toml", ["--replicas", "32"], None), ("megatron.yaml", [], None), ("bridge.yaml", [], None), ("run.log", [], r"--"),
    ("deepspeed/ds_config.json", [], r'"num_(pp|mp|dp)"|activation_checkpoint_interval'),
]
MODEL = "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --vocab-size 128256 --swiglu --disable-bias-linear --bf16 "
SCRIPTS = {  # name: text, a change, lines that its diff holds, lines that it does not
    "a variable of one use": ("TP=8\nPP=1\ntorchrun --nproc-per-node 8 p.py " + MODEL + "--micro-batch-size 1 --global-batch-size 64 --sequence-parallel "
                              "--use-distributed-optimizer --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP\n", "--tensor 2",
                              ["-TP=8", "+TP=2"], []),
    "a variable of two uses": ("TP=8\necho $TP\ntorchrun --nproc-per-node 8 p.py " + MODEL + "--micro-batch-size 1 --global-batch-size 64 --sequence-parallel "
                               "--use-distributed-optimizer \\\n  --tensor-model-parallel-size ${TP}\n", "--tensor 2",
                               ["-  --tensor-model-parallel-size ${TP}", "+  --tensor-model-parallel-size 2"], ["-TP=8"]),
    "a default": ("torchrun --nproc-per-node 8 p.py " + MODEL + "--micro-batch-size 1 --global-batch-size 64 --sequence-parallel --use-distributed-optimizer \\\n"
                  "  --tensor-model-parallel-size ${TP:-8} \\\n  --overlap-grad-reduce\n", "--tensor 2", ["+  --tensor-model-parallel-size ${TP:-2} \\"], []),
    "a sum": ("N=2\ntorchrun --nproc-per-node 8 p.py " + MODEL + "--micro-batch-size 1 --global-batch-size 64 --sequence-parallel --use-distributed-optimizer \\\n"
              "  --tensor-model-parallel-size $((N * 4)) --log-interval $N\n", "--tensor 2", ["+  --tensor-model-parallel-size 2 --log-interval $N"], []),
    "the last option of a command": ("torchrun --nproc-per-node 8 p.py " + MODEL + "--micro-batch-size 1 --global-batch-size 64 \\\n"
                                     "  --tensor-model-parallel-size 8 --sequence-parallel --use-distributed-optimizer \\\n  --recompute-activations\necho done\n",
                                     "--recompute none", ["-  --recompute-activations",
                                     "+  --tensor-model-parallel-size 8 --sequence-parallel --use-distributed-optimizer"], []),
    "a file of TOML": ("torchrun --nnodes 32 --nproc-per-node 8 -m torchtitan.train --job.config_file " + os.path.join(FIXTURES, "titan.toml") + "\n", "--recompute none",
                       ["+torchrun --nnodes 32 --nproc-per-node 8 -m torchtitan.train --job.config_file " + os.path.join(FIXTURES, "titan.toml") + " --activation_checkpoint.mode none"], []),
    "whole sequences": ("torchrun --nproc-per-node 8 p.py " + MODEL + "--micro-batch-size 1 --global-batch-size 64 --use-distributed-optimizer \\\n"
                        "  --tensor-model-parallel-size 8\n", "--sequence-parallel", ["+  --sequence-parallel"], []),
    "a flag": ("torchrun --nproc-per-node 8 p.py " + MODEL + "--micro-batch-size 1 --global-batch-size 64 \\\n"
               "  --tensor-model-parallel-size 8 --sequence-parallel --use-distributed-optimizer\n", "--tp-comm-overlap",
               ["+  --tensor-model-parallel-size 8 --sequence-parallel --use-distributed-optimizer --tp-comm-overlap"], []),
    "options in a string": ("ARGS=\"--tensor-model-parallel-size 8 --sequence-parallel\"\ntorchrun --nproc-per-node 8 p.py " + MODEL +
                            "--micro-batch-size 1 --global-batch-size 64 --use-distributed-optimizer $ARGS\n", "--tensor 1",
                            ["+ARGS=\"--tensor-model-parallel-size 1\""], []),
}
EXPERTS = "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 4096 --micro-batch-size 1 --global-batch-size 64 --use-distributed-optimizer "
SCRIPTS["flex alone is deepep"] = ("torchrun --nproc-per-node 8 p.py " + MODEL + EXPERTS + "\\\n  --expert-model-parallel-size 8 \\\n  --moe-token-dispatcher-type flex\n",
                                   "--main-grads-dtype bf16", [], ["-  --moe-token-dispatcher-type flex"])
failed = number = 0


def pipesim(*args):
    r = subprocess.run([BIN, *map(str, args)], capture_output=True, text=True)
    return r.returncode, r.stdout, r.stderr


def report(name, wrong):
    global failed, number
    number += 1
    failed += bool(wrong)
    print("%sok %d - %s" % ("not " * bool(wrong), number, name))
    for x in wrong[:10]:
        print("# " + str(x))


def patch(text, diff):
    """The text with a unified diff without context."""
    old, new, at = text.split("\n"), [], 0
    for hunk in re.split(r"^@@ ", diff, flags=re.M)[1:]:
        head, body = hunk.split("\n", 1)
        line, n, _, _ = map(int, re.match(r"-(\d+),(\d+) \+(\d+),(\d+) @@", head).groups())
        begin = line - 1 if n else line
        new += old[at:begin]
        lines = body.split("\n")[:-1]
        assert [x[1:] for x in lines if x[0] == "-"] == old[begin : begin + n], head
        new += [x[1:] for x in lines if x[0] == "+"]
        at = begin + n
    return "\n".join(new + old[at:])


def advise(path, options):
    code, out, error = pipesim("advise", path, *options, *CLUSTER, "--every", "--top", 1000, "--json")
    return json.loads(out)["results"] if code == 0 else error


def judge_rows(path, options, allowed, folder):
    text, rows, n = open(path).read(), advise(path, options), 0
    if isinstance(rows, str):
        return [rows]
    wrong = [] if len(rows) > 2 else ["%d rows" % len(rows)]
    new = os.path.join(folder, "new" + os.path.splitext(path)[1])
    if path.endswith(".json"):
        subprocess.run(["cp", os.path.join(os.path.dirname(path), "config.json"), folder])
    for row in rows[1:]:
        if row["diff"] is None:
            if not allowed or not re.search(allowed, row["flags"]):
                wrong.append("no diff: %s (%s)" % (row["options"], row["flags"]))
            continue
        n += 1
        with open(new, "w") as file:
            file.write(patch(text, row["diff"]))
        code, out, error = pipesim("predict", "--from", new, *([] if options == [] else ["--replicas", row_replicas(row, options[1] if options[0] == "--replicas" else 8)]), *CLUSTER, "--json")
        got = json.loads(out)["results"][0] if code == 0 else {}
        pairs = [(got[a], row[b]) for a, b in (("iteration_ns", "step_ns"), ("peak_memory_bytes", "peak_memory_bytes"))] if got else []
        if code or any(abs(a - b) > (1e-3 * b if "slurm" in path else 0) for a, b in pairs):  # slurm.sh pads its vocabulary for t
            wrong.append("%s: %s %s" % (row["options"], error.strip(), [got.get("iteration_ns"), row["step_ns"]]))
    if allowed != "--" and n == 0:
        wrong.append("no diff at all")
    return wrong


def row_replicas(row, given):
    """What the options of the row say, else those of the launch."""
    said = re.search(r"--replicas (\d+)", row["options"])
    return said[1] if said else given


def judge_script(text, change, there, absent, folder):
    path, new = os.path.join(folder, "run.sh"), os.path.join(folder, "new.sh")
    with open(path, "w") as file:
        file.write(text)
    rows = advise(path, [])
    if isinstance(rows, str):
        return [rows]
    ranks = [row["rank"] for row in rows if row["options"] and row["rank"] and change in row["options"] and row["diff"]]
    if not ranks:
        return ["no row has %s: %s" % (change, [x["options"] for x in rows])]
    for rank in ranks:
        row = next(x for x in rows if x["rank"] == rank)
        code, out, error = pipesim("advise", path, *CLUSTER, "--every", "--top", 1000, "--change", rank, "--write", new)
        if code or open(new).read() != patch(text, row["diff"]):
            return ["--write: %s" % error]
        lines = row["diff"].split("\n")
        if all(x in lines for x in there) and not any(x in lines for x in absent):
            return []
    return ["diff of %s:" % row["options"]] + lines


def judge_order(rows):
    """A launch that does not fit: the changes that make it fit stand first, each kind by its step."""
    keys = [(row["fits"] == "no", row["step_ns"]) for row in rows[1:] if row["rank"]]
    return [] if rows[0]["fits"] == "no" and keys == sorted(keys) and keys[0][0] < keys[-1][0] else keys


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, options, allowed in FILES:
            if not sys.argv[1:] or name in sys.argv[1:]:
                report("diffs of " + name, judge_rows(os.path.join(FIXTURES, name), options, allowed, folder))
        for name, case in SCRIPTS.items():
            report(name, judge_script(*case, folder))
        report("what fits stands first", judge_order(advise(os.path.join(FIXTURES, "dense.sh"), ["--memory-limit", "15GiB"])))
        path = os.path.join(folder, "run.sh")
        for name, args, expected in [("no launch", ["advise"], "give its file first"), ("a launch that is not there", ["advise", "/nowhere/x.sh"], "No such file"),
                                     ("a row that is not there", ["advise", path, *CLUSTER, "--change", 99], "--change: '99' is after the last"),
                                     ("no costs", ["advise", path], "costs"), ("two launches", ["advise", path, path], "not expected")]:
            code, out, error = pipesim(*args)
            report(name, [] if code in (1, 2) and error.count("\n") == 1 and expected in error and not out else [code, out, error])
    print("1..%d" % number)
    return failed > 0


sys.exit(main())
