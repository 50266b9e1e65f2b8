# SPDX-License-Identifier: BSD-3-Clause
"""Adds up what the test programs reported: count_results.py FOLDER

FOLDER holds meson.json (one JSON object a line, from meson test) and NAME.xml (JUnit) for every NAME-wanted.
Prints what failed, then as the last line "N passed, N failed". Exit status 1 if anything failed or nothing ran.
"""
import json
import os
import re
import sys
import xml.etree.ElementTree

COUNT = re.compile(r'^(\d+) passed, (\d+) failed', re.MULTILINE)


def count_meson(path):
    """Programs that print "N passed, N failed" count by it, others as one test."""
    passed = failed = skipped = 0
    for line in open(path):
        test = json.loads(line)
        counts = COUNT.findall(test.get('stdout') or '')
        n_passed, n_failed = (int(n) for n in counts[-1]) if counts else (0, 0)
        if test['result'] == 'SKIP':
            skipped += 1
            continue
        if test['result'] in ('OK', 'EXPECTEDFAIL'):
            n_passed += not counts
        elif n_failed == 0:  # crashed or timed out
            n_failed = 1
        if n_failed:
            print(f"FAILED {test['name']}: {test['result']}, {n_failed} failed")
        passed += n_passed
        failed += n_failed
    return passed, failed, skipped


def count_junit(path):
    passed = failed = skipped = 0
    for case in xml.etree.ElementTree.parse(path).getroot().iter('testcase'):
        if case.find('failure') is not None or case.find('error') is not None:
            print(f"FAILED {os.path.basename(path)[:-4]}: {case.get('classname')}.{case.get('name')}")
            failed += 1
        elif case.find('skipped') is not None:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main():
    folder = sys.argv[1]
    names = sorted(os.listdir(folder))
    total = [0, 0, 0]
    for name in names:
        path = os.path.join(folder, name)
        if name == 'meson.json':
            counts = count_meson(path)
        elif name.endswith('.xml'):
            counts = count_junit(path)
        elif name.endswith('-crashed') or (name.endswith('-wanted') and name[:-7] + '.xml' not in names):
            print(f'FAILED {name.rsplit("-", 1)[0]}: no results')
            counts = 0, 1, 0
        elif name.endswith('-skipped'):
            counts = 0, 0, 1
        else:
            continue
        total = [a + b for a, b in zip(total, counts)]
    passed, failed, skipped = total
    print(f'{passed} passed, {failed} failed' + (f', {skipped} skipped' if skipped else ''))
    return 1 if failed or passed == 0 else 0


sys.exit(main())
