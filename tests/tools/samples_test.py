#!/usr/bin/env python3
"""The C++ samples of docs/optimizers/ compile.

samples_test.py COMPILER FLAG...    the flags find the headers of jitstep and LibTorch
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main():
    unit, samples = "#include <jitstep/jitstep.h>\n#include <torch/nn/modules/linear.h>\n", 0
    for page in sorted((ROOT / "docs/optimizers").glob("*.md")):
        for sample in re.findall(r"```cpp\n(.*?)```", page.read_text(), re.S):
            samples += 1
            body = sample.replace("#include <jitstep/jitstep.h>\n", "")
            head = f"void sample{samples}(torch::nn::Linear model, torch::Tensor loss)"
            unit += f'{head} {{\n#line 1 "{page.name}"\n{body}}}\n'
    command = [*sys.argv[1:], "-std=c++20", "-fsyntax-only", "-x", "c++", "-"]
    done = subprocess.run(command, input=unit, text=True)
    assert samples > 30
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
