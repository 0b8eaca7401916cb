#!/usr/bin/env python3
"""arrows.py - fails where the calls between the files of sim and plots break the order of the rooms.

  tests/arrows.py [ROOT]       checks the tree at ROOT (default: the one this script lies in)
  tests/arrows.py --self-test  checks the check on trees made by hand

Two rules: a room calls itself and the rooms before it (the order stands in tests/layering.sh); the commands in sim/cli run
no engine and hold no search. tests/cli/circles.sh finds files that call each other in a circle."""
import os, re, sys, tempfile

DEFINITION = re.compile(r'^(?!typedef\b|return\b|else\b|#)(?:[A-Za-z_][\w \*]*[ \*\n])?(ps_\w+) ?\((?=[^;{}]*\)\s*\{)', re.M)
ENGINES = re.compile(r'\b(ps_simulate\w*|ps_events_(?:new|run|plan|realise)|ps_rounds_\w+|ps_iteration_events'
                     r'|ps_lower_bound\w*|ps_program_lower_steps)\b')


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


def check(root, rooms):
    files, home, found = read(root), {}, []
    for path, text in files.items():
        if not path.startswith('include/'):
            home.update({m[1]: path for m in DEFINITION.finditer(text)})
    rank = {room: i for i, room in enumerate(rooms + ['plots'])}
    for path, text in sorted(files.items()):
        if path.startswith('include/'):
            continue
        # A header calls where it has a body; what it only declares is another file's.
        calls = ''.join(re.findall(r'^\{.*?^\}', text, re.M | re.S)) if path.endswith('.h') else text
        for name in sorted(set(re.findall(r'\bps_\w+', calls))):
            other = home.get(name)
            if other is not None and rank.get(room_of(other), 0) > rank.get(room_of(path), 0):
                found.append(f'{path}:1: calls {name}: the room {room_of(other)} comes later')
        if path.startswith('sim/cli/'):
            for number, line in enumerate(text.split('\n'), 1):
                for name in ENGINES.findall(line):
                    found.append(f'{path}:{number}: {name}: a command runs no engine')
    return found


def order_of(root):
    with open(os.path.join(root, 'tests/layering.sh'), encoding='utf8') as script:
        return re.search(r"^rooms='([^']*)'", script.read(), re.M)[1].split()


def self_test():
    trees = (
        ({'sim/base/a.c': 'int\nps_a (void)\n{\n}\n', 'sim/cli/b.c': 'int ps_b (void)\n{\n  return ps_a ();\n}\n'}, None),
        ({'sim/base/a.c': 'int\nps_a (void)\n{\n  ps_b ();\n}\n', 'sim/cli/b.c': 'int ps_b (void) {\n}\n'}, 'comes later'),
        ({'sim/base/a.c': 'int ps_a (void)\n{\n  ps_b ();\n}\n', 'sim/base/b.c': 'int\nps_b (int x)\n{\n  ps_a ();\n}\n'},
         None),
        ({'sim/base/a.c': 'int ps_a (void)\n{\n}\n', 'sim/base/a.h': 'static inline int\nps_c (void)\n{\n  ps_a ();\n}\n'}, None),
        ({'sim/base/a.c': 'int ps_a (void)\n{\n  ps_c ();\n}\n', 'sim/base/b.h': 'int ps_a (void);\nint\nps_c (void)\n{\n}\n'}, None),
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
    if sys.argv[1:] == ['--self-test']:
        self_test()
    else:
        top = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        lines = check(top, order_of(top))
        print('\n'.join(lines), end='\n' if lines else '')
        sys.exit(1 if lines else 0)
