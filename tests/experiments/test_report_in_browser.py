"""A report in a browser: nothing overflows the page or is cut off, on wide and narrow screens and in figures."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pfedeg.experiments.report import write
from pfedeg.graphs.federation import Federation
from pfedeg.training.config import Config
from pfedeg.training.local_run import Training

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
SECONDS = 120
# Chromium's windows are at least 500 px wide, so that the page is measured in a frame of the wanted width.
MEASURE = """<!doctype html><title>measured</title>
<iframe style="border: 0; width: %(width)dpx; height: 900px"></iframe>
<pre></pre><script>
const frame = document.querySelector("iframe");
frame.onload = async () => {
  const page = frame.contentDocument, faults = [], width = %(width)d;
  page.querySelectorAll("details").forEach(each => each.open = true);
  const root = page.documentElement, text = each => each.textContent.trim().slice(0, 60);
  if (root.scrollWidth > width) faults.push(`the page is ${root.scrollWidth} px wide`);
  for (const each of page.querySelectorAll("h1, h2, h3, p, a, summary, figcaption, .part")) {
    const box = each.getBoundingClientRect();
    if (box.left < -1 || box.right > width + 1) faults.push(`off the screen: ${text(each)}`);
    if (each.scrollWidth > each.clientWidth + 1 && each.clientWidth) faults.push(`cut: ${text(each)}`);
  }
  for (const each of page.querySelectorAll(".scroll"))
    if (width > 1000 && each.scrollWidth > each.clientWidth + 1) faults.push(`must be scrolled: ${text(each)}`);
  for (const cell of page.querySelectorAll("td, th"))
    if (cell.scrollWidth > cell.clientWidth + 1) faults.push(`cell cut: ${text(cell)}`);
  let letters = 99, used = 0;
  for (const each of page.querySelectorAll(".part")) used = Math.max(used, each.getBoundingClientRect().right);
  for (const image of page.querySelectorAll("img")) {
    const scale = image.getBoundingClientRect().width / image.getAttribute("width");
    const drawn = page.createElement("div");
    drawn.innerHTML = atob(image.src.split(",")[1]).replace(/^[^]*?(?=<svg)/, "");
    page.body.append(drawn);
    const svg = drawn.querySelector("svg"), frame = svg.getBoundingClientRect();
    const words = [...svg.querySelectorAll("text")].map(each => [each, each.getBoundingClientRect()]);
    for (const [each, box] of words) {
      letters = Math.min(letters, scale * 4 / 3 * parseFloat(getComputedStyle(each).fontSize));
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 ||
          box.bottom > frame.bottom + 1) faults.push(`cut in the figure ${image.alt}: ${text(each)}`);
    }
    for (const [one, a] of words) for (const [two, b] of words)
      if (one !== two && %(overlaps)s) faults.push(`overlap in the figure ${image.alt}: ${text(one)}, ${text(two)}`);
    drawn.remove();
  }
  const images = page.querySelectorAll("img").length;
  document.querySelector("pre").textContent = JSON.stringify({faults, used, images, letters});
};
frame.srcdoc = %(page)s;
</script>"""
OVERLAPS = "a.left + 2 < b.right && b.left + 2 < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports on the demo's federation, on a sweep, and on the small runs in results/."""
    folder = tmp_path_factory.mktemp("reports")
    world = Federation.world()
    common: dict[str, Any] = {"rounds": 4, "dim": 8, "negatives": 8, "batch": 256, "eval_every": 1, "lr": 0.02}
    runs = [
        {"method": name, "seed": seed} for name in ("single", "fede", "pfedeg-star", "pfedeg-plus") for seed in (0, 1)
    ]
    runs += [{"method": "fede", "evaluate": "after_aggregation"}]
    runs += [{"method": "pfedeg-plus", "p": p, "lr": rate} for p in (0.2, 0.8) for rate in (0.01, 0.05)]
    for number, settings in enumerate(runs):
        Training(world, Config(**{**common, **settings}), out=folder / "runs" / str(number), source="world").run()
    small = Path(__file__).parents[2] / "results" / "small"
    for name, source in (("world", folder / "runs"), ("small", small)):
        write(source, folder / f"{name}.html", quick=name == "small")
    return {name: folder / f"{name}.html" for name in ("world", "small")}


def measured(page: Path, width: int) -> dict[str, Any]:
    """What the browser says about the page at this width."""
    text = json.dumps(page.read_text(encoding="utf-8")).replace("</", "<\\/")
    probe = page.with_name(f"{page.stem}-{width}.html")
    probe.write_text(MEASURE % {"width": width, "page": text, "overlaps": OVERLAPS}, encoding="utf-8")
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={page.parent / 'profile'}", "--virtual-time-budget=60000", "--dump-dom"]
    home = {**os.environ, "HOME": str(page.parent)}
    done = subprocess.run(
        [*command, f"--window-size={max(width, 500) + 40},1000", probe.as_uri()],
        capture_output=True, text=True, timeout=SECONDS, env=home,
    )  # fmt: skip
    (found,) = re.findall(r"<pre>(\{.*?\})</pre>", done.stdout, re.DOTALL) or [done.stderr[-500:]]
    return json.loads(html.unescape(found))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["world", "small"])
@pytest.mark.parametrize("width", [1300, 390])
def test_nothing_overflows_or_is_cut(reports: dict[str, Path], name: str, width: int) -> None:
    found = measured(reports[name], width)
    assert found["faults"] == []
    assert found["images"] > 5
    assert found["letters"] > 6.5  # pixels of the smallest letters in figures
    if width == 1300:
        assert found["used"] > 0.75 * width  # the right half is not empty


def test_the_measurement_finds_faults(reports: dict[str, Path], tmp_path: Path) -> None:
    text = reports["world"].read_text(encoding="utf-8")
    wide = tmp_path / "wide.html"
    wide.write_text(text.replace("<h1>", '<h1 style="width: 2000px">'), encoding="utf-8")
    assert any("px wide" in fault for fault in measured(wide, 390)["faults"])
