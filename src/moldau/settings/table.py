"""Setting tables: lookup and parsing, with errors that suggest the nearest known setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from moldau.settings.setting import Setting, SettingError, SettingType, Value


class SettingTable:
    """All settings of one kind, in the order and under the headings of the documentation page."""

    __slots__ = ("_aliases", "_by_name", "kind", "sections")

    def __init__(
        self, kind: str, sections: Mapping[str, Sequence[Setting]], aliases: Mapping[str, str] | None = None
    ) -> None:
        self.kind = kind
        self.sections = sections
        self._by_name = {setting.name: setting for settings in sections.values() for setting in settings}
        self._aliases = aliases or {}
        """Names from other tables, and the setting that was probably meant. Used only in error messages."""

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Setting]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __getitem__(self, name: str) -> Setting:
        setting = self._by_name.get(name)
        if setting is None:
            raise self.unknown(name)
        return setting

    def unknown(self, name: str) -> SettingError:
        """The error for a name that is not in this table, with the nearest known name."""
        nearest = self.nearest(name)
        hint = f"; did you mean {nearest}?" if nearest else ""
        return SettingError(name, f"unknown {self.kind} setting{hint}")

    def nearest(self, name: str) -> str | None:
        """The known setting that was probably meant by a misspelt or misplaced name."""
        if name in self._aliases:
            return self._aliases[name]
        from difflib import get_close_matches  # imported here, because only error messages need it

        matches = get_close_matches(name.lower().replace("_", "."), list(self._by_name), n=1, cutoff=0.6)
        return matches[0] if matches else None

    def parse(self, texts: Mapping[str, str]) -> dict[str, Value]:
        """The typed values of the given settings only. Raises SettingError for the first invalid one."""
        return {name: self[name].parse(text) for name, text in texts.items()}

    def is_list(self, name: str) -> bool:
        """Whether the setting exists and is a list, so that items can be appended and removed."""
        return name in self._by_name and self._by_name[name].type is SettingType.LIST

    def default_text(self, name: str) -> str | None:
        """The text of a setting's default; None if it has none, or if the setting does not exist."""
        setting = self._by_name.get(name)
        return None if setting is None else setting.format(setting.default)
