"""Security of a simulated cluster: users who log in with SASL PLAIN, and access control that denies by default.

Every broker and client logs in. There is no TLS, and no SCRAM: both need threads or sockets that a simulation does not
have. The store's own commits tell which rights a user has at which time, whatever clients were told.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from moldau.cluster.security_nodes import AclNode
from moldau.security.acls import AclEntry, AclRule, PatternType, Permission, ResourcePattern
from moldau.security.resources import Operation, ResourceType
from moldau.testing.simulation.history import StoredRules

if TYPE_CHECKING:
    from moldau.testing.simulation.ensemble import Change
    from moldau.testing.simulation.history import History

PROTOCOL = "SASL_PLAINTEXT"
ADMIN, BROKER = "admin", "broker"
"""Super users."""
WORKER = "worker"
"""The user of all clients whose records are checked. Rules allow it everything, from the beginning to the end."""
GUEST = "guest"
"""Gains and loses rights during the simulation."""
STRANGER = "stranger"
"""Never gets a right."""
USERS = (ADMIN, BROKER, WORKER, GUEST, STRANGER)

GUARDED = "guarded"
"""The topic of the guest and the stranger."""
OPERATIONS = (Operation.READ, Operation.WRITE)

SHARE = 4
"""One of so many seeds simulates a secured cluster."""


class SimulatedSecurity:
    """Logins and rules of one simulation."""

    def __init__(self, seed: int, history: History) -> None:
        random = Random(seed)
        self._history = history
        self._acls: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
        self._reauthentication_ms = random.choice(("0", "0", "5000"))
        self._passwords = {user: f"{user}-{random.getrandbits(32):x}" for user in USERS}

    def broker_settings(self) -> dict[str, str]:
        known = " ".join(f'user_{user}="{password}"' for user, password in self._passwords.items())
        jaas = f'PlainLoginModule required username="{BROKER}" password="{self._passwords[BROKER]}" {known};'
        return {
            "security.inter.broker.protocol": PROTOCOL,
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            f"listener.name.{PROTOCOL.lower()}.plain.sasl.jaas.config": jaas,
            "connections.max.reauth.ms": self._reauthentication_ms,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:{BROKER}",
        }

    def client_settings(self, user: str) -> dict[str, str]:
        return {
            "security.protocol": PROTOCOL,
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": self._passwords[user],
        }

    def committed(self, change: Change) -> None:
        """Record the rules after a commit of the store that changes them."""
        changed = False
        for path, node in change.nodes.items():
            folder, _, name = path.rpartition("/")
            if folder == AclNode.folder:
                self._acls[AclNode.key_of(name)] = () if node is None else AclNode.value_of(name, node.value)
                changed = True
        if changed:
            rules = frozenset(AclRule(pattern, entry) for pattern, some in self._acls.items() for entry in some)
            self._history.rules.append(StoredRules(self._history.now_s(), rules))


def worker_rules() -> list[AclRule]:
    """All rights for the worker, on everything that its clients use."""
    everything = AclEntry(f"User:{WORKER}", "*", Operation.ALL, Permission.ALLOW)
    kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    return [AclRule(ResourcePattern(kind, "*"), everything) for kind in kinds]


def guest_rule(operation: Operation, permission: Permission, *, prefixed: bool) -> AclRule:
    """A rule for the guest about the guarded topic, by its name or by a prefix."""
    pattern = (
        ResourcePattern(ResourceType.TOPIC, GUARDED[:4], PatternType.PREFIXED)
        if prefixed
        else ResourcePattern(ResourceType.TOPIC, GUARDED)
    )
    return AclRule(pattern, AclEntry(f"User:{GUEST}", "*", operation, permission))
