#!/bin/sh
# bad-input.sh - wrong commands and wrong files: the right exit code, one line that names the culprit, nothing half-written.
set -u
. "$(dirname "$0")/lib.sh"

good='f=1ms,b=1ms,w=1ms'
predict ()
{
  expected=$1
  text=$2
  shift 2
  refuse "$expected" "$text" pipesim predict "$@"
}

# commands
refuse 2 "see pipesim help" pipesim
refuse 2 "no command 'prdict'" pipesim prdict
refuse 2 "no command '../x'" pipesim ../x
refuse 2 "no command ''" pipesim ''
refuse 2 "'lst'" pipesim schedule lst
refuse 2 "list, show, validate, convert" pipesim schedule
refuse 2 "'1f1b'" pipesim schedule list 1f1b
refuse 2 "give a family or a schedule file" pipesim schedule show
refuse 2 "torch-csv" pipesim schedule convert 1f1b -p 2 -m 2 --to torch-csv -o x
refuse 2 "is no target; did you mean megatron? (there are native, torch-comms," \
  pipesim schedule convert 1f1b -p 2 -m 2 --to megatrom -o x
refuse 2 "-o" pipesim schedule convert 1f1b -p 2 -m 2 --to native

# control characters do not reach the terminal
escape=$(printf 'x\033[31m\302\233y\nz')
for command in "" "predict --$good" schedule "plot timeline x" "report -o" calib "exec -p"; do
  refuse 2 "" pipesim $command "$escape"
done
for command in best "plot sweep --pareto -o x.svg" "calib list --db"; do
  refuse 1 "x [31m y z" pipesim $command "$escape"
done

# text that is none in this encoding
raw=$(printf 'x\377')
for command in "predict --comm" "plot --title" "exec --device"; do
  refuse 2 "${command#* }: 'x\377' is not text in UTF-8" pipesim $command "$raw"
done
refuse 2 "--profile: 'x\377' is not text in UTF-8" pipesim calib show --db x.db --profile="$raw"
refuse 2 "1f1b: has no groups of microbatches; leave out --group 4" pipesim predict --schedule 1f1b -p 4 -m 8 --costs $good --group 4
refuse 2 "1f1b: does not slice sequences; leave out --slices 2" pipesim predict --schedule 1f1b -p 4 -m 8 --costs $good --slices 2

# lengths
printf 'tokens\n4096\n2048\n' >tokens.csv
printf 'factor\n1\n0\n' >zero.csv
lengths='predict -s 1f1b -p 2 --costs f=1ms,b=1ms,w=1ms'
refuse 2 "--lengths tokens.csv: has 2 microbatches; the schedule has 8" pipesim $lengths -m 8 --lengths tokens.csv
refuse 2 "--lengths tokens.csv: tokens and images need the costs of a model; give factors" pipesim $lengths -m 2 --lengths tokens.csv
refuse 1 "zero.csv:3: factor: '0' is not a number from 0.0001 to 10000" pipesim $lengths -m 2 --lengths zero.csv
refuse 1 "none.csv: cannot read" pipesim $lengths -m 2 --lengths none.csv
refuse 2 "--microbatch-order: needs --lengths FILE" pipesim $lengths -m 2 --microbatch-order best

# names and numbers
predict 2 "--schedule" -p 4 -m 8 --costs $good
predict 2 "1f1b, eager-1f1b" --schedule 1f2b -p 4 -m 8 --costs $good
predict 2 "'1f1b': not expected" 1f1b -p 4 -m 8 --costs $good
predict 2 "--shedule" --shedule 1f1b -p 4 -m 8 --costs $good
predict 2 "-p" --schedule 1f1b -m 8 --costs $good
predict 2 "-m" --schedule 1f1b -p 4 --costs $good
for p in 0 -5 4x 1e3 4097 99999999999999999999 ''; do
  predict 2 "-p/--devices: '$p' is not an integer from 1 to 4096" --schedule 1f1b -p "$p" -m 8 --costs $good
done
for m in 0 1000000000 -1 0x10; do
  predict 2 "-m/--microbatches: '$m'" --schedule 1f1b -p 4 -m "$m" --costs $good
done
predict 2 "-v/--chunks: '0'" --schedule 1f1b -p 4 -m 8 -v 0 --costs $good
predict 2 "1048576" --schedule all -p 4096 -m 1048576 --costs $good
predict 2 "a multiple of 4" --schedule chimera -p 4 -m 3 --costs $good
predict 2 "--comm: 'nccl' is not one of latency, direction, pair, rank" --schedule 1f1b -p 4 -m 8 --costs $good --comm nccl
predict 2 "--comm-order: 'late' is not one of asap, deferred, planned" --schedule 1f1b -p 4 -m 8 --costs $good --comm-order late
predict 2 "--eager: '2XB'" --schedule 1f1b -p 4 -m 8 --costs $good --eager 2XB
for speed in 0 -1 1e3 nan 1:x '' 2000; do
  predict 2 "--speed: " --schedule 1f1b -p 4 -m 8 --costs $good --speed "$speed"
done
predict 2 "--speed: 3 factors for 4 devices" --schedule 1f1b -p 4 -m 8 --costs $good --speed 1:1:1
for slowdown in 0.5 9 x nan ''; do
  predict 2 "--overlap-slowdown: '$slowdown' is not a number from 1 to 8" --schedule 1f1b -p 4 -m 8 --costs $good \
    --overlap-slowdown "$slowdown"
done
predict 2 "--ready-order: '0'" --schedule 1f1b -p 4 -m 8 --costs $good --ready-order 0
predict 2 "--blocking and --ready-order" --schedule 1f1b -p 4 -m 8 --costs $good --ready-order 2 --blocking
predict 2 "--share-links: needs --cluster" --schedule 1f1b -p 4 -m 8 --costs $good --share-links
predict 1 "deadlock: device 2 instruction 8 (RECEIVE B0.3 from device 3) after" --schedule 1f1b -p 4 -m 8 --costs $good,c=1ms --comm pair --comm-order deferred
refuse 2 "native holds no sends and receives" pipesim schedule convert 1f1b -p 2 -m 2 --to native --comm-order planned -o x
predict 2 "--sync: 'local' is not one of global, bypass" --schedule 1f1b -p 4 -m 8 --costs $good --sync local
predict 2 "--reduce: 'no' is not one of overlapped, exposed" --schedule 1f1b -p 4 -m 8 --costs $good --reduce no
predict 2 "--replicas: '0'" --schedule 1f1b -p 4 -m 8 --costs $good --replicas 0
predict 2 "give reduce=TIME" --schedule 1f1b -p 4 -m 8 --costs $good --replicas 2
predict 2 "--zero 1: needs --replicas" --schedule 1f1b -p 4 -m 8 --costs $good --zero 1
spread="--costs $good,reduce=1ms,weights=3MiB,grad=1MiB,opt=1MiB --replicas 2"
predict 2 "--zero: '4'" --schedule 1f1b -p 4 -m 8 $spread --zero 4
predict 2 "--zero 3: not with channels" --schedule 1f1b -p 4 -m 8 $spread --zero 3 --comm pair
predict 2 "--zero 3: not with --sync bypass" --schedule 1f1b -p 4 -m 8 $spread --zero 3 --sync bypass
predict 2 "--zero 3: --explain and --samples know no gathers" --schedule 1f1b -p 4 -m 8 $spread --zero 3 --explain
predict 2 "pipedream: never drains" --schedule pipedream -p 4 -m 8 $spread --zero 3
predict 2 "--to deepspeed: --zero 3: its pipelines refuse" --schedule 1f1b -p 4 -m 8 --model tiny-gpt --cluster a100-80gb --replicas 2 --zero 3 --to deepspeed
refuse 2 "--zero 3: a search knows no gathers" pipesim search -p 4 -m 8 $spread --zero 3
refuse 2 "--zero 3: is predicted only" pipesim exec --schedule 1f1b -p 2 -m 2 $spread --zero 3 --device null
predict 2 "--recompute: 'all' is not one of none, selective, full" --schedule 1f1b -p 4 -m 8 --costs $good --recompute all
predict 2 "with --recompute full" --schedule 1f1b -p 4 -m 8 --costs $good --recompute selective
for ratio in 1.1 -0.5 nan 1e999 50% ''; do
  predict 2 "--offload: '$ratio' is not a number from 0 to 1" --schedule 1f1b -p 4 -m 8 --costs $good,host=1ms --offload "$ratio"
done
predict 2 "give host=TIME" --schedule 1f1b -p 4 -m 8 --costs $good --offload 0.5
predict 2 "'12XB'" --schedule 1f1b -p 4 -m 8 --costs $good --memory-limit 12XB
predict 2 "3 sizes for 4 devices" --schedule 1f1b -p 4 -m 8 --costs $good --memory-limit 1B:2B:3B

# explanations and samples
varied="--schedule 1f1b -p 4 -m 8 --costs $good"
predict 2 "not for several" --schedule all -p 4 -m 8 --costs $good --explain
predict 1 "no one circle" $varied --explain --sync bypass --overlap-slowdown 1.5
predict 2 "belongs to --explain" $varied --faster 10
for faster in 0 101 -5 x 0x10 nan ''; do
  predict 2 "--faster: '$faster' is not a percentage" $varied --explain --faster "$faster"
done
for jitter in -0.1 1.5 x 0x1 nan 5% ''; do
  predict 2 "--jitter: '$jitter' is not a number from 0 to 1" $varied --jitter "$jitter"
done
for samples in 0 -1 10000001 1e4 ''; do
  predict 2 "--samples: '$samples'" $varied --jitter 0.1 --samples "$samples"
done
predict 2 "--seed: '-1'" $varied --jitter 0.1 --seed -1
predict 2 "--jobs: '0'" $varied --jitter 0.1 --jobs 0
predict 2 "nothing varies" $varied --samples 10
predict 2 "needs --db" $varied --jitter measured
predict 2 "at most 4e9 s can be added up" --schedule 1f1b -p 4 -m 64 --costs f=1000000s,bw=1000000s --speed 0.001
predict 2 "at most 4e9 s can be added up" --schedule 1f1b -p 4 -m 64 --costs f=1000000s,bw=1000000s --speed 0.1 --samples 9 --jitter 1
predict 2 "at most 4e9 s can be added up" --schedule zb-h1 -p 4 -m 8 --costs f=1000000s,bw=1000000s --jitter 0.1 --sync bypass
predict 2 "too large for exact sums" --schedule seq1f1b -p 2 -m 500 --slices 255 --comm rank --costs f=0,bw=1ns,c=1000000s
predict 1 "never drains" --schedule pipedream -p 4 -m 8 --costs $good --jitter 0.1 --overlap-slowdown 1.5
predict 2 "DEVICE:FACTOR" $varied --straggler 1
predict 2 "'-1'" $varied --straggler -1:2
predict 2 "factor: '0'" $varied --straggler 1:0
predict 2 "probability: '2'" $varied --straggler 1:2:2
predict 2 "no device 4" $varied --straggler 4:2
predict 2 "A-B:FACTOR" $varied --slow-link 0-1
predict 2 "'1' is no link" $varied --slow-link 1:2
predict 2 "1-1 is no link" $varied --slow-link 1-1:2
predict 2 "no device 9" $varied --slow-link 0-9:2
predict 2 "at most 4e9 s" --schedule 1f1b -p 4 -m 8 --costs f=900000s,b=900000s,w=900000s --straggler 1:1000 --straggler 1:1000

# costs
predict 2 "--costs" --schedule 1f1b -p 4 -m 8
predict 2 "--costs and --db" --schedule 1f1b -p 4 -m 8 --costs $good --db x.db
for f in -1ms nan inf 1e400s 0x1p3ms 99999999999999999999s 1 '' 1ms1 '1 ms' 1..2ms; do
  predict 2 "--costs: f" --schedule 1f1b -p 4 -m 8 --costs "f=$f,b=1ms,w=1ms"
done
predict 2 "act" --schedule 1f1b -p 4 -m 8 --costs $good,act=-1
predict 2 "act" --schedule 1f1b -p 4 -m 8 --costs $good,act=1EiB
predict 2 "wact" --schedule 1f1b -p 4 -m 8 --costs $good,act=1MiB,wact=2MiB
predict 2 "keep is larger than act" --schedule 1f1b -p 4 -m 8 --costs $good,act=1MiB,keep=2MiB
predict 2 "grad + opt is larger than weights" --schedule 1f1b -p 4 -m 8 --costs $good,weights=1MiB,grad=1MiB,opt=1MiB
predict 2 "msg has 2 values; give 1, or 3 (one per boundary)" --schedule 1f1b -p 4 -m 8 --costs $good,msg=1B:2B
predict 2 "reduce" --schedule 1f1b -p 4 -m 8 --costs $good,reduce=-1ms
predict 2 "'g=1ms'" --schedule 1f1b -p 4 -m 8 --costs $good,g=1ms
predict 2 "f is given twice" --schedule 1f1b -p 4 -m 8 --costs $good,f=1ms
predict 2 "give f" --schedule 1f1b -p 4 -m 8 --costs ''
predict 2 "f has 2 values" --schedule 1f1b -p 4 -m 8 --costs f=1ms:1ms,b=1ms,w=1ms
predict 2 "too large" --schedule 1f1b -p 16 -m 1024 --costs f=1000000s,b=1000000s,w=1000000s

# schedule files
pipesim schedule convert 1f1b -p 2 -m 2 --to native -o good.json
head -c 150 good.json >cut.json
head -c 4096 /dev/urandom >random.json
: >empty.json
echo '{"format": "something-else/1"}' >foreign.json
sed 's/"devices": 2/"devices": 1000000000/' good.json >huge.json
sed 's/"microbatches": 2/"microbatches": -2/' good.json >negative.json
for file in cut random empty foreign huge negative; do
  predict 1 "$file.json" --schedule $file.json --costs $good
  refuse 1 "$file.json" pipesim schedule validate $file.json
done
predict 1 "no-such.json" --schedule no-such.json --costs $good
predict 1 "./" --schedule ./ --costs $good
predict 2 "-p 3" --schedule good.json -p 3 --costs $good

# databases
predict 1 "no-such.db" --schedule 1f1b -p 2 -m 2 --db no-such.db
echo 'this is no database' >text.db
: >empty.db
head -c 8192 /dev/urandom >random.db
mkdir folder.db
for file in text empty random folder; do
  predict 1 "$file.db" --schedule 1f1b -p 2 -m 2 --db $file.db
done
if command -v sqlite3 >/dev/null; then
  sqlite3 foreign.db 'CREATE TABLE a (b); PRAGMA user_version = 7;'
  predict 1 "foreign.db" --schedule 1f1b -p 2 -m 2 --db foreign.db
else
  skip "foreign.db" "no sqlite3"
fi
printf '[sweep]\nschedule = 1f1b\ndevices = 2\nmicrobatches = 2\ncosts = f=1ms,b=1ms,w=1ms\n' >one.ini
for command in "sweep one.ini --db" "sweep merge one.db" best pareto sensitivity "plot sweep --pareto -o x.svg" \
  "plot accuracy -o x.svg" "plot calibration -o x.svg" "report -o x.html" "predict --schedule 1f1b -p 2 -m 2 --db" \
  "search -p 2 -m 2 --db" "partition -p 2 --db" "plan --global-batch 8 --cluster cpu-cores --db" \
  "exec --schedule 1f1b -p 2 -m 2 --device paced --db" "calib list --db" "calib show --profile x --db" "calib export --db" \
  "calib diff a b --db" "calib run --profile x --model tiny-gpt --db"; do
  refuse 2 "" pipesim $command ''
done
refuse 2 "'': names no file; give the path of a result database" pipesim sweep one.ini --db ''

# models and clusters
echo '[model' >cut.ini
printf '[model]\nlayers = 8\nhidden = 10\nheads = 3\nsequence = 8\nvocabulary = 8\nmicrobatch_size = 1\nprecision = fp32\n' >odd.ini
printf '[model]\nlayers = 99999999999\n' >absurd.ini
printf '[cluster]\nnodes = 1\n' >other.ini
head -c 500 /dev/urandom >random.ini
for file in cut odd absurd other random; do
  predict 1 "$file.ini" --schedule 1f1b -p 2 -m 2 --model $file.ini --cluster $file.ini
done
predict 1 "no-such" --schedule 1f1b -p 2 -m 2 --model no-such --cluster x
predict 2 "--cluster" --schedule 1f1b -p 2 -m 2 --model tiny-gpt

# output that cannot be written
one="pipesim predict --schedule 1f1b -p 2 -m 2 --costs $good,act=1MiB"
refuse 1 "no-such/x.json" $one -o no-such/x.json
mkdir folder.json
refuse 1 "folder.json" $one -o folder.json
refuse 2 "not for several" pipesim predict --schedule all -p 2 -m 2 --costs $good -o x.json
refuse 2 "not for several" pipesim predict --schedule 1f1b --schedule gpipe -p 2 -m 2 --costs $good -o x.json
refuse 2 "--schedule: missing" pipesim exec
refuse 2 "--device: missing" pipesim exec -s 1f1b -p 2 -m 2 --model tiny-gpt
prefill="exec -s gpipe -p 2 --model tiny-gpt --device cpu --serve prefill"
refuse 2 "--chunk even-work:300: --prompt 3000 has at most 255 chunks" pipesim $prefill --prompt 3000 --chunk even-work:300
refuse 2 "--chunk even-work:9: --prompt 8 has at most 8 chunks" pipesim $prefill --prompt 8 --chunk even-work:9
refuse 1 "--prompt: devices that compute run prompts of one length" pipesim $prefill --prompt 64:32 --chunk 16
refuse 1 "--prompt: devices that compute run prompts of one length" pipesim $prefill --prompt 64:63 --chunk 16
refuse 1 "--sync bypass and --clip" pipesim $prefill --prompt 64 --chunk 16 --clip 1
refuse 2 "--recompute full: is of training" pipesim $prefill --prompt 64 --chunk 16 --recompute full
refuse 2 "--ahead 2: cpu runs one op after the other" pipesim exec -s 1f1b -p 2 -m 2 --model tiny-gpt --device cpu --ahead 2
refuse 2 "schedule 'ScheduleZBVZeroBuble': no such family or file; did you mean ZBVZeroBubble?" \
  pipesim predict --schedule ScheduleZBVZeroBuble -p 2 -m 2 --costs $good
refuse 2 "schedule 'all': no such family" pipesim predict --schedule all,1f1b -p 2 -m 2 --costs $good
refuse 1 "no-such/x.json" pipesim schedule convert 1f1b -p 2 -m 2 --to native -o no-such/x.json
if [ -w /dev/full ]; then
  refuse 1 "/dev/full" $one -o /dev/full
  for command in "$one" "$one --json" "pipesim schedule list" "pipesim schedule show 1f1b -p 2 -m 2" "pipesim help" \
    "pipesim --version" "pipesim schedule validate good.json" "pipesim schedule --help" \
    "pipesim schedule convert 1f1b -p 2 -m 2 --to native -o -"; do
    refuse 1 "No space left" sh -c "$command >/dev/full"
  done
else
  skip "/dev/full" "no such device"
fi

# A disk that fills up half-way, as far as a process can have it without the rights to mount one.
refuse 1 "part.json" sh -c "trap '' XFSZ; ulimit -f 1; exec $one -o part.json"
refuse 1 "good.json" sh -c "trap '' XFSZ; ulimit -f 1; exec $one -o good.json"

# A signal in the middle of a write leaves the old file and no other.
ended ()
{
  echo old >ended.svg
  find . | sort >"$work/before"
  (
    ulimit -c 0
    ulimit -f 1
    exec "$@" >/dev/null 2>&1
  )
  code=$?
  find . | sort >"$work/after"
  set -- "ended: $*"
  [ $code -eq 153 ] || set -- "$@" "exit code $code, not that of SIGXFSZ"
  [ "$(cat ended.svg)" = old ] && cmp -s "$work/before" "$work/after" || set -- "$@" "$(diff "$work/before" "$work/after")"
  result "$@"
}
ended $one -o ended.svg
ended pipesim exec --schedule 1f1b -p 4 -m 8 --costs $good --device null --steps 1 --predicted ended.svg

# partitions
printf 'layer,time,activation_bytes,parameter_bytes\na,1ms,1KiB,1KiB\nb,1ms,1KiB,1KiB\nc,1ms,1KiB,1KiB\n' >layers.csv
cut="pipesim partition --layers layers.csv"
refuse 2 "--layers FILE.csv" pipesim partition -p 2
refuse 2 "--bandwidth: missing" $cut -p 2
refuse 2 "-p/--devices: missing" $cut --bandwidth 1GB/s
for rate in 0 -1GB/s 1GB '1 GB/s' fast nan ''; do
  refuse 2 "--bandwidth: '$rate' is no rate" $cut -p 2 --bandwidth "$rate"
done
refuse 2 "--bandwidth: '100' has no unit; 100GB/s would be right" $cut -p 2 --bandwidth 100
cut="$cut --bandwidth 1GB/s"
refuse 2 "'layers.csv': not expected" pipesim partition layers.csv -p 2
refuse 2 "--algorithm: 'best' is not one of all, uniform, parameters, flops, " $cut -p 2 --algorithm best
refuse 2 "the 3 layers of layers.csv cannot be cut into 4 stages" $cut -p 4
refuse 2 "cannot be cut into 4 stages" $cut -p 2 -v 2 --algorithm uniform
refuse 2 "give 1 to 16384 stages" $cut -p 4096 -v 5
refuse 2 "has no FLOPs" $cut -p 2 --algorithm flops
refuse 2 "needs --memory-limit" $cut -p 2 --algorithm memory-aware
refuse 1 "more on every device" $cut -p 2 --algorithm memory-aware --memory-limit 1KiB
refuse 2 "3 sizes for 2 devices" $cut -p 2 --memory-limit 1B:2B:3B
refuse 2 "needs --schedule" $cut -p 2 --algorithm schedule
refuse 2 "-m/--microbatches: missing" $cut -p 2 --schedule 1f1b
refuse 2 "'1f2b'" $cut -p 2 -m 2 --schedule 1f2b
refuse 2 "a multiple of 2" $cut -p 2 -m 3 --schedule chimera
for speed in 0 -1 1e3 nan 1:x 1:2:3 '' 2000; do
  refuse 2 "--speed: " $cut -p 2 --speed "$speed"
done
refuse 2 "equally fast" $cut -p 2 --algorithm pipedream --speed 1:2
refuse 2 "same speed" $cut -p 2 -m 4 --schedule chimera --speed 1:2
refuse 2 "--costs" $cut -p 2 --costs $good
refuse 2 "--layers and --model" $cut -p 2 --model tiny-gpt
refuse 2 "--layers and --db" $cut -p 2 --db x.db
refuse 2 "--bandwidth: goes with --layers" pipesim partition -p 2 --model tiny-gpt --cluster cpu-cores --bandwidth 1GB/s
refuse 2 "--print-costs" $cut -p 1 --algorithm all --print-costs
refuse 2 "--print-costs and --json" $cut -p 2 --print-costs --json
refuse 2 "no --costs can say" $cut -p 5 --algorithm pipedream --print-costs
refuse 2 "--replicas 2: partition does not look at it" $cut -p 2 --replicas 2
refuse 2 "--recompute full: partition" $cut -p 2 --recompute full
refuse 1 "no-such.db" pipesim partition -p 2 --db no-such.db
refuse 1 "no-such" pipesim partition -p 2 --model no-such --cluster cpu-cores
sed '3s/1ms/1.5/' layers.csv >unit.csv
sed '3s/,1KiB$//' layers.csv >field.csv
sed '3s/1KiB/-1KiB/' layers.csv >minus.csv
sed 1d layers.csv >headless.csv
head -1 layers.csv >no-layers.csv
: >empty.csv
head -c 4096 /dev/urandom >random.csv
mkdir folder.csv
for file in unit:3 field:3 minus:3 headless:1 no-layers empty random folder no-such; do
  refuse 1 "${file%:*}.csv${file#"${file%:*}"}" pipesim partition --layers ${file%:*}.csv -p 2 --bandwidth 1GB/s
done
if [ -w /dev/full ]; then
  refuse 1 "No space left" sh -c "$cut -p 2 >/dev/full"
  refuse 1 "No space left" sh -c "$cut -p 2 --json >/dev/full"
fi

# comparing
$one -o simulated.json >/dev/null
sed s/simulated/measured/ simulated.json >measured.json
pipesim predict --schedule 1f1b -p 2 -m 3 --costs $good -o other.json >/dev/null
head -c 300 simulated.json >short.json
refuse 2 "" pipesim compare simulated.json
refuse 1 "no-such.json" pipesim compare no-such.json measured.json
refuse 1 "short.json" pipesim compare simulated.json short.json
refuse 1 "microbatches" pipesim compare other.json measured.json
refuse 1 "no-such.json" pipesim diagnose no-such.json
refuse 1 "short.json" pipesim diagnose short.json
refuse 1 "a.pt.trace.json: the timeline has no op of stage 0 and microbatch 0" \
  sh -c 'pipesim diagnose "$G_TEST_SRCDIR/fixtures/profiler/a.pt.trace.json" 2>&1 | tail -n 1 >&2; exit 1'
refuse 1 "No space left" sh -c 'pipesim compare simulated.json measured.json >/dev/full'

# slices
long="--schedule seq1f1b -p 2 -m 2 --model tiny-gpt --cluster cpu-cores"
refuse 2 "the slices have 96 tokens; sequences of model 'tiny-gpt' have 128" pipesim predict $long --slices 64:32
refuse 2 "slice 1 of 63 tokens: 2 GPUs share it" pipesim predict $long --slices 63:65 --tensor 2
refuse 2 "'0' is not an integer from 1" pipesim predict $long --slices 128:0
refuse 2 "'x' is not an integer" pipesim predict $long --slices even-work:x
refuse 2 "'even-work' is not an integer" pipesim predict $long --slices even-work
refuse 2 "of no model, whose slices" pipesim predict --schedule seq1f1b -p 2 -m 2 --costs $good --slices even-work:2
refuse 2 "4 GPUs do not divide the 6 heads" pipesim predict --schedule seq1f1b -p 2 -m 2 --model tiny-gpt --cluster h100-80gb --context 4 --cp-comm-type a2a
refuse 2 "2 slices on 3 devices; give --slices 3 or more" pipesim predict --schedule slimpipe -p 3 -m 2 --costs $good --slices 2

# running
refuse 1 "--sync bypass: not with" pipesim exec --schedule 1f1b -p 2 -m 2 --model tiny-gpt --device cpu --sync bypass --save x.safetensors
refuse 1 "--recompute full: slices need the keys and values of earlier ones; --recompute selective keeps them" pipesim exec --schedule seq1f1b -p 2 -m 2 --model tiny-gpt --device cpu --recompute full
pipesim schedule convert seq1f1b -p 2 -m 1 --slices 2 --to native -o slices.json
sed 's,"BW0.1/1","R0.1/1"\, "BW0.1/1",' slices.json >slices-again.json
refuse 1 "stage 1: an R: slices need the keys and values" pipesim exec --schedule slices-again.json --model tiny-gpt --device cpu
refuse 2 "--device" pipesim exec --schedule 1f1b -p 2 -m 2 --costs $good --device abacus
refuse 2 "threads" pipesim exec --schedule 1f1b -p 2 -m 2 --costs $good --device null --transport pigeons
refuse 2 "1f2b" pipesim exec --schedule 1f2b -p 2 -m 2 --costs $good --device null
refuse 2 "--steps" pipesim exec --schedule 1f1b -p 2 -m 2 --costs $good --device null --steps 0
refuse 1 "1000000 steps: 9.684 MiB is recorded of each, and this machine has" \
  pipesim exec --schedule 1f1b -p 64 -m 1000 --costs $good --device null --steps 1000000
refuse 2 "--predicted: is the file of --trace" \
  pipesim exec --schedule 1f1b -p 2 -m 2 --costs $good --device null --trace x.json --predicted x.json
refuse 1 "no-such/x.json" pipesim exec --schedule 1f1b -p 2 -m 2 --costs $good --device null --trace no-such/x.json
refuse 1 "No space left" sh -c "pipesim exec --schedule 1f1b -p 2 -m 2 --costs $good --device null --json >/dev/full"

# sweeping
printf '[sweep]\nschedule = 1f1b, gpipe\ndevices = 2\nmicrobatches = 2\ncosts = f=1ms,b=1ms,w=1ms\n' >spec.ini
printf '[sweep]\nschedule = 1f1b\ndevices = 2\nmicrobatches = 2\ncosts = f=1ms,b=1ms,w=2ms\n' >other.ini
printf '[sweep]\nschedule = 1f1b\ndevices = 0\n' >zero.ini
printf '[sweep]\nschedule = chimera\ndevices = 3\nmicrobatches = 2\ncosts = f=1ms,b=1ms,w=2ms\n' >never.ini
pipesim sweep spec.ini --db swept.db 2>/dev/null
pipesim sweep other.ini --db foreign.db 2>/dev/null
refuse 2 "no spec" pipesim sweep
refuse 2 "'x': not expected" pipesim sweep spec.ini x --db new.db
refuse 2 "--db: missing" pipesim sweep spec.ini
refuse 2 "--jobs: '0'" pipesim sweep spec.ini --db new.db --jobs 0
refuse 2 "--shard: '2/2'" pipesim sweep spec.ini --db new.db --shard 2/2
refuse 1 "no-such.ini" pipesim sweep no-such.ini --db new.db
refuse 1 "zero.ini:3: -p/--devices: '0'" pipesim sweep zero.ini --db new.db
refuse 1 "no-such/new.db" pipesim sweep spec.ini --db no-such/new.db
refuse 1 "text.db" pipesim sweep spec.ini --db text.db
refuse 2 "swept.db: holds 2 settings already" pipesim sweep spec.ini --db swept.db
refuse 2 "swept.db: part 1 of 2: holds 1 settings already" pipesim sweep spec.ini --db swept.db --shard 0/2
refuse 1 "swept.db: holds another sweep" pipesim sweep other.ini --db swept.db --resume
refuse 2 "merge: give" pipesim sweep merge new.db
refuse 1 "no-such.db" pipesim sweep merge new.db no-such.db
refuse 1 "foreign.db" pipesim sweep merge swept.db foreign.db
refuse 2 "no database" pipesim pareto
refuse 1 "no-such.db" pipesim pareto no-such.db
refuse 2 "'x': not expected" pipesim best swept.db x
refuse 2 "only one of them" pipesim best swept.db --json --csv
refuse 2 "--per: 'colour' is no column" pipesim pareto swept.db --per colour
refuse 2 "--by: 'schedule' is no column of numbers" pipesim pareto swept.db --by schedule
refuse 2 "--memory-limit: '8XB'" pipesim best swept.db --memory-limit 8XB
refuse 2 "--top: '0'" pipesim best swept.db --top 0
refuse 2 "--over: 'schedule' is no setting" pipesim sensitivity swept.db --over schedule
refuse 1 "holds no setting" pipesim best swept.db --where devices=3
printf '[sweep]\nschedule = dualpipe\np = 3\nm = 4\ncosts = f=1ms,b=1ms,w=1ms\n' >impossible.ini
pipesim sweep impossible.ini --db impossible.db 2>/dev/null
for command in best pareto "report -o x.html"; do
  refuse 1 "impossible.db: holds no prediction: no setting is possible" pipesim $command impossible.db
done
mkfifo unread
refuse 1 "unread: no program reads this pipe" pipesim predict --schedule 1f1b -p 2 -m 2 --costs $good -o unread
refuse 1 "No space left" sh -c "pipesim best swept.db >/dev/full"

# searching
refuse 2 "-p/--devices: missing" pipesim search -m 4 --costs f=1ms,b=1ms,w=1ms
refuse 2 "-m/--microbatches: missing" pipesim search -p 4 --costs f=1ms,b=1ms,w=1ms
refuse 2 "'0'" pipesim search -p 2 -m 2 --costs f=1ms,b=1ms,w=1ms --time-limit 0
refuse 2 "'1x'" pipesim search -p 2 -m 2 --costs f=1ms,b=1ms,w=1ms --seed 1x
refuse 2 "'0'" pipesim search -p 2 -m 2 --costs f=1ms,b=1ms,w=1ms --moves 0
refuse 2 "--placement" pipesim search -p 2 -m 2 -v 3 --placement V --costs f=1ms,b=1ms,w=1ms --moves 1
refuse 2 "an even -p" pipesim search -p 3 -m 4 --placement bidirectional --costs f=1ms,b=1ms,w=1ms --moves 1
refuse 2 "an even number" pipesim search -p 4 -m 3 --placement bidirectional --costs f=1ms,b=1ms,w=1ms --moves 1
refuse 2 "--microbatch-size" pipesim search -p 2 -m 2 --costs f=1ms,b=1ms,w=1ms --microbatch-size auto
refuse 2 "--joint: its bounds are of microbatches of one length" pipesim search -p 2 -m 2 --costs f=1ms,b=1ms,w=1ms --joint --lengths tokens.csv
refuse 2 "does not divide" pipesim search -p 2 -m 2 --model tiny-gpt --cluster h100-80gb --microbatch-size 3 --moves 1
refuse 2 "not expected" pipesim search -p 2 -m 2 --costs f=1ms,b=1ms,w=1ms gpipe
refuse 1 "infeasible: needs at least 4 B" pipesim search -p 2 -m 2 --costs f=1ms,b=1ms,w=1ms,act=4B --memory-limit 3B --moves 1
refuse 1 "-o: no-such/x.json" pipesim search -p 2 -m 2 --costs f=1ms,b=1ms,w=1ms --moves 1 -o no-such/x.json
refuse 1 "-o: ." pipesim search -p 2 -m 2 --costs f=1ms,b=1ms,w=1ms --moves 1 -o .
refuse 2 "--defer-head" pipesim search -p 2 -m 2 --costs f=1ms,b=1ms,w=1ms --moves 1 --defer-head 2
refuse 2 "--objective p90: nothing varies; give --jitter, --straggler or --slow-link" pipesim search -p 2 -m 2 --costs f=1ms,b=1ms,w=1ms --moves 1 --objective p90
refuse 2 "--objective time: looks at no samples; mean or p90 would" pipesim search -p 2 -m 2 --costs f=1ms,b=1ms,w=1ms --moves 1 --jitter 0.1
refuse 2 "zb-h1: has no W of the head to put off; leave out --defer-head 2" pipesim predict --schedule zb-h1 -p 4 -m 8 --costs $good --defer-head 2
refuse 1 "buffers" pipesim search -p 2 -m 4 -v 1 --placement loop --costs f=1ms,b=1ms,w=1ms,act=4B,msg=100B --comm rank --memory-limit 4B --moves 1
# A stack for which no address space is left: no thread can be made.
many_threads ()
(
  ulimit -s 4294967296 && exec pipesim search -p 4 -m 8 --costs f=1ms,b=1ms,w=2ms,c=1ms --moves 10 --jobs 3
)
if (ulimit -s 4294967296) 2>/dev/null; then
  refuse 1 "--jobs: 3 threads" many_threads
else
  skip "a thread that cannot be made" "the limit of stacks cannot be raised"
fi

# planning
plan='pipesim plan --model tiny-gpt --cluster cpu-cores'
refuse 2 "--global-batch: missing" $plan
refuse 2 "--cluster: missing" pipesim plan --model tiny-gpt --global-batch 8
refuse 2 "--model: missing" pipesim plan --cluster cpu-cores --global-batch 8
case $($plan --serve prefill 2>&1) in
  *'Unknown option --serve') result "an option of other commands is not meant" ;;
  *) result "an option of other commands is not meant" "$($plan --serve prefill 2>&1)" ;;
esac
refuse 2 "'tiny-gpt': not expected" pipesim plan tiny-gpt
for n in 0 -4 4x ''; do
  refuse 2 "--gpus: '$n'" $plan --global-batch 8 --gpus "$n"
  refuse 2 "--global-batch: '$n'" $plan --global-batch "$n"
  refuse 2 "--top: '$n'" $plan --global-batch 8 --top "$n"
  refuse 2 "--explain: '$n'" $plan --global-batch 8 --explain "$n"
done
for n in 0 65 x; do
  refuse 2 "--tensor: '$n'" $plan --global-batch 8 --tensor "$n"
  refuse 2 "--tensor: '$n'" pipesim predict --schedule 1f1b -p 2 -m 2 --model tiny-gpt --cluster cpu-cores --tensor "$n"
done
refuse 2 "--jobs: '0'" $plan --global-batch 8 --jobs 0
refuse 2 "--tensor 4: does not divide the 6 GPUs" $plan --global-batch 8 --gpus 6 --tensor 4
refuse 2 "--tensor 4: does not divide heads 6 of model 'tiny-gpt'" $plan --global-batch 8 --tensor 4
refuse 2 "--tensor 3: does not divide the 4 GPUs of a node" pipesim predict --schedule 1f1b -p 2 -m 2 --model tiny-gpt --cluster cpu-cores --tensor 3
refuse 2 "--tensor 2: needs modelled costs" pipesim predict --schedule 1f1b -p 2 -m 2 --costs $good --tensor 2
for command in "predict --schedule 1f1b -m 2" "search -m 2 -t 1s" partition; do
  refuse 2 "network_latency and network_bandwidth are missing" pipesim $command -p 5 --model tiny-gpt --cluster cpu-cores
done
refuse 2 "has one node of 4 devices and no network, so not 8" $plan --global-batch 8 --gpus 8
refuse 2 "--offload 0.5: partition does not look at it" pipesim partition -p 2 --model tiny-gpt --cluster cpu-cores --offload 0.5
refuse 2 "--tensor 4: does not divide heads 6 of model 'tiny-gpt'" pipesim exec --schedule 1f1b -p 2 -m 2 --model tiny-gpt --device cpu --tensor 4
refuse 2 "-s/--schedule: '1f1b,zb-h1' are several; this command takes one" pipesim exec -s 1f1b -s zb-h1 -p 2 -m 2 --device null
refuse 2 "-s/--schedule: '1f1b,zb-h1' are several" pipesim partition -p 2 -m 4 --model tiny-gpt --cluster cpu-cores -s 1f1b,zb-h1
refuse 2 "--explain: '11'" $plan --global-batch 8 --explain 11
refuse 2 "--explain: '7' is after the last, 6" $plan --global-batch 1 --gpus 1 --schedule 1f1b,gpipe --every --explain 7
refuse 2 "--explain: '2' is after the last, 1" $plan --global-batch 1 --gpus 1 --schedule 1f1b,gpipe --explain 2
refuse 2 "--reserve 5000000000B: leaves nothing" $plan --global-batch 1 --gpus 1 --reserve 5GB
refuse 2 "--reserve: '5' has no unit; 5GB would be right" $plan --global-batch 1 --gpus 1 --reserve 5
refuse 2 "--explain and --json" $plan --global-batch 8 --explain 1 --json
refuse 2 "--zero: '4'" $plan --global-batch 8 --zero 4
refuse 2 "--memory-limit: '1XB'" $plan --global-batch 8 --memory-limit 1XB
refuse 2 "'1f2b' is no family" $plan --global-batch 8 --schedule 1f1b,1f2b
refuse 2 "--profile: needs --db" $plan --global-batch 8 --profile x
refuse 1 "no-such.db" $plan --global-batch 8 --db no-such.db
compare="pipesim plan --model tiny-gpt --global-batch 8 --schedule 1f1b --cluster cpu-cores,h100-80gb"
refuse 2 "--to megatron: a launch is for one cluster, and --cluster names 2" $compare --to megatron
refuse 1 "'nope': neither a file nor one of the clusters" $compare --cluster nope
refuse 1 "'': neither a file nor one of the clusters" $compare --cluster h200-141gb,
refuse 2 "--price: there is none of cluster 'cpu-cores'" $compare --price h100-80gb=1/h
refuse 2 "--price: 'h100-80' is none of the clusters cpu-cores, h100-80gb; did you mean h100-80gb?" $compare --price h100-80=1/h
for n in 2.1 '\$2.1/h' 0/h x/h cpu-cores= 1/m -1/h; do
  refuse 2 "--price: '$n' is no price per GPU and hour; 2.1/h or h100-80gb=2.1/h would be right" $compare --price "$n"
done
refuse 2 "--days: needs --tokens N, those of the whole training" $compare --days 3
refuse 2 "--days: '0' is not a number from 0.01 to 36525" $compare --days 0
refuse 2 "--tokens: '1Q' is no number of tokens; 15T, 300B or 20M would be right" $compare --tokens 1Q
refuse 2 "--target-step: '0' is no time of a step" $compare --target-step 0
refuse 2 "--target-step, --days: give one of them" $compare --target-step 1s --days 3 --tokens 1T
refuse 2 "-g/--gpus: leave it out with --target-step or --days" $compare --target-step 1s -g 4
refuse 2 "-g/--gpus: '0'" $compare -g 4,0

# launches
echo 'torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py --num-layers 8 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 --seq-length 64 \
  --bf16 --micro-batch-size 1 --global-batch-size 8 --context-parallel-size 2' >launch.sh
refuse 2 "'launch.sh': not expected; a schedule goes after --schedule, a launch after --from" pipesim predict launch.sh --cluster h100-80gb
refuse 2 "--from: given 2 times; a command takes one launch" pipesim predict --from launch.sh --from=launch.sh --cluster h100-80gb
for command in "predict --from" advise; do
  refuse 2 "--cluster: missing; name the machine, or give measured costs" pipesim $command launch.sh
done
refuse 2 "'sbatch -N 4 no.sh 8B' names no file" pipesim predict --from 'sbatch -N 4 no.sh 8B' --cluster h100-80gb
refuse 1 "no setting is possible on 13 GPUs: d times b has to divide the batch of 8" pipesim plan --from launch.sh --cluster h100-80gb -g 13 -s 1f1b
run "plan keeps how a launch runs" "--cp-comm-type p2p --overlap-param-gather --tp-comm-overlap" \
  pipesim plan --from 'bash launch.sh --overlap-grad-reduce --overlap-param-gather --tp-comm-overlap' --cluster h100-80gb --print-command
run "the fewest GPUs of a launch" "GPUs are the fewest" pipesim plan --from launch.sh --cluster h100-80gb --target-step 1s -s 1f1b
refuse 1 "no number of GPUs up to 4 has a step of at most 1 us within memory; numbers tried: 3" $plan --global-batch 8 --target-step 1us
refuse 1 "no setting fits on 4 GPUs" $plan --global-batch 8 --memory-limit 1MiB
refuse 2 "--microbatch-size: needs modelled costs" pipesim predict --schedule 1f1b -p 2 -m 2 --costs $good --microbatch-size 2
refuse 2 "--microbatch-size: '0'" pipesim predict --schedule 1f1b -p 2 -m 2 --model tiny-gpt --cluster cpu-cores --microbatch-size 0

# measuring
refuse 2 "--db" pipesim calib run --profile x --model tiny-gpt -p 1
refuse 2 "'0'" pipesim calib run --db x.db --profile x --model tiny-gpt -p 0
refuse 1 "no-such" pipesim calib run --db x.db --profile x --model no-such -p 1
refuse 1 "text.db" pipesim calib run --db text.db --profile x --model tiny-gpt -p 1
refuse 1 "no-such.db" pipesim calib list --db no-such.db
refuse 1 "no-such.db" pipesim calib show --db no-such.db --profile x

# drawing
refuse 2 "" pipesim plot
refuse 2 "x.gif" pipesim plot timeline simulated.json -o x.gif
refuse 1 "no-such.json" pipesim plot timeline no-such.json -o x.svg
refuse 1 "short.json" pipesim plot timeline short.json -o x.svg
mkdir empty
plot=$(command -v pipesim-plot)
refuse 1 "gnuplot" env PATH="$PWD/empty" "$plot" timeline simulated.json -o x.svg
refuse 1 "gnuplot" env PATH="$PWD/empty" "$plot" memory simulated.json -o x.png
if command -v gnuplot >/dev/null; then
  refuse 1 "no-such/x.svg" pipesim plot timeline simulated.json -o no-such/x.svg
else
  skip "no-such/x.svg" "no gnuplot"
fi
refuse 2 "accuracy, calibration" pipesim plot gantt simulated.json -o x.svg
refuse 2 "-o: missing" pipesim plot sweep swept.db --pareto
refuse 2 "--x: missing" pipesim plot sweep swept.db -o x.svg
refuse 2 "--y: missing" pipesim plot sweep swept.db --x devices -o x.svg
refuse 2 "--x: 'colour' is no column of numbers" pipesim plot sweep swept.db --x colour --y bubble_ratio -o x.svg
refuse 2 "--heat: 'colour' is no column" pipesim plot sweep swept.db --x devices --y microbatches --heat colour -o x.svg
refuse 2 "--heat: '--series'" pipesim plot sweep swept.db --x devices --y microbatches --heat comm --series comm -o x.svg
refuse 2 "--size: '10x10'" pipesim plot sweep swept.db --pareto --size 10x10 -o x.svg
refuse 2 "2 files given" pipesim plot sweep swept.db other.db --pareto -o x.svg
refuse 1 "no setting is left" pipesim plot sweep swept.db --pareto --where devices=3 -o x.svg
refuse 1 "text.db" pipesim plot sweep text.db --pareto -o x.svg
refuse 1 "swept.db" pipesim plot accuracy swept.db -o x.svg
refuse 1 "no-such.db" pipesim plot accuracy no-such.db -o x.svg
refuse 2 "--profile: belongs to calibration" pipesim plot accuracy no-such.db --profile x -o x.svg
refuse 2 "0 files given" pipesim plot calibration -o x.svg
refuse 1 "no-such.db" pipesim plot calibration no-such.db -o x.svg
refuse 1 "text.db" pipesim plot calibration text.db -o x.svg
refuse 1 "swept.db" pipesim plot calibration swept.db -o x.svg
refuse 1 "short.json" pipesim plot calibration short.json -o x.svg
refuse 2 "--profile: 'x' chooses in a database" pipesim plot calibration short.json --profile x -o x.svg

# reporting
refuse 2 "no database" pipesim report
refuse 2 "-o: missing" pipesim report swept.db
refuse 2 "--by: 'schedule'" pipesim report swept.db --by schedule -o x.html
refuse 2 "--where: 'devices~2'" pipesim report swept.db --where devices~2 -o x.html
refuse 1 "holds no setting" pipesim report swept.db --where devices=3 -o x.html
refuse 1 "no-such.db" pipesim report no-such.db -o x.html
refuse 1 "text.db" pipesim report text.db -o x.html
refuse 1 "short.json" pipesim report swept.db short.json -o x.html
refuse 1 "no-such/x.html" pipesim report swept.db -o no-such/x.html
if [ -w /dev/full ]; then
  refuse 1 "/dev/full" pipesim report swept.db -o /dev/full
else
  skip "/dev/full" "no such device"
fi
finish
