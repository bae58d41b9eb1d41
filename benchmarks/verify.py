"""``python -m benchmarks.verify``: verifications a second on one thread, by class of answers.

They differ from call to call, so that nothing comes from a cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import cycle, islice

from mmcredit.data.answers import read
from mmcredit.reward.verifier import AnswerVerifier

CLASSES: dict[str, Callable[[int], tuple[str, str]]] = {
    "integers": lambda i: (str(i), f"{i:,}."),
    "decimals": lambda i: (str(i / 8), f"{i}.0"),
    "letters": lambda i: ("B", f"({'ABCD'[i % 4]}) text {i}"),
    "words": lambda i: (f"red cube {i}", f"a red  cube {i}."),
    "fractions": lambda i: (f"{i}/7", f"\\frac{{{2 * i}}}{{14}}"),
    "units": lambda i: (f"{i} cm", f"{10 * i} \\text{{ mm}}"),
    "roots": lambda i: (f"{i}\\sqrt{{3}}", f"\\sqrt{{{3 * i * i}}}"),
    "tuples": lambda i: (f"({i}, 2)", f"\\left({i}, \\frac{{4}}{{2}}\\right)"),
    "polynomials": lambda i: (f"x^2+{2 * i}x+{i * i}", f"(x+{i})^2"),
    "symbolic": lambda i: (f"\\sin {2 * i}x", f"2\\sin {i}x\\cos {i}x"),
}


def rate(pairs: Iterable[tuple[str, str]], verifier: AnswerVerifier) -> float:
    """Verifications a second."""
    jobs = list(pairs)
    read.cache_clear()
    begin = time.perf_counter()
    for job in jobs:
        verifier.verify(*job)
    return len(jobs) / (time.perf_counter() - begin)


def main(count: int = 5000) -> dict[str, float]:
    """Print and return the rate of every class; ``symbolic`` is measured on a tenth."""
    verifier = AnswerVerifier(seconds=10)
    verifier.verify(r"\sin 2x", r"2\sin x\cos x")  # starts the worker
    found = {}
    for name, make in CLASSES.items():
        numbers = islice(cycle(range(1, 10**9)), count // 10 if name == "symbolic" else count)
        found[name] = rate(map(make, numbers), verifier)
        print(f"{name:12s} {found[name]:10,.0f} a second")
    return found


if __name__ == "__main__":
    main()
