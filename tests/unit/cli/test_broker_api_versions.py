"""Names of APIs in kafka-broker-api-versions, also of those for which Moldau has no messages."""

import pytest

from moldau.cli.kafka_tools.broker_api_versions import lines
from moldau.client.admin import VersionRange


@pytest.mark.parametrize(
    ("key", "line"),
    [(80, "AddRaftVoter(80): 0 to 1 [usable: 1]"), (85, "WriteShareGroupState(85): 0 to 1 [usable: 1]")],
)
def test_an_api_without_messages_has_its_name(key, line):
    assert line in lines({key: VersionRange(0, 1)})


def test_an_unknown_api_is_shown_by_its_number():
    assert "UNKNOWN(999): 0 to 1" in lines({999: VersionRange(0, 1)})
