"""The one kind of error that is a user's to mend: said in one line, never as a traceback."""
from __future__ import annotations


class Problem(Exception):
    """What was found, and what to do."""
