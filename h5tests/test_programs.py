# SPDX-License-Identifier: BSD-3-Clause
"""HDF5's command-line tools, the examples, and the plugin file itself."""
import json
import os
import re
import shutil
import sys

import h5py
import numpy as np
import pytest

from h5util import (ABS, BUILD, FZM, HERE, PLUGIN, create,
                    filter_of, json_options, run, same_bits, sample, violations)

UD = f'UD={FZM},0,4,1,1,1,3'


def has(program):
    return shutil.which(program) is not None


needs_tools = pytest.mark.skipif(not has('h5repack'), reason='no h5repack')


@pytest.fixture
def plain(tmp_path):
    """A file with datasets of many types, without filters."""
    path = tmp_path / 'plain.h5'
    with h5py.File(path, 'w', libver='earliest') as file:
        file.create_dataset('f4', data=sample('f4', (60, 50)), chunks=(30, 25))
        file.create_dataset('g/f8', data=sample('>f8', (11, 12, 13)), chunks=(4, 5, 6), fillvalue=-9.0)
        file.create_dataset('g/i2', data=sample('i2', (100,)), chunks=(33,))
        file.create_dataset('contiguous', data=sample('f4', (64, 64), 'special'))
        file.create_dataset('one', data=np.float32([3]), chunks=(1,))
        file.create_dataset('two', data=np.float64([3, 4]), chunks=(2,))
        file.create_dataset('text', data=np.array([b'ab', b'c'] * 40), chunks=(40,))
        file.create_dataset('pairs', data=np.zeros(50, [('a', 'f4'), ('b', 'i2')]), chunks=(25,))
        file.create_dataset('scalar', data=4.0)
        file.create_dataset('empty', shape=(0, 4), maxshape=(None, 4), dtype='f4', chunks=(4, 4))
    return path


def check_same(a, b, bound):
    def compare(name, x):
        if isinstance(x, h5py.Dataset):
            u, v = x[()], other[name][()]
            if np.asarray(u).dtype.kind in 'fi' and np.ndim(u):
                assert violations(u, v, ABS, bound) == 0, name
            else:
                assert np.asarray(u).tobytes() == np.asarray(v).tobytes(), name
    with h5py.File(a) as first, h5py.File(b) as other:
        first.visititems(compare)


@needs_tools
def test_h5repack(plain, tmp_path):
    packed, rechunked, unpacked, again = (tmp_path / f'{n}.h5' for n in ('packed', 'rechunked', 'unpacked', 'again'))
    run('h5repack', '-f', UD, plain, packed)
    check_same(plain, packed, 1e-3)
    with h5py.File(packed) as file:
        for name in 'f4', 'g/f8', 'g/i2', 'one', 'two':
            assert filter_of(file[name])[0] == 0, name
        assert file['f4'].id.get_storage_size() < file['f4'].size * 4
    run('h5repack', '-l', 'f4:CHUNK=17x41', '-l', 'g/f8:CHUNK=11x12x13', packed, rechunked)
    check_same(plain, rechunked, 1e-3)
    with h5py.File(rechunked) as file:
        assert file['f4'].chunks == (17, 41) and filter_of(file['f4'])[1][-2:] == (17, 41)
    run('h5repack', '-f', 'f4,g/f8:' + UD, rechunked, again)
    check_same(plain, again, 1e-3)
    run('h5repack', '-f', 'NONE', again, unpacked)
    check_same(plain, unpacked, 1e-3)
    with h5py.File(unpacked) as file:
        assert file['f4'].id.get_create_plist().get_nfilters() == 0
    with h5py.File(again) as file:
        kept = file['f4'][...]
    with h5py.File(unpacked) as file:
        assert same_bits(file['f4'][...], kept)
    if has('h5diff'):
        run('h5diff', '-d', '0.0010001', plain, unpacked)


@needs_tools
def test_h5repack_lossless_is_exact(plain, tmp_path):
    run('h5repack', '-f', f'UD={FZM},0,1,5', plain, tmp_path / 'a.h5')
    check_same(plain, tmp_path / 'a.h5', 0)
    run('h5repack', '-f', f'UD={FZM},1,2,2,0', plain, tmp_path / 'b.h5')
    check_same(plain, tmp_path / 'b.h5', 0)
    if has('h5diff'):
        run('h5diff', plain, tmp_path / 'a.h5')


@needs_tools
def test_h5repack_behind_shuffle(plain, tmp_path):
    """h5repack keeps the old layout when a dataset cannot be made; nothing is lost."""
    run('h5repack', '-f', 'SHUF', '-f', UD, plain, tmp_path / 'a.h5')
    check_same(plain, tmp_path / 'a.h5', 1e-3)


@needs_tools
@pytest.mark.skipif(not has('h5dump'), reason='no h5dump')
def test_h5dump(plain, tmp_path):
    run('h5repack', '-f', 'f4:' + UD, plain, tmp_path / 'a.h5')
    text = run('h5dump', '-p', '-H', '-d', 'f4', tmp_path / 'a.h5', env={'HDF5_PLUGIN_PATH': '/nonexistent'})
    assert f'FILTER_ID {FZM}' in text and 'h5z-fzm: error-bounded compression' in text
    params = re.search(r'PARAMS \{([^}]*)\}', text).group(1).split()
    with h5py.File(tmp_path / 'a.h5') as file:
        assert [int(v) & 0xffffffff for v in params] == list(filter_of(file['f4'])[1])
    assert run('h5dump', '-d', 'f4', tmp_path / 'a.h5').count(',') > 3000
    if has('h5stat'):
        run('h5stat', tmp_path / 'a.h5')
    if has('h5ls'):
        assert str(FZM) in run('h5ls', '-v', str(tmp_path / 'a.h5') + '/f4')


@needs_tools
@pytest.mark.skipif(not has('h5copy'), reason='no h5copy')
def test_h5copy(plain, tmp_path):
    run('h5repack', '-f', 'f4:' + UD, plain, tmp_path / 'a.h5')
    run('h5copy', '-i', tmp_path / 'a.h5', '-o', tmp_path / 'b.h5', '-s', 'f4', '-d', 'f4')
    with h5py.File(tmp_path / 'a.h5') as a, h5py.File(tmp_path / 'b.h5') as b:
        assert same_bits(a['f4'][...], b['f4'][...]) and filter_of(a['f4']) == filter_of(b['f4'])


@needs_tools
def test_h5repack_long_pipeline(tmp_path):
    """More than 20 stored values: written through h5py, repacked with the words from the file."""
    stages = [{'name': 'q', 'type': 'Quantizer'}, {'name': 'd', 'type': 'Difference', 'inputs': ['q.codes']},
              {'type': 'Zigzag'}, {'type': 'Bitshuffle'}, {'type': 'RZE'}, {'type': 'RRE', 'inputs': ['q.outlier_mask']},
              {'type': 'RZE'}, {'type': 'RRE', 'inputs': ['q.outlier_vals']}, {'type': 'RZE'}]
    x = sample('f4', (60, 50))
    with h5py.File(tmp_path / 'a.h5', 'w') as file:
        create(file, 'x', 'f4', x.shape, (30, 25),
               json_options(json.dumps({'fzm': 1, 'bound': {'mode': 'abs', 'value': 0.01}, 'stages': stages},
                                       separators=(',', ':'))))[...] = x
    run('h5repack', '-l', 'x:CHUNK=20x50', tmp_path / 'a.h5', tmp_path / 'b.h5')
    with h5py.File(tmp_path / 'b.h5') as file:
        assert file['x'].chunks == (20, 50)
        assert violations(x, file['x'][...], ABS, 0.01) == 0


@pytest.mark.skipif(not has('nccopy') or not has('ncgen'), reason='no netCDF tools')
def test_nccopy(tmp_path):
    cdl = tmp_path / 'a.cdl'
    values = ', '.join(f'{v:.6g}' if i % 9 else '_' for i, v in enumerate(sample('f4', (30, 40)).ravel()))
    cdl.write_text('netcdf a { dimensions: y = 30, x = 40; variables: float v(y, x); int k(y); data: v = ' + values +
                   '; k = ' + ', '.join(map(str, range(30))) + '; }')
    run('ncgen', '-k', 'nc4', '-o', tmp_path / 'a.nc', cdl)
    run('nccopy', '-F', f'v,{FZM},1,1,0.001d', tmp_path / 'a.nc', tmp_path / 'b.nc')
    with h5py.File(tmp_path / 'a.nc') as a, h5py.File(tmp_path / 'b.nc') as b:
        assert filter_of(b['v'])[1][1:5] == (1, 1, 3539053052, 1062232653)
        fill = np.float32(9.96921e36)
        assert violations(a['v'][...], b['v'][...], ABS, 1e-3, fill) == 0
    run('nccopy', tmp_path / 'b.nc', tmp_path / 'c.nc')
    run('nccopy', '-F', 'none', tmp_path / 'c.nc', tmp_path / 'd.nc')
    with h5py.File(tmp_path / 'b.nc') as b, h5py.File(tmp_path / 'd.nc') as d:
        assert same_bits(b['v'][...], d['v'][...]) and d['v'].id.get_create_plist().get_nfilters() == 0


@pytest.mark.skipif(not has('nm'), reason='no nm')
def test_plugin_file():
    """Two symbols go out, no HDF5 symbol comes in."""
    defined = [line.split()[-1] for line in run('nm', '-D', '--defined-only', PLUGIN).splitlines()]
    assert sorted(defined) == ['H5PLget_plugin_info', 'H5PLget_plugin_type']
    undefined = run('nm', '-D', '--undefined-only', PLUGIN)
    assert not re.search(r'\bH5[A-Z]', undefined) and 'abort' not in undefined.split() and 'exit' not in undefined.split()
    if has('readelf'):
        text = run('readelf', '-d', PLUGIN)
        assert 'NODELETE' in text and 'hdf5' not in text and 'libgomp' not in text


EXAMPLES = os.path.join(HERE, '..', 'examples')


@pytest.mark.skipif(not os.path.exists(os.path.join(BUILD, 'examples', 'example_write')), reason='examples not built')
def test_c_examples(tmp_path):
    for args in [], ['1', '1e-2'], [os.path.join(EXAMPLES, 'presets', 'fast.json')]:
        write = [os.path.join(BUILD, 'examples', 'example_write'), tmp_path / 'a.h5', *args]
        if args and args[0].endswith('.json'):
            text = json.load(open(args[0]))
            text.setdefault('bound', {'mode': 'abs', 'value': 1e-3})
            (tmp_path / 'p.json').write_text(json.dumps(text, indent=8))  # longer than the values take
            write[-1] = tmp_path / 'p.json'
        run(*write)
        text = run(os.path.join(BUILD, 'examples', 'example_read'), tmp_path / 'a.h5')
        assert float(text.split()[-1]) > 4
    assert 'finite' in run(os.path.join(BUILD, 'examples', 'example_write'), tmp_path / 'b.h5', '1', 'nan', code=1)


def test_h5py_example(tmp_path):
    text = run(sys.executable, os.path.join(EXAMPLES, 'h5py_example.py'), tmp_path / 'a.h5')
    assert len(text.splitlines()) == 4
