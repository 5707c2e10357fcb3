"""Build the optional C extensions; everything else is in pyproject.toml.

Where they cannot be built (no compiler, no headers) the package installs without them and uses
NumPy. Set COBANDITS_EXTENSION=required to make a failed build an error instead.
"""

import os
import shutil
import sysconfig

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
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


class BdistWheel(bdist_wheel):
    """Make a wheel of what is built now, and tag it by what it holds."""

    def run(self) -> None:
        """Build in empty folders; without compiled code the wheel is for every platform."""
        build = self.get_finalized_command("build")
        for folder in (build.build_lib, build.build_temp, self.bdist_dir):
            shutil.rmtree(folder, ignore_errors=True)
        self.run_command("build")
        self.skip_build = True
        compiled = self.get_finalized_command("build_ext").get_outputs()
        if not any(map(os.path.exists, compiled)):
            self.distribution.ext_modules = []
            self.root_is_pure = True
        super().run()


def extension(name: str, *headers: str) -> Extension:
    """Describe one extension of ``cobandits.compiled``."""
    folder = "src/cobandits/compiled"
    return Extension(
        f"cobandits.compiled.{name}",
        sources=[f"{folder}/{name}.c"],
        depends=[f"{folder}/{header}" for header in headers],
        define_macros=[("Py_LIMITED_API", "0x030B0000")] if LIMITED else [],
        py_limited_api=LIMITED,
        optional=os.environ.get("COBANDITS_EXTENSION") != "required",
    )


setup(
    ext_modules=[
        extension(
            "_pass",
            *("_buffers.h", "_pass_kernel.h", "_pass_vectors.h"),
            *("_gram_kernel.h", "_marginal_kernel.h"),
        ),
        extension("_posterior", "_buffers.h", "_posterior_kernel.h"),
        extension("_fast_checks", "_buffers.h"),
        extension("_propensity", "_buffers.h"),
        extension("_requests"),
        extension("_handover"),
    ],
    cmdclass={"bdist_wheel": BdistWheel, "build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)
