#!/usr/bin/env python3
"""Opens the built documentation in a headless browser and checks that it works without a network.

  tools/site_check.py [FOLDER]       checks FOLDER (default: build/site), served on this machine
    --screenshots FOLDER             also writes pictures of two pages
    --browser PROGRAM                default: chromium, chromium-browser or google-chrome

Links of every page and their anchors lead somewhere. No page writes an error to the console, requests
another host, or scrolls sideways on a screen 390 pixels wide. The search finds its test words,
also when the pages are opened as files. `tools/setup.sh --site-check` installs the browser and Playwright.

Exit status: 0 if everything holds, 1 if something does not, 2 for wrong usage or a missing browser.
"""

import argparse
import functools
import html.parser
import http.server
import pathlib
import posixpath
import shutil
import sys
import threading
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ROOT / ".deps/docs/lib"
SEARCHES = {"int8": "guides/choosing-a-format", "GradScaler": "guides/mixed-precision"}
PICTURES = {"site_wide": ("index.html", 1280, 750), "site_phone": ("guides/choosing-a-format.html", 390, 750)}
API_PAGES = [
    "index.html",
    "annotated.html",
    "files.html",
    "functions.html",
    "namespacemembers.html",
    "classjitstep_1_1Optimizer.html",
    "classjitstep_1_1Options.html",
    "structjitstep_1_1jit_1_1Plan.html",
]
IGNORED_ANCHORS = ["nested-classes"]  # Doxygen 1.9.4 links to them also where it lists no such class
PHONE = {"width": 390, "height": 800}


class Page(html.parser.HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            if name in ("href", "src") and tag != "base":
                self.links.append(value)


def broken_links(folder: pathlib.Path) -> list[str]:
    """Links of all pages that lead to no file, or to no anchor of a page."""
    pages = {p.relative_to(folder).as_posix(): Page(p.read_text()) for p in folder.rglob("*.html")}
    problems = []
    for path, page in pages.items():
        for link in page.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc or path == "404.html":
                continue
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), urllib.parse.unquote(url.path)))
            if not url.path:
                target = path
            if not (folder / target).is_file():
                problems.append(f"{path}: no file {link}")
            elif url.fragment in IGNORED_ANCHORS and path.startswith("api/"):
                continue
            elif url.fragment and target in pages and urllib.parse.unquote(url.fragment) not in pages[target].anchors:
                problems.append(f"{path}: no anchor {link}")
    return problems


def is_opened(path: str) -> bool:
    """Whether the browser opens a page. Of the hundreds of pages of the API reference it opens some of each kind."""
    name = posixpath.basename(path)
    return not path.startswith("api/") or name in API_PAGES or name.endswith("_8h.html")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder without a log."""

    def do_GET(self) -> None:
        if self.path == "/favicon.ico":  # browsers ask for it where a page names no icon
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_args: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    """A browser that leaves a page drops its connections: not an error."""

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def serve(folder: pathlib.Path) -> Server:
    server = Server(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Check:
    """Opens pages and collects what is wrong with them."""

    def __init__(self, browser, folder: pathlib.Path, base: str) -> None:
        self.problems: list[str] = []
        self.folder, self.base = folder, base
        self.page = browser.new_context(viewport=PHONE).new_page()
        self.page.on("console", lambda m: m.type == "error" and self.add(f"console: {m.text}"))
        self.page.on("pageerror", lambda error: self.add(f"script error: {error}"))
        self.page.on("request", self.look_at_request)
        self.path = ""

    def add(self, problem: str) -> None:
        self.problems.append(f"{self.path}: {problem}")

    def look_at_request(self, request) -> None:
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.add(f"request to another host: {request.url}")

    def open(self, path: str) -> None:
        self.path = path
        self.page.goto(f"{self.base}/{path}", wait_until="load")

    def width(self) -> None:
        """The page on a phone. Wide tables and code scroll in boxes of their own."""
        wide = self.page.evaluate("document.scrollingElement.scrollWidth")
        if wide > PHONE["width"]:
            widest = self.page.evaluate(
                """width => [...document.body.querySelectorAll('*')]
                     .filter(e => e.getBoundingClientRect().right > width + 1)
                     .slice(0, 3).map(e => e.tagName + '.' + e.className)""",
                PHONE["width"],
            )
            self.add(f"{wide} pixels wide: {widest}")

    def search(self, word: str, expected: str) -> None:
        self.page.set_viewport_size({"width": 1280, "height": 800})
        self.open("index.html")
        links = self.page.locator("a.md-search-result__link")
        found: list[str] = []
        for _ in range(5):  # the page ignores what is typed before its index is loaded
            self.page.wait_for_timeout(500)
            self.page.click("input.md-search__input")
            self.page.fill("input.md-search__input", "")
            self.page.keyboard.type(word)
            self.page.wait_for_timeout(2000)
            found = [a.get_attribute("href") or "" for a in links.all()]
            if found:
                break
        if not any(expected in link for link in found):
            self.add(f"search for {word} finds {found[:5]}, not {expected}")
        self.page.set_viewport_size(PHONE)

    def picture(self, file: pathlib.Path, path: str, width: int, height: int) -> None:
        self.page.set_viewport_size({"width": width, "height": height})
        self.open(path)
        self.page.screenshot(path=file)


def check(browser, folder: pathlib.Path, screenshots: pathlib.Path | None) -> list[str]:
    server = serve(folder)
    checked = Check(browser, folder, f"http://127.0.0.1:{server.server_address[1]}")
    paths = [p for p in sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.html")) if is_opened(p)]
    for path in paths:
        checked.open(path)
        checked.width()
    for word, expected in SEARCHES.items():
        checked.search(word, expected)
    for name, (path, width, height) in PICTURES.items():
        if screenshots:
            checked.picture(screenshots / f"{name}.png", path, width, height)
    server.shutdown()
    files = Check(browser, folder, folder.as_uri())
    for word, expected in SEARCHES.items():
        files.search(word, expected)
    problems = broken_links(folder) + checked.problems + files.problems
    print(f"{len(paths)} pages opened, {len(problems)} problems")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT / "build/site")
    parser.add_argument("--screenshots", type=pathlib.Path)
    parser.add_argument("--browser")
    args = parser.parse_args()
    program = args.browser or next(
        filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None
    )
    sys.path += [str(p) for p in PACKAGES.glob("python3*/site-packages")]
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program = None
    if not program or not (args.folder / "index.html").is_file():
        missing = (
            "a browser and Playwright: run tools/setup.sh --site-check"
            if not program
            else f"{args.folder}/index.html: run cmake --build build --target site"
        )
        print(f"site_check: error: cannot check without {missing}", file=sys.stderr)
        return 2
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        problems = check(browser, args.folder.resolve(), args.screenshots)
        browser.close()
    for problem in problems[:100]:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
