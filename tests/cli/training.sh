#!/bin/sh
# training.sh - a training as a user sees it: a text that is learnt, losses as they come, in a file and in a picture.
set -u
. "$(dirname "$0")/lib.sh"

cat >model.ini <<TEXT
[model]
layers = 4
hidden = 32
heads = 2
sequence = 32
feed_forward = 64
vocabulary = 256
microbatch_size = 1
precision = fp32
mlp = gelu
flash_attention = false
TEXT
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
head -c 4000 "$0" >mine.txt
trained "a text of the user's" --schedule 1f1b --steps 2 --text mine.txt --losses mine.csv
trained "other seeds see other places of it" --schedule 1f1b --steps 2 --text mine.txt --seed 2 --losses other.csv
if cmp -s mine.csv other.csv; then result "and learn otherwise" "they do not"; else result "and learn otherwise"; fi

# Rows and lines come while the run goes on, and stay when it is killed.
pipesim-exec --schedule 1f1b -p 2 -m 4 --device cpu --model model.ini --text sums --steps 1000000 --losses long.csv \
  >"$work/stdout" 2>"$work/stderr" &
process=$!
while kill -0 $process 2>/dev/null && { [ "$(wc -l <"$work/stdout")" -lt 6 ] || [ "$(wc -l <long.csv)" -lt 4 ]; }; do sleep 0.05; done
if kill -9 $process; then result "rows come as steps end"; else result "rows come as steps end" "$(cat "$work/stderr")"; fi
wait $process 2>/dev/null
if tail -1 long.csv | grep -qE '^[0-9]+,[0-9.]+,0\.001,[0-9]+$'; then result "a killed run leaves whole lines"; else result "a killed run leaves whole lines" "$(tail -2 long.csv)"; fi

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
finish
