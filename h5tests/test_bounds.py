# SPDX-License-Identifier: BSD-3-Clause
"""Every type, byte order, preset, mode and shape: the bound holds for each element, without any tolerance."""
import json
import os

import h5py
import numpy as np
import pytest

from h5util import (ABS, AUTO, BALANCED, DTYPES, FAST, FZM, HERE, LOSSLESS, LOSSLESS_MODE, MAXABS, PSNR, RANGE, REL,
                    chunk_violations, create, json_options, options, psnr, round_trip, same_bits, sample, violations)

PRESETS = [AUTO, FAST, BALANCED, LOSSLESS]
BOUNDS = {ABS: [1.0, 0.03125, 1e-3], REL: [1e-2, 1e-4], RANGE: [1e-1, 1e-3], MAXABS: [1e-3], PSNR: [40.0, 80.0]}
SHAPE, CHUNKS = (19, 45), (8, 16)


def modes_of(dtype):
    return [ABS, RANGE, MAXABS, PSNR] if np.dtype(dtype).kind in 'iu' else [ABS, REL, RANGE, MAXABS, PSNR]


def check_psnr(x, y, bound):
    """Of each whole chunk; in those at the edge the padding counts in the mean. Values that pass for sentinels are left
    out of the range: see test_sentinels."""
    for i in range(0, x.shape[0] - CHUNKS[0] + 1, CHUNKS[0]):
        for j in range(0, x.shape[1] - CHUNKS[1] + 1, CHUNKS[1]):
            a, b = (v[i:i + CHUNKS[0], j:j + CHUNKS[1]] for v in (x, y))
            if x.dtype.kind != 'f' or np.abs(a[np.isfinite(a)]).max() < 1e15:
                assert psnr(a, b) >= bound


@pytest.mark.parametrize('preset', PRESETS)
@pytest.mark.parametrize('order', '<>')
@pytest.mark.parametrize('dtype', DTYPES)
def test_matrix(tmp_path, dtype, order, preset):
    for kind in 'smooth', 'noise', 'special', 'constant':
        x = sample(order + dtype, SHAPE, kind)
        y, _ = round_trip(tmp_path / 'a.h5', x, CHUNKS, options(preset))
        assert same_bits(x, y), kind
        for mode in modes_of(dtype):
            for bound in BOUNDS[mode]:
                y, nbytes = round_trip(tmp_path / 'a.h5', x, CHUNKS, options(preset, mode, bound))
                assert nbytes <= 9 * (128 * x.itemsize + 64)
                if mode == PSNR:
                    assert same_bits(x[~np.isfinite(x)], y[~np.isfinite(x)])
                    check_psnr(x, y, bound)
                else:
                    assert chunk_violations(x, y, CHUNKS, mode, bound) == 0, (kind, mode, bound)
                if kind == 'constant':
                    assert same_bits(x, y) or mode in (ABS, REL, MAXABS)


SHAPES = [
    ((1,), (1,)), ((2,), (2,)), ((7,), (7,)), ((1000,), (333,)), ((4097,), (4096,)),
    ((5,), (1,)), ((1, 1), (1, 1)), ((1, 50), (1, 50)), ((50, 1), (50, 1)), ((1, 40, 1, 50), (1, 40, 1, 50)),
    ((5, 40, 50), (1, 40, 50)), ((41, 47, 53), (16, 16, 16)), ((2, 2000), (2, 2000)), ((3, 5, 7), (3, 5, 7)),
    ((2, 2, 3000), (2, 2, 3000)), ((5, 6, 7, 8), (2, 3, 4, 5)), ((4, 3, 5, 6, 7), (2, 2, 2, 3, 7)),
    ((3, 4, 2, 3, 4, 5), (3, 2, 2, 3, 2, 5)), ((6, 1, 1, 6, 1, 6), (6, 1, 1, 6, 1, 6)), ((2,) * 12, (2,) * 12),
    ((1,) * 30 + (9, 8), (1,) * 30 + (4, 8)), ((17, 19), (17, 1)), ((17, 19), (1, 19)), ((63, 65), (63, 65)),
]


@pytest.mark.parametrize('dtype', ['<f4', '>f8', '<i2', '>u1'])
@pytest.mark.parametrize('shape, chunks', SHAPES)
def test_shapes(tmp_path, shape, chunks, dtype):
    x = sample(dtype, shape)
    for preset, mode, bound in (FAST, ABS, 0.5), (BALANCED, RANGE, 1e-2), (LOSSLESS, LOSSLESS_MODE, 0):
        y, _ = round_trip(tmp_path / 'a.h5', x, chunks, options(preset, mode, bound))
        assert chunk_violations(x, y, chunks, mode, bound) == 0
        assert mode != LOSSLESS_MODE or same_bits(x, y)


@pytest.mark.parametrize('mode, bound', [(ABS, 0.01), (RANGE, 1e-3), (MAXABS, 1e-4), (REL, 1e-3)])
def test_chunk_larger_than_data(tmp_path, mode, bound):
    """Padding with the default fill value must not loosen a bound that depends on the range."""
    x = sample('f4', (13, 21)) + 1000
    with h5py.File(tmp_path / 'a.h5', 'w') as file:
        create(file, 'x', 'f4', x.shape, (64, 64), options(FAST, mode, bound), maxshape=(1000, 1000))[...] = x
    with h5py.File(tmp_path / 'a.h5') as file:
        assert violations(x, file['x'][...], mode, bound) == 0


def test_zeros_that_do_not_pad(tmp_path):
    """Where no chunk is padded, 0 is a value like any other: not exact, and at no extra cost."""
    x = sample('f4', (64, 64))
    x[20:40:2, 20:40:2] = 0
    sizes = []
    for fill in None, np.float32(12345):
        y, nbytes = round_trip(tmp_path / 'a.h5', x, x.shape, options(FAST, RANGE, 1e-3), fill=fill)
        assert chunk_violations(x, y, x.shape, RANGE, 1e-3, fill) == 0
        sizes.append(nbytes)
    assert sizes[0] == sizes[1]


def test_zero_extent(tmp_path):
    with h5py.File(tmp_path / 'a.h5', 'w') as file:
        dataset = create(file, 'x', 'f4', (0, 5), (4, 5), options(FAST, ABS, 1), maxshape=(100, 5))
        dataset.resize((9, 5))
        dataset[...] = 3
    with h5py.File(tmp_path / 'a.h5') as file:
        assert (file['x'][...] == 3).all()


@pytest.mark.parametrize('dtype', ['f4', 'f8'])
@pytest.mark.parametrize('bound', [0.0, 5e-324, 1e-311, 1e-300, 2.0 ** -44, 1e-12, 1e-6, 1e10, 1e38, 1e300])
def test_extreme_bounds(tmp_path, dtype, bound):
    for scale in 1e-40, 1.0, 1e6, 1e30:
        x = (sample(dtype, (16, 33)).astype('f8') * scale).astype(dtype)
        for preset in FAST, BALANCED:
            values = options(preset, ABS, bound)
            if 0 < bound < 1e-311:  # its high word would be a power of ten
                values = (preset, ABS, 0, 0)
            y, _ = round_trip(tmp_path / 'a.h5', x, (16, 33), values)
            assert violations(x, y, ABS, bound) == 0


def test_large_values(tmp_path):
    """The whole range of a type, and integers beyond the 53 bits of a double."""
    x = np.linspace(-3.4e38, 3.4e38, 999).astype('f4')
    y, _ = round_trip(tmp_path / 'a.h5', x, (999,), options(FAST, ABS, 1e30))
    assert violations(x, y, ABS, 1e30) == 0
    x = (2 ** 60 + np.arange(999) * 7).astype('i8')
    for bound in 1.0, 3.0, 1e6:
        y, _ = round_trip(tmp_path / 'a.h5', x, (999,), options(BALANCED, ABS, bound))
        assert violations(x, y, ABS, bound) == 0


@pytest.mark.parametrize('sentinel', [1e20, 9.969209968386869e36, -1e34, -9999.0, 1e30])
@pytest.mark.parametrize('declared', [False, True])
def test_sentinels(tmp_path, sentinel, declared):
    """A mask of fill values: exact if declared, and neighbours keep a tight bound in every mode."""
    x = sample('f4', (40, 50))
    mask = np.add.outer((np.arange(40) - 20) ** 2, (np.arange(50) - 30) ** 2) < 130
    clean_spread = float(x[~mask].max() - x[~mask].min())
    x[mask] = sentinel
    fill = np.float32(sentinel) if declared else None
    for mode, bound, limit in (ABS, 1e-3, 1e-3), (RANGE, 1e-3, clean_spread * 1e-3), (PSNR, 60.0, clean_spread):
        if not declared and abs(sentinel) < 1e15 and mode != ABS:
            continue
        for preset in FAST, BALANCED:
            y, _ = round_trip(tmp_path / 'a.h5', x, x.shape, options(preset, mode, bound), fill=fill)
            assert np.abs(x[~mask].astype('f8') - y[~mask]).max() <= limit
            assert same_bits(x[mask], y[mask]) or (not declared and mode == ABS)


@pytest.mark.parametrize('dtype, fill', [('<f4', -0.0), ('<f4', np.nan), ('>f8', -9999.25), ('>i2', -32768), ('<u8', 2 ** 64 - 1),
                                         ('<i1', -1), ('>f4', 1e20)])
def test_fill_value(tmp_path, dtype, fill):
    """The part of a chunk that was never written holds the fill value, bit for bit."""
    fill = np.array(fill, dtype)
    x = sample(dtype, (10, 30))
    with h5py.File(tmp_path / 'a.h5', 'w') as file:
        create(file, 'x', dtype, (30, 30), (20, 20), options(FAST, ABS, 3), fill=fill)[5:15] = x
    with h5py.File(tmp_path / 'a.h5', 'r+') as file:
        file['x'][2, 3] = x[0, 0]
    with h5py.File(tmp_path / 'a.h5') as file:
        y = file['x'][...]
        assert violations(x, y[5:15], ABS, 3) == 0
        y[5:15], y[2, 3] = fill, fill
        assert same_bits(y, np.full((30, 30), fill))


def fields():
    with open(os.path.join(HERE, 'data', 'fields.json')) as file:
        return json.load(file)


@pytest.mark.parametrize('field', fields(), ids=lambda f: f['name'])
def test_real_fields(tmp_path, field):
    dtype = np.dtype({'f': 'f', 'i': 'i', 'u': 'u'}[field['dtype'][0]] + str(int(field['dtype'][1:]) // 8))
    x = np.fromfile(os.path.join(HERE, 'data', field['file']), dtype.newbyteorder('<')).reshape(field['shape'])
    fill = None if field['fill'] is None else np.array(field['fill'], dtype)
    chunks = tuple(max(1, n * 2 // 3) for n in x.shape)
    y, nbytes = round_trip(tmp_path / 'a.h5', x, chunks, options(LOSSLESS), fill=fill)
    assert same_bits(x, y)
    sane = x[np.isfinite(x) & (np.abs(x.astype('f8')) < 1e15)]
    spread = max(float(sane.max()) - float(sane.min()), 1.0)
    for preset in FAST, BALANCED:
        for mode, bound in (ABS, spread * 1e-2), (ABS, spread * 1e-4), (REL, 1e-3), (RANGE, 1e-3):
            if mode == REL and dtype.kind != 'f':
                continue
            y, nbytes = round_trip(tmp_path / 'a.h5', x, chunks, options(preset, mode, bound), fill=fill)
            assert chunk_violations(x, y, chunks, mode, bound, fill) == 0
        y, nbytes = round_trip(tmp_path / 'a.h5', x, x.shape, options(preset, ABS, spread * 1e-2), fill=fill)
        assert nbytes < 0.9 * x.nbytes


PIPELINES = [
    {'stages': [{'name': 'q', 'type': 'Quantizer'}, {'type': 'Lorenzo', 'inputs': ['q.codes']}, {'type': 'Zigzag'},
                {'type': 'Bitshuffle'}, {'type': 'RZE'}]},
    {'stages': [{'name': 'q', 'type': 'Quantizer'}, {'type': 'Difference', 'inputs': ['q.codes']},
                {'type': 'AdaptiveBitpack', 'block_size': 64}, {'type': 'RRE', 'inputs': ['q.outlier_mask']}]},
]


@pytest.mark.parametrize('pipeline', PIPELINES)
@pytest.mark.parametrize('dtype', ['<f4', '>f8', '<i4'])
def test_json_pipelines(tmp_path, pipeline, dtype):
    x = sample(dtype, (19, 45), 'special')
    for mode, number, bound in ('abs', ABS, 2.0), ('range', RANGE, 0.01):
        values = json_options({'fzm': 1, 'bound': {'mode': mode, 'value': bound}, **pipeline})
        y, _ = round_trip(tmp_path / 'a.h5', x, CHUNKS, values)
        assert chunk_violations(x, y, CHUNKS, number, bound) == 0


def test_h5py_interface(tmp_path):
    """create_dataset() as users write it, and a creation property list used again."""
    x = sample('f4', (64, 64))
    with h5py.File(tmp_path / 'a.h5', 'w') as file:
        file.create_dataset('x', data=x, chunks=(32, 32), compression=FZM, compression_opts=(1, 1, 1, 3))
        file.create_dataset('y', data=x, chunks=True, compression=FZM)
        file.create_dataset('z', data=x, chunks=(32, 32), compression=FZM, compression_opts=(2, 1, 1, 2),
                            fletcher32=True)
        x_id = file['x'].id
        h5py.h5d.create(file.id, b'l', x_id.get_type(), x_id.get_space(), x_id.get_create_plist())
        file['l'][...] = x
    with h5py.File(tmp_path / 'a.h5') as file:
        for name, bound in ('x', 1e-3), ('l', 1e-3), ('z', 1e-2), ('y', 0):
            assert violations(x, file[name][...], ABS, bound) == 0
            assert file[name].id.get_storage_size() < x.nbytes
