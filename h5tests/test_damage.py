# SPDX-License-Identifier: BSD-3-Clause
"""Damaged, foreign and rewritten chunks: always an error, never a crash, never silently other data."""
import h5py
import numpy as np
import pytest

from h5util import (ABS, BALANCED, FAST, FZM, LOSSLESS, MANDATORY, RANGE, chunk_violations, create,
                    filter_of, json_options, options, round_trip, same_bits, sample, violations)

SHAPE = (24, 24)


def read_fails(file, name='x'):
    with pytest.raises((OSError, RuntimeError)):
        file[name][...]


@pytest.fixture
def chunk(tmp_path):
    """Function: values -> (file, bytes of the one chunk). Each read goes to the file: no chunk cache."""
    opened = []

    def make(values, dtype='f4'):
        x = sample(dtype, SHAPE)
        round_trip(tmp_path / 'a.h5', x, SHAPE, values)
        file = h5py.File(tmp_path / 'a.h5', 'r+', rdcc_nbytes=0)
        opened.append(file)
        return file, file['x'].id.read_direct_chunk((0, 0))[1]
    yield make
    for file in opened:
        file.close()


@pytest.mark.parametrize('values, dtype', [(options(FAST, ABS, 0.1), 'f4'), (options(BALANCED, RANGE, 1e-2), '>f8'),
                                           (options(LOSSLESS), 'i2'), (options(LOSSLESS), 'u1')])
def test_every_byte_and_length(chunk, values, dtype):
    file, good = chunk(values, dtype)
    x = file['x'][...]
    dataset = file['x'].id
    for i in range(len(good)):
        bad = bytearray(good)
        bad[i] ^= 1 << (i * 5 + 3) % 8
        dataset.write_direct_chunk((0, 0), bytes(bad))
        read_fails(file)
    for n in range(1, len(good)):
        dataset.write_direct_chunk((0, 0), good[:n])
        read_fails(file)
    for bad in good + b'\0', b'\0' * len(good), b'\xff' * len(good), good[::-1], good[1:] + good[:1]:
        dataset.write_direct_chunk((0, 0), bad)
        read_fails(file)
    # The file stays usable: the right bytes read, and a chunk can be written anew.
    dataset.write_direct_chunk((0, 0), good)
    assert same_bits(file['x'][...], x)
    file['x'][...] = x
    assert same_bits(file['x'][...], x)


def test_random_payloads(chunk):
    file, good = chunk(options(FAST, ABS, 0.1))
    rng = np.random.default_rng(9)
    for i in range(300):
        bad = rng.bytes(int(rng.integers(1, 200)))
        file['x'].id.write_direct_chunk((0, 0), good[:int(rng.integers(0, 60))] + bad if i % 2 else bad)
        read_fails(file)


def test_raw_data_as_a_chunk(chunk):
    file, good = chunk(options(FAST, ABS, 0.1))
    file['x'].id.write_direct_chunk((0, 0), sample('f4', SHAPE).tobytes())
    read_fails(file)
    file['x'].id.write_direct_chunk((0, 0), good)  # HDF5 1.10 keeps the old mask if the size stays
    file['x'].id.write_direct_chunk((0, 0), sample('f4', SHAPE).tobytes(), filter_mask=1)
    assert same_bits(file['x'][...], sample('f4', SHAPE))


def test_stream_of_another_shape(tmp_path, chunk):
    file, good = chunk(options(FAST, ABS, 0.1))
    for name, shape in ('smaller', (12, 24)), ('larger', (48, 24)):
        dataset = create(file, name, 'f4', shape, shape, options(FAST, ABS, 0.1))
        dataset.id.write_direct_chunk((0, 0), good)
        read_fails(file, name)


def test_direct_chunk_of_another_bound(tmp_path, chunk):
    """A chunk needs nothing but itself: other parameters of the dataset do not matter."""
    file, good = chunk(options(BALANCED, ABS, 0.1))
    dataset = create(file, 'other', 'f4', SHAPE, SHAPE, options(LOSSLESS))
    dataset.id.write_direct_chunk((0, 0), good)
    assert same_bits(file['other'][...], file['x'][...])


def test_edited_parameters(tmp_path):
    """Filter values changed in the file: the data are right, or an error comes."""
    x = sample('f4', SHAPE)
    path = tmp_path / 'a.h5'
    with h5py.File(path, 'w', libver='earliest') as file:
        create(file, 'x', 'f4', SHAPE, SHAPE, options(FAST, ABS, 0.125))[...] = x
        kept = np.array(filter_of(file['x'])[1], '<u4').tobytes()
        y = file['x'][...]
    image = path.read_bytes()
    at = image.index(kept)
    n_refused = 0
    for i in range(len(kept)):
        for flip in 0x01, 0x80:
            changed = bytearray(image)
            changed[at + i] ^= flip
            path.write_bytes(bytes(changed))
            with h5py.File(path, 'r') as file:
                try:
                    assert same_bits(file['x'][...], y)
                except (OSError, RuntimeError):
                    n_refused += 1
    assert n_refused >= 8  # those of the shape


@pytest.mark.parametrize('preset, mode, bound', [(FAST, ABS, 1e-2), (BALANCED, ABS, 1e-2), (FAST, RANGE, 1e-3),
                                                 (LOSSLESS, 0, 0), (BALANCED, ABS, 1.0)])
@pytest.mark.parametrize('dtype', ['<f4', '>f8', '<i4'])
def test_generations(tmp_path, preset, mode, bound, dtype):
    """What was decoded encodes to the same values again; the first bound holds for ever."""
    x = sample(dtype, (48, 50), 'special')
    y, _ = round_trip(tmp_path / 'a.h5', x, (16, 25), options(preset, mode, bound))
    again = y
    for _ in range(6):
        again, _ = round_trip(tmp_path / 'a.h5', again, (16, 25), options(preset, mode, bound))
        assert chunk_violations(x, again, (16, 25), mode, bound) == 0
        assert mode == RANGE or same_bits(y, again)


@pytest.mark.parametrize('preset', [FAST, BALANCED, LOSSLESS])
@pytest.mark.parametrize('dtype', ['f4', 'f8'])
def test_rows_without_cache(tmp_path, preset, dtype):
    """Each row is a partial write: decode, change, encode. Nothing drifts."""
    x = sample(dtype, (64, 64)) * 1000
    with h5py.File(tmp_path / 'a.h5', 'w', rdcc_nbytes=0) as file:
        dataset = create(file, 'x', dtype, x.shape, (64, 64), options(preset, ABS, 1e-3))
        for i in range(64):
            dataset[i] = x[i]
            assert violations(x[:i + 1], dataset[:i + 1], ABS, 1e-3) == 0 if i % 16 == 15 else True
        for i in range(64):
            dataset[:, i] = x[:, i]
    with h5py.File(tmp_path / 'a.h5') as file:
        assert violations(x, file['x'][...], ABS, 1e-3) == 0


@pytest.mark.parametrize('fill', [None, np.float32(-9999), np.float32('nan')])
def test_extend(tmp_path, fill):
    """Rows appended to a chunk that is half full; shrunk and grown again."""
    x = sample('f4', (50, 12))
    with h5py.File(tmp_path / 'a.h5', 'w') as file:
        create(file, 'x', 'f4', (7, 12), (16, 12), options(FAST, ABS, 1e-2), fill=fill, maxshape=(1000, 12))[...] = x[:7]
    for n in range(7, 50, 9):
        with h5py.File(tmp_path / 'a.h5', 'r+') as file:
            assert h5py.h5z.filter_avail(FZM)
            file['x'].resize(n + 9 if n + 9 < 50 else 50, 0)
            file['x'][n:n + 9] = x[n:n + 9]
    with h5py.File(tmp_path / 'a.h5', 'r+') as file:
        assert violations(x, file['x'][...], ABS, 1e-2) == 0
        file['x'].resize(20, 0)
        file['x'].resize(40, 0)
        y = file['x'][...]
        assert violations(x[:20], y[:20], ABS, 1e-2) == 0
        assert np.array_equal(y[20:], np.full((20, 12), 0 if fill is None else fill, 'f4'), equal_nan=True)


def test_append_in_a_fresh_process(tmp_path):
    """HDF5 does not look for filters when it writes: h5z.filter_avail() makes it (docs/hdf5.md)."""
    import subprocess
    import sys
    x = sample('f4', (16, 12))
    for avail in False, True:
        with h5py.File(tmp_path / 'a.h5', 'w') as file:
            create(file, 'x', 'f4', (16, 12), (16, 12), options(FAST, ABS, 1e-2), maxshape=(1000, 12))[...] = x
        code = (f"import h5py, numpy as np\nwith h5py.File({str(tmp_path / 'a.h5')!r}, 'r+') as f:\n"
                f"  {'assert h5py.h5z.filter_avail(46266)' if avail else 'pass'}\n"
                "  f['x'].resize(32, 0); f['x'][16:] = 1\n")
        done = subprocess.run([sys.executable, '-c', code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert (done.returncode == 0) is avail or not avail
        assert avail is False or done.stderr == ''
        with h5py.File(tmp_path / 'a.h5') as file:
            assert violations(x, file['x'][:16], ABS, 1e-2) == 0
            assert not avail or (file['x'][16:] == 1).all()


def test_dont_filter_partial_chunks(tmp_path):
    x = sample('f4', (20, 20))
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_chunk((16, 16))
    dcpl.set_filter(FZM, MANDATORY, options(FAST, ABS, 1e-2))
    if hasattr(dcpl, 'set_chunk_opts'):
        dcpl.set_chunk_opts(2)
    with h5py.File(tmp_path / 'a.h5', 'w', libver='latest') as file:
        h5py.Dataset(h5py.h5d.create(file.id, b'x', h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple(x.shape), dcpl))[...] = x
    with h5py.File(tmp_path / 'a.h5') as file:
        assert violations(x, file['x'][...], ABS, 1e-2) == 0


def test_early_allocation(tmp_path):
    """The fill value is compressed once and copied for all chunks."""
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_chunk((16, 16))
    dcpl.set_filter(FZM, MANDATORY, json_options({'fzm': 1, 'bound': {'mode': 'abs', 'value': 1e-3}, 'stages': [
        {'name': 'q', 'type': 'Quantizer'}, {'type': 'AdaptiveBitpack', 'inputs': ['q.codes']}]}))
    dcpl.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    dcpl.set_fill_value(np.array(9.96921e36, 'f4'))
    with h5py.File(tmp_path / 'a.h5', 'w') as file:
        h5py.h5d.create(file.id, b'x', h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((100, 100)), dcpl)
    with h5py.File(tmp_path / 'a.h5', 'r+') as file:
        assert (file['x'][...] == np.float32(9.96921e36)).all()
        file['x'][3:50, 5:70] = 2
    with h5py.File(tmp_path / 'a.h5') as file:
        y = file['x'][...]
        assert np.abs(y[3:50, 5:70] - 2).max() <= 1e-3 and (y[50:] == np.float32(9.96921e36)).all()
