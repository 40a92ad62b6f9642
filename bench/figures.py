"""What the lines of a ledger come to: the newest run of each part, medians, pairs and ranges. No line that was rejected counts
in any of it."""
import statistics

PERCENTILES = ("p50", "p95", "p99")


class Figures:
    def __init__(self, lines):
        """Of each part its newest run, one of full length where there is one."""
        self.all = [line for line in lines if "part" in line]
        newest = {}
        for line in self.all:
            key = line["mode"] == "full", line["run"]
            newest[line["part"]] = max(newest.get(line["part"], key), key)
        self.used = [line for line in self.all if (line["mode"] == "full", line["run"]) == newest[line["part"]]]
        self.good = [line for line in self.used if not line["rejected"]]

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
