"""Tasks inside arguments: lists, dicts and dataclasses may hold them, at any depth; so may what is asked for."""

from dataclasses import dataclass

import augury
from augury import task


@dataclass
class Order:
    """What somebody wants, and what it costs."""

    item: str
    price_cents: int


@task
def price_of(item: str) -> int:
    return 100 * len(item)


@task
def total(orders: list[Order], discounts: dict[str, int]) -> int:
    return sum(order.price_cents - discounts.get(order.item, 0) for order in orders)


@task
def discount_on(price_cents: int) -> int:
    return price_cents // 10


prices = {item: price_of(item) for item in ("pear", "quince", "fig")}
orders = [Order(item, price) for item, price in prices.items()]
bill = total(orders, {"quince": discount_on(prices["quince"])})

# Several results of one run come back in the shape that was asked for.
summary, fig = augury.compute({"bill": bill, "prices": prices}, prices["fig"])
print(summary)
print(fig)
