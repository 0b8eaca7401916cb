#!/usr/bin/env python3
"""calib-tables.py - what calib list, show and diff print of profiles that are drawn from a seed: every figure is worked out again
from the profile's text.

    PIPESIM_BINDIR=build tests/cli/calib-tables.py [--seed 1]
"""
import argparse, copy, json, math, os, random, re, statistics, subprocess, sys, tempfile

BIN = os.path.abspath(os.environ.get("PIPESIM_BINDIR", "build"))
SOURCE = os.environ.get("G_TEST_SRCDIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
SHAPES = ["layers=2,embedding", "layers=2,head", "layers=1"]
MOMENTS = ["2026-01-01T00:00:%02dZ" % second for second in range(60)]
failed = []


def calib(*words):
    made = subprocess.run([os.path.join(BIN, "pipesim"), "calib", *words], capture_output=True, text=True)
    if made.returncode != 0:
        sys.exit(f"Bail out! calib {' '.join(words)}: {made.stderr}")
    return made.stdout


def is_equal(name, found, expected):
    near = isinstance(expected, float) and isinstance(found, (int, float)) and math.isclose(found, expected, rel_tol=1e-5, abs_tol=1e-9)
    if found != expected and not near:
        failed.append(f"{name}: {found!r}, not {expected!r}")


def contains(name, text, line):
    if line not in text:
        failed.append(f"{name}: no '{line}' in:\n{text[:3000]}")


def condition(draw):
    """A moment of the hardware; none or some of it known."""
    known = {key: draw.randint(1, 2000) for key in ("clock_mhz", "memory_clock_mhz", "temperature_c", "power_mw") if draw.random() < 0.6}
    if draw.random() < 0.6:
        known["throttle"] = draw.choice(["", "power", "heat", "power heat", "hardware", "power setting"])
    return known


def measurement(draw, key, median):
    q1, q3 = median - draw.randint(1, 20), median + draw.randint(1, 20)
    row = {**key, "n": draw.choice([3, 5, 6, 20, 50]), "median_ns": median, "q1_ns": q1, "q3_ns": q3, "mad_ns": draw.randint(1, 9),
           "min_ns": q1 - draw.randint(0, 5), "stop": draw.choice(["converged", "sample cap", "time cap", "estimated"]),
           "taken": draw.choice(MOMENTS)}
    if key["subject"] == "op":
        row.update(launch_ns=draw.choice([0, 77]), take_bytes=draw.randint(1, 99), give_bytes=draw.randint(1, 99), state_bytes=draw.randint(1, 99))
        if row["launch_ns"] == 0:
            del row["launch_ns"]
    for moment in ("before", "during", "after"):
        known = condition(draw)
        if known:
            row[moment] = known
    return row


def profile(draw, name):
    """A profile with ops alone and busy, around blocks, messages of both sorts and readings of the sentinel."""
    with open(os.path.join(SOURCE, "fuzz", "corpus", "profile", "small.json")) as file:
        made = json.load(file)
    made["name"] = name
    made["created"] = draw.choice(MOMENTS)
    made["shares"] = "2,1"
    made["places"] = "a;a;a"
    for key in ("host", "processor", "kernel", "libraries", "version"):
        made[key] = f"{key} of {name}"
    rows = []
    for shape in SHAPES + [SHAPES[0] + end for end in (",blocks=0", ",blocks=8", ",blocks=16", ",warm")]:
        for kind in ("F", "B", "O"):
            for devices, cache in ((1, "run"), (2, "run"), (1, "cold")):
                key = {"subject": "op", "shape": shape, "kind": kind, "devices": devices, "sharing": 2, "share": 1, "cache": cache}
                rows.append(measurement(draw, key, draw.randint(1000, 3000)))
    for shape in ("", "both-ways", "link=1-2", "link=0-2"):
        for size in (8, 64, 512) if not shape.startswith("link") else (512,):
            key = {"subject": "transfer", "shape": shape, "bytes": size, "devices": 2, "sharing": 2}
            rows.append(measurement(draw, {k: v for k, v in key.items() if v != ""}, 1000 + 2 * size + draw.randint(-50, 50)))
    rows.append(measurement(draw, {"subject": "self-send", "shape": "nccl-self", "bytes": 8, "devices": 1, "sharing": 1}, 900))
    rows.append(measurement(draw, {"subject": "host", "shape": "send", "devices": 2, "sharing": 1}, 800))
    made["measurements"] = rows
    made["sentinels"] = [{"what": "F of layers=1", "median_ns": draw.randint(990, 1400), "n": draw.choice([5, 6, 10]), "taken": moment}
                         for moment in sorted(draw.sample(MOMENTS, 7))]
    made["sentinels"][0]["n"] = 10
    return made


def key_of(row):
    return tuple(row.get(key, "") for key in ("subject", "shape", "kind", "bytes", "devices", "sharing", "share", "cache"))


def clock_of(row):
    """The clock while a row was measured, else at its end."""
    return row.get("during", {}).get("clock_mhz", 0) or row.get("after", {}).get("clock_mhz", 0)


def shown(row):
    """The row of calib show --json for a measurement."""
    op = row["subject"] == "op"
    during, after, before = (row.get(moment, {}) for moment in ("during", "after", "before"))
    later = during if during.get("clock_mhz") else after
    reasons = {reason for moment in (before, during, after) for reason in moment.get("throttle", "").split()}
    known = "throttle" in before and ("throttle" in during or "throttle" in after)
    throttled = " ".join(word for word in ("power", "heat", "hardware", "setting") if word in reasons) or ("no" if known else None)
    what = row["kind"] if op else row["shape"] if row["subject"] == "self-send" else row["subject"]
    made = {"what": what, "shape": row.get("shape") if row["subject"] != "self-send" else None, "bytes": row.get("bytes"),
            "cache": row.get("cache"), "share": row.get("share"), "launch_ns": row.get("launch_ns"), "throttled": throttled,
            "origin": "modelled" if row["stop"] == "estimated" else "measured"}
    made.update({key: later.get(key) for key in ("clock_mhz", "temperature_c", "power_mw")})
    made.update({key: row.get(key) if op else None for key in ("take_bytes", "give_bytes", "state_bytes")})
    made.update({key: row[key] for key in ("devices", "sharing", "median_ns", "q1_ns", "q3_ns", "mad_ns", "min_ns", "n", "stop", "taken")})
    return made


def notch(row):
    """Half the width of a median's notch; None: fewer than 6 samples have no interval."""
    return 1.57 * (row["q3_ns"] - row["q1_ns"]) / math.sqrt(row["n"]) if row["n"] >= 6 else None


def compare(a, b):
    """The change, its noise and the verdict of two medians."""
    change = (b["median_ns"] - a["median_ns"]) / a["median_ns"]
    if notch(a) is None or notch(b) is None:
        return change, None, "too few samples"
    noise = notch(a) + notch(b)
    if abs(b["median_ns"] - a["median_ns"]) <= noise:
        return change, noise / a["median_ns"], "noise"
    word = "slower" if b["median_ns"] > a["median_ns"] else "faster"
    clocks = clock_of(a), clock_of(b)
    if all(clocks) and abs(b["median_ns"] - a["median_ns"] * clocks[0] / clocks[1]) <= noise:
        word += ", as the clock"
    return change, noise / a["median_ns"], word


def largest_shift(made):
    """How far the sentinel moved around the measurements, over the lower quartile of those readings."""
    readings = [one for one in made["sentinels"] if one["n"] >= 6]
    around = []
    for row in made["measurements"]:
        before = [one for one in readings if one["taken"] <= row["taken"]]
        after = [one for one in readings if one["taken"] >= row["taken"]]
        around += before[-1:] + after[:1]
    times = sorted(one["median_ns"] for one in around)
    level = times[math.ceil(len(times) / 4) - 1]
    return max(abs(time / level - 1) for time in times)


def check_show(path, made):
    name = made["name"]
    result = json.loads(calib("show", "--db", path, "--profile", name, "--json"))
    rows = result["results"] if "results" in result else result["measurements"]
    by_key = {}
    for row in made["measurements"]:
        wanted = shown(row)
        by_key[tuple(str(wanted[key]) for key in ("what", "shape", "bytes", "devices", "sharing", "cache"))] = wanted
    is_equal(f"{name}: rows", len(rows), len(by_key))
    for row in rows:
        wanted = by_key[tuple(str(row[key]) for key in ("what", "shape", "bytes", "devices", "sharing", "cache"))]
        for key, value in wanted.items():
            is_equal(f"{name}: {row['what']} of {row['shape']}: {key}", row[key], value)
    for key in ("host", "processor", "kernel", "libraries", "version", "created", "device", "transport", "shares", "places", "model_digest"):
        is_equal(f"{name}: {key}", result[key], made[key])
    text = calib("show", "--db", path, "--profile", name)
    contains(name, text, f"profile '{name}': cpu with shares 2,1 over threads, model m, measured by pipesim version of {name} from {made['created']}")
    contains(name, text, f"host host of {name}, processor of {name}, kernel of {name}, libraries of {name}")
    contains(name, text, f"sentinel F of layers=1: 7 readings, moved by {100 * largest_shift(made):.1f} % at most around these measurements")
    ops = [row for row in made["measurements"] if row["subject"] == "op"]
    pairs = [(a, b) for a in ops for b in ops if a["devices"] == 1 and b["devices"] == 2 and clock_of(a) and clock_of(b)
             and all(a[key] == b[key] for key in ("shape", "kind", "cache"))]
    verdicts = [compare(a, b)[2] for a, b in pairs]
    beyond = [word for word in verdicts if word.startswith(("slower", "faster"))]
    contains(name, text, f"busy, {len(beyond)} of {len(pairs)} ops differ from those alone beyond noise, "
                         f"{sum(word.endswith('clock') for word in beyond)} of them as the clock")
    times = []
    for n in (8, 16):
        alone = held = 0
        for a in ops:
            for b in ops:
                if a["shape"].endswith("blocks=0") and b["shape"].endswith(f"blocks={n}") and a["kind"] == b["kind"] and a["cache"] == b["cache"]:
                    alone += a["median_ns"]
                    held += b["median_ns"]
        times.append(text.find(f"ops take {held / alone:.2f} times as long while {n} multiprocessors are held (--overlap-slowdown {max(held / alone, 1):.2f}"))
    is_equal(f"{name}: held multiprocessors", -1 < times[0] < times[1], True)
    for shape, title in (("", "transfers"), ("both-ways", "transfers both-ways")):
        row = {one["bytes"]: one["median_ns"] for one in made["measurements"] if one["subject"] == "transfer" and one.get("shape", "") == shape}
        line = row[8] + (row[512] - row[8]) * (64 - 8) / (512 - 8)
        at = text.find(f"fit of {title}, 2 busy, 2 sharing: alpha ")
        contains(name, text[at:at + 300], f"neighbours is off by {100 * abs(line - row[64]) / row[64]:.1f} %, the median over sizes")
    usual = next(one for one in made["measurements"] if one["subject"] == "transfer" and "shape" not in one and one["bytes"] == 512)
    for link in result["links"] if isinstance(result["links"], list) else json.loads(result["links"]):
        own = [one for one in made["measurements"] if one.get("shape") == "link=" + link["link"]]
        change = own[0]["median_ns"] / usual["median_ns"] - 1 if own else None
        apart = bool(own) and abs(change) * usual["median_ns"] > 0.03 * min(own[0]["median_ns"], usual["median_ns"]) and all(
            not (x["q1_ns"] <= y["median_ns"] <= x["q3_ns"]) for x, y in ((own[0], usual), (usual, own[0])))
        is_equal(f"{name}: link {link['link']}", link["change"] if change is None else round(link["change"], 5), change if change is None else round(change, 5))
        is_equal(f"{name}: link {link['link']} differs", link["differs"], apart)


def check_diff(a, b, paths):
    rows = json.loads(calib("diff", *paths, "--json"))["results"]
    left, right = ({key_of(row): row for row in made["measurements"]} for made in (a, b))
    expected = []
    for key, row in left.items():
        other = right.get(key)
        expected.append((row["median_ns"], other and other["median_ns"], *(compare(row, other) if other else (None, None, "only in A")),
                         clock_of(row) or None, other and clock_of(other) or None))
    expected += [(None, row["median_ns"], None, None, "only in B", None, clock_of(row) or None) for key, row in right.items() if key not in left]
    is_equal("diff: rows", len(rows), len(expected))
    for row, wanted in zip(rows, expected):
        for key, value in zip(("a_ns", "b_ns", "change", "noise", "verdict", "a_mhz", "b_mhz"), wanted):
            if row["verdict"] == "too few samples" and key == "noise":
                continue
            is_equal(f"diff: {row['what']}: {key}", row[key], value)
    is_equal("diff: as many as have no one median", sum(one[2] is not None for one in expected) % 2, 0)
    changes = sorted(100 * abs(one[2]) for one in expected if one[2] is not None)
    words = [one[4] for one in expected]
    beyond = [word for word in words if word.startswith(("slower", "faster"))]
    clock = sum(word.endswith("clock") for word in beyond)
    contains("diff", calib("diff", *paths),
             f"{len(changes)} in both, median distance {changes[(len(changes) - 1) // 2]:.2f} %, largest {changes[-1]:.2f} %; {len(beyond)} beyond "
             f"noise{f', {clock} of them as the clock' if clock else ''}; {sum(word.startswith('only') for word in words)} in one only; "
             f"{words.count('too few samples')} of too few samples")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, default=1)
    draw = random.Random(options.parse_args().seed)
    with tempfile.TemporaryDirectory() as folder:
        path, made, files = os.path.join(folder, "costs.db"), [], []
        for name in ("a", "b"):
            made.append(profile(draw, name) if name == "a" else copy.deepcopy(made[0]))
            if name == "b":
                made[1].update(name="b", created="2026-01-02T00:00:00Z", host="host of b", processor="processor of b", kernel="kernel of b",
                               libraries="libraries of b", version="version of b")
                other = profile(draw, "b")["measurements"]
                # Some rows as they are, some others, some with another clock, some on one side only.
                made[1]["measurements"] = [draw.choice([row, {**row, "during": {"clock_mhz": draw.randint(500, 2000)}}, new, new, new])
                                           for row, new in zip(made[1]["measurements"], other)][2:]
                made[0]["measurements"] = made[0]["measurements"][:-1]
            files.append(os.path.join(folder, name + ".json"))
        for file, one in zip(files, made):
            with open(file, "w") as text:
                json.dump(one, text)
            calib("import", "--db", path, file)
        for one in made:
            check_show(path, one)
        listed = json.loads(calib("list", "--db", path, "--json"))["results"]
        is_equal("list", [(row["profile"], row["measurements"], row["calibration"]) for row in listed],
                 [(one["name"], len(one["measurements"]), 1) for one in made])
        for row, one in zip(listed, made):
            for key in ("device", "transport", "shares", "host", "processor", "kernel", "libraries", "version", "model_digest", "created"):
                is_equal(f"list: {key}", row[key], one[key])
        check_diff(*made, files)
    print("1..1")
    print("not ok 1 - tables of profiles" if failed else "ok 1 - tables of profiles")
    for line in failed[:20]:
        print("# " + line.replace("\n", "\n# "))
    sys.exit(1 if failed else 0)


main()
