"""Plots as SVG, by hand: bars with their range, and lines over a logarithmic or a named axis."""
from xml.sax.saxutils import escape

COLOURS = ["#0b6e4f", "#c1666b", "#4357ad", "#d4a017", "#6b6b6b", "#8e44ad", "#2e86ab"]
STYLE = '<style>text{font:12px sans-serif;fill:#222}.title{font-size:14px;font-weight:bold}.axis{stroke:#bbb}</style>'


def _svg(width, height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
            f'{STYLE}<rect width="100%" height="100%" fill="#fff"/>' + "".join(parts) + "</svg>\n")


def _text(x, y, text, anchor="start", kind=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(str(text))}</text>'


def bars(title, rows):
    """rows: (label, value, least, most, is ours)."""
    left, width, step = 230, 720, 28
    scale = (width - left - 90) / max(most for _, _, _, most, _ in rows)
    parts = [_text(10, 22, title, kind="title")]
    for i, (label, value, least, most, ours) in enumerate(rows):
        y = 40 + i * step
        parts += [_text(left - 8, y + 15, label, "end"),
                  f'<rect x="{left}" y="{y}" width="{value * scale:.1f}" height="20" fill="{COLOURS[0 if ours else 4]}"/>',
                  f'<path d="M{left + least * scale:.1f} {y + 10}H{left + most * scale:.1f}" stroke="#222" stroke-width="2"/>',
                  _text(left + most * scale + 6, y + 15, f"{value:.1f}")]
    return _svg(width, 50 + len(rows) * step, parts)


def _ticks(least, most):
    """1, 2, 5, 10 … between, as many as look well."""
    found, step = [], 10.0 ** -3
    while step <= most * 10:
        found += [m * step for m in (1, 2, 5) if least <= m * step <= most]
        step *= 10
    return found if len(found) < 9 else [t for t in found if f"{t:e}"[0] == "1"]


def lines(title, series, names=None, unit="", log_y=True):
    """series: {label: [(x, y), …]}. names: what stands at x = 0, 1, …; without them x is logarithmic."""
    from math import log10
    left, right, top, bottom, width, height = 70, 190, 40, 40, 760, 380
    points = [p for line in series.values() for p in line]
    xs, ys = [x for x, _ in points], [max(y, 1e-9) for _, y in points]
    x_of = (lambda x: x) if names else log10
    y_of = log10 if log_y else (lambda y: y)
    x0, x1 = x_of(min(xs)), x_of(max(xs)) if max(xs) > min(xs) else x_of(min(xs)) + 1
    low, high = (min(ys) * 0.8, max(ys) * 1.25) if log_y else (0, max(ys) * 1.1)
    y0, y1 = y_of(low), y_of(high)

    def at(x, y):
        return (left + (x_of(x) - x0) / (x1 - x0) * (width - left - right),
                height - bottom - (y_of(max(y, 1e-9)) - y0) / (y1 - y0) * (height - top - bottom))

    parts = [_text(10, 22, title, kind="title"), _text(10, top - 4, unit)]
    for y in _ticks(low, high) if log_y else [high * i / 5 for i in range(6)]:
        _, v = at(xs[0], y)
        parts += [f'<path class="axis" d="M{left} {v:.1f}H{width - right}"/>',
                  _text(left - 6, v + 4, f"{y:g}" if log_y else f"{y:.2f}", "end")]
    for x in range(len(names)) if names else sorted(set(xs)):
        u, _ = at(x, ys[0])
        parts.append(_text(u, height - bottom + 18, names[x] if names else f"{x:,}", "middle"))
    for i, (label, line) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in line)
        parts += [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>']
        parts += ['<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"/>'.format(*at(x, y), colour) for x, y in line]
        y = top + 14 + i * 18
        parts += [f'<rect x="{width - right + 12}" y="{y - 9}" width="12" height="10" fill="{colour}"/>',
                  _text(width - right + 30, y, label)]
    return _svg(width, height, parts)
