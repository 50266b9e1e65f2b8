# SPDX-License-Identifier: BSD-3-Clause
"""The plugin as a guest: fork, threads, environment, silence, memory."""
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from h5util import ABS, FAST, HERE, options, round_trip, sample, violations

X = sample('f4', (256, 256))


def work(path):
    y, nbytes = round_trip(path, X, (128, 128), options(FAST, ABS, 1e-2))
    return violations(X, y, ABS, 1e-2) == 0 and nbytes < X.nbytes


@pytest.mark.parametrize('used_before', [False, True])
@pytest.mark.filterwarnings('ignore::DeprecationWarning')
def test_fork(tmp_path, used_before):
    """Children of a process that has used the plugin, with its threads, or not."""
    code = (f"import sys; sys.path.insert(0, {HERE!r})\nimport conftest, multiprocessing\nfrom test_process import work\n"
            f"if {used_before}: assert work({str(tmp_path / 'p.h5')!r})\n"
            "with multiprocessing.get_context('fork').Pool(4) as pool:\n"
            f"    assert all(pool.map(work, [{str(tmp_path)!r} + f'/{{i}}.h5' for i in range(12)]))\n"
            f"assert work({str(tmp_path / 'q.h5')!r})\n")
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', code], timeout=100, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, 'FZM_NUM_THREADS': '4'})
    assert done.returncode == 0 and done.stdout == b'', done.stdout.decode()


def test_threads(tmp_path):
    results = {}

    def target(i):
        results[i] = all(work(tmp_path / f'{i}-{j}.h5') for j in range(4))
    threads = [threading.Thread(target=target, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: True for i in range(6)}


def child(body, env=None, code=0):
    """Both streams of a Python process that runs body with x, path and the helpers at hand."""
    text = (f"import sys; sys.path.insert(0, {HERE!r})\nimport os\nfrom h5util import *\nx = sample('f4', (64, 64))\n" + body)
    done = subprocess.run([sys.executable, '-c', text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **(env or {})}, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


DAMAGE = '''
with h5py.File(path, 'w') as f:
    create(f, 'x', 'f4', x.shape, x.shape, options(FAST, ABS, 0.1))[...] = x
with h5py.File(path, 'r+', rdcc_nbytes=0) as f:
    data = bytearray(f['x'].id.read_direct_chunk((0, 0))[1])
    data[-1] ^= 1
    f['x'].id.write_direct_chunk((0, 0), bytes(data))
with h5py.File(path) as f:
    try:
        f['x'][...]
        sys.exit(9)
    except OSError:
        pass
'''


def test_silent(tmp_path):
    body = f"path = {str(tmp_path / 'a.h5')!r}\n" + DAMAGE
    assert child(body) == ('', '')


@pytest.mark.parametrize('level', ['error', 'warn', 'info', 'debug'])
def test_log(tmp_path, level):
    """With FZM_LOG the reason of a damaged chunk is on stderr, one line."""
    out, err = child(f"path = {str(tmp_path / 'a.h5')!r}\n" + DAMAGE, {'FZM_LOG': level})
    lines = [line for line in err.splitlines() if line.startswith('h5z-fzm: error: decode: ')]
    assert out == '' and len(lines) >= 1
    assert ('h5z-fzm: debug: ' in err) == (level == 'debug')
    assert all(line.startswith('h5z-fzm: ') for line in err.splitlines())


@pytest.mark.parametrize('name, value', [('FZM_ENGINE', 'turbo'), ('FZM_NUM_THREADS', '0'), ('FZM_NUM_THREADS', 'many'),
                                         ('FZM_DEVICE', '-3'), ('FZM_LOG', 'loud')])
def test_wrong_environment(tmp_path, name, value):
    """An invalid value is told when a dataset is created, with the variable's name."""
    body = f'''
with h5py.File({str(tmp_path / 'a.h5')!r}, 'w') as f:
    for flags in MANDATORY, OPTIONAL:
        try:
            create(f, 'x', 'f4', x.shape, x.shape, options(FAST, ABS, 0.1), flags)
            sys.exit(9)
        except (ValueError, RuntimeError) as error:
            print(error)
'''
    out, err = child(body, {name: value})
    assert out.count(f'{name}={value}') == 2 and 'expected' in out and err == ''


@pytest.mark.parametrize('n_threads', ['1', '2', '7'])
def test_thread_count_does_not_change_bytes(tmp_path, n_threads):
    body = f'''
import hashlib
x = sample('f4', (300, 400))
round_trip({str(tmp_path / 'a.h5')!r}, x, (300, 400), options(BALANCED, ABS, 1e-2))
with h5py.File({str(tmp_path / 'a.h5')!r}) as f:
    print(hashlib.sha256(f['x'].id.read_direct_chunk((0, 0))[1]).hexdigest())
'''
    digests = {child(body, {'FZM_NUM_THREADS': n})[0] for n in ('1', n_threads)}
    assert len(digests) == 1


def test_many_opens(tmp_path):
    """Memory stays flat over many files."""
    body = f'''
import resource
path = {str(tmp_path / 'a.h5')!r}
def size():
    return int(open('/proc/self/statm').read().split()[1]) * 4096
for i in range(600):
    y, _ = round_trip(path, x, (32, 64), options(FAST, ABS, 1e-2))
    if i == 199:
        before = size()
print(size() - before)
'''
    assert int(child(body)[0]) < 3 << 20


def test_foreign_plugin_search(tmp_path):
    """HDF5 opens our file when it looks for another filter: nothing must happen."""
    body = '''
for i in range(300):
    assert not h5py.h5z.filter_avail(40000 + i)
assert len(os.listdir('/proc/self/task')) == n_threads
assert h5py.h5z.filter_avail(FZM)
'''
    child("n_threads = len(os.listdir('/proc/self/task'))\n" + body)


def test_relative_working_directory(tmp_path):
    """Nothing depends on the working directory."""
    child(f"os.chdir('/')\ny, n = round_trip({str(tmp_path / 'a.h5')!r}, x, (64, 64), options(LOSSLESS))\n"
          "assert same_bits(x, y)\n")


def test_large_chunk(tmp_path):
    """A chunk of 64 MiB, in a buffer that asks for huge pages."""
    x = np.arange(1 << 24, dtype='f4').reshape(256, 256, 256) * np.float32(1e-5)
    y, nbytes = round_trip(tmp_path / 'a.h5', x, x.shape, options(FAST, ABS, 1e-3))
    assert np.abs(x.astype('f8') - y).max() <= 1e-3 and nbytes < x.nbytes / 4
