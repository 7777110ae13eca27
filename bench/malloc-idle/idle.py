#!/usr/bin/env python3
"""Shows as a table what allocators have given back after some seconds without any call.

Usage: idle.py [--cc musl-gcc] [--seconds 30] NAME [NAME=LIBRARY]…

A name without a library is the C library's own allocator. Libraries are preloaded; variables of a
contestant follow behind commas: `lean=/lib/libsteppe_malloc.so,STEPPE_MALLOC_PROFILE=lean`. The program
is idle.c, a fresh process for each figure, the median of three.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

CASES = {
    "small": "100,000 × 2 kB, all freed",
    "scattered": "the same, every 50th kept (4 MB)",
    "medium": "1,000 × 200 kB, all freed",
    "large": "10 × 20 MB, all freed",
    "threads": "100,000 × 2 kB in 4 threads, which sleep",
}
RUNS = 3


def settings(contestant):
    name, _, rest = contestant.partition("=")
    library, *variables = rest.split(",")
    environment = dict(variable.split("=", 1) for variable in variables)
    if library:
        environment["LD_PRELOAD"] = library
    return name, dict(os.environ, **environment)


def idle_mb(program, case, seconds, environment):
    def figures():
        run = [program, case, str(seconds)]
        output = subprocess.run(run, env=environment, check=True, capture_output=True, text=True)
        assert not output.stderr, output.stderr
        return tuple(int(word) for word in output.stdout.split())

    peaks, rests = zip(*(figures() for _ in range(RUNS)))
    return statistics.median(peaks), statistics.median(rests)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("contestants", nargs="+", metavar="NAME[=LIBRARY]")
    arguments = parser.parse_args()
    contestants = [settings(contestant) for contestant in arguments.contestants]
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder, "idle"))
        source = str(Path(__file__).with_name("idle.c"))
        compile_it = [arguments.cc, "-O1", "-fno-builtin", "-pthread", "-D_GNU_SOURCE", source, "-o", program]
        subprocess.run(compile_it, check=True)
        names, environments = zip(*contestants)
        print("| resident MB: peak → idle | " + " | ".join(names) + " |")
        print("| --- |" + " ---: |" * len(names))
        for case, title in CASES.items():
            measure = partial(idle_mb, program, case, arguments.seconds)
            # They sleep at the same time: none does anything meanwhile.
            with ThreadPoolExecutor(len(contestants)) as pool:
                row = list(pool.map(measure, environments))
            print(f"| {title} | " + " | ".join(f"{peak} → {rest}" for peak, rest in row) + " |", flush=True)


if __name__ == "__main__":
    main()
