"""Chapter 8: acks=1. A record that only the leader has is acknowledged, and lost with the leader.

This exercise starts a cluster of three brokers in its own process.
"""

from __future__ import annotations

from course import read_all

from moldau import Producer
from moldau.testing import Cluster


def main() -> None:
    with Cluster(3) as cluster:
        bootstrap = cluster.bootstrap_servers
        cluster.create_topic("orders", configs={"min.insync.replicas": 2})
        with Producer(bootstrap_servers=bootstrap) as producer:
            offset = producer.send("orders", b"acks=all").result().offset
        print(f"acks=all: acknowledged at offset {offset}")

        leader = cluster.leader_of("orders")
        followers = [broker for broker in cluster.brokers if broker.node_id != leader]
        for broker in followers:
            broker.crash()
        cluster.wait_until(lambda image: image.partition("orders", 0).isr == (leader,))
        with Producer(bootstrap_servers=bootstrap, acks=1, enable_idempotence=False) as producer:
            offset = producer.send("orders", b"acks=1").result().offset
        print(f"acks=1: acknowledged at offset {offset}, by broker {leader} alone")

        cluster.brokers[leader].crash()
        for broker in followers:
            broker.start()
        living = [broker.node_id for broker in followers]
        cluster.wait_until(lambda image: image.partition("orders", 0).leader in living)
        values = [one.value for one in read_all(bootstrap, "orders")]
        print(f"broker {leader} is gone, broker {cluster.leader_of('orders')} leads and has {values}")
        assert values == [b"acks=all"]

        cluster.start()
        cluster.wait_in_sync()
        values = [one.value for one in read_all(bootstrap, "orders")]
        print(f"broker {leader} is back, follows, and has dropped its record: {values}")
        assert values == [b"acks=all"]


if __name__ == "__main__":
    main()
