#!/usr/bin/env python3
"""dialect.py - finds C that compiles but is not written as the rest is. Prints FILE:LINE: what is wrong.

  tests/dialect.py BUILD [FILE...]     all sources that the build folder BUILD compiles, or the named ones
  tests/dialect.py --self-test         fixtures/dialect.c: finds the lines that name a finding, and no others

The dialect: a blank line follows the declarations that open a block; pointers are compared with NULL, ! is for booleans; no
condition assigns, except that of a while loop: while ((x = next ()) != NULL). Needs clang-query, and headers of the project
are looked at through the sources that include them.
"""
import json, os, re, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOMS = ('include', 'sim', 'exec', 'calib', 'plots', 'tests', 'docs')
FOUND = '.bind("found")'
POINTER = f'expr(hasType(hasCanonicalType(pointerType()))){FOUND}'
ASSIGNMENT = f'binaryOperator(isAssignmentOperator()){FOUND}'
OURS = f'isExpansionInFileMatching("^[^/]|^{ROOT}/")'


def conditions(kinds, inner):
    return [f'stmt({OURS}, {kind}(hasCondition({inner})))' for kind in kinds]


DECLARED, COMPARE, ASSIGNED = 'no blank line after declarations', 'compare the pointer with NULL', 'a condition assigns'
MATCHERS = [(COMPARE, match) for match in [
    f'unaryOperator({OURS}, hasOperatorName("!"), hasUnaryOperand(ignoringParenImpCasts({POINTER})))',
    f'binaryOperator({OURS}, hasAnyOperatorName("&&", "||"), eachOf(hasLHS({POINTER}), hasRHS({POINTER})))',
    *conditions(['ifStmt', 'whileStmt', 'doStmt', 'forStmt', 'conditionalOperator'], POINTER)]]
MATCHERS += [(ASSIGNED, match) for match in
             conditions(['ifStmt', 'doStmt', 'forStmt', 'conditionalOperator'],
                        f'expr(eachOf({ASSIGNMENT}, forEachDescendant({ASSIGNMENT})))')]
MATCHERS += [(DECLARED, f'declStmt({OURS}, hasParent(compoundStmt())){FOUND}')]


def query(files, before=(), after=()):
    """The places (rule, file, line, column, macros that it comes through) that clang-query finds in the files."""
    commands = ['set output diag', 'set bind-root false'] + ['match ' + match for _, match in MATCHERS]
    words = [word for command in commands for word in ('-c', command)]
    done = subprocess.run(['clang-query', *before, *words, *files, *after], capture_output=True, text=True)
    if done.returncode != 0 or re.search('error:|Error', done.stderr):
        sys.exit('dialect.py: clang-query: ' + (done.stderr + done.stdout)[:2000])
    rule, places = 0, []
    for line in done.stdout.splitlines():
        place = re.match(r'(\S+?):(\d+):(\d+): note: "found" binds here', line)
        macro = re.search(r": note: expanded from macro '(\w+)'", line)
        if place:
            places.append([MATCHERS[rule][0], place[1], int(place[2]), int(place[3]), []])
        elif macro:
            places[-1][4].append(macro[1])
        elif re.match(r'\d+ match(es)?\.$', line):
            rule += 1
    return places


def without_comments(text):
    """The lines of a file; comments and the insides of strings are blank, so that brackets and semicolons count."""
    def blank(match):
        return re.sub('[^\n]', ' ', match[0]) if match[0][0] == '/' else '"' + '_' * (len(match[0]) - 2) + '"'
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(\\.|[^"\\\n])*"|\'(\\.|[^\'\\\n])+\'', blank, text, flags=re.S).split('\n')


def end_of(code, line):
    """The line on which the declaration ends that begins on this one (both count from 0)."""
    depth = 0
    while line < len(code):
        for character in code[line]:
            depth += (character in '([{') - (character in ')]}')
            if character == ';' and depth == 0:
                return line
        line += 1
    return line - 1


def without_blank_line(text, declared):
    """Yields the last lines of leading declarations that a statement follows at once; declared: lines that begin one."""
    code, raw = without_comments(text), text.split('\n')
    leading_end = set()
    for first in sorted(declared):
        before = first - 1
        while not code[before].strip():
            before -= 1
        if (code[before].rstrip().endswith('{') or before in leading_end):
            leading_end.add(end_of(code, first))
    for last in sorted(leading_end):
        after = last + 1
        while raw[after].strip() and not code[after].strip(): # a comment belongs to what follows it
            after += 1
        if code[after].strip() and code[after].strip() != '}' and after not in declared:
            yield last


def findings(places):
    """Yields (file, line, rule) for what is wrong; lines count from 1."""
    texts = {file: open(file, encoding='utf-8').read() for file in {place[1] for place in places}}
    lines = {file: text.split('\n') for file, text in texts.items()}
    declared = {file: set() for file in texts}
    for rule, file, line, column, macros in places:
        source = lines[file][line - 1]
        word = re.match(r'\w*', source[column - 1:])[0]
        of_macro = word in macros # of its body, not an argument
        if rule != DECLARED and (not macros or not of_macro and source[column - 2] == '!'):
            yield file, line, rule
        elif rule == DECLARED and (not of_macro or re.match('g_auto|G_GNUC_', word)):
            declared[file].add(line - 1)
    for file, text in texts.items():
        for line in without_blank_line(text, declared[file]):
            yield file, line + 1, DECLARED


def check(build, files):
    """Looks through sources in parallel; prints what is wrong and says how much that is."""
    os.chdir(build)
    compiled = {os.path.realpath(os.path.join(entry['directory'], entry['file']))
                for entry in json.load(open('compile_commands.json'))}
    wanted = {os.path.realpath(os.path.join(BEGAN, file)) for file in files} or \
        {file for file in compiled if file.endswith('.c') and os.path.relpath(file, ROOT).split('/')[0] in ROOMS}
    wanted = sorted(wanted & compiled)
    parts = [wanted[i:i + 8] for i in range(0, len(wanted), 8)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        places = [place for part in pool.map(lambda part: query(part, before=['-p', '.']), parts) for place in part]
    wrong = sorted({(os.path.relpath(file, ROOT), line, rule) for file, line, rule in findings(places)})
    for file, line, rule in wrong:
        print(f'{file}:{line}: {rule}')
    return len(wrong)


def self_test():
    """The fixture names each finding in a comment at the end of its line."""
    file = os.path.join(ROOT, 'tests/fixtures/dialect.c')
    glib = subprocess.run(['pkg-config', '--cflags', 'glib-2.0'], capture_output=True, text=True).stdout.split()
    found = {(line, rule) for _, line, rule in findings(query([file], after=['--', *glib]))}
    expected = {(n, match[1]) for n, line in enumerate(open(file), 1) if (match := re.search(r'/\* (.*): \*/', line))}
    for line, rule in sorted(expected ^ found):
        print(f'tests/fixtures/dialect.c:{line}: {"not found" if (line, rule) in expected else "found"}: {rule}')
    return len(expected ^ found)


BEGAN = os.getcwd()
if len(sys.argv) < 2:
    sys.exit(__doc__.split('\n\n')[1])
sys.exit((self_test() if sys.argv[1] == '--self-test' else check(sys.argv[1], sys.argv[2:])) > 0)
