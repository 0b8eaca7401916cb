#!/bin/sh
# import.sh - runs of any program become costs: --costs-from, and calib import into a database. No time decides anything.
set -u
. "$(dirname "$0")/lib.sh"

cp -r "${G_TEST_SRCDIR:?}/fixtures/profiler" run
cp "$G_TEST_SRCDIR/fixtures/timeline-measured.json" split.json
chmod -R u+w run

setting="-p 2 -m 4"
run "costs from a folder of traces" "simulated from measured costs: run, 3 iterations" \
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
refuse 1 "simulated.json, 1 iteration: is simulated; a database keeps measured runs" \
  pipesim calib import --db runs.db --profile job simulated.json
run "import of runs" "profile 'job' of runs.db: 5 measurements" pipesim calib import --db runs.db --profile job run
run "with their samples" "profile 'job': imported 20" pipesim calib show --db runs.db --samples
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
refuse 2 "--profile: missing" pipesim calib import --db new.db run
refuse 2 "no path given; a profile, or one or several runs would be right" pipesim calib import --db new.db --profile x
refuse 2 "job.json: is a profile; it is imported alone, and 2 paths are given" pipesim calib import --db new.db --profile x job.json run
refuse 2 "--model: job.json is a profile and has its own" pipesim calib import --db new.db --model tiny-gpt job.json
finish
