// A CSV in, the same with predictions out, in parts that the service takes, with a bar that says how far it is.
import { askPatiently } from "./api.js";
import { csvLine, parseCsv } from "./csv.js";
import { byId, option } from "./dom.js";

const MOST_READ = 100_000; // characters that the service reads of a text
const PART_CHARACTERS = 200_000; // in one request, so that it is far below the bytes that the service takes
const PART_ROWS = 200;
const MOST_BYTES = 200_000_000; // the browser holds it all

let table = null, name = "", running = null, model = null, limits = {}, link = null;

export function setFileModel(chosen, known) {
  model = chosen;
  limits = known;
  if (table) choose();
}

export function setUpFile() {
  byId("csv").addEventListener("click", (event) => { event.target.value = ""; }); // the same file again is a choice, too
  byId("csv").addEventListener("change", async (event) => {
    const file = event.target.files[0];
    reset();
    if (!file) return;
    try {
      if (file.size > MOST_BYTES) throw new Error("it is larger than a page can hold; use the command: pocketbert predict");
      name = file.name;
      table = parseCsv(new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer()));
      choose();
    } catch (error) {
      say(`${file.name} cannot be read: ${error instanceof TypeError ? "it is not UTF-8" : error.message}`);
    }
  });
  byId("start").addEventListener("click", start);
  byId("stop").addEventListener("click", () => running?.abort());
}

function say(message) { byId("file-message").textContent = message; }

function reset() {
  running?.abort();
  table = null;
  say("");
  byId("csv-options").hidden = true;
  byId("progress").hidden = true;
  forget();
}

function forget() {
  if (link) URL.revokeObjectURL(link);
  link = null;
  byId("download").hidden = true;
}

// The columns that the model learnt from, where the file has them; else the one with most text.
function choose() {
  const second = byId("column2-part");
  second.hidden = !model.pair;
  const size = (column) => table.rows.slice(0, 100).reduce((sum, row) => sum + row[column].length, 0);
  const longest = table.names.map((_, column) => column).sort((a, b) => size(b) - size(a));
  ["column", "column2"].forEach((id, number) => {
    const select = byId(id);
    select.replaceChildren();
    table.names.forEach((column, place) => option(select, place, column || `column ${place + 1}`));
    const learnt = table.names.indexOf(model.columns[number] ?? (number ? "text2" : "text"));
    select.value = String(learnt >= 0 ? learnt : longest[Math.min(number, longest.length - 1)]);
  });
  byId("csv-options").hidden = false;
  forget();
  say(`${table.rows.length.toLocaleString("en")} rows.`);
}

function* parts(columns) {
  let rows = [], size = 0;
  for (const row of table.rows) {
    const texts = columns.map((column) => row[column].slice(0, MOST_READ + 1));
    const length = texts.reduce((sum, text) => sum + text.length, 0);
    if (rows.length && (rows.length >= Math.min(PART_ROWS, limits.texts ?? PART_ROWS) || size + length > PART_CHARACTERS)) {
      yield rows;
      [rows, size] = [[], 0];
    }
    rows.push(model.pair ? texts : texts[0]);
    size += length;
  }
  if (rows.length) yield rows;
}

async function start() {
  const added = ["prediction", ...model.probability_columns];
  const taken = added.find((column) => table.names.includes(column));
  if (taken) return say(`It already has a column “${taken}”; rename or remove it first.`);
  const columns = [byId("column"), byId("column2")].slice(0, model.pair ? 2 : 1).map((select) => Number(select.value));
  const safe = byId("safe").checked, asked = model, bar = byId("progress"), total = table.rows.length;
  const lines = [csvLine([...table.names, ...added], safe)];
  let done = 0, empty = 0;
  running = new AbortController();
  forget();
  Object.assign(bar, { hidden: false, value: 0 });
  byId("start").disabled = true;
  byId("stop").hidden = false;
  try {
    for (const texts of parts(columns)) {
      const { predictions } = await askPatiently("/v1/predict", { texts, model: asked.name }, running.signal);
      for (const { label, probabilities } of predictions) {
        const shares = asked.labels.map((one) => (probabilities ? probabilities[one].toFixed(6) : ""));
        lines.push(csvLine([...table.rows[done], label ?? "", ...shares], safe));
        empty += label === null;
        done++;
      }
      bar.value = done / total;
      say(`${done.toLocaleString("en")} of ${total.toLocaleString("en")} rows.`);
    }
    link = URL.createObjectURL(new Blob(lines, { type: "text/csv" }));
    Object.assign(byId("download"), { href: link, download: `${name.replace(/\.[^.]*$/, "")}.predicted.csv`, hidden: false });
    const without = empty ? ` ${empty.toLocaleString("en")} without a text have no prediction.` : "";
    say(`All ${total.toLocaleString("en")} rows, by ${asked.name}.${without}`);
    bar.value = 1;
  } catch (error) {
    const why = error.name === "AbortError" ? "stopped" : error.message;
    say(`After ${done.toLocaleString("en")} of ${total.toLocaleString("en")} rows: ${why}.`);
  } finally {
    running = null;
    byId("start").disabled = false;
    byId("stop").hidden = true;
  }
}
