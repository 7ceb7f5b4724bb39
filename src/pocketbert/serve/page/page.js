// The page: what is typed is asked, what is asked last is shown, and of the tabs only the open one is kept up to date.
import { Refusal, ask, askPatiently, hasToken, useToken } from "./api.js";
import { drawAttention, layer, noAttention, setLayers, setUpAttention } from "./attention.js";
import { byId, drawBars, element, option, percent, say } from "./dom.js";
import { setFileModel, setUpFile } from "./file.js";
import { drawWords } from "./words.js";

const WAIT = 120; // milliseconds without a key, before the model is asked
const EXAMPLES = [["She gives a warm, funny performance in a film that never drags."], ["A man is playing a guitar on a stage.", "She is making music."]];

let models = [], limits = {}, current = null, timer = 0, asking = new AbortController();

const typed = () => (current.pair ? [byId("text").value, byId("text2").value] : byId("text").value);
const isBlank = (text) => [text].flat().some((one) => !one.trim());

async function start() {
  let known;
  try {
    known = await (await ask("/v1/models")).json();
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) {
      byId("token-form").hidden = false;
      if (hasToken()) byId("token").setCustomValidity("not this one");
      byId("token").reportValidity();
      byId("token").focus();
    } else {
      byId("try").hidden = false;
      say(byId("message"), `The service does not answer: ${error.message}`);
    }
    return;
  }
  ({ models, limits } = known);
  byId("token-form").hidden = true;
  byId("try").hidden = byId("more").hidden = false;
  for (const model of models) option(byId("model"), model.name, model.name);
  choose(models[0].name);
}

function choose(name) {
  const pairBefore = current?.pair;
  current = models.find((model) => model.name === name);
  byId("second").hidden = !current.pair;
  byId("text-label").textContent = current.pair ? "First text" : "Text";
  if (pairBefore !== current.pair) {
    const [first, second = ""] = EXAMPLES[current.pair ? 1 : 0];
    byId("text").value = first;
    byId("text2").value = second;
  }
  byId("about-model").textContent = describe(current);
  byId("report").hidden = !current.report;
  if (current.report) byId("report").href = current.report;
  setLayers(current.layers);
  setFileModel(current, limits);
  const others = models.filter((model) => model.pair === current.pair && model !== current);
  const select = byId("other"), before = select.value;
  select.replaceChildren();
  for (const model of others) option(select, model.name, model.name);
  if (others.some((model) => model.name === before)) select.value = before;
  select.disabled = !others.length;
  update();
}

function describe(model) {
  const parts = [`${model.method}${model.model ? ` ${model.model}` : ""} on ${model.task}`];
  if (model.accuracy) {
    const { accuracy, low, high, split, rows } = model.accuracy;
    parts.push(`accuracy ${percent(accuracy)} (95 % interval ${(100 * low).toFixed(1)} to ${percent(high)}) on ${rows.toLocaleString("en")} texts of its ${split} split`);
  }
  if (model.max_length) parts.push(`reads ${model.max_length} tokens`);
  return `${parts.join("; ")}.`;
}

// The newest question wins: what was asked before it is given up.
function update() {
  clearTimeout(timer);
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  const predicted = showPrediction(signal);
  run(signal, byId("message"), () => predicted);
  run(signal, byId("message"), () => showTab(signal, predicted));
}

async function run(signal, place, work) {
  try {
    await work();
    if (!signal.aborted) say(place, null);
  } catch (error) {
    if (!signal.aborted && error.name !== "AbortError") say(place, error.message);
  }
}

async function showPrediction(signal) {
  const text = typed(), model = current;
  if (isBlank(text)) {
    drawBars(byId("prediction"), { label: null, probabilities: null }, model.labels);
    byId("read").textContent = "Nothing to read yet.";
    return null;
  }
  const { predictions: [prediction] } = await askPatiently("/v1/predict", { texts: [text], model: model.name }, signal, 5);
  if (signal.aborted) return null;
  drawBars(byId("prediction"), prediction, model.labels);
  const unit = model.max_length ? "tokens" : "words";
  const cut = prediction.truncated ? "; the text is longer than the model reads, the rest was left out" : "";
  byId("read").textContent = `${prediction.tokens.toLocaleString("en")} ${unit} read${cut}.`;
  return prediction;
}

const TABS = {
  words: async (signal) => {
    const text = typed();
    if (isBlank(text)) { byId("pieces").replaceChildren(); byId("piece").textContent = ""; return; }
    const answer = await askPatiently("/v1/explain", { text, model: current.name }, signal, 5);
    if (!signal.aborted) drawWords(answer);
  },
  attention: async (signal, predicted) => {
    if (!current.layers) return noAttention(`${current.name} has no attention: its method is ${current.method}.`);
    if (isBlank(typed())) return noAttention(null);
    const prediction = await predicted;
    if (!prediction) return undefined;
    const most = limits.attention_tokens;
    if (prediction.tokens > most) return noAttention(`${prediction.tokens} tokens; a map is drawn for up to ${most}.`);
    const answer = await askPatiently("/v1/attention", { text: typed(), model: current.name, layer: layer() }, signal, 5);
    if (!signal.aborted) drawAttention(answer);
    return undefined;
  },
  swap: async (signal) => {
    if (isBlank(typed())) { byId("swap-sides").replaceChildren(); return; }
    const model = current;
    const { original, swapped } = await askPatiently("/v1/swap", { text: typed(), model: model.name }, signal, 5);
    if (signal.aborted) return;
    if (!swapped) {
      byId("swap-sides").replaceChildren(element("p", "", "There is no he, she, him, her, his or hers in it to swap."));
      return;
    }
    const sides = [["As typed", original, swapped], ["Swapped", swapped, original]].map(([title, one, other]) => side(title, one.prediction, model, quoted(one.text, other.text)));
    const before = original.prediction, after = swapped.prediction;
    const change = 100 * (after.probabilities[before.label] - before.probabilities[before.label]);
    const by = Math.abs(change) < 0.05 ? "less than 0.1 points" : `${change > 0 ? "+" : "−"}${Math.abs(change).toFixed(1)} points`;
    const flips = before.label === after.label ? "The label stays" : `The label changes to ${after.label}`;
    byId("swap-sides").replaceChildren(...sides, element("p", "", `${flips}; the probability of ${before.label} changes by ${by}.`));
  },
  compare: async (signal) => {
    const other = models.find((model) => model.name === byId("other").value), place = byId("compare-sides");
    if (!other) {
      place.replaceChildren(element("p", "", "No other model of this kind is loaded. To compare: pocketbert serve RUN RUN"));
      return;
    }
    if (isBlank(typed())) { place.replaceChildren(); return; }
    const pair = [current, other];
    const answers = await Promise.all(pair.map((model) => askPatiently("/v1/predict", { texts: [typed()], model: model.name }, signal, 5)));
    if (signal.aborted) return;
    const sides = pair.map((model, number) => side(model.name, answers[number].predictions[0], model));
    const [first, second] = answers.map((answer) => answer.predictions[0].label);
    const verdict = first === second ? `Both say ${first}.` : `${current.name} says ${first}, ${other.name} says ${second}.`;
    place.replaceChildren(...sides, element("p", "", verdict));
  },
  file: async () => {},
};

function showTab(signal, predicted) {
  const open = document.querySelector('[role="tab"][aria-selected="true"]').getAttribute("aria-controls");
  return TABS[open](signal, predicted);
}

function side(title, prediction, model, quote) {
  const made = element("div", "side"), bars = element("div", "bars");
  made.append(element("h3", "", title));
  if (quote) made.append(quote);
  drawBars(bars, prediction, model.labels);
  made.append(bars);
  return made;
}

// A text with the words marked in which it differs from the other.
function quoted(text, other) {
  const made = element("blockquote");
  const split = (one) => [one].flat().join("\n").split(/(\s+|[^\p{L}\p{N}]+)/u);
  const others = split(other);
  split(text).forEach((part, number) => made.append(part === others[number] ? part : element("mark", "", part)));
  return made;
}

function setUpTabs() {
  const tabs = [...document.querySelectorAll('[role="tab"]')];
  const open = (tab) => {
    for (const one of tabs) {
      const chosen = one === tab;
      one.setAttribute("aria-selected", String(chosen));
      one.tabIndex = chosen ? 0 : -1;
      byId(one.getAttribute("aria-controls")).hidden = !chosen;
    }
    update();
  };
  tabs.forEach((tab, number) => {
    tab.addEventListener("click", () => open(tab));
    tab.addEventListener("keydown", (event) => {
      const next = { ArrowRight: number + 1, ArrowLeft: number - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      const chosen = tabs[(next + tabs.length) % tabs.length];
      chosen.focus();
      open(chosen);
    });
  });
}

// With a token a plain link would be refused: the report is fetched with it, and saved.
async function saveReport(event) {
  if (!hasToken()) return;
  event.preventDefault();
  try {
    const content = await (await ask(current.report)).blob();
    const link = Object.assign(element("a"), { href: URL.createObjectURL(content), download: `${current.name}.report.html` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  } catch (error) {
    say(byId("message"), error.message);
  }
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(byId("token").value.trim());
  start();
});
byId("token").addEventListener("input", () => byId("token").setCustomValidity(""));
byId("model").addEventListener("change", (event) => choose(event.target.value));
byId("other").addEventListener("change", update);
byId("report").addEventListener("click", saveReport);
for (const id of ["text", "text2"]) {
  byId(id).addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(update, WAIT);
  });
}
setUpTabs();
setUpAttention(update);
setUpFile();
start();
