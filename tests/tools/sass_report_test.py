#!/usr/bin/env python3
"""Tests of tools/sass_report.py: it reads instructions, and the hot kernels move whole tiles only in vectors.

sass_report_test.py TOOL    TOOL is build/tools/jitstep. Status 77: skipped, because nvdisasm or NVRTC is missing
"""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import sass  # noqa: E402
import sass_report  # noqa: E402

TOOL = sys.argv.pop() if len(sys.argv) > 1 else str(ROOT / "build/tools/jitstep")
BLOCK = {"int8": 256, "int4": 128}
NONE = 7


def line(text, stall=1, write=NONE, read=NONE, waits=()):
    """An instruction as nvdisasm prints it."""
    control = stall | write << 5 | read << 8 | sum(1 << 11 + barrier for barrier in waits)
    return f"        /*0010*/ {text} ; /* 0x{0:016x} */\n /* 0x{control << 41:016x} */\n"


# A loop over tiles: a guarded branch with single elements, a branch with vectors, and their common end.
LOOP = (
    ".text.entry:\n"
    + line("S2R R0, SR_TID.X")
    + line("LDC.64 R8, c[0x0][0x220]")
    + ".L_x_1:\n"
    + line("LDG.E.64 R2, desc[UR4][R8.64]", write=0)
    + line("IMAD.WIDE R4, R0, 0x10, R2", waits=[0])
    + line("@P0 BRA `(.L_x_2)")
    + "".join(line(f"@P1 LDG.E R{8 + i}, desc[UR4][R4.64]", write=1) for i in range(8))
    + line("@P1 STG.E desc[UR4][R4.64], R8", waits=[1])
    + line("BRA `(.L_x_3)")
    + ".L_x_2:\n"
    + line("LDG.E.128 R12, desc[UR4][R4.64]", write=1)
    + line("LDG.E.128 R16, desc[UR4][R4.64+0x200]", write=2)
    + line("LDG.E.CONSTANT R20, desc[UR4][R12.64]", write=3, waits=[1])
    + line("STG.E.128 desc[UR4][R4.64], R12", stall=2, waits=[2, 3])
    + ".L_x_3:\n"
    + line("@P2 BRA `(.L_x_1)", stall=5)
    + line("EXIT")
)


class Reading(unittest.TestCase):
    def setUp(self):
        self.preamble, self.iteration = sass.whole_tile(sass.parse(LOOP)["entry"], 32, 16)

    def test_the_iteration_of_a_whole_tile_is_the_one_with_vectors(self):
        self.assertEqual([i.op for i in self.preamble], ["S2R", "LDC.64"])
        self.assertEqual(
            [i.op for i in self.iteration if i.op[:3] in ("LDG", "STG")],
            ["LDG.E.64", "LDG.E.128", "LDG.E.128", "LDG.E.CONSTANT", "STG.E.128"],
        )

    def test_pointers_are_distinguished_from_values(self):
        loads = [own for i, own in zip(self.iteration, sass.lane_dependent(self.preamble, self.iteration)) if i.is_load]
        self.assertEqual(loads, [False, True, True])

    def test_a_warp_waits_as_its_instructions_require(self):
        far = [i.is_load and "128" in i.op for i in self.iteration]
        replay = sass.replay(self.iteration, far)
        # The pointer, the address and the branch, the loads, the codebook, the store and the branch back.
        self.assertEqual(replay.cycles, sass.NEAR + 2 + sass.DRAM + sass.NEAR + 2 + 5)
        self.assertEqual(replay.in_flight, 32)

    def test_a_load_from_shared_memory_is_a_lookup_and_not_dram(self):
        one = sass.parse(".text.entry:\n" + line("LDS R1, [R2+UR4]"))["entry"][0]
        self.assertTrue(one.is_look_up)
        self.assertFalse(one.is_load)

    def test_a_loop_that_moves_less_is_no_loop_over_tiles(self):
        with self.assertRaisesRegex(ValueError, "loads 64 and stores 16 bytes"):
            sass.whole_tile(sass.parse(LOOP)["entry"], 64, 16)


def vectors(kernel, widths):
    """Bytes of each access of a lane: eight elements of each array in two rows, and each state block's metadata."""
    arrays = [4 * width for width in widths for _ in range(2)]
    blocks = [4] * (2 * sass_report.TILE // BLOCK[kernel.state]) if kernel.state in BLOCK else []
    return sorted([*map(int, arrays), *blocks])


class HotKernels(unittest.TestCase):
    def check(self, kernel, target, folder):
        one = sass_report.measure(TOOL, kernel, target, folder)
        state = [sass_report.BYTES[kernel.state]] * 2
        value = sass_report.BYTES[kernel.dtype]
        self.assertEqual(one.accesses("loads"), vectors(kernel, [value, value, *state]))
        if kernel.rule == "adamw":
            self.assertEqual(one.accesses("stores"), vectors(kernel, [value, *state]))
        spills = kernel.rule == "adamw" and kernel.state in ("int8", "int4")  # as tests/support/allowed_spill.h
        self.assertLessEqual(one.resources["spill_bytes"], 140 if spills else 0)
        self.assertLessEqual(one.local(), 1 if spills else 0, "the tile's loop has one access to local memory at most")
        self.assertEqual(one.replay.in_flight, sum(one.accesses("loads")), "all loads are in flight at once")

    def test_whole_tiles_move_in_vectors_without_local_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            for target in ("sm_80", "sm_90"):
                for kernel in sass_report.KERNELS:
                    if kernel.weights == "stochastic" or (kernel.rule == "lamb" and kernel.dtype == "float32"):
                        continue
                    with self.subTest(kernel=kernel, target=target):
                        try:
                            self.check(kernel, target, folder)
                        except sass_report.Missing as missing:
                            self.skipTest(str(missing))


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    for _, why in result.skipped[:1]:
        print(f"skipped: {why}")
    sys.exit(1 if not result.wasSuccessful() else sass_report.MISSING if result.skipped else 0)
