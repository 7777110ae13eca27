"""The allocator steppe-malloc as a library to preload.

``python -m steppe_malloc run -- program`` runs a program with it; an allocator can't be put under a
process that runs already, so importing this module changes nothing.
"""

import os

__all__ = ["path"]


def path() -> str:
    """Return the path of the shared library, for ``LD_PRELOAD``."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "libsteppe_malloc.so")
