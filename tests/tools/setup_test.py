#!/usr/bin/env python3
"""Tests tools/setup.sh with programs that only write what they are asked for."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Used by the script. Others are missing, such as ccache.
COMMANDS = "bash cat cut dirname flock grep head id mkdir rm sed sort tail".split()
# Makes environments whose Python is the same script.
PYTHON = """#!/bin/bash
log="{log}"
case "$*" in
  *--clear*) echo venv >>"$log"; rm -rf "${{@: -1}}"; mkdir -p "${{@: -1}}/bin"; cat "$0" >"${{@: -1}}/bin/python"
             /bin/chmod +x "${{@: -1}}/bin/python" ;;
  *"pip install"*) echo pip >>"$log"; [ ! -e "{offline}" ] ;;
esac
"""
APT = """#!/bin/bash
echo "apt $*" >>"{log}"
[ "$1" = update ]
"""


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.outside = pathlib.Path(folder.name)
        self.root = self.outside / "my tree"
        for name in ("nlohmann/json.hpp", "CLI/CLI.hpp", "gtest/gtest.h", "zlib.h", "googletest"):
            self.put(f"headers/{name}", "")
        for name in COMMANDS:
            (self.outside / "bin").mkdir(exist_ok=True)
            (self.outside / "bin" / name).symlink_to(shutil.which(name))
        self.put("bin/python3", PYTHON.format(log=self.outside / "log", offline=self.outside / "offline"))
        self.put("bin/cmake", "#!/bin/bash\necho cmake version 3.25.1\n")
        self.put("bin/g++", "#!/bin/bash\necho 12\n")
        self.put("bin/ninja", "#!/bin/bash\n")
        self.put("my tree/tools/setup.sh", (ROOT / "tools/setup.sh").read_text())

    def put(self, name, text):
        path = self.outside / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def setup(self, *arguments, status=0, **environment):
        """Runs the script. Returns its output, and what the programs have written."""
        (self.outside / "log").write_text("")
        run = subprocess.run(
            [self.root / "tools/setup.sh", *arguments],
            env={
                "PATH": str(self.outside / "bin"),
                "JITSTEP_THIRD_PARTY_DIR": str(self.outside / "headers"),
                "JITSTEP_NO_APT": "1",
            }
            | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.assertEqual(run.returncode, status, run.stdout)
        return run.stdout, (self.outside / "log").read_text().splitlines()

    def test_a_second_run_installs_nothing(self):
        self.assertEqual(self.setup()[1], ["venv", "pip"])
        self.assertEqual(self.setup()[1], [])

    def test_an_installation_that_failed_is_repeated(self):
        self.setup()
        shutil.rmtree(self.root / ".deps/venv")
        self.put("offline", "")
        self.setup(status=1)
        (self.outside / "offline").unlink()
        self.assertIn("pip", self.setup()[1])

    def test_an_environment_without_its_packages_is_made_again(self):
        self.setup()
        self.put("my tree/.deps/venv/bin/python", "#!/bin/bash\nexit 1\n")
        self.assertEqual(self.setup()[1], ["venv", "pip"])

    def test_an_optional_package_that_the_system_does_not_have_is_tried_once(self):
        self.put("bin/apt-get", APT.format(log=self.outside / "log"))
        self.put("bin/apt-cache", "#!/bin/bash\n")
        self.put("bin/env", '#!/bin/bash\nshift\nexec "$@"\n')
        self.put("bin/sudo", '#!/bin/bash\nexec "$@"\n')
        text, calls = self.setup(JITSTEP_NO_APT="0")
        self.assertIn("ccache", text)
        self.assertIn("apt update", calls)
        self.assertEqual(self.setup(JITSTEP_NO_APT="0")[1], calls[:-2])  # without venv and pip
        self.put("bin/apt-cache", "#!/bin/bash\nexit 100\n")
        self.setup(JITSTEP_NO_APT="0")
        self.assertEqual(self.setup(JITSTEP_NO_APT="0")[1], [])

    def test_torch_dir_is_the_only_folder_that_is_searched(self):
        for name in ("include/torch/csrc/api/include/torch/torch.h", "lib/x86_64-linux-gnu/libtorch.so"):
            self.put(f"libtorch/{name}", "")
        libtorch = str(self.outside / "libtorch")
        self.assertIn(libtorch, self.setup(CMAKE_PREFIX_PATH=libtorch)[0])
        self.setup(CMAKE_PREFIX_PATH=libtorch, Torch_DIR="/nowhere", status=1)

    def test_an_unknown_option_is_named(self):
        self.assertIn("--fuz", self.setup("--fuz", status=2)[0])


if __name__ == "__main__":
    unittest.main()
