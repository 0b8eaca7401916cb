#!/bin/sh
# import.sh - runs of any program become costs: --costs-from, and calib import into a database. No time decides anything.
set -u
. "$(dirname "$0")/lib.sh"

cp -r "${G_TEST_SRCDIR:?}/fixtures/profiler" run
cp "$G_TEST_SRCDIR/fixtures/timeline-measured.json" split.json
chmod -R u+w run

setting="-p 2 -m 4"
run "costs from a folder of traces" "simulated from measured costs, modelled transfers: run, 3 iterations" \
  pipesim predict --schedule 1f1b $setting --costs-from run
run "and from two runs, joined by hand" "run, 3 iterations; split.json, 1 iteration" \
  pipesim predict --schedule 1f1b $setting --costs-from run:split.json
run "or by another option" "run, 3 iterations; split.json, 1 iteration" \
  pipesim predict --schedule 1f1b $setting --costs-from run --costs-from split.json
run "a model divides backwards" "estimated, not measured: B, W by the operations of tiny-gpt" \
  pipesim predict --schedule zb-h1 $setting --costs-from run --model tiny-gpt
run "all schedules that the run has the ops of" "skipped: " pipesim predict --schedule all $setting --costs-from run
run "a search with estimates" "estimated, not measured" \
  pipesim search $setting --costs-from run --model tiny-gpt --moves 100
refuse 1 "schedule 'zb-h1': no B of stage 0 is known: run, 3 iterations; no transfer was seen, so they take no time; add a run that has it, with another --costs-from or in calib import, or --model FILE there to estimate it" \
  pipesim predict --schedule zb-h1 $setting --costs-from run
refuse 1 "no B of stage 0 is known" pipesim search $setting --costs-from run --moves 100
refuse 1 "run, 3 iterations: 2 stages, so it has no costs for 4 devices with 1 each" \
  pipesim predict --schedule 1f1b -p 4 -m 4 --costs-from run
refuse 1 "none: " pipesim predict --schedule 1f1b $setting --costs-from none
sed 's|1, "F0.0"|1, "F0.0/7"|' split.json >slice.json
refuse 1 "slice.json: no op has the stage, microbatch or slice of the message F0.0/7" \
  pipesim predict --schedule 1f1b $setting --costs-from slice.json
refuse 2 "--costs and --costs-from: costs come from one of them" \
  pipesim predict --schedule 1f1b $setting --costs-from run --costs f=1ms,b=1ms,w=1ms
printed=$(pipesim predict --print-costs -p 2 --costs-from run)
run "the costs as --costs takes them" "f=750ns:750ns,b=875ns:875ns,w=875ns:875ns,bw=1750ns:1750ns,c=0ns,o=0ns:0ns,op=250ns" pipesim predict --print-costs -p 2 --costs-from run
pipesim predict --schedule 1f1b $setting --costs-from run --json | grep _ns | grep -v iteration_p >from.txt
pipesim predict --schedule 1f1b $setting --costs "$printed" --json | grep _ns >given.txt
if [ -s from.txt ] && cmp -s from.txt given.txt; then result "which predict the same"; else result "which predict the same" "$(diff from.txt given.txt)"; fi
refuse 2 "-p/--devices: missing; the costs are those of their stages" pipesim predict --print-costs --costs-from run
run "a step's time without the profiler" "run, times x 0.900 as without profiler, 3 iterations" \
  pipesim predict --schedule 1f1b $setting --costs-from run=8775ns
run "which the other runs were slowed down by, too" "run, times x 0.900 as without profiler, 3 iterations; split.json, times x 0.900" \
  pipesim predict --schedule 1f1b $setting --costs-from run=8775ns:split.json
run "costs as they are without it" "f=675ns:675ns,b=787ns:787ns,w=788ns:788ns,bw=1575ns:1575ns,c=0ns,o=0ns:0ns,op=225ns" \
  pipesim predict --print-costs -p 2 --costs-from run=8775ns
refuse 1 "run: T is 0.000308 of the time that an iteration takes in the trace, and no profiler does that; the time of a step with the profiler off would be right" \
  pipesim predict --schedule 1f1b $setting --costs-from run=3ns
run "one disturbed run does no harm" "run, times x 0.900" \
  pipesim predict --schedule 1f1b $setting --costs-from run=8775ns:run=8775ns:run=3ns
refuse 2 "run=soon: 'soon' is no time" pipesim predict --schedule 1f1b $setting --costs-from run=soon
cp -r run run=1ms
run "a file may have such a name" "run=1ms, 3 iterations" pipesim predict --schedule 1f1b $setting --costs-from run=1ms
run "samples make an interval" '"iteration_p50_ns": ' pipesim predict --schedule 1f1b $setting --costs-from run --json
printf '[sweep]\nschedule = 1f1b, gpipe\ndevices = 2\nmicrobatches = 4, 8\ncosts-from = run\n' >spec.ini
run "a sweep" "4 predicted" pipesim sweep spec.ini --db results.db

pipesim predict --schedule 1f1b $setting --costs f=1ms,b=1ms,w=1ms,c=100us -o simulated.json >/dev/null
run "a simulated run's costs are simulated" "simulated from simulated costs: simulated.json, 1 iteration" \
  pipesim predict --schedule 1f1b $setting --costs-from simulated.json
pipesim predict --schedule dualpipe-v -p 2 -m 8 --costs f=2ms,b=2ms,w=2ms,pair=5ms -o pairs.json >/dev/null
run "a BW that stands in pairs alone" "44 ms" pipesim predict --schedule dualpipe-v -p 2 -m 8 --costs-from pairs.json --columns iteration
refuse 1 "no BW of stage 0 is known" pipesim predict --schedule interleaved -p 2 -m 8 --costs-from pairs.json
pipesim predict --schedule 1f1b $setting --costs-from simulated.json --json >simulated-interval.json
run "and do not spread" "" sh -c '! grep -q "iteration_p50_ns\": [0-9]" simulated-interval.json'
refuse 1 "simulated.json, 1 iteration: is simulated; a database keeps measured runs" \
  pipesim calib import --db runs.db --profile job simulated.json
run "import of runs" "profile 'job' of runs.db: 5 measurements" pipesim calib import --db runs.db --profile job run
run "with their samples" '"samples_ns": ' pipesim calib export --db runs.db --samples
run "and source" "; no transfer was seen, so they take no time; stages without a model" env COLUMNS=500 pipesim calib show --db runs.db
pipesim predict --schedule 1f1b $setting --db runs.db --json | grep _ns | grep -v iteration_p >stored.txt
if [ -s from.txt ] && cmp -s from.txt stored.txt; then result "both ways predict the same"; else result "both ways predict the same" "$(diff from.txt stored.txt)"; fi
run "imported again" "profile 'job' of runs.db: 5 measurements" pipesim calib import --db runs.db --profile job run
run "it is another calibration" "job#1" pipesim calib list --db runs.db
run "export" '"source": "run, 3 iterations; no transfer' pipesim calib export --db runs.db --profile 'job#1'
pipesim calib export --db runs.db --profile 'job#1' --samples >job.json
run "and back" "profile 'job' of other.db" pipesim calib import --db other.db job.json
pipesim calib export --db other.db --samples >again.json
if cmp -s job.json again.json; then result "with the same text"; else result "with the same text" "$(diff job.json again.json | head -5)"; fi
run "equal profiles" "0 beyond noise; 0 in one only" pipesim calib diff --db runs.db 'job#1' job
run "under a model" "profile 'tiny' of runs.db" pipesim calib import --db runs.db --profile tiny --model tiny-gpt run
run "whose shapes they have" "layers=4,embedding" pipesim calib show --db runs.db --profile tiny
run "with estimates" "estimated" pipesim calib show --db runs.db --profile tiny
run "that predictions name as such" "simulated from modelled costs: profile 'tiny'" \
  pipesim predict --schedule zb-h1 $setting --db runs.db --profile tiny
refuse 1 "schedule 'zb-h1': no B of stage 0 is known: profile 'job' of runs.db" \
  pipesim predict --schedule zb-h1 $setting --db runs.db --profile job
refuse 1 "runs.db: profile 'job' is of other stages than 4, and without a model: run, 3 iterations" \
  pipesim predict --schedule 1f1b -p 4 -m 4 --db runs.db --profile job
refuse 1 "runs.db: profile 'job' is of stages, and says nothing about model 'tiny-gpt'" \
  pipesim predict --schedule 1f1b $setting --db runs.db --profile job --model tiny-gpt

# Runs of two schedules have some ops whose data is warm, and enough others.
for schedule in gpipe 1f1b; do
  pipesim exec --schedule $schedule -p 2 -m 8 --costs f=1ms,b=1ms,w=1ms --device paced --steps 2 --trace $schedule.json >/dev/null
done
run "import of warm ops" "profile 'warm' of runs.db" pipesim calib import --db runs.db --profile warm gpipe.json 1f1b.json
run "which have rows of their own" "BW        stage=1/2,warm" pipesim calib show --db runs.db --profile warm
for costs in "--costs-from gpipe.json:1f1b.json" "--db runs.db --profile warm"; do
  pipesim predict --schedule 1f1b -p 2 -m 8 $costs --json | grep _ns | grep -v iteration_p >"warm${costs%% *}.txt"
done
if [ -s warm--db.txt ] && cmp -s warm--db.txt warm--costs-from.txt; then result "and predict the same"; else result "and predict the same" "$(diff warm--db.txt warm--costs-from.txt)"; fi

# Logs of Megatron-LM's timers; tests/sim/test-observed.c derives the times.
cp "$G_TEST_SRCDIR"/fuzz/corpus/megatron-log/*.log .
times="f=10500000ns:12000000ns,b=10000000ns:12250000ns,w=10000000ns:12250000ns,bw=20000000ns:24500000ns,c=0ns,"
run "costs from a log" "simulated from measured costs, modelled transfers: all.log, timers of 2 log intervals: means over 4 microbatches; no transfer was seen" \
  pipesim predict --schedule 1f1b $setting --costs-from all.log
run "as its timers say" "$times" pipesim predict --print-costs -p 2 --costs-from all.log
sed 's/^/[default7]:/' all.log | gzip >words.log.gz
run "with a word before each line, and packed" "$times" pipesim predict --print-costs -p 2 --costs-from words.log.gz
run "a model divides its backwards" "estimated, not measured: B, W by the operations of tiny-gpt" \
  pipesim predict --schedule zb-h1 $setting --costs-from all.log --model tiny-gpt
run "import of a log" "profile 'log' of runs.db: 4 measurements" pipesim calib import --db runs.db --profile log all.log
sed '/^  virtual/s/None/2/' all.log >chunks.log
run "stages of a device share its times" "f=5250000ns:6000000ns:5250000ns:6000000ns," pipesim predict --print-costs -p 2 -v 2 --costs-from chunks.log
run "which is an estimate" "simulated from modelled costs: chunks.log, timers of 2 log intervals: means over 4 microbatches and the 2 stages of a device; estimated, not measured: F, BW; no" \
  pipesim predict --schedule interleaved -v 2 $setting --costs-from chunks.log
sed '/^  use_tp_pp_dp/s/False/True/' all.log >outside.log
run "replicas outside of pipelines" "f=11000000ns:11500000ns," pipesim predict --print-costs -p 2 --costs-from outside.log
run "a range for one stage" "f=10000000ns,b=10250000ns,w=10250000ns,bw=20500000ns" pipesim predict --print-costs -p 1 --costs-from minmax.log
sed '/^  pipeline/s/1$/2/' minmax.log >range.log
refuse 1 "range.log: its timers have one range for all 2 stages; --timing-log-option all would be right" \
  pipesim predict --schedule 1f1b $setting --costs-from range.log
sed '/^  micro_batch/d' all.log >late.log
refuse 1 "late.log: no micro_batch_size among arguments before the timers; a log from the run's start on would be right" \
  pipesim predict --schedule 1f1b $setting --costs-from late.log
sed '/^  micro_batch/s/[0-9]*$/0/' all.log >zero.log
refuse 1 "zero.log: micro_batch_size is 0; 1 or more would be right" pipesim predict --schedule 1f1b $setting --costs-from zero.log
sed '/^  forward-compute/,/rank  1/d' all.log >level.log
refuse 1 "level.log: no log interval has forward-compute and backward-compute of all ranks; --timing-log-level 2 and --timing-log-option all would be right" \
  pipesim predict --schedule 1f1b $setting --costs-from level.log
sed '/^  world/s/8$/6/' all.log >sizes.log
refuse 1 "sizes.log: world, batch and parallel sizes among the arguments fit no pipeline" \
  pipesim predict --schedule 1f1b $setting --costs-from sizes.log
sed "/^  rampup/s/None/['4', '4', '100']/" all.log >ramp.log
refuse 1 "ramp.log: with rampup_batch_size" pipesim predict --schedule 1f1b $setting --costs-from ramp.log
cat all.log minmax.log >two.log
refuse 1 "two.log: holds runs of different global_batch_size; the log of one run would be right" \
  pipesim predict --schedule 1f1b $setting --costs-from two.log
refuse 1 "all.log: is a log of timers, without profiler; PATH without =T would be right" \
  pipesim predict --schedule 1f1b $setting --costs-from all.log=90ms

refuse 2 "--profile: missing" pipesim calib import --db new.db run
refuse 2 "no path given; a profile, or one or several runs would be right" pipesim calib import --db new.db --profile x
refuse 2 "job.json: is a profile; it is imported alone, and 2 paths are given" pipesim calib import --db new.db --profile x job.json run
refuse 2 "--model: job.json is a profile and has its own" pipesim calib import --db new.db --model tiny-gpt job.json

# Ranks that were recorded alone, one after the other, are the stages of one pipeline: op times are those of each rank, whatever its clock says.
cat >alone.py <<'PYTHON'
import json, os, sys
folder, later, backend = sys.argv[1], float(sys.argv[2]), sys.argv[3]
os.mkdir(folder)
for rank in range(2):
    events, now = [], 1e6 + rank * later
    for step in range(3):
        for name in [f'PP:{rank}{kind}{m}' for kind in 'FB' for m in range(4)] + ['Optimizer.step#SGD.step']:
            took = 100 if name[0] == 'O' else (1000 if 'F' in name else 2000) + 500 * rank
            for cat, what in ('user_annotation', name), ('cpu_op', 'aten::mm'):
                events.append({'ph': 'X', 'cat': cat, 'name': what, 'pid': 1, 'tid': 1, 'ts': now, 'dur': took})
            now += took + 5
    json.dump({'traceEvents': events, 'distributedInfo': {'backend': backend, 'rank': rank, 'world_size': 2}},
              open(f'{folder}/rank{rank}.json', 'w'))
PYTHON
python3 alone.py together 0 fake
python3 alone.py apart 3.6e9 fake
python3 alone.py clocks 3.6e9 nccl
python3 alone.py joined 0 nccl
for folder in together apart; do pipesim predict -s 1f1b,gpipe -p 2 -m 4 --costs-from $folder 2>&1 | sed '1s/.*;//' >$folder.txt; done
run "ranks recorded alone" 'no transfer was seen, so they take no time' cat apart.txt
if cmp -s together.txt apart.txt; then result "whatever their clocks say"; else result "whatever their clocks say" "$(diff together.txt apart.txt)"; fi

# Such ranks show no iteration and no message: the backend says so, or clocks that never overlap and messages that make no sense.
for folder in together apart clocks; do
  refuse 1 "$folder: its ranks were recorded apart, so it shows ops and no iteration; pipesim predict --costs-from $folder takes the ops" pipesim diagnose $folder
done
refuse 1 "its ranks were recorded apart" pipesim compare apart apart
refuse 1 "its ranks were recorded apart" pipesim plot timeline apart -o apart.svg
refuse 1 "apart: its ranks were recorded apart, so it shows no iteration; PATH without =T would be right" \
  pipesim predict -s 1f1b -p 2 --costs-from apart=9ms -m 4
run "clocks that overlap are those of a run" "contradict their messages" pipesim diagnose joined

# With a cluster and a model, transfers, all-reduces and memory are modelled. Ops stay those of the runs.
modelled="-p 2 --model tiny-gpt --cluster h100-80gb"
run "what comes from where" "ops of apart, 3 iterations, ranks recorded apart; estimated, not measured: B, W by the operations of tiny-gpt; transfers and memory of model 'tiny-gpt' on cluster 'h100-80gb'" \
  pipesim predict -s 1f1b $modelled -m 4 --costs-from apart
refuse 2 "--cluster: needs --model FILE, what to run on it" pipesim predict -s 1f1b -p 2 -m 4 --costs-from apart --cluster h100-80gb
refuse 2 "--layout best: --costs-from has stages as they were cut; even, or a string that says how, would be right" \
  pipesim predict -s 1f1b $modelled -m 4 --costs-from apart --layout best
refuse 2 "--cluster: costs are those of the traces" pipesim diagnose joined --model tiny-gpt --cluster h100-80gb --costs-from apart
refuse 2 "--costs-from and --db: costs come from one of them, not from both" pipesim predict -s 1f1b $modelled -m 4 --costs-from apart --db runs.db
parts () { pipesim predict --print-costs "$@" | tr ',' '\n' | grep -E "$keys" | tr '\n' ,; }
for more in "" "--replicas 2"; do
  keys='^(c|reduce|act|weights|msg)=' ours=$(parts $modelled --costs-from apart $more) formulas=$(parts $modelled --layout even $more)
  if [ "$ours" = "$formulas" ]; then result "links and sizes of the cluster $more"; else result "links and sizes of the cluster $more" "$ours, not $formulas"; fi
  keys='^(f|bw|b|w|op)=' ours=$(parts $modelled --costs-from apart $more) seen=$(parts -p 2 --model tiny-gpt --costs-from apart $more)
  [ -z "$more" ] || seen=$kept
  if [ "$ours" = "$seen" ]; then result "ops of the runs $more"; else result "ops of the runs $more" "$ours, not $seen"; fi
  kept=$seen
done
run "alone" "19.21 ms" pipesim predict -s 1f1b $modelled -m 4 --costs-from apart --columns iteration
run "an all-reduce over replicas takes time" "19.58 ms" pipesim predict -s 1f1b $modelled -m 4 --costs-from apart --columns iteration --replicas 16 --zero 0
cat >launch.sh <<'LAUNCH'
torchrun --nproc-per-node 2 pretrain_gpt.py --pipeline-model-parallel-size 2 --num-layers 8 --hidden-size 192 --num-attention-heads 6 --seq-length 128 \
  --vocab-size 2048 --micro-batch-size 2 --global-batch-size 8 --bf16
LAUNCH
run "a launch says the model" "transfers and memory of model 'launch.sh' on cluster 'h100-80gb'" \
  env COLUMNS=500 pipesim predict --from launch.sh --cluster h100-80gb --costs-from apart
refuse 2 "--costs-from and --cluster: give one of them; ops of a run do not tell what changes on a cluster would take" \
  pipesim advise launch.sh --cluster h100-80gb --costs-from apart
run "two copies of weights" "dualpipe" pipesim predict -s dualpipe $modelled -m 4 --costs-from apart
printf 'tokens\n128\n64\n64\n64\n' >tokens.csv
run "slices by operations" "34:33:31:30" pipesim predict -s seq1f1b --slices even-work:4 $modelled -m 4 --costs-from apart
run "lengths by operations" "12.45 ms" pipesim predict -s 1f1b --lengths tokens.csv $modelled -m 4 --costs-from apart
talk () { pipesim predict --print-costs $modelled --tensor 2 --costs-from $1 | grep -o '^f=[0-9]*' | cut -d= -f2; }
if [ "$(talk apart)" -gt 1000000 ] && [ "$(talk joined)" -eq 1000000 ]; then result "GPUs of a device talk"; else result "GPUs of a device talk" "$(talk apart) $(talk joined)"; fi
finish
