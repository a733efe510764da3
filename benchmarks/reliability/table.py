"""What was measured, as a table in Markdown."""

from typing import Any

HEAD = "| workload | fault | system | outcome | undisturbed s | with fault s | tasks run again | what the user sees |"
LONGEST = 160


def table(rows: list[dict[str, Any]]) -> str:
    """One line for each experiment with a fault, beside the time of the undisturbed run."""
    calm_s = {(row["system"], calm_of(row)): row.get("elapsed_s") for row in rows if row["fault"] == "none"}
    lines = [HEAD, "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        if row["fault"] == "none":
            continue
        cells = [row["workload"], row["fault"], name_of(row), row["kind"]]
        cells += [seconds(calm_s.get((row["system"], calm_of(row)))), seconds(row.get("elapsed_s"))]
        cells += [str(row.get("again", "")), said(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def calm_of(row: dict[str, Any]) -> str:
    """The workload whose undisturbed time is to be compared: two are the fan-out with one bad task."""
    return "fan-out" if row["workload"] in ("poison", "greed") else str(row["workload"])


def name_of(row: dict[str, Any]) -> str:
    return f"{row['system']}, hardened" if row["hardened"] else str(row["system"])


def seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def said(row: dict[str, Any]) -> str:
    if row["kind"] not in ("error", "died"):
        return ""
    text = " ".join(str(row["message"]).split()).replace("|", "/")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
