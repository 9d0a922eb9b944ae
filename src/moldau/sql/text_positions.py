"""Positions in the user's text, kept when it is rewritten."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property


@dataclass(frozen=True)
class TextPosition:
    """A place in the text that the user gave. Both count from 1."""

    line: int = 1
    column: int = 1

    def after(self, text: str) -> TextPosition:
        """The place after this text, if the text begins here."""
        breaks = text.count("\n")
        if breaks == 0:
            return TextPosition(self.line, self.column + len(text))
        return TextPosition(self.line + breaks, len(text) - text.rfind("\n"))


@dataclass(frozen=True)
class TextPiece:
    """A part of a text, from `start` to the next piece: copied from the user's text, or put in for what is there."""

    start: int
    position: TextPosition
    inserted: bool = False


@dataclass(frozen=True)
class SourceText:
    """A text that was made from the user's, with the place of each part of it."""

    text: str
    pieces: tuple[TextPiece, ...] = (TextPiece(0, TextPosition()),)

    def position(self, offset: int) -> TextPosition:
        """The place in the user's text of the character at this offset of this one."""
        at = bisect_right(self.pieces, offset, key=lambda piece: piece.start) - 1
        piece = self.pieces[max(at, 0)]
        if piece.inserted:
            return piece.position
        first, last = (bisect_right(self._line_starts, place) for place in (piece.start, offset))
        if first == last:
            return TextPosition(piece.position.line, piece.position.column + offset - piece.start)
        return TextPosition(piece.position.line + last - first, offset - self._line_starts[last - 1] + 1)

    @cached_property
    def _line_starts(self) -> list[int]:
        """Where the lines after the first begin: to count line breaks again for each token of a script is slow."""
        return [match.end() for match in re.finditer("\n", self.text)]

    def part(self, start: int, end: int) -> SourceText:
        return self.edited([], start, end)

    def edited(self, edits: Sequence[TextEdit], start: int = 0, end: int | None = None) -> SourceText:
        """The part from `start` to `end` with these edits, which do not overlap."""
        end = len(self.text) if end is None else end
        texts: list[str] = []
        pieces: list[TextPiece] = []
        size = 0
        for edit in sorted(edits, key=lambda one: (one.start, one.end)):
            pieces += (replace(piece, start=size + piece.start - start) for piece in self._pieces(start, edit.start))
            texts.append(self.text[start : edit.start])
            size += edit.start - start
            pieces.append(
                TextPiece(
                    size, self.position(edit.start if edit.stands_for is None else edit.stands_for), inserted=True
                )
            )
            texts.append(edit.text)
            size += len(edit.text)
            start = edit.end
        pieces += (replace(piece, start=size + piece.start - start) for piece in self._pieces(start, end))
        return SourceText("".join([*texts, self.text[start:end]]), tuple(pieces))

    def _pieces(self, start: int, end: int) -> Iterator[TextPiece]:
        """The pieces of this part. The first one begins at `start`, also if the part is empty."""
        at = max(bisect_right(self.pieces, start, key=lambda piece: piece.start) - 1, 0)
        yield TextPiece(start, self.position(start), self.pieces[at].inserted)
        for piece in self.pieces[at + 1 :]:
            if piece.start >= end:
                break
            yield piece


@dataclass(frozen=True)
class TextEdit:
    """The part of a text from `start` to `end`, and what replaces it."""

    start: int
    end: int
    text: str
    stands_for: int | None = None
    """The offset that errors in the new part point at, if it is not `start`."""


def blanked(text: str, start: int, end: int) -> TextEdit:
    """The edit that replaces a part by blanks, and keeps its line breaks."""
    return TextEdit(start, end, "".join("\n" if char == "\n" else " " for char in text[start:end]))
