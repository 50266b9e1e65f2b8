# SPDX-License-Identifier: BSD-3-Clause
"""h5py with the filter: HDF5_PLUGIN_PATH=build/plugin python3 h5py_example.py FILE"""
import json
import struct
import sys

import h5py
import numpy as np

FZM = 46266
PRESETS = {'auto': 0, 'fast': 1, 'balanced': 2, 'lossless': 5}
MODES = {'lossless': 0, 'abs': 1, 'rel': 2, 'range': 3, 'maxabs': 4, 'psnr': 5}


def fzm(preset='auto', mode='lossless', bound=0.0):
    """Keyword arguments for create_dataset()."""
    if MODES[mode] == 0:
        return {'compression': FZM, 'compression_opts': (PRESETS[preset], 0)}
    low, high = struct.unpack('<II', struct.pack('<d', bound))
    if high <= 400:  # such a fourth value is read as a power of ten; only 0 and bounds below 1e-311 have it
        low = high = 0
    return {'compression': FZM, 'compression_opts': (PRESETS[preset], MODES[mode], low, high)}


def fzm_json(pipeline):
    """The same with a pipeline of one's own, its bound inside, of up to 1020 bytes of JSON."""
    text = json.dumps(pipeline, separators=(',', ':')).encode()
    unused = -len(text) % 4
    words = struct.unpack(f'<{(len(text) + unused) // 4}I', text + bytes(unused))
    return {'compression': FZM, 'compression_opts': (0x464A0100 + unused, *words)}


PIPELINE = {
    'fzm': 1,
    'bound': {'mode': 'abs', 'value': 1e-3},
    'stages': [
        {'name': 'quant', 'type': 'Quantizer'},
        {'name': 'pred', 'type': 'AdaptiveLorenzo', 'inputs': ['quant.codes']},
        {'type': 'AdaptiveBitpack'},
    ],
}


def main(path):
    z, y, x = np.meshgrid(np.linspace(0, 1, 32), np.linspace(0, 2, 96), np.linspace(0, 3, 128), indexing='ij')
    field = (np.sin(3 * x + z) * np.cos(2 * y) * 10).astype('f4')
    settings = {
        'fast': fzm('fast', 'abs', 1e-3),
        'balanced': fzm('balanced', 'range', 1e-4),
        'lossless': fzm('lossless'),
        'own': fzm_json(PIPELINE),
    }
    with h5py.File(path, 'w') as file:
        for name, options in settings.items():
            file.create_dataset(name, data=field, chunks=(16, 96, 128), **options)
    with h5py.File(path, 'r') as file:
        for name in settings:
            error = np.abs(file[name][...].astype('f8') - field).max()
            ratio = field.nbytes / file[name].id.get_storage_size()
            print(f'{name:9} ratio {ratio:6.2f}   largest error {error:.3g}')

    # A program that extends a dataset of an existing file should ask for the filter first: HDF5 does not look for
    # plugins when it writes, and would store new chunks uncompressed.
    assert h5py.h5z.filter_avail(FZM)


if __name__ == '__main__':
    main(sys.argv[1] if len(sys.argv) > 1 else 'example.h5')
