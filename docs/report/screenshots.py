"""Take the pictures of this folder.

    python docs/report/screenshots.py squirrel/report.html docs/report/squirrel light dark phone
    python docs/report/screenshots.py squirrel/report.html docs/report/squirrel light player rings

Every section of the page becomes one PNG, named PREFIX-MODE-SECTION.png; name modes and, after
them, the sections wanted (all by default).
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

MODES = {
    "light": {"viewport": {"width": 1240, "height": 900}},
    "dark": {"viewport": {"width": 1240, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}},
}


def main(page_file: str, prefix: str, *words: str) -> None:
    """Open the page in every mode asked for and save its sections."""
    modes = [word for word in words if word in MODES] or list(MODES)
    wanted = {word for word in words if word not in MODES}
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for mode in modes:
            page = browser.new_context(**MODES[mode]).new_page()
            page.goto(Path(page_file).resolve().as_uri())
            page.wait_for_selector("html[data-ready]", timeout=60_000)
            page.add_style_tag(content="nav.contents, .sticky { position: static !important }")
            for section in page.query_selector_all("main > section"):
                name = section.get_attribute("id")
                if not wanted or name in wanted:
                    save(section.screenshot(), Path(f"{prefix}-{mode}-{name}.png"))
        browser.close()


def save(raw: bytes, file: Path) -> None:
    """Write a picture with 256 colours."""
    image = Image.open(io.BytesIO(raw)).convert("RGB")
    image.quantize(256, method=Image.Quantize.MAXCOVERAGE).save(file, optimize=True)
    print(f"{file} {file.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main(*sys.argv[1:])
