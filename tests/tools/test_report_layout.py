"""The page of `sdp4bit report` in a browser: nothing is wider than the window, on a desk or on a phone, and nothing is fetched."""

import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import statistics_data as data
import support

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDTHS = (1280, 768, 420)
# A page in a frame of each width says how wide its content is, how many plots it shows, and which of them have no size.
FRAME = """<body>{frames}<pre id="result"></pre><script>
onload = () => document.getElementById("result").textContent = JSON.stringify([...document.querySelectorAll("iframe")].map(frame => {{
  const page = frame.contentDocument, plots = [...page.querySelectorAll("figure svg")];
  const inside = plots.every(plot => {{ const box = plot.getBoundingClientRect(); return box.width > 250 && box.right <= page.documentElement.clientWidth; }});
  return [page.documentElement.scrollWidth, plots.length, inside, page.querySelector(".verdict").getBoundingClientRect().bottom];
}}));
</script></body>"""


class Layout(unittest.TestCase):
    def measure(self, folder):
        """By width: content's width, number of plots, whether all are inside, and where the verdict ends."""
        frames = "".join(
            f'<iframe src="page.html" style="width:{width}px;height:900px;border:0"></iframe>' for width in WIDTHS
        )
        (folder / "frames.html").write_text(FRAME.format(frames=frames))
        shown = subprocess.run(
            [
                CHROMIUM,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",  # a container's /dev/shm is 64 MiB
                "--allow-file-access-from-files",
                "--window-size=1600,1000",
                f"--user-data-dir={folder / 'profile'}",
                "--virtual-time-budget=5000",
                "--dump-dom",
                (folder / "frames.html").as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        match = re.search(r'<pre id="result">(\[.*?\])</pre>', shown.stdout)
        self.assertIsNotNone(match, shown.stderr[-500:])
        return dict(zip(WIDTHS, json.loads(html.unescape(match[1]))))

    def test_everything_fits_at_every_width(self):
        communicators = [
            data.communicator(
                i,
                f"a communicator with a long name that somebody gave it, number {i}",
                sampled_error=data.sampled([0.16] * 9),
                classes=[data.gather_class()],
                gradients=data.function({"compressed": 90, "too_small": 5}),
            )
            for i in range(20)
        ]
        ranks = [data.process(rank, 16, communicators, sampled_error=data.sampled([0.16] * 9)) for rank in range(12)]
        ranks[3]["options"][0]["value"] = "2M"
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            data.write(name, [*ranks, "{"])
            result = support.sdp4bit("report", name, "-o", str(folder / "page.html"))
            self.assertEqual(result.returncode, 0, result.stderr)
            for width, (content, plots, inside, verdict_end) in self.measure(folder).items():
                with self.subTest(width=width):
                    self.assertLessEqual(content, width)
                    self.assertLess(verdict_end, 400, "the verdict is on the first screen")
                    self.assertTrue(inside, "a plot is cut")
                    if support.has_matplotlib():
                        self.assertGreaterEqual(plots, 5)


if __name__ == "__main__":
    if not CHROMIUM:
        print("SKIPPED: no chromium on PATH")
        sys.exit(77)
    unittest.main()
