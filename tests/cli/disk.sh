#!/bin/sh
# disk.sh - disks that fill up or can't be written to, small file systems in a namespace of our own: nothing is half written, what
# could be kept is, and a run that could not be stored is not begun.
set -u
. "$(dirname "$0")/lib.sh"

if [ -z "${PS_TEST_MOUNTS:-}" ]; then
  if unshare -rm true 2>/dev/null; then
    cd / && rm -rf "$work"
    PS_TEST_MOUNTS=1 exec unshare -rm sh "$0"
  fi
  skip "full and read-only disks" "no namespace for mounts here"
  finish
fi

# disk SIZE: an empty file system of that size at ./disk.
disk ()
{
  mkdir -p disk
  umount disk 2>/dev/null
  mount -t tmpfs -o "size=$1" none disk || exit 1
}

model_ini >small.ini
measure="pipesim calib run --db disk/costs.db --profile here --model small.ini -p 2 -v 1 --max-samples 2 --time-limit 300ms"
paced="pipesim exec --schedule 1f1b -p 4 -m 64 --costs f=10us,b=10us,w=10us --device paced --steps 1"

disk 32k
$measure >out.txt 2>err.txt
code=$?
set --
[ $code -eq 1 ] || set -- "exit code $code"
tail -1 err.txt | grep -qE 'costs.db: (database or disk is full|disk I/O error)' || set -- "$@" "$(tail -3 err.txt)"
cp disk/costs.db* .
pipesim calib list --db costs.db >list.txt 2>&1 || grep -q 'but not a pipesim cost database' list.txt || set -- "$@" "$(cat list.txt)"
result "a disk that fills up while measuring" "$@"
mount -o remount,size=2m disk
step=$($measure 2>&1 >/dev/null | tail -1)
case $step in *"profile 'here' of disk/costs.db: "*) set -- ;; *) set -- "$step" ;; esac
result "with room again, the same file goes on" "$@"

# 67 KiB of measured timeline, posts included, and 34 KiB of predicted one.
$paced --predicted predicted.json >out.txt 2>err.txt || cat err.txt
disk 84k
$paced --trace disk/trace.json --predicted disk/predicted.json >out.txt 2>err.txt
code=$?
set --
[ $code -eq 1 ] || set -- "exit code $code"
[ "$(wc -l <err.txt)" -eq 1 ] && grep -q 'predicted.json: cannot write: No space left' err.txt || set -- "$@" "$(cat err.txt)"
[ "$(ls disk)" = trace.json ] || set -- "$@" "$(ls disk)"
grep -q 'iteration time' out.txt || set -- "$@" "no report"
pipesim compare predicted.json disk/trace.json >/dev/null || set -- "$@" "trace is not whole"
result "a disk too small for both timelines: one is whole, the report is there" "$@"

disk 2m
$measure >out.txt 2>err.txt || cat err.txt
printf '[sweep]\nschedule = 1f1b, gpipe\np = 2\nm = 4\ncosts = f=1ms,b=1ms,w=1ms\n' >spec.ini
pipesim sweep spec.ini --db disk/r.db 2>err.txt || cat err.txt
mount -o remount,ro disk
refuse 1 "--db: disk/costs.db: Read-only file system" pipesim exec --schedule 1f1b -p 2 -m 2 --db disk/costs.db --device cpu --steps 1
refuse 1 "--trace: disk/x.json: Read-only file system" $paced --trace disk/x.json
refuse 1 "disk/costs.db: cannot be written to" $measure
pipesim predict --schedule 1f1b -p 2 -m 2 --db disk/costs.db >out.txt 2>err.txt && set -- || set -- "$(cat err.txt)"
result "a database that can only be read predicts" "$@"
run "a sweep that can only be read is merged" "2 settings: 2 predicted, 0 impossible, 0 missing" pipesim sweep merge all.db disk/r.db
run "and its rows are there" gpipe pipesim pareto all.db --per schedule
umount disk
finish
