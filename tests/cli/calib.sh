#!/bin/sh
# calib.sh - profiles as text from the command line: export, import, diff. No time decides anything.
set -u
. "$(dirname "$0")/lib.sh"

corpus=${G_TEST_SRCDIR:?}/fuzz/corpus
cp "$corpus/costdb/small.db" old.db
chmod a-w old.db
cp "$corpus/profile/small.json" text.json

# same NAME A B
same ()
{
  if cmp -s "$2" "$3"; then result "$1"; else result "$1" "$(diff "$2" "$3" | head -5)"; fi
}

run "import" "profile 'here' of new.db: " pipesim calib import --db new.db text.json
run "export" '' pipesim calib export --db new.db --samples -o again.json
same "text -> database -> text" text.json again.json
run "what was fitted" 'fit of transfers, 2 busy, 1 sharing: alpha 2.201 us, 0.21 ns/B (4.76 GB/s)' pipesim calib show --db new.db
run "under another name" "profile 'there' of new.db: " pipesim calib import --db new.db --profile there text.json
refuse 1 "new.db: there is a profile 'here' already" pipesim calib import --db new.db text.json
run "a profile equals itself" "; 0 beyond noise; 0 in one only" pipesim calib diff text.json again.json
run "no verdict on two samples" '"verdict": "too few samples"' pipesim calib diff --db new.db --json here there
pipesim calib export --db new.db --profile here | sed 's/"n": 2,/"n": 20,/' >enough.json
sed 's/\("kind": "W", .*\)123328\(.*\)123328\(.*\)139980\(.*\)123328/\1200000\2200000\3200000\4200000/' enough.json >slower.json
run "a verdict on 20" '200 us  +62.17 %     +4.74 %         -     -  slower' \
  pipesim calib diff enough.json slower.json
run "which leaves the others" '33 in both, median distance 0.00 %, largest 62.17 %; 1 beyond noise; 0 in one only; 0 of too few' \
  pipesim calib diff enough.json slower.json
sed '/"median_ns": 123328/s/"taken"/"during": {"clock_mhz": 1980}, &/' enough.json >fast.json
sed '/"median_ns": 200000/s/"taken"/"during": {"clock_mhz": 1221}, &/' slower.json >slow.json
run "a slower clock says why" '200 us  +62.17 %     +4.74 %      1980  1221  slower, as the clock' \
  pipesim calib diff fast.json slow.json
run "and is counted" '; 1 beyond noise, 1 of them as the clock; 0 in one only' pipesim calib diff fast.json slow.json
pipesim calib import --db fast.db fast.json >out.txt
run "a clock is shown" '475.3 KiB  1980  ' pipesim calib show --db fast.db --columns state,MHz,throttled
run "and exported" '"during": {"clock_mhz": 1980}' pipesim calib export --db fast.db
sed -e '/"kind": "W", "devices": 1/s/"taken"/"during": {"clock_mhz": 1980}, &/' \
  -e '/"kind": "W", "devices": 2/{s/"taken"/"during": {"clock_mhz": 1830}, &/; s/"sharing": 2/"sharing": 1/}' enough.json >load.json
pipesim calib import --db load.db load.json >out.txt
run "what busy neighbours do to the clock" 'busy, 2 of 2 ops differ from those alone beyond noise, 1 of them as the clock' \
  pipesim calib show --db load.db
sed -e '/"kind": "W", "devices": 1/s/"shape": "[^"]*/&,blocks=0/' \
  -e '/"kind": "W", "devices": 2/{s/"shape": "[^"]*/&,blocks=8/; s/"devices": 2/"devices": 1/; s/"sharing": 2/"sharing": 1/}' enough.json >held.json
pipesim calib import --db held.db held.json >out.txt
run "what held multiprocessors cost" 'ops take 0.97 times as long while 8 multiprocessors are held (--overlap-slowdown 1.00 --overlap-waiting)' pipesim calib show --db held.db
refuse 2 "--profile: is empty" pipesim calib import --db new.db --profile= text.json
refuse 1 "new.db: several profiles; choose one with --profile: here, there" pipesim calib show --db new.db
tr '\n' '\r' <text.json | sed 's/"name": "here"/"name": "a\\u000ab\\u001b[2J"/' | tr '\r' '\n' >odd.json
run "a name of two lines" "profile 'a b [2J' of odd.db" pipesim calib import --db odd.db odd.json
run "which is one row" "a b [2J  " pipesim calib list --db odd.db
if [ "$(pipesim calib list --db odd.db | wc -l)" -eq 2 ] && ! pipesim calib show --db odd.db | tr -d '\n' | grep -q '[[:cntrl:]]'
then result "and no escape"; else result "and no escape" "$(pipesim calib list --db odd.db)"; fi
sed 's/"median_ns": \([0-9]*\), "q1_ns"/"median_ns": 1, "q1_ns"/' text.json >wrong.json
refuse 1 "wrong.json:" pipesim calib import --db other.db wrong.json
refuse 1 "text.json: not an SQLite database" pipesim calib show --db text.json --profile here
refuse 1 "old.db: is no timeline: neither pipesim-timeline/1 nor a trace" pipesim calib import --db other.db old.db
refuse 2 "no path given; a profile, or one or several runs would be right" pipesim calib import --db other.db

# Of a large file only the head is read before it is known to be a trace; the rest stays on disk. `refuse` reads no file
# outside of this folder.
truncate -s 300M ../large.json
refuse 1 "large.json: is no timeline: neither pipesim-timeline/1 nor a trace" pipesim calib import --db other.db --profile x ../large.json
peak=$(python3 -c 'import resource, subprocess, sys
subprocess.run (sys.argv[1:], stderr=subprocess.DEVNULL)
print (resource.getrusage (resource.RUSAGE_CHILDREN).ru_maxrss)' pipesim calib import --db other.db --profile x ../large.json)
if [ "$peak" -lt 150000 ]; then result "a large file takes no memory"; else result "a large file takes no memory" "$peak KiB"; fi
rm ../large.json
refuse 2 "two profiles are compared, 1 given" pipesim calib diff text.json
refuse 1 "new.db: several profiles; choose one with --profile: here, there" pipesim calib export --db new.db
refuse 2 "--caches: 'tepid' is not one of run, cold, warm" \
  pipesim calib run --db other.db --profile x --model tiny-gpt -p 2 --caches run,tepid
refuse 2 "--caches: '' is not one of" pipesim calib run --db other.db --profile x --model tiny-gpt -p 2 --caches ''
refuse 2 "--blocks: device cpu has no multiprocessors to keep from ops" \
  pipesim calib run --db other.db --profile x --model tiny-gpt -p 2 --blocks 0,8
refuse 2 "--blocks: 'x' is not an integer from 0 to 1024" \
  pipesim calib run --db other.db --profile x --model tiny-gpt -p 2 --blocks x
refuse 2 "-v/--chunks: '' is not an integer" pipesim calib run --db other.db --profile x --model tiny-gpt -p 2 -v ''
refuse 1 "new.db: is a database, and is not overwritten" pipesim calib export --db new.db --profile here -o new.db
refuse 1 "new.db: is a database, and is not overwritten" \
  pipesim search -p 2 -m 2 --costs f=1ms,b=1ms,w=1ms --moves 10 -o new.db
refuse 2 "--sharing: '3'" pipesim calib run --db other.db --profile x --model tiny-gpt -p 2 --sharing 3

# What was measured on a GPU can be read and predicts.
for p in 4 8; do
  run "the profile of $p parts of an H200 is read" 'measurements' \
    pipesim calib import --db gpu.db --profile parts-$p "$G_TEST_SRCDIR/../data/measured/h200-p$p.json"
  run "and predicts" 'NVIDIA H200' pipesim predict --schedule all -p $p -m $((2 * p)) --db gpu.db --profile parts-$p
done

# Of two runs into one profile the first to store goes on. The other is stopped while it measures what is missing, so that it
# can't be the first.
model_ini heads=4 vocabulary=64 microbatch_size=2 >small.ini
sed 's/layers = 4/layers = 256/' small.ini >deep.ini
small="--db two.db --profile one --model small.ini -p 2 -v 1"
pipesim-calib run $small --within 0.0001% --max-samples 400 --time-limit 100s >first.txt 2>&1 &
first=$!
until pipesim calib show --db two.db --profile one 2>/dev/null | grep -q '^sentinel'; do sleep 0.05; done
kill -STOP $first
run "a run while another is stopped" ', 0 there already' pipesim calib run $small --max-samples 2 --time-limit 500ms
kill -CONT $first
wait $first
code=$?
set --
[ $code -eq 1 ] || set -- "exit code $code"
tail -1 first.txt | grep -q "profile 'one': another calib run has stored .* meanwhile; two at a time disturb each other" \
  || set -- "$@" "$(tail -1 first.txt)"
result "which then says why it ends" "$@"

# Without -v chunks are 1 and 2, or 1 where the model has too few layers for 2 or a layout says the stages.
few="--model small.ini --max-samples 1 --time-limit 1ms"
run "two numbers of chunks" "layers=1,head" pipesim calib run --db chunks.db --profile two -p 2 $few
run "one where layers are few" "profile 'three' of chunks.db: " pipesim calib run --db chunks.db --profile three -p 3 $few
run "one with a layout" "layers=3,head" pipesim calib run --db chunks.db --profile layout -p 2 --layout 'Et|tttL' $few

# A model read in another precision is that model: its measurements are there, so that another calibration begins. In its own it
# is not.
sed 's/fp32/fp16/' small.ini >half.ini
half="--db two.db --profile one --model half.ini"
run "a model in the profile's precision" "profile 'one' has all of these measurements: they are taken anew" \
  pipesim calib run $half --precision fp32 -p 2 -v 1 --max-samples 2 --time-limit 500ms
run "as another calibration" 'one#1    small         cpu     threads              1            59' \
  pipesim calib list --db two.db
run "which the name means" 'one      half in fp32  cpu     threads              2            59' \
  pipesim calib list --db two.db
run "and its number too" "profile 'one': cpu" pipesim calib show --db two.db --profile one#2
refuse 1 "two.db: no profile 'one#3'; there are: one#1, one" pipesim calib show --db two.db --profile one#3
refuse 2 "--profile: 'one#2' ends with the number of a calibration" pipesim calib run $half --profile one#2 --precision fp32 -p 2 -v 1
run "the first can be asked for" "profile 'one#1' of two.db" pipesim predict --schedule 1f1b -p 2 -m 2 --db two.db --profile one#1
run "and compared" '59 in both' pipesim calib diff --db two.db one#1 one
run "and its costs" 'simulated from measured costs' pipesim predict --schedule 1f1b -p 2 -m 2 $half --precision fp32
refuse 1 "profile 'one' has no F of stage shape 'layers=1,embedding'" pipesim partition -p 2 $half --precision fp32
run "and its layouts" 'measured costs (confidence high): half in fp32' \
  pipesim plan --cluster cpu-cores --gpus 2 --global-batch 4 --memory-limit 1GiB $half --precision fp32
refuse 1 "two.db: profile 'one' was measured with precision = fp32, not fp16" pipesim predict --schedule 1f1b -p 2 -m 2 $half
refuse 1 "two.db: profile 'one' was measured with precision = fp32, not bf16" \
  pipesim exec --schedule 1f1b -p 2 -m 2 $half --precision bf16 --device cpu
refuse 2 "--db: two.db holds no profile of model 'half' with precision = fp16" \
  pipesim plan --cluster cpu-cores --gpus 2 --global-batch 4 $half
printf '[sweep]\nschedule = 1f1b\ndevices = 2\nmicrobatches = 2\nmodel = half.ini\ndb = two.db\nprecision = fp32, fp16\n' >half.sweep
run "a sweep over precisions" '1 predicted, 1 impossible' pipesim sweep half.sweep --db half.db

# A sentinel that moved by 50 % between 10 and 20 s, while the F were taken.
# The runs go on with a profile that lacks the messages of 8 bytes. Its sentinel is one that no run reads.
pipesim calib export --db two.db --profile one#1 | awk -f "$G_TEST_SRCDIR/cli/restless.awk" \
  | sed 's/"F of layers=1"/"F of layers=9"/; /"bytes": 8,/d' >moved.json
moved="--profile one --model small.ini -p 2 -v 1 --max-samples 2 --time-limit 500ms"
unrest='the machine was not quiet: the sentinel op moved by up to 50 % during 8 measurements'
run "import of a restless profile" '56 measurements' pipesim calib import --db moved.db moved.json
run "and once more" '56 measurements' pipesim calib import --db left.db moved.json
run "how far it moved" 'moved by 50.0 % at most around these' pipesim calib show --db moved.db --profile one
run "a prediction says so" '; the machine was not quiet then: its sentinel op moved by up to 50 %' \
  pipesim predict --schedule 1f1b -p 2 -m 2 --db moved.db
run "a run may leave it so" "$unrest: do not trust them; another calib run measures anew" pipesim calib run --db left.db $moved --again 0
# A machine that is not quiet measures some twice, so what is kept counts here.
run "and does" ", 0 there already" pipesim calib run --db left.db $moved
run "a run goes on" ', 56 there already' pipesim calib run --db moved.db $moved
cp "$work/stderr" told.txt
run "and takes it again" "$unrest; they are taken again" cat told.txt
run "and counts" '11 of 11: F of layers=2,' grep ' again (n = 2, sample cap)' told.txt
run "in its place" 'moved by 0.0 % at most around these' pipesim calib show --db moved.db --profile one
# The stages of zb-v were measured while the sentinel moved, those of 1f1b before.
pipesim calib run --db slowdown.db --profile one --model small.ini -p 2 --max-samples 2 --time-limit 500ms 2>/dev/null >&2
pipesim calib export --db slowdown.db --profile one | awk -v when='"shape": "layers=1' -f "$G_TEST_SRCDIR/cli/restless.awk" >slowdown.json
run "import of two speeds" ' measurements' pipesim calib import --db speeds.db slowdown.json
speeds="pipesim predict -p 2 -m 4 --db speeds.db"
run "who was measured then" 'this machine was not quiet: +-50 %; zb-v measured then; rows closer to each other' $speeds -s 1f1b,zb-v
run "and the head says so" '; the machine was not quiet then: its sentinel op moved by up to 50 %' $speeds -s 1f1b,zb-v
printf '[sweep]\nschedule = 1f1b, zb-v\np = 2\nm = 4\ndb = speeds.db\n' >speeds.ini
pipesim sweep speeds.ini --db swept.db 2>/dev/null
for question in best pareto sensitivity; do
  run "$question says so" 'this machine was not quiet: +-50 %; rows closer to each other' pipesim $question swept.db
done
run "how far it is kept" 'zb-v      0.5000' pipesim best swept.db --top 2 --columns schedule,unrest
run "and plan says so" 'this machine was not quiet: +-50 %; rows closer to each other' \
  pipesim plan --db speeds.db --cluster cpu-cores --gpus 2 --global-batch 4 --memory-limit 1GiB
$speeds -s 1f1b,gpipe >slowdown.txt 2>&1
run "quiet rows say nothing" 'quiet' sh -c '! grep "not quiet" slowdown.txt && echo quiet'
# The two schedules are alike: with one microbatch both run the same ops one after the other.
run "rows that cannot be told apart" 'these 2 cannot be told apart, for their p10-p90 overlap that of the first' \
  pipesim predict -p 2 -m 1 --db speeds.db -s 1f1b,gpipe
run "as JSON, too" '"alike": "' pipesim predict -p 2 -m 1 --db speeds.db -s 1f1b,gpipe --json
if grep -qw avx2 /proc/cpuinfo 2>/dev/null; then
  run "a library that does not know the processor" \
    'warning: device cpu: OpenBLAS does not know this processor and uses its slowest kernels, those of Prescott; OPENBLAS_CORETYPE=' \
    env OPENBLAS_CORETYPE=Prescott pipesim calib run --db slow.db --profile slow --model small.ini -p 1 -v 1 --max-samples 1 --time-limit 1ms
fi
# A run reads the sentinel and says how fast the machine is now: here a thousand times as fast as the profile says.
speeds="pipesim exec -s 1f1b -p 2 -m 4 --device cpu --model small.ini --steps 2 --db speeds.db"
sqlite3 speeds.db 'UPDATE sentinel SET median_ns = 1000 * median_ns, n = 6'
run "exec tells the slowdown" 'times as long as in the profile: the machine is faster now' $speeds
run "and predicts for it" '"inside_interval_slowdown": false' $speeds --json
$speeds --trace slowdown.trace.json --predicted slowdown.predicted.json >/dev/null 2>&1
run "compare too" 'by the sentinel, on the machine as the profile found it the run would take ' \
  pipesim compare slowdown.predicted.json slowdown.trace.json
sqlite3 speeds.db 'DELETE FROM sentinel'
run "or knows none" '"machine_slowdown": null' $speeds --json
run "more devices than cores" 'warning: -p: 256 devices take turns on ' \
  sh -c 'pipesim calib run --db none/x.db --profile x --model deep.ini -p 256 -v 1 2>&1; test $? = 1'
refuse 2 "--slices: '1' is not an integer from 2 to 255" pipesim calib run --db moved.db $moved --slices 1
refuse 1 "3 slices: do not divide the model's sequence" pipesim calib run --db moved.db $moved --slices 3
refuse 1 "--recompute full: slices need the keys and values" pipesim calib run --db moved.db $moved --slices 2 --recompute full
pipesim calib run --db alone.db --profile alone --model small.ini -p 1 -v 1 --max-samples 1 --time-limit 1ms >/dev/null 2>&1
refuse 1 "--db: has no transfers" pipesim calib cluster --db alone.db
refuse 2 "--again: '-1'" pipesim calib run --db moved.db $moved --again -1
# A budget adds samples to what predictions are most uncertain from. It ends by itself when it is used up; here a signal ends it.
: >more.err
pipesim calib run --db more.db --profile here --model small.ini -p 2 -v 1 --within 5 --slices 2 --max-samples 12 --time-limit 20ms --budget 60min \
  >more.txt 2>more.err &
pid=$!
until [ "$(grep -c 'more for them' more.err)" -ge 2 ] || ! kill -0 $pid 2>/dev/null; do sleep 0.1; done
kill -TERM $pid 2>/dev/null
wait $pid
first=$(sed 's/.*(n = \([0-9]*\), .*/"n": \1/' more.err | awk '/^"n": / { n += $2 } END { print n }')
after=$(pipesim calib show --db more.db --json | tr -d , | awk '/"n": / { n += $2 } END { print n }')
run "slices are measured" ',slice=1/2, 2 devices busy' cat more.err
run "and sums of both copies" 'all-reduce of 128 KiB, 2 devices busy' cat more.err
run "and host times" 'host op, 2 devices busy' cat more.err
run "and the machine as a cluster" 'seq1f1b   2' sh -c "pipesim calib cluster --db more.db >here.ini && pipesim predict -s seq1f1b -p 2 -m 2 --model small.ini --cluster here.ini"
run "by all of its ops" '# These rates meet 6 measured ops of 1 profile within' cat here.ini
run "which seq1f1b takes" 'seq1f1b' pipesim predict -s seq1f1b --slices 2 -p 2 -m 2 --db more.db
if [ "$after" -gt "$first" ]; then result "a budget adds samples"; else result "a budget adds samples" "$first samples, then $after" "$(tail -3 more.err)"; fi
# Ops of shared layers are measured with their sums, under a shape of their own.
shared="--db shared.db --profile parts"
run "shared layers" 'layers=2,head,tensor=2 ' pipesim calib run $shared --model small.ini -p 2 -v 1 --tensor 2 --within 20 --max-samples 10
run "have costs" "profile 'parts' of shared.db: cpu --tensor 2 over threads" pipesim predict -s 1f1b -p 2 -m 4 $shared --tensor 2
run "and a peak that runs have" '+0.00 %' \
  sh -c "pipesim exec -s 1f1b -p 2 -m 4 --device cpu --model small.ini $shared --tensor 2 | grep '^peak memory'"
run "with older weights, too" '+0.00 %' \
  sh -c "pipesim exec -s pipedream -p 2 -m 4 --device cpu --model small.ini $shared --tensor 2 | grep '^peak memory'"
run "and checks" '0.00 %' \
  sh -c "pipesim calib check $shared -p 2 -m 2 -s 1f1b --tensor 2 --rounds 1 --steps 2 --time-limit 20ms | grep '^peak memory'"
refuse 1 "has no F of stage shape 'layers=2,embedding'; measure it with: pipesim calib run $shared --model FILE -p 2 -v 1" \
  pipesim predict -s 1f1b -p 2 -m 4 $shared
refuse 1 "has no F of stage shape 'layers=2,embedding,tensor=4'" pipesim predict -s 1f1b -p 2 -m 4 $shared --tensor 4
refuse 2 "--tensor 3: does not divide heads 4 of model 'small'" pipesim calib run --db x.db --profile x --model small.ini -p 2 --tensor 3
finish
