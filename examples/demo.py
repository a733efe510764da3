"""Count words: twelve texts are written and counted side by side, merged in threes, and reported."""

from collections import Counter

from augury import task

WORDS = ("the", "augur", "reads", "of", "future", "in", "flight", "birds", "nobody", "conducts")


@task
def write(seed: int) -> str:
    return " ".join(WORDS[n * (n + seed) % 13 % len(WORDS)] for n in range(50_000))


@task
def count(text: str) -> Counter[str]:
    return Counter(text.split())


@task
def merge(parts: list[Counter[str]]) -> Counter[str]:
    return sum(parts, Counter())


@task
def report(counts: Counter[str], top: int) -> str:
    lines = [f"{number:>8,}  {word}" for word, number in counts.most_common(top)]
    return "\n".join([f"{counts.total():,} words, of which", *lines])


counted = [count(write(seed)) for seed in range(12)]
merged = merge([merge(counted[start : start + 3]) for start in range(0, 12, 3)])
print(report(merged, top=3).compute())
