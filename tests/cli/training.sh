#!/bin/sh
# training.sh - a training as a user sees it: a text that is learnt, losses as they come, in a file and in a picture.
set -u
. "$(dirname "$0")/lib.sh"

model_ini feed_forward=64 >model.ini
train='pipesim exec -p 2 -m 4 --device cpu --model model.ini --text sums'

# says NAME PATTERN FILE
says ()
{
  if grep -qE -e "$2" "$3"; then result "$1"; else result "$1" "no '$2' in:" "$(head -20 "$3")"; fi
}

# same NAME FILE FILE: of what does not depend on the clock.
same ()
{
  cut -d, -f1-3 "$2" >"$work/a"
  cut -d, -f1-3 "$3" >"$work/b"
  if cmp -s "$work/a" "$work/b"; then result "$1"; else result "$1" "$(diff "$work/a" "$work/b" | head -5)"; fi
}

# trained NAME OPTIONS...: a training that ends with 0.
trained ()
{
  name=$1
  shift
  $train "$@" >"$work/stdout" 2>"$work/stderr"
  code=$?
  if [ $code -eq 0 ]; then result "$name"; else result "$name" "exit code $code" "$(cat "$work/stderr")"; fi
}

rates='--learning-rate 0.01 --warm-up 4 --decay 30 --least-rate 0.001'
trained "a text is learnt" --schedule 1f1b --steps 30 $rates --losses 1f1b.csv --check
says "as one device learns it" 'bit-equal' "$work/stdout"
says "each step has a row" '^  30 +[0-9.]+ [nmu]?s +[0-9]\.[0-9]{5}$' "$work/stdout"
if [ "$(wc -l <1f1b.csv)" -eq 31 ] && [ "$(head -1 1f1b.csv)" = step,loss,learning_rate,iteration_ns ]; then
  result "and a line in the file"
else
  result "and a line in the file" "$(head -3 1f1b.csv)"
fi
if awk -F, 'NR == 2 { first = $2 } END { exit !($2 < 0.7 * first) }' 1f1b.csv; then result "losses fall"; else result "losses fall" "$(tail -1 1f1b.csv)"; fi
if [ "$(awk -F, 'NR > 1 && NR < 6 { printf "%g ", $3 }' 1f1b.csv)" = '0.0025 0.005 0.0075 0.01 ' ]; then result "the rate warms up"; else result "the rate warms up" "$(head -5 1f1b.csv)"; fi
for schedule in gpipe zb-h1 interleaved; do
  trained "$schedule" --schedule $schedule --steps 30 $rates --losses $schedule.csv
  same "$schedule has the curve of 1f1b" $schedule.csv 1f1b.csv
done
head -c 4000 "$G_TEST_SRCDIR/cli/training.sh" >mine.txt
trained "a text of the user's" --schedule 1f1b --steps 2 --text mine.txt --losses mine.csv
trained "other seeds see other places of it" --schedule 1f1b --steps 2 --text mine.txt --seed 2 --losses other.csv
if cmp -s mine.csv other.csv; then result "and learn otherwise" "they do not"; else result "and learn otherwise"; fi

# Rows and lines come while the run goes on, and stay when it is killed.
: >"$work/stdout" >long.csv # the loop must not read what another run wrote, or a file that is not there yet
pipesim-exec --schedule 1f1b -p 2 -m 4 --device cpu --model model.ini --text sums --steps 1000000 --losses long.csv \
  >"$work/stdout" 2>"$work/stderr" &
process=$!
while kill -0 $process 2>/dev/null && { [ "$(wc -l <"$work/stdout")" -lt 6 ] || [ "$(wc -l <long.csv)" -lt 4 ]; }; do sleep 0.05; done
if kill -9 $process; then result "rows come as steps end"; else result "rows come as steps end" "$(cat "$work/stderr")"; fi
wait $process 2>/dev/null
if tail -1 long.csv | grep -qE '^[0-9]+,[0-9.]+,0\.001,[0-9]+$'; then result "a killed run leaves whole lines"; else result "a killed run leaves whole lines" "$(tail -2 long.csv)"; fi

# A training that is cut in two, and goes on with another schedule, layout and number of devices, is the same training.
trained "the first part" --schedule zb-h1 --steps 9 $rates --losses parts.csv --save half.safetensors
cp half.safetensors kept.safetensors
trained "the second part" --schedule 1f1b -p 4 --layout 'E|tt|tt|L' --steps 30 $rates --losses parts.csv --load half.safetensors \
  --save whole.safetensors --check
same "together they have the curve of one" parts.csv 1f1b.csv
says "from the checkpoint on as one device" 'bit-equal' "$work/stdout"
if cmp -s half.safetensors kept.safetensors; then result "the file that was loaded stays"; else result "the file that was loaded stays" "it has changed"; fi
trained "in one piece, saved on the way" --schedule gpipe --steps 30 $rates --save one.safetensors --save-every 7
if cmp -s one.safetensors whole.safetensors; then result "and the same state"; else result "and the same state" "$(cmp one.safetensors whole.safetensors)"; fi
trained "more lines than the checkpoint has steps" --schedule 1f1b --steps 30 $rates --losses 1f1b.csv --load kept.safetensors
same "are written anew" 1f1b.csv parts.csv
trained "other data" --schedule 1f1b --steps 10 --load kept.safetensors --seed 2
says "are warned of" '^warning: kept.safetensors went through text [0-9a-f]{16}, seed 1, 4 microbatches of 1 x 32 tokens; this run goes' "$work/stderr"

# Ctrl-C leaves a checkpoint of all steps that were done; a kill in the middle of writing one leaves the one before.
begin ()
{
  : >"$work/stdout"
  pipesim-exec --schedule 1f1b -p 2 -m 4 --device cpu --model model.ini --text sums --steps 1000000 --save "$@" >"$work/stdout" 2>"$work/stderr" &
  process=$!
  while kill -0 $process 2>/dev/null && [ "$(wc -l <"$work/stdout")" -lt 20 ]; do sleep 0.05; done
}
begin stopped.safetensors
kill -TERM $process # a shell lets its background jobs ignore SIGINT
wait $process
code=$?
last=$(sed -n 's/^ *\([0-9]*\)  .*/\1/p' "$work/stdout" | tail -1)
if [ $code -eq 1 ]; then result "Ctrl-C ends a run"; else result "Ctrl-C ends a run" "exit code $code" "$(cat "$work/stderr")"; fi
trained "with a checkpoint" --schedule 1f1b --steps $((last + 1)) --load stopped.safetensors
says "of all its steps" "^ +$((last + 1)) " "$work/stdout"
for delay in 0.1 0.03 0.07; do
  begin killed.safetensors --save-every 1
  sleep $delay
  kill -9 $process
  wait $process 2>/dev/null
  last=$(head -c 400 killed.safetensors | tr -d '\0' | grep -o '"step":"[0-9]*"' | tr -dc 0-9)
  trained "a run killed while it saves leaves a whole checkpoint" --schedule 1f1b --steps $((last + 1)) --load killed.safetensors
done

# The picture.
if command -v gnuplot >/dev/null; then
  tail -1 zb-h1.csv | tr -d '\n' >>gpipe.csv # a run that was killed in a line
  for ending in svg png; do
    if pipesim plot loss 1f1b.csv gpipe.csv -o loss.$ending 2>"$work/stderr" && [ "$(wc -c <loss.$ending)" -gt 4000 ]; then
      result "loss.$ending drawn"
    else
      result "loss.$ending drawn" "$(cat "$work/stderr")"
    fi
  done
  says "with the names of both" 'gpipe.csv' loss.svg
  pipesim plot loss 1f1b.csv --terminal >"$work/stdout" 2>&1
  says "and as text" 'measured loss of each step' "$work/stdout"
else
  skip "pictures of losses" "no gnuplot"
fi
printf 'a,b\n1,2\n' >columns.csv
printf 'step,loss\n1,2.5\n2,x\n' >number.csv
printf 'step,loss\n' >none.csv
: >empty.csv
refuse 1 "columns.csv:1: has no columns 'step' and 'loss'" pipesim plot loss columns.csv -o x.svg
refuse 1 "number.csv:3: step or loss is no number" pipesim plot loss number.csv -o x.svg
refuse 1 "none.csv: no step has ended" pipesim plot loss none.csv -o x.svg
refuse 1 "empty.csv:1: has no columns" pipesim plot loss empty.csv -o x.svg
refuse 1 "no-such.csv" pipesim plot loss no-such.csv -o x.svg
refuse 2 "9 files given; up to 8" pipesim plot loss none.csv none.csv none.csv none.csv none.csv none.csv none.csv none.csv none.csv -o x.svg

exec='pipesim exec --schedule 1f1b -p 2 -m 4'
cpu="$exec --device cpu --model model.ini"
refuse 2 "--text: this device computes nothing that could learn; cpu does" $exec --device null --text sums
refuse 2 "--warm-up: this device computes nothing" $exec --device null --warm-up 3
refuse 1 "no-such.txt" $cpu --text no-such.txt
printf short >short.txt
refuse 1 "--text: short.txt has 5 bytes; a sequence of 32 tokens needs 33" $cpu --text short.txt
sed s/256/255/ model.ini >small.ini
refuse 2 "--text: the model has a vocabulary of 255; bytes need 256" $exec --device cpu --model small.ini --text sums
refuse 2 "--decay: 3 is not after the warm-up of 3 steps" $cpu --decay 3 --warm-up 3
refuse 2 "--least-rate: needs --decay" $cpu --least-rate 0.0001
refuse 2 "--least-rate: 0.01 is above --learning-rate, 0.001" $cpu --decay 9 --least-rate 0.01
refuse 2 "--learning-rate: '2' is not" $cpu --learning-rate 2
refuse 1 "--losses: nowhere/l.csv:" $cpu --losses nowhere/l.csv
refuse 1 "--save: nowhere/l:" $cpu --save nowhere/l
refuse 2 "--save-every: needs --save" $cpu --save-every 3
refuse 2 "--save: this device computes nothing" $exec --device null --save l
refuse 2 "--steps: 9, but kept.safetensors has done 9 steps already" $cpu --load kept.safetensors --steps 9
refuse 1 "--losses: mine.txt: does not begin with 'step,loss,learning_rate,iteration_ns'" $cpu --load kept.safetensors --steps 10 --losses mine.txt --text sums

# Bad checkpoints.
bad="$cpu --steps 99 --load"
head -c 30000 kept.safetensors >short
{ cat kept.safetensors; echo; } >long
tr 4 5 <kept.safetensors >digits
sed 's/checkpoint.1/checkpoint-2/' kept.safetensors >version
sed 's/transformer.wpe.weight/transformer.wpe.heavier/; s/"step":"9"/"step":""/' kept.safetensors >name
printf '\002\0\0\0\0\0\0\0{}' >nothing
refuse 1 "no-such-file: cannot read:" $bad no-such-file
refuse 1 ".: cannot read:" $bad .
refuse 1 "mine.txt: is no safetensors file, or only the beginning of one" $bad mine.txt
refuse 1 "short: tensor " $bad short
refuse 1 "long: 1 bytes after the last tensor" $bad long
refuse 1 "digits: " $bad digits
refuse 1 "version: is no checkpoint of pipesim exec: its metadata lacks 'pipesim': 'checkpoint/1'" $bad version
refuse 1 "name: " $bad name
refuse 1 "nothing: is no checkpoint of pipesim exec" $bad nothing
sed 's/layers = 4/layers = 3/' model.ini >three.ini
sed 's/hidden = 32/hidden = 64/' model.ini >wide.ini
refuse 1 "kept.safetensors: has 159 tensors; the model has 123" $exec --device cpu --model three.ini --steps 99 --load kept.safetensors
refuse 1 "kept.safetensors: tensor transformer.wte.weight: is not F32 of the model's shape, 256 x 64" \
  $exec --device cpu --model wide.ini --steps 99 --load kept.safetensors
if pipesim exec --schedule pipedream -p 2 -m 4 --device cpu --model model.ini --save l >/dev/null 2>"$work/stderr"; then
  result "asynchronous trainings have no one state" "saved"
else
  says "asynchronous trainings have no one state" "schedule 'pipedream'" "$work/stderr"
fi
# Microbatches of different lengths are computed as long as they are, and paced devices take the times of their lengths.
printf 'tokens\n32\n8\n16\n32\n' >tokens.csv
printf 'factor\n1\n10\n1\n1\n' >factors.csv
lengths='pipesim exec -s zb-h1 -p 2 -m 4'
$lengths --device cpu --model model.ini --lengths tokens.csv --check --json >checked.json 2>&1
says "lengths are learnt from" '"check": "bit-equal"' checked.json
$lengths --device paced --costs f=1ms,b=1ms,w=1ms --lengths factors.csv --microbatch-order best --json >paced.json
if python3 -c 'import json
run = json.load (open ("paced.json"))["results"][0]
assert run["iteration_ns"] >= 0.99 * run["predicted_iteration_ns"] > 20e6, run
assert run["peak_memory_bytes"] == run["predicted_peak_memory_bytes"], run' 2>err.txt
then result "and paced"; else result "and paced" "$(tail -1 err.txt)"; fi
refuse 2 "--lengths factors.csv: has factors; device cpu needs tokens" $lengths --device cpu --model model.ini --lengths factors.csv
printf 'tokens\n32\n8\n33\n32\n' >long.csv
refuse 2 "--lengths long.csv: 33 tokens are more than the model's sequence of 32" $lengths --device cpu --model model.ini --lengths long.csv
refuse 2 "--lengths tokens.csv: has 4 microbatches; the schedule has 2" \
  pipesim exec -s zb-h1 -p 2 -m 2 --device cpu --model model.ini --lengths tokens.csv
refuse 2 "--microbatch-order: needs costs" $lengths --device cpu --model model.ini --lengths tokens.csv --microbatch-order best
refuse 2 "--lengths: needs costs" pipesim exec -s 1f1b -p 2 -m 4 --device null --lengths tokens.csv
refuse 1 "--lengths: sequences of different lengths cannot be sliced" pipesim exec -s seq1f1b -p 2 -m 4 --device cpu --model model.ini --lengths tokens.csv
# A Llama: RMS norms, rotary positions, SwiGLU, grouped heads, no kept scores.
model_ini mlp=swiglu heads=4 kv_heads=2 flash_attention=true feed_forward=64 >llama.ini
llama='pipesim exec -p 2 -m 4 --device cpu --model llama.ini --json --check'
for schedule in 1f1b zb-h1; do
  $llama -s $schedule --text sums --steps 4 >checked.json 2>&1
  says "$schedule computes a Llama as one device does" '"check": "bit-equal"' checked.json
  $llama -s $schedule --tensor 2 >checked.json 2>&1
  says "$schedule on shared layers of it" '"check": "equal-within"' checked.json
done
$llama -s 1f1b --text sums --steps 3 --save llama.safetensors >checked.json 2>&1
$llama -s zb-h1 --text sums --steps 6 --load llama.safetensors --lengths tokens.csv >checked.json 2>&1
says "its saved state goes on" '"check": "bit-equal"' checked.json
finish
