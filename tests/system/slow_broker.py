"""`python -m tests.system.slow_broker broker ...`: the `moldau` command on a disk that is slow for some topics.

Each read of a topic whose name begins with `slow` takes half a second, and of `cold` topics a millisecond. Neither is
ever in the page cache. All other topics are unchanged.
"""

from __future__ import annotations

import functools

from moldau.broker.assembly import assemble
from moldau.cli import main, serve
from moldau.host.syscalls import LinuxCalls, files_allowed
from moldau.testing.faulty_fs import FaultyFileSystem

SLOW_S = 0.5
COLD_S = 0.001

if __name__ == "__main__":
    fs = FaultyFileSystem(LinuxCalls(), files_allowed())
    fs.slow("*/slow*-*/*", SLOW_S)
    fs.slow("*/cold*-*/*", COLD_S)
    serve.assemble = functools.partial(assemble, fs=fs)  # type: ignore[assignment]
    main.main()
