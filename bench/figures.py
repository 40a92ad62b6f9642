"""What the lines of a ledger come to: of each part the last whole run, medians, pairs and ranges. No line that was
rejected counts in any of it."""
import collections
import statistics

PERCENTILES = ("p50", "p95", "p99")


class Figures:
    def __init__(self, lines):
        """Of each part its newest run: one of full length where there is one, and of those a whole one: it came to its end, and of
        no arm was more than half rejected."""
        self.lines = dict(enumerate(lines, 1))  # by their number in the ledger
        ends = [(line["run"], part, part in line.get("lacking", ()))
                for line in lines if "ended" in line and not line["failed"] for part in line["parts"]]
        self.ended = {(run, part) for run, part, _ in ends}
        self.whole = {(run, part) for run, part, lacks in ends if not lacks}
        newest = {}
        for line in lines:
            if "part" in line:
                newest[line["part"]] = max(newest.get(line["part"], self._rank(line)), self._rank(line))
        self.numbers = [n for n, line in self.lines.items() if "part" in line and self._rank(line) == newest[line["part"]]]
        self.used = [self.lines[n] for n in self.numbers]
        self.good = [line for line in self.used if not line["rejected"]]

    def _rank(self, line):
        key = line["run"], line["part"]
        return line["mode"] == "full", key in self.whole, key in self.ended, line["run"]

    def lacks(self, run, part):
        """Why that run is not a whole one, in words; empty when it is."""
        if (run, part) in self.whole:
            return ""
        return "too few runs count" if (run, part) in self.ended else "did not come to its end"

    def source(self, part):
        """Where its figures stand: the part, and the ledger's lines from the first to the last of them."""
        numbers = [n for n in self.numbers if self.lines[n]["part"] == part]
        return f"{part}, lines {numbers[0]}–{numbers[-1]}" if numbers else ""

    def why_not(self, part):
        """Why it has no figures, as far as is known."""
        lines = [line for line in self.used if line["part"] == part]
        if not lines:
            return "this part was not run"
        reasons = collections.Counter(line["rejected"] for line in lines if line["rejected"])
        return f"rejected: {reasons.most_common(1)[0][0]}" if reasons else ""

    def parts(self, prefix=""):
        return sorted({line["part"] for line in self.used if line["part"].startswith(prefix)})

    def of(self, part, arm):
        return [line for line in self.good if (line["part"], line["arm"]) == (part, arm)]

    def arms(self, part):
        found = []
        for line in self.used:
            if line["part"] == part and line["arm"] not in found:
                found.append(line["arm"])
        return sorted(found)

    def values(self, part, arm, key):
        return sorted(line[key] for line in self.of(part, arm) if line.get(key) is not None)

    def median(self, part, arm, key):
        values = self.values(part, arm, key)
        return statistics.median(values) if values else None

    def pairs(self, part, arm, base, key, combine):
        """combine(arm's, base's) of each repetition in which both count."""
        bases = {line["repetition"]: line[key] for line in self.of(part, base)}
        return sorted(combine(line[key], bases[line["repetition"]]) for line in self.of(part, arm)
                      if line["repetition"] in bases)

    def ratios(self, part, arm, base, key="cpu_us"):
        return self.pairs(part, arm, base, key, lambda a, b: a / b)

    def added(self, part, arm, key):
        return self.pairs(part, arm, "direct", key, lambda a, b: a - b)


def median(values):
    return statistics.median(values) if values else None


def spread(values, form="{:.1f}"):
    """median (least–most)"""
    if not values:
        return "–"
    if len(values) == 1:
        return form.format(values[0])
    return f"{form.format(statistics.median(values))} ({form.format(values[0])}–{form.format(values[-1])})"
