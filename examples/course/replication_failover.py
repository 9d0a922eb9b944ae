"""Chapter 8: failover. The leader of a partition dies; another replica leads, and no acknowledged record is lost.

This exercise starts a cluster of three brokers in its own process.
"""

from __future__ import annotations

from course import read_all

from moldau import Producer
from moldau.testing import Cluster


def main() -> None:
    with Cluster(3, {"min.insync.replicas": 2}) as cluster:
        cluster.create_topic("orders")
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            acknowledged = []
            for number in range(300):
                value = b"order %d" % number
                if number == 100:
                    leader = cluster.leader_of("orders")
                    print(f"broker {leader} leads, in sync are {sorted(cluster.in_sync('orders'))}; it crashes now")
                    cluster.brokers[leader].crash()
                producer.send("orders", value).result()
                acknowledged.append(value)
        print(f"broker {cluster.leader_of('orders')} leads, in sync are {sorted(cluster.in_sync('orders'))}")
        assert cluster.leader_of("orders") != leader and leader not in cluster.in_sync("orders")

        found = [one.value for one in read_all(cluster.bootstrap_servers, "orders")]
        print(f"{len(acknowledged)} records were acknowledged, {len(found)} are there, each once and in order")
        assert found == acknowledged

        cluster.start()
        cluster.wait_in_sync()
        print(f"broker {leader} is back: in sync are {sorted(cluster.in_sync('orders'))}")
        assert len(cluster.in_sync("orders")) == 3


if __name__ == "__main__":
    main()
