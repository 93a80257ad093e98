"""A fuzzer of model files: forged ones are loaded and used under watch, in a process of their own.

``corpus``: honest models out of every class that a file may hold. ``forging``: what an attacker
writes instead. ``watching``: which files, processes and modules are touched. ``worker``: loads and
uses forged files. ``hunting``: starts workers, survives their crashes, counts. ``python -m fuzz``
from the folder of the tests runs all of it; the tests run a part.
"""
