# SPDX-License-Identifier: BSD-3-Clause
"""The fzm tool: every command, its output and its exit status (0 ok, 1 failed, 2 usage)."""
import json
import os
import shlex
import subprocess

import numpy as np
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get('FZM_BUILD', os.path.join(HERE, '..', 'build'))
FZM = os.path.join(BUILD, 'tools', 'fzm')
SST = os.path.join(HERE, 'data', 'coads_sst_12x90x180.f32')
SST_ARGS = ['--type', 'f32', '--shape', '12x90x180']


def fzm(*args, code=0):
    """Standard output of a command that must end with this status; nothing but text on either stream."""
    done = subprocess.run([FZM, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == code, f'{args}: status {done.returncode}\n{done.stdout}{done.stderr}'
    if code == 2:
        assert done.stderr.startswith('fzm')
    return done.stdout if code != 2 else done.stderr


def test_usage():
    assert 'usage' in subprocess.run([FZM], stderr=subprocess.PIPE, text=True).stderr
    assert subprocess.run([FZM], stderr=subprocess.DEVNULL).returncode == 2
    assert 'compress' in fzm('--help')
    for command in 'presets stages filter-args compress decompress info compare bench'.split():
        assert fzm(command, '--help').startswith(f'usage: fzm {command}')
        fzm(command, '--no-such-option', code=2)
    assert 'nonsense' in fzm('nonsense', code=2)


def test_tables():
    presets = json.loads(fzm('presets', '--json'))
    assert [p['number'] for p in presets] == sorted({p['number'] for p in presets})
    assert {'fast', 'balanced', 'lossless'} <= {p['name'] for p in presets}
    stages = json.loads(fzm('stages', '--json'))
    assert len({s['id'] for s in stages}) == len(stages)
    assert len(fzm('stages').splitlines()) == len(stages)
    assert fzm('presets').splitlines()[0].split()[1] == presets[0]['name']


@pytest.mark.parametrize('args, values', [
    ('--preset fast --abs 1e-3', [1, 1, 1, 3]),
    ('--preset 1 --abs 0.001', [1, 1, 1, 3]),
    ('--preset fast --range 2.50e-4', [1, 3, 25, 5]),
    ('--preset balanced --abs 1500', [2, 1, 1500, 0]),
    ('--preset lossless', [5, 0]),
    ('--preset fast --abs 0.12345678901234567', [1, 1, *np.array([0.12345678901234567]).view('<u4').tolist()]),
])
def test_filter_args(args, values):
    got = json.loads(fzm('filter-args', '--output-json', *shlex.split(args)))
    assert got['filter_id'] == 46266 and got['cd_values'] == values
    text = fzm('filter-args', *shlex.split(args))
    joined = ','.join(map(str, values))
    assert f'UD=46266,0,{len(values)},{joined} ' in text and f'46266,{joined}"' in text
    assert f"compression_opts=({', '.join(map(str, values))})" in text and 'H5Pset_filter' in text


def test_filter_args_json(tmp_path):
    for preset in json.loads(fzm('presets', '--json')):
        if not preset['pipeline']:
            continue
        pipeline = dict(preset['pipeline'], bound={'mode': 'abs', 'value': 1e-3})
        path = tmp_path / 'pipeline.json'
        path.write_text(json.dumps(pipeline))
        if preset['name'] == 'lossless':
            continue
        got = json.loads(fzm('filter-args', '--json', path, '--output-json'))
        assert got['cd_values'][0] >= 1 << 24 and len(got['cd_values']) <= 18 and got['fits_h5repack']


@pytest.mark.parametrize('args', ['--abs 1 --rel 1', '--abs x', '--abs nan', '--abs -1', '--psnr 0', '--preset nope'])
def test_bad_bounds(args):
    fzm('filter-args', *shlex.split(args), code=2)


@pytest.mark.parametrize('bound', ['--abs 1e-3', '--rel 1e-2', '--range 1e-4', '--maxabs 1e-4', '--psnr 80', '--lossless'])
@pytest.mark.parametrize('preset', ['fast', 'balanced'])
def test_round_trip(tmp_path, preset, bound):
    stream, restored = tmp_path / 'a.fzm', tmp_path / 'a.f32'
    bound = bound.split()
    fzm('compress', SST, stream, *SST_ARGS, '--preset', preset, '--fill', '-1e34', *bound)
    fzm('decompress', stream, restored)
    found = json.loads(fzm('compare', SST, restored, '--type', 'f32', '--fill', '-1e34', '--json', *bound))
    assert found['n_violations'] == 0 and found['n_fill'] == 89622
    info = json.loads(fzm('info', '--json', stream))
    assert info['shape'] == [12, 90, 180] and info['type'] == 'f32' and info['mode'] == bound[0][2:]
    assert info['stream_nbytes'] == os.path.getsize(stream) < os.path.getsize(SST)
    assert info['header_nbytes'] <= 96
    assert sum(s['nbytes'] for s in info['sections']) + info['header_nbytes'] == info['stream_nbytes']
    assert 'ratio' in fzm('info', stream)


def test_json_pipeline(tmp_path):
    pipeline = {'fzm': 1, 'bound': {'mode': 'abs', 'value': 1e-3}, 'stages': [
        {'name': 'quant', 'type': 'Quantizer'},
        {'name': 'pred', 'type': 'AdaptiveLorenzo', 'inputs': ['quant.codes']},
        {'name': 'pack', 'type': 'AdaptiveBitpack', 'inputs': ['pred.output'], 'block_size': 32}]}
    path = tmp_path / 'p.json'
    path.write_text(json.dumps(pipeline))
    # a field without a mask: this pipeline stores outliers as they are, and lossless would be smaller
    field = os.path.join(HERE, 'data', 'plot3d_comb_density_25x33x57.f32')
    fzm('compress', field, tmp_path / 'a', '--type', 'f32', '--shape', '25x33x57', '--json', path)
    fzm('decompress', tmp_path / 'a', tmp_path / 'b')
    fzm('compare', field, tmp_path / 'b', '--type', 'f32', '--abs', '1e-3')
    assert [s['type'] for s in json.loads(fzm('info', '--json', tmp_path / 'a'))['pipeline']['stages']] == [
        'Quantizer', 'AdaptiveLorenzo', 'AdaptiveBitpack']
    fzm('compress', SST, tmp_path / 'a', *SST_ARGS, '--json', path, '--abs', '1', code=2)
    path.write_text('{"fzm": 1, "stages": [{"type": "Quantiser"}]}')
    fzm('compress', SST, tmp_path / 'c', *SST_ARGS, '--json', path, code=1)
    assert not (tmp_path / 'c').exists()


def test_big_endian(tmp_path):
    data = np.fromfile(SST, '<f4')
    data.astype('>f4').tofile(tmp_path / 'be')
    fzm('compress', tmp_path / 'be', tmp_path / 's', *SST_ARGS, '--abs', '1e-3', '--big-endian', '--preset', 'fast')
    fzm('decompress', tmp_path / 's', tmp_path / 'r')
    restored = np.fromfile(tmp_path / 'r', '>f4')
    assert (np.abs(restored.astype('f8') - data.astype('f8')) <= 1e-3).all()


def test_errors_name_the_cause(tmp_path):
    done = subprocess.run([FZM, 'compress', SST, tmp_path / 'x', '--type', 'f32', '--shape', '12x90x181', '--abs', '1'],
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and '777600' in done.stderr and '781920' in done.stderr
    for args in (['--type', 'f16', '--shape', '1'], ['--type', 'f32', '--shape', '1x'], ['--type', 'f32', '--shape', '-1'],
                 ['--type', 'f32'], ['--shape', '3']):
        fzm('compress', SST, tmp_path / 'x', *args, code=2)
    fzm('info', tmp_path / 'none', code=1)
    (tmp_path / 'junk').write_bytes(b'junk' * 100)
    fzm('info', tmp_path / 'junk', code=1)
    fzm('decompress', tmp_path / 'junk', tmp_path / 'y', code=1)
    assert not (tmp_path / 'x').exists() and not (tmp_path / 'y').exists()


def test_compare(tmp_path):
    a = np.array([1, 2, np.nan, np.inf, 0, -0.0], 'f8')
    b = a.copy()
    b[0] = 1.5
    a.tofile(tmp_path / 'a')
    b.tofile(tmp_path / 'b')
    args = ['compare', tmp_path / 'a', tmp_path / 'b', '--type', 'f64']
    fzm(*args, '--abs', '0.5')  # exactly the bound
    fzm(*args, '--abs', '0.49999999999999994', code=1)
    fzm(*args, '--rel', '0.5')
    fzm(*args, '--lossless', code=1)
    fzm('compare', tmp_path / 'a', tmp_path / 'a', '--type', 'f64', '--lossless')
    b[0], b[3] = 1, -np.inf
    b.tofile(tmp_path / 'b')
    fzm(*args, '--abs', '1e300', code=1)
    fzm('compare', tmp_path / 'a', SST, '--type', 'f64', code=1)


def test_bench():
    rows = json.loads(fzm('bench', SST, *SST_ARGS, '--range', '1e-3', '--repeat', '2', '--fill', '-1e34', '--engine', 'cpu',
                          '--json'))
    assert {'fast', 'balanced'} <= {r['preset'] for r in rows}
    for row in rows:
        assert row['ratio'] > (1 if row['preset'] == 'lossless' else 3) and row['n_violations'] == 0 and row['compress_gbps'] > 0 and row['engine'] == 'cpu'
    for isa in ('c', 'avx2', 'avx512'):
        other = json.loads(fzm('bench', SST, *SST_ARGS, '--range', '1e-3', '--repeat', '1', '--fill', '-1e34', '--isa', isa,
                               '--preset', 'fast', '--engine', 'cpu', '--json'))
        assert other[0]['stream_nbytes'] == [r for r in rows if r['preset'] == 'fast'][0]['stream_nbytes']


def test_info_hdf5(tmp_path):
    h5py = pytest.importorskip('h5py')
    os.environ.setdefault('HDF5_PLUGIN_PATH', os.path.join(BUILD, 'plugin'))
    data = np.fromfile(SST, '<f4').reshape(12, 90, 180)
    path = tmp_path / 'a.h5'
    with h5py.File(path, 'w', userblock_size=512) as file:
        group = file.create_group('g')
        group.create_dataset('sst', data=data, chunks=(5, 90, 180), fillvalue=np.float32(-1e34), compression=46266,
                             compression_opts=(1, 1, 1, 3))
        group.create_dataset('late', shape=(100,), dtype='f8', chunks=(10,), compression=46266)
        file['plain'] = np.arange(3)
    found = {d['dataset']: d for d in json.loads(fzm('info', '--json', path))}
    assert set(found) == {'g/sst', 'g/late'}
    sst = found['g/sst']
    assert sst['n_chunks'] == sst['n_allocated'] == 3 and sst['n_unreadable'] == sst['n_without_filter'] == 0
    assert sst['mode'] == 'abs' and sst['bound'] == 1e-3 and sst['ratio'] > 2 and sst['pipeline']['stages']
    assert found['g/late']['n_allocated'] == 0 and found['g/late']['n_chunks'] == 10
    assert '1 without' in fzm('info', path)
