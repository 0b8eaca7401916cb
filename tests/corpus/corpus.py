#!/usr/bin/env python3
"""corpus.py - 3,000 command lines drawn from a seed, and what each of them answered when it was last looked at.

  PIPESIM_BINDIR=build tests/corpus/corpus.py                    compares; names the answers that moved, and how
  PIPESIM_BINDIR=build tests/corpus/corpus.py --update           takes the answers of this build as right
  PIPESIM_BINDIR=build tests/corpus/corpus.py --against BINDIR   compares with another build, and shows lines that differ

answers.txt has a line for each: number, exit code, first 12 digits of the SHA-256 of all that was printed, and the first figures. Every
125th answer stands in whole.txt. A change that moves answers on purpose updates both in its commit, which says why they moved.
It prints TAP. Answers are those of one C library and processor kind, which answers.txt names; elsewhere the test skips itself.
"""
import argparse, difflib, hashlib, json, os, platform, random, re, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
SEED, COUNT, WHOLE = 20261128, 3000, 125
MACHINE = f'{platform.machine()} {" ".join(platform.libc_ver())}'

LOOP = ['naive', 'gpipe', '1f1b', 'eager-1f1b', 'zb-h1', 'zb-h2', 'zb-auto', 'seq1f1b', 'pipedream', 'pipedream-2bw']
CHUNKED = ['interleaved', 'interleaved-overlap', 'interleaved-overlap-w', 'looped-bfs', 'interleaved-zb', 'gis', 'hanayo']
V = ['zb-v', 'zb-v-auto', 'v-half', 'v-min', '1f1b-v', 'dualpipe-v', 'dualpipe', 'chimera']
MODELS = ['llama-3-8b', 'llama-3-70b', 'models/gpt-6.2b', 'mixtral-8x7b', 'deepseek-v3', 'gpt-oss-120b', 'qwen3-235b-a22b', 'tiny-gpt']
EXPERTS = {'mixtral-8x7b': 8, 'deepseek-v3': 256, 'gpt-oss-120b': 128, 'qwen3-235b-a22b': 128}
CLUSTERS = ['a100-80gb', 'h100-80gb', 'b200-180gb', 'gb200-186gb', 'h200-141gb']
TRACES = ['fixtures/profiler', 'fixtures/pytorch-2.15/gpipe', 'fixtures/pytorch-2.15/zb-h1', 'fixtures/pytorch-2.15/1f1b-named',
          'fixtures/timeline-measured.json', 'fixtures/otel']
FILES = ['GPipe_p4_v1_m4_comms', 'Interleaved1F1B_p4_v2_m3_compute', 'ZBVZeroBubble_p4_v2_m3_comms', 'DualPipeV_p4_v2_m8_compute',
         'InterleavedZeroBubble_p4_v4_m4_comms']


def some(rand, chance, *words):
    return list(words) if rand.random() < chance else []


def time(rand):
    return f'{rand.choice([50, 120, 333, 500, 1000, 1700])}us'


def given_costs(rand, stages):
    def times():
        return time(rand) if rand.random() < 0.7 else ':'.join(time(rand) for _ in range(stages))
    parts = [f'f={times()}', f'b={times()}', f'w={times()}'] if rand.random() < 0.8 else [f'f={times()}', f'bw={times()}']
    for key, values in [('c', ['0', '20us', '100us', '300us']), ('o', ['0', '700us']), ('act', ['1MiB', '3MiB', '2500KiB']),
                        ('wact', ['512KiB', '1MiB']), ('weights', ['0', '16MiB', '33MiB']), ('msg', ['1MiB', '4MiB'])]:
        if rand.random() < 0.6 and (key != 'wact' or parts[-1].startswith('act=')):
            parts.append(f'{key}={rand.choice(values)}')
    return ','.join(parts)


def size(rand, name):
    p, v = rand.choice([1, 2, 2, 3, 4, 4, 5, 8]), 1
    if name in CHUNKED:
        v = rand.choice([1, 2, 2, 3, 4])
    if name in V and name not in ('dualpipe', 'chimera'):
        v = 2
    p = p + p % 2 if name in ('dualpipe', 'chimera', 'hanayo') else p
    v = v + v % 2 if name == 'hanayo' else max(v, 2) if name.startswith('interleaved-overlap') else v
    m = rand.choice([1, 2, p, 2 * p, 3 * p, 4 * p, 2 * p + 1, rand.randint(1, 24)])
    if name in ('dualpipe', 'dualpipe-v', 'chimera', 'hanayo', 'pipedream-2bw') and rand.random() < 0.9:
        m = p * rand.choice([2, 2, 4, 6])
    return p, v, m, ['-p', str(p), '-m', str(m)] + (['-v', str(v)] if name in CHUNKED else [])


def channels(rand):
    return (some(rand, 0.35, '--comm', rand.choice(['direction', 'pair', 'rank'])) + some(rand, 0.2, '--comm-order', rand.choice(['asap', 'deferred', 'planned']))
            + some(rand, 0.06, '--blocking') + some(rand, 0.1, '--eager', '1MiB') + some(rand, 0.1, '--overlap-slowdown', '1.3')
            + some(rand, 0.06, '--ready-order', '4') + some(rand, 0.1, '--sync', 'bypass'))


def modelled(rand, stages):
    name = rand.choice(MODELS)
    tensor = rand.choice([1, 1, 2, 4, 8]) if name != 'tiny-gpt' else 1
    replicas, context = rand.choice([1, 1, 2, 4, 8]), rand.choice([1, 1, 1, 2])
    gpus = stages * tensor * replicas * context
    words = ['--model', name, '--cluster', rand.choice(CLUSTERS if gpus <= 8 else CLUSTERS[1:]), '--tensor', str(tensor)]
    words += ['--replicas', str(replicas)] if replicas > 1 else []
    words += ['--context', str(context)] if context > 1 else []
    words += some(rand, 0.3, '--zero', str(rand.randint(0, 3))) if replicas * context > 1 else []
    shares = [e for e in (2, 4, 8) if tensor * replicas * context % e == 0]
    words += some(rand, 0.7, '--experts', str(rand.choice(shares))) if name in EXPERTS and shares else []
    return (words + some(rand, 0.25, '--recompute', rand.choice(['selective', 'full'])) + some(rand, 0.15, '--precision', rand.choice(['fp8', 'nvfp4', 'fp16', 'fp32']))
            + some(rand, 0.3, '--layout', rand.choice(['even', 'best', 'best', 'best', 'even:embedding:loss', 'even:first=1:last=1']))
            + some(rand, 0.2, '--framework', rand.choice(['megatron', 'deepspeed'])) + some(rand, 0.15, '--microbatch-size', '2')
            + some(rand, 0.1, '--sequence', '2048') + some(rand, 0.1, '--offload', '0.5') + some(rand, 0.1, '--bandwidth-factor', '0.5')
            + some(rand, 0.1, '--cuda-graphs') + some(rand, 0.15, '--adjacent-replicas') + some(rand, 0.1, '--reduce', 'exposed'))


def predict(rand):
    name = rand.choice(LOOP + CHUNKED + V)
    p, v, m, words = size(rand, name)
    costs = ['--costs', given_costs(rand, p * v)] if rand.random() < 0.5 else modelled(rand, p * v)
    words = ['predict', '-s', name, *words, *costs, *channels(rand), *some(rand, 0.2, '--memory-limit', rand.choice(['20MiB', '8MiB', '40GiB']))]
    words += some(rand, 0.1, '--explain') + some(rand, 0.1, '--memory') + some(rand, 0.5 if name == 'seq1f1b' else 0.01, '--slices', rand.choice(['2', '3'])) + some(rand, 0.05, '--print-costs')
    words += some(rand, 0.08, '--speed', '0.8') + some(rand, 0.06, '--jitter', '0.05', '--samples', '50') + some(rand, 0.05, '--group', str(p))
    return words + ([] if '--print-costs' in words else ['--json'])


def compare_all(rand):
    p = rand.choice([2, 3, 4])
    return ['predict', '-s', 'all', '-p', str(p), '-m', str(rand.choice([p, 2 * p])), '--costs', given_costs(rand, 1).replace(':', ',').split(',f=')[0], '--json'] \
        + channels(rand)


def search(rand):
    p = rand.choice([2, 3, 4])
    return ['search', '-p', str(p), '-m', str(rand.choice([2, 3, 4, 6])), '--costs', given_costs(rand, p), '--moves', '3000', '--jobs', '1', '--seed',
            str(rand.randint(1, 9)), '--json'] + some(rand, 0.5, '--memory-limit', rand.choice(['6MiB', '12MiB', '40MiB'])) \
        + some(rand, 0.3, '--placement', rand.choice(['loop', 'V', 'bidirectional'])) + some(rand, 0.2, '--comm', 'pair')


def plan(rand):
    gpus = rand.choice([2, 4, 8])
    return ['plan', '--model', rand.choice(['tiny-gpt', 'gpt-1.5b', 'llama-3-8b']), '--cluster', rand.choice(CLUSTERS), '-g', str(gpus), '--global-batch',
            str(rand.choice([gpus, 2 * gpus, 3 * gpus + 1])), '-s', ','.join(rand.sample(['1f1b', 'interleaved', 'zb-h1', 'zb-v', 'gpipe'], 2)), '--jobs', '1',
            '--json', '--top', '5'] + some(rand, 0.4, '--framework', rand.choice(['megatron', 'deepspeed'])) + some(rand, 0.2, '--precision', 'fp8')


def partition(rand):
    p = rand.choice([2, 3, 4, 6])
    return ['partition', '--model', rand.choice(['tiny-gpt', 'gpt-1.5b', 'llama-3-8b']), '--cluster', rand.choice(CLUSTERS), '-p', str(p), '-m', str(2 * p), '--json'] \
        + some(rand, 0.8, '--algorithm', *rand.choice(['bottleneck', 'uniform', 'parameters', 'flops', 'pipedream', 'pipedream', 'schedule --schedule 1f1b']).split()) \
        + some(rand, 0.3, '--speed', '1')


def convert(rand):
    target = rand.choice(['native', 'torch-compute', 'torch-comms', 'colossalai', 'chrome-trace'])
    if rand.random() < 0.3:
        source = [f'fixtures/torch/{rand.choice(FILES)}.csv']
    else:
        name = rand.choice(LOOP + CHUNKED + V)
        source = [name, *size(rand, name)[3]]
    costs = ['--costs', given_costs(rand, 1).split(':')[0]] if target == 'chrome-trace' and rand.random() < 0.5 else []
    return ['schedule', 'convert', *source, '--to', target, *costs, '-o', '/dev/stdout']


def launch(rand):
    target = rand.choice(['megatron', 'megatron', 'torchtitan', 'deepspeed'])
    name = rand.choice({'megatron': ['1f1b', 'interleaved', 'interleaved-overlap', 'interleaved-overlap-w'], 'deepspeed': ['1f1b'],
                        'torchtitan': ['1f1b', 'interleaved', 'gpipe', 'zb-v', 'interleaved-zb', 'zb-h1', 'looped-bfs']}[target])
    p, v, m, words = size(rand, name)
    return ['predict', '-s', name, *words, *modelled(rand, p * v), '--to', target]


def trace(rand):
    return rand.choice([['diagnose', rand.choice(TRACES), '--json'], ['compare', *rand.sample(TRACES, 2), '--json'],
                        ['predict', '-s', rand.choice(['1f1b', 'gpipe', 'zb-h1', 'interleaved']), '-p', '2', '-m', str(rand.choice([2, 4, 8])), '--costs-from', rand.choice(TRACES),
                         '--json'], ['schedule', 'lint', f'fixtures/torch/{rand.choice(FILES)}.csv']])


def show(rand):
    name = rand.choice(LOOP + CHUNKED + V)
    return ['schedule', rand.choice(['show', 'validate', 'lint']), name, *size(rand, name)[3]]


KINDS = [(predict, 60), (compare_all, 4), (search, 5), (plan, 3), (partition, 6), (convert, 8), (launch, 8), (trace, 3), (show, 3)]


def draw():
    rand = random.Random(SEED)
    kinds, weights = zip(*KINDS)
    return [rand.choices(kinds, weights)[0](rand) for _ in range(COUNT)]


def answer(bindir, words):
    env = {**os.environ, 'LC_ALL': 'C.UTF-8', 'COLUMNS': '160', 'OPENBLAS_NUM_THREADS': '1'}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as talk:
        code = subprocess.run([os.path.join(bindir, 'pipesim'), *words], cwd=TESTS, stdin=subprocess.DEVNULL, stdout=out, stderr=talk, env=env,
                              timeout=300).returncode
        out.seek(0)
        talk.seek(0)
        text = out.read().decode(errors='replace') + talk.read().decode(errors='replace')
    return f'[{code}]\n' + text


def figures(text):
    """The first figures of an answer, which say how it moved."""
    found = []
    for key in ('iteration_ns', 'makespan_ns', 'step_ns', 'bottleneck_ns', 'peak_memory_bytes', 'feasible', 'lower_bound_ns'):
        match = re.search(rf'"{key}": ([^,\s}}]+)', text)
        found += [f'{key}={match[1]}'] if match else []
    return ' '.join(found) or 'lines=' + str(text.count('\n'))


def line(number, text):
    return f'{number} {text[1:text.index("]")]} {hashlib.sha256(text.encode()).hexdigest()[:12]} {figures(text)}'


def ask(bindir, lines):
    """The answers of the lines; a line that was drawn several times is asked once."""
    different = list(dict.fromkeys(map(tuple, lines)))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = dict(zip(different, pool.map(lambda words: answer(bindir, words), different)))
    return [answers[tuple(words)] for words in lines]


def shell(words):
    return 'pipesim ' + ' '.join(word if re.fullmatch(r'[\w./:=,@%+-]+', word) else f"'{word}'" for word in words)


def whole(lines, texts):
    return ''.join(f'$ {shell(lines[n])}\n{texts[n]}\n' for n in range(0, COUNT, WHOLE))


def differ(old, new, limit=12):
    changed = [one for one in difflib.unified_diff(old.split('\n'), new.split('\n'), lineterm='', n=0) if not one.startswith(('---', '+++', '@@'))]
    return ''.join(f'#     {one[:150]}\n' for one in changed[:limit]) + (f'#     and {len(changed) - limit} lines more\n' if len(changed) > limit else '')


def main():
    options = argparse.ArgumentParser(description='Compares the answers of a build with those that were taken as right.')
    options.add_argument('--update', action='store_true')
    options.add_argument('--against', metavar='BINDIR')
    options = options.parse_args()
    lines, answers, kept = draw(), os.path.join(HERE, 'answers.txt'), os.path.join(HERE, 'whole.txt')
    bindir = os.path.abspath(os.environ.get('PIPESIM_BINDIR', 'build'))
    if not options.update and not options.against:
        with open(answers) as file:
            machine, *noted = file.read().rstrip('\n').split('\n')
        if machine != MACHINE:
            print(f'1..0 # SKIP answers are noted for {machine}; this is {MACHINE}')
            return 0
    texts = ask(bindir, lines)
    if options.update:
        with open(answers, 'w') as file:
            file.write('\n'.join([MACHINE] + [line(n, text) for n, text in enumerate(texts)]) + '\n')
        with open(kept, 'w') as file:
            file.write(whole(lines, texts))
        codes = [text[:3] for text in texts]
        print(f'{COUNT} answers noted: {codes.count("[0]")} with exit code 0, {codes.count("[1]")} with 1, {codes.count("[2]")} with 2')
        return 0
    others = ask(os.path.abspath(options.against), lines) if options.against else None
    noted = [line(n, text) for n, text in enumerate(others)] if others else noted
    moved = [n for n, text in enumerate(texts) if line(n, text) != noted[n]]
    print('1..2')
    print(f'{"not " if moved else ""}ok 1 - {COUNT - len(moved)} of {COUNT} answers are as noted')
    for n in moved[:200]:
        print(f'# {n}: {shell(lines[n])}')
        old, new = noted[n].split(' ', 3), line(n, texts[n]).split(' ', 3)
        print(f'#   was [{old[1]}] {old[3]}\n#   is  [{new[1]}] {new[3]}' if (old[1], old[3]) != (new[1], new[3]) else f'#   other figures or words; [{old[1]}]')
        if others:
            print(differ(others[n], texts[n]), end='')
    same = options.against or open(kept).read() == whole(lines, texts)
    print(f'{"" if same else "not "}ok 2 - every {WHOLE}th answer is the same text')
    if not same:
        print(differ(open(kept).read(), whole(lines, texts), 60), end='')
    return 1 if moved or not same else 0


if __name__ == '__main__':
    sys.exit(main())
