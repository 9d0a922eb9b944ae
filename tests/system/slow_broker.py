"""`python -m tests.system.slow_broker broker ...`: the `moldau` command on a disk that is slow for some topics.

Reads of topics whose names begin with `slow` take half a second each, those of `cold` ones a millisecond; neither is
ever in the page cache. All others are as they are.
"""

from __future__ import annotations

import functools

from moldau.broker.assembly import assemble
from moldau.cli import main, serve
from moldau.host.calls import LinuxCalls, files_allowed
from moldau.testing.faulty_fs import FaultyFileSystem

SLOW_S = 0.5
COLD_S = 0.001

if __name__ == "__main__":
    fs = FaultyFileSystem(LinuxCalls(), files_allowed())
    fs.slow("*/slow*-*/*", SLOW_S)
    fs.slow("*/cold*-*/*", COLD_S)
    serve.assemble = functools.partial(assemble, fs=fs)  # type: ignore[assignment]
    main.main()
