"""A swarm's report as CSV, and as one self-contained HTML page: nothing is fetched, nothing is run."""

import csv
import io
from collections.abc import Iterable, Sequence
from html import escape

from countermand.agents.report import ReportLine, Sums, SwarmReport
from countermand.cli.swarm_progress import money
from countermand.saga import SagaState

BARS = 20
"""Bars of the histogram."""

_COLOURS = {
    SagaState.COMMITTED: "#2a7f4f",
    SagaState.COMPENSATED: "#b7791f",
    SagaState.NEEDS_ATTENTION: "#b3261e",
}

_NUMBERS = {"lines", "share", "taken", "given back", "stands"}

_STYLE = """\
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #8884;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.wide{overflow-x:auto}
code{font:13px ui-monospace,monospace;white-space:nowrap}
.bar{display:flex;height:1.2rem;border-radius:4px;overflow:hidden;margin:.5rem 0}
td:has(.dot){white-space:nowrap}
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
    title = f"Batch {escape(report.batch)}"
    parts = [
        f"<h1>{title}</h1>",
        _outcomes(report),
        "<h2>Durations</h2>",
        _histogram([line.seconds for line in report.lines if line.seconds is not None]),
        "<h2>Failures</h2>",
        _table(
            ("tool", "cause", "lines", "the first of them"),
            [(one.tool or "none", one.kind, one.lines, one.message) for one in report.failures],
        ),
        "<h2>Left standing</h2>",
        _residuals(report.lines),
        "<h2>Lines that did not commit</h2>",
        _table(
            ("line", "saga", "state", "why"),
            [
                (line.number, Code(line.saga), line.state, line.cause.message if line.cause else "")
                for line in report.lines
                if line.state is not SagaState.COMMITTED
            ],
        ),
    ]
    head = f'<meta charset="utf-8"><title>{title}</title><meta name="viewport" content="width=device-width">'
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en">{head}<style>\n{_STYLE}</style>\n{body}\n</html>\n'


def _outcomes(report: SwarmReport) -> str:
    total = report.total.lines + report.waiting
    when = ""
    if report.began and report.ended:
        took = str(report.ended - report.began).partition(".")[0]
        when = f", {report.began:%Y-%m-%d %H:%M:%S} to {report.ended:%Y-%m-%d %H:%M:%S} UTC ({took})"
    there = {state: report.states[state] for state in _COLOURS if state in report.states}
    bars = "".join(
        f'<div style="background:{_COLOURS[state]};flex:{sums.lines}"></div>' for state, sums in there.items()
    )
    bars += f'<div style="background:#8884;flex:{report.waiting}"></div>' if report.waiting else ""
    rows = [(state, *_row(sums, total)) for state, sums in there.items()]
    waiting = (
        [("not ended", f"{report.waiting:,}", _share(report.waiting, total), "", "", "")] if report.waiting else []
    )
    table = _table(
        ("outcome", "lines", "share", "taken", "given back", "stands"),
        [*rows, *waiting, ("all", f"{total:,}", "", *_row(report.total, total)[2:])],
    )
    return f'<p>{total:,} lines{when}</p><div class="bar">{bars}</div>{table}'


def _row(sums: Sums, total: int) -> tuple[str, ...]:
    amounts = (sums.taken, sums.returned, sums.standing)
    return f"{sums.lines:,}", _share(sums.lines, total), *(money(one) for one in amounts)


def _share(lines: int, total: int) -> str:
    return f"{lines / total:.1%}"


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
        (line.number, left.message, Code(f"countermand saga resolve {line.saga} {left.step_no} --retry"))
        for line in lines
        for left in line.residuals
    ]
    return _table(("line", "what", "mend it with"), rows)


class Code(str):
    """What is typed, or named, exactly so."""

    __slots__ = ()


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    if not rows:
        return "<p>None.</p>"
    classes = [' class="n"' if title in _NUMBERS else "" for title in head]
    titles = "".join(f"<th{kind}>{title}</th>" for title, kind in zip(head, classes, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{_cell_of(value)}</td>" for value, kind in zip(row, classes, strict=True))
        + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{titles}</tr>{body}</table></div>'


def _cell_of(value: object) -> str:
    match value:
        case SagaState():
            return f'<span class="dot" style="background:{_COLOURS[value]}"></span>{value}'.replace("_", " ")
        case Code():
            return f"<code>{escape(value)}</code>"
        case int():
            return f"{value:,}"
        case _:
            return escape(str(value))
