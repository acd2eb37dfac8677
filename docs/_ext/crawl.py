"""Look at a built site: `python docs/_ext/crawl.py docs/_build`.

Every link and picture must be there, with its anchor, and nothing may be loaded from elsewhere.
"""

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """Anchors of a page, its links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names or refers to."""
        found = {name: value for name, value in attrs if value}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag in LOADED and LOADED[tag] in found and found.get("rel") != "canonical":
            self.loaded.append(found[LOADED[tag]])


@cache
def read(path: Path) -> Page:
    """A page of the site."""
    return Page(path.read_text("utf-8"))


def pages(root: Path) -> list[Path]:
    """All pages but the templates that the theme leaves behind."""
    return [path for path in sorted(root.rglob("*.html")) if "_static" not in path.parts]


def problems(root: Path) -> list[str]:
    """What is wrong, one line each."""
    found = []
    for path in pages(root):
        page, place = read(path), path.relative_to(root)
        found += [f"{place}: loads {url}" for url in page.loaded if urlsplit(url).netloc]
        for url in [*page.links, *page.loaded]:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                found.append(f"{place}: there is no {url}")
                continue
            anchor = unquote(parts.fragment) if target.suffix == ".html" else ""
            if anchor and anchor not in read(target).anchors:
                found.append(f"{place}: there is no place {url}")
    return found


if __name__ == "__main__":
    site = Path(sys.argv[1])
    wrong = problems(site)
    print(f"{len(pages(site))} pages, {len(wrong)} problems", *wrong, sep="\n")
    sys.exit(bool(wrong))
