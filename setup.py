"""Builds the record codec's native twin where that is possible; all else about the package is in pyproject.toml.

Without Cython or a C compiler the installation goes on without it, and the readable reference does the work.
"""

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    extensions = cythonize(
        [
            Extension(
                f"moldau.records.{name}",
                [f"src/moldau/records/{name}.pyx"],
                depends=["src/moldau/records/_crc32c.h"],
                extra_compile_args=["-O3"],
            )
            for name in ("_crc", "_native")
        ]
    )
    for extension in extensions:
        extension.optional = True  # only here: cythonize makes new objects and forgets it

setup(ext_modules=extensions)
