"""The JavaScript in one piece: every file once, after what it needs, and no name declared twice."""

import re
from collections import Counter
from importlib.resources import files

from discoformer.views.page.render import bundle

SCRIPTS = files("discoformer.views.page") / "js"
DECLARED = re.compile(r"^(?:export )?(?:async )?(?:const|let|class|function) (\w+)", re.MULTILINE)


def test_no_name_is_declared_twice() -> None:
    names = Counter(
        name
        for path in SCRIPTS.iterdir()
        if path.name.endswith(".js")
        for name in DECLARED.findall(path.read_text(encoding="utf-8"))
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_files_stand_after_what_they_import() -> None:
    text = bundle("density.js")
    assert text.index("function lgamma(") < text.index("class StudentMixture") < text.index("class Blend")
    assert not re.search(r"^(import|export)\b", text, re.MULTILINE)
    assert text.count("class StudentMixture") == 1


def test_files_are_short_and_reach_for_nothing() -> None:
    for path in SCRIPTS.iterdir():
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") < 400, path.name
        assert max(map(len, text.splitlines())) <= 115, path.name
        for word in ("fetch(", "XMLHttpRequest", "http://", "https://", "innerHTML", "eval("):
            assert word not in text.replace("http://www.w3.org/2000/svg", ""), (path.name, word)


def test_a_widget_is_a_module_with_a_default() -> None:
    text = bundle("widget.js")
    assert text.count("export default { render };") == 1
    assert not re.search(r"^import\b", text, re.MULTILINE)
