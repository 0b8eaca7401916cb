#!/usr/bin/env python3
"""Counts the instructions of some commands and holds them against the counts noted for this build.

  instructions.py BUILD COUNTS PROGRAM           a test: a command may take 10 % more than COUNTS notes
  instructions.py --update BUILD COUNTS PROGRAM  notes the counts

Times differ from run to run, and counts by callgrind hardly do. Only pipesim's own code counts: the code that the C
library chooses depends on the processor. So work that moves into a library looks saved. BUILD names compiler, options and GLib, whose headers hold code; COUNTS has lines
"BUILD | COMMAND | COUNT". A build without lines is skipped.
"""
import os, re, shutil, subprocess, sys, tempfile

TOLERANCE = 0.1
COSTS = '--costs=f=10ms,b=9ms,w=7ms,c=400us,act=2MiB,wact=1MiB'

SPEC = f'''[sweep]
schedule = 1f1b, zb-h1, zb-v
devices = 4
microbatches = 16
{COSTS[2:]}
bandwidth-factor = 1..40 step 1
'''

AUTO = SPEC.replace('1f1b, zb-h1, zb-v', 'zb-auto, zb-v-auto')
MODELLED = SPEC.replace(COSTS[2:], 'model = llama-3-8b\ncluster = h100-80gb')

# Each runs in a folder of its own, in this order; {0} is the program.
COMMANDS = {
    'predict all': f'{{0}} predict -s all -p 8 -m 16 {COSTS}',
    'predict large': f'{{0}} predict -s interleaved-zb -p 16 -m 512 {COSTS}',
    'predict chunks': f'{{0}} predict -s interleaved-zb -p 16 -m 256 -v 4 {COSTS}',
    'predict channels': f'{{0}} predict -s zb-v,interleaved -p 8 -m 64 {COSTS} --comm direction',
    'predict modelled': '{0} predict -s 1f1b -p 4 -m 8 --model llama-3-8b --cluster h100-80gb --tensor 2',
    'predict bypass': f'{{0}} predict -s zb-h1,zb-v -p 8 -m 32 {COSTS} --sync bypass',
    'predict slow-down': f'{{0}} predict -s interleaved -p 16 -m 128 -v 2 {COSTS} --comm=rank --overlap-slowdown=1.1',
    'predict ready order': f'{{0}} predict -s interleaved -p 16 -m 128 -v 2 {COSTS} --comm=rank --ready-order=8',
    'search': f'{{0}} search -p 4 -m 8 {COSTS} --memory-limit 6MiB --moves 5000 --jobs 1',
    'sweep': '{0} sweep spec.ini --db results.db --jobs 1',
    'sweep auto': '{0} sweep auto.ini --db auto.db --jobs 1',
    'sweep modelled': '{0} sweep modelled.ini --db modelled.db --jobs 1',
    'write a timeline': f'{{0}} predict -s zb-v -p 8 -m 32 {COSTS} -o a.json',
    'write a trace': f'{{0}} predict -s zb-v -p 8 -m 32 {COSTS} -o a.trace.json',
    'compare timelines': '{0} compare a.json a.json',
    'compare traces': '{0} compare a.trace.json a.trace.json',
}


def own_instructions(path, program):
    """The instructions of the program's own code in callgrind's output; lines after calls= count those of callees."""
    names, total, ours, callee = {}, 0, False, False
    for line in open(path):
        named = re.match(r'c?ob=\((\d+)\)(?: (.*))?', line)
        if named:
            names.setdefault(named[1], named[2])
            if line.startswith('ob='):
                ours = names[named[1]] == program
        elif line.startswith('calls='):
            callee = True
        elif re.match(r'[0-9+*-]', line):
            total += int(line.split()[-1]) if ours and not callee else 0
            callee = False
    return total


def measure(program):
    program, counts = os.path.realpath(program), {}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in ('spec', SPEC), ('auto', AUTO), ('modelled', MODELLED):
            with open(f'{folder}/{name}.ini', 'w') as spec:
                spec.write(text)
        for name, command in COMMANDS.items():
            valgrind = ['valgrind', '-q', '--tool=callgrind', f'--callgrind-out-file={folder}/counts']
            subprocess.run(valgrind + command.format(program).split(), cwd=folder, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            counts[name] = own_instructions(f'{folder}/counts', program)
    return counts


def read_counts(path):
    rows = [line.rstrip('\n').split(' | ') for line in open(path) if ' | ' in line]
    return {(build, name): int(count) for build, name, count in rows}


def update(build, path, program):
    noted = {key: count for key, count in read_counts(path).items() if key[0] != build}
    noted.update({(build, name): count for name, count in measure(program).items()})
    with open(path, 'w') as file:
        file.writelines(f'{key[0]} | {key[1]} | {count}\n' for key, count in noted.items())


def check(build, path, program):
    noted = {name: count for (of, name), count in read_counts(path).items() if of == build}
    if 'sanitized' in build:
        print('1..0 # SKIP sanitizers add instructions')
    elif shutil.which('valgrind') is None:
        print('1..0 # SKIP valgrind is not installed')
    elif not noted:
        print(f'1..0 # SKIP no counts are noted for {build}; tests/bench/instructions.py --update notes them')
    else:
        print(f'1..{len(COMMANDS)}')
        for number, (name, count) in enumerate(measure(program).items(), 1):
            limit = noted.get(name, 0) * (1 + TOLERANCE)
            print(f'{"ok" if count <= limit else "not ok"} {number} - {name}: {count} instructions, '
                  f'{noted.get(name, "none")} noted')


if sys.argv[1] == '--update':
    update(*sys.argv[2:])
else:
    check(*sys.argv[1:])
