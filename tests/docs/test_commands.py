"""Commands in the pages do what they say: they are run here, by a test that is named, or at least read.

A block of sh is run, unless a comment above it says otherwise:

    <!-- needs: cluster -->         what no test has (NEEDS below): it must parse, and its files must exist
    <!-- tested by: NAME, ... -->   tests of CTest, or a script of the tree, that run it
    <!-- printed -->                above a block of output: each line stands in what the block before it
                                    printed; ... stands for anything

Blocks of a page run in order in one copy of the tree, with the build at hand as build/dev.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import built
import pages

NEEDS = ("cluster", "gpu", "network", "nvcc", "root", "minutes", "nccl-tests", "nvdisasm")
FOLDERS = ("build", "bench", "docs", "examples", "include", "kernels", "plugin", "sandbox", "scripts", "tests", "tools")
SECONDS = 300


def copy_of_the_tree(target: pathlib.Path) -> None:
    shutil.copytree(pages.ROOT, target, symlinks=True, ignore=shutil.ignore_patterns("build", ".git", "__pycache__"))
    (target / "build").mkdir()
    (target / "build" / "dev").symlink_to(built.folder())


def clean_environment() -> dict[str, str]:
    """What a new shell of a user has: nothing that CTest or a developer set for the library or the sandbox."""
    dropped = ("SDP4BIT_", "SANDBOX_", "NCCL_", "DOCS_", "LD_PRELOAD", "LD_LIBRARY_PATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {**kept, "PATH": f"{pages.ROOT / 'tools'}:{kept.get('PATH', '')}"}


class Commands(unittest.TestCase):
    def setUp(self) -> None:
        self.pages = pages.all_pages()
        self.blocks = [block for page in self.pages for block in page.blocks]
        self.commands = [block for block in self.blocks if block.is_commands]

    def test_commands_are_found(self) -> None:
        self.assertGreater(len(self.commands), 15)

    def test_every_mark_is_one_that_is_known(self) -> None:
        wrong = []
        for block in self.blocks:
            wrong += [f"{block.place}: needs {name}" for name in block.names("needs") if name not in NEEDS]
            for name in block.names("tested by"):
                if name not in built.ctest_names() and not (pages.ROOT / name).is_file():
                    wrong.append(f"{block.place}: there is no test {name}")
            if block.language in ("shell", "console", "zsh"):
                wrong.append(f"{block.place}: write sh, so that the block is run")
            if any(mark.kind != "printed" and not mark.names for mark in block.marks):
                wrong.append(f"{block.place}: a mark that names nothing")
        self.assertEqual(wrong, [])

    def test_every_block_of_commands_parses(self) -> None:
        wrong = []
        for block in self.commands:
            shell = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
            if shell.returncode != 0:
                wrong.append(f"{block.place}: {shell.stderr.strip()}")
        self.assertEqual(wrong, [])

    def test_every_python_block_parses(self) -> None:
        for block in self.blocks:
            if block.language == "python":
                compile(block.text, block.place, "exec")

    def test_files_that_are_not_run_exist(self) -> None:
        presets = re.findall(r'"name": "(\w+)"', (pages.ROOT / "CMakePresets.json").read_text(encoding="utf-8"))
        targets = "\n".join(path.read_text(encoding="utf-8") for path in pages.ROOT.rglob("CMakeLists.txt")
                            if "build" not in path.relative_to(pages.ROOT).parts)
        wrong = []
        for block in self.commands:
            for match in re.finditer(r"(?<![\w./$}-])(?:\./|\$PWD/)?((?:%s)/[\w./-]+)" % "|".join(FOLDERS), block.text):
                path = match[1].rstrip(".")
                if path.startswith("build/"):
                    _, preset, *rest = path.split("/")
                    stem = rest[-1].removeprefix("lib").split(".")[0] if rest else ""
                    if preset not in presets and not {"bin", "lib", "sandbox", "tests"} & set(rest):
                        continue  # what the command writes
                    if preset not in presets or not ((built.folder() / "/".join(rest)).exists() or stem in targets):
                        wrong.append(f"{block.place}: nothing builds {path}")
                elif not (pages.ROOT / path).exists():
                    wrong.append(f"{block.place}: no file {path}")
        self.assertEqual(wrong, [])

    def test_every_command_that_can_run_here_does(self) -> None:
        for page in self.pages:
            wanted = [block for block in page.blocks if block.is_commands or block.has("printed")]
            if any(block.is_commands and not block.marks for block in wanted):
                with self.subTest(page=page.path), tempfile.TemporaryDirectory() as folder:
                    self.run_page(wanted, pathlib.Path(folder, "sdp4bit"))

    def run_page(self, blocks: list[pages.Block], tree: pathlib.Path) -> None:
        copy_of_the_tree(tree)
        printed = None
        for block in blocks:
            if block.has("printed"):
                self.compare(block, printed)
            elif block.marks:
                printed = None
            else:
                printed = self.run_block(block, tree)

    def run_block(self, block: pages.Block, tree: pathlib.Path) -> str:
        shell = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text], cwd=tree, env=clean_environment(), timeout=SECONDS,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )
        self.assertEqual(shell.returncode, 0, f"{block.place}\n{block.text}\n--- printed:\n{shell.stdout}")
        return shell.stdout

    def compare(self, block: pages.Block, printed: str | None) -> None:
        self.assertIsNotNone(printed, f"{block.place}: the block of commands above it is not run")
        shown = {" ".join(line.split()) for line in printed.splitlines()}
        for line in filter(None, (" ".join(line.split()) for line in block.text.splitlines())):
            wanted = re.compile(".*".join(re.escape(part) for part in line.split("...")))
            self.assertTrue(
                any(wanted.fullmatch(each) for each in shown),
                f"{block.place}: not printed: {line}\n--- printed:\n{printed}",
            )


if __name__ == "__main__":
    unittest.main()
