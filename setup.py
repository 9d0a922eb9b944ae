"""Builds the native twins of the inner loops where that is possible; all else about the package is in pyproject.toml.

Without Cython or a C compiler the installation goes on without it, and the readable references do the work.
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
                f"moldau.{name.replace('/', '.')}",
                [f"src/moldau/{name}.pyx"],
                depends=["src/moldau/records/_crc32c.h"],
                include_dirs=["src/moldau/records"],
                extra_compile_args=["-O3"],
            )
            for name in (
                "records/_crc",
                "records/_native",
                "records/_arrow",
                "records/_arrow_encode",
                "log/clean/_native",
                "client/consumer/_decode",
                "client/producer/_accumulator",
                "connect/_json_nodes",
                "connect/_json_decode",
                "connect/_json_encode",
                "schemas/avro_columns/_arrow_memory",
                "schemas/avro_columns/_decode",
                "schemas/avro_columns/_encode",
            )
        ],
        include_path=["src"],
    )
    for extension in extensions:
        extension.optional = True  # only here: cythonize makes new objects and forgets it

setup(ext_modules=extensions)
