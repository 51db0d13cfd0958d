"""Former identifiers and private phrases appear nowhere. docs/project/glossary.md has the current terms."""

import re
import unittest

from tree import ROOT, tracked_files

# Recorded data, and the files that tell authors of rules the current names.
EXEMPT = re.compile(
    r"^(tests/golden/|tests/docs/(words|prose)_test\.py$|bench/results/|LICENSE$"
    r"|src/jit/manifest/manifest_(code|notes|header)\.cpp$|tests/jit/manifest/manifest_mistakes_test\.cpp$)"
)

FORMER_NAMES = [
    "HyperSet",
    "TensorPlace",
    "has_form_of",
    "SourcePlace",
    "PieceWalk",
    "OldOrInitial",
    "kMiddleDraw",
    "GrowingLeaves",
    "CommonMemory",
    "PlannedMemory",
    "PlannedReduction",
    "MemoryField",
    "MemoryFields",
    "NoMemory",
    "InUnits",
    "in_units",
    "from_units",
    "CpuMachine",
    "CudaMachine",
    "EmulatedMachine",
    "Lent",
    "own_rule",
    "hold_to_contract",
    "keeps_more_of",
    "Tournament",
    "TriedKernel",
    "as_argument_error",
    "about_group",
    "VariantChoice",
    "VariantChooser",
    "VariantSpace",
    "TunedVariants",
    "HostStage",
    "GroupStage",
    "StageFunction",
    "StagedTensor",
    "register_stage",
    "KeptTensor",
    "KeptBuffer",
    "KeptValues",
    "SpaceNumber",
    "common_lag",
    "spread_entries",
    "unit_text",
    "flat_text",
    "SharedMark",
    "contenders",
    "take_memory",
    "take_extra",
    "own_extra",
    "initial_memory",
    "initial_common_memory",
    "sources_of_today",
    "Watch",
    "Variant",
    "PeersDefects",
]
PRIVATE_PHRASES = [
    r"schedules/\w+\.cuh",
    r"[Hh]ost stages?\b",
    r"\bunit texts?\b",
    r"\bflat texts?\b",
    r"\bof now\b",
    r"\bof one's own\b",
    r"\bfleet\b",
    r"\be\.\w+\.was\b",
    r"\b(rests|resting|led|lag|usual|edition|anew|house|heats?|contender)\b",
    r"\b(Due|Given|Moment|Frozen|Book|Walk|Piece|Asked|Moved|Purpose)\b",
    r"\bof (today|its walk)\b",
]
WORD = re.compile(r"\b(" + "|".join(FORMER_NAMES) + r")\b|" + "|".join(PRIVATE_PHRASES))


def checked_files() -> list[str]:
    return [name for name in tracked_files() if not EXEMPT.search(name)]


class Words(unittest.TestCase):
    def test_former_names_are_gone(self) -> None:
        found = []
        for name in checked_files():
            try:
                text = (ROOT / name).read_text(encoding="utf-8")
            except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
                continue
            for number, line in enumerate(text.splitlines(), 1):
                found += [f"{name}:{number}: {match.group(0)}" for match in WORD.finditer(line)]
        self.assertFalse(found, "\n".join([""] + found))


if __name__ == "__main__":
    unittest.main()
