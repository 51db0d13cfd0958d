#!/usr/bin/env python3
"""Copies the pages of the documentation site to one folder.

The pages in docs/ link to each other and to files of the tree. MkDocs reads only one folder. So this script copies docs/,
pages in other folders and every file that a page links to, and changes the links. A link to a file that does not exist is
an error.

  tools/site.py FOLDER    writes FOLDER; the CMake target `site` does this and calls MkDocs
"""

import pathlib
import posixpath
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Pages outside docs/, next to the files that they describe, and their paths in the site.
PAGES = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "src/jit/cache/CACHE_FORMAT.md": "reference/files/cache.md",
    "src/optim/state/STATE_FORMAT.md": "reference/files/checkpoint.md",
    "tuning/RECORD_FORMAT.md": "reference/files/tuning-records.md",
    "templates/README.md": "extending/templates.md",
}
LINK = re.compile(r"(?P<before>\]\(|<img src=\"|<a href=\")(?P<target>[^)\"\s#]+)(?P<anchor>#[^)\"\s]*)?")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)


class SiteError(Exception):
    """The target of a link does not exist. The message names the page and the target."""


def site_path(tree_path: str) -> str:
    """The site path of a file of the tree. Files that are not pages are in files/."""
    if tree_path in PAGES:
        return PAGES[tree_path]
    if tree_path.startswith("docs/"):
        return tree_path[len("docs/") :]
    return "files/" + tree_path


class Site:
    """The output folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def add(self, tree_path: str) -> None:
        """Copies a file of the tree. Changes its links if it is a page."""
        target = self.folder / site_path(tree_path)
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        source = ROOT / tree_path
        if source.suffix == ".md":
            target.write_text(self.changed_links(source.read_text(), tree_path))
        else:
            shutil.copyfile(source, target)

    def changed_links(self, text: str, page: str) -> str:
        """The text of a page with links of the site. Code blocks do not change."""
        out, position = [], 0
        for fence in FENCE.finditer(text):
            out += [self.change(text[position : fence.start()], page), fence.group()]
            position = fence.end()
        return "".join(out) + self.change(text[position:], page)

    def change(self, text: str, page: str) -> str:
        return LINK.sub(lambda link: link["before"] + self.link(link["target"], page) + (link["anchor"] or ""), text)

    def link(self, target: str, page: str) -> str:
        """The target of a page's link in the site."""
        if re.match(r"[a-z]+:", target) or target.startswith("api/") or "/api/" in target:
            return target
        tree_path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if tree_path.startswith("../") or not (ROOT / tree_path).is_file():
            raise SiteError(f"{page}: there is no file {target}")
        if not tree_path.startswith("docs/"):
            self.add(tree_path)
        return posixpath.relpath(site_path(tree_path), posixpath.dirname(site_path(page)) or ".")


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    site = Site(folder)
    try:
        for path in sorted((ROOT / "docs").rglob("*")):
            if path.is_file():
                site.add(path.relative_to(ROOT).as_posix())
        for page in PAGES:
            site.add(page)
    except SiteError as error:
        print(f"site: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
