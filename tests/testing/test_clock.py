"""Virtual time moves from one happening to the next, and never by itself."""

from random import Random

from augury.testing import VirtualClock


def test_things_happen_in_the_order_of_their_times() -> None:
    clock = VirtualClock()
    seen: list[tuple[str, float]] = []
    clock.after(2.0, lambda: seen.append(("second", clock())))
    clock.after(1.0, lambda: seen.append(("first", clock())))
    clock.run()
    assert seen == [("first", 1.0), ("second", 2.0)]


def test_what_happens_at_the_same_moment_happens_in_the_order_of_asking() -> None:
    clock = VirtualClock()
    seen: list[int] = []
    for number in range(10):
        clock.after(1.0, lambda number=number: seen.append(number))  # type: ignore[misc]
    clock.run()
    assert seen == list(range(10))


def order_with(seed: int) -> list[int]:
    clock = VirtualClock(Random(seed))
    seen: list[int] = []
    for number in range(10):
        clock.after(1.0, lambda number=number: seen.append(number))  # type: ignore[misc]
    clock.run()
    return seen


def test_a_seed_draws_another_order_and_always_the_same() -> None:
    assert order_with(1) != order_with(2)
    assert order_with(1) == order_with(1)


def test_something_may_ask_for_more() -> None:
    clock = VirtualClock()
    seen: list[float] = []
    clock.after(1.0, lambda: clock.after(2.0, lambda: seen.append(clock())))
    clock.run()
    assert seen == [3.0]


def test_time_ends_when_only_watches_are_left_that_nothing_comes_of() -> None:
    clock = VirtualClock()

    def look_again() -> None:
        clock.after(1.0, look_again, watch=True)

    look_again()
    clock.run()
    assert clock() < 100


def test_a_watch_may_set_things_in_motion() -> None:
    clock = VirtualClock()
    seen: list[float] = []

    def look_again() -> None:
        if clock() >= 3.0:
            clock.after(1.0, lambda: seen.append(clock()))
        else:
            clock.after(1.0, look_again, watch=True)

    look_again()
    clock.run()
    assert seen == [4.0]


def test_watches_go_on_as_long_as_something_else_will_happen() -> None:
    clock = VirtualClock()
    looks: list[float] = []

    def look_again() -> None:
        looks.append(clock())
        clock.after(1.0, look_again, watch=True)

    look_again()
    clock.after(1000.0, lambda: None)
    clock.run()
    assert len(looks) >= 1000
