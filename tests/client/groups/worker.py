"""Group member process: `worker.py TOPIC NAME=VALUE ...` polls until it is killed."""

from __future__ import annotations

import sys

from moldau import Consumer


def main(topic: str, *settings: str) -> None:
    with Consumer(topic, dict(one.split("=", 1) for one in settings)) as consumer:
        while True:
            consumer.poll(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
