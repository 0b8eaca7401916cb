"""plans.py PIPESIM FOLDER [MODEL-PART]: whether `pipesim plan` proposes settings as fast as Megatron Bridge's own recipes, by the same prediction.

FOLDER has nvidia_nemo_megatron_bridge.csv and nemo_recipes.csv. Takes the first row of each model, machine and number format whose settings are
known. Prints what both take, what the plan costs, and in what it differs from the recipe."""
import csv, json, os, re, subprocess, sys, tempfile, time

KEYS = "container task model system precision variant gpus t p v cp ep fsdp microbatch_size global_batch sequence".split()
MODELS = {"DeepSeekV3": "deepseek-v3", "LLAMA3_70B": "llama-3-70b", "LLAMA3.1_405B": "llama-3-405b", "Qwen3_235B_a22B": "qwen3-235b-a22b",
          "Qwen3_30B_a3B": "qwen3-30b-a3b", "Qwen3_Next_80B_a3B": "qwen3-next-80b-a3b", "GPT OSS 120B": "gpt-oss-120b", "Kimi_K2": "kimi-k2"}
CLUSTERS = {"H100": "h100-80gb", "B200": "b200-180gb", "B300": "b300-270gb", "GB200": "gb200-186gb", "GB300": "gb300-279gb"}
pipesim, folder = sys.argv[1:3]


def rows():
    with open(folder + "/nemo_recipes.csv") as file:
        recipes = {tuple(row[k] for k in KEYS): row for row in csv.DictReader(file)}
    with open(folder + "/nvidia_nemo_megatron_bridge.csv") as file:
        for row in csv.DictReader(file):
            recipe = recipes.get(tuple(row[k] for k in KEYS))
            if recipe and recipe["settings_match"] == "exact" and int(row["p"]) > 1 and row["model"].split(" (")[0] in MODELS:
                yield row, recipe


def number_format(text):
    return "fp8-block" if "blockwise" in text else text.split()[0].lower()


def write_model(row, recipe):
    """A file of the shipped model with the row's sequence and modules of multi-token prediction."""
    name = MODELS[row["model"].split(" (")[0]]
    text = subprocess.run([pipesim, "models", name], capture_output=True, text=True, check=True).stdout
    text = re.sub(r"(?m)^(name|mtp) = .*\n", "", re.sub(r"(?m)^sequence = .*$", "sequence = " + row["sequence"], text))
    path = os.path.join(models, name + ".ini")
    with open(path, "w") as file:
        file.write(text + f"name = {name}\n" + (f"mtp = {recipe['mtp']}\n" if recipe["mtp"] not in ("", "0") else ""))
    return path


def alike(row, recipe):
    """Options that the recipe and a plan share."""
    scope = recipe["cuda_graph_scope"] if recipe["cuda_graph_active"] != "0" else ""
    options = ["--model", write_model(row, recipe), "--cluster", CLUSTERS[row["system"].replace("DGX-", "")], "--precision",
               number_format(recipe["compute_recipe"]), "--zero", "1",
               "--cuda-graphs", "none" if not scope else "full_iteration" if scope.startswith("full_iteration") else "attn"]
    if recipe["fp8_param_gather"] == "0":
        options += ["--framework", "megatron", "--main-grads-dtype", "bf16"]
    else:
        options += ["--framework", "megatron-bridge"]
    for name in ("deepep", "hybridep"):
        options += ["--moe-token-dispatcher-type", name] if recipe["dispatcher"].endswith(name) else []
    options += ["--optimizer", "muon"] if "muon" in recipe["optimizer_state"] else []
    options += ["--exp-avg-dtype", "bf16", "--exp-avg-sq-dtype", "bf16"] if recipe["optimizer_bytes_per_param"] == "8" else []
    options += [option for option, column in (("--tp-comm-overlap", "tp_comm_overlap"), ("--overlap-param-gather", "overlap_param_gather"))
                if recipe[column] == "1"]
    return options + ([] if recipe["overlap_grad_reduce"] == "1" else ["--reduce", "exposed"])


def layout(row, recipe, chunks):
    """The cut of the recipe: a string, even, or with embedding and loss as a layer each."""
    if recipe["layout"]:
        return recipe["layout"]
    return "even:embedding:loss" if recipe["account_for_embedding"] == "1" else "even" if chunks else "best"


def sizes(row, recipe):
    chunks = recipe["chunk_layers"].split()
    v = max(len(chunks) // int(row["p"]), 1) if chunks else int(row["v"] or 1)
    schedule = "1f1b" if v == 1 else "interleaved-overlap" if recipe["ep_overlap"] == "1" else "interleaved"
    modules = recipe["recompute_modules"] or "none"
    return schedule, ["-p", row["p"], "-m", row["m"], "-v", str(v), "--replicas", row["d"], "--adjacent-replicas", "--tensor", row["t"],
                      "--context", row["cp"] or "1", "--experts", row["ep"] or "1", "--microbatch-size", row["microbatch_size"], "--recompute", modules,
                      "--layout", layout(row, recipe, chunks)]


def run(command, *options):
    out = subprocess.run([pipesim, command, *options, "--json"], capture_output=True, text=True)
    if out.returncode:
        raise SystemExit(f"{command} {' '.join(options)}: {out.stderr}")
    return json.loads(out.stdout)


def describe(schedule, p, t, c, e, d, b, v, recompute):
    return dict(schedule=schedule, p=int(p), t=int(t), c=int(c), e=int(e), d=int(d), b=int(b), v=int(v), recompute=recompute)


seen = set()
models = tempfile.mkdtemp()
print("| model | machine, GPUs, batch | format | recipe | its step, s | plan's step, s | plan less recipe, % | plan differs in | seconds |\n|---|---|---|---|---|---|---|---|---|")
for row, recipe in rows():
    key = row["model"], row["system"], row["precision"]
    if key in seen or (len(sys.argv) > 3 and sys.argv[3] not in " ".join(key)):
        continue
    seen.add(key)
    same = alike(row, recipe)
    schedule, own = sizes(row, recipe)
    said = run("predict", "-s", schedule, *same, *own)["results"][0]
    start = time.time()
    best = run("plan", *same, "-g", row["gpus"], "--global-batch", row["global_batch"], "--top", "1")["results"][0]
    theirs = describe(schedule, row["p"], row["t"], row["cp"] or 1, row["ep"] or 1, row["d"], row["microbatch_size"], said["chunks"],
                      recipe["recompute_modules"] or "none")
    ours = describe(best["schedule"], best["devices"], best["tensor"], best["context"], best["experts"], best["replicas"], best["microbatch_size"],
                    best["chunks"], best["recompute"])
    differs = ", ".join(f"{k} {theirs[k]} -> {ours[k]}" for k in ours if theirs[k] != ours[k]) or "nothing"
    step, planned = said["iteration_ns"] / 1e9, best.get("step_ns", best.get("iteration_ns", 0)) / 1e9
    print(f"| {row['model']} | {row['system']}, {row['gpus']}, {row['global_batch']} | {number_format(recipe['compute_recipe'])} | "
          f"{'fits' if said.get('fits') != 'no' else 'does not fit'} | {step:.3f} | {planned:.3f} | {100 * (planned / step - 1):+.1f} | {differs} | "
          f"{time.time() - start:.0f} |", flush=True)
