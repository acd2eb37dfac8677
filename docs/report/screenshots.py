"""Save the sections of a page as pictures: the PNG of this folder, or PDF for a paper.

    python docs/report/screenshots.py run/report.html docs/report/payments light dark phone
    python docs/report/screenshots.py run/report.html docs/report/payments light result next
    python docs/report/screenshots.py run/report.html figures/payments pdf learning classes

Every section of the page becomes one file, PREFIX-MODE-SECTION.png or PREFIX-SECTION.pdf. Name
modes and, after them, the sections wanted (all by default). Needs Chromium and
`pip install playwright pillow`.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import ElementHandle, Page, sync_playwright

MODES = {
    "light": {"viewport": {"width": 1240, "height": 900}},
    "dark": {"viewport": {"width": 1240, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}},
    "pdf": {"viewport": {"width": 1240, "height": 900}},
}


def main(page_file: str, prefix: str, *words: str) -> None:
    """Open the page in every mode asked for and save its sections."""
    modes = [word for word in words if word in MODES] or ["light", "dark", "phone"]
    Path(prefix).parent.mkdir(parents=True, exist_ok=True)
    wanted = {word for word in words if word not in MODES}
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for mode in modes:
            page = browser.new_context(**MODES[mode]).new_page()
            page.goto(Path(page_file).resolve().as_uri())
            page.wait_for_selector("html[data-ready]", timeout=60_000)
            if page.query_selector("#theory-view"):  # a comparison has none
                page.click("#theory-view > summary")
                page.wait_for_selector("html[data-theory]", timeout=60_000)
            page.add_style_tag(content="nav.contents, .sticky { position: static !important }")
            for section in page.query_selector_all("main section"):
                name = section.get_attribute("id")
                if wanted and name not in wanted:
                    continue
                if mode == "pdf":
                    save_pdf(page, section, Path(f"{prefix}-{name}.pdf"))
                else:
                    save(section.screenshot(), Path(f"{prefix}-{mode}-{name}.png"))
        browser.close()


def save(raw: bytes, file: Path) -> None:
    """Write a picture with 256 colours."""
    image = Image.open(io.BytesIO(raw)).convert("RGB")
    image.quantize(256, method=Image.Quantize.MAXCOVERAGE).save(file, optimize=True)
    print(f"{file} {file.stat().st_size / 1024:.0f} KiB")


def save_pdf(page: Page, section: ElementHandle, file: Path) -> None:
    """Write one section as a page of its own size, with the style of the screen."""
    box = section.bounding_box()
    own = f"#{section.get_attribute('id')}"
    hide = f"header, nav, footer, summary, main section:not({own}):not(:has({own})):not({own} *)"
    style = page.add_style_tag(content=f"{hide} {{ display: none !important }}")
    page.emulate_media(media="screen")
    size = {"width": "1240px", "height": f"{box['height'] + 40:.0f}px"}
    page.pdf(path=file, print_background=True, **size)
    style.evaluate("tag => tag.remove()")
    print(f"{file} {file.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main(*sys.argv[1:])
