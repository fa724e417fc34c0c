"""Make examples/houses.csv and examples/new_houses.csv: simulated houses with missing values.

    python examples/houses.py

Prices (in thousands) increase with area, faster in the city, are lowest for houses of middle age, and have a
deviation that increases with the price. Some areas and heatings are missing, and a few towns occur once.
"""

import csv
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
NAMES = ("house", "area", "rooms", "built", "heating", "garden", "town", "price")
TOWNS = {"city": 2.6, "suburb": 1.8, "village": 1.2}


def house(number: int, rng: np.random.Generator) -> list[object]:
    area = rng.gamma(9, 13)
    rooms = max(1, round(area / 28 + rng.normal()))
    built = int(rng.integers(1890, 2024))
    town = str(rng.choice([*TOWNS, f"hamlet {number}"], p=[0.38, 0.35, 0.24, 0.03]))
    heating = str(rng.choice(["gas", "oil", "wood", "heat pump"], p=[0.5, 0.25, 0.05, 0.2]))
    garden = str(rng.choice(["yes", "no"]))
    worth = 40 + area * TOWNS.get(town, 1.0) + 0.03 * (built - 1960) ** 2 / 2 + 6 * rooms
    worth += 25 * (garden == "yes") + 30 * (heating == "heat pump") - 20 * (heating == "oil")
    price = worth * np.exp(0.12 * rng.normal())
    shown_area = "" if rng.random() < 0.08 else round(area)
    known = "" if rng.random() < 0.05 else heating
    return [number, shown_area, rooms, built, known, garden, town, round(price)]


def main() -> None:
    rng = np.random.default_rng(7)
    houses = [house(number, rng) for number in range(1, 701)]
    for name, rows in (("houses", houses[:600]), ("new_houses", houses[600:])):
        with (FOLDER / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([NAMES, *rows])


if __name__ == "__main__":
    main()
