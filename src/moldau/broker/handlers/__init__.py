"""Request handlers: one file for each API.

Each file opens with its contract: versions, behaviour, gaps. Importing this package registers all handlers.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in sorted(module.name for module in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")
