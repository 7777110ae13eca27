"""``python -m steppe_malloc run [--profile P] -- program args…`` and ``python -m steppe_malloc path``."""

import argparse
import os
import platform
import shutil
import sys
import sysconfig

from . import path

# Exit codes of shells and of env(1).
NOT_FOUND = 127
NOT_EXECUTABLE = 126


def preload() -> str:
    """Return the value of LD_PRELOAD: the library before those that are preloaded anyway."""
    library = path()
    if any(separator in library for separator in " :\n\t"):
        sys.exit(f"steppe_malloc: LD_PRELOAD can't name a path with a space or a colon: {library}")
    libraries = [library]
    name, version = platform.libc_ver()
    if name == "glibc" and tuple(map(int, version.split(".")[:2])) < (2, 34):
        # A library of its own there, without which a program can have no background thread.
        libraries.append("libpthread.so.0")
    before = os.environ.get("LD_PRELOAD")
    if before:
        libraries.append(before)
    return ":".join(libraries)


def find(program: str) -> str:
    """Return the path of a program: of this environment's scripts, or of PATH."""
    if os.sep in program:
        return program
    search = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    found = shutil.which(program, path=search)
    if found is None:
        print(f"steppe_malloc: {program}: not found", file=sys.stderr)
        sys.exit(NOT_FOUND)
    return found


def run(command, profile) -> None:
    """Replace this process by the program."""
    environment = dict(os.environ, LD_PRELOAD=preload())
    if profile is not None:
        environment["STEPPE_MALLOC_PROFILE"] = profile
    program = find(command[0])
    try:
        os.execve(program, command, environment)
    except OSError as error:
        print(f"steppe_malloc: {program}: {error.strerror}", file=sys.stderr)
        sys.exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m steppe_malloc", description=__doc__)
    tasks = parser.add_subparsers(dest="task", required=True)
    runner = tasks.add_parser("run", help="run a program with the allocator")
    runner.add_argument("--profile", choices=["speed", "balanced", "lean"])
    runner.add_argument("command", nargs=argparse.REMAINDER, metavar="-- program args…")
    tasks.add_parser("path", help="print the path of the library")
    arguments = parser.parse_args()
    if arguments.task == "path":
        print(path())
        return
    command = arguments.command
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        runner.error("a program is missing")
    run(command, arguments.profile)


if __name__ == "__main__":
    main()
