// The beginning: everything is known from here on.

const button = document.querySelector('button[data-key="m"]');
if (button) button.setAttribute("aria-pressed", String(showMemory));
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const retheme = () => { readTheme(); redraw(); };
dark.addEventListener("change", retheme);
new ResizeObserver(redraw).observe(chart);
readTheme();
draw();
