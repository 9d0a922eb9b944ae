"""Viewers who watch videos: records of how far a user has come in a video.

A user likes one category more than the others, stops in the middle of some videos, and resumes them later.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from moldau import NewTopic
from moldau.examples.study import StudyRecord

WATCHING = "video.watching"
TOPICS = [NewTopic(WATCHING, partitions=2)]

USERS = 40
CATEGORIES = ("drama", "comedy", "science", "sport")
VIDEOS = {f"{category}-{number}": category for category in CATEGORIES for number in range(1, 6)}
LENGTH_S = 300


def records(seed: int, begin_ms: int, rate: float) -> Iterator[StudyRecord]:
    chance = random.Random(seed)
    likes = {f"user-{number}": chance.choice(CATEGORIES) for number in range(1, USERS + 1)}
    watching = {user: _next_video(chance, liked) for user, liked in likes.items()}
    positions: dict[tuple[str, str], int] = {}
    number = 0
    while True:
        user = chance.choice(list(likes))
        video = watching[user]
        seconds = chance.randint(10, 60)
        position = min(positions.get((user, video), 0) + seconds, LENGTH_S)
        positions[user, video] = position
        value = {"user": user, "video": video, "category": VIDEOS[video], "position_s": position, "watched_s": seconds}
        yield StudyRecord(WATCHING, user, value, begin_ms + int(number * 1000 / rate))
        number += 1
        if position == LENGTH_S:
            positions[user, video] = 0  # the next time it starts again
        if position == LENGTH_S or chance.random() < 0.1:
            watching[user] = _next_video(chance, likes[user])


def _next_video(chance: random.Random, liked: str) -> str:
    category = liked if chance.random() < 0.6 else chance.choice(CATEGORIES)
    return chance.choice([video for video, of in VIDEOS.items() if of == category])
