// The sheet: rows, axis, bound; colours of the theme.

const rowHeight = () => lane + (showMemory ? strip + 4 : 0) + PAD;
const top = (rank) => PAD + rank * rowHeight();
const x = (ns) => GUTTER + ((ns - view.from) / (view.to - view.from)) * (width - GUTTER - RIGHT);
const timeAt = (px) => view.from + ((px - GUTTER) / (width - GUTTER - RIGHT)) * (view.to - view.from);

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["paper", "ink", "soft", "rule", "idle", "hatch", "bound", "limit", "state", "memory"])
    theme[name] = style.getPropertyValue(`--${name}`).trim();
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.fillStyle = theme.idle;
  pen.fillRect(0, 0, 8, 8);
  pen.strokeStyle = theme.hatch;
  pen.beginPath();
  for (const shift of [-8, 0, 8]) { pen.moveTo(shift - 1, 9); pen.lineTo(shift + 9, -1); }
  pen.stroke();
  hatch = pen.createPattern(tile, "repeat");
  for (const key of document.querySelectorAll(".key canvas")) swatch(key);
}

function swatch(key) {
  const pen = prepared(key, 24, 13);
  const kind = key.dataset.kind;
  const fills = plan.fills[kind] || (kind ? [theme[kind], theme[kind]] : [hatch, hatch]);
  for (const tone of [0, 1]) {
    pen.fillStyle = fills[twoTones ? tone : 0];
    pen.fillRect(12 * tone, 0, 12, 13);
  }
}

function prepared(target, w, h) {
  const ratio = window.devicePixelRatio || 1;
  if (target.width !== Math.round(w * ratio) || target.height !== Math.round(h * ratio)) {
    target.width = Math.round(w * ratio);
    target.height = Math.round(h * ratio);
  }
  target.style.height = `${h}px`;
  const pen = target.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, w, h);
  return pen;
}

function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}

function draw() {
  width = chart.clientWidth;
  drawAxis();
  const height = top(most);
  const pen = prepared(canvas, width, height);
  const right = width - RIGHT;
  for (const time of ticks().times) line(pen, x(time), 0, x(time), height, theme.rule);
  for (let rank = 0; rank < most; rank++) {
    label(pen, rank);
    pen.save();
    pen.beginPath();
    pen.rect(GUTTER, top(rank), right - GUTTER, rowHeight());
    pen.clip();
    const [left, until] = [Math.max(x(0), GUTTER), Math.min(x(whole), right)];
    pen.fillStyle = hatch;
    pen.fillRect(left, top(rank), until - left, lane);
    drawLane(pen, plan.ranks[rank], top(rank));
    if (showMemory) drawMemory(pen, plan.ranks[rank], top(rank) + lane + 4);
    pen.restore();
  }
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, 0, right - GUTTER + 1, height);
  pen.clip();
  if (plan.bound_ns) line(pen, x(plan.bound_ns), 0, x(plan.bound_ns), height, theme.bound, [5, 3]);
  line(pen, x(whole), 0, x(whole), height, theme.ink);
  pen.restore();
  drawOver();
}

/** What follows the pointer, on a canvas of its own: the rows stay as they are. */
function drawOver() {
  const height = top(most);
  const pen = prepared(over, width, height);
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, 0, width - RIGHT - GUTTER + 1, height);
  pen.clip();
  if (hovered) drawLinks(pen, hovered);
  if (marked) {
    pen.fillStyle = theme.soft;
    pen.globalAlpha = 0.25;
    pen.fillRect(Math.min(...marked), 0, Math.abs(marked[1] - marked[0]), height);
  }
  pen.restore();
}

function line(pen, x0, y0, x1, y1, colour, dash = []) {
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.setLineDash(dash);
  pen.beginPath();
  pen.moveTo(Math.round(x0) + 0.5, y0);
  pen.lineTo(Math.round(x1) + 0.5, y1);
  pen.stroke();
  pen.setLineDash([]);
}

function font(pen, size, weight, align, colour) {
  pen.font = `${weight} ${size}px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, "DejaVu Sans", sans-serif`;
  pen.textAlign = align;
  pen.textBaseline = "middle";
  pen.fillStyle = colour;
}

function label(pen, rank) {
  const tall = lane >= 30;
  font(pen, lane < 18 ? 10 : 12, 600, "right", theme.ink);
  pen.fillText(`rank ${rank}`, GUTTER - 10, top(rank) + (tall ? 12 : lane / 2));
  font(pen, 10, 400, "right", theme.soft);
  if (tall) pen.fillText(plan.ranks[rank].where, GUTTER - 10, top(rank) + 27, GUTTER - 14);
  if (showMemory) pen.fillText("GiB held", GUTTER - 10, top(rank) + lane + 4 + strip / 2);
}

function ticks() {
  const least = ((view.to - view.from) * 84) / Math.max(width - GUTTER - RIGHT, 84);
  let step = 1;
  for (let power = 1; step < least; power *= 10)
    for (const factor of [1, 2, 5]) if (step < least) step = factor * power;
  const times = [];
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) times.push(time);
  return { step, times };
}

function drawAxis() {
  const pen = prepared(axis, width, AXIS);
  const right = width - RIGHT;
  pen.fillStyle = theme.rule; // the part of the step that is in view
  pen.fillRect(GUTTER, 4, right - GUTTER, 4);
  pen.fillStyle = theme.soft;
  const span = (right - GUTTER) / whole;
  pen.fillRect(GUTTER + view.from * span, 4, Math.max((view.to - view.from) * span, 3), 4);
  const { step, times } = ticks();
  const [name, one] = unitOf(view.to);
  const digits = Math.max(0, Math.ceil(Math.log10(one) - Math.log10(step) - 1e-9));
  font(pen, 11, 400, "center", theme.soft);
  for (const time of times) {
    const px = x(time);
    if (px > right - 6) continue;
    pen.fillText((time / one).toFixed(digits), px, 20);
    line(pen, px, 30, px, AXIS, theme.rule);
  }
  font(pen, 11, 400, "right", theme.soft);
  pen.fillText(`time, ${name}`, GUTTER - 30, 20);
  font(pen, 10, 600, "right", theme.bound);
  const bound = plan.bound_ns ? x(plan.bound_ns) : -1;
  if (bound >= GUTTER && bound <= right) pen.fillText("bound", bound - 3, 34);
  font(pen, 10, 600, "right", theme.ink);
  if (x(whole) <= right + 1 && x(whole) - bound > 34) pen.fillText("step", x(whole) - 3, 34);
}
