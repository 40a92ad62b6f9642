"""Histograms of bench_load: as a line of the ledger keeps them, and what is read from them.

In the ledger `counts`, a list of [lower bound of the step in ns, count], is kept as text: base64 of zlib of numbers in LEB128,
two for each step that is not empty: how many steps after the one before, and its count."""
import base64
import zlib

HALF = 1024  # steps to each power of two


def step_of(ns):
    shift = max(0, ns.bit_length() - HALF.bit_length())
    return shift * HALF + (ns >> shift)


def lower_of(step):
    shift = max(0, step // HALF - 1)
    return (step - shift * HALF) << shift


def _write(out, n):
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)


def _numbers(data):
    n = shift = 0
    for byte in data:
        n |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield n
            n = shift = 0


def pack(histogram):
    out, before = bytearray(), 0
    for lower, count in histogram["counts"]:
        _write(out, step_of(lower) - before)
        _write(out, count)
        before = step_of(lower)
    return dict(histogram, counts=base64.b64encode(zlib.compress(bytes(out), 9)).decode())


def counts(histogram):
    kept = histogram["counts"]
    if not isinstance(kept, str):
        return kept
    found, step = [], 0
    numbers = _numbers(zlib.decompress(base64.b64decode(kept)))
    for delta in numbers:
        step += delta
        found.append([lower_of(step), next(numbers)])
    return found


def width_ns(lower):
    """How wide the step is that begins there."""
    return 1 << max(0, lower.bit_length() - HALF.bit_length())


def quantile_us(histogram, q):
    """The least value that a part q of the values does not exceed, at the middle of its step, as bench_load has it."""
    pairs, seen = counts(histogram), 0
    wanted = q * (sum(n for _, n in pairs) + histogram.get("overflow", 0))
    for lower, n in pairs:
        seen += n
        if seen >= wanted:
            return (2 * lower + width_ns(lower)) // 2 / 1e3
    return histogram.get("max_us", 0)


def merged(histograms):
    """One of all."""
    total = {}
    for h in histograms:
        for lower, n in counts(h):
            total[lower] = total.get(lower, 0) + n
    return {"counts": sorted(total.items()), "overflow": sum(h.get("overflow", 0) for h in histograms),
            "max_us": max((h["max_us"] for h in histograms), default=0)}
