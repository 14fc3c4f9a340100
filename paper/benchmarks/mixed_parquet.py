"""A parquet file of a million rows of every kind, with gaps: `discoformer estimate` reads it in batches.

Twelve columns: identifier, date, country, truth value, age with gaps, counts, amounts with zeros, percentage,
hour of the day, and three numbers that follow from them.  The command runs by itself; measured are its time
and the most memory it held.  Bar: below 3 GB at 10^6 rows.

    python paper/benchmarks/mixed_parquet.py                   10^6 rows, to results/mixed_parquet.csv
    python paper/benchmarks/mixed_parquet.py --rows 20000 --out -
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

OUT = Path(__file__).parent / "results" / "mixed_parquet.csv"
BATCH = 100_000


def batch(rows: int, first: int) -> pd.DataFrame:
    """Rows that come after ``first`` others."""
    rng = np.random.default_rng(first)
    country = rng.choice(["DE", "FR", "IT", "ES", "PL"], rows, p=[0.4, 0.25, 0.15, 0.1, 0.1])
    premium = rng.random(rows) < np.where(country == "DE", 0.4, 0.2)
    orders = rng.poisson(2 + 3 * premium)
    amount = np.where(orders == 0, 0.0, rng.gamma(1 + orders, 20)).round(2)
    height = rng.normal(172, 9, rows)
    return pd.DataFrame(
        {
            "customer_id": [f"C{10**7 + first + k}" for k in range(rows)],
            "since": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3600, rows), "D"),
            "country": country,
            "premium": premium,
            "age": np.where(rng.random(rows) < 0.08, np.nan, rng.normal(45, 14, rows).clip(18, 95).round()),
            "orders": orders,
            "amount": amount,
            "discount_pct": (100 * rng.beta(2, 5, rows)).round(1),
            "hour": (rng.normal(21, 3, rows) % 24).round(2),
            "height": height,
            "weight": height - 100 + rng.normal(0, 8, rows),
            "spending": np.log1p(amount) + rng.normal(size=rows),
        }
    )


def write(path: Path, rows: int) -> None:
    """The file, never in memory as a whole."""
    writer = None
    for first in range(0, rows, BATCH):
        table = pa.Table.from_pandas(batch(min(BATCH, rows - first), first), preserve_index=False)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10**6)
    parser.add_argument("--out", default=str(OUT))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, answers = Path(folder) / "big.parquet", Path(folder) / "answers.parquet"
        write(source, args.rows)
        start = time.perf_counter()
        command = ["estimate", str(source), "--out", str(answers)]
        subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys; from discoformer.cli import main; sys.exit(main())",
                *command,
            ],
            check=True,
            env=os.environ,
        )
        seconds = time.perf_counter() - start
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        wrote = pq.ParquetFile(answers)
        header = ["rows", "columns", "answers", "answer_columns", "seconds", "cpu_seconds", "peak_gb"]
        line = [args.rows, 12, wrote.metadata.num_rows, wrote.metadata.num_columns, f"{seconds:.0f}"]
        line += [f"{used.ru_utime + used.ru_stime:.0f}", f"{used.ru_maxrss / 2**20:.2f}"]
    with sys.stdout if args.out == "-" else open(args.out, "w", newline="") as file:  # noqa: SIM115
        csv.writer(file, lineterminator="\n").writerows([header, line])


if __name__ == "__main__":
    main()
