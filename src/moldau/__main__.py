"""The `moldau` command, also as `python -m moldau`."""

from __future__ import annotations

import signal


def main() -> None:
    waits_for_ctrl_c = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not what a shell put behind
    if waits_for_ctrl_c:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while Python imports there is nothing to end well, nor to tell
    from moldau.cli.main import main as run

    if waits_for_ctrl_c:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
