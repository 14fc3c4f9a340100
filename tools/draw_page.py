"""Write the page on which one draws points and sees their density: the network itself, in the browser.

    python tools/draw_page.py docs/draw.html                  with the default model
    python tools/draw_page.py docs/draw.html --model WEIGHTS  with other weights of the unified network
    python tools/draw_page.py docs/draw.html --scripts        with its weights, after scripts changed

The page is one file of about a megabyte, most of it weights in half precision.  The scripts are those of the
live report and, in `tools/draw/`, the encoder; tests hold them to the answers of Python.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from discoformer.core.atomic_files import replacing
from discoformer.core.checks import DataError
from discoformer.methods import resolve
from discoformer.models.mixture.unified_network import UnifiedNetwork
from discoformer.views.page.render import bundle, read_asset, script_json

SOURCES = Path(__file__).parent / "draw"


def network_numbers(network: UnifiedNetwork) -> dict[str, Any]:
    """The weights of a network in half precision, and its sizes, for JSON."""
    tensors = [(name, tensor.detach().cpu().numpy()) for name, tensor in network.core.state_dict().items()]
    flat = np.concatenate([tensor.ravel() for _, tensor in tensors]).astype("<f2")
    if not np.isfinite(flat).all():
        raise DataError("a weight is too large for half precision: train with weight decay")
    return {
        "config": vars(network.core.config),
        "tensors": [[name, tensor.size] for name, tensor in tensors],
        "f16": base64.b64encode(flat.tobytes()).decode(),
    }


def read_numbers(page: str) -> dict[str, Any]:
    """What `network_numbers` wrote into a page."""
    found = re.search(r'<script type="application/json" id="weights">(.*?)</script>', page, re.DOTALL)
    if found is None:
        raise DataError("no page of this tool: leave out --scripts")
    numbers: dict[str, Any] = json.loads(found[1])
    return numbers


def draw_page(numbers: dict[str, Any]) -> str:
    """The page with the network of `network_numbers`, as HTML."""
    parts = {
        "style": squeeze(read_asset("css/base.css") + (SOURCES / "draw.css").read_text(encoding="utf-8")),
        "weights": script_json(numbers),
        "script": squeeze(bundle("draw.js", beside=SOURCES)),
    }
    page = (SOURCES / "draw.html").read_text(encoding="utf-8")
    for name, text in parts.items():
        page = page.replace(f"{{{{ {name} }}}}", text)
    return page


def squeeze(code: str) -> str:
    """Scripts and styles without comments, in one line: who wants to read them reads the sources.

    >>> squeeze("/** Why. */\\nconst a = 1; // one\\nf(a);\\n")
    'const a = 1; f(a);'
    """
    code = re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL)
    lines = (re.sub(r"(^|\s)// .*$|^//$", "", line).strip() for line in code.splitlines())
    return " ".join(filter(None, lines))


def unified(model: str) -> UnifiedNetwork:
    """The unified network behind a name or a path."""
    method: Any = resolve(model).method
    network = getattr(method, "network", method)
    if not isinstance(network, UnifiedNetwork):
        raise DataError(f"{model}: the page knows the unified network only, give its weights to --model")
    return network


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path, metavar="HTML")
    parser.add_argument("--model", default="default", help="a name, or a path to weights")
    parser.add_argument("--scripts", action="store_true", help="keep the weights that the page has")
    args = parser.parse_args()
    try:
        if args.scripts:
            page = draw_page(read_numbers(args.out.read_text(encoding="utf-8")))
        else:
            page = draw_page(network_numbers(unified(args.model)))
    except DataError as problem:
        raise SystemExit(f"draw_page: {problem}") from None
    with replacing(args.out) as temporary:
        temporary.write_text(page, encoding="utf-8")
    print(f"wrote {args.out}: {len(page) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
