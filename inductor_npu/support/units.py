"""Numbers as people read them, each with its unit."""

from __future__ import annotations


def bytes_text(count: int | None) -> str:
    """`1.5 KiB`; a dash for what is not known."""
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1000 or unit == "GiB":
            break
        value /= 1024
    return f"{count} B" if unit == "B" else f"{_three_digits(value)} {unit}"


def count_text(count: int | None) -> str:
    """`12.3 k`, `4.56 M`; a dash for what is not known."""
    if count is None:
        return "-"
    value, prefix = _scaled(count, "kMG")
    return f"{_three_digits(value)} {prefix}" if prefix else f"{count}"


def operations_text(count: int) -> str:
    """`12.3 GFLOP`: floating-point operations."""
    value, prefix = _scaled(count, "kMGTP")
    return f"{_three_digits(value) if prefix else count} {prefix}FLOP"


def _scaled(count: int, prefixes: str) -> tuple[float, str]:
    """`count` in the smallest of the units in which it is below 1000, or else in the largest."""
    value, used = float(count), ""
    for prefix in prefixes:
        if value < 1000:
            break
        value, used = value / 1000, prefix
    return value, used


def share_text(share: float | None) -> str:
    """`43%`; a dash for what is not known."""
    return "-" if share is None else f"{share:.0%}"


def share_of(part: int, whole: int) -> str:
    """`98.2%`. What is not all and not nothing is never shown as 100% or 0%."""
    share = part / whole
    return f"{share:.0%}" if part in (0, whole) else f"{min(max(share, 0.001), 0.999):.1%}"


def ratio_text(moved: int | None, least: int | None) -> str:
    """`1.25x`: how many times the least is moved; a dash where there is nothing to compare."""
    return "-" if moved is None or not least else f"{moved / least:.2f}x"


def plural(count: int, noun: str) -> str:
    """`1 kernel`, `2 kernels`; `launch` becomes `launches`."""
    ending = "" if count == 1 else "es" if noun.endswith(("ch", "s")) else "s"
    return f"{count} {noun}{ending}"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
