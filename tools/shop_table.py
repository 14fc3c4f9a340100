"""A messy table of 800 customers with two wrong cells, for docs/first-minutes.md; needs nothing but Python.

python3 tools/shop_table.py shop.csv
"""

from __future__ import annotations

import csv
import datetime
import math
import random
import sys

HEAD = ["customer", "joined", "country", "newsletter", "age", "orders", "amount", "discount"]


def poisson(mean: float) -> int:
    """A count: how many uniform numbers can be multiplied before they are below exp(-mean)."""
    count, left = 0, random.random()
    while left >= math.exp(-mean):
        count, left = count + 1, left * random.random()
    return count


def customer(number: int) -> list[object]:
    """One row: older customers and Germans order more, and those who order more spend more."""
    country = random.choices(["Austria", "Germany", "Italy", "Poland"], [2, 4, 2, 2])[0]
    age = round(min(max(random.gauss(44, 13), 18), 90))
    orders = poisson(2 + 3 * (country == "Germany") + age / 40)
    spent = 0.0 if random.random() < 0.35 else round(math.exp(random.gauss(3.4, 0.5)) * (1 + orders), 2)
    joined = datetime.date(2021, 1, 1) + datetime.timedelta(days=random.randrange(1400))
    news = random.choice(["yes", "no"]) if orders < 6 else "yes"
    told = "" if random.random() < 0.1 else age
    discount = f"{100 * random.betavariate(2, 5):.1f}%"
    return [f"C{10000 + number}", joined.isoformat(), country, news, told, orders, spent, discount]


def main(path: str) -> None:
    random.seed(7)
    rows = [customer(number) for number in range(800)]
    rows[123][HEAD.index("amount")] = 250_000
    rows[456][HEAD.index("age")] = 199
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([HEAD, *rows])


if __name__ == "__main__":
    main(sys.argv[1])
