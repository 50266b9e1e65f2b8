# SPDX-License-Identifier: BSD-3-Clause
"""Finds the build and points HDF5 at the plugin, also for the programs that tests start."""
import os

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.setdefault('FZM_BUILD', os.path.join(HERE, '..', 'build')))
os.environ.setdefault('HDF5_PLUGIN_PATH', os.path.join(BUILD, 'plugin'))
for name in 'FZM_ENGINE FZM_DEVICE FZM_LOG'.split():
    os.environ.pop(name, None)
