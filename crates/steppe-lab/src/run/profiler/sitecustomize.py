"""Traces the memory of a Python process, and tells steppe-lab on SIGURG who allocated what is not freed.

The lab puts the folder of this file first in PYTHONPATH. SIGURG is ignored by whoever has no handler for it.
"""

import gc
import importlib.machinery
import importlib.util
import json
import mmap
import os
import signal
import sys
import tracemalloc
import warnings

FOLDER = os.path.dirname(os.path.abspath(__file__))
# Frames of a stack: what is found in Python's own library is told by the line that called it.
FRAMES = 6
# Stacks that are told, the largest.
STACKS = 4096


def tell(_signal, _frame):
    """Has a copy of the process tell: a snapshot is as large as what it is of, and is not to be measured."""
    gc.collect()
    process = os.getpid()
    with warnings.catch_warnings():
        # Of threads, which the copy does not have and does not need.
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        # Once more, so that nobody has to wait for it.
        try:
            if os.fork() == 0:
                write(process)
        finally:
            # Whatever happens: two of the program may not go on.
            os._exit(0)
    try:
        os.waitpid(child, 0)
    except ChildProcessError:
        # The program waits for every child itself.
        pass


def write(process):
    # Grouped before it is filtered: there are far fewer stacks than blocks.
    groups = tracemalloc.take_snapshot().statistics("traceback")
    groups = [
        {
            "bytes": group.size,
            "count": group.count,
            "frames": [(frame.filename, frame.lineno) for frame in reversed(group.traceback)],
        }
        for group in groups[:STACKS]
        # What was allocated here, or for here, is not the program's.
        if not any(frame.filename in (__file__, tracemalloc.__file__) for frame in group.traceback)
    ]
    answer = os.path.join(FOLDER, f"{process}.json")
    try:
        with open(answer + ".part", "w", encoding="utf-8", errors="replace") as file:
            json.dump({"stdlib": os.path.dirname(os.__file__), "groups": groups}, file)
        os.replace(answer + ".part", answer)
    except OSError:
        pass


def run_next():
    """Runs the sitecustomize that this one hides, if there is one."""
    rest = [path for path in sys.path if os.path.abspath(path) != FOLDER]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


tracemalloc.start(FRAMES)
signal.signal(signal.SIGURG, tell)
# Says that this process answers, and so do those that it forks: the lab looks for this mapping.
with open(__file__, "rb") as script:
    MARK = mmap.mmap(script.fileno(), 0, access=mmap.ACCESS_READ)
run_next()
