"""The kept figures: for each test what it printed when it last passed, of which commit, and when."""
from __future__ import annotations

import datetime
import json
import pathlib
import subprocess
from typing import Any

Entry = dict[str, Any]  # commit, date, seconds, figures
Results = dict[str, Entry]  # by the name of the test
LONG_ENDINGS = ("_long", "_whole", "_everywhere")


class Refusal(Exception):
    """A user's mistake, as one line."""


def load(path: pathlib.Path) -> Results:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def save(path: pathlib.Path, results: Results) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _git(root: pathlib.Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise Refusal(
            f"{root} is no git checkout, so the page could not say what was measured; --quick shows figures without keeping them"
        ) from None
    return done.stdout


def measured_files(status: str) -> list[str]:
    """Of `git status --porcelain`: `XY path`; pages tell of figures and shape none."""
    return [line[3:] for line in status.splitlines() if not line[3:].startswith("docs/")]


def commit_of(root: pathlib.Path) -> str:
    """The commit that the files are of; figures of files that no commit has would tell nobody anything."""
    changed = measured_files(_git(root, "status", "--porcelain", "--untracked-files=no"))
    if changed:
        raise Refusal(f"{changed[0]} differs from the last commit ({len(changed)} files do); commit first, or take --quick")
    return _git(root, "rev-parse", "--short=10", "HEAD").strip()


def samples_of(name: str) -> set[str]:
    """The names that the sample of a long test may have; none if the test is a sample itself."""
    for ending in LONG_ENDINGS:
        if name.endswith(ending):
            stem = name[: -len(ending)]
            return {stem, f"{stem}_sampled"}
    return set()


def without_replaced_samples(results: Results) -> Results:
    """A long test does what its sample does, and more: figures of both would count the same twice."""
    replaced = {sample for name in results for sample in samples_of(name)}
    return {name: each for name, each in results.items() if name not in replaced}


def entry(commit: str, seconds: float, figures: list[dict[str, Any]]) -> Entry:
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return {"commit": commit, "date": today, "seconds": round(seconds), "figures": figures}
