"use strict";
// The chart of a plan: draws what is in the element #plan; no libraries, no network. Times are in ns, sizes in bytes.
(() => {
  const plan = JSON.parse(document.getElementById("plan").textContent);
  const chart = document.getElementById("chart");
  const axis = document.getElementById("axis");
  const canvas = document.getElementById("rows");
  const over = document.getElementById("over");
  const tip = document.getElementById("tip");
  const GUTTER = 118, RIGHT = 16, AXIS = 40, PAD = 6;
  const NARROW = 1.6, COLUMN = 2; // px: narrower actions are drawn as columns of shares, as in the SVG
  const KINDS = ["F", "I", "W", "B"];
  const whole = Math.max(plan.step_ns, 1);
  const most = plan.ranks.length;
  const lane = most <= 8 ? 36 : most <= 16 ? 28 : most <= 32 ? 20 : 14;
  const strip = most <= 8 ? 44 : most <= 16 ? 30 : 20;
  const hasMemory = plan.ranks.some((rank) => rank.peak > 0);
  const view = { from: 0, to: whole };
  let showMemory = hasMemory && most <= 16, hovered = null, pinned = null, marked = null;
  let width = 0, theme = {}, hatch = null, waiting = false;

  // ---- the plan, made ready: where each action is, what it waits for ----
  const where = new Map();
  plan.ranks.forEach((rank, r) => {
    const tone = new Map(rank.stages.map((stage, at) => [stage, at % 2]));
    rank.actions = rank.tokens === "" ? [] : rank.tokens.split(" ").map((name, at) => {
      const parts = /^(\d+)([FIWB])(\d+)$/.exec(name);
      const start = rank.start[at];
      const action = { name, stage: +parts[1], kind: parts[2], microbatch: +parts[3], rank: r, start,
        end: start + rank.length[at], tone: tone.get(+parts[1]) };
      where.set(name, action);
      return action;
    });
  });
  const full = memoryScale();

  function memoryScale() {
    const peak = Math.max(...plan.ranks.map((rank) => rank.peak), 1);
    const limits = plan.ranks.map((rank) => rank.limit).filter((limit) => limit !== null && limit <= 3 * peak);
    return 1.05 * Math.max(peak, ...limits);
  }

  const back = (stage, m) => where.get(`${stage}B${m}`) || where.get(`${stage}I${m}`);
  function sources(a) {
    if (a.kind === "W") return [where.get(`${a.stage}I${a.microbatch}`)];
    if (a.kind === "F") return [where.get(`${a.stage - 1}F${a.microbatch}`)];
    return [where.get(`${a.stage}F${a.microbatch}`), back(a.stage + 1, a.microbatch)];
  }
  function users(a) {
    if (a.kind === "W") return [];
    if (a.kind === "F") return [where.get(`${a.stage + 1}F${a.microbatch}`), back(a.stage, a.microbatch)];
    const weight = a.kind === "I" ? [where.get(`${a.stage}W${a.microbatch}`)] : [];
    return [back(a.stage - 1, a.microbatch), ...weight];
  }

  // ---- words ----
  function unitOf(ns) {
    return ns >= 1e11 ? ["s", 1e9] : ns >= 1e5 ? ["ms", 1e6] : ns >= 1e4 ? ["µs", 1e3] : ["ns", 1];
  }
  function timeText(ns) {
    const [name, one] = unitOf(ns);
    const amount = ns / one;
    return `${amount.toFixed(one === 1 ? 0 : 3)} ${name}`;
  }
  const gib = (bytes) => `${(bytes / 2 ** 30).toFixed(2)} GiB`;
  function sizeText(bytes) {
    return bytes >= 2 ** 30 ? gib(bytes) : bytes >= 2 ** 20 ? `${(bytes / 2 ** 20).toFixed(1)} MiB` : `${bytes} B`;
  }

  // ---- drawing ----
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
      pen.fillStyle = fills[tone];
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

  function drawMemory(pen, rank, y) {
    const bottom = y + strip;
    const at = (bytes) => bottom - (bytes / full) * strip;
    const [left, right] = [Math.max(x(0), GUTTER), Math.min(x(whole), width - RIGHT)];
    pen.fillStyle = theme.idle;
    pen.fillRect(left, y, right - left, strip);
    pen.fillStyle = theme.memory;
    pen.beginPath();
    pen.moveTo(left, bottom);
    let begin = lastBefore(rank.memory.at, view.from), pixel = -1, peak = 0, held = 0;
    for (let i = begin; i < rank.memory.at.length && rank.memory.at[i] <= view.to; i++) {
      const px = Math.max(Math.floor(x(rank.memory.at[i])), GUTTER);
      if (px !== pixel) {
        if (pixel >= 0) step(px);
        pixel = px;
        peak = held;
      }
      held = rank.memory.held[i];
      peak = Math.max(peak, held);
    }
    if (pixel >= 0) step(right);
    pen.lineTo(right, bottom);
    pen.fill();
    pen.fillStyle = theme.state;
    pen.fillRect(left, at(rank.state), right - left, bottom - at(rank.state));
    if (rank.limit !== null && rank.limit <= full) line(pen, left, at(rank.limit), right, at(rank.limit), theme.limit, [3, 2]);

    /** From the open pixel, at its peak, to the next change at what is held then. */
    function step(until) {
      pen.lineTo(pixel, at(peak));
      pen.lineTo(pixel + 1, at(peak));
      pen.lineTo(pixel + 1, at(held));
      pen.lineTo(until, at(held));
    }
  }

  function lastBefore(times, time) {
    let low = 0, high = times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] > time) high = middle; else low = middle + 1;
    }
    return Math.max(low - 1, 0);
  }

  /** What an action waits for and who waits for it: arrows from end to start. */
  function drawLinks(pen, action) {
    outline(pen, action, 2);
    for (const other of [...sources(action), ...users(action)].filter(Boolean)) outline(pen, other, 1.2);
    for (const source of sources(action).filter(Boolean)) arrow(pen, source, action);
    for (const user of users(action).filter(Boolean)) arrow(pen, action, user);
  }

  function outline(pen, action, thick) {
    pen.strokeStyle = theme.ink;
    pen.lineWidth = thick;
    const x0 = x(action.start), x1 = x(action.end);
    pen.strokeRect(x0, top(action.rank) + 0.5, Math.max(x1 - x0, 1), lane - 1);
  }

  function arrow(pen, from, to) {
    if (from.rank === to.rank) return;
    const x0 = x(from.end), y0 = top(from.rank) + lane / 2, x1 = x(to.start), y1 = top(to.rank) + lane / 2;
    const bend = Math.max(18, Math.abs(x1 - x0) / 3);
    for (const [colour, thick] of [[theme.paper, 4], [theme.ink, 1.6]]) {
      pen.strokeStyle = pen.fillStyle = colour;
      pen.lineWidth = thick;
      pen.beginPath();
      pen.moveTo(x0, y0);
      pen.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 5, y1);
      pen.stroke();
    }
    pen.beginPath();
    pen.moveTo(x1, y1);
    pen.lineTo(x1 - 7, y1 - 4);
    pen.lineTo(x1 - 7, y1 + 4);
    pen.fill();
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

  // ---- moving ----
  function show(from, to) {
    const least = Math.min(whole, 200);
    let length = Math.min(Math.max(to - from, least), whole);
    const middle = (from + to) / 2;
    view.from = Math.min(Math.max(to - from === length ? from : middle - length / 2, 0), whole - length);
    view.to = view.from + length;
    redraw();
  }
  function zoom(factor, around) {
    show(around - (around - view.from) * factor, around + (view.to - around) * factor);
  }
  const pan = (share) => show(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));

  canvas.addEventListener("wheel", (event) => {
    if (event.offsetX < GUTTER) return; // over the labels the page scrolls
    event.preventDefault();
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(sideways / 800);
    else zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 400))), timeAt(event.offsetX));
  }, { passive: false });

  let grip = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    grip = { x: event.offsetX, y: event.clientY, from: view.from, to: view.to, scroll: chart.scrollTop, moved: false,
      marks: event.shiftKey };
    canvas.setPointerCapture(event.pointerId);
    chart.focus({ preventScroll: true });
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!grip) return point(event);
    const dx = event.offsetX - grip.x;
    if (Math.abs(dx) + Math.abs(event.clientY - grip.y) > 3) grip.moved = true;
    if (!grip.moved) return undefined;
    hide();
    if (grip.marks) {
      marked = [grip.x, event.offsetX];
      drawOver();
    } else {
      canvas.classList.add("moving");
      const shift = (dx / (width - GUTTER - RIGHT)) * (grip.to - grip.from);
      chart.scrollTop = grip.scroll - (event.clientY - grip.y);
      show(grip.from - shift, grip.to - shift);
    }
    return undefined;
  });
  canvas.addEventListener("pointerup", (event) => {
    if (grip && !grip.moved) pin(hit(event));
    if (grip && marked) show(timeAt(Math.min(...marked)), timeAt(Math.max(...marked)));
    grip = marked = null;
    drawOver();
    canvas.classList.remove("moving");
  });
  canvas.addEventListener("pointercancel", () => { grip = marked = null; redraw(); });
  canvas.addEventListener("pointerleave", hide);
  canvas.addEventListener("dblclick", () => show(0, whole));

  const middle = () => (view.from + view.to) / 2;
  const KEYS = {
    "+": () => zoom(0.7, middle()), "=": () => zoom(0.7, middle()), w: () => zoom(0.7, middle()),
    "-": () => zoom(1 / 0.7, middle()), s: () => zoom(1 / 0.7, middle()),
    ArrowLeft: () => pan(-0.15), a: () => pan(-0.15), ArrowRight: () => pan(0.15), d: () => pan(0.15),
    0: () => show(0, whole), Home: () => show(0, whole), m: toggleMemory, Escape: () => pin(null),
  };
  document.addEventListener("keydown", (event) => {
    const act = KEYS[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
  for (const button of document.querySelectorAll("button[data-key]"))
    button.addEventListener("click", () => KEYS[button.dataset.key]());

  function toggleMemory() {
    if (!hasMemory) return;
    showMemory = !showMemory;
    const button = document.querySelector('button[data-key="m"]');
    if (button) button.setAttribute("aria-pressed", String(showMemory));
    redraw();
  }

  // ---- pointing ----
  function hit(event) {
    const rank = Math.floor((event.offsetY - PAD) / rowHeight());
    if (rank < 0 || rank >= most || event.offsetX < GUTTER) return null;
    const time = timeAt(event.offsetX);
    const inLane = event.offsetY - top(rank) <= lane;
    const actions = plan.ranks[rank].actions;
    const action = actions[firstAfter(actions, time)];
    return { rank, time, action: inLane && action && action.start <= time ? action : null };
  }

  function pin(found) {
    const next = found && found.action ? found.action.microbatch : null;
    pinned = next === pinned ? null : next;
    redraw();
  }

  function point(event) {
    const found = hit(event);
    const before = hovered;
    hovered = found && found.action;
    if (hovered !== before) drawOver();
    if (!found || found.time < 0 || found.time > whole) return hide();
    const lines = hovered ? told(hovered) : toldIdle(found);
    tip.replaceChildren(...lines.map((text, at) => {
      const part = document.createElement(at ? "div" : "b"); // text only: what files say is never read as markup
      part.textContent = text;
      return part;
    }));
    tip.style.display = "block";
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 16, window.innerWidth - box.width - 8))}px`;
    const below = event.clientY + 18;
    tip.style.top = `${below + box.height > window.innerHeight - 4 ? event.clientY - box.height - 14 : below}px`;
    return undefined;
  }

  function hide() {
    tip.style.display = "none";
    if (hovered) { hovered = null; drawOver(); }
  }

  function told(action) {
    const stage = plan.stages[action.stage], rank = plan.ranks[action.rank];
    const [first, stop] = stage.layers;
    const layers = stop - first === 0 ? "no layers" : stop - first === 1 ? `layer ${first}` : `layers ${first}–${stop - 1}`;
    const lines = [
      `${action.name}  ${plan.names[action.kind]}`,
      `stage ${action.stage}, micro-batch ${action.microbatch}, rank ${action.rank} (${rank.where})`,
      `${layers}: ${stage.kinds}${stage.recompute ? " (recomputed)" : ""}`,
      `${timeText(action.start)} to ${timeText(action.end)}: takes ${timeText(action.end - action.start)}`,
    ];
    const forward = action.kind === "F";
    const next = action.kind === "W" ? null : forward ? where.get(`${action.stage + 1}F${action.microbatch}`) : back(action.stage - 1, action.microbatch);
    if (next && next.rank !== action.rank) {
      const lag = forward ? stage.forward_ns : stage.backward_ns, bytes = forward ? stage.output : stage.input;
      lines.push(`sends ${bytes ? `${sizeText(bytes)} ` : ""}to rank ${next.rank}, there after ${timeText(lag)}; used by ${next.name} at ${timeText(next.start)}`);
    }
    const at = plan.ranks[action.rank].actions.indexOf(action);
    const wait = action.start - (at ? rank.actions[at - 1].end : 0);
    if (wait > 0) lines.push(`the rank was idle for ${timeText(wait)} before it`);
    if (hasMemory) lines.push(heldText(rank, action.start));
    return lines;
  }

  function heldText(rank, time) {
    const held = rank.memory.held[lastBefore(rank.memory.at, time)];
    return `rank holds ${gib(held)}${rank.limit === null ? "" : ` of ${gib(rank.limit)}`}`;
  }

  function toldIdle(found) {
    const rank = plan.ranks[found.rank];
    const stepping = found.time >= rank.step_start && found.time < rank.step_end;
    const lines = [`rank ${found.rank} at ${timeText(found.time)}`];
    const actions = rank.actions, at = firstAfter(actions, found.time);
    if (stepping) lines.push(`optimizer step: ${timeText(rank.step_end - rank.step_start)}`);
    else if (at === actions.length || actions[at].start > found.time) {
      const begin = at ? actions[at - 1].end : 0, end = at < actions.length ? actions[at].start : whole;
      lines.push(`bubble: ${timeText(Math.max(end - Math.max(begin, at === actions.length ? rank.step_end : 0), 0))}${at < actions.length ? `, then ${actions[at].name}` : ""}`);
    }
    if (hasMemory) lines.push(heldText(rank, found.time));
    return lines;
  }

  // ---- beginning ----
  const button = document.querySelector('button[data-key="m"]');
  if (button) button.setAttribute("aria-pressed", String(showMemory));
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const retheme = () => { readTheme(); redraw(); };
  dark.addEventListener("change", retheme);
  new ResizeObserver(redraw).observe(chart);
  readTheme();
  draw();
})();
