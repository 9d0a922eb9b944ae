"""Entry point of the `moldau` command and of `python -m moldau`."""

from __future__ import annotations

import signal


def main() -> None:
    # A shell starts background jobs with SIGINT ignored; that stays so.
    waits_for_ctrl_c = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if waits_for_ctrl_c:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the imports ends the process without a traceback
    from moldau.cli.main import main as run

    if waits_for_ctrl_c:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
