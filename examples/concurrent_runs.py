"""Several runs at once on one platform: submit them, go on, and await them."""

import asyncio

from augury import Client, task


@task
def is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


@task
def how_many(flags: list[bool]) -> int:
    return sum(flags)


async def main() -> None:
    with Client() as client:
        runs = {
            start: client.submit(how_many([is_prime(n) for n in range(start, start + 100)]), name=f"from {start}")
            for start in (0, 100, 1000)
        }
        for start, run in runs.items():
            print(f"{await run} primes from {start} to {start + 99}")


asyncio.run(main())
