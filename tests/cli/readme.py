#!/usr/bin/env python3
"""readme.py - runs the commands of README.md, SKILL.md and docs/*.md and compares what they print with what these show.

A command stands after "    $ " and its output below it, both indented. A line "..." stands for any number of lines. `cat FILE` makes
the file that it shows. All commands of a document run in one empty folder, in their order. PIPESIM_BINDIR=build tests/cli/readme.py --update
writes the output into the documents: as many lines as are there, whole where there is no "...". --first SECONDS runs the first example alone, which
may take so much of a processor.
"""
import glob
import os
import re
import resource
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
DOCUMENTS = ['README.md', 'SKILL.md'] + sorted(glob.glob('docs/*.md', root_dir=ROOT))
INDENT = '    '


def is_output(line):
    return line.startswith(INDENT) and not line.startswith(INDENT + '$ ')


def read_examples(lines):
    """Yields (command, index of the first line of its output, the output) of all commands."""
    for i, line in enumerate(lines):
        if line.startswith(INDENT + '$ '):
            end = i + 1
            while end + 1 < len(lines) and is_output(lines[end] or lines[end + 1]):
                end += 1
            yield line[len(INDENT) + 2:], i + 1, [shown[len(INDENT):] for shown in lines[i + 1:end]]


def run(command, shown):
    if re.fullmatch(r'cat \S+', command):
        with open(command.split()[1], 'w', encoding='utf-8') as file:
            file.write(''.join(line + '\n' for line in shown))
    done = subprocess.run(['/bin/sh', '-c', command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, encoding='utf-8', check=False)
    return done.stdout.splitlines() if done.returncode in (0, 3) else [f'exit code {done.returncode}'] + done.stdout.splitlines()


def matches(shown, printed):
    if printed[:1] and re.fullmatch(r'exit code \d+', printed[0]):
        return False
    pattern = ''.join('(?:.*\n)*' if line == '...' else re.escape(line) + '\n' for line in shown)
    return re.fullmatch(pattern, ''.join(line + '\n' for line in printed)) is not None


def place(part, printed, after):
    """Where a part between two "..." is in the output: at the line that begins as it does."""
    words = part[0].split()[:2]
    for i in range(after, len(printed)):
        if printed[i].split()[:2] == words:
            return i
    return after


def refresh(shown, printed):
    """The lines that are shown, as they are printed now."""
    if '...' not in shown:
        return printed
    lines, at, i = [], 0, 0
    while i < len(shown):
        end = i
        while end < len(shown) and shown[end] != '...':
            end += 1
        part = shown[i:end]
        if part:
            at = len(printed) - len(part) if end == len(shown) else 0 if i == 0 else place(part, printed, at)
            lines += printed[at:at + len(part)]
            at += len(part)
        if end < len(shown):
            lines.append('...')
        i = end + 1
    return lines


def check(examples, number):
    """Runs the examples, prints a point for each, and returns [(is as shown, lines as printed now)]."""
    results = []
    for number, (command, _, shown) in enumerate(examples, number):
        printed = run(command, shown)
        good = matches(shown, printed)
        results.append((good, refresh(shown, printed)))
        print(f'{"ok" if good else "not ok"} {number} - {command}', flush=True)
        if not good:
            print(''.join(f'# {line}\n' for line in ['shown:'] + shown + ['printed:'] + printed), end='', flush=True)
    return results


def main():
    update = sys.argv[1:] == ['--update']
    limit = float(sys.argv[2]) if sys.argv[1:2] == ['--first'] else None
    bindir = os.path.abspath(os.environ['PIPESIM_BINDIR'])
    os.environ['PATH'] = bindir + ':' + os.environ['PATH']
    os.environ.setdefault('PYTHONPATH', os.path.abspath(os.path.join(ROOT, 'python')))
    os.environ.setdefault('PIPESIM_CORE', os.path.join(bindir, 'python', 'libpipesim-core.so'))
    os.environ['PYTHONDONTWRITEBYTECODE'] = '1'
    os.environ['LC_ALL'] = 'C.UTF-8'
    os.environ.pop('COLUMNS', None)
    number, failed = 1, False
    for document in DOCUMENTS if limit is None else DOCUMENTS[:1]:
        with open(os.path.join(ROOT, document), encoding='utf-8') as file:
            lines = file.read().split('\n')
        examples = list(read_examples(lines))[:None if limit is None else 1]
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            results = check(examples, number)
            os.chdir(ROOT)
        number += len(examples)
        failed |= not all(good for good, _ in results)
        if update:
            for (_, begin, shown), (_, fresh) in reversed(list(zip(examples, results))):
                lines[begin:begin + len(shown)] = [(INDENT + line).rstrip() for line in fresh]
            with open(os.path.join(ROOT, document), 'w', encoding='utf-8') as file:
                file.write('\n'.join(lines))
    if limit is not None:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = used.ru_utime + used.ru_stime
        failed |= seconds > limit
        print(f'{"not ok" if seconds > limit else "ok"} {number} - in {seconds:.2f} s of a processor, at most {limit:g}')
        number += 1
    print(f'1..{number - 1}')
    return int(failed and not update)


if __name__ == '__main__':
    sys.exit(main())
