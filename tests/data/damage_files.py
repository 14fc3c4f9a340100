"""Damaged files: the good ones of `make_files` with bytes flipped, cut, repeated, or put in a wrong place.

    python tests/data/damage_files.py [COUNT [SEED]]

reads COUNT of them and prints how many were read all the same, how many refused in one line, and what failed:
any other error, or a message of several lines or with control characters.
"""

from __future__ import annotations

import random
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from make_files import GOOD

from discoformer.core.checks import DataError
from discoformer.data.files import read_table
from discoformer.scale.source import open_source
from discoformer.scale.stream import survey

INSERTS = (
    b"\x00" * 64,
    b"\xff" * 16,
    b'"',
    b"\n" * 50,
    b"\x1b[31m",
    "Größe,€\n".encode(),
    b"1e999",
    b"{" * 2000,
)


def damage(data: bytes, rng: random.Random) -> bytes:
    """The bytes with one to three faults in them."""
    broken = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at, length = rng.randrange(len(broken) + 1), rng.choice([1, 2, 8, 100, 1000])
        fault = rng.randrange(7)
        if fault == 0:
            for place in rng.choices(range(len(broken)), k=length) if broken else ():
                broken[place] ^= 1 << rng.randrange(8)
        elif fault == 1:
            del broken[at:]
        elif fault == 2:
            del broken[at : at + length]
        elif fault == 3:
            broken[at:at] = broken[at : at + length]
        elif fault == 4:
            broken[at:at] = rng.choice(INSERTS)
        elif fault == 5:  # a number of four bytes in a header
            place = rng.randrange(min(len(broken), 512) + 1)
            broken[place : place + 4] = rng.choice([b"\xff\xff\xff\x7f", b"\x00" * 4, b"9999"])
        else:
            broken[at : at + length] = rng.randbytes(min(length, max(len(broken) - at, 0)))
    return bytes(broken)


def damaged_files(folder: Path, count: int, seed: int) -> Iterator[Path]:
    """Paths of damaged files, one at a time, in turn from every good one."""
    rng = random.Random(seed)
    originals = folder / "good"
    originals.mkdir()
    for name, good in GOOD.items():
        good.write(originals / name)
    names = [name for name in GOOD if (originals / name).is_file()]
    for number in range(count):
        name = names[number % len(names)]
        other = Path(rng.choice(names)).suffix if rng.random() < 0.1 else ""
        path = folder / f"{number}-{name}{other}"
        path.write_bytes(damage((originals / name).read_bytes(), rng))
        yield path
        path.unlink()


def ask(path: Path) -> str:
    """ "read", "refused", or what is wrong with how it was refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if path.suffix in (".npy", ".parquet") and path.name[0] in "02468":  # these are streamed, too
                survey(open_source(path))
            else:
                read_table(path)
    except DataError as error:
        clean = str(error).isprintable() and len(str(error)) < 1000
        return "refused" if clean else f"message: {error!r}"
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {where.filename.split('/')[-1]}:{where.lineno}: {error}"
    return "read"


def main(count: int, seed: int) -> int:
    """Number of failures."""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for path in damaged_files(Path(folder), count, seed):
            answer = ask(path)
            found[answer if answer in ("read", "refused") else "failed"] += 1
            if answer not in ("read", "refused"):
                print(f"{path.name}: {answer}", flush=True)
    print(f"seed {seed}: {count} damaged files, " + ", ".join(f"{n} {what}" for what, n in found.items()))
    return found["failed"]


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, (sys.argv[1:] + ["2000", "0"][len(sys.argv) - 1 :])))))
