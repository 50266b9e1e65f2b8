# SPDX-License-Identifier: BSD-3-Clause
"""cd_values: user form, stored form, wrong values, flags, and what is refused with which words."""
import json
import struct
import subprocess

import h5py
import numpy as np
import pytest

from h5util import (ABS, AUTO, BALANCED, BUILD, FAST, FZM, JSON_TAG, LOSSLESS, MANDATORY, MAXABS, OPTIONAL,
                    PIPELINE_TAG, RANGE, REL, STORED_TAG, chunk_masks, create, filter_of, json_options, options,
                    round_trip, same_bits, sample, violations, words)

JSON = {'fzm': 1, 'bound': {'mode': 'abs', 'value': 0.25},
        'stages': [{'name': 'q', 'type': 'Quantizer'}, {'type': 'Difference', 'inputs': ['q.codes']},
                   {'type': 'AdaptiveBitpack'}]}
NAN, INF = 0x7ff80000, 0x7ff00000


@pytest.fixture
def file(tmp_path):
    with h5py.File(tmp_path / 'a.h5', 'w') as file:
        yield file


def refusal(file, values, dtype='f4', flags=MANDATORY, chunks=(8, 8), dcpl=None):
    """The message of a creation that must fail and leave nothing behind."""
    with pytest.raises((ValueError, RuntimeError, OSError)) as error:
        if dcpl is None:
            create(file, 'bad', dtype, (16, 16), chunks, values, flags)
        else:
            h5py.h5d.create(file.id, b'bad', h5py.h5t.py_create(np.dtype(dtype)), h5py.h5s.create_simple((16, 16)), dcpl)
    assert 'bad' not in file
    return str(error.value)


@pytest.mark.parametrize('values, preset, mode, bound', [
    ((), AUTO, 0, None), ((1,), FAST, 0, None), ((5, 0), LOSSLESS, 0, None), ((2, 0, 7, 8), BALANCED, 0, None),
    ((1, 1, 1, 3), FAST, ABS, 1e-3), ((2, 3, 25, 1), BALANCED, RANGE, 2.5), ((0, 2, 123456789, 10), AUTO, REL, 0.0123456789),
    ((1, 1, 3, 0), FAST, ABS, 3.0), ((1, 1, 4294967295, 320), FAST, ABS, 4294967295e-320), ((1, 1, 1, 400), FAST, ABS, 0.0),
    ((1, 1, 0, 0), FAST, ABS, 0.0), ((1, 4, *words(0.1)), FAST, MAXABS, 0.1), ((1, 1, *words(1e300)), FAST, ABS, 1e300),
    ((1, 1, 3539053052, 1062232653), FAST, ABS, 0.001),  # nccopy -F "v,46266,1,1,0.001d"
    ((1, 1, 0, 0x80000000), FAST, ABS, -0.0),
])
@pytest.mark.parametrize('flags', [MANDATORY, OPTIONAL])
def test_user_form(file, values, preset, mode, bound, flags):
    kept_flags, kept = filter_of(create(file, 'x', 'f4', (40, 30), (16, 15), values, flags))
    assert kept_flags == flags
    assert kept[0] >> 16 == STORED_TAG and len(kept) <= 16
    assert kept[1:3] == (preset, mode)
    if mode:
        assert struct.unpack('<d', struct.pack('<II', *kept[3:5]))[0] == bound
    n_derived = kept[0] & 0xff
    assert len(kept) == (5 if mode else 3) + n_derived
    padding = 2 if mode == RANGE else 0
    assert kept[-n_derived:] == (8 | 2 << 8 | padding << 17, 16, 15)


@pytest.mark.parametrize('mantissa, exponent', [(1, 3), (1, 23), (3, 1), (9007199, 22), (4294967295, 8), (7, 323), (1234567, 40)])
def test_decimal_bound_is_rounded_right(file, mantissa, exponent):
    _, kept = filter_of(create(file, 'x', 'f8', (4, 4), (4, 4), (1, 1, mantissa, exponent)))
    assert kept[3:5] == words(float(f'{mantissa}e-{exponent}'))


@pytest.mark.parametrize('values, expected', [
    ((1, 1), ['abs', 'bound', '4']), ((0, 5), ['psnr', 'bound']),
    ((1, 1, 1), ['3 filter values', 'expected']), ((1, 1, 1, 3, 0), ['5 filter values']), ((1,) * 6, ['6 filter values']),
    ((1,) * 300, ['300']),
    ((77, 1, 1, 3), ['preset 77', '1 fast', '2 balanced']), ((15,), ['preset 15']), ((4294967295,), ['4294967295']),
    ((1, 6, 1, 3), ['mode 6', '1 abs', '5 psnr']), ((1, 4294967295, 1, 3), ['4294967295']),
    ((1, 1, 0, NAN), ['nan', 'finite']), ((1, 1, 0, INF), ['inf', 'finite']), ((1, 1, 0, 0xfff00000), ['finite']),
    ((1, 1, *words(-1e-3)), ['-0.001', '>= 0']), ((1, 5, 0, 0), ['psnr', '> 0']), ((1, 1, 1, 401), None),
    ((STORED_TAG << 16,), ['damaged']), ((STORED_TAG << 16 | 0x200, 1, 0), ['newer version']),
    ((STORED_TAG << 16 | 0x105, 1, 0, 8 | 2 << 8, 4, 4), ['damaged']), ((STORED_TAG << 16 | 0x100, 1, 1, 5), ['damaged']),
    ((PIPELINE_TAG << 16, 1), ['compiled pipeline']), ((PIPELINE_TAG << 16 | 0x100,), ['compiled pipeline']),
    ((PIPELINE_TAG << 16 | 0x100,) + (0xffffffff,) * 20, ['ompiled pipeline']),
    ((JSON_TAG << 16 | 0x100,), ['JSON', 'H5Pset_fzm_json']), ((JSON_TAG << 16, 5), ['JSON']),
    ((JSON_TAG << 16 | 0x104, 5), ['JSON']),
])
@pytest.mark.parametrize('flags', [MANDATORY, OPTIONAL])
def test_wrong_values(file, values, expected, flags):
    """Refused at creation whatever the flag; the message says what would be accepted."""
    if expected is None:
        assert filter_of(create(file, 'x', 'f4', (4, 4), (4, 4), values, flags))
        return
    message = refusal(file, values, flags=flags)
    assert 'h5z-fzm' in message
    for words_ in expected:
        assert words_ in message


def test_random_values_never_crash(file):
    rng = np.random.default_rng(5)
    for i in range(400):
        n = int(rng.integers(1, 24))
        values = [int(v) for v in rng.integers(0, 2 ** 32, n, dtype='u8')]
        if i % 2:
            values[0] = int(rng.choice([STORED_TAG, JSON_TAG, PIPELINE_TAG])) << 16 | 0x100 | int(rng.integers(0, 9))
        refusal(file, values)


@pytest.mark.parametrize('change, expected', [
    ({'stages': [{'type': 'Quantiser'}]}, ['Quantizer']),
    ({'bound': {'mode': 'abs', 'value': -1}}, ['>= 0']),
    ({'stages': [{'type': 'Quantizer', 'radius': 3}]}, ['radius']),
    ({'fzm': 99}, ['fzm']),
])
def test_json_errors(file, change, expected):
    message = refusal(file, json_options({**JSON, **change}))
    for words_ in expected:
        assert words_ in message
    assert refusal(file, json_options('{"fzm": 1,'))


@pytest.mark.parametrize('indent', [None, 0, 1])
def test_json_in_values(tmp_path, indent):
    x = sample('f4', (40, 40))
    values = json_options(json.dumps(JSON, indent=indent))
    y, nbytes = round_trip(tmp_path / 'a.h5', x, (20, 40), values)
    assert 0.1 < np.abs(x.astype('f8') - y).max() <= 0.25 and nbytes < x.nbytes / 2
    with h5py.File(tmp_path / 'a.h5') as file:
        _, kept = filter_of(file['x'])
    assert kept[0] >> 16 == STORED_TAG and kept[1] >> 16 == PIPELINE_TAG


def test_stored_form_is_accepted_again(tmp_path):
    """A property list read from a file serves for datasets of another shape, type and byte order."""
    x, z = sample('f4', (40, 30)), sample('>f8', (7, 9, 11))
    for number, values in enumerate([options(FAST, ABS, 0.5), options(), json_options(JSON), (1, 1, 5, 1)]):
        path = tmp_path / f'{number}.h5'
        with h5py.File(path, 'w') as file:
            first = create(file, 'x', 'f4', x.shape, (40, 30), values, fill=np.float32(7))
            first[...] = x
            dcpl = first.id.get_create_plist()
            same = h5py.h5d.create(file.id, b'same', first.id.get_type(), first.id.get_space(), dcpl)
            assert filter_of(h5py.Dataset(same)) == filter_of(first)
            dcpl.set_chunk((3, 9, 4))
            other = h5py.Dataset(h5py.h5d.create(file.id, b'other', h5py.h5t.py_create(np.dtype('>f8')),
                                                 h5py.h5s.create_simple(z.shape), dcpl))
            other[...] = z
            _, kept, _, filled = *filter_of(first), *filter_of(other)
            n_first, n_other = kept[0] & 0xff, filled[0] & 0xff
            assert kept[1:-n_first] == filled[1:-n_other]
            assert filled[-n_other:-2] == (9 | 3 << 8 | 1 << 16 | 1 << 17, 3, 9, 4)
            assert struct.pack('<II', *filled[-2:]) == np.array(7, '>f8').tobytes()
        with h5py.File(path) as file:
            bound = 0.5 if values[1:] and number in (0, 3) else 0.25 if number == 2 else 0
            assert violations(x, file['x'][...], ABS, bound) == 0
            assert violations(z, file['other'][...], ABS, bound) == 0


UNSUPPORTED = {
    'compound': np.dtype([('a', 'f4'), ('b', 'i4')]), 'string': np.dtype('S4'), 'variable-length': h5py.special_dtype(vlen=np.float32),
    'vlen string': h5py.special_dtype(vlen=str), 'opaque': np.dtype('V4'), 'reference': h5py.special_dtype(ref=h5py.Reference),
    'enum': h5py.special_dtype(enum=('i4', {'A': 0, 'B': 1})), 'bool': np.dtype(bool), 'array': np.dtype(('f4', (3,))),
    'float16': np.dtype('f2'), 'complex': np.dtype('c8'), 'long double': np.dtype('longdouble'),
}


def low_level_types():
    reduced = h5py.h5t.NATIVE_FLOAT.copy()
    reduced.set_fields(30, 22, 8, 0, 22)
    reduced.set_precision(31)
    narrow = h5py.h5t.NATIVE_INT32.copy()
    narrow.set_precision(20)
    shifted = h5py.h5t.NATIVE_INT32.copy()
    shifted.set_precision(16)
    shifted.set_offset(8)
    bias = h5py.h5t.IEEE_F32LE.copy()
    bias.set_ebias(100)
    triple = h5py.h5t.NATIVE_INT32.copy()
    triple.set_size(3)
    vax = h5py.h5t.IEEE_F32LE.copy()
    vax.set_order(h5py.h5t.ORDER_VAX)
    return {'reduced': reduced, 'narrow': narrow, 'shifted': shifted, 'bias': bias, 'triple': triple, 'vax': vax,
            'bitfield': h5py.h5t.STD_B32LE}


@pytest.mark.parametrize('name', list(UNSUPPORTED) + list(low_level_types()))
def test_unsupported_types(file, name):
    dtype = UNSUPPORTED.get(name)
    tid = low_level_types()[name] if dtype is None else h5py.h5t.py_create(dtype, logical=True)
    message = refusal(file, options(FAST, ABS, 1), tid)
    assert 'supported are IEEE float32' in message or ('v' == name[0] and 'not suitable for filters' in message)
    # The optional flag: created, and stored exactly. Old words of another type must not be taken for its own.
    words_ = filter_of(create(file, 'f4', 'f4', (16, 16), (8, 8), options(FAST, ABS, 100)))[1]
    for number, values in enumerate([options(FAST, ABS, 100), words_]):
        dataset = create(file, f'raw{number}', tid, (16, 16), (8, 8), values, OPTIONAL)
        flags, kept = filter_of(dataset)
        if name in ('variable-length', 'vlen string'):  # HDF5 does not ask the filter
            assert kept == values
            break
        assert flags == OPTIONAL and kept[0] == STORED_TAG << 16 | 0x100
        if name in ('compound', 'string', 'float16', 'bool', 'enum', 'complex'):
            base = np.arange(256 * dtype.itemsize, dtype='u4').astype('u1') % 2
            x = base.view(dtype).reshape(16, 16) if name != 'bool' else base.astype(bool).reshape(16, 16)
            dataset[...] = x
            dataset.id.close()
            dataset = file[f'raw{number}']
            assert dataset[...].tobytes() == x.tobytes()
            assert chunk_masks(dataset) == [1] * 4


@pytest.mark.parametrize('first', ['shuffle', 'deflate', 'fletcher32', 'scaleoffset'])
def test_place_in_the_pipeline(file, first):
    def dcpl(flags):
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((8, 8))
        {'shuffle': plist.set_shuffle, 'deflate': plist.set_deflate, 'fletcher32': plist.set_fletcher32,
         'scaleoffset': lambda: plist.set_scaleoffset(h5py.h5z.SO_INT, 0)}[first]()
        plist.set_filter(FZM, flags, options(FAST, ABS, 1))
        return plist
    message = refusal(file, None, 'i4', dcpl=dcpl(MANDATORY))
    assert first in message and 'before' in message
    x = sample('i4', (16, 16))
    dataset = h5py.Dataset(h5py.h5d.create(file.id, b'x', h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((16, 16)),
                                           dcpl(OPTIONAL)))
    dataset[...] = x
    dataset.id.close()
    assert same_bits(file['x'][...], x)


@pytest.mark.parametrize('after', ['shuffle', 'deflate', 'fletcher32'])
def test_filters_behind(tmp_path, after):
    x = sample('f4', (33, 40))
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_chunk((16, 16))
    dcpl.set_filter(FZM, MANDATORY, options(FAST, ABS, 1e-2))
    getattr(dcpl, 'set_' + after)()
    with h5py.File(tmp_path / 'a.h5', 'w') as file:
        h5py.Dataset(h5py.h5d.create(file.id, b'x', h5py.h5t.IEEE_F32BE, h5py.h5s.create_simple(x.shape), dcpl))[...] = x
    with h5py.File(tmp_path / 'a.h5') as file:
        assert violations(x, file['x'][...].astype('f4'), ABS, 1e-2) == 0


def test_twice_in_the_pipeline(file):
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_chunk((8, 8))
    for _ in range(2):
        dcpl.set_filter(FZM, MANDATORY, options(FAST, ABS, 1))
    assert '2 times' in refusal(file, None, dcpl=dcpl)


def test_rel_needs_floats(file):
    message = refusal(file, options(FAST, REL, 1e-3), 'i4')
    assert 'rel' in message and 'float' in message


@pytest.mark.parametrize('preset', [FAST, BALANCED, LOSSLESS])
def test_incompressible(tmp_path, preset):
    """Mandatory: wrapped, at most 64 bytes more. Optional: stored as it is, mask set."""
    x = np.frombuffer(np.random.default_rng(3).bytes(4096 * 8), '<u8').reshape(64, 64).copy()
    values = options(preset, ABS, 0) if preset != LOSSLESS else options(preset)
    for flags in MANDATORY, OPTIONAL:
        y, nbytes = round_trip(tmp_path / 'a.h5', x, (64, 64), values, flags)
        assert same_bits(x, y)
        with h5py.File(tmp_path / 'a.h5') as file:
            mask = chunk_masks(file['x'])
        assert (mask, nbytes) == ([1], x.nbytes) if flags == OPTIONAL else (mask == [0] and nbytes <= x.nbytes + 64)


def test_filter_args_agrees(file):
    """What the fzm tool prints is what the filter takes."""
    for args in ['--preset', 'fast', '--abs', '1e-3'], ['--preset', 'balanced', '--range', '0.125'], ['--lossless']:
        text = subprocess.run([BUILD + '/tools/fzm', 'filter-args', '--output-json', *args], stdout=subprocess.PIPE).stdout
        values = json.loads(text)['cd_values']
        _, kept = filter_of(create(file, ' '.join(args), 'f4', (4, 4), (4, 4), values))
        assert kept[0] >> 16 == STORED_TAG


def test_compiled_pipeline(tmp_path):
    path = tmp_path / 'p.json'
    path.write_text(json.dumps(JSON))
    text = subprocess.run([BUILD + '/tools/fzm', 'filter-args', '--output-json', '--json', path], stdout=subprocess.PIPE).stdout
    values = json.loads(text)['cd_values']
    assert values[0] >> 16 == PIPELINE_TAG and len(values) <= 20
    x = sample('f4', (40, 40))
    y, _ = round_trip(tmp_path / 'a.h5', x, (40, 40), values)
    z, _ = round_trip(tmp_path / 'a.h5', x, (40, 40), json_options(JSON))
    assert same_bits(y, z) and violations(x, y, ABS, 0.25) == 0
