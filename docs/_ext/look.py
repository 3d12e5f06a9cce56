"""Pages as people see them: wide and narrow, light and dark; and what does not fit there.

`make look`, or `python docs/_ext/look.py FILES OR FOLDERS` of HTML, writes pictures into out/look,
and names what stands out of a page, text that can hardly be told from what is behind it or is tiny,
lines of code that scroll, formulas that did not become any, and pictures without a word of what
they show. Needs Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from tornado.httpclient import AsyncHTTPClient
from tornado.websocket import WebSocketClientConnection, websocket_connect

WIDTHS = (390, 1280)
SCHEMES = ("light", "dark")
SLICE = 1500  # the height of a column of a picture

# What is wrong with the page, in words.
FAULTS = r"""(() => {
  const found = [], wide = document.documentElement.clientWidth;
  const say = (what, e) => {
    const text = (e.textContent || e.getAttribute('src') || '').trim().replace(/\s+/g, ' ');
    const kind = `${e.tagName.toLowerCase()} ${e.className.baseVal ?? e.className}`.trim();
    found.push(`${what}: <${kind}> ${text.slice(0, 60)}`);
  };
  const shown = (e) => e.checkVisibility({visibilityProperty: true, opacityProperty: true});
  const scrolls = (e) => {
    for (let p = e; p && p !== document.body; p = p.parentElement) {
      const style = getComputedStyle(p);
      if (/auto|scroll|hidden|clip/.test(style.overflowX)) return true;
      if (style.position === 'fixed') return true;
    }
    return false;
  };
  const rgba = (colour) => {
    const n = (colour.match(/[\d.]+/g) || []).map(Number);
    const unit = colour.startsWith('color(') ? 255 : 1;
    return [n[0] * unit, n[1] * unit, n[2] * unit, n.length > 3 ? n[3] : 1];
  };
  const behind = (e) => {
    let colour = [0, 0, 0, 0];
    for (let p = e; p; p = p.parentElement) {
      const c = rgba(getComputedStyle(p).backgroundColor), left = 1 - colour[3];
      colour = [0, 1, 2].map((k) => colour[k] + left * c[3] * c[k]).concat(colour[3] + left * c[3]);
      if (colour[3] > 0.99) return colour;
    }
    return colour[3] > 0.5 ? colour : [255, 255, 255, 1];
  };
  const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, share, k) => {
    const v = c[k] / 255;
    return sum + share * (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  }, 0);
  const contrast = (e) => {
    const back = behind(e), c = rgba(getComputedStyle(e).color);
    const front = [0, 1, 2].map((k) => c[3] * c[k] + (1 - c[3]) * back[k]);
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const width = document.documentElement.scrollWidth;
  if (width > wide) found.push(`the page is ${width} wide`);
  for (const e of document.body.querySelectorAll('*')) {
    if (!shown(e)) continue;
    const box = e.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    if (box.right > wide + 1 && !scrolls(e.parentElement) && !scrolls(e)) say('stands out', e);
    if (e.tagName === 'IMG' && !e.alt) say('no alt', e);
    if (e.tagName === 'IMG' && !e.naturalWidth) say('not there', e);
    const words = !e.closest('svg, mjx-container')
      && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    const weak = words && contrast(e) < 3;
    if (weak) say(`contrast ${contrast(e).toFixed(1)}`, e);
    if (words && parseFloat(getComputedStyle(e).fontSize) < 9) say('tiny', e);
  }
  for (const e of document.querySelectorAll('mjx-merror, .problematic')) say('formula', e);
  for (const e of document.querySelectorAll('pre')) {
    if (wide > 600 && e.scrollWidth > e.clientWidth + 1) say('scrolls', e);
  }
  return [...new Set(found)];
})()"""


class Browser:
    """One page of a Chromium without a window, told what to do over its protocol."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self.socket = socket
        self.asked = 0

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self.asked += 1
        await self.socket.write_message(
            json.dumps({"id": self.asked, "method": method, "params": params})
        )
        while True:
            answer = json.loads(await self.socket.read_message() or "{}")
            if answer.get("id") == self.asked:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    async def value(self, script: str) -> Any:
        """What a script comes to, promises kept."""
        answer = await self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    async def show(self, page: Path, width: int, scheme: str) -> list[str]:
        """Load a page as it looks there, and say what is wrong with it."""
        await self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
            mobile=width < 600,
        )  # fmt: skip
        feature = {"name": "prefers-color-scheme", "value": scheme}
        await self.ask("Emulation.setEmulatedMedia", features=[feature])
        await self.ask("Page.navigate", url=page.resolve().as_uri())
        await self.value(
            """new Promise((done) => {
                 const loaded = () => document.readyState === 'complete';
                 const wait = () => (loaded() ? ready() : setTimeout(wait, 20));
                 const ready = () => (window.MathJax?.startup?.promise ?? Promise.resolve())
                   .then(() => document.fonts.ready).then(() => setTimeout(done, 150));
                 wait();
               })"""
        )
        found: list[str] = await self.value(FAULTS)
        return found

    async def picture(self, path: Path, width: int) -> None:
        """All of the page, cut into columns side by side so that one picture shows it."""
        height = int(await self.value("document.documentElement.scrollHeight"))
        columns = -(-height // SLICE)
        sheet = Image.new("RGB", (columns * (width + 10), min(height, SLICE)), "#888")
        for k in range(columns):
            part = {"x": 0, "y": k * SLICE, "height": min(SLICE, height - k * SLICE)}
            shot = await self.ask(
                "Page.captureScreenshot", clip=part | {"width": width, "scale": 1},
                captureBeyondViewport=True, format="png",
            )  # fmt: skip
            column = Image.open(io.BytesIO(base64.b64decode(shot["data"])))
            sheet.paste(column, (k * (width + 10), 0))
        sheet.save(path)


async def look(pages: list[tuple[str, Path]], out: Path) -> int:
    """Every page in every setting; the number of faults."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        raise SystemExit("needs Chromium: apt-get install chromium")
    faults = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [
            program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--disable-background-networking", "--disable-sync", "--no-first-run",
            "--hide-scrollbars", "--allow-file-access-from-files", "--remote-debugging-port=0",
            f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            port_file = Path(profile) / "DevToolsActivePort"
            while not port_file.exists():
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.2)
            port = port_file.read_text().split()[0]
            answer = await AsyncHTTPClient().fetch(f"http://127.0.0.1:{port}/json")
            target = next(t for t in json.loads(answer.body) if t["type"] == "page")
            socket = await websocket_connect(
                target["webSocketDebuggerUrl"], max_message_size=1 << 28
            )
            browser = Browser(socket)
            await browser.ask("Page.enable")
            for name, page in pages:
                for width in WIDTHS:
                    for scheme in SCHEMES:
                        found = await browser.show(page, width, scheme)
                        await browser.picture(out / f"{name}-{width}-{scheme}.png", width)
                        faults += len(found)
                        for fault in found:
                            print(f"{name} {width} {scheme}: {fault}", flush=True)
        finally:
            process.terminate()
            process.wait()
    return faults


def pages_of(root: Path) -> list[tuple[str, Path]]:
    """A name for the pictures of each page, and the page."""
    if root.is_file():
        return [(root.stem, root)]
    found = sorted(page for page in root.rglob("*.html") if "_static" not in page.parts)
    return [("-".join(page.relative_to(root).with_suffix("").parts), page) for page in found]


def main() -> None:
    """Look at the pages named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", type=Path, help="HTML files, or folders of them")
    parser.add_argument("-o", "--out", type=Path, default=Path("out/look"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    pages = [page for root in given.pages for page in pages_of(root)]
    sys.exit(1 if asyncio.run(look(pages, given.out)) else 0)


if __name__ == "__main__":
    main()
