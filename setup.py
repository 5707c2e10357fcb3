"""Build the optional C extension; everything else is in pyproject.toml.

Where it cannot be built (no compiler, no headers) the package installs without it and uses
NumPy. Set COBANDITS_EXTENSION=required to make a failed build an error instead.
"""

import os
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# A free-threaded Python has no limited API: there the extension is built for that version alone.
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")

# No -march=native: a wheel must run on other machines. No -ffast-math: NaN must stay NaN and sums
# keep their order. errno is never read, so sqrt may be one instruction.
FLAGS = {"unix": ["-O3", "-fno-math-errno", "-Wno-psabi"], "msvc": ["/O2"]}


class BuildExt(build_ext):
    """Add the flags that the compiler in use understands."""

    def build_extension(self, ext: Extension) -> None:
        """Build one extension."""
        ext.extra_compile_args = FLAGS.get(self.compiler.compiler_type, [])
        super().build_extension(ext)


setup(
    ext_modules=[
        Extension(
            "cobandits.compiled._pass",
            sources=["src/cobandits/compiled/_pass.c"],
            depends=["src/cobandits/compiled/_pass_kernel.h"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if LIMITED else [],
            py_limited_api=LIMITED,
            optional=os.environ.get("COBANDITS_EXTENSION") != "required",
        )
    ],
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)
