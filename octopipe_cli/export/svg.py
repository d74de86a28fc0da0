"""``svg``: the plan as a picture for a design review; one file, no fonts, no scripts, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Final

from octopipe_cli.export import Options, headline
from octopipe_cli.export.lanes import LEAST_WIDTH, TENTHS, Box, Scale, boxes_of, has_narrow, slabs_of
from octopipe_cli.export.rows import step_of
from octopipe_cli.export.svg_memory import memory_panel
from octopipe_cli.export.svg_parts import block, line, rect, shapes, style_sheet, text
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan
from octopipe_cli.render.axis import round_times
from octopipe_cli.render.cells import Window
from octopipe_cli.render.frame import Fold, fold_of
from octopipe_cli.render.glyphs import KIND_NAMES, STEP_KIND
from octopipe_cli.replay import replay
from octopipe_cli.simulate import Timeline
from octopipe_cli.words import percent_text, time_text

WIDTH: Final = 14000
MARGIN: Final = 240
#: Where the rows begin and end; beside them stand the ranks and their figures.
LEFT: Final = 1500
RIGHT: Final = 12500
ROWS_TOP: Final = 1640
#: Height of a row and the gap below it, by the number of ranks: the more, the smaller.
ROW_SIZES: Final = ((8, 340, 70), (16, 280, 60), (32, 160, 40), (10**6, 100, 20))
#: Characters of a figure's note that its column has room for.
NOTE_LENGTH: Final = 46
#: The rows' columns, as the terminal's chart counts them: where actions have less than two, a step is long.
CELLS: Final = 110
#: The width of a digit.
DIGIT: Final = 66
#: Rows from this height on have micro-batch numbers ...
NUMBERED: Final = 140
#: ... and from this one stage numbers below them.
STAGED: Final = 300


@dataclass(frozen=True)
class Sheet:
    """What the parts of one picture have in common; measures in tenths of a pixel."""

    plan: Plan
    timeline: Timeline
    scale: Scale
    row: int
    gap: int
    fold: Fold | None

    def top(self, rank: int) -> int:
        """Return the upper edge of a rank's row."""
        return ROWS_TOP + rank * (self.row + self.gap)

    @property
    def bottom(self) -> int:
        """The lower edge of the last row."""
        return self.top(self.timeline.pipeline.num_ranks) - self.gap


def export(plan: Loaded[Plan], options: Options) -> str:
    """Return the plan as SVG: title, a row a rank, time axis, bound, legend, memory below.

    Actions narrower than 1.6 px are not drawn one by one: columns of 2 px show how the time in them is shared, so that
    the file stays small (64 ranks, 512 micro-batches: under 2 MB) and the picture is not a matter of rounding.
    """
    timeline = replay(plan.value, plan.file)
    row, gap = next((row, gap) for most, row, gap in ROW_SIZES if timeline.pipeline.num_ranks <= most)
    fold = fold_of(timeline, range(timeline.pipeline.num_ranks), CELLS)
    scale = Scale(Window(0, max(timeline.step_time_ns, 1)) if fold is None else fold.window, RIGHT - LEFT)
    sheet = Sheet(plan.value, timeline, scale, row, gap, fold)
    body = [*_head(sheet), *_axis(sheet), *_rows(sheet), *_marks(sheet), *_legend(sheet, sheet.bottom + 640)]
    body += _steady(sheet)
    bottom = sheet.bottom + 860
    if any(timeline.peak_memory_bytes):
        panel, bottom = memory_panel(timeline, scale, (LEFT, RIGHT), bottom + 260)
        body += panel
    return _document(sheet, body, bottom + MARGIN)


def _document(sheet: Sheet, body: list[str], height: int) -> str:
    width, high = WIDTH // TENTHS, -(-height // TENTHS)
    facts = "; ".join(f"{f.label} {f.value} ({f.note})" for f in headline.figures(sheet.plan, sheet.timeline))
    said = f"{headline.size(sheet.timeline)}; {facts}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="octopipe" width="{width}" height="{high}" '
        f'viewBox="0 0 {width} {high}" role="img" aria-labelledby="octopipe-title octopipe-desc">'
        f'<title id="octopipe-title">{escape(headline.title(sheet.plan))}</title>'
        f'<desc id="octopipe-desc">{escape(said)}</desc>{style_sheet()}'
        '<defs><pattern id="octopipe-idle" width="5" height="5" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="5" height="5" class="idle"/>'
        '<path d="M0 0V5" class="hatch"/></pattern></defs>'
    )
    return "\n".join([head, rect(0, 0, WIDTH, height + TENTHS, "paper"), *body, "</svg>"]) + "\n"


def _head(sheet: Sheet) -> Iterator[str]:
    """Yield the title and, below it, the figures in columns."""
    yield text(MARGIN, 400, headline.title(sheet.plan), "title")
    request = sheet.plan.request
    said = f"engine {request.engine}, effort {request.effort}, seed {request.seed}"
    yield text(MARGIN, 600, f"{headline.size(sheet.timeline)}; {said}", "soft")
    found = headline.figures(sheet.plan, sheet.timeline)
    column = (WIDTH - 2 * MARGIN) // 5
    for at, figure in enumerate(found):
        x = MARGIN + at * column
        yield text(x, 850, figure.label, "soft small")
        yield text(x, 1050, figure.value, "value")
        yield text(x, 1210, headline.short(figure.note, NOTE_LENGTH), "soft small")


def _axis(sheet: Sheet) -> Iterator[str]:
    """Yield the time axis under the rows, its lines behind them."""
    step = sheet.timeline.step_time_ns
    if not step:
        return
    unit, times = round_times(sheet.scale.window, (RIGHT - LEFT) // DIGIT)
    free = 0
    for time, label in times:
        x = LEFT + sheet.scale.at(time)
        if not sheet.scale.window.shows(time) or x < free:
            continue
        free = x + (len(label) + 2) * DIGIT
        yield line(x, sheet.top(0) - 40, x, sheet.bottom + 60, "rule")
        yield text(x, sheet.bottom + 200, label, "soft mid")
    yield text(RIGHT + 130, sheet.bottom + 200, f"time, {unit.name}", "soft")


def _rows(sheet: Sheet) -> Iterator[str]:
    """Yield the rows: rank, what it does, its figures."""
    timeline, step = sheet.timeline, sheet.timeline.step_time_ns
    for x, head in ((RIGHT + 130, "busy"), (RIGHT + 720, "bubbles")):
        yield text(x, sheet.top(0) - 80, head, "soft small")
    for rank in range(timeline.pipeline.num_ranks):
        top = sheet.top(rank)
        yield from _label(sheet, rank)
        yield f'<g transform="translate({LEFT // TENTHS} {top / TENTHS:g})">'
        yield _track(sheet)
        yield from _lane(sheet, rank)
        yield "</g>"
        middle = top + sheet.row // 2 + 40
        small = "" if sheet.row >= NUMBERED else " small"
        busy = timeline.busy_ns[rank]
        yield text(RIGHT + 130, middle, f"{percent_text(busy, step)} %", f"strong{small}")
        yield text(RIGHT + 720, middle, f"{percent_text(sum(timeline.bubbles(rank)), step)} %", f"soft{small}")


def _label(sheet: Sheet, rank: int) -> Iterator[str]:
    planned, top = sheet.plan.ranks[rank], sheet.top(rank)
    where = f"{headline.short(planned.hardware, 12)}, node {planned.node}"
    if sheet.row >= STAGED:
        yield text(LEFT - 120, top + 150, f"rank {rank}", "strong end")
        yield text(LEFT - 120, top + 290, where, "soft small end")
    else:
        small = "" if sheet.row >= NUMBERED else " small"
        yield text(LEFT - 120, top + sheet.row // 2 + 40, f"rank {rank}", f"strong end{small}")


def _track(sheet: Sheet) -> str:
    """Return what is behind a row: where nothing lies on it, the rank is idle."""
    size = f'width="{(RIGHT - LEFT) // TENTHS}" height="{sheet.row // TENTHS}"'
    return f'<rect {size} fill="url(#octopipe-idle)"/>'


def _lane(sheet: Sheet, rank: int) -> Iterator[str]:
    """Yield a rank's actions and its optimizer step, then their numbers."""
    paths: dict[str, list[str]] = {}
    for slab in slabs_of(sheet.timeline, rank, sheet.scale, sheet.row):
        part = block(slab.left, slab.right, sheet.row - slab.top, sheet.row - slab.bottom)
        paths.setdefault(f"{slab.kind}0", []).append(part)
    boxes = boxes_of(sheet.timeline, rank, sheet.scale)
    for box in boxes:
        edge = " edge" if box.right - box.left >= 40 else ""  # on narrower ones the edge would be all there is
        part = block(box.left, box.right, 0, sheet.row)
        paths.setdefault(f"{box.action.kind}{box.tone}{edge}", []).append(part)
    start, end = step_of(sheet.timeline, rank)
    if end > start:
        part = block(sheet.scale.at(start), sheet.scale.at(end), 0, sheet.row)
        paths.setdefault(f"{STEP_KIND}0", []).append(part)
    yield shapes(paths)
    if sheet.row >= NUMBERED:
        yield from _numbers(sheet, boxes)


def _numbers(sheet: Sheet, boxes: list[Box]) -> Iterator[str]:
    """Yield the micro-batch number in each box it fits and, in high rows, the stage number below it."""
    staged = sheet.row >= STAGED
    for kind in "FIWB":
        words = []
        for box in boxes:
            microbatch = str(box.action.microbatch)
            if box.action.kind != kind or box.right - box.left < len(microbatch) * DIGIT + 20:
                continue
            middle = (box.left + box.right) // 2
            stage = f"s{box.action.stage}"
            below = staged and box.right - box.left >= len(stage) * 52 + 20
            words.append(text(middle, sheet.row // 2 + (0 if below else 40), microbatch, "number mid"))
            if below:
                words.append(text(middle, sheet.row - 60, stage, "stage mid"))
        if words:
            yield f'<g class="on{kind}">{"".join(words)}</g>'


def _marks(sheet: Sheet) -> Iterator[str]:
    """Yield the lines of the bound and the step time."""
    step, bound = sheet.timeline.step_time_ns, sheet.plan.bound.step_time_ns
    top, bottom = sheet.top(0) - 60, sheet.bottom + 60
    said = f"step {time_text(step)}"
    yield line(RIGHT, top, RIGHT, bottom, "step")
    if 0 < bound <= step and (bound == step or sheet.scale.window.shows(bound)):
        x = LEFT + sheet.scale.at(bound)
        yield line(x, top - 40, x, bottom, "bound")
        if bound == step:
            said = f"step = bound {time_text(step)}"
        elif RIGHT - x < 1300:  # no room for both names above their lines: the bound's stands left of its own
            yield text(x - 60, top - 20, f"bound {time_text(bound)}", "bound end small")
        else:
            yield text(x + 60, top - 20, f"bound {time_text(bound)}", "bound small")
    yield text(RIGHT + 40, top - 130, said, "strong small end")


def _steady(sheet: Sheet) -> Iterator[str]:
    """Yield the bracket above the steady state, the line where the rest of it is left out, and what both mean."""
    if sheet.fold is None:
        return
    top, fold = sheet.top(0) - 40, sheet.fold
    begin, end = LEFT + sheet.scale.at(fold.steady.from_ns), LEFT + sheet.scale.at(fold.window.left_out_from_ns)
    yield line(begin, top, end, top, "step")
    for x in (begin, end):
        yield line(x, top, x, top + 40, "step")
    yield line(end, top, end, sheet.bottom + 60, "limit")
    yield text((begin + end) // 2, top - 40, f"{fold.steady.repeats}x", "strong small mid")
    yield text(LEFT, sheet.bottom + 400, f"steady state: {fold.said(sheet.timeline)}", "soft small")


def _legend(sheet: Sheet, y: int) -> Iterator[str]:
    """Yield what the colours and numbers mean, as far as they occur."""
    timeline = sheet.timeline
    shown = {action.kind for actions in timeline.orders for action in actions}
    several = any(len(stages) > 1 for stages in timeline.pipeline.stages_of)
    x = LEFT
    for kind, name in KIND_NAMES.items():
        if kind == STEP_KIND and not any(timeline.pipeline.step_ns):
            continue
        if kind in shown or kind == STEP_KIND:
            yield rect(x, y - 100, 220, 120, f"{kind}0")
            yield rect(x + 110, y - 100, 110, 120, f"{kind}1") if several else ""
        elif not kind:
            where = f'x="{x / TENTHS:g}" y="{(y - 100) / TENTHS:g}"'
            yield f'<rect {where} width="22" height="12" fill="url(#octopipe-idle)"/>'
        else:
            continue
        yield text(x + 290, y, name)
        x += 290 + len(name) * 62 + 260
    notes = []
    if several:
        notes.append("the stages of a rank take the two tones of a colour in turn")
    if sheet.row >= NUMBERED:
        notes.append("number: micro-batch" + ("; s: stage" if sheet.row >= STAGED else ""))
    if has_narrow(timeline, sheet.scale):
        notes.append(f"where actions are narrower than {LEAST_WIDTH / TENTHS} px, columns show how the time is shared")
    yield text(LEFT, y + 210, "; ".join(notes), "soft small")
