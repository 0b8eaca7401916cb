#!/usr/bin/env python3
"""figures.py - figures that pipesim prints, worked out again from its timelines, from other commands, or by hand.

    PIPESIM_BINDIR=build tests/cli/figures.py

TAP is printed; a failed check prints its command and what is wrong.
"""
import csv, json, math, os, re, subprocess, sys, tempfile

BIN = os.path.join(os.path.abspath(os.environ.get('PIPESIM_BINDIR', 'build')), 'pipesim')
COSTS = 'f=10us:14us,b=11us,w=7us,c=2us,act=2MiB,wact=1MiB,weights=3MiB,o=1us'
MIB = 1 << 20


def pipesim(line, code=0):
    made = subprocess.run([BIN, *line.split()], capture_output=True, text=True)
    assert made.returncode == code, f'exit code {made.returncode}: {made.stderr}'
    return made.stdout


def rows(line):
    return json.loads(pipesim(line + ' --json'))['results']


def equal(what, a, b, near=0):
    assert a == b or (near and a is not None and b is not None and abs(a - b) <= near), f'{what}: {a}, not {b}'


# ---- predict against its timeline

def timeline_of(line):
    pipesim(f'{line} -o t.json')
    with open('t.json') as file:
        return json.load(file)


def check_row(row, timeline):
    p, iteration = row['devices'], row['iteration_ns']
    ops = [[op for op in timeline['ops'] if op[0] == d and op[1][0] != 'O'] for d in range(p)]
    busy = [sum(op[3] - op[2] for op in mine if not op[1].endswith('+')) for mine in ops]
    span = [mine[-1][3] - mine[0][2] for mine in ops]
    peak = [max((point[2] for point in timeline['memory'] if point[0] == d), default=0) for d in range(p)]
    equal('iteration', iteration, timeline['iteration_ns'])
    equal('longest span', row['max_span_ns'], max(span))
    equal('makespan', row['makespan_ns'], max(op[3] for mine in ops for op in mine))
    equal('peak', row['peak_memory_bytes'], max(peak))
    equal('bubble', row['bubble_ratio'], 1 - sum(busy) / p / iteration, 1e-9)
    equal('bubble of span', row['bubble_ratio_span'], 1 - sum(busy) / p / max(span), 1e-9)
    for d, device in enumerate(row['devices_detail']):
        equal(f'busy {d}', device['busy_ns'], busy[d])
        equal(f'span {d}', device['span_ns'], span[d])
        equal(f'peak {d}', device['peak_memory_bytes'], peak[d])
    return busy, peak


def check_path(row, timeline):
    """The path is without gaps from the beginning to the end, of ops and transfers at their times."""
    at, on_device = 0, [0] * row['devices']
    ops = {(op[0], op[1].rstrip('+')): op for op in timeline['ops']}
    moves = {(move[0], move[1], move[2]): move for move in timeline['transfers']}
    for part in row['critical_path']:
        equal('beginning of a part', part['start_ns'], at)
        at = part['end_ns']
        if part['kind'] == 'op':
            on_device[part['device']] += part['end_ns'] - part['start_ns']
            found = [ops[part['device'], name] for name in part['op'].split('+')]
            equal('peer of an op', part['peer'], None)
        elif part['kind'] == 'transfer':
            found = [moves[part['device'], part['peer'], part['op']]]
        else:
            continue
        for one in found:
            equal('times on the path', [part['start_ns'], part['end_ns']], one[2:4] if part['kind'] == 'op' else one[3:5])
    equal('end of the path', at, row['makespan_ns'])
    return on_device


def check_explained(line):
    row, timeline = rows(f'{line} --explain --memory')[0], timeline_of(line)
    busy, peak = check_row(row, timeline)
    on_device = check_path(row, timeline)
    causes = ['warm_up_ns', 'forward_ns', 'backward_ns', 'transfer_ns', 'channel_ns', 'drain_ns', 'sync_ns'] + ['host_ns'] * (',op=' in line)
    equal('causes', set(row['idle'][0]), {'device', 'critical_ns', 'idle_ns', *causes})
    for d, idle in enumerate(row['idle']):
        equal('device', idle['device'], d)
        equal('on the path', idle['critical_ns'], on_device[d])
        equal('causes of waiting', sum(idle[cause] for cause in causes), idle['idle_ns'])
        own = [op for op in timeline['ops'] if op[0] == d and op[1][0] != 'O']
        equal('idle', idle['idle_ns'], row['makespan_ns'] - busy[d] + idle['sync_ns'])
        equal('warm-up', idle['warm_up_ns'], own[0][2])
        equal('drain', idle['drain_ns'], row['makespan_ns'] - own[-1][3])
    for d, memory in enumerate(row['memory']):
        equal('peak', memory['peak_bytes'], peak[d])
        equal('parts at the peak', sum(memory['parts'][0].values()), peak[d])
        equal('time of the peak', next(point[1] for point in timeline['memory'] if point[0] == d and point[2] == peak[d]), memory['peak_ns'])
        for part in ('activations', 'weight_inputs'):
            held = sum(one['bytes'] for one in memory['alive'] if one['part'].startswith(part))
            equal(f'{part} alive', held, memory['parts'][0][f'{part}_bytes'])
    critical = {(part['device'], name) for part in row['critical_path'] if part['kind'] == 'op' for name in part['op'].split('+')}
    slack = {(one['device'], one['op']): one['slack_ns'] for one in row['slack']}
    for key in critical & set(slack):
        equal(f'slack of {key} on the path', slack[key], 0)
    assert all(value >= 0 for value in slack.values()), 'negative slack'
    return row


def test_explained():
    for schedule, size in [('1f1b', '-p 2 -m 4'), ('zb-h1', '-p 2 -m 5'), ('gpipe', '-p 2 -m 2')]:
        check_explained(f'predict -s {schedule} {size} --costs {COSTS}')
    check_explained('predict -s zb-v -p 3 -m 6 --costs f=10us,b=11us,w=7us,c=3us,act=2MiB,wact=1MiB')
    hosts = rows('predict -s 1f1b -p 2 -m 4 --costs f=10us,b=11us,w=7us,c=2us,op=1us --explain')[0]
    for idle in hosts['idle']:
        equal('causes with hosts', sum(value for key, value in idle.items() if key.endswith('_ns') and key not in ('idle_ns', 'critical_ns')), idle['idle_ns'])
    assert any(idle['host_ns'] > 0 for idle in hosts['idle'])
    plain = set(rows('predict -s 1f1b,gpipe -p 2 -m 4 --costs f=1ms,b=1ms,w=1ms')[0])
    equal('columns', plain & {'spread', 'wins', 'memory', 'idle', 'slack', 'what_if', 'interval', 'iteration_p10_ns', 'layout', 'microbatch_order', 'period_iterations'}, set())
    check_explained('predict -s interleaved -p 2 -m 4 -v 3 --costs f=9us,b=12us,w=6us,c=3us,act=2MiB,wact=1MiB')


def test_memory_by_hand():
    """1F1B on two devices: two activations of 2 MiB and 3 MiB of weights at the start of the second F of device 0, one on device 1."""
    row = check_explained(f'predict -s 1f1b -p 2 -m 4 --costs {COSTS}')
    first, second = row['memory']
    equal('activations of 0', first['parts'][0]['activations_bytes'], 4 * MIB)
    equal('activations of 1', second['parts'][0]['activations_bytes'], 2 * MIB)
    equal('weights', first['parts'][0]['state_bytes'], 3 * MIB)
    equal('time', first['peak_ns'], 10000)
    equal('alive', [(one['stage'], one['microbatch'], one['slice'], one['bytes']) for one in first['alive']], [(0, 0, 0, 2 * MIB), (0, 1, 0, 2 * MIB)])


def test_what_if():
    """What is told to pay off does so: the costs changed by hand give that iteration."""
    line = 'predict -s 1f1b -p 2 -m 4 --costs f={}ns:{}ns,b=11us,w=7us,bw={}ns:{}ns,c={}ns,o=1us'
    changed = {'stage 0': (.9, 1, .9, 1, 1), 'stage 1': (1, .9, 1, .9, 1), 'F': (.9, .9, 1, 1, 1), 'BW': (1, 1, .9, .9, 1), 'link 0-1': (1, 1, 1, 1, .9)}
    plain = (10000, 14000, 18000, 19000, 2000)
    own = rows(line.format(*plain) + ' --explain')[0]
    shown = {one['part']: one for one in own['what_if']}
    equal('parts', set(shown), set(changed))
    for part, factors in changed.items():
        faster = rows(line.format(*(round(a * b) for a, b in zip(plain, factors))))[0]['iteration_ns']
        equal(f'{part} 10 % faster', shown[part]['iteration_ns'], faster)
        equal(f'gain of {part}', shown[part]['gain'], 1 - faster / own['iteration_ns'], 1e-9)
        without = rows(line.format(*(0 if b < 1 else a for a, b in zip(plain, factors))))[0]['iteration_ns']
        equal(f'without {part}', shown[part]['least_ns'], without)
    iterations = [one['iteration_ns'] for one in own['what_if']]
    equal('order', iterations, sorted(iterations))
    quarter = rows(line.format(*plain) + ' --explain --faster 25')[0]
    faster = rows(line.format(7500, 10500, *plain[2:]))[0]['iteration_ns']
    equal('F 25 % faster', next(one['iteration_ns'] for one in quarter['what_if'] if one['part'] == 'F'), faster)


def time_ns(text):
    value, unit = text.split()
    return round(float(value) * {'ns': 1, 'us': 1e3, 'ms': 1e6, 's': 1e9}[unit])


def test_printed_path():
    """The printed path joins ops of a device that follow each other, and its heading sums up by kind."""
    line = f'predict -s 1f1b -p 2 -m 4 --costs {COSTS} --explain'
    row, text = rows(line)[0], pipesim(line)
    sums = {}
    for part in row['critical_path']:
        kind = re.match('[A-Z]+', part['op'])[0] if part['kind'] == 'op' else 'transfers'
        sums[kind] = sums.get(kind, 0) + part['end_ns'] - part['start_ns']
    heading = re.search(r'^critical path, simulated: (.*?) = (.*?)(?:; then (.*))?$', text, re.M)
    equal('heading', time_ns(heading[1]), row['makespan_ns'])
    equal('after it', sum(time_ns(item.split(' ', 1)[1]) for item in heading[3].split(', ')), row['iteration_ns'] - row['makespan_ns'])
    equal('sums', {item.split(' ', 1)[0]: time_ns(item.split(' ', 1)[1]) for item in heading[2].split(', ')}, sums)
    table = re.findall(r'^ *([\d.]+ \w+) +([\d.]+ \w+) +([\d.]+ \w+)  (device \d+|\d+ -> \d+) +(.*)$', text, re.M)
    expected, parts = [], row['critical_path']
    for part in parts:
        where = f'{part["device"]} -> {part["peer"]}' if part['kind'] == 'transfer' else f'device {part["device"]}'
        if expected and part['kind'] == 'op' and expected[-1][3] == where:
            expected[-1][1] = part['end_ns']
            expected[-1][4].append(part['op'])
        else:
            expected.append([part['start_ns'], part['end_ns'], 0, where, [part['op']] if part['kind'] == 'op' else f'transfer of {part["op"]}'])
    equal('rows', len(table), len(expected))
    for shown, (start, end, _, where, what) in zip(table, expected):
        words = what if isinstance(what, str) else what[0] if len(what) == 1 else f'{what[0]} and {what[1]}' if len(what) == 2 else f'{what[0]} to {what[-1]}, without a gap'
        equal('row', (time_ns(shown[0]), time_ns(shown[1]), time_ns(shown[2]), shown[3], shown[4]), (start, end, end - start, where, words))


def test_path_rows():
    """40 rows of a path are all that is printed; more are counted. One microbatch through 20 devices without transfers, and O: 39 parts and one."""
    for p, shown, more in ((20, 40, None), (21, 40, 2)):
        text = pipesim(f'predict -s naive -p {p} -m 1 --costs f=1us,b=1us,w=1us,o=1us --sync bypass --explain')
        text = text[text.index('critical circle'):text.index('idle time')]
        equal('rows', len(re.findall(r'  device \d+  ', text)), shown)
        assert ('rows more' in text) == (more is not None) and (more is None or f'and {more} rows more' in text), text[-60:]


def test_shares():
    """What diagnose sums up of a path, by kind and by stage; a pair is of the stage of its F."""
    for line in ('-s zb-h1 -p 2 -m 4', '-s dualpipe-v -p 2 -m 6'):
        pipesim(f'predict {line} --costs f=10us,b=11us,w=7us,c=2us -o t.json')
        row = json.loads(pipesim('diagnose t.json --json -t 0'))['results'][0]
        kinds, stages = {}, {}
        for part in row['critical_path']:
            time, names = part['end_ns'] - part['start_ns'], (part['op'] or '').split('+')
            kind = {'transfer': 'transfers', 'wait': 'waits'}.get(part['kind']) or ('pairs' if len(names) > 1 else re.match('[A-Z]+', names[0])[0])
            kinds[kind] = kinds.get(kind, 0) + time
            if part['kind'] == 'op':
                name = next((name for name in names if name[0] == 'F'), names[0])
                stage = 'stage ' + name.split('.')[1].split('/')[0]
                stages[stage] = stages.get(stage, 0) + time
        for key, sums in (('path_kinds', kinds), ('path_stages', stages)):
            equal(f'{line}: {key}', {one['part']: one['time_ns'] for one in row[key]}, {part: time for part, time in sums.items() if time})
            for one in row[key]:
                equal('share', one['share'], one['time_ns'] / row['makespan_ns'], 1e-9)
        if 'dualpipe' in line:
            assert 'pairs' in kinds


def test_gain():
    """The gain of a layout over the even one is that of two predictions."""
    line = 'predict -s 1f1b -p 8 -m 16 --model gpt-1.5b --cluster a100-80gb'
    best, even = rows(line)[0], rows(line + ' --layout even')[0]
    assert best['iteration_ns'] < even['iteration_ns']
    wanted = f'1f1b: layout {best["layout"]}: {100 * (even["iteration_ns"] / best["iteration_ns"] - 1):.1f} % faster than even'
    assert wanted in pipesim(line).replace('\n', ' '), wanted


def test_order():
    """What fits, by time; then what does not; then what is asynchronous."""
    all_rows = rows('predict -s all -p 4 -m 8 --costs f=1ms,b=1ms,w=1ms,c=100us,act=2MiB,wact=1MiB --memory-limit 10MiB')
    keys = [(one['asynchronous'], not one['feasible'], one['iteration_ns']) for one in all_rows]
    equal('order', keys, sorted(keys))
    assert {key[:2] for key in keys} >= {(False, False), (False, True), (True, False)}, 'a group is missing'
    for one in all_rows:
        equal(f'{one["schedule"]} fits', one['feasible'], one['peak_memory_bytes'] <= 10 * MIB)
        equal(f'{one["schedule"]} fits', one['fits'], 'yes' if one['feasible'] else 'no')


def test_spread():
    """A straggler in every iteration is a slower device; in half of them, half of the samples are slow."""
    line = 'predict -s 1f1b,zb-h1 -p 2 -m 4 --costs f=10us,b=11us,w=7us,c=2us --samples 400'
    plain = {one['schedule']: one['iteration_ns'] for one in rows(line.replace(' --samples 400', ''))}
    slow = {one['schedule']: one['iteration_ns'] for one in rows(line.replace(' --samples 400', '') + ' --speed 0.5:1')}
    for one in rows(line + ' --straggler 0:2'):
        spread = one['spread'][0]
        equal('samples', spread['samples'], 400)
        equal('deviation', spread['deviation_ns'], 0)
        for key in spread:
            if key.endswith('_ns') and key != 'deviation_ns':
                equal(f'{one["schedule"]} {key}', spread[key], slow[one['schedule']])
    for one in [rows(line.replace('1f1b,zb-h1', name) + ' --straggler 0:2:0.25 --seed 7')[0] for name in plain]:
        spread, a, b = one['spread'][0], plain[one['schedule']], slow[one['schedule']]
        part = (spread['mean_ns'] - a) / (b - a)
        assert abs(part - 0.25) < 0.08, f'{part} of the samples are slow'
        equal('seed', spread['seed'], 7)
        equal('p50', spread['p50_ns'], a)
        equal('p99', spread['p99_ns'], b)
        equal('deviation', spread['deviation_ns'], (b - a) * math.sqrt(part * (1 - part) * 400 / 399), 2)
        half = 1.96 * spread['deviation_ns'] / 20
        equal('lower end of the mean', spread['mean_low_ns'], spread['mean_ns'] - half, half / 50)
        equal('upper end of the mean', spread['mean_high_ns'], spread['mean_ns'] + half, half / 50)
    first, second = sorted(rows(line + ' --straggler 0:2'), key=lambda one: one['iteration_ns'])
    equal('the faster one wins', (first['wins'][0]['over'], first['wins'][0]['probability']), (second['schedule'], 1))
    equal('the slower one loses', (second['wins'][0]['over'], second['wins'][0]['probability']), (first['schedule'], 0))
    text = pipesim(line + ' --straggler 0:2')
    matrix = dict(re.findall(r'^ *\d (\S+) +(.*)$', text[text.index("part of the samples"):], re.M))
    equal('matrix', {name: cells.split() for name, cells in matrix.items()}, {first['schedule']: ['-', '1.0000'], second['schedule']: ['0.0000', '-']})


def test_measured_spread():
    """Samples of measured costs: around the median of the runs, and no wider than the measurements."""
    pipesim('exec -s 1f1b -p 2 -m 2 --model tiny-gpt --device cpu --steps 3 --trace run.json')
    pipesim('calib import --db costs.db --profile here --model tiny-gpt run.json')
    row, = rows('predict -s 1f1b -p 2 -m 2 --db costs.db --jitter measured --samples 50')
    spread = row['spread'][0]
    equal('samples', spread['samples'], 50)
    assert spread['p50_low_ns'] <= spread['p50_ns'] <= spread['p90_ns'] <= spread['p99_ns'] and spread['deviation_ns'] > 0
    low, = rows('predict -s 1f1b -p 2 -m 2 --db costs.db --jitter 0 --samples 50')
    equal('no jitter', (low['spread'][0]['mean_ns'], low['spread'][0]['deviation_ns']), (low['iteration_ns'], 0))


# ---- partition

LAYERS = [('a', 3000, 4000, 100), ('b', 5000, 2000, 200), ('c', 2000, 6000, 300), ('d', 8000, 1000, 400), ('e', 1000, 3000, 500), ('f', 4000, 2000, 600), ('g', 6000, 0, 700)]


def cuts(n, parts):
    if parts == 1:
        yield (n,)
        return
    for first in range(1, n - parts + 2):
        for rest in cuts(n - first, parts - 1):
            yield (first, *rest)


def test_partition():
    """Every figure of the stages from the layers, and the bottleneck against all cuts. 1 GB/s is 1 ns per byte."""
    with open('layers.csv', 'w', newline='') as file:
        csv.writer(file).writerows([('layer', 'time', 'activation_bytes', 'parameter_bytes'), *LAYERS])
    for p, speeds in [(2, None), (3, None), (4, None), (3, (1, 0.5, 2)), (7, None)]:
        option = f' --speed {":".join(map(str, speeds))}' if speeds else ''
        speed = speeds or [1] * p
        answers = rows(f'partition --layers layers.csv -p {p} --bandwidth 1GB/s --algorithm all -s 1f1b -m 4{option}')

        def slowest(cut):
            first, most = 0, 0
            for s, n in enumerate(cut):
                stage = LAYERS[first:first + n]
                first += n
                most = max(most, round(sum(layer[1] for layer in stage) / speed[s]), 2 * stage[-1][2] if s + 1 < p else 0)
            return most

        best = min(map(slowest, cuts(len(LAYERS), p)))
        times = [one['iteration_ns'] for one in answers if one['iteration_ns'] is not None]
        equal('order', times, sorted(times))
        for one in answers:
            first, work = 0, sum(layer[1] for layer in LAYERS)
            if any(stage['replicas'] > 1 for stage in one['stages']) or one['algorithm'].startswith('pipedream'):
                continue
            for s, stage in enumerate(one['stages']):
                own = LAYERS[stage['first']:stage['last'] + 1]
                equal('stage', (stage['stage'], stage['first']), (s, first))
                equal('names', (stage['first_layer'], stage['last_layer']), (own[0][0], own[-1][0]))
                equal('time', stage['time_ns'], round(sum(layer[1] for layer in own) / speed[s]))
                equal('link', stage['link_ns'], 2 * own[-1][2] if s + 1 < p else None)
                equal('parameters', stage['parameter_bytes'], sum(layer[3] for layer in own))
                # F keeps the layers' activations; weights, gradients and optimizer state are four times the weights.
                equal('memory', stage['memory_bytes'], 4 * stage['parameter_bytes'] + min(4, p - s) * sum(layer[2] for layer in own))
                first = stage['last'] + 1
            equal('end', first, len(LAYERS))
            equal('bottleneck', one['bottleneck_ns'], slowest([stage['last'] - stage['first'] + 1 for stage in one['stages']]))
            equal('balance', one['balance'], work / sum(speed) / one['bottleneck_ns'], 1e-9)
            if not speeds:
                predicted = rows(f'predict -s 1f1b -p {p} -m 4 --costs {one["costs"]}')[0]
                equal(f'{one["algorithm"]} simulated', one['iteration_ns'], predicted['iteration_ns'])
            assert one['bottleneck_ns'] >= best
            if one['algorithm'] == 'bottleneck':
                equal('smallest bottleneck', one['bottleneck_ns'], best)


def test_partition_limits():
    """At the limit of each device's memory a partition fits, a byte below it does not."""
    line = 'partition --layers layers.csv -p 3 --bandwidth 1GB/s --algorithm {} --memory-limit {}'
    stages = rows(line.format('bottleneck', '1GiB'))[0]['stages']
    need = [stage['memory_bytes'] for stage in stages]
    equal('memory without -m', need[0], 4 * stages[0]['parameter_bytes'] + 3 * sum(layer[2] for layer in LAYERS[:stages[0]['last'] + 1]))
    for d in range(3):
        exact = ':'.join(f'{n}B' for n in need)
        less = ':'.join(f'{n - (i == d)}B' for i, n in enumerate(need))
        for limits, answer in ((exact, 'yes'), (less, 'no')):
            one, = rows(line.format('bottleneck', limits))
            equal(f'{limits}', (one['fits'], one['feasible']), (answer, answer == 'yes'))
    # With a schedule the peaks are those of its simulation.
    line += ' -s 1f1b -m 4'
    one, = rows(line.format('bottleneck', '1GiB'))
    need = [device['peak_memory_bytes'] for device in rows(f'predict -s 1f1b -p 3 -m 4 --costs {one["costs"]}')[0]['devices_detail']]
    for d in range(3):
        for less, answer in ((0, 'yes'), (1, 'no')):
            one, = rows(line.format('bottleneck', ':'.join(f'{n - less * (i == d)}B' for i, n in enumerate(need))))
            equal(f'{less} B less on device {d}, simulated', (one['fits'], one['feasible']), (answer, answer == 'yes'))


def test_speeds():
    """A stage of two weight copies wants two devices of one speed, whatever is asked first."""
    for algorithm in ('schedule', 'bottleneck'):
        made = subprocess.run([BIN, *f'partition --layers layers.csv -p 2 -m 4 -s dualpipe -a {algorithm} --speed 1:0.5 --bandwidth 1GB/s'.split()], capture_output=True, text=True)
        equal('exit code', made.returncode, 2)
        assert '--speed: stage 0 lives on devices 0 and 1, which would need the same speed' in made.stderr, made.stderr
    rows('partition --layers layers.csv -p 2 -m 4 -s dualpipe -a schedule --speed 0.5:0.5 --bandwidth 1GB/s')


def test_replicas():
    """PipeDream's recurrence gives a slow layer replicas."""
    with open('slow.csv', 'w') as file:
        file.write('layer,time,activation_bytes,parameter_bytes\na,1000,10,1\nb,9000,10,1\nc,1000,10,1\n')
    line = 'partition --layers slow.csv -p 3 --bandwidth 1GB/s -a pipedream'
    assert max(stage['replicas'] for stage in rows(line)[0]['stages']) > 1


def test_missing_memory():
    """The least bytes more on every device with which a partition fits: state is 40 B of each layer. With activations of 100 B, of which the first of
    two stages keeps two: max (40 + 200, 80 + 100 * 2) - 200. Layers without times or activations need 80 B on one device."""
    for name, layer, limit, missing in [('times', '1,100,10', 200, 80), ('no-times', '0,100,10', 200, 80), ('nothing', '0,0,10', 70, 10), ('nothing', '0,0,10', 79, 1)]:
        with open(f'{name}.csv', 'w') as file:
            file.write('layer,time,activation_bytes,parameter_bytes\n' + ''.join(f'{one},{layer}\n' for one in 'abc'))
        line = f'partition --layers {name}.csv -p 2 -a memory-aware --bandwidth 1GB/s --memory-limit'
        made = subprocess.run([BIN, *f'{line} {limit}B'.split()], capture_output=True, text=True)
        equal('exit code', made.returncode, 1)
        assert f' {missing} B ({missing} bytes) more on every device would do' in made.stderr, made.stderr
        equal('with these', rows(f'{line} {limit + missing}B')[0]['fits'], 'yes')
        equal('with a byte less', subprocess.run([BIN, *f'{line} {limit + missing - 1}B'.split()], capture_output=True).returncode, 1)


# ---- schedules drawn

def drawn_rows(timeline):
    """The rows of a drawing in cells: a cell is the longest time that divides all others, as wide as the widest name and a blank. An op fills the cells
    from its start to its end, its name first. If that were more than 160 characters, a character is a 160th of the time, and the rows are None."""
    names, many = [], timeline['stages'] > timeline['devices']
    for op in timeline['ops']:
        name = op[1].rstrip('+') if many else re.sub(r'\.\d+', '', op[1].rstrip('+'))
        if names and names[-1][0][1].endswith('+') and names[-1][0][0] == op[0] and '+' not in names[-1][1]:
            names[-1][1] += f'+{name}'
        else:
            names.append([op, name])
    end = max(op[3] for op in timeline['ops'])
    cell, width = math.gcd(*(time for op in timeline['ops'] for time in op[2:4])), max(len(name) for _, name in names) + 1
    if end // cell > 160 // width:
        return -(-end // 160), 1, None
    lines = []
    for d in range(timeline['devices']):
        line = list(('.' + ' ' * (width - 1)) * (end // cell))
        for op, name in names:
            first, last = (time // cell * width for time in op[2:4])
            if op[0] != d or first == last:
                continue
            body = (' ' if last - first <= width else '=') * (last - first - 1) + ' '
            line[first:last] = (name + body[len(name):])[:last - first]
        lines.append(''.join(line).rstrip())
    return cell, width, lines


def read_all(end):
    try:
        return os.read(end, 65536)
    except OSError:  # Linux says so at the end
        return b''


def test_show():
    for schedule, size, costs in [('zb-h1', '-p 2 -m 3', 'f=1ms,b=1ms,w=1ms'), ('1f1b', '-p 4 -m 12', 'f=1ms,b=1ms,w=1ms'), ('zb-v', '-p 2 -m 4', 'f=2ms,b=4ms,w=2ms'),
                                  ('gpipe', '-p 3 -m 2', 'f=1ms,b=1ms,w=1ms,c=500us'), ('dualpipe-v', '-p 2 -m 4', 'f=2ms,b=4ms,w=2ms'), ('zb-h1', '-p 3 -m 9', 'f=7us,b=9us,w=5us,c=333ns'),
                                  ('seq1f1b', '-p 2 -m 3', 'f=2ms,b=2ms,w=2ms')]:
        text = pipesim(f'schedule show {schedule} {size} --costs {costs}').split('\n')
        cell, width, lines = drawn_rows(timeline_of(f'predict -s {schedule} {size} --costs {costs}'))
        shown = time_ns(re.search(r'a cell is ([\d.]+ \w+)', text[0])[1])
        equal(f'cell of {schedule}', round(shown / cell, 3), 1)
        if lines is None:
            check_columns(schedule, timeline_of(f'predict -s {schedule} {size} --costs {costs}'), [line[6:] for line in text[1:]], cell)
            continue
        for d, line in enumerate(lines):
            equal(f'{schedule} {size}: device {d}', text[1 + d], f'{d:3} | {line}')
        # On a terminal the same on colours, without '='.
        ends = os.openpty()
        subprocess.run([BIN, *f'schedule show {schedule} {size} --costs {costs}'.split()], stdout=ends[1], env={**os.environ, 'COLUMNS': '1000'})
        os.close(ends[1])
        painted = b''
        while chunk := read_all(ends[0]):
            painted += chunk
        os.close(ends[0])
        painted = painted.decode().replace('\r', '').split('\n')
        for d, line in enumerate(lines):
            equal(f'{schedule}: painted device {d}', re.sub('\033\\[[\\d;]+m', '', painted[1 + d]).rstrip(), f'{d:3} | {line}'.replace('=', ' ').rstrip())
            for colour, piece in re.findall('\033\\[([\\d;]+)m([^\033]*)\033\\[0m', painted[1 + d]):
                kinds = {'.': ['90'], 'F': ['25', '74'], 'BW': ['166', '209'], 'B': ['36', '79'], 'W': ['178', '222'], '+': ['60']}
                kind = '+' if '+' in piece else re.match(r'BW|[A-Z]|\.', piece)[0]
                assert colour.split(';')[-1] in kinds[kind], f'{schedule}: colour {colour} of "{piece}"'
        # In a narrow window whole cells are folded.
        folded = subprocess.run([BIN, *f'schedule show {schedule} {size} --costs {costs}'.split()], capture_output=True, text=True, env={**os.environ, 'COLUMNS': '53'}).stdout
        room = 47 // width * width
        blocks = [block.split('\n') for block in folded.rstrip('\n').split('\n\n')]
        for d, line in enumerate(lines):
            pieces = [[row[6:] for row in block if row.startswith(f'{d:3} |')][0] for block in blocks]
            assert all(len(piece) <= room for piece in pieces), f'{schedule}: a line of more than {room}'
            equal(f'{schedule}: folded device {d}', ''.join(piece.ljust(room) for piece in pieces).rstrip(), line)


def check_columns(schedule, timeline, rows, cell=None):
    """A column is '.' where a device is idle for more than half of it; else it belongs to an op that lies there."""
    end, sliced = max(op[3] for op in timeline['ops']), any('/' in op[1] for op in timeline['ops'])
    for d in range(timeline['devices']):
        cells, ops, owner, named = rows[d], [op for op in timeline['ops'] if op[0] == d], None, 0
        # The second op of a pair lies where the first does.
        ops = [op for i, op in enumerate(ops) if i == 0 or not ops[i - 1][1].endswith('+')]
        n = len(cells)
        for c in range(n):
            begin, until = (c * cell, (c + 1) * cell) if cell else (int(end * c / n), int(end * (c + 1) / n))
            lying = [(min(op[3], until) - max(op[2], begin), op) for op in ops if op[2] < until and op[3] > begin]
            busy = sum(time for time, _ in lying)
            equal(f'{schedule}: device {d}, column {c} is idle', cells[c] == '.', 2 * busy < until - begin)
            if cells[c] == '.':
                continue
            if cells[c].isalpha() and c >= named:
                owner = re.match(r'(BW|bw|[A-Z]|[a-z])(?:(\d+)[a-z])?' if sliced else r'(BW|bw|[A-Z]|[a-z])(\d+)?', cells[c:])
                named = c + len(owner[0])
            kind, number = owner[1].upper(), owner[2] or ''
            mine = [op for _, op in lying if (op[1].endswith('+') if kind == 'P' else re.match(kind, op[1]) and not op[1].endswith('+'))
                    and (number == '' or re.match(f'[A-Z]+{number}\\.', op[1])) and (op[4] > 0) == owner[1].islower()]
            assert mine, f'{schedule}: no {owner[0]} on device {d} in column {c}'


def test_terminal():
    """A window is filled; ticks are at their times."""
    for schedule, size, columns in [('zb-h1', '-p 2 -m 4', 80), ('1f1b', '-p 4 -m 6', 100), ('zb-v', '-p 3 -m 6', 140), ('gpipe', '-p 12 -m 5', 90)]:
        timeline = timeline_of(f'predict -s {schedule} {size} --costs f=10us,b=11us,w=7us,c=2us')
        text = subprocess.run([BIN, 'plot', 'timeline', 't.json', '--terminal'], capture_output=True, text=True, env={**os.environ, 'COLUMNS': str(columns)}).stdout.split('\n')
        p, end = timeline['devices'], max(op[3] for op in timeline['ops'])
        label, n = 6, columns - 6
        for d in range(p):
            equal('label', text[1 + d][:label], f'{d:3} | ')
            equal('length', len(text[1 + d]), columns)
        check_columns(schedule, timeline, [line[label:] for line in text[1:1 + p]])
        marks, times = text[1 + p], text[2 + p]
        ticks = [c - label for c, sign in enumerate(marks) if sign == '+']
        assert len(ticks) >= 4
        for c in ticks[:-1]:
            equal('tick', c, int(time_ns(re.match(r'[\d.]+ \w+', times[label + c:])[0]) / end * n + 1e-6))
        equal('line of marks', set(marks[label:]), {'+', '-'})
        assert all(len(line) <= columns for line in text[1:]), 'a line is longer than the window'
    legends = [('zb-v -p 3 -m 6', 'small letters: later chunks'), ('dualpipe -p 2 -m 4', 'small letters: second direction'), ('seq1f1b -p 2 -m 2', 'letter after it: slice')]
    for line, words in legends:
        pipesim(f'predict -s {line} --costs f=10us,b=11us,w=7us -o t.json')
        for columns in (60, 100, 200):
            text = subprocess.run([BIN, 'plot', 'timeline', 't.json', '--terminal'], capture_output=True, text=True, env={**os.environ, 'COLUMNS': str(columns)}).stdout
            assert words in text.replace('\n', ' '), f'{line}: no "{words}"'
            legend = text.rstrip('\n').split('\n')[text.count('\n', 0, text.index('F  forward')):]
            assert all(len(one) <= columns for one in legend), f'{line}: the legend is wider than {columns}'
            # Entries go on a new line only where they would leave the window.
            for one, next_one in zip(legend, legend[1:]):
                assert len(one) + 2 + len(re.split('  (?=[A-Z]+  |small|number)', next_one)[0]) + 2 > columns, f'{line}: "{one}" has room for more'


def test_refused():
    """What is refused says so in one line, and does nothing: no output, no file."""
    costs = '--costs f=1ms,b=1ms,w=1ms'
    lines = ['schedule show zb-h1 -p 2 -m 3 --offload 2', 'schedule show zb-h1 -p 2 -m 3 --bad', f'schedule show zb-h1 -p 2 -m 3 {costs} --db x.db', f'schedule validate zb-h1 -p 2 -m 3 {costs} --db x.db',
             'schedule validate zb-h1 -p 2 -m 3 more', 'schedule list more', 'schedule validate', 'schedule show zb-h1 -p 2 -m 3 --json', f'schedule convert zb-h1 -p 2 -m 3 {costs} --db x.db --to native -o x.json',
             'schedule convert zb-h1 -p 2 -m 3 --to nothing -o x.json', 'schedule convert zb-h1 -p 2 -m 3 --to native', 'schedule lint zb-h1 -p 2 -m 3 --bad',
             f'predict -s 1f1b -p 2 -m 4 {costs} --db x.db', f'predict -s 1f1b,gpipe -p 2 -m 4 {costs} --explain', f'predict -s 1f1b -p 2 -m 4 {costs} --faster 5', f'predict -s 1f1b -p 2 -m 4 {costs} --samples 5',
             f'predict -s 1f1b,gpipe -p 2 -m 4 {costs} -o x.json', f'predict -s 1f1b -p 2 -m 4 {costs} more', f'predict -p 2 -m 4 {costs}', f'predict -s 1f1b -p 2 -m 4 {costs} --to megatron --json',
             f'search -p 2 -m 4 {costs} --time-limit 0', f'search -p 2 {costs}', f'search -m 4 {costs}', f'search -p 2 -m 4 {costs} more', f'search -p 2 -m 4 {costs} --objective p90', f'search -p 2 -m 4 {costs} --samples 5',
             f'search -p 2 -m 4 {costs} --jitter 0.1', f'search -p 2 -m 4 {costs} --microbatch-size 2', f'search -p 3 -m 4 {costs} --placement bidirectional --moves 1', f'search -p 2 -m 4 {costs} --to megatron',
             'partition --layers layers.csv -p 2', 'partition --layers layers.csv -p 2 --bandwidth 1GB/s more', 'partition --layers layers.csv -p 2 --bandwidth 1GB/s -a all --print-costs',
             'partition --layers layers.csv -p 2 --bandwidth 1GB/s --json --print-costs', 'partition --layers layers.csv -p 2 --bandwidth 1GB/s -a memory-aware', 'plan --model tiny-gpt --cluster cpu-cores',
             'plan --model tiny-gpt --cluster cpu-cores --global-batch 4 --explain 1 --json', 'plan --model tiny-gpt --cluster cpu-cores --global-batch 4 more', 'plan --model tiny-gpt --cluster cpu-cores --global-batch 4 --top 1 --explain 2',
             'sweep spec.ini', 'sweep --db x.db', 'sweep spec.ini more --db x.db', 'sweep merge x.db', 'best', 'best all.db more', 'best all.db --json --csv', 'best all.db --memory-limit much', 'pareto all.db --by schedule',
             'sensitivity all.db --over nothing', 'diagnose', 'diagnose t.json --json -o x.html', 'diagnose t.json --title x', 'diagnose t.json -o x.gif', 'diagnose t.json -p 3', f'diagnose t.json {costs}', 'compare t.json']
    for line in lines:
        files = set(os.listdir('.'))
        made = subprocess.run([BIN, *line.split()], capture_output=True, text=True)
        equal(f'{line}: exit code', made.returncode, 2)
        equal(f'{line}: output', made.stdout, '')
        equal(f'{line}: lines', made.stderr.count('\n'), 1)
        equal(f'{line}: files', set(os.listdir('.')), files)


# ---- search

def test_search():
    """An order that a search prints, as a schedule file, takes the time that was printed, and no shorter than its bound."""
    found = rows('search -p 2 -m 4 --costs f=10us:14us,b=11us,w=7us,c=2us,act=2MiB,wact=1MiB --moves 300')
    equal('placements', sorted((one['placement'], one['chunks'], one['microbatch_size'], one['offload']) for one in found), [('bidirectional', 1, None, '0'), ('loop', 1, None, '0')])
    keys = [(one['feasible'] is False, one['objective_ns']) for one in found]
    equal('order', keys, sorted(keys))
    for one in found:
        p, iteration = one['devices'], one['iteration_ns']
        busy = [device['busy_ns'] for device in one['devices_detail']]
        equal('bubble', one['bubble_ratio'], 1 - sum(busy) / p / iteration, 1e-9)
        equal('bubble of span', one['bubble_ratio_span'], 1 - sum(busy) / p / one['max_span_ns'], 1e-9)
        equal('gap', one['gap'], one['objective_ns'] / one['lower_bound_ns'] - 1, 1e-9)
        equal('proved', one['proved_optimal'], one['objective_ns'] <= one['lower_bound_ns'])
        equal('peak', one['peak_memory_bytes'], max(device['peak_memory_bytes'] for device in one['devices_detail']))
        equal('span', one['max_span_ns'], max(device['span_ns'] for device in one['devices_detail']))
        equal('ops', [len(order) for order in one['order']], [12, 12])
        assert iteration >= one['makespan_ns'] >= one['max_span_ns'] >= max(busy)


def test_search_options():
    """What is found in less memory fits it and takes no less time, and what is short for another objective is short by that."""
    line = 'search -p 2 -m 4 --costs f=10us,b=11us,w=7us,c=2us,o=1us,act=2MiB,wact=1MiB --placement loop --moves 300 '
    free = rows(line + '-o found.json')[0]
    for limit in (8 * MIB, 5 * MIB, 4 * MIB):
        tight = rows(line + f'--memory-limit {limit}B')[0]
        assert tight['peak_memory_bytes'] <= limit and tight['feasible'] and tight['iteration_ns'] >= free['iteration_ns']
    again = rows('predict -s found.json --costs f=10us,b=11us,w=7us,c=2us,o=1us,act=2MiB,wact=1MiB')[0]
    for key in ('iteration_ns', 'makespan_ns', 'max_span_ns', 'peak_memory_bytes', 'devices_detail', 'bubble_ratio'):
        equal(key, again[key], free[key])


# ---- sweeps and questions

def test_sweep():
    """The rows of a sweep are those of predict; parts of it, put together, are the whole."""
    with open('spec.ini', 'w') as file:
        file.write('[sweep]\nschedule = 1f1b, gpipe, zb-v, dualpipe\ndevices = 2, 3\nmicrobatches = 4, 6\ncosts = f=1ms,b=1ms,w=1ms,c=100us,act=2MiB,wact=1MiB\n')

    def sweep(line, counts):
        made = subprocess.run([BIN, *f'sweep {line}'.split()], capture_output=True, text=True)
        equal(line, made.stderr.split('\n')[0], counts)

    expected, impossible = {}, 0
    for schedule in ('1f1b', 'gpipe', 'zb-v', 'dualpipe'):
        for p in (2, 3):
            for m in (4, 6):
                made = subprocess.run([BIN, *f'predict -s {schedule} -p {p} -m {m} --costs f=1ms,b=1ms,w=1ms,c=100us,act=2MiB,wact=1MiB --json'.split()], capture_output=True, text=True)
                impossible += made.returncode != 0
                if made.returncode == 0:
                    expected[schedule, p, m] = json.loads(made.stdout)['results'][0]
    n = len(expected)
    assert impossible > 0
    sweep('spec.ini --db all.db --jobs 2', f'16 settings: {n} predicted, {impossible} impossible, 0 there before')
    sweep('spec.ini --db all.db --resume', f'16 settings: 0 predicted, 0 impossible, 16 there before')
    sweep('spec.ini --db all.db', 'pipesim sweep: all.db: holds 16 settings already; --resume goes on with the others')
    found = []
    for i in range(3):
        made = subprocess.run([BIN, *f'sweep spec.ini --db part-{i}.db --shard {i}/3'.split()], capture_output=True, text=True).stderr.split('\n')[0]
        match = re.fullmatch(rf'part {i + 1} of 3: (\d+) settings: (\d+) predicted, (\d+) impossible, 0 there before', made)
        equal('settings of a part', int(match[2]) + int(match[3]), int(match[1]))
        found.append(int(match[1]))
        assert os.path.exists(f'part-{i}.db')
    equal('settings of all parts', sum(found), 16)
    made = subprocess.run([BIN, 'sweep', 'merge', 'most.db', 'part-0.db', 'part-2.db'], capture_output=True, text=True).stderr
    assert f' {found[1]} missing; pipesim sweep with --resume predicts them' in made, made
    sweep('merge whole.db part-0.db part-1.db part-2.db', f'16 settings: {n} predicted, {impossible} impossible, 0 missing')
    for db in ('all.db', 'whole.db'):
        best = rows(f'best {db} --per devices,microbatches,schedule')
        equal('settings', {(one['schedule'], one['devices'], one['microbatches']) for one in best}, set(expected))
        for one in best:
            own = expected[one['schedule'], one['devices'], one['microbatches']]
            equal('time', one['iteration_ns'], own['iteration_ns'])
            equal('memory', one['peak_memory_bytes'], own['peak_memory_bytes'])
            equal('bubble', one['bubble_ratio'], own['bubble_ratio'], 1e-9)

    def time(key):
        return expected[key]['iteration_ns'] / key[2]

    for option, bound, figures in (('', False, False), (' --wide', True, True), (' --columns lower_bound_ns', True, False)):
        text = pipesim(f'best all.db --per devices{option}')
        equal(f'bound{option}', 'lower bound' in text, bound)
        equal(f'figures{option}', 'bubble of span' in text, figures)

    for one in rows('best all.db --per devices --top 2') + rows('best all.db --per devices --top 1'):
        group = sorted(time(key) for key in expected if key[1] == one['devices'] and key[2] == one['microbatches'])
        assert time((one['schedule'], one['devices'], one['microbatches'])) in group[:2], one
    for one in rows('best all.db --per devices'):
        own = time((one['schedule'], one['devices'], one['microbatches']))
        equal('the fastest', own, min(time(key) for key in expected if key[1:] == (one['devices'], one['microbatches'])))
    shown = {(one['schedule'], one['devices'], one['microbatches']) for one in rows('pareto all.db')}
    for key, own in expected.items():
        rivals = [(time(other), expected[other]['peak_memory_bytes']) for other in expected if other[1:] == key[1:]]
        mine = time(key), own['peak_memory_bytes']
        beaten = any(a <= mine[0] and b <= mine[1] and (a, b) != mine for a, b in rivals)
        if key in shown or rivals.count(mine) == 1:
            equal(f'{key} on the front', key in shown, not beaten)
    # The same figures in other forms.
    text = list(csv.reader(pipesim('best all.db --per devices,microbatches --csv').splitlines()))
    listed = rows('best all.db --per devices,microbatches')
    equal('rows as CSV', len(text) - 1, len(listed))
    for line, one in zip(text[1:], listed):
        for key, cell in zip(text[0], line):
            if isinstance(one.get(key), (int, float)) and not isinstance(one[key], bool):
                equal(f'{key} as CSV', float(cell), float(one[key]), 1e-6 * abs(one[key]))
    markdown = [line for line in pipesim('best all.db --per devices,microbatches --markdown').split('\n') if line.startswith('|')]
    equal('rows as Markdown', len(markdown) - 2, len(listed))
    for limit in (7, 12):
        answers = rows(f'best all.db --per devices --memory-limit {limit}MiB')
        for one in answers:
            fit = [time(key) for key, own in expected.items() if key[1:] == (one['devices'], one['microbatches']) and own['peak_memory_bytes'] <= limit * MIB]
            equal(f'the fastest within {limit} MiB', time((one['schedule'], one['devices'], one['microbatches'])), min(fit))


def test_steady():
    """Without a barrier: the circle is as long as its iterations, and idle time is what ops and O leave of one."""
    several = 0
    for schedule, size in [('zb-h1', '-p 2 -m 4'), ('1f1b', '-p 3 -m 4'), ('zb-h2', '-p 2 -m 3'), ('pipedream', '-p 3 -m 4')]:
        line = f'predict -s {schedule} {size} --costs f=10us,b=11us,w=7us,c=9us,o=5us --sync bypass'
        row = rows(line + ' --explain')[0]
        n, path = row['critical_iterations'], row['critical_path']
        several += n > 1
        equal('length', path[-1]['end_ns'] - path[0]['start_ns'], n * row['iteration_ns'], n)
        for before, after in zip(path, path[1:]):
            equal('gap', before['end_ns'], after['start_ns'])
        for d, (idle, device) in enumerate(zip(row['idle'], row['devices_detail'])):
            equal(f'idle time of {d}', idle['idle_ns'], row['iteration_ns'] - device['busy_ns'] - 5000)
            on_path = sum(part['end_ns'] - part['start_ns'] for part in path if part['kind'] == 'op' and part['device'] == d)
            equal(f'on the path on {d}', idle['critical_ns'], on_path // n)
        equal('slack', row['slack'], None)
    assert several > 0


# ---- plan

def test_plan():
    """A row of plan is what its own command predicts; counts add up; figures follow from the step."""
    answer = json.loads(pipesim('plan --model tiny-gpt --cluster cpu-cores --global-batch 8 --top 6 --json'))
    counts = [int(word) for word in re.findall(r'(\d+)(?= settings| predicted to fit| predicted not to| whose weights| that cannot| impossible)', answer['search'])]
    equal('settings', counts[0], sum(counts[1:]))
    flops = float(re.search(r'MFU = ([\d.e+]+) FLOP', answer['formula'])[1])
    peak = float(re.search(r'\* ([\d.e+]+) FLOP/s', answer['formula'])[1])
    gpus = int(re.search(r'on (\d+) GPUs', answer['about'])[1])
    text = pipesim('plan --model tiny-gpt --cluster cpu-cores --global-batch 8 --top 6')
    head = ' '.join(answer[key] for key in ('about', 'memory', 'search', 'formula'))
    assert ' '.join(text.split()).startswith(' '.join(head.split())), text[:200]
    equal('rows', re.findall(r'^ *(\d+)  (\S+)  ', text, re.M), [(str(one['rank']), one['schedule']) for one in answer['results']])
    equal('ranks', [one['rank'] for one in answer['results']], list(range(1, len(answer['results']) + 1)))
    steps = [one['step_ns'] for one in answer['results']]
    equal('order', steps, sorted(steps))
    for one in answer['results']:
        equal('GPUs', one['devices'] * one['tensor'] * one['context'] * one['replicas'], gpus)
        equal('batch', one['replicas'] * one['microbatch_size'] * one['microbatches'], 8)
        equal('tokens', one['tokens_per_second'], 8 * 128 * 1e9 / one['step_ns'], 1e-3)
        equal('MFU', one['mfu'], flops / (one['step_ns'] / 1e9 * gpus * peak), 1e-5)
        command = one['command'].replace('pipesim ', '', 1).replace('--schedule', '-s')
        row = rows(command)[0]
        equal(command, (row['iteration_ns'], row['peak_memory_bytes'], row['schedule']), (one['step_ns'], one['peak_memory_bytes'], one['schedule']))
        equal('bubble', row['bubble_ratio'], one['bubble_ratio'], 1e-9)
        near = one['near'].split(', ') if one['near'] else []
        assert one['schedule'] not in near and len(set(near)) == len(near)


TESTS = [test_explained, test_memory_by_hand, test_what_if, test_printed_path, test_path_rows, test_shares, test_gain, test_order, test_spread, test_partition, test_partition_limits, test_replicas, test_speeds, test_missing_memory, test_measured_spread,
         test_show, test_terminal, test_search, test_search_options, test_sweep, test_steady, test_plan, test_refused]


def main():
    failed = 0
    print(f'1..{len(TESTS)}')
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number, test in enumerate(TESTS, 1):
            try:
                test()
                print(f'ok {number} {test.__name__[5:]}')
            except (AssertionError, KeyError, IndexError, ValueError, TypeError, StopIteration) as error:
                failed += 1
                trace = error.__traceback__
                while trace.tb_next is not None:
                    trace = trace.tb_next
                print(f'not ok {number} {test.__name__[5:]}\n# {type(error).__name__}: {error} (line {trace.tb_lineno})')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
