"""A table as people have it goes through every command without a flag, and planted errors come first."""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discoformer.cli import estimate, main
from discoformer.cli.standing_out import Summary
from discoformer.columns.schema import infer_schema
from discoformer.data.batches import Batches, open_batches

AMOUNT, AGE = 700, 300  # rows with a planted error


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 1500
    country = rng.choice(["DE", "FR", "IT", "ES"], n, p=[0.4, 0.3, 0.2, 0.1])
    active = rng.random(n) < np.where(country == "DE", 0.8, 0.5)
    orders = rng.poisson(2 + 4 * active)
    table = pd.DataFrame(
        {
            "customer_id": [f"C{100_000 + k}" for k in rng.permutation(n)],
            "since": pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 2500, n), "D"),
            "country": country,
            "active": active,
            "age": np.clip(rng.normal(45, 14, n), 18, 95).round(),
            "orders": orders,
            "amount": np.where(orders == 0, 0.0, rng.gamma(1 + orders, 20)).round(2),
            "discount_pct": (100 * rng.beta(2, 5, n)).round(1),
        }
    )
    table.loc[rng.random(n) < 0.08, "age"] = np.nan
    table.loc[AMOUNT, "amount"] = 250_000.0
    table.loc[AGE, "age"] = 199
    return table


@pytest.fixture
def customers(frame: pd.DataFrame, tmp_path: Path) -> str:
    frame.to_csv(tmp_path / "customers.csv", index=False)
    return str(tmp_path / "customers.csv")


@pytest.fixture(autouse=True)
def shown_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        yield


def test_planted_errors_come_first_and_all_columns_come_back(
    customers: str, frame: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", customers, "--json", "--out", str(tmp_path / "out.csv")]) == 0
    first, second, _ = json.loads(capsys.readouterr().out)["unusual"]
    assert (first["row"], first["columns"][0]) == (AMOUNT, "amount")
    assert (second["row"], second["columns"][0]) == (AGE, "age")
    joined = pd.read_csv(tmp_path / "out.csv", parse_dates=["since"])
    pd.testing.assert_frame_equal(joined[list(frame.columns)], frame, check_dtype=False)
    scores = ["score_since", "score_age", "score_orders", "score_amount", "score_discount_pct"]
    assert list(joined.columns) == [*frame.columns, "log_density", *scores]
    assert np.isfinite(joined[["log_density", *scores]]).all().all()


def test_drawn_rows_have_the_types_and_formats_of_the_table(
    frame: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = frame.assign(since=frame["since"].dt.strftime("%d.%m.%Y"))
    text.to_csv(tmp_path / "customers.csv", index=False, sep=";", decimal=",")
    arguments = ["sample", str(tmp_path / "customers.csv"), "-n", "40", "--seed", "3"]
    assert main([*arguments, "--out", str(tmp_path / "new.csv")]) == 0
    drawn = pd.read_csv(tmp_path / "new.csv", sep=";", decimal=",")
    assert list(drawn.columns) == [name for name in frame.columns if name != "customer_id"]
    assert pd.to_datetime(drawn["since"], format="%d.%m.%Y").notna().all()
    assert drawn["active"].dtype == bool and set(drawn["country"]) <= set(frame["country"])
    assert (drawn["orders"] >= 0).all() and drawn["orders"].dtype.kind == "i"
    assert (drawn["amount"] == drawn["amount"].round(2)).all() and (drawn["amount"] >= 0).all()
    assert drawn["discount_pct"].between(0, 100).all()
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 40 and [row["orders"] for row in rows] == drawn["orders"].tolist()
    assert isinstance(rows[0]["active"], bool) and isinstance(rows[0]["country"], str)


def test_weights_and_bounds_go_into_the_fit(
    frame: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = frame[["country", "orders", "discount_pct"]][:300].assign(often=np.arange(300) < 200)
    part.astype({"often": float}).to_csv(tmp_path / "all.csv", index=False)
    part[:200].drop(columns="often").to_csv(tmp_path / "some.csv", index=False)
    means = []
    queries = ["--queries", str(tmp_path / "some.csv"), "--bounds", "orders=0:", "--json"]
    for arguments in (["all.csv", "--weights", "often"], ["some.csv"]):
        assert main(["estimate", str(tmp_path / arguments[0]), *arguments[1:], *queries]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["columns"] == ["country", "orders", "discount_pct"]
        means.append(report["mean_log_density"])
    assert means[0] == pytest.approx(means[1], abs=0.05)
    assert main(["estimate", str(tmp_path / "all.csv"), "--weights", "weight"]) == 2
    assert "no column 'weight'" in capsys.readouterr().err


@pytest.mark.slow
def test_report_and_compare_need_no_flag(
    customers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", customers, "--json"]) == 0
    best, other = json.loads(capsys.readouterr().out)["rows"]
    assert (best["method"], other["method"]) == ("default", "independent")
    assert main(["report", customers, "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert page.index(f'data-row="{AMOUNT}"') < page.index(f'data-row="{AGE}"')


def test_large_tables_come_in_batches_to_the_same_answers(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = frame[:200].assign(grade=np.where(np.arange(200) < 150, "a", "b"))
    (tmp_path / "parts").mkdir()
    small[:150].to_parquet(tmp_path / "parts" / "1.parquet")
    small[150:].to_parquet(tmp_path / "parts" / "2.parquet")
    small.to_parquet(tmp_path / "whole.parquet")
    outputs = []
    for large, name in ((2**28, "whole.parquet"), (0, "parts"), (0, "whole.parquet")):
        monkeypatch.setattr(estimate, "LARGE", large)
        assert main(["estimate", str(tmp_path / name), "--out", str(tmp_path / "out.parquet")]) == 0
        outputs.append(pd.read_parquet(tmp_path / "out.parquet"))
    for other in outputs[1:]:
        pd.testing.assert_frame_equal(outputs[0], other)


def test_all_rows_have_the_last_word_on_kinds(tmp_path: Path) -> None:
    first = pd.DataFrame({"n": [0, 1, 2, 1, 3, 0], "c": list("ababab"), "share": np.linspace(0.0, 1.0, 6)})
    later = pd.DataFrame({"n": [0.5], "c": ["z"], "share": [1.5]})
    pd.concat([first.astype({"n": float}), later]).to_parquet(tmp_path / "x.parquet")
    batches = open_batches(tmp_path / "x.parquet")
    assert isinstance(batches, Batches) and batches.rows == 7
    table = batches.read(infer_schema(first.astype({"n": float})))
    assert [column.short for column in table.schema or ()] == ["continuous from 0", "category", "continuous"]
    assert table.values[-1].tolist() == [0.5, 2.0, 1.5]


def test_summaries_keep_both_ends_of_all_chunks() -> None:
    values = np.random.default_rng(0).normal(size=(50, 1))
    log_density = -np.abs(values[:, 0])
    summary = Summary()
    for part in np.array_split(np.arange(50), 7):
        summary.add(values[part], log_density[part], log_density[part], log_density[part])
    order = np.argsort(-log_density)
    assert summary.rows[summary.typical].tolist() == order[:3].tolist()
    assert summary.rows[summary.unusual].tolist() == order[::-1][:3].tolist()
    assert summary.mean == pytest.approx(log_density.mean())


def test_reasons_are_in_the_words_of_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Labels, dates and gaps; and a time that follows from another but for midnight has no density."""
    rng = np.random.default_rng(0)
    hours = rng.integers(0, 24, 120)
    label = rng.integers(0, 2, 120)
    table = pd.DataFrame(
        {
            "leaves": [f"{hour:02d}:30" for hour in hours],
            "comes": [f"{(hour + 2) % 24:02d}:30" for hour in hours],
            "kind": np.array(["slow", "fast"])[label],
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 90, 120), "D"),
            "speed": rng.normal(50 + 60 * label, 5).round(1),
        }
    )
    table.loc[7, ["kind", "speed", "day"]] = ["slow", 111.1, pd.NaT]
    table.loc[8, "speed"] = np.nan
    table.to_csv(tmp_path / "trips.csv", index=False)
    table.loc[[7]].to_csv(tmp_path / "odd.csv", index=False)
    command = ["estimate", str(tmp_path / "trips.csv"), "--why"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(command) == 0
        assert "expected, 90% in" in capsys.readouterr().out
        assert main([*command, "--queries", str(tmp_path / "odd.csv"), "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["why"][0]["reasons"]
    assert any(line.startswith("kind = slow: fast expected (+") for line in lines)


@pytest.mark.parametrize("command", ["estimate", "sample", "summary", "compare", "report"])
def test_a_table_of_labels_alone(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame({"a": list("xyxzyx") * 12, "b": list("uvuvvv") * 12, "c": list("pppq") * 18})
    table.to_csv(tmp_path / "labels.csv", index=False)
    out = ["--out", str(tmp_path / "labels.html")] if command == "report" else []
    assert main([command, str(tmp_path / "labels.csv"), *out]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("view", ["density", "corner", "outliers"])
def test_pictures_of_labels_and_gaps(view: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40), "kind": list("xy") * 20})
    table.loc[::9, "a"] = np.nan
    table.to_csv(tmp_path / "mixed.csv", index=False)
    picture = tmp_path / "picture.png"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(["estimate", str(tmp_path / "mixed.csv"), "--plot", str(picture), "--view", view]) == 0
        labels = ["estimate", str(tmp_path / "mixed.csv"), "--columns", "kind", "--plot", str(picture)]
        assert main([*labels, "--view", view]) == (0 if view == "outliers" else 2)
    assert picture.stat().st_size > 5000
    assert view == "outliers" or "no column of numbers to draw" in capsys.readouterr().err
