// What a rank holds over time.

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
