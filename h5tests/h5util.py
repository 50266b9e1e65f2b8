# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the HDF5 tests: filter values, files, data of every kind, and the strict check of a bound."""
import json
import os
import struct
import subprocess
from fractions import Fraction

import h5py
import numpy as np

FZM = 46266
HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get('FZM_BUILD', os.path.join(HERE, '..', 'build')))
PLUGIN = os.path.join(BUILD, 'plugin', 'libh5zfzm.so')
MANDATORY, OPTIONAL = 0, h5py.h5z.FLAG_OPTIONAL
AUTO, FAST, BALANCED, LOSSLESS = 0, 1, 2, 5
LOSSLESS_MODE, ABS, REL, RANGE, MAXABS, PSNR = range(6)
HDF5_VERSION = h5py.h5.get_libversion()
STORED_TAG, JSON_TAG, PIPELINE_TAG = 0x4653, 0x464A, 0x465A

DTYPES = ['f4', 'f8', 'i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4', 'u8']


def words(bound):
    """The double as two words, low first. 0 is 0 in either reading of the values."""
    return struct.unpack('<II', struct.pack('<d', bound))


def options(preset=AUTO, mode=LOSSLESS_MODE, bound=0.0):
    return (preset, mode, *words(bound)) if mode else (preset, 0)


def json_options(pipeline):
    text = (pipeline if isinstance(pipeline, str) else json.dumps(pipeline)).encode()
    unused = -len(text) % 4
    return ((JSON_TAG << 16) + 0x100 + unused, *struct.unpack(f'<{(len(text) + unused) // 4}I', text + bytes(unused)))


def make_dcpl(chunks, values, flags=MANDATORY, fill=None):
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_chunk(tuple(chunks))
    dcpl.set_filter(FZM, flags, tuple(int(v) for v in values))
    if fill is not None:
        dcpl.set_fill_value(np.asarray(fill))
    return dcpl


def create(file, name, dtype, shape, chunks, values, flags=MANDATORY, fill=None, maxshape=None):
    """A dataset by the low-level interface, which leaves the flag to the caller (h5py itself always sets optional)."""
    space = h5py.h5s.create_simple(tuple(shape), tuple(maxshape) if maxshape else tuple(shape))
    dcpl = make_dcpl(chunks, values, flags, fill)
    tid = dtype if isinstance(dtype, h5py.h5t.TypeID) else h5py.h5t.py_create(np.dtype(dtype), logical=True)
    return h5py.Dataset(h5py.h5d.create(file.id, name.encode(), tid, space, dcpl))


def filter_of(dataset):
    """Flags and values that the file keeps."""
    flags, values, _ = dataset.id.get_create_plist().get_filter_by_id(FZM)
    return flags, tuple(values)


def chunk_masks(dataset):
    """Filter masks of the allocated chunks."""
    return [dataset.id.read_direct_chunk(at)[0] for at in chunk_offsets(dataset)]


def chunk_offsets(dataset):
    grid = [range(0, n, c) for n, c in zip(dataset.shape, dataset.chunks)]
    return [tuple(r[i] for r, i in zip(grid, index)) for index in np.ndindex(*[len(r) for r in grid])]


def round_trip(path, x, chunks, values, flags=MANDATORY, fill=None):
    """Writes, closes, reads. Returns the array and the stored size."""
    with h5py.File(path, 'w') as file:
        create(file, 'x', x.dtype, x.shape, chunks, values, flags, fill)[...] = x
    with h5py.File(path, 'r') as file:
        dataset = file['x']
        assert dataset.dtype == x.dtype
        return dataset[...], dataset.id.get_storage_size()


def sample(dtype, shape, kind='smooth', seed=1):
    """Data of a type: smooth, noise, special (NaN, Inf, -0, denormals; extreme integers), constant."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng([seed, len(shape), *shape])
    n = int(np.prod(shape))
    native = dtype.newbyteorder('=')
    if kind == 'noise':
        x = np.frombuffer(rng.bytes(n * dtype.itemsize), native).copy()
    elif kind == 'constant':
        x = np.full(n, 42, native)
    else:
        walk = np.zeros(shape)
        for axis, extent in enumerate(shape):
            along = np.sin(np.arange(extent) * 0.21 * (axis % 6 + 1) + axis)
            walk += along.reshape([extent if a == axis else 1 for a in range(len(shape))])
        walk = walk.ravel()
        walk = walk * 20 + rng.normal(size=n) * 0.05 + 60
        x = (np.clip(walk, 0, 120) if dtype.kind in 'iu' else walk).astype(native)
    if kind == 'special' and n:
        if dtype.kind == 'f':
            bits = np.array([0x7fc00001, 0xffc12345, 0x7f800001, 0x7f800000, 0xff800000, 0x80000000, 1, 0x807fffff,
                             0x7f7fffff, 0x7149f2ca], 'u4').view('f4')
            values = bits if native.itemsize == 4 else np.array(
                [np.nan, np.inf, -np.inf, -0.0, 5e-324, -2e-308, 1.7e308, 1e20, 9.96921e36, -1e36], 'f8')
            if native.itemsize == 8:
                values.view('u8')[0] = 0xfff8dead00000001
        else:
            info = np.iinfo(native)
            values = np.array([info.min, info.max, info.min + 1, info.max - 1], native)
        at = rng.integers(0, n, max(1, n // 7))
        x.view(f'u{native.itemsize}')[at] = np.resize(values, at.shape).view(f'u{native.itemsize}')
    return x.reshape(shape).astype(dtype)


def same_bits(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and np.ascontiguousarray(x).tobytes() == \
        np.ascontiguousarray(y).tobytes()


def _exact(value):
    return Fraction(int(value)) if isinstance(value, np.integer) else Fraction(float(value))


def _fill_mask(x, fill):
    return np.zeros(x.shape, bool) if fill is None else x == np.asarray(fill, x.dtype)


def violations(x, y, mode=LOSSLESS_MODE, bound=0.0, fill=None):
    """How many elements of a chunk break the bound, with no tolerance: long doubles settle the clear cases, rational
    numbers the rest. What is not finite or is the fill value must come back bit for bit. For psnr see psnr()."""
    x, y = (np.ascontiguousarray(a).astype(a.dtype.newbyteorder('=')).ravel() for a in (x, y))
    is_float = x.dtype.kind == 'f'
    changed = x.view(f'u{x.dtype.itemsize}') != y.view(f'u{x.dtype.itemsize}')
    finite = np.isfinite(x)
    good = finite & ~_fill_mask(x, fill)
    bad = changed & (~good | ~np.isfinite(y))
    if mode == LOSSLESS_MODE or bound == 0:
        return int(changed.sum())
    if not good.any():
        return int(bad.sum())
    factor = Fraction(bound)
    if mode == RANGE:
        factor *= _exact(x[good].max()) - _exact(x[good].min())
    elif mode == MAXABS:
        factor *= max(abs(_exact(x[good].max())), abs(_exact(x[good].min())))
    with np.errstate(over='ignore', invalid='ignore'):
        d = np.abs(x.astype(np.longdouble) - y.astype(np.longdouble))
        limit = np.longdouble(float(factor)) * (np.abs(x.astype(np.longdouble)) if mode == REL else 1)
        clear = d <= (np.floor(limit) if not is_float and mode != REL else limit * (1 - np.longdouble(2) ** -45))
    for i in np.flatnonzero(changed & ~bad & ~clear):
        bad[i] = abs(_exact(x[i]) - _exact(y[i])) > factor * (abs(_exact(x[i])) if mode == REL else 1)
    return int(bad.sum())


def chunk_violations(x, y, chunks, mode, bound, fill=None):
    """The same over a whole dataset, chunk by chunk."""
    total = 0
    for index in np.ndindex(*[-(-n // c) for n, c in zip(x.shape, chunks)]):
        part = tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks))
        total += violations(x[part], y[part], mode, bound, fill)
    return total


def psnr(x, y, fill=None):
    """In dB, over finite elements that are not the fill value."""
    with np.errstate(invalid='ignore'):
        v, w = x.astype(np.longdouble), y.astype(np.longdouble)
    good = np.isfinite(v) & ~_fill_mask(x, fill)
    v, w = v[good], w[good]
    mse = np.mean((v - w) ** 2) if v.size else 0
    return np.inf if mse == 0 else float(20 * np.log10(v.max() - v.min()) - 10 * np.log10(mse))


def run(*command, code=0, env=None):
    """Output (both streams) of a program that must end with this status."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})}, timeout=120)
    assert done.returncode == code, f'{command}: status {done.returncode}\n{done.stdout}'
    return done.stdout
