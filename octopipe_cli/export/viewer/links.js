// What an action waits for and what waits for it.

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
