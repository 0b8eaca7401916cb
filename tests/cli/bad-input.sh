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
refuse 2 "-o" pipesim schedule convert 1f1b -p 2 -m 2 --to native

# names and numbers
predict 2 "--schedule" -p 4 -m 8 --costs $good
predict 2 "1f1b interleaved" --schedule 1f2b -p 4 -m 8 --costs $good
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
predict 2 "latency" --schedule 1f1b -p 4 -m 8 --costs $good --comm rank
predict 2 "global" --schedule 1f1b -p 4 -m 8 --costs $good --sync bypass
predict 2 "'12XB'" --schedule 1f1b -p 4 -m 8 --costs $good --memory-limit 12XB
predict 2 "3 sizes for 4 devices" --schedule 1f1b -p 4 -m 8 --costs $good --memory-limit 1:2:3

# costs
predict 2 "--costs" --schedule 1f1b -p 4 -m 8
predict 2 "--costs and --db" --schedule 1f1b -p 4 -m 8 --costs $good --db x.db
for f in -1ms nan inf 1e400s 0x1p3ms 99999999999999999999s 1 '' 1ms1 '1 ms' 1..2ms; do
  predict 2 "--costs: f" --schedule 1f1b -p 4 -m 8 --costs "f=$f,b=1ms,w=1ms"
done
predict 2 "act" --schedule 1f1b -p 4 -m 8 --costs $good,act=-1
predict 2 "act" --schedule 1f1b -p 4 -m 8 --costs $good,act=1EiB
predict 2 "wact" --schedule 1f1b -p 4 -m 8 --costs $good,act=1MiB,wact=2MiB
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
refuse 2 "--schedule all" pipesim predict --schedule all -p 2 -m 2 --costs $good -o x.json
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

# comparing
$one -o simulated.json >/dev/null
sed s/simulated/measured/ simulated.json >measured.json
pipesim predict --schedule 1f1b -p 2 -m 3 --costs $good -o other.json >/dev/null
head -c 300 simulated.json >short.json
refuse 2 "" pipesim compare simulated.json
refuse 1 "no-such.json" pipesim compare no-such.json measured.json
refuse 1 "short.json" pipesim compare simulated.json short.json
refuse 1 "microbatches" pipesim compare other.json measured.json
refuse 1 "No space left" sh -c 'pipesim compare simulated.json measured.json >/dev/full'

# running
refuse 2 "--device" pipesim exec --schedule 1f1b -p 2 -m 2 --costs $good --device abacus
refuse 2 "threads" pipesim exec --schedule 1f1b -p 2 -m 2 --costs $good --device null --transport pigeons
refuse 2 "1f2b" pipesim exec --schedule 1f2b -p 2 -m 2 --costs $good --device null
refuse 2 "--steps" pipesim exec --schedule 1f1b -p 2 -m 2 --costs $good --device null --steps 0
refuse 1 "no-such/x.json" pipesim exec --schedule 1f1b -p 2 -m 2 --costs $good --device null --trace no-such/x.json
refuse 1 "No space left" sh -c "pipesim exec --schedule 1f1b -p 2 -m 2 --costs $good --device null --json >/dev/full"

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
finish
