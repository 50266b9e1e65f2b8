# SPDX-License-Identifier: BSD-3-Clause
"""./run demo: a real field through h5repack with the filter and back, measured. Ends 1 if a promise is broken."""
import json
import os
import subprocess
import sys

import h5py
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
FIELD = 'coads_sst_12x90x180.f32'
SHAPE, FILL, BOUND = (12, 90, 180), '-1e34', '1e-3'
FILTER = 'UD=46266,0,4,1,1,1,3'  # preset 1 (fast), mode 1 (abs), bound 1 * 10^-3


def fail(text):
    print(f'demo: FAILED: {text}', file=sys.stderr)
    sys.exit(1)


def run(*command, okay=(0,)):
    print('$ ' + ' '.join(os.path.relpath(c) if os.path.isabs(c) else c for c in command), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    if done.returncode not in okay:
        fail(f'exit status {done.returncode}\n{done.stdout}')
    return done.stdout


def dataset_nbytes(path):
    with h5py.File(path, 'r') as file:
        return file['sst'].id.get_storage_size()


def main():
    build = os.path.abspath(sys.argv[1])
    fzm, folder = os.path.join(build, 'tools', 'fzm'), os.path.join(build, 'demo')
    os.environ['HDF5_PLUGIN_PATH'] = os.path.join(build, 'plugin')
    os.makedirs(folder, exist_ok=True)
    raw = os.path.join(HERE, '..', 'data', FIELD)
    names = 'sst.h5', 'sst_fzm.h5', 'sst_restored.h5', 'sst_restored.f32'
    plain, packed, restored, restored_raw = (os.path.join(folder, name) for name in names)
    print('Sea surface temperature (NOAA COADS climatology): 12 months x 90 x 180, float32, degrees Celsius; land is '
          '-1e34.\nBound: no value moves by more than 0.001 degrees.')
    data = np.fromfile(raw, '<f4').reshape(SHAPE)
    with h5py.File(plain, 'w') as file:
        file.create_dataset('sst', data=data, chunks=SHAPE, fillvalue=np.float32(FILL))

    run('h5repack', '-f', FILTER, plain, packed)
    info = json.loads(run(fzm, 'info', '--json', packed))
    run('h5repack', '-f', 'NONE', packed, restored)
    with h5py.File(restored, 'r') as file:
        file['sst'][...].astype('<f4').tofile(restored_raw)
    if len(info) != 1 or info[0]['n_without_filter']:
        fail('h5repack did not apply the filter')
    asked = ['--type', 'f32', '--abs', BOUND, '--fill', FILL, '--json']
    difference = json.loads(run(fzm, 'compare', raw, restored_raw, *asked, okay=(0, 1)))
    speed = json.loads(run(fzm, 'bench', raw, '--shape', 'x'.join(map(str, SHAPE)), '--preset', 'fast', '--repeat',
                           '25', *asked, okay=(0, 1)))
    ratio = dataset_nbytes(plain) / dataset_nbytes(packed)
    print(f'\nsize           {dataset_nbytes(plain)} -> {dataset_nbytes(packed)} bytes in the file, ratio {ratio:.2f}')
    print(f"largest error  {difference['max_abs_error']:.7g} degrees, {difference['error_over_bound']:.5f} of the "
          f"bound {BOUND}; {difference['n_violations']} violations; PSNR {difference['psnr']:.2f} dB")
    for row in speed:
        print(f"speed          compress {row['compress_gbps']:.2f} GB/s, decompress {row['decompress_gbps']:.2f} GB/s "
              f"(engine {row['engine']}, {row['threads']} thread; memcpy {row['memcpy_gbps']:.2f} GB/s)")
    if ratio < 1.05:
        fail(f'the dataset did not get smaller (ratio {ratio:.3f}): was the filter applied?')
    if difference['n_violations']:
        fail(f"{difference['n_violations']} elements break the bound")
    land = np.float32(FILL)
    if not np.array_equal(np.fromfile(restored_raw, '<f4') == land, data.ravel() == land):
        fail('the land mask did not come back')
    print('demo: ok')


main()
