"""Users file of a new cluster, as a broker reads it at its start."""

from __future__ import annotations

from moldau.host.reference_files import read_reference_file
from moldau.security.initial_users import Users, read_user
from moldau.settings import SettingError, read_properties

SETTING = "moldau.initial.users.file"


def read_initial_users(path: str) -> Users:
    """The users of the file. Computes keys of passwords, so it runs in a thread. SettingError if it is malformed."""
    try:
        lines = read_properties(read_reference_file(path))
        return {user: read_user(user, text) for user, text in lines.items()}
    except UnicodeError:
        raise SettingError(SETTING, f"the file {path} is not text in UTF-8") from None
    except OSError as error:
        raise SettingError(SETTING, f"the file {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SettingError(SETTING, f"the file {path}: {error}") from None
