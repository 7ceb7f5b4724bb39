// CSV, in and out: quotes, line ends and delimiters as spreadsheets write them.

export function parseCsv(text) {
  const whole = text.replace(/^\ufeff/, "");
  const header = whole.split(/\r?\n/, 1)[0];
  const count = (mark) => header.split(mark).length;
  const delimiter = [",", ";", "\t"].reduce((best, mark) => (count(mark) > count(best) ? mark : best));
  const rows = [];
  let row = [], cell = "", quoted = false, place = 0;
  const special = new RegExp(`["\\r\\n${delimiter === "\t" ? "\\t" : delimiter}]`, "g");
  while (place < whole.length) {
    if (quoted) {
      const end = whole.indexOf('"', place);
      if (end < 0) throw new Error(`row ${rows.length + 1}: a quoted cell does not end`);
      cell += whole.slice(place, end);
      if (whole[end + 1] === '"') { cell += '"'; place = end + 2; } else { quoted = false; place = end + 1; }
      continue;
    }
    special.lastIndex = place;
    const found = special.exec(whole), end = found ? found.index : whole.length;
    cell += whole.slice(place, end);
    place = end + 1;
    const mark = whole[end];
    if (mark === '"') {
      if (cell === "") quoted = true; else cell += '"';
    } else if (mark === delimiter) {
      row.push(cell);
      cell = "";
    } else if (mark !== undefined) {
      if (mark === "\r" && whole[end + 1] === "\n") place++;
      row.push(cell);
      rows.push(row);
      row = [];
      cell = "";
    }
  }
  if (quoted) throw new Error(`row ${rows.length + 1}: a quoted cell does not end`);
  if (cell !== "" || row.length) { row.push(cell); rows.push(row); }
  const [names, ...others] = rows.filter((one) => one.length > 1 || one[0] !== "");
  if (!names) throw new Error("there is nothing in it");
  const bad = others.findIndex((one) => one.length > names.length);
  if (bad >= 0) throw new Error(`row ${bad + 2} has ${others[bad].length} cells, the header ${names.length}`);
  for (const one of others) while (one.length < names.length) one.push("");
  return { names, rows: others };
}

export function csvLine(cells, safe) {
  return cells.map((cell) => {
    const text = safe && /^[=+\-@\t\r]/.test(cell) && !/^[+-]?[\d.]+(e[+-]?\d+)?$/i.test(cell) ? `'${cell}` : cell;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }).join(",") + "\n";
}
