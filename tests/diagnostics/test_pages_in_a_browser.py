"""Pages in a browser: nothing overflows, the viewer answers, a picture stays without it."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.diagnostics.report_cases import page_of

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((found for found in map(shutil.which, NAMES) if found), None)
WIDTHS = (1400, 1200, 390)
KINDS = ("table", "classes", "mesh", "graph", "city", "times")
MEASURE = Path(__file__).with_name("measure_page.js")
SOFTWARE = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader")


def host(shown: dict[str, str]) -> str:
    """A page with a frame of each page and width, which writes what it measures into its title."""
    frames = "".join(
        f'<iframe name="{kind}" srcdoc="{html.escape(page)}" '
        f'style="width:{width}px;height:900px;border:0"></iframe>'
        for kind, page in shown.items()
        for width in WIDTHS
    )
    script = MEASURE.read_text(encoding="utf-8")
    return f"<!doctype html><meta charset=utf-8><body>{frames}<script>{script}</script></body>"


def look(shown: dict[str, str], folder: Path, *options: str) -> dict:
    """Open pages in the browser and return what was measured."""
    path = folder / "host.html"
    path.write_text(host(shown), encoding="utf-8")
    arguments = ["--headless", "--no-sandbox", "--window-size=1500,900", "--dump-dom", *options]
    run = subprocess.run(
        [str(BROWSER), *arguments, f"--user-data-dir={folder / 'profile'}", path.as_uri()],
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    found = re.search(r"<title>(.*?)</title>", run.stdout, flags=re.DOTALL)
    assert found, run.stderr[-2000:]
    return json.loads(html.unescape(found[1]))


pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"needs one of {', '.join(NAMES)}")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return look(
        {kind: page_of(kind) for kind in KINDS}, tmp_path_factory.mktemp("pages"), *SOFTWARE
    )


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_overflows_and_a_page_is_short(kind, found):
    for size, width in zip(found["sizes"][kind], WIDTHS, strict=True):
        assert width - 20 <= size["width"] <= width
        assert size["needed"] <= size["width"]
        assert size["out"] == []
        assert size["tables"] == page_of(kind).count("<table")
        assert size["closed"] == size["hidden"] == 0
    assert found["sizes"][kind][0]["height"] <= 2500


def test_the_viewer_reads_values_and_takes_names_as_texts(found):
    if not found["sizes"]["mesh"][0]["live"]:
        pytest.skip("this browser has no WebGL")
    sensor, error, idle, middle = found["read"]["said"]
    assert "observed " in sensor
    assert "observed minus its prediction from the others" in error
    assert "Drag to turn" in idle
    assert re.search(r"mean -?\d", middle)
    assert found["read"]["elements"] == 0


def test_the_picture_stays_without_webgl_and_dark_pages_have_light_texts(tmp_path):
    shown = {"mesh": page_of("mesh")}
    found = look(shown, tmp_path, "--disable-3d-apis", "--blink-settings=preferredColorScheme=0")
    size = found["sizes"]["mesh"][0]
    assert size["live"] == size["hidden"] == 0
    assert found["read"] is None
    ink, paper = (sum(map(int, re.findall(r"\d+", size[name])[:3])) for name in ("ink", "paper"))
    assert ink > 600 > 200 > paper
