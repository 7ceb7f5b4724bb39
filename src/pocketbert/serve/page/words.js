// Which words mattered: coloured by how much the label's probability falls without them.
import { byId, element, percent } from "./dom.js";

const STRONG = 0.25; // a fall of so much is drawn in full colour

export function drawWords(answer) {
  const place = byId("pieces");
  place.replaceChildren();
  const all = answer.pieces.flat().filter((piece) => piece.importance !== null);
  const highest = Math.max(0, ...all.map((piece) => piece.importance));
  for (const pieces of answer.pieces) {
    const text = element("span", "text");
    for (const piece of pieces) {
      if (piece.importance === null) {
        text.append(piece.text);
        continue;
      }
      const word = element("span", "word", piece.text);
      word.tabIndex = 0;
      word.style.setProperty("--strength", Math.min(1, Math.abs(piece.importance) / STRONG).toFixed(3));
      word.classList.toggle("against", piece.importance < -0.005);
      word.classList.toggle("top", piece.importance > 0.005 && piece.importance === highest);
      const show = () => { byId("piece").textContent = sentence(answer, piece); };
      word.addEventListener("pointerenter", show);
      word.addEventListener("focus", show);
      text.append(word);
    }
    place.append(text);
  }
  const telling = all.reduce((best, piece) => (best === null || piece.importance > best.importance ? piece : best), null);
  byId("piece").textContent = telling ? sentence(answer, telling) : "A single word: there is nothing left without it.";
}

function sentence(answer, piece) {
  const points = (100 * Math.abs(piece.importance)).toFixed(1);
  const way = piece.importance >= 0 ? "falls" : "rises";
  const before = percent(answer.probability), after = percent(answer.probability - piece.importance);
  return `Without “${piece.text}” the probability of ${answer.label} ${way} by ${points} points, from ${before} to ${after}.`;
}
