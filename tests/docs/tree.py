"""The files of this tree."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tracked_files() -> list[str]:
    """Paths of the files that git knows or would add. In a tree without git: of all files that no build has written."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    files = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    written = ("build", ".deps", ".cache", "__pycache__")
    return [path.as_posix() for path in files if not any(part.startswith(written) for part in path.parts)]
