"""ConsumerGroupHeartbeat (68): the whole new group protocol of a member, from joining to leaving.

Versions 0-1; from version 1 on with subscriptions by pattern (RE2), and with member ids that the members generate.

* Epoch 0 joins, -1 leaves, and -2 is a static member that leaves temporarily.
* Otherwise the member reports its assignment and gets the partitions to revoke or to add.
* Assignors: uniform, range.
* A member must be allowed to describe the topics that it subscribes to by name. A pattern matches only topics that it
  may describe.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.coordinators.group_coordinator import GroupRequest
from moldau.broker.requests.handler_registry import Answer, handles
from moldau.groups.events import ConsumerGroupHeartbeat
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


@handles(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def consumer_group_heartbeat(request: Request, message: ConsumerGroupHeartbeatRequest) -> Answer:
    if not request.authorized(Operation.READ, ResourceType.GROUP, message.group_id):
        return refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = dict.fromkeys(message.subscribed_topic_names or ())
    if not all(request.authorized(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
        return refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return GroupRequest(request, message.group_id, ConsumerGroupHeartbeat, message, refused)


def refused(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)
