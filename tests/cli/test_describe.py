"""`discoformer describe`, and what the other commands make of columns that are not numbers."""

import io
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from data.make_files import to_sqlite
from helpers import KERNEL, two_groups

from discoformer import SupportWarning
from discoformer.cli import estimate as command
from discoformer.cli import main
from discoformer.data.files import read_table

ROWS = 300


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "customer_id": np.arange(1001, 1001 + ROWS),
            "since": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, ROWS), "D"),
            "country": rng.choice(["DE", "FR", "IT"], ROWS),
            "orders": rng.poisson(9, ROWS),
            "spent": np.where(rng.random(ROWS) < 0.3, 0, rng.gamma(2, 40, ROWS)).round(2),
            "weight": rng.normal(70, 9, ROWS),
        }
    )


@pytest.fixture
def customers(frame: pd.DataFrame, tmp_path: Path) -> Path:
    frame.to_csv(tmp_path / "customers.csv", index=False, sep=";", decimal=",", date_format="%d.%m.%Y")
    return tmp_path / "customers.csv"


@pytest.fixture(autouse=True)
def shown_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("default", SupportWarning)
        yield


def kinds(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, str]:
    assert main(["describe", *arguments, "--json"]) == 0
    return {column["name"]: column["kind"] for column in json.loads(capsys.readouterr().out)["columns"]}


EXPECTED = {
    "customer_id": "identifier",
    "since": "date",
    "country": "category",
    "orders": "count",
    "spent": "atoms",
    "weight": "continuous",
}


def test_describe_says_what_columns_are(customers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kinds(capsys, str(customers)) == EXPECTED
    assert main(["describe", str(customers)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("csv, utf-8, separator ';', decimal ',', names in line 1, 300 rows, 6 columns")
    by_name = {line.split()[0]: line for line in lines[3:9]}
    assert list(by_name) == list(EXPECTED)
    assert all(kind in by_name[name] for name, kind in EXPECTED.items())
    assert "0 in 28 %" in by_name["spent"] and "not negative" in by_name["spent"]
    assert "days since 1970-01-01" in by_name["since"]
    assert "--types NAME=KIND" in lines[-1]


def test_describe_takes_other_kinds_and_fewer_columns(
    customers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = kinds(capsys, str(customers), "--types", "orders=category,weight=positive", "--exclude", "spent")
    assert found == {
        **{k: v for k, v in EXPECTED.items() if k != "spent"},
        "orders": "category",
        "weight": "positive",
    }
    assert list(kinds(capsys, str(customers), "--columns", "weight,since")) == ["weight", "since"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--types", "orders=cuont"], "column 'orders' cannot be 'cuont': choose continuous"),
        (["--types", "order=count"], "no column 'order', the table has 'customer_id'"),
        (["--exclude", "order"], "no column 'order'"),
        (["--query", "select 1"], "--query is for databases"),
    ],
)
def test_what_cannot_be_is_one_line(
    arguments: list[str], message: str, customers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for start in (["describe"], KERNEL):
        assert main([*start, str(customers), *arguments]) == 2
        printed = capsys.readouterr()
        assert printed.out == "" and printed.err.count("\n") == 1
        assert message.replace("the table", "the") in printed.err.replace("the table", "the").replace(
            "the file", "the"
        )


def test_types_that_cannot_be_read_show_the_usage(
    customers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["describe", str(customers), "--types", "orders"])
    assert "write column=kind, as in age=count" in capsys.readouterr().err


def test_commands_leave_out_what_is_no_number_and_say_so(
    frame: pd.DataFrame, customers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    assert main([*KERNEL, str(customers), "--out", str(out)]) == 0
    error = capsys.readouterr().err
    assert error.startswith(
        "discoformer: warning: left out 'customer_id' (identifier: all different, and by its"
    )
    assert "'country' (category: 3 different texts in 300 rows)" in error
    assert error.count("\n") == 1
    result = pd.read_csv(out, sep=";", decimal=",")
    scores = [f"score_{name}" for name in ("since", "orders", "spent", "weight")]
    assert list(result.columns) == [*frame.columns, "log_density", *scores]
    pd.testing.assert_frame_equal(
        result[["customer_id", "country", "weight"]], frame[["customer_id", "country", "weight"]]
    )
    assert result["since"].tolist() == frame["since"].dt.strftime("%d.%m.%Y").tolist()  # as it was written


def test_what_is_asked_for_by_name_is_used_or_refused(
    customers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*KERNEL, str(customers), "--columns", "customer_id,weight", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"] == ["customer_id", "weight"]
    assert main([*KERNEL, str(customers), "--types", "customer_id=continuous", "--json"]) == 0
    assert "customer_id" in json.loads(capsys.readouterr().out)["columns"]
    assert main([*KERNEL, str(customers), "--columns", "country,weight"]) == 2
    assert "column 'country' is a category" in capsys.readouterr().err


def test_gaps_are_refused_by_name(
    customers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = customers.read_text().splitlines()
    lines[4] = ";".join([*lines[4].split(";")[:-1], ""])
    (tmp_path / "gaps.csv").write_text("\n".join(lines))
    assert main([*KERNEL, str(tmp_path / "gaps.csv"), "--columns", "orders,weight"]) == 2
    assert "column 'weight' has a missing value at row 3" in capsys.readouterr().err


def test_standard_input_and_output(
    customers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--columns", "orders,weight"]
    assert main([*KERNEL, str(customers), *arguments, "--out", str(tmp_path / "out.csv")]) == 0
    capsys.readouterr()

    class Stdin:
        buffer = io.BytesIO(customers.read_bytes())

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert main([*KERNEL, "-", *arguments, "--out", "-"]) == 0
    assert capsys.readouterr().out == (tmp_path / "out.csv").read_text()
    assert main(["sample", str(customers), *arguments, "--model", "kde-scott", "-n", "5", "--out", "-"]) == 0
    assert len(pd.read_csv(io.StringIO(capsys.readouterr().out))) == 5
    assert main([*KERNEL, str(customers), *arguments, "--out", "-", "--json"]) == 2
    assert "leave out one of them" in capsys.readouterr().err


def test_several_files_patterns_and_queries_are_one_sample(
    frame: pd.DataFrame, customers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame[:100].to_csv(tmp_path / "part-1.csv", index=False)
    frame[100:].to_parquet(tmp_path / "part-2.parquet")
    to_sqlite(tmp_path / "all.db", customers=frame.assign(since=frame["since"].astype(str)))
    arguments = [*KERNEL, "--columns", "orders,weight", "--json", "--verbose"]
    sources = [
        [str(customers)],
        [str(tmp_path / "part-1.csv"), str(tmp_path / "part-2.parquet")],
        [str(tmp_path / "part-*")],
        [str(tmp_path / "all.db"), "--query", "select * from customers"],
    ]
    answers = []
    for files in sources:
        assert main([*arguments, *files]) == 0
        printed = capsys.readouterr()
        assert printed.err.startswith("discoformer: read ") and "300 rows" in printed.err
        answers.append(json.loads(printed.out)["mean_log_density"])
    assert answers == pytest.approx([answers[0]] * 4, rel=1e-12)
    assert "100 rows from" not in printed.err


def test_queries_have_the_units_of_the_sample(customers: Path, tmp_path: Path) -> None:
    (tmp_path / "queries.csv").write_text("weight,since,orders,spent\n70,2025-01-01,2,0\n")
    out = tmp_path / "out.npy"
    assert main([*KERNEL, str(customers), "--queries", str(tmp_path / "queries.csv"), "--out", str(out)]) == 0
    assert read_table(out).values[0, :4].tolist() == [20089.0, 2.0, 0.0, 70.0]


def test_streams_leave_out_what_is_no_number_as_memory_does(
    model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.DataFrame(two_groups(300), columns=["a", "b", "c"]).assign(id=range(300))
    frame["name"] = "n" + frame["id"].astype(str)
    frame.to_parquet(tmp_path / "x.parquet")
    printed = []
    for large in (2**28, 0):
        monkeypatch.setattr(command, "LARGE", large)
        assert main(["estimate", str(tmp_path / "x.parquet"), "--model", str(model_path)]) == 0
        printed.append(capsys.readouterr())
    assert printed[0].err == printed[1].err
    first, second = (one.out.split("each by the fit")[0] for one in printed)
    assert first == second
    assert "left out 'id' (identifier" in printed[0].err
