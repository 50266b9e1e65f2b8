# SPDX-License-Identifier: BSD-3-Clause
"""Ratios, errors and speeds of every preset over fields, as a table: ./run bench [options] [FOLDER ...]

Fields: h5tests/data, generated ones (gen_fields.py, in build/fields), and the raw files NAME_SHAPE.TYPE of each
FOLDER and of the folders in FZM_BENCH_DATA (colon-separated). A fields.json beside them may give fill values.
Measured by `fzm bench`: speeds are medians in GB/s of uncompressed bytes, with memcpy of the same run.
Exit status 1 if any bound is broken.
"""
import argparse
import csv
import json
import math
import os
import platform
import re
import subprocess
import sys

import gen_fields

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = re.compile(r'^(\w+?)_(\d+(?:x\d+)*)\.([fiu]\d+)$')


def find_fields(folder):
    """(name, path, shape, type, fill) of the raw files of a folder, by name."""
    fills = {}
    listed = os.path.join(folder, 'fields.json')
    if os.path.exists(listed):
        fills = {f['file']: f['fill'] for f in json.load(open(listed))}
    found = []
    for file in sorted(os.listdir(folder)):
        match = NAME.match(file)
        if match:
            name, shape, dtype = match.groups()
            found.append((name, os.path.join(folder, file), shape, dtype, fills.get(file)))
    return found


def machine():
    cpu = platform.processor() or platform.machine()
    if os.path.exists('/proc/cpuinfo'):
        models = re.findall(r'^model name\s*: (.*)$', open('/proc/cpuinfo').read(), re.MULTILINE)
        cpu = models[0] if models else cpu
    return f'{cpu}, {len(os.sched_getaffinity(0))} CPUs, {platform.system()} {platform.release()}'


def measure(args, field, mode, bound, threads):
    """Rows of fzm bench for one field and bound; None when no preset takes it."""
    _, path, shape, dtype, fill = field
    repeat = args.repeat or (15 if os.path.getsize(path) < 4 << 20 else 5)
    command = [args.fzm, 'bench', path, '--type', dtype, '--shape', shape, '--preset', args.preset, '--json',
               '--threads', str(threads), '--repeat', str(repeat), '--engine', args.engine, f'--{mode}']
    if mode != 'lossless':
        command.append(f'{bound:g}')
    if fill is not None:
        command += ['--fill', repr(fill)]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         stdin=subprocess.DEVNULL)
    try:
        return json.loads(run.stdout)
    except ValueError:
        print(f'{" ".join(command)}: {run.stderr.strip()}', file=sys.stderr)
        return None


def print_progress(row, by_threads):
    speeds = '  '.join(f"{t}T {r['compress_gbps']:.3f}/{r['decompress_gbps']:.3f}" for t, r in by_threads.items())
    print(f"{row['field']:24} {row['mode']} {row['bound']:<7g} {row['preset']:10} {row['engine']} "
          f"ratio {row['ratio']:9.3f}  {speeds} GB/s", file=sys.stderr, flush=True)


def measure_all(args, fields):
    rows, failures = [], 0
    for field in fields:
        requests = [('range', b) for b in args.bounds] if field[3].startswith('f') else []
        for mode, bound in requests + ([('lossless', 0)] if args.lossless else []):
            by_key = {}
            for threads in args.threads:
                got = measure(args, field, mode, bound, threads)
                failures += got is None
                for row in got or []:
                    if args.preset == 'all' and (row['preset'] == 'auto' or
                                                 (row['preset'] == 'lossless') != (mode == 'lossless')):
                        continue # the same as others, or beside the point
                    row.update(field=field[0], type=field[3], shape=field[2], mode=mode, bound=bound)
                    by_key.setdefault((row['preset'], row['engine']), {})[threads] = row
            for by_threads in by_key.values():
                rows.append(by_threads)
                row = next(iter(by_threads.values()))
                failures += row['n_violations'] > 0
                print_progress(row, by_threads)
    return rows, failures


def read_rivals(path):
    """{(field, bound): {rival: ratio}} from a CSV with field, bound... and ratio columns NAME_ratio or ratio."""
    rivals = {}
    for line in csv.DictReader(open(path)):
        bound = float(line.get('bound') or line.get('bound_of_valid_range'))
        rivals[line['field'], bound] = {key[:-5].rstrip('_') or 'rival': float(value) for key, value in line.items()
                                        if key and re.fullmatch(r'(.*_)?ratio', key) and value}
    return rivals


def speeds(row, unit):
    return f"{row['compress_gbps'] / unit:.3f} / {row['decompress_gbps'] / unit:.3f}"


def markdown_rows(args, rows, rivals):
    threads = args.threads
    head = ['field', 'type, shape', 'bound', 'preset', 'engine', 'ratio', 'PSNR dB', 'error/bound']
    head += [f'GB/s {t}T' for t in threads] + ['of memcpy'] + (['ratio against'] if rivals else [])
    yield '| ' + ' | '.join(head) + ' |'
    yield '|' + '---|' * len(head)
    for by_threads in rows:
        r = by_threads[threads[0]] if threads[0] in by_threads else next(iter(by_threads.values()))
        bound = r['mode'] if r['mode'] == 'lossless' else f"{r['mode']} {r['bound']:g}"
        cells = [r['field'], f"{r['type']} {r['shape']}", bound, r['preset'], r['engine'], f"{r['ratio']:.3f}",
                 'exact' if r['psnr'] is None else f"{r['psnr']:.1f}",
                 'n/a' if r['mode'] == 'lossless' or r['error_over_bound'] is None else f"{r['error_over_bound']:.4f}"]
        for t in threads:
            cells.append(speeds(by_threads[t], 1) if t in by_threads else '')
        cells.append(speeds(r, r['memcpy_gbps']))
        if rivals:
            known = rivals.get((r['field'], r['bound']), {}) if r['mode'] == 'range' else {}
            cells.append(', '.join(f"{k} {r['ratio'] / v:.2f}x" for k, v in known.items()))
        yield '| ' + ' | '.join(cells) + ' |'


def geometric_means(rows, rivals):
    """Lines of the mean ratio against each rival, per preset and bound, over the fields that both have."""
    logs = {}
    for by_threads in rows:
        r = next(iter(by_threads.values()))
        known = rivals.get((r['field'], r['bound']), {}) if r['mode'] == 'range' else {}
        for rival, ratio in known.items():
            logs.setdefault((r['preset'], r['bound'], rival), []).append(math.log(r['ratio'] / ratio))
    for (preset, bound, rival), values in sorted(logs.items()):
        mean, least = math.exp(sum(values) / len(values)), math.exp(min(values))
        yield f'| {preset} | {bound:g} | {rival} | {mean:.3f} | {least:.3f} | {len(values)} |'


def output_of(*command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return ''
    return done.stdout.strip()


def write_markdown(args, rows, rivals, file):
    version = output_of(args.fzm, '--version')
    commit = output_of('git', '-C', HERE, 'describe', '--always', '--dirty')
    memcpy = sorted(r['memcpy_gbps'] for by_threads in rows for r in by_threads.values())
    print('# Measured results\n', file=file)
    print(f'Command: `{" ".join(["./run bench", *args.given])}`  ', file=file)
    print(f'Version: {version}{", commit " + commit if commit else ""}  \nMachine: {machine()}  ', file=file)
    print(f'memcpy in the same runs: {memcpy[0]:.2f} to {memcpy[-1]:.2f} GB/s, one thread\n', file=file)
    print('Speeds are compress / decompress in GB/s of uncompressed bytes, medians; "of memcpy" is the first thread\n'
          'count against memcpy.\n', file=file)
    for line in markdown_rows(args, rows, rivals):
        print(line, file=file)
    if rivals:
        print('\n## Ratio against others, geometric mean over the fields that both have\n', file=file)
        print('| preset | range bound | against | mean | least | fields |\n|---|---|---|---|---|---|', file=file)
        for line in geometric_means(rows, rivals):
            print(line, file=file)


def write_csv(rows, path):
    keys = ['field', 'type', 'shape', 'mode', 'bound', 'preset', 'engine', 'threads', 'ratio', 'stream_nbytes',
            'psnr', 'error_over_bound', 'n_violations', 'compress_gbps', 'decompress_gbps', 'memcpy_gbps',
            'scratch_nbytes']
    with open(path, 'w', newline='') as file:
        out = csv.DictWriter(file, keys, extrasaction='ignore', lineterminator='\n')
        out.writeheader()
        for by_threads in rows:
            for row in by_threads.values():
                out.writerow(row)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folders', nargs='*', metavar='FOLDER')
    parser.add_argument('--build', default='build', help=argparse.SUPPRESS)
    parser.add_argument('--preset', default='all')
    parser.add_argument('--engine', default='cpu', choices=['auto', 'cpu', 'gpu'])
    parser.add_argument('--bounds', type=lambda s: [float(b) for b in s.split(',')], default=[1e-2, 1e-3, 1e-4],
                        help='of the range, default 1e-2,1e-3,1e-4')
    parser.add_argument('--threads', type=lambda s: [int(t) for t in s.split(',')], default=[1, 2],
                        help='default 1,2')
    parser.add_argument('--lossless', action='store_true', help='measure lossless too')
    parser.add_argument('--repeat', type=int, help='measurements each way; default 15, 5 from 4 MiB')
    parser.add_argument('--fields', type=lambda s: s.split(','), help='only these names')
    parser.add_argument('--no-data', action='store_true', help='without h5tests/data')
    parser.add_argument('--no-generated', action='store_true', help='without the generated fields')
    parser.add_argument('--full', action='store_true', help='generated fields in the sizes for GPUs')
    parser.add_argument('--rivals', metavar='CSV',
                        help='ratios of others to compare with: columns field, bound, and ratio or NAME_ratio')
    parser.add_argument('--markdown', metavar='FILE', help='default build/results.md')
    parser.add_argument('--csv', metavar='FILE', help='every measurement')
    args = parser.parse_args()
    args.given = sys.argv[1:]
    if '--build' in args.given:
        at = args.given.index('--build')
        del args.given[at:at + 2]
    args.fzm = os.path.join(args.build, 'tools', 'fzm')
    return args


def main():
    args = parse_args()
    folders = [] if args.no_data else [os.path.join(HERE, '..', 'data')]
    if not args.no_generated:
        names = [n for n in gen_fields.SHAPES if not args.fields or n in args.fields]
        gen_fields.generate(os.path.join(args.build, 'fields-full' if args.full else 'fields'), names, args.full)
        folders.append(os.path.join(args.build, 'fields-full' if args.full else 'fields'))
    folders += args.folders + [f for f in os.environ.get('FZM_BENCH_DATA', '').split(':') if f]
    fields = {f[1]: f for folder in folders if os.path.isdir(folder) for f in find_fields(folder)}
    fields = [f for f in fields.values() if not args.fields or f[0] in args.fields]
    missing = [f for f in args.folders if not os.path.isdir(f)]
    if missing or not fields:
        sys.exit(f'bench: {"no such folder: " + ", ".join(missing) if missing else "no fields"}')
    rows, failures = measure_all(args, fields)
    if not rows:
        sys.exit('bench: nothing was measured')
    rivals = read_rivals(args.rivals) if args.rivals else {}
    path = args.markdown or os.path.join(args.build, 'results.md')
    with open(path, 'w') as file:
        write_markdown(args, rows, rivals, file)
    print(open(path).read())
    if args.csv:
        write_csv(rows, args.csv)
    print(f'written to {path}', file=sys.stderr)
    if failures:
        sys.exit(f'bench: {failures} measurements failed or broke their bound')


main()
