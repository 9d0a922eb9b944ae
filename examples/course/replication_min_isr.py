"""Chapter 8: min.insync.replicas. With too few replicas in sync the broker refuses acks=all, and accepts acks=1.

This exercise starts a cluster of three brokers in its own process.
"""

from __future__ import annotations

from course import read_all

from moldau import Producer, errors
from moldau.testing import Cluster


def main() -> None:
    with Cluster(3) as cluster:
        cluster.create_topic("orders", configs={"min.insync.replicas": 2})
        leader = cluster.leader_of("orders")
        for broker in cluster.brokers:
            if broker.node_id != leader:
                broker.crash()
        cluster.wait_until(lambda image: image.partition("orders", 0).isr == (leader,))
        print(f"both followers have crashed: in sync is broker {leader} alone")

        bootstrap = cluster.bootstrap_servers
        quick = {"delivery_timeout_ms": 1_000, "request_timeout_ms": 900, "linger_ms": 0}
        with Producer(bootstrap_servers=bootstrap, **quick) as careful:
            try:
                careful.send("orders", b"acks=all").result()
            except errors.MoldauError as error:
                print(f"acks=all: {error}")
            else:
                raise AssertionError("acknowledged by one replica although two are needed")
        with Producer(bootstrap_servers=bootstrap, acks=1, enable_idempotence=False) as careless:
            offset = careless.send("orders", b"acks=1").result().offset
        print(f"acks=1: accepted at offset {offset}; only one broker has this record")

        cluster.start()
        cluster.wait_in_sync()
        with Producer(bootstrap_servers=bootstrap) as careful:
            careful.send("orders", b"acks=all again").result()
        values = [one.value for one in read_all(bootstrap, "orders")]
        print(f"all brokers are back: {values}")
        assert values == [b"acks=1", b"acks=all again"]


if __name__ == "__main__":
    main()
