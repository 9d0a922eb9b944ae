"""Choice between a native module and its reference twin: native if built, unless MOLDAU_PURE=1 is set.

The modules named `engine` or `decode` in this and other packages ask here, and export the names of the chosen module.
For mypy they import the reference, which has the type hints.
"""

import os
from importlib import import_module
from types import ModuleType
from typing import Final

# MOLDAU_PURE=1 selects plain Python wherever there is a choice.
PURE: Final = os.environ.get("MOLDAU_PURE", "0") not in ("", "0")


def native_or_reference(native: str, reference: str) -> ModuleType:
    """The native module if it can be imported and plain Python is not asked for, otherwise the reference."""
    if not PURE:
        try:
            return import_module(native)
        except ImportError:  # installed without a compiler
            pass
    return import_module(reference)
