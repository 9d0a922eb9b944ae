"""Types of epochs and ids: integers that mypy keeps apart, because mixing two of them would be a bug.

At runtime they are plain integers. A value gets its type where it is decoded or counted up, not on every use.
"""

from __future__ import annotations

from typing import Final, NewType

LeaderEpoch = NewType("LeaderEpoch", int)
"""Grows with every election of a partition's leader; part of each batch."""
NO_LEADER_EPOCH: Final = LeaderEpoch(-1)

PartitionEpoch = NewType("PartitionEpoch", int)
"""Grows with every stored change of a partition's state, such as its ISR."""

BrokerEpoch = NewType("BrokerEpoch", int)
"""Grows with every registration of a broker."""
NO_BROKER_EPOCH: Final = BrokerEpoch(-1)

ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
