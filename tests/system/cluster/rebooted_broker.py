"""`python -m tests.system.cluster.rebooted_broker broker ...`: the `moldau` command on a rebooted machine."""

from __future__ import annotations

import functools

from moldau.broker.assembly import assemble
from moldau.cli import main, serve

BOOT_ID = "not the boot that the rest of this test runs in"

if __name__ == "__main__":
    serve.assemble = functools.partial(assemble, boot_id=BOOT_ID)  # type: ignore[assignment]
    main.main()
