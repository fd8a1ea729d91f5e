"""A swarm's report as CSV, and as one self-contained HTML page: nothing is fetched, nothing is run."""

import csv
import io
from collections.abc import Iterable, Sequence
from html import escape

from countermand.agents.report import ReportLine, SwarmReport
from countermand.cli.swarm_progress import money
from countermand.saga import SagaState

BARS = 20
"""Bars of the histogram."""

_COLOURS = {
    SagaState.COMMITTED: "#2a7f4f",
    SagaState.COMPENSATED: "#b7791f",
    SagaState.NEEDS_ATTENTION: "#b3261e",
}

_STYLE = """\
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #8884;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
code{font:13px ui-monospace,monospace;overflow-wrap:anywhere}
.bar{display:flex;height:1.2rem;border-radius:4px;overflow:hidden;margin:.5rem 0}
.dot{display:inline-block;width:.7rem;height:.7rem;border-radius:50%;margin-right:.4rem}
svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:currentColor}
"""

_COLUMNS = (
    "number", "id", "saga", "attempt", "state", "seconds", "taken", "returned", "currency", "tool", "cause",
    "message", "residuals", "text",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(report: SwarmReport) -> str:
    """One row a line; amounts in minor units."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(_COLUMNS)
    for line in report.lines:
        currency = next(iter(line.taken), "")
        row = [
            line.number, line.id, line.saga, line.attempt, line.state, line.seconds, line.taken.get(currency, 0),
            line.returned.get(currency, 0), currency, line.tool, line.cause.kind if line.cause else "",
            line.cause.message if line.cause else "", "; ".join(left.message for left in line.residuals), line.text,
        ]  # fmt: skip
        rows.writerow([_cell(value) for value in row])
    return out.getvalue()


def _cell(value: object) -> object:
    """A cell that no spreadsheet takes for a formula: texts come from whoever wrote the batch."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def as_html(report: SwarmReport) -> str:
    """The whole page."""
    parts = [
        f"<h1>Batch {escape(report.batch)}</h1>",
        _outcomes(report),
        "<h2>Money</h2>",
        _table(
            ("taken", "given back", "stands"), [(money(report.taken), money(report.returned), money(report.standing))]
        ),
        "<h2>Durations</h2>",
        _histogram([line.seconds for line in report.lines if line.seconds is not None]),
        "<h2>Failures</h2>",
        _table(("tool", "cause", "lines"), [(tool or "none", kind, count) for tool, kind, count in report.failures]),
        "<h2>Left standing</h2>",
        _residuals(report.lines),
        "<h2>Lines that did not commit</h2>",
        _table(
            ("line", "saga", "state", "why"),
            [
                (line.number, line.saga, line.state, line.cause.message if line.cause else "")
                for line in report.lines
                if line.state is not SagaState.COMMITTED
            ],
        ),
    ]
    title = f"Batch {escape(report.batch)}"
    head = f'<meta charset="utf-8"><title>{title}</title><meta name="viewport" content="width=device-width">'
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en">{head}<style>\n{_STYLE}</style>\n{body}\n</html>\n'


def _outcomes(report: SwarmReport) -> str:
    total = len(report.lines) + report.waiting
    when = f"{report.began:%Y-%m-%d %H:%M:%S} to {report.ended:%H:%M:%S} UTC" if report.began and report.ended else ""
    bars = "".join(
        f'<div style="background:{colour};flex:{report.states.get(state, 0)}"></div>'
        for state, colour in _COLOURS.items()
        if report.states.get(state)
    )
    counts = " &ensp; ".join(
        f'<span class="dot" style="background:{colour}"></span>{_count(report, state)}'
        for state, colour in _COLOURS.items()
    )
    waiting = f" &ensp; {report.waiting:,} not ended" if report.waiting else ""
    return f'<p>{total:,} lines. {when}</p><div class="bar">{bars}</div><p>{counts}{waiting}</p>'


def _count(report: SwarmReport, state: SagaState) -> str:
    return f"{report.states.get(state, 0):,} {state.replace('_', ' ')}"


def _histogram(seconds: Sequence[float]) -> str:
    """How long sagas took, in bars of equal width from nothing to the longest."""
    if not seconds:
        return "<p>No line has ended.</p>"
    top = max(seconds) or 1.0
    counts = [0] * BARS
    for one in seconds:
        counts[min(int(one / top * BARS), BARS - 1)] += 1
    most = max(counts)
    bars = "".join(
        f'<rect x="{10 + n * 39}" y="{170 - count / most * 150:.1f}" width="35" height="{count / most * 150:.1f}" '
        f'fill="#3b6ea8"><title>{n * top / BARS:.2f} to {(n + 1) * top / BARS:.2f} s: {count:,}</title></rect>'
        for n, count in enumerate(counts)
        if count
    )
    middle = sorted(seconds)[len(seconds) // 2]
    return (
        f'<svg viewBox="0 0 800 200" role="img" aria-label="Durations of sagas">{bars}'
        f'<line x1="10" y1="170" x2="790" y2="170" stroke="currentColor"/><text x="10" y="188">0 s</text>'
        f'<text x="790" y="188" text-anchor="end">{top:.2f} s</text>'
        f'<text x="400" y="188" text-anchor="middle">median {middle:.2f} s; tallest bar {most:,} lines</text></svg>'
    )


def _residuals(lines: Iterable[ReportLine]) -> str:
    rows = [
        (line.number, left.message, f"countermand saga resolve {line.saga} {left.step_no} --retry")
        for line in lines
        for left in line.residuals
    ]
    return _table(("line", "what", "mend it with"), rows, code=2)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]], *, code: int | None = None) -> str:
    if not rows:
        return "<p>None.</p>"
    titles = "".join(f'<th class="n">{one}</th>' if one == "lines" else f"<th>{one}</th>" for one in head)
    body = "".join(
        "<tr>" + "".join(_data(value, head[n], as_code=n == code) for n, value in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{titles}</tr>{body}</table>"


def _data(value: object, title: str, *, as_code: bool) -> str:
    text = f"{value:,}" if isinstance(value, int) and title == "lines" else escape(str(value))
    number = ' class="n"' if title == "lines" else ""
    return f"<td{number}><code>{text}</code></td>" if as_code else f"<td{number}>{text}</td>"
