// What is drawn, made ready: the plan, where each action is and what it waits for. Times are in ns, sizes in bytes.
// These files are one script, joined in the order of html.py, inside one function; no libraries, no network.

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
const twoTones = plan.ranks.some((rank) => rank.stages.length > 1);
const hasMemory = plan.ranks.some((rank) => rank.peak > 0);
const view = { from: 0, to: whole };
let showMemory = hasMemory && most <= 16, hovered = null, pinned = null, marked = null;
let width = 0, theme = {}, hatch = null, waiting = false;

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
