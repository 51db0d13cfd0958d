"""check_limits.py CTEST BUILD: every test of the build has its own time limit, and the command that runs all has none.

A limit for all tests together would fail on a busy computer where nothing hangs."""

import json
import pathlib
import re
import subprocess
import sys

ctest, build = sys.argv[1:]
shown = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
tests = json.loads(shown.stdout)["tests"]
unlimited = [
    test["name"]
    for test in tests
    if not any(p["name"] == "TIMEOUT" and float(p["value"]) > 0 for p in test.get("properties", []))
    and not test["name"].endswith("NOT_BUILT")
]
script = pathlib.Path(__file__).parent.parent / "tools/test.sh"
total = [
    line for line in script.read_text().splitlines() if re.search(r"\btimeout\b", line) and not line.startswith("#")
]
for name in unlimited:
    print(f"{name} has no TIMEOUT")
for line in total:
    print(f"{script}: a limit for all tests together: {line.strip()}")
print(f"{len(tests)} tests")
sys.exit(1 if unlimited or total or not tests else 0)
