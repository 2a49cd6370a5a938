"""Adds inductor_npu.pth to the wheel, beside the package, which pyproject.toml has no words for."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

STARTUP = "inductor_npu.pth"


class BuildWithStartup(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_file(STARTUP, str(Path(self.build_lib) / STARTUP))


setup(cmdclass={"build_py": BuildWithStartup})
