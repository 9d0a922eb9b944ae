"""ZooKeeper of a test: on loopback, or each server in a network namespace; killed, paused and restarted."""

from __future__ import annotations

import signal
from pathlib import Path

from moldau.cli.zookeeper.server import START_TIMEOUT_S, Ports, ZooKeeperEnsemble, ZooKeeperServer
from tests.system.cluster.network import Bridge, Loopback

CLIENT_PORT, PEER_PORT, ELECTION_PORT = 2181, 2888, 3888
"""Fixed ports: no other process runs in the server's namespace."""


class Ensemble(ZooKeeperEnsemble):
    """One server or three. Leaving the context ends them."""

    def __init__(self, directory: Path, network: Loopback | Bridge, servers: int = 1) -> None:
        super().__init__(directory, servers=servers)
        self.names = [server.directory.name for server in self.servers]
        if isinstance(network, Bridge):
            ports = [Ports(CLIENT_PORT, PEER_PORT, ELECTION_PORT, network.address(name)) for name in self.names]
            self.servers = [
                ZooKeeperServer(number, directory / name, ports, network.enter(name))
                for number, name in enumerate(self.names, 1)
            ]

    def restart(self, server: ZooKeeperServer) -> None:
        """Start a server that was killed, and return when all servers serve."""
        server.launch()
        self.wait_until_serving(START_TIMEOUT_S)

    def kill(self) -> None:
        for server in self.servers:
            if server.alive:
                server.kill()


def pause(server: ZooKeeperServer) -> None:
    server.child.process.send_signal(signal.SIGSTOP)


def resume(server: ZooKeeperServer) -> None:
    server.child.process.send_signal(signal.SIGCONT)
