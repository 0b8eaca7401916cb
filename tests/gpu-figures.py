"""gpu-figures.py - makes the tables of tests/gpu.sh.

run DEVICES MICROBATCHES RUN.json   one line of runs.csv from what pipesim exec --json has printed
accuracy RUNS.csv                   predicted against executed iteration times
layer LAYER.json PROFILE.json       a layer here against PyTorch's"""
import csv
import json
import os
import statistics
import sys

COLUMNS = ['devices', 'microbatches', 'schedule', 'predicted_ns', 'executed_ns', 'bubble', 'peak_bytes', 'check']


def run(devices, microbatches, path):
    with open(path, encoding='utf-8') as file:
        result = json.load(file)['results'][0]
    csv.writer(sys.stdout, lineterminator='\n').writerow(
        [devices, microbatches, os.path.basename(result['schedule']), result.get('predicted_iteration_ns') or '',
         result['iteration_ns'], result['bubble_ratio'], result['peak_memory_bytes'], result['check']])


def accuracy(path):
    """Per number of devices: errors, and how good the schedule that was predicted best really is."""
    with open(path, encoding='utf-8') as file:
        rows = [dict(zip(COLUMNS, row)) for row in csv.reader(file)]
    summary = []
    for devices in sorted({row['devices'] for row in rows}, key=int):
        known = [row for row in rows if row['devices'] == devices and row['predicted_ns']]
        if not known:
            continue
        print(f'p = {devices}: schedule, predicted, executed, error, check')
        for row in sorted(known, key=lambda row: int(row['executed_ns'])):
            row['error'] = int(row['predicted_ns']) / int(row['executed_ns']) - 1
            print(f"  {row['schedule']:24} {int(row['predicted_ns']) / 1e6:9.3f} ms {int(row['executed_ns']) / 1e6:9.3f} ms "
                  f"{100 * row['error']:+6.2f} %  {row['check']}")
        errors = sorted(abs(row['error']) for row in known)
        chosen = min(known, key=lambda row: int(row['predicted_ns']))
        best = min(known, key=lambda row: int(row['executed_ns']))
        loss = int(chosen['executed_ns']) / int(best['executed_ns']) - 1
        summary.append(f"p = {devices}: error {100 * statistics.median(errors):.2f} % median, "
                       f"{100 * errors[-1]:.2f} % largest of {len(errors)}; "
                       f"best by prediction {chosen['schedule']}, {100 * loss:.2f} % behind the really best {best['schedule']}")
    print('= ' + ('; '.join(summary) or f'{len(rows)} runs, none of them predicted'))


def layer(torch_path, profile_path):
    with open(torch_path, encoding='utf-8') as file:
        torch = json.load(file)
    texts = [f"GEMM {torch['gemm_tflops']:.0f}"] + [f"{mode} {torch[mode]['tflops']:.0f}" for mode in ('eager', 'compiled')
                                                    if mode in torch]
    if os.path.exists(profile_path):
        with open(profile_path, encoding='utf-8') as file:
            rows = json.load(file)['measurements']
        ns = {row['kind']: row['median_ns'] for row in rows
              if row['subject'] == 'op' and row['shape'] == 'layers=1' and row['devices'] == 1 and row['cache'] == 'run'}
        own = torch['flops'] / (ns['F'] + ns['BW']) / 1e3
        texts.append(f"pipesim {own:.0f}")
        texts += [f"{100 * own / torch[mode]['tflops']:.0f} % of {mode}" for mode in ('eager', 'compiled') if mode in torch]
    print('= TFLOP/s of one layer, forward and backward: ' + ', '.join(texts))


if __name__ == '__main__':
    {'run': run, 'accuracy': accuracy, 'layer': layer}[sys.argv[1]](*sys.argv[2:])
