# SPDX-License-Identifier: BSD-3-Clause
"""Synthetic float32 fields for speed measurements: gen_fields.py FOLDER [--full] [NAME ...]

Real fields small enough to ship say what a compressor's ratio is; its speed needs arrays larger than caches.
Fixed seeds; existing files are kept. Files are named NAME_SHAPE.f32. The --full sizes are for GPUs.

cld   Gaussian random field of spectral slope 3 in two axes, scaled to [0, 1]
turb  slope 11/3 in three axes, scaled to [0, 1]: like turbulence
bary  exp(3 g), g of slope 2.5 and unit variance: like a density, huge one-sided range
part  positions of particles sorted by cell of a 64^3 grid, with jitter: noisy, one axis
temp  slope 4, 250 +- 30, a fifth of every plane exactly 0: like an ocean model with its land mask
"""
import argparse
import os

import numpy as np

SHAPES = {  # small, full
    'cld': ((1800, 3600), (1800, 3600)),
    'turb': ((256, 256, 256), (512, 512, 512)),
    'bary': ((256, 256, 256), (512, 512, 512)),
    'part': ((1 << 24,), (1 << 27,)),
    'temp': ((26, 450, 900), (26, 1800, 3600)),
}


def gaussian(shape, slope, seed):
    """Gaussian random field whose power spectrum falls as k^-slope."""
    spectrum = np.fft.rfftn(np.random.default_rng(seed).standard_normal(shape).astype('f4'))
    axes = [np.fft.fftfreq(n) ** 2 for n in shape[:-1]] + [np.fft.rfftfreq(shape[-1]) ** 2]
    k2 = sum(np.meshgrid(*axes, indexing='ij', sparse=True))
    k2.flat[0] = np.inf  # no mean
    spectrum *= k2 ** (-slope / 4)
    return np.fft.irfftn(spectrum, s=shape, axes=range(len(shape))).astype('f4')


def unit(a):
    return (a - a.min()) / (a.max() - a.min())


def make(name, shape):
    if name == 'cld':
        return unit(gaussian(shape, 3.0, 1))
    if name == 'turb':
        return unit(gaussian(shape, 11 / 3, 2))
    if name == 'bary':
        g = gaussian(shape, 2.5, 3)
        return np.exp(3 * g / g.std())
    if name == 'part':
        rng = np.random.default_rng(4)
        cell = np.sort(rng.integers(0, 64 ** 3, shape[0]))
        return ((cell % 64) + rng.random(shape[0])) * 4
    field = gaussian(shape, 4.0, 5)
    field = 250 + 30 * field / np.abs(field).max()
    land = gaussian(shape[1:], 4.0, 6)
    field[:, land > np.quantile(land, 0.8)] = 0
    return field


def generate(folder, names=SHAPES, full=False):
    """Writes the fields that are not there yet; returns their paths."""
    os.makedirs(folder, exist_ok=True)
    paths = []
    for name in names:
        shape = SHAPES[name][full]
        path = os.path.join(folder, f'{name}_{"x".join(map(str, shape))}.f32')
        if not os.path.exists(path):
            make(name, shape).astype('<f4').tofile(path + '.part')
            os.replace(path + '.part', path)
        paths.append(path)
    return paths


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder')
    parser.add_argument('--full', action='store_true', help='sizes for GPUs, up to 674 MB a field')
    parser.add_argument('names', nargs='*', choices=[[], *SHAPES], default=[])
    args = parser.parse_args()
    for made in generate(args.folder, args.names or SHAPES, args.full):
        print(made)
