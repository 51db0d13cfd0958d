#!/usr/bin/env python3
"""Copies the pages of the documentation site to one folder.

The pages in docs/ link to each other and to files of the tree. MkDocs reads only one folder. So this script copies
docs/, pages in other folders and every file that a page links to, and changes the links. A link to a file that does not
exist is an error.

  tools/site.py [--api] FOLDER    writes FOLDER; the CMake target `site` does this and calls MkDocs. Replaces a folder
                                  that an earlier call has written, and refuses any other one
    --api                         Doxygen writes FOLDER/api: links to public headers lead there
"""

import pathlib
import posixpath
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

HEADERS = "include/jitstep"
MARK = ".site"  # an empty file in the folder, which MkDocs ignores

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


def api_path(header: str) -> str:
    """The page of a public header in Doxygen's output, or the first page of it for the folder of headers."""
    if header == HEADERS:
        return "api/index.html"
    name = posixpath.basename(header)
    name = "hyper_params.cuh" if name == "hyper_params.h" else name
    return "api/" + name.replace("_", "__").replace(".", "_8") + ".html"


class Site:
    """The output folder."""

    def __init__(self, folder: pathlib.Path, has_api: bool) -> None:
        self.folder = folder
        self.has_api = has_api

    def add(self, tree_path: str) -> None:
        """Copies a file of the tree. Changes its links if it is a page."""
        target = self.folder / site_path(tree_path)
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        source = ROOT / tree_path
        if source.suffix == ".md":
            # MkDocs takes the title from a heading in the first line only.
            text = re.sub(r"\A<!--.*?-->\s*", "", source.read_text(), flags=re.S)
            target.write_text(self.changed_links(text, tree_path))
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
        if re.match(r"[a-z]+:", target):
            return target
        tree_path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if tree_path.startswith("../") or not (ROOT / tree_path).exists():
            raise SiteError(f"{page}: there is no file {target}")
        return posixpath.relpath(self.place(tree_path, page), posixpath.dirname(site_path(page)) or ".")

    def place(self, tree_path: str, page: str) -> str:
        """The path in the site of a link's target. Copies a file that is no page of docs/."""
        if self.has_api and (tree_path + "/").startswith(HEADERS + "/"):
            return api_path(tree_path)
        if (ROOT / tree_path).is_dir():
            readme = tree_path + ("/jitstep.h" if tree_path == HEADERS else "/README.md")
            if not (ROOT / readme).is_file():
                raise SiteError(f"{page}: {tree_path} is a folder without a README.md")
            tree_path = readme
        if not tree_path.startswith("docs/"):
            self.add(tree_path)
        return site_path(tree_path)


def replace(folder: pathlib.Path) -> None:
    """Makes an empty folder. Deletes no files of others."""
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / MARK).exists():
            raise SiteError(f"{folder} has files that this script has not written. Name another folder, or remove it.")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()


def main() -> int:
    arguments = [a for a in sys.argv[1:] if a != "--api"]
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(arguments[0])
    try:
        replace(folder)
        site = Site(folder, "--api" in sys.argv)
        for path in sorted((ROOT / "docs").rglob("*")):
            if path.is_file() and path.suffix != ".py":
                site.add(path.relative_to(ROOT).as_posix())
        for page in PAGES:
            site.add(page)
        (folder / "assets").mkdir(exist_ok=True)
        shutil.copyfile(ROOT / "tools/iframe-worker.js", folder / "assets/iframe-worker.js")
    except SiteError as error:
        print(f"site: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
