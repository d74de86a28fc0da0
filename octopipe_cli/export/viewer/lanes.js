// A rank's actions: boxes, and columns of shares where they are too narrow to be seen apart.

/** The first action of a rank that ends after a time. */
function firstAfter(actions, time) {
  let low = 0, high = actions.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (actions[middle].end > time) high = middle; else low = middle + 1;
  }
  return low;
}

function drawLane(pen, rank, y) {
  const chosen = pinned === null ? null : [];
  const dim = pinned === null ? 1 : 0.22;
  let column = null;
  const flush = () => { if (column) drawColumn(pen, column, y); column = null; };
  pen.globalAlpha = dim;
  for (let at = firstAfter(rank.actions, view.from); at < rank.actions.length; at++) {
    const action = rank.actions[at];
    if (action.start > view.to) break;
    if (chosen && action.microbatch === pinned) chosen.push(action);
    const x0 = x(action.start), x1 = x(action.end);
    if (x1 - x0 >= NARROW) {
      flush();
      drawBox(pen, action, x0, x1, y);
      continue;
    }
    if (column && (x0 - column.right > COLUMN || x1 - column.left > COLUMN)) flush();
    if (!column) column = { left: x0, right: x1, share: {} };
    column.share[action.kind] = (column.share[action.kind] || 0) + x1 - x0;
    column.right = x1;
  }
  flush();
  pen.globalAlpha = 1;
  for (const action of chosen || []) {
    const x0 = x(action.start);
    drawBox(pen, action, x0, Math.max(x(action.end), x0 + 1.5), y);
  }
  if (rank.step_end > rank.step_start) {
    pen.fillStyle = plan.fills.S[0];
    pen.fillRect(x(rank.step_start), y, x(rank.step_end) - x(rank.step_start), lane);
  }
}

/** Edges on whole pixels of the screen: neighbours leave no seam. */
function snapped(px) {
  const ratio = window.devicePixelRatio || 1;
  return Math.round(px * ratio) / ratio;
}

/** Faint colours lie on paper: the hatching behind means idle. */
function fill(pen, colour, x0, y, wide, high) {
  if (pen.globalAlpha < 1) {
    const alpha = pen.globalAlpha;
    pen.globalAlpha = 1;
    pen.fillStyle = theme.paper;
    pen.fillRect(x0, y, wide, high);
    pen.globalAlpha = alpha;
  }
  pen.fillStyle = colour;
  pen.fillRect(x0, y, wide, high);
}

function drawColumn(pen, column, y) {
  const left = snapped(column.left), right = snapped(column.right);
  let bottom = y + lane;
  for (const kind of KINDS) {
    const share = column.share[kind];
    if (!share) continue;
    const height = (share / (column.right - column.left)) * lane;
    fill(pen, plan.fills[kind][0], left, bottom - height, right - left, height);
    bottom -= height;
  }
}

function drawBox(pen, action, x0, x1, y) {
  const fills = plan.fills[action.kind];
  const wide = x1 - x0;
  const left = snapped(x0), right = snapped(x1);
  fill(pen, fills[action.tone], left, y, wide > 4 ? right - left - 0.7 : right - left, lane);
  const number = String(action.microbatch);
  if (lane < 14 || wide < number.length * 7 + 3) return;
  const from = Math.max(x0, GUTTER), to = Math.min(x1, width - RIGHT);
  const middle = to - from > 30 ? (from + to) / 2 : (x0 + x1) / 2; // what is only half in view keeps its number in view
  const stage = `s${action.stage}`;
  const two = lane >= 30 && wide >= stage.length * 6 + 4;
  font(pen, 11, 600, "center", fills[2]);
  pen.fillText(number, middle, y + (two ? 13 : lane / 2 + 0.5));
  if (!two) return;
  font(pen, 9, 400, "center", fills[2]);
  pen.fillText(stage, middle, y + 27);
}
