"""The pictures of the report in the documentation: three screenshots and one that moves.

    python tools/screenshots.py docs/images

Needs chromium, chromedriver, selenium and pillow.  The first picture is of a messy table of customers with
errors planted in it (`tests/customers.py`), the others of a table of 178 wines.
"""

from __future__ import annotations

import argparse
import base64
import io
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from PIL import Image

from discoformer.core.transforms import SupportWarning
from discoformer.data.datasets import real_dataset
from discoformer.data.files import read_sample
from discoformer.data.reading import read_raw
from discoformer.views.report import make_report

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browsing import Browser, start_browser  # noqa: E402
from customers import customers  # noqa: E402

GIF = (920, 700)  # pixels of a frame
COLOURS = 192
ACCENT = "#c2410c"  # of css/base.css
PROLINE, COLOUR, HUE, ALCOHOL = 12, 9, 10, 0  # columns


def shoot(browser: Browser) -> Image.Image:
    """What the window shows, when it is drawn finely."""
    browser.settle()
    browser.wait("!discoformer.corner.frames.at(-1).moving")
    data = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
    return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")


def choose(browser: Browser, **values: Any) -> None:
    """Set what the reader would: columns shown, columns held, the row that was clicked."""
    given = values.pop("given", None)
    browser.ask("discoformer.state.set(arguments[0])", {**values, "moving": False})
    if given is not None:
        browser.ask("discoformer.state.set({given: new Map(arguments[0])})", given)


def show(browser: Browser, selector: str) -> None:
    browser.ask(f"document.querySelector('{selector}').scrollIntoView({{block: 'start'}})")


def screenshots(browser: Browser, messy: str, page: str, folder: Path) -> None:
    browser.open(messy, width=1200, height=1240)
    shoot(browser).save(folder / "report-light.png", optimize=True)
    browser.open(page, width=1200, height=900, dark=True)
    choose(browser, shown=[ALCOHOL, 6, HUE], given=[[COLOUR, 8], [PROLINE, 600]], arrows=True)
    show(browser, "#explorer")
    shoot(browser).save(folder / "report-dark.png", optimize=True)
    browser.open(page, width=390, height=844)
    choose(browser, given=[[PROLINE, 1200]])
    show(browser, "#explorer")
    shoot(browser).save(folder / "report-phone.png", optimize=True)


def messy_page(folder: Path) -> str:
    """The report of the customers, read from a file as people have it."""
    path = folder / "customers.csv"
    customers().to_csv(path, index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        table = read_sample(read_raw(path), plain=False)
    return make_report(table, title=path.name)


def film(browser: Browser, page: str, path: Path) -> None:
    """The first screen, a slider that is dragged, score arrows, and a row in all pictures."""
    frames: list[tuple[Image.Image, int]] = []
    browser.open(page, width=GIF[0], height=GIF[1])
    frames.append((shoot(browser), 1800))
    choose(browser, shown=[6, COLOUR, PROLINE])
    show(browser, "#explorer")
    frames.append((shoot(browser), 900))
    way = [11.6 + 0.25 * k for k in range(13)]
    for value in (*way, *way[::-2]):
        choose(browser, given=[[ALCOHOL, value]])
        frames.append((shoot(browser), 120))
    choose(browser, given=[], arrows=True)
    frames.append((shoot(browser), 1500))
    choose(browser, arrows=False, selected=121)
    frames.append((shoot(browser), 1800))
    chosen = (frames[0], frames[8], frames[-1])
    all_colours = Image.new("RGB", (GIF[0], len(chosen) * GIF[1] + 200), ACCENT)  # rare, not to be lost
    for k, (frame, _) in enumerate(chosen):
        all_colours.paste(frame, (0, k * GIF[1]))
    palette = all_colours.quantize(COLOURS)
    pictures = [frame.quantize(COLOURS, palette=palette, dither=Image.Dither.NONE) for frame, _ in frames]
    times = [time for _, time in frames]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=times, loop=0, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    folder = parser.parse_args().folder
    page = make_report(real_dataset("wine"), title="wine.csv")
    with tempfile.TemporaryDirectory() as temporary, start_browser(Path(temporary)) as browser:
        screenshots(browser, messy_page(Path(temporary)), page, folder)
        film(browser, page, folder / "report.gif")
    for path in sorted(folder.glob("report*")):
        print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
