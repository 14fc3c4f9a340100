"""Progress: shown on terminals only, with rate and time left."""

import re
import sys

import pytest

from discoformer.core import progress
from discoformer.core.progress import follow, track


def test_progress_has_rate_and_remaining_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with follow("counting", 10, show=True) as advance:
        advance(5)
    assert capsys.readouterr().err == ""  # not a terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with follow("counting", 10**7, show=True) as advance:
        for _ in range(4):
            advance(10**6)
    shown = capsys.readouterr().err
    assert "counting" in shown
    assert "million rows/s" in shown
    assert "40%" in shown
    assert re.search(r"(\d|-):(\d\d|--):(\d\d|--)", shown)  # what is left, or that it is not known yet


def test_notes_and_items_are_shown_on_terminals_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        with follow("tiny [run]", 100, unit="steps", done=40) as advance:
            advance(10, "score 0.2500")
            print("for a file")
        assert list(track(range(3), "items")) == [0, 1, 2]
        assert list(track(iter("ab"), "letters", total=2)) == ["a", "b"]
        output = capsys.readouterr()
        assert output.out == "for a file\n"
        for text in ("tiny [run] score 0.2500", "50%", "items", "letters"):
            assert (text in output.err) == terminal


def test_one_item_and_no_rich_need_no_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert list(track([1], "one")) == [1]
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    assert list(track([1, 2], "two")) == [1, 2]
    assert capsys.readouterr().err == ""
