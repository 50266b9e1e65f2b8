# SPDX-License-Identifier: BSD-3-Clause
"""Streams of the released format: they are read for ever, and written byte for byte as long as no version is raised.

FZM_UPDATE_GOLDEN=1 writes the streams that are missing; it never changes one that is there."""
import os
import re
import subprocess

import numpy as np
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, 'golden')
FZM = os.path.join(os.environ.get('FZM_BUILD', os.path.join(HERE, '..', 'build')), 'tools', 'fzm')


def wave(dtype, shape):
    """A smooth field from integer arithmetic only, so that it is the same everywhere."""
    index = np.indices(shape, dtype=np.int64)
    total = sum((k + 2) * i * (97 - i % 97) for k, i in enumerate(index))
    field = (total % 4001 - 2000).astype(np.float64) / 64
    return field.astype(dtype) if np.dtype(dtype).kind == 'f' else (field * 2).astype(np.int64).astype(dtype)


def masked(dtype, shape):
    field = wave(dtype, shape)
    field[..., shape[-1] // 3:shape[-1] // 2] = np.nan
    field[0, ..., 0] = np.inf
    return field


CASES = {
    'fast_f32_3d_abs': ('fast', ['--abs', '0.01'], wave('<f4', (9, 20, 33))),
    'fast_f32_2d_masked_range': ('fast', ['--range', '1e-3'], masked('<f4', (40, 70))),
    'fast_f64_1d_rel': ('fast', ['--rel', '1e-4'], wave('<f8', (3000,))),
    'fast_i16_2d_abs': ('fast', ['--abs', '3'], wave('<i2', (50, 60))),
    'balanced_f32_3d_range': ('balanced', ['--range', '1e-4'], wave('<f4', (17, 30, 41))),
    'balanced_f64_2d_masked_abs': ('balanced', ['--abs', '1e-9'], masked('<f8', (70, 80))),
    'balanced_f32_1d_psnr': ('balanced', ['--psnr', '80'], wave('<f4', (9000,))),
    'lossless_f32_3d': ('lossless', ['--lossless'], masked('<f4', (10, 30, 50))),
    'lossless_f64_2d': ('lossless', ['--lossless'], wave('<f8', (60, 90))),
    'lossless_u8_4d': ('lossless', ['--lossless'], wave('<u1', (3, 5, 40, 20))),
    'lossless_i32_1d': ('lossless', ['--lossless'], wave('<i4', (5000,))),
    'stored_f32': ('fast', ['--abs', '0.001'], np.zeros(4, '<f4')),
}


def compress(tmp_path, preset, bound, data):
    data.tofile(tmp_path / 'in')
    kind = data.dtype.kind + str(8 * data.dtype.itemsize)
    subprocess.run([FZM, 'compress', tmp_path / 'in', tmp_path / 'out', '--type', kind, '--shape',
                    'x'.join(map(str, data.shape)), '--preset', preset, *bound], check=True)
    return (tmp_path / 'out').read_bytes()


@pytest.mark.parametrize('name', CASES)
def test_written_as_before(tmp_path, name):
    path = os.path.join(GOLDEN, name + '.fzm')
    stream = compress(tmp_path, *CASES[name])
    if os.environ.get('FZM_UPDATE_GOLDEN') and not os.path.exists(path):
        with open(path, 'wb') as f:
            f.write(stream)
    with open(path, 'rb') as f:
        assert f.read() == stream


@pytest.mark.parametrize('name', CASES)
def test_read_as_before(tmp_path, name):
    preset, bound, data = CASES[name]
    subprocess.run([FZM, 'decompress', os.path.join(GOLDEN, name + '.fzm'), tmp_path / 'restored'], check=True)
    data.tofile(tmp_path / 'in')
    kind = data.dtype.kind + str(8 * data.dtype.itemsize)
    subprocess.run([FZM, 'compare', tmp_path / 'in', tmp_path / 'restored', '--type', kind, *bound], check=True,
                   stdout=subprocess.DEVNULL)


def test_nothing_unlisted():
    assert {f[:-4] for f in os.listdir(GOLDEN)} == set(CASES)


def test_example_of_the_document(tmp_path):
    with open(os.path.join(HERE, '..', 'docs', 'format.md')) as f:
        example = f.read().split('## An example')[1]
    hexes = re.findall(r'^    ((?:[0-9A-F]{2} ?)+)$', example, re.M)
    assert bytes.fromhex(''.join(hexes)) == compress(tmp_path, *CASES['stored_f32'])
