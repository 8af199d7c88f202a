"""The pictures of the pages are those that docs/pictures/draw.py draws, and each is shown by a page."""

import importlib
import posixpath
import sys
import unittest
import xml.etree.ElementTree

import pages

FOLDER = pages.ROOT / "docs" / "pictures"


class Pictures(unittest.TestCase):
    def setUp(self) -> None:
        sys.path.insert(0, str(FOLDER))
        self.addCleanup(sys.path.remove, str(FOLDER))
        self.drawn = {f"{name}.svg": draw().svg() for name, draw in importlib.import_module("draw").PICTURES.items()}

    def test_every_picture_is_what_its_code_draws(self) -> None:
        self.assertEqual(sorted(path.name for path in FOLDER.glob("*.svg")), sorted(self.drawn))
        for name, text in self.drawn.items():
            same = (FOLDER / name).read_text(encoding="utf-8") == text
            self.assertTrue(same, f"{name} is another: run docs/pictures/draw.py")

    def test_every_picture_is_well_formed_and_inside_its_frame(self) -> None:
        for name, text in self.drawn.items():
            root = xml.etree.ElementTree.fromstring(text)
            width, height = float(root.get("width")), float(root.get("height"))
            for element in root.iter():
                for side, most in (("x", width), ("y", height)):
                    length = float(element.get("width" if side == "x" else "height", 0)) if element is not root else 0
                    self.assertLessEqual(float(element.get(side, 0)) + length, most, f"{name}: {element.attrib}")

    def test_every_picture_is_shown(self) -> None:
        shown = {
            posixpath.normpath(posixpath.join(posixpath.dirname(page.path), link))
            for page in pages.all_pages()
            for _, link in page.links()
        }
        self.assertEqual([name for name in self.drawn if f"docs/pictures/{name}" not in shown], [])


if __name__ == "__main__":
    unittest.main()
