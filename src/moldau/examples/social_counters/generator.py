"""People who write posts, like them and comment on them; with the burst of a launch day.

After every 20 seconds, for five seconds, there are five times as many records, and most of them are about the newest
post: the launch. `rate` is the usual number of records per second.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from moldau import NewTopic
from moldau.examples.study import StudyRecord

ACTIVITY = "social.activity"
TOPICS = [NewTopic(ACTIVITY, partitions=2)]

PEOPLE = 200
PERIOD_MS = 25_000
BURST_FROM_MS = 20_000
BURST_FACTOR = 5


def records(seed: int, begin_ms: int, rate: float) -> Iterator[StudyRecord]:
    chance = random.Random(seed)
    posts: list[str] = []
    passed_ms = 0.0
    launch = ""
    while True:
        burst = passed_ms % PERIOD_MS >= BURST_FROM_MS
        passed_ms += 1000 / rate / (BURST_FACTOR if burst else 1)
        if not burst:
            launch = ""
        person = f"person-{chance.randint(1, PEOPLE)}"
        if not posts or (burst and not launch) or chance.random() < 0.05:
            post, action = f"post-{len(posts) + 1}", "post"
            posts.append(post)
            launch = launch or (post if burst else "")
        else:
            post = launch if launch and chance.random() < 0.8 else chance.choice(posts[-20:])
            action = chance.choices(("like", "unlike", "comment"), (7, 1, 2))[0]
        yield StudyRecord(ACTIVITY, post, {"action": action, "person": person}, begin_ms + int(passed_ms))
