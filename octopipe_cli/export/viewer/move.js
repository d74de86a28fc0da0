// Zooming and moving, by wheel, pointer and keys.

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
