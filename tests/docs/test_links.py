"""Links in the pages lead somewhere, and every page can be reached from the README."""

import posixpath
import unittest

import pages

EXTERNAL = ("http://", "https://", "mailto:")


class Links(unittest.TestCase):
    def setUp(self) -> None:
        self.pages = {page.path: page for page in pages.all_pages()}

    def target(self, page: pages.Page, link: str) -> tuple[str, str]:
        path, _, anchor = link.partition("#")
        if not path:
            return page.path, anchor
        return posixpath.normpath(posixpath.join(posixpath.dirname(page.path), path)), anchor

    def test_pages_are_found(self) -> None:
        self.assertGreater(len(self.pages), 10)
        self.assertGreater(sum(len(page.links()) for page in self.pages.values()), 50)

    def test_every_link_leads_to_a_file_and_a_heading(self) -> None:
        wrong = []
        for page in self.pages.values():
            for line, link in page.links():
                if link.startswith(EXTERNAL):
                    continue
                path, anchor = self.target(page, link)
                if path.startswith("..") or not (pages.ROOT / path).exists():
                    wrong.append(f"{page.path}:{line}: no file {link}")
                elif anchor and path in self.pages and anchor not in self.pages[path].anchors():
                    wrong.append(f"{page.path}:{line}: no heading {link}")
        self.assertEqual(wrong, [])

    def test_every_page_can_be_reached_from_the_readme(self) -> None:
        reached, left = set(), ["README.md"]
        while left:
            page = self.pages.get(left.pop())
            if page is None or page.path in reached:
                continue
            reached.add(page.path)
            for _, link in page.links():
                if not link.startswith(EXTERNAL):
                    path = self.target(page, link)[0]
                    # A link to a folder shows its page.
                    left += [path, posixpath.join(path, "README.md")]
        self.assertEqual(sorted(set(self.pages) - reached), [])


if __name__ == "__main__":
    unittest.main()
