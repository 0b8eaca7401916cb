#!/usr/bin/env python3
"""arrows.py - fails where the calls between the files of sim and plots break the order of the rooms.

  tests/arrows.py [ROOT]       checks the tree at ROOT (default: the one this script lies in)
  tests/arrows.py --self-test  checks the check on trees made by hand

A file is its .c and .h together. Three rules: a room calls itself and the rooms before it (the order stands in
tests/layering.sh); no files call each other in a circle; the commands in sim/cli run no engine and sort nothing, they
ask the rooms that do."""
import collections, os, re, sys, tempfile

DEFINITION = re.compile(r'^(?!typedef\b|return\b|else\b|#)(?:[A-Za-z_][\w \*]*[ \*\n])?(ps_\w+) ?\((?=[^;{}]*\)\s*\{)', re.M)
ENGINES = re.compile(r'\b(ps_simulate\w*|ps_events_(?:new|run|plan|realise)|ps_rounds_\w+|ps_iteration_events'
                     r'|ps_lower_bound\w*|qsort\w*|g_array_sort\w*|g_ptr_array_sort\w*)\b')


def read(root):
    files = {}
    for folder in ('sim', 'plots', 'include'):
        for path, _, names in os.walk(os.path.join(root, folder)):
            for name in sorted(names):
                if name.endswith(('.c', '.h')):
                    full = os.path.join(path, name)
                    with open(full, encoding='utf8') as source:
                        text = re.sub(r'/\*.*?\*/', lambda m: '\n' * m[0].count('\n'), source.read(), flags=re.S)
                    files[os.path.relpath(full, root)] = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    return files


def room_of(path):
    part = path.split('/')
    return part[1] if part[0] == 'sim' and len(part) > 2 else part[0]


def circles(uses):
    """The strongly connected components with more than one file (Tarjan, SIAM J. Computing 1, 1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(file):
        index[file] = low[file] = len(index)
        stack.append(file)
        for other in sorted(uses[file]):
            if other not in index:
                visit(other)
                low[file] = min(low[file], low[other])
            elif other in stack:
                low[file] = min(low[file], index[other])
        if low[file] == index[file]:
            at = stack.index(file)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for file in sorted(uses):
        if file not in index:
            visit(file)
    return found


def check(root, rooms):
    files, home, uses, found = read(root), {}, collections.defaultdict(set), []
    for path, text in files.items():
        if not path.startswith('include/'):
            home.update({m[1]: path for m in DEFINITION.finditer(text)})
    rank = {room: i for i, room in enumerate(rooms + ['plots'])}
    for path, text in sorted(files.items()):
        if path.startswith('include/'):
            continue
        stem = path[:-2]
        uses[stem]
        for name in sorted(set(re.findall(r'\bps_\w+', text))):
            other = home.get(name)
            if other is None or other[:-2] == stem:
                continue
            uses[stem].add(other[:-2])
            if rank.get(room_of(other), 0) > rank.get(room_of(path), 0):
                found.append(f'{path}:1: calls {name}: the room {room_of(other)} comes later')
        if path.startswith('sim/cli/'):
            for number, line in enumerate(text.split('\n'), 1):
                for name in ENGINES.findall(line):
                    found.append(f'{path}:{number}: {name}: a command runs no engine and sorts nothing')
    found += [f'{circle[0]}.c:1: calls in a circle: {", ".join(circle)}' for circle in circles(uses)]
    return found


def order_of(root):
    with open(os.path.join(root, 'tests/layering.sh'), encoding='utf8') as script:
        return re.search(r"^rooms='([^']*)'", script.read(), re.M)[1].split()


def self_test():
    trees = (
        ({'sim/base/a.c': 'int\nps_a (void)\n{\n}\n', 'sim/cli/b.c': 'int ps_b (void)\n{\n  return ps_a ();\n}\n'}, None),
        ({'sim/base/a.c': 'int\nps_a (void)\n{\n  ps_b ();\n}\n', 'sim/cli/b.c': 'int ps_b (void) {\n}\n'}, 'comes later'),
        ({'sim/base/a.c': 'int ps_a (void)\n{\n  ps_b ();\n}\n', 'sim/base/b.c': 'int\nps_b (int x)\n{\n  ps_a ();\n}\n'},
         'in a circle: sim/base/a, sim/base/b'),
        ({'sim/base/a.c': 'int ps_a (void)\n{\n}\n', 'sim/base/a.h': 'static inline int\nps_c (void)\n{\n  ps_a ();\n}\n'}, None),
        ({'sim/cli/b.c': 'int f (void)\n{\n  /* ps_simulate */ ps_events_run ();\n}\n'}, 'sim/cli/b.c:3: ps_events_run'),
    )
    for number, (tree, wanted) in enumerate(trees):
        with tempfile.TemporaryDirectory() as root:
            for path, text in tree.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), 'w', encoding='utf8') as file:
                    file.write(text)
            found = check(root, ['base', 'cli'])
        if (wanted is None) != (not found) or not all(wanted in line for line in found):
            sys.exit(f'arrows.py: tree {number} made by hand: wanted {wanted}, found {found}')


if __name__ == '__main__':
    sys.setrecursionlimit(10000)
    if sys.argv[1:] == ['--self-test']:
        self_test()
    else:
        top = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        lines = check(top, order_of(top))
        print('\n'.join(lines), end='\n' if lines else '')
        sys.exit(1 if lines else 0)
