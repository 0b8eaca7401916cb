# %% [markdown]
# # From config.json to a schedule
#
# Which settings train a model on 32 GPUs, what does an iteration look like, what would other links change, and does a
# search find a better order? All of it is simulated from modelled costs: `docs/accuracy.md` says how far to trust them.
#
# It needs the wheel that `./run wheel` builds, or a build of pipesim with `PYTHONPATH=python
# PIPESIM_CORE=build/python/libpipesim-core.so PIPESIM=build/pipesim`, and runs in the folder of the sources.

# %%
import pathlib
import tempfile

import pipesim

# %% [markdown]
# ## A plan
#
# A model is the `config.json` of its weights, a file that describes it, or a name from `pipesim.models()`. Each row is
# the fastest setting of its sizes of pipeline (devices), tensor parallelism and replicas that fits the memory, less a
# reserve.

# %%
model = "tests/fixtures/configs/qwen3-32b.json"
plan = pipesim.plan(
    model=model, cluster="h100-80gb", gpus=32, global_batch=128, schedule=["1f1b", "interleaved", "zb-v"], top=6
)
plan

# %% [markdown]
# `about` is what holds for all rows: where costs come from, what was tried, how far measured steps of published runs
# were from predicted ones. `notes` is what the program says on standard error.

# %%
for value in plan.about.values():
    print(value)

# %% [markdown]
# The command line that predicts a row again, here the fastest with zb-v, and the same as arguments:

# %%
row = next(row for row in plan if row.schedule == "zb-v")
print(row.command)
options = row.options
options

# %% [markdown]
# ## A picture
#
# `predict` takes the options of the program `pipesim predict`, with underscores. `timeline` shows the iteration, op by
# op.

# %%
prediction = pipesim.predict(**options)[0]
print(f"{prediction.iteration_ns / 1e9:.3f} s, bubble {prediction.bubble_ratio:.1%}")
print(f"{prediction.peak_memory_bytes / 2**30:.1f} GiB")

# %%
small = {**options, "replicas": 1, "zero": None, "microbatches": 8}
timeline = pipesim.timeline(**small)
timeline

# %% [markdown]
# `timeline.to_perfetto("zb-v.trace.json")` writes it for Perfetto.
#
# ## What if?
#
# `sweep` predicts every combination of lists, a row at a time. What if the links were slower, or the batch larger?

# %%
varied = {**small, "schedule": ["1f1b", "zb-v"], "chunks": None, "layout": None, "bandwidth_factor": [0.01, 0.1, 1]}
for row in pipesim.sweep(**varied):
    print(f"{row.schedule:8} {row.iteration_ns / 1e6:8.1f} ms  bubble {row.bubble_ratio:.1%}")

# %% [markdown]
# `run_sweep` does the same by all cores into a database, for as many settings as a spec says, and `plot` draws from it.

# %%
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "spec.ini").write_text(f"""[sweep]
schedule = 1f1b, interleaved, zb-v
devices = 8
tensor = 4
microbatches = 8..64 x2
model = {pathlib.Path(model).absolute()}
cluster = h100-80gb
""")
pipesim.run_sweep(folder / "spec.ini", db=folder / "results.db")
pipesim.plot("sweep", folder / "results.db", x="microbatches", y="bubble_ratio", series="schedule", size="720x360")

# %%
for row in pipesim.sensitivity(folder / "results.db"):
    print(row.statement)

# %% [markdown]
# ## A search
#
# Costs may be given, too. `search` goes beyond the published schedules of whole sequences (`slices=1`) and says how far
# from the best possible one its result may be. With `moves`, `seed` and `jobs` it repeats.

# %%
costs = {"f": "6ms", "b": "4ms", "w": "4ms", "c": "1ms", "act": "2MiB", "wact": "1MiB"}
setting = {"devices": 4, "microbatches": 8, "costs": costs, "memory_limit": "6MiB"}
published = [row for row in pipesim.predict(schedule="all", slices=1, **setting) if row.feasible]
found = pipesim.search(**setting, placement="V", moves=200_000, seed=1, jobs=1)
print(f"published: {published[0].schedule} {published[0].iteration_ns / 1e6:.0f} ms")
print(f"found: {found[0].iteration_ns / 1e6:.0f} ms; none on a V is faster than {found[0].lower_bound_ns / 1e6:.0f} ms")
