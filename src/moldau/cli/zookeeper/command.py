"""Command `moldau zookeeper`: runs servers in the foreground until Ctrl-C or SIGTERM."""

from __future__ import annotations

from pathlib import Path

from moldau.cli.children import StopAsked, Stopping, first_to_end
from moldau.cli.output import EXIT_ERROR, EXIT_USAGE, complain, print_table
from moldau.cli.zookeeper.java import NotInstalled
from moldau.cli.zookeeper.server import ZooKeeperEnsemble, ZooKeeperFailed

EXIT_OK = 0


def run_zookeeper(data: Path, port: int, servers: int) -> int:
    """Run the servers and return the exit code: 0 after a requested stop, 1 if a server did not start or died, 2 for an
    invalid number of servers."""
    try:
        ensemble = ZooKeeperEnsemble(data, port=port, servers=servers)
    except ValueError as error:
        complain(f"--servers: {error}")
        return EXIT_USAGE
    except ZooKeeperFailed as error:
        complain(str(error))
        return EXIT_ERROR
    with Stopping() as stopping:
        try:
            ensemble.start()
        except StopAsked:
            return EXIT_OK
        except (ZooKeeperFailed, NotInstalled) as error:
            complain(str(error))
            return EXIT_ERROR
        except OSError as error:
            from moldau.cli.serve import describe  # imports the modules of a broker, which are not needed otherwise

            complain(describe(error))
            return EXIT_ERROR
        code = EXIT_OK
        try:
            _print_ready(ensemble)
            while ensemble.has_majority():
                gone = first_to_end([server.child for server in ensemble.servers if server.alive])
                code = EXIT_ERROR
                complain(f"{gone.name} (process {gone.pid}) has died: {gone.ending()}; its log is in {data}")
            complain("fewer than half of the servers are left: stopping")
        except StopAsked:
            pass
        finally:
            stopping.begin([server.child for server in ensemble.servers])
            ensemble.stop()
        return code


def _print_ready(ensemble: ZooKeeperEnsemble) -> None:
    rows = [(server.child.name, server.address, server.child.pid, str(server.directory)) for server in ensemble.servers]
    print_table(("server", "address", "pid", "data"), rows)
    print(f"ZooKeeper is ready on {ensemble.connect}")
    print(f"  use     moldau broker --data DIR --set node.id=N --zookeeper {ensemble.connect}/moldau")
    print("  stop    Ctrl-C", flush=True)
