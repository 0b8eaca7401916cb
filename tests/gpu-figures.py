"""gpu-figures.py - makes the tables of tests/gpu.sh. The last line, behind "= ", sums up.

run DEVICES MICROBATCHES NAME RUN.json   one line of runs.csv from what pipesim exec --json has printed
accuracy RUNS.csv                   predicted against executed iteration times
shares PROFILE.json                 what busy neighbours, cold and warm caches and launching do to ops
layer LAYER.json PROFILE.json       a layer here against PyTorch's
launching PROFILE.json GRAPHS.json  what launching ops costs kernel by kernel and as CUDA graphs"""
import csv
import json
import os
import statistics
import sys

COLUMNS = ['devices', 'microbatches', 'schedule', 'predicted_ns', 'executed_ns', 'bubble', 'peak_bytes', 'check']


def load(path):
    with open(path, encoding='utf-8') as file:
        return json.load(file)


def table(titles, rows):
    print('| ' + ' | '.join(titles) + ' |')
    print('|' + '---|' * len(titles))
    for row in rows:
        print('| ' + ' | '.join(row) + ' |')
    print()


def percent(ratio):
    return f'{100 * (ratio - 1):+.2f} %'


def run(devices, microbatches, schedule, path):
    result = load(path)['results'][0]
    csv.writer(sys.stdout, lineterminator='\n').writerow(
        [devices, microbatches, schedule, result.get('predicted_iteration_ns') or '',
         result['iteration_ns'], result['bubble_ratio'], result['peak_memory_bytes'], result['check']])


def accuracy_of(devices, rows):
    """One number of devices: errors, and how good the schedule that was predicted best really is."""
    for row in rows:
        row['predicted'], row['executed'] = int(row['predicted_ns']), int(row['executed_ns'])
        row['ratio'] = row['predicted'] / row['executed']
    rows.sort(key=lambda row: row['executed'])
    table([f'p = {devices}', 'predicted', 'executed', 'error', 'check'],
          [[row['schedule'], f"{row['predicted'] / 1e6:.3f} ms", f"{row['executed'] / 1e6:.3f} ms", percent(row['ratio']),
            row['check']] for row in rows])
    errors = sorted(abs(row['ratio'] - 1) for row in rows)
    chosen = min(rows, key=lambda row: row['predicted'])
    return (f"p = {devices}: error {100 * statistics.median(errors):.2f} % median, {100 * errors[-1]:.2f} % largest of "
            f"{len(errors)}; {chosen['schedule']}, best by prediction, is {percent(chosen['executed'] / rows[0]['executed'])} "
            f"against {rows[0]['schedule']}, the really best")


def accuracy(path):
    with open(path, encoding='utf-8') as file:
        rows = [dict(zip(COLUMNS, row)) for row in csv.reader(file)]
    known = [row for row in rows if row['predicted_ns']]
    summary = [accuracy_of(devices, [row for row in known if row['devices'] == devices])
               for devices in sorted({row['devices'] for row in known}, key=int)]
    print('= ' + ('; '.join(summary) or f'{len(rows)} runs, none of them predicted'))


def launching_us(rows):
    """What the host takes beyond the GPU for each op, by kind."""
    times = {}
    for row in rows:
        if row['subject'] == 'op' and row.get('launch_ns'):
            times.setdefault(row['kind'], []).append(row['launch_ns'] / 1e3)
    return times


def launching(plain_path, graphs_path):
    plain, graphs = (launching_us(load(path)['measurements']) for path in (plain_path, graphs_path))
    texts = [f'{kind} {statistics.median(plain[kind]):.1f} us, as a graph {statistics.median(graphs[kind]):.1f} us'
             for kind in plain if kind in graphs]
    print('= launching an op: ' + ('; '.join(texts) or 'not known'))


def shares(path):
    """Every op against itself alone, caches as in real runs, with the same share of the accelerator."""
    rows = load(path)['measurements']
    ops = [row for row in rows if row['subject'] == 'op']
    alone = {(row['shape'], row['kind'], row['sharing']): row['median_ns'] for row in ops
             if row['devices'] == 1 and row['cache'] == 'run'}
    ratios = {}
    for row in ops:
        what = f"{row['devices']} busy" if row['cache'] == 'run' else row['cache'] + ' cache'
        own = alone.get((row['shape'], row['kind'], row['sharing']))
        if own and what != '1 busy':
            ratios.setdefault((what, row['kind']), []).append(row['median_ns'] / own)
    table(['against alone', 'op', 'median', 'smallest', 'largest'],
          [[what, kind, percent(statistics.median(found)), percent(min(found)), percent(max(found))]
           for (what, kind), found in sorted(ratios.items())])
    summary = [f'{what} {percent(statistics.median([ratio for (w, _), found in ratios.items() if w == what for ratio in found]))}'
               for what in sorted({what for what, _ in ratios})]
    launches = [time for times in launching_us(rows).values() for time in times]
    if launches:
        summary.append(f'launching an op {statistics.median(launches):.1f} us')
    summary += [f"{row['shape']} of {row['bytes']} B {row['median_ns'] / 1e3:.1f} us" for row in rows
                if row['subject'] == 'self-send']
    slowed = sum(1 for row in rows if row.get('before', {}).get('throttle') or row.get('after', {}).get('throttle'))
    summary.append(f'{slowed} of {len(rows)} rows throttled')
    print('= ' + '; '.join(summary))


def layer(torch_path, profile_path):
    """Several layers in a row hide their launches, as ops in a schedule mostly do: so ours count by the GPU's own part, too."""
    torch = load(torch_path)
    modes = [mode for mode in ('eager', 'eager_fresh', 'compiled', 'compiled_fresh') if mode in torch]
    texts = [f"GEMM {torch['gemm_tflops']:.0f}"] + [f"{mode} {torch[mode]['tflops']:.0f}" for mode in modes]
    texts += [f"{mode[:-6]}: {torch[mode]}" for mode in torch if mode.endswith('_error')]
    if os.path.exists(profile_path):
        ops = {row['kind']: row for row in load(profile_path)['measurements'] if row['subject'] == 'op'
               and row['shape'] == 'layers=1' and row['devices'] == 1 and row['cache'] == 'run'}
        if 'F' in ops and 'BW' in ops:
            own = torch['flops'] / sum(ops[kind]['median_ns'] for kind in ('F', 'BW')) / 1e3
            whole = torch['flops'] / sum(ops[kind]['median_ns'] + ops[kind].get('launch_ns', 0) for kind in ('F', 'BW')) / 1e3
            texts.append(f'pipesim {own:.0f}, with launching and waiting {whole:.0f}')
            texts.append(f"{100 * own / torch['gemm_tflops']:.0f} % of the GEMM")
            texts += [f"{100 * own / torch[mode]['tflops']:.0f} % of {mode}" for mode in modes]
    rehearsal = 'a rehearsal, nothing measured; ' if torch.get('rehearsal') else ''
    print(f'= {rehearsal}TFLOP/s of one layer, forward and backward: ' + ', '.join(texts))


if __name__ == '__main__':
    {'run': run, 'accuracy': accuracy, 'shares': shares, 'layer': layer, 'launching': launching}[sys.argv[1]](*sys.argv[2:])
