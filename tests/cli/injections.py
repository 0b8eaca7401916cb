#!/usr/bin/env python3
"""injections.py - faults of ranks that mpirun has started, drawn by a seed: each must end the whole run in time, with one line.

    PIPESIM_BINDIR=build tests/cli/injections.py [--runs 12] [--seed 1]

    kill   a rank is killed at any moment, from its first instruction on
    stop   a rank is stopped at any moment after the start of its devices, and never goes on (others wait twice as long for rank 0)
    slow   a rank is stopped for less than the deadline: nothing happens
    odd    a rank is told another schedule, microbatches, steps, device, seed or model than the others, or is of another version
    lacks  a rank can't read its model

A run has failed if it outlasts its deadline, if it ends well although it can't, if not exactly one rank says why (of a rank that is
killed mpirun speaks, and nobody else), if that line does not name the rank, and the instruction and the peer that were waited for, or
if a process stays. TAP is printed, with the line; a failed run prints its seed and what was said.
"""
import argparse, os, random, re, shutil, signal, subprocess, sys, tempfile, time

BIN = os.path.abspath(os.environ.get("PIPESIM_BINDIR", "build"))
MODEL = """[model]
layers = 8
hidden = 32
heads = 2
sequence = 64
feed_forward = 32
vocabulary = 256
microbatch_size = 1
precision = fp32
mlp = gelu
flash_attention = false
"""
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
               "PRTE_MCA_hwloc_default_binding_policy": "none", "OMPI_MCA_btl": "^tcp,ofi", "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0"}
# The shell's id stays when it becomes the program: rank and id are a line of the file. Rank $1 is program $2 with options $3; all others
# have $4.
START = 'rank=${PMIX_RANK:-$PMI_RANK}; echo "$rank $$" >>"$0"; program=pipesim-exec more=$4; ' \
        'if [ "$rank" = "$1" ]; then program=$2 more=$3; fi; shift 4; exec "$program" "$@" $more'
SCHEDULES = ["gpipe", "1f1b", "zb-h1", "zb-v", "interleaved", "dualpipe", "hanayo"]
DEVICES = [["--device", "paced", "--costs", "f=2ms,b=2ms,w=2ms,c=200us,act=1MiB"], ["--device", "null"],
           ["--device", "cpu", "--model", "model.ini"]]  # the last one reads a model
ODD = [("schedule", "--schedule eager-1f1b"), ("schedule", "-m 16"), ("number of steps", "--steps 3"), ("seed", "--seed 7"),
       ("model", "--model other.ini"), ("device or transport", "--device null"), ("version", "")]
WAIT = r"rank \d: (device \d: waited \d s for .*(from device \d of rank \d|device \d of rank \d to take .*)|" \
       r"waited \d s for rank \d before (O of )?step \d+); no answer from rank (?P<silent>\d)$"
GRACE_S = 60  # mpirun asks politely first, and the machine may be busy
FAREWELL_S = 20  # mpirun has nothing left to do once its ranks are dead


def said(text):
    return [line for line in text.replace("\0", "").splitlines() if re.match(r"pipesim( exec)?: ", line)]


def pids(path):
    with open(path) as file:
        return {int(rank): int(pid) for rank, pid in (line.split() for line in file if line.count(" ") == 1 and line.endswith("\n"))}


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def is_at_work(pid):
    try:
        return any(open(f"/proc/{pid}/task/{task}/comm").read() == "device\n" for task in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return False


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()


def finish(job, ranks, seconds):
    """(output, errors) of a job that ends in time, and soon after its ranks; else TimeoutExpired"""
    end = time.monotonic() + seconds
    farewell = None
    while True:
        try:
            return job.communicate(timeout=0.5)
        except subprocess.TimeoutExpired:
            now = time.monotonic()
            if any(is_alive(pid) for pid in ranks):
                farewell = now + FAREWELL_S
            if now > end or farewell is not None and now > farewell:
                raise


def signalled(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def write_other_version(path):
    """the program with another version"""
    with open(os.path.join(BIN, "pipesim-exec"), "rb") as file:
        program = file.read()
    changed = re.sub(rb"(?<=[ \0])(\d+\.\d+\.)\d(?=\0)", rb"\1x", program)
    with open(path, "wb") as file:
        file.write(changed)
    os.chmod(path, 0o755)


def inject(draw, folder):
    """(what was done, what is wrong with it)"""
    fault = draw.choice(["kill", "kill", "stop", "stop", "slow", "odd", "lacks"])
    ranks = draw.choice([2, 4])
    devices = draw.choice([ranks, 4])  # two ranks of a device each have a core each where others share them
    victim = draw.randrange(ranks)
    timeout_s = 2 if fault == "stop" else 60  # a slow machine must not make another fault's waits too long
    what, more = draw.choice(ODD) if fault == "odd" else ("", "--model no-such.ini" if fault == "lacks" else "")
    device = draw.choice(DEVICES[2:] if fault == "lacks" or what in ("seed", "model", "device or transport") else DEVICES)
    command = ["-p", str(devices), "-m", "8", "--transport", "mpi", *device,
               "--timeout", f"{timeout_s}s", "--json", "--steps", "200" if fault == "slow" else "1000000"]
    usual, delay = "--schedule " + draw.choice(SCHEDULES), draw.random()
    more = more if more.startswith("--schedule") else f"{usual} {more}"
    program = "./other-version" if what == "version" else "pipesim-exec"
    ids, shown = os.path.join(folder, "ids"), f"{fault} rank {victim} of {ranks} ({delay:.3f}): {program} {' '.join(command)} {more}"
    open(ids, "w").close()
    job = subprocess.Popen(["mpirun", "-n", str(ranks), "sh", "-c", START, ids, str(victim), program, more, usual, *command],
                           cwd=folder, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    if not wait_until(lambda: len(pids(ids)) == ranks, 60):
        os.killpg(job.pid, signal.SIGKILL)
        return shown, "mpirun has not started the ranks"
    processes = pids(ids)
    if fault in ("stop", "slow"):
        wait_until(lambda: all(is_at_work(pid) for pid in processes.values()) or job.poll() is not None, 60)
    started = False
    if fault in ("kill", "stop", "slow"):
        time.sleep(delay)
        started = is_at_work(processes[victim])
        signalled(processes[victim], signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
    if fault == "slow":
        time.sleep(0.5)
        signalled(processes[victim], signal.SIGCONT)
    try:
        output, errors = finish(job, processes.values(), timeout_s + GRACE_S)
    except subprocess.TimeoutExpired:
        alive = [rank for rank, pid in processes.items() if is_alive(pid)]
        os.killpg(job.pid, signal.SIGKILL)
        for pid in processes.values():
            signalled(pid, signal.SIGKILL)
        output, errors = job.communicate()
        if alive:
            return shown, f"it hangs: ranks {alive} live\n{errors}"
        shown += " (mpirun itself hangs, as that of Open MPI 4.1 may when a rank dies in MPI_Init)"
    lines, problems = said(errors), []
    shown += "".join(f" -> {line}" for line in lines)
    if (job.returncode == 0) != (fault == "slow"):
        problems.append(f"exit code {job.returncode}")
    if fault == "slow" and lines or fault not in ("slow", "kill") and len(lines) != 1 or fault == "kill" and lines:
        problems.append(f"{len(lines)} lines")
    named = re.search(rf"rank {victim} with PID .* exited on\s+signal 9|BAD TERMINATION", errors)
    # Open MPI 4.1 may count a rank that dies in MPI_Init, and not name it. Devices start after MPI_Init.
    counted = not started and re.search(r"1 process returned\s+a non-zero exit code", errors)
    if fault == "kill" and not named and not counted:
        problems.append("mpirun does not name the rank")
    if fault == "odd" and not any(re.search(rf"rank \d+ runs another {what}|rank {victim}", line) for line in lines):
        problems.append(f"the other {what} is not named")
    if fault == "lacks" and not any(f": rank {victim}: " in line for line in lines):
        problems.append("the rank is not named")
    if fault == "stop" and not any(match is not None and match["silent"] == str(victim) for match in (re.search(WAIT, line) for line in lines)):
        problems.append("rank, instruction and peer are not named")
    if not wait_until(lambda: not any(is_alive(pid) for pid in processes.values()), GRACE_S):
        problems.append("a process stays")
    return shown, "; ".join(problems) + "\n" + errors if problems else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next one has the next seed")
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT, PATH=BIN + os.pathsep + os.environ["PATH"], PIPESIM_MODULE_DIR=BIN, LC_ALL="C.UTF-8")
    if shutil.which("mpirun") is None or not os.path.exists(os.path.join(BIN, "pipesim-mpi.so")):
        print("1..0 # SKIP there is no mpirun, or this build has no MPI")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder  # two mpirun that begin at once may take each other's folder away
        with open(os.path.join(folder, "model.ini"), "w") as file:
            file.write(MODEL)
        with open(os.path.join(folder, "other.ini"), "w") as file:
            file.write(MODEL.replace("layers = 8", "layers = 12"))
        write_other_version(os.path.join(folder, "other-version"))
        for run in range(options.runs):
            shown, problem = inject(random.Random(options.seed + run), folder)
            failed += problem != ""
            print(f"{'not ok' if problem else 'ok'} {run + 1} - {shown}", flush=True)
            if problem:
                print("".join(f"# {line}\n" for line in [f"seed {options.seed + run}", *problem.splitlines()]), file=sys.stderr, flush=True)
    print(f"1..{options.runs}")
    return failed > 0


sys.exit(main())
