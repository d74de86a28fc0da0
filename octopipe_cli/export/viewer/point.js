// What is told of the place the pointer is at.

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
