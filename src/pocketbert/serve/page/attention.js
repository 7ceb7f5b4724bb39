// Attention by layer and head: thumbnails of all heads, and a map of one that can be pointed at or walked with the arrows.
import { byId, element, option, percent, say } from "./dom.js";

const GAP = 6;
let answer = null, head = 0, cell = [0, 0], ask = () => {};

export function layer() { return Number(byId("layer").value) || 0; }

export function setUpAttention(again) {
  ask = again;
  byId("layer").addEventListener("change", () => ask());
  const map = byId("map");
  map.addEventListener("pointermove", (event) => point(at(event)));
  map.addEventListener("pointerdown", (event) => point(at(event)));
  map.addEventListener("focus", () => draw());
  map.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step || !answer) return;
    event.preventDefault();
    const last = answer.tokens.length - 1;
    point([0, 1].map((axis) => Math.max(0, Math.min(last, cell[axis] + step[axis]))));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => answer && drawAttention(answer));
  addEventListener("resize", () => draw());
}

// The layers that a model has; those of another one may be fewer.
export function setLayers(count) {
  const select = byId("layer"), before = Number(select.value) || 0;
  select.replaceChildren();
  for (let number = 0; number < (count ?? 0); number++) option(select, number, `${number + 1} of ${count}`);
  select.value = String(Math.min(before, Math.max(0, (count ?? 1) - 1)));
}

export function noAttention(message) {
  answer = null;
  byId("heads").replaceChildren();
  byId("cell").textContent = "";
  byId("map").hidden = true;
  say(byId("attention-message"), message);
}

export function drawAttention(given) {
  const sameShape = answer && answer.heads === given.heads;
  answer = given;
  if (!sameShape) head = 0;
  if (cell.some((place) => place >= given.tokens.length)) cell = [0, 0];
  say(byId("attention-message"), null);
  byId("map").hidden = false;
  const heads = byId("heads");
  if (!sameShape || heads.childElementCount !== given.heads) {
    heads.replaceChildren();
    given.maps.forEach((_, number) => {
      const button = element("button");
      button.type = "button";
      button.append(element("canvas"), element("span", "", `Head ${number + 1}`));
      button.addEventListener("click", () => { head = number; draw(); });
      heads.append(button);
    });
  }
  given.maps.forEach((map, number) => thumbnail(heads.children[number].firstChild, map));
  draw();
}

function colour(share) {
  const rgb = getComputedStyle(document.documentElement).getPropertyValue("--accent-rgb").trim().split(" ");
  return `rgba(${rgb.join(",")},${Math.sqrt(share)})`;
}

function thumbnail(canvas, map) {
  canvas.width = canvas.height = map.length;
  const paint = canvas.getContext("2d");
  map.forEach((row, y) => row.forEach((share, x) => {
    paint.fillStyle = colour(share);
    paint.fillRect(x, y, 1, 1);
  }));
}

function draw() {
  if (!answer) return;
  [...byId("heads").children].forEach((button, number) => button.setAttribute("aria-pressed", String(number === head)));
  const canvas = byId("map"), paint = canvas.getContext("2d"), ratio = devicePixelRatio || 1;
  const style = getComputedStyle(document.body), count = answer.tokens.length;
  const font = `13px ${style.fontFamily}`;
  paint.font = font;
  const margin = Math.ceil(Math.min(110, Math.max(...answer.tokens.map((token) => paint.measureText(token).width)))) + GAP;
  const room = canvas.parentElement.clientWidth - margin - 8;
  const size = Math.max(16, Math.min(40, Math.floor(room / count)));
  Object.assign(canvas.dataset, { margin, size });
  const side = margin + size * count + 2;
  canvas.width = canvas.height = side * ratio;
  canvas.style.width = canvas.style.height = `${side}px`;
  paint.scale(ratio, ratio);
  paint.font = font;
  const faint = style.getPropertyValue("--sunk"), ink = style.getPropertyValue("--ink"), muted = style.getPropertyValue("--muted");
  answer.maps[head].forEach((row, y) => row.forEach((share, x) => {
    const corner = [margin + x * size, margin + y * size, size - 1, size - 1];
    paint.fillStyle = faint;
    paint.fillRect(...corner);
    paint.fillStyle = colour(share);
    paint.fillRect(...corner);
  }));
  answer.tokens.forEach((token, place) => {
    const middle = margin + place * size + size / 2;
    paint.textBaseline = "middle";
    paint.textAlign = "right";
    paint.fillStyle = place === cell[0] ? ink : muted;
    paint.fillText(token, margin - GAP, middle, margin - GAP);
    paint.save();
    paint.translate(middle, margin - GAP);
    paint.rotate(-Math.PI / 2);
    paint.textAlign = "left";
    paint.fillStyle = place === cell[1] ? ink : muted;
    paint.fillText(token, 0, 0, margin - GAP);
    paint.restore();
  });
  paint.strokeStyle = ink;
  paint.lineWidth = 2;
  paint.strokeRect(margin + cell[1] * size, margin + cell[0] * size, size - 1, size - 1);
  const [from, to] = cell;
  byId("cell").textContent = `Head ${head + 1}: “${answer.tokens[from]}” attends to “${answer.tokens[to]}” with ${percent(answer.maps[head][from][to])}.`;
}

function at(event) {
  const { margin, size } = event.target.dataset;
  return [event.offsetY, event.offsetX].map((place) => Math.floor((place - margin) / size));
}

function point(place) {
  if (!answer || place.some((one) => one < 0 || one >= answer.tokens.length)) return;
  if (place[0] === cell[0] && place[1] === cell[1]) return;
  cell = place;
  draw();
}
