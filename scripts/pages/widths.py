"""Pages of the built site that are wider than a window, desktop and phone.

    python -m scripts.pages.widths build/site

Chromium shows every page in frames of 1280 and 420 pixels, from a server of
this machine. Status 1 and a line for each page that has to be moved sideways.
"""

import argparse
import contextlib
import functools
import html
import http.server
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

WIDTHS = (1280, 420)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LIMIT = 600  # seconds for all pages
_MEASURE = """<!doctype html><pre id=o></pre><script>
const pages = PAGES, widths = WIDTHS, found = [];
function measure(page, width) {
  return new Promise(done => {
    const frame = document.createElement("iframe");
    frame.style.cssText = `width:${width}px;height:900px;border:0`;
    frame.onload = () => setTimeout(() => {
      const root = frame.contentDocument.documentElement;
      found.push([page, width, root.scrollWidth - root.clientWidth]);
      frame.remove();
      done();
    }, 100);
    frame.src = page;
    document.body.appendChild(frame);
  });
}
(async () => {
  for (const page of pages)
    for (const width of widths) await measure(page, width);
  document.getElementById("o").textContent = JSON.stringify(found);
})();
</script>"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Files of a folder; nothing is logged."""

    def log_message(self, *_) -> None:
        pass


@contextlib.contextmanager
def served(folder: str):
    """The address of a folder on this machine, while the block runs."""
    handler = functools.partial(_Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def measured(site: pathlib.Path) -> list[tuple[str, int, int]]:
    """(page, width of the window, pixels beyond it) of all pages.

    Raises RuntimeError: Chromium gives no answer.
    """
    pages = sorted(p.relative_to(site).as_posix() for p in site.rglob("*.html"))
    pages = [page for page in pages if page != "404.html"]
    text = _MEASURE.replace("PAGES", json.dumps(pages))
    text = text.replace("WIDTHS", json.dumps(WIDTHS))
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        shutil.copytree(site, copy, dirs_exist_ok=True)
        (copy / "measure.html").write_text(text, encoding="utf-8")
        with served(folder) as address:
            done = subprocess.run(
                [
                    str(CHROMIUM),
                    "--headless=new",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--window-size=1400,1000",
                    f"--virtual-time-budget={LIMIT * 1000}",
                    "--dump-dom",
                    f"{address}/measure.html",
                ],
                capture_output=True,
                text=True,
                timeout=LIMIT,
            )
    answer = re.search(r'<pre id="o">(\[.*?\])</pre>', done.stdout, re.S)
    if not answer:
        raise RuntimeError(f"no answer of {CHROMIUM}: {done.stderr[-500:]}")
    return [tuple(row) for row in json.loads(html.unescape(answer[1]))]


def main() -> None:
    """Prints the pages that are too wide."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=pathlib.Path, help="the built site")
    site = parser.parse_args().site
    if CHROMIUM is None:
        print("no chromium: the widths of the pages are not measured")
        return
    if not site.is_dir():
        parser.error(f"wanted the built site's folder, found {site}")
    try:
        rows = measured(site)
    except subprocess.TimeoutExpired:
        print(f"the widths of the pages are not measured: {LIMIT} s were over")
        return
    wide = [row for row in rows if row[2] > 0]
    for page, width, beyond in wide:
        print(f"{page}: {beyond} pixels beyond a window of {width}")
    print(f"{len(rows)} pages and widths measured, {len(wide)} too wide")
    sys.exit(bool(wide))


if __name__ == "__main__":
    main()
