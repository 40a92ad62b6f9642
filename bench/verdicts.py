"""The goals, each with what was asked, what came of it and where that stands in the ledger."""
from figures import median, spread

SAID = {None: "not measured", True: "met", False: "missed"}
PUBLISHED = ["overhead", "trial", "chain", "control path"]
HEAD = ["goal", "what", "measured (range)", "asked", "verdict", "from", ""]


class Verdicts:
    """part: of which part the figures are that come next."""

    def __init__(self, figures):
        self.f = figures
        self.part = None
        self.rows = []

    def add(self, goal, what, values, limit, form="{:.2f}", note="", part=None, pick=median, least=False):
        """values: sorted, or one, or nothing; pick(values) must be at most the limit (least: at least). No values: not measured,
        and why. No limit: no verdict, and the note says why."""
        part = part or self.part
        values = [] if values is None else values if isinstance(values, list) else [values]
        value = pick(values) if values else None
        met = None if value is None or limit is None else value >= limit if least else value <= limit
        shown = "–"
        if values:
            shown = spread(values, form) if pick is median else f"{form.format(value)} (worst of {len(values)})"
        asked = "–" if limit is None else ("at least " if least else "at most ") + form.format(limit)
        if not values:
            note = "; ".join(filter(None, (self.f.why_not(part), note)))
        verdict = "no verdict" if values and met is None else SAID[met]
        self.rows.append((goal, what, shown, asked, verdict, self.f.source(part), note))

    def cannot(self, goal, what, asked, why):
        self.rows.append((goal, what, "–", asked, SAID[None], "", why))

    def sorted(self):
        """By goal; the published ones by whose they are."""
        return sorted(self.rows, key=lambda row: (row[0], PUBLISHED.index(row[1].split(":")[0]) if row[0] == "published" else 0))


def worst(values):
    return max(values)


def show(rows):
    print(f"{'goal':10} {'what':58} {'measured (range)':>22} {'asked':>16}  verdict")
    for goal, what, value, limit, said, _, note in rows:
        print(f"{goal:10} {what:58} {value:>22} {limit:>16}  {said:12} {note}")
    print(", ".join(f"{sum(row[4] == said for row in rows)} {said}" for said in ("met", "missed", "not measured", "no verdict")))
