"""Asks before anything is changed."""

import os
import sys

from . import StackError


def ask(*deeds, where):
    """Says what is about to be done and where, and goes on when the answer is yes, or without asking with YES=1."""
    print(f"About to, in {where}:", flush=True)
    for deed in deeds:
        print(f"  - {deed}", flush=True)
    if os.environ.get("YES") == "1":
        return
    if not sys.stdin.isatty():
        raise StackError("nobody is there to ask: say YES=1 to go on. Nothing was changed")
    if input("Go on? [y/N] ").strip().lower() not in ("y", "yes"):
        raise StackError("stopped; nothing was changed")
