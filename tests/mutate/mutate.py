#!/usr/bin/env python3
"""mutate.py - puts small faults into a copy of the sources and says which of them the tests notice.

  tests/mutate/mutate.py [--seed S] [--keep] [N [ROOM...]]     N faults (100) in rooms such as sim/plan or calib (all but CUDA)

A fault changes one token or statement of one function: a comparison, a sign, an off by one, swapped arguments, a dropped term, a
statement that is missing, a unit, an early return. All faults of a run are compiled into one build (build-mutate/): each is a copy of its
function, which the function calls when PS_MUTANT names the fault (mutant.h). A first run of every test without a fault notes which
faults it reaches. Then each fault runs the tests that reach it, the quickest first and golden files last, until one fails.

Printed per fault: caught and by which test, survived, equivalent (the compiler makes the same code of it), or not reached.
Sources are never changed. The exit code is 1 if the tests fail without a fault, else 0.
"""
import argparse, collections, filecmp, json, os, random, re, shutil, signal, subprocess, sys, tempfile, time
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = os.path.join(ROOT, 'build-mutate')
COPY, BUILD, REACHED = (os.path.join(WORK, name) for name in ('source', 'build', 'reached'))
SLOWEST = 600  # s, of a test without a fault
Fault = collections.namedtuple('Fault', 'number file line kind function before after text')

# Comments, literals and preprocessor lines, which no fault changes.
DEAD = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^#(?:[^\n]*\\\n)*[^\n]*', re.S | re.M)
# "static int\nname (type a, type b)\n{\n ... \n}\n", as clang-format leaves every function.
FUNCTION = re.compile(r'^(?P<type>[a-zA-Z_][\w \*]*?)[ \n]\*?(?<![\w])(?P<name>\w+) \((?P<parameters>[^;{}]*?)\)\n\{\n(?P<body>.*?\n)\}\n',
                      re.S | re.M)
# Lines that state what a programmer must not do, print messages for people, set up tables, or give memory back, which sanitizers watch.
LEAVE = re.compile(r'g_return|g_assert|g_print|g_error|g_warning|ps_refuse|g_set_error|g_prefix_error|_Static_assert|G_DEFINE|PS_OPTION|'
                   r'_free \(|_unref \(|_clear \(|_close \(')
OPERAND = r'[\w\])]'


def blank(text):
    """The text with everything dead replaced by spaces, so that places stay."""
    return DEAD.sub(lambda m: re.sub(r'[^\n]', ' ', m[0]), text)


def tokens(kind, pattern, replace, text):
    for match in re.finditer(pattern, text):
        after = replace(match)
        if after is not None and after != match[0]:
            yield kind, match.start(), match.end(), after


def swap(match):
    """Two arguments of a call that are single words."""
    return f'{match[1]}{match[4]}{match[3]}{match[2]}{match[5]}' if match[2] != match[4] else None


def mutations(body):
    """All (kind, start, end, new text) of the text of a function's body."""
    live = blank(body)
    turn = {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '=='}
    found = []
    found += tokens('comparison', rf'(?<={OPERAND}) (<=|>=|==|!=|<|>) (?=[\w(\-!])', lambda m: f' {turn[m[1]]} ', live)
    found += tokens('sign', rf'(?<={OPERAND}) ([+-]) (?=[\w(])', lambda m: ' - ' if m[1] == '+' else ' + ', live)
    found += tokens('factor', rf'(?<={OPERAND}) ([*/]) (?=[\w(])', lambda m: ' / ' if m[1] == '*' else ' * ', live)
    found += tokens('off by one', rf'(?<={OPERAND}) [+-] 1(?![\w.])', lambda m: '', live)
    found += tokens('off by one', r'(?<== )0(?=;)', lambda m: '1', live)
    found += tokens('extreme', r'\b(MIN|MAX) (?=\()', lambda m: 'MAX ' if m[1] == 'MIN' else 'MIN ', live)
    found += tokens('condition', r' (&&|\|\|)(?=\s)', lambda m: ' ||' if m[1] == '&&' else ' &&', live)
    found += tokens('condition', r'(?<=[(\s])!(?=[a-z(])', lambda m: '', live)
    found += tokens('unit', r'\b(1e9|1e6|1e3|1000|1024|1e-9)\b', lambda m: {'1e9': '1e6', '1e6': '1e9', '1e3': '1e6'}.get(m[1], '1'), live)
    found += tokens('constant', r'\b(TRUE|FALSE)(?=[;,)])', lambda m: 'FALSE' if m[1] == 'TRUE' else 'TRUE', live)
    found += tokens('arguments', r'(\w \(|, )([a-z]\w*)(, )([a-z]\w*)(?=([,)]))',
                    lambda m: f'{m[1]}{m[4]}{m[3]}{m[2]}' if m[2] != m[4] else None, live)
    found += tokens('term', rf'(?<={OPERAND}) (?:\+|-|\*|&&|\|\|) [\w.>-]+(?=[;,)])', lambda m: '', live)
    found += tokens('statement', r'(?<=[;{}]\n)( +)[a-z][\w>.\[\]-]* (?:[+*/|-]?= )[^;{}=]*;\n', lambda m: f'{m[1]};\n', live)
    found += tokens('statement', r'(?<=[;{}]\n)( +)(?!return|if|for|while|else|do\b|case)[a-z]\w* \([^;{}]*\);\n', lambda m: f'{m[1]};\n', live)
    found += tokens('step', r'(\+\+|--)(?=[;)])', lambda m: '--' if m[1] == '++' else '++', live)
    for kind, start, end, after in found:
        line = body[body.rfind('\n', 0, start) + 1:body.find('\n', start)]
        statement = body[max(body.rfind(';', 0, start), body.rfind('{', 0, start), 0):body.find(';', start)]
        if not LEAVE.search(line) and not LEAVE.search(statement):
            yield kind, start, end, after


def candidates(path):
    """All (function match, mutation) of a file."""
    text = open(os.path.join(ROOT, path)).read()
    for function in FUNCTION.finditer(blank(text)):
        if '...' in function['parameters'] or function['type'].startswith(('typedef', 'return', 'else')) or 'inline' in function['type']:
            continue
        body = text[function.start('body'):function.end('body')]
        for mutation in mutations(body):
            yield function, mutation


def parameters(text):
    """The names of a function's parameters."""
    text = re.sub(r'\s+', ' ', text).strip()
    if text == 'void':
        return []
    depth, parts = 0, ['']
    for character in text:
        depth += (character == '(') - (character == ')')
        if character == ',' and depth == 0:
            parts.append('')
        else:
            parts[-1] += character
    return [(re.search(r'\(\*(?:const )?(\w+)\)', part) or re.search(r'(\w+)(?:\[[^]]*\])*\s*$', part))[1] for part in parts]


def write(path, faults):
    """Writes a copy of a source with its faults, each in a copy of its function; returns [(first line, last line, number)]."""
    text = open(os.path.join(ROOT, path)).read()
    out, at, places = [], 0, []
    by_function = collections.defaultdict(list)
    for fault, function, mutation in faults:
        by_function[function.start()].append((fault, function, mutation))
    for start in sorted(by_function):
        function = by_function[start][0][1]
        head = text[function.start():function.start('body')]
        body = text[function.start('body'):function.end('body')]
        names = parameters(function['parameters'])
        void = re.fullmatch(r'(static )?void', function['type'].strip()) and '*' not in head[:function.start('name') - function.start()]
        out.append(text[at:function.start()] + head[:head.rindex(')') + 1] + ';\n')
        dispatch = ''
        for fault, _, (_, first, last, after) in by_function[start]:
            copy = re.sub(rf'\b{function["name"]} \(', f'{function["name"]}__{fault.number} (', head, count=1)
            copy = ('' if copy.startswith('static') else 'static ') + copy + body[:first] + after + body[last:] + '}\n'
            line = sum(piece.count('\n') for piece in out) + 1
            out.append(copy)
            places.append((line, line + copy.count('\n'), fault.number))
            call = f'{function["name"]}__{fault.number} ({", ".join(names)})'
            dispatch += f'  if (ps_mutant ({fault.number}))\n    ' + (f'{{ {call}; return; }}\n' if void else f'return {call};\n')
        out.append(head + dispatch + body + '}\n')
        at = function.end()
    out.append(text[at:])
    target = os.path.join(COPY, path)
    with open(target, 'w') as file:
        file.write(''.join(out))
    return places


def copy_tree():
    """Makes the copy what the sources are. A file that has faults of an earlier run gets a new time, so that it is built again."""
    listed = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard'], cwd=ROOT, check=True, capture_output=True, text=True)
    paths = {path for path in listed.stdout.split('\n') if path and os.path.isfile(os.path.join(ROOT, path))}
    for folder, _, names in os.walk(COPY):
        for name in names:
            if os.path.relpath(os.path.join(folder, name), COPY) not in paths:
                os.remove(os.path.join(folder, name))
    for path in paths:
        source, target = os.path.join(ROOT, path), os.path.join(COPY, path)
        if not os.path.exists(target) or not filecmp.cmp(source, target, shallow=False):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(source, target)


def draw(count, rooms, seed):
    """Draws faults, evenly over the functions of the rooms."""
    listed = subprocess.run(['git', 'ls-files', *rooms], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    every = collections.defaultdict(list)
    for path in listed:
        if path.endswith('.c') and '/cuda/' not in path and '/nccl/' not in path:
            for function, mutation in candidates(path):
                every[path, function.start()].append((path, function, mutation))
    if not every:
        sys.exit(f'mutate: no source in {" ".join(rooms)}')
    generator = random.Random(seed)
    functions = sorted(every)
    generator.shuffle(functions)
    drawn = []
    while len(drawn) < count and functions:
        key = functions[len(drawn) % len(functions)]
        drawn.append(every[key].pop(generator.randrange(len(every[key]))))
        if not every[key]:
            functions.remove(key)
    return [make_fault(number + 1, *one) for number, one in enumerate(drawn)]


def make_fault(number, path, function, mutation):
    text = open(os.path.join(ROOT, path)).read()
    kind, start, end, after = mutation
    place = function.start('body') + start
    line = text.count('\n', 0, place) + 1 + (text[place] == '\n')
    before = text[place:function.start('body') + end]
    shown = text[text.rfind('\n', 0, place) + 1:text.find('\n', place + 1)].strip()
    return Fault(number, path, line, kind, function['name'], before.strip(), after.strip(), shown), function, mutation


def compile_faults(faults):
    """Builds all faults that compile; returns the numbers of those that do not."""
    broken = set()
    by_file = collections.defaultdict(list)
    for one in faults:
        by_file[one[0].file].append(one)
    header = os.path.join(COPY, 'tests', 'mutate', 'mutant.h')
    while True:
        places = {path: write(path, [one for one in some if one[0].number not in broken]) for path, some in by_file.items()}
        if not os.path.exists(os.path.join(BUILD, 'build.ninja')):
            subprocess.run(['meson', 'setup', BUILD, COPY, '-Dcuda=disabled', '-Dwerror=false', '-Doptimization=1', '-Ddebug=false',
                            f'-Dc_args=-w -include {header}'], check=True, stdout=subprocess.DEVNULL)
        made = subprocess.run(['ninja', '-k', '0', '-C', BUILD], capture_output=True, text=True, env={**os.environ, 'LC_ALL': 'C'})
        if made.returncode == 0:
            return broken
        # An error within a macro is at the macro's own place, so the function is read, too.
        new = set(map(int, re.findall(r"In function '\w+__(\d+)'", made.stdout)))
        for path, line in re.findall(r'([\w./-]+\.c):(\d+):\d+: error', made.stdout):
            path = os.path.relpath(os.path.normpath(os.path.join(BUILD, path)), COPY)
            new |= {number for first, last, number in places.get(path, []) if first <= int(line) <= last}
        if not new - broken:
            sys.exit('mutate: the build fails without a fault:\n' + made.stdout[-3000:])
        broken |= new


def equivalents(faults):
    """The numbers of faults that the compiler makes the same code of."""
    with open(os.path.join(BUILD, 'compile_commands.json')) as file:
        commands = {os.path.relpath(os.path.normpath(os.path.join(BUILD, one['file'])), COPY): one['command'] for one in json.load(file)}

    def assembly(path, text):
        with tempfile.NamedTemporaryFile('w', suffix='.c', dir=os.path.dirname(os.path.join(COPY, path))) as file:
            file.write(text)
            file.flush()
            words = [word for word in re.sub(r' -M[DQF]+ \S+| -MD', '', commands[path]).split()]
            words = words[:words.index('-o')] + ['-O2', '-S', '-o', '-', file.name]
            made = subprocess.run([word.strip("'") for word in words if word.strip("'")], cwd=BUILD, capture_output=True, text=True)
            return re.sub(re.escape(os.path.basename(file.name)[:-2]), '', made.stdout)

    def same(one):
        fault, function, (_, start, end, after) = one
        if fault.file not in commands:
            return False
        text = open(os.path.join(ROOT, fault.file)).read()
        at = function.start('body')
        plain = assembly(fault.file, text)
        return plain != '' and plain == assembly(fault.file, text[:at + start] + after + text[at + end:])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {one[0].number for one, equal in zip(faults, pool.map(same, faults)) if equal}


def list_tests():
    made = subprocess.run(['meson', 'introspect', '--tests', BUILD], check=True, capture_output=True, text=True)
    return [one for one in json.loads(made.stdout) if one['suite'][0].split(':')[-1] in ('unit', 'cli', 'golden', 'fuzz')]


def run_test(test, environment, limit):
    """Runs a test in a process group of its own: passed, failed or skipped, and its seconds."""
    begun = time.monotonic()
    with tempfile.TemporaryFile('w+', errors='replace') as log:
        process = subprocess.Popen(test['cmd'], cwd=test['workdir'] or BUILD, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   env={**os.environ, **test['env'], **environment}, start_new_session=True)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = -1
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        log.seek(0)
        text = log.read()
    failed = code not in (0, 77) or (test['protocol'] == 'tap' and re.search(r'^not ok(?!.*# TODO)', text, re.M) is not None)
    return ('failed' if failed else 'skipped' if code == 77 or re.search(r'^1\.\.0\b', text, re.M) else 'passed'), time.monotonic() - begun


def main():
    options = argparse.ArgumentParser(description='Seeds faults and says which of them the tests notice.')
    options.add_argument('count', nargs='?', type=int, default=100)
    options.add_argument('rooms', nargs='*', default=['sim', 'calib', 'exec', 'plots'])
    options.add_argument('--seed', type=int, default=1)
    options = options.parse_args()
    os.makedirs(WORK, exist_ok=True)
    copy_tree()
    drawn = draw(options.count, options.rooms, options.seed)
    print(f'{len(drawn)} faults drawn with seed {options.seed}; building', flush=True)
    broken = compile_faults(drawn)
    faults = [one for one in drawn if one[0].number not in broken]
    equal = equivalents(faults)
    tests, passed = list_tests(), {}
    shutil.rmtree(REACHED, ignore_errors=True)
    os.makedirs(REACHED)
    print(f'{len(broken)} do not compile, {len(equal)} change nothing; running {len(tests)} tests without a fault', flush=True)

    def note(index):
        path = os.path.join(REACHED, str(index))
        result, seconds = run_test(tests[index], {'PS_MUTANT_REACHED': path}, SLOWEST)
        numbers = set(map(int, open(path).read().split())) if os.path.exists(path) else set()
        return index, result, seconds, numbers

    reaching, failed = collections.defaultdict(list), []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for index, result, seconds, numbers in pool.map(note, range(len(tests))):
            if result == 'failed':
                failed.append(tests[index]['name'])
            if result == 'passed':
                passed[index] = seconds
                for number in numbers:
                    reaching[number].append(index)
    if failed:
        print('left out, as they fail without a fault:', ', '.join(failed), flush=True)

    def judge(one):
        fault = one[0]
        if fault.number in equal:
            return fault, 'equivalent', ''
        order = sorted(reaching[fault.number], key=lambda index: (tests[index]['name'] == 'golden', passed[index]))
        for index in order:
            if run_test(tests[index], {'PS_MUTANT': str(fault.number)}, 20 + 6 * passed[index])[0] == 'failed':
                return fault, 'caught', tests[index]['name']
        return fault, 'survived' if order else 'not reached', f'{len(order)} tests' if order else ''

    counts, rooms = collections.Counter(), collections.defaultdict(collections.Counter)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for fault, result, by in pool.map(judge, faults):
            counts[result] += 1
            counts['golden'] += result == 'caught' and by == 'golden'
            rooms[os.path.dirname(fault.file)][result] += 1
            print(f'{result:11} {fault.file}:{fault.line} {fault.function}: {fault.kind}: {fault.before or "nothing"} -> '
                  f'{fault.after or "nothing"}{"; by " + by if result == "caught" else "; " + by if by else ""}', flush=True)
            if result in ('survived', 'not reached'):
                print(f'              {fault.text}', flush=True)
    print(f'\n{"room":24} caught  survived  not reached  equivalent')
    for room, row in sorted(rooms.items()):
        print(f'{room:24} {row["caught"]:6}  {row["survived"]:8}  {row["not reached"]:11}  {row["equivalent"]:10}')
    alive = counts['survived'] + counts['not reached']
    judged = counts['caught'] + alive
    print(f'{counts["caught"]} of {judged} caught ({100 * counts["caught"] / max(judged, 1):.0f} %), {counts["golden"]} of them by golden files alone; '
          f'{alive} survived; {counts["equivalent"]} equivalent')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
