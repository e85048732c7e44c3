// Files of rows in the browser: JSONL, CSV and TSV, and which of their columns are read.

import { make, show } from "./dom.js";

const DELIMITERS = [",", ";", "\t", "|"]; // of CSV: the one that the header has most of
const START = 1 << 18; // bytes that are read of a file of which a few rows are enough

/** By task and role: the title of a column, and its usual names. Labels are read from files to learn alone. */
export const ROLES = {
  text: { text: ["Text", "text"], label: ["Label", "label", "gold_label"] },
  pair: {
    text: ["First text", "premise", "sentence1"], pair: ["Second text", "hypothesis", "sentence2"],
    label: ["Label", "label", "gold_label"],
  },
  reply: { text: ["Message", "message", "text", "prompt", "question"], reply: ["Reply", "response", "reply", "answer"] },
};
const LEARNED = ["label", "reply"]; // roles of what a model predicts

/** The columns and rows of a file; of `start` only the first ones. */
export async function readTable(file, start = false) {
  const isCut = start && file.size > START;
  let text = await (isCut ? file.slice(0, START) : file).text();
  if (isCut) text = text.slice(0, text.lastIndexOf("\n") + 1);
  if (!isCut && text.includes("\ufffd")) throw new Error("The file is not in UTF-8. Save it as UTF-8, and choose it again.");
  text = text.replace(/^\ufeff/, "");
  const rows = /\.jsonl$/i.test(file.name) ? objects(text) : named(/\.tsv$/i.test(file.name)
    ? text.split(/\r?\n/).filter(Boolean).map((line) => line.split("\t")) : records(text));
  if (!rows.length) throw new Error("The file has no rows.");
  return { columns: Object.keys(rows[0]), rows };
}

function objects(text) {
  return text.split("\n").map((line, at) => [line.trim(), at + 1]).filter(([line]) => line).map(([line, number]) => {
    try {
      const row = JSON.parse(line);
      if (row && typeof row === "object" && !Array.isArray(row)) return row;
    } catch { /* said below */ }
    throw new Error(`Line ${number} is no JSON object.`);
  });
}

function named([header, ...rows]) {
  return rows.map((cells, at) => {
    if (cells.length !== header.length) throw new Error(`Row ${at + 1} has ${cells.length} fields, the header ${header.length}.`);
    return Object.fromEntries(cells.map((cell, column) => [header[column].trim(), cell]));
  });
}

/** The records of a CSV text, with quotes and line breaks within them. */
function records(text) {
  const header = text.split("\n", 1)[0], count = (letter) => header.split(letter).length;
  const delimiter = DELIMITERS.reduce((a, b) => (count(b) > count(a) ? b : a));
  const found = [];
  let row = [], cell = "", quoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at];
    if (quoted && letter === '"' && text[at + 1] === '"') { cell += letter; at += 1; }
    else if (letter === '"' && (quoted || !cell)) quoted = !quoted;
    else if (quoted) cell += letter;
    else if (letter === delimiter) { row.push(cell); cell = ""; }
    else if (letter === "\n") { found.push([...row, cell.replace(/\r$/, "")]); row = []; cell = ""; }
    else cell += letter;
  }
  if (quoted) throw new Error("A quote in the file is never closed.");
  if (cell || row.length) found.push([...row, cell]);
  return found.filter((one) => one.length > 1 || one[0]);
}

/** Rows as CSV, for a program or a spreadsheet. */
export function toCsv(columns, rows) {
  const field = (value) => {
    const text = value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows.map((row) => columns.map((name) => row[name]))].map((cells) => `${cells.map(field).join(",")}\r\n`).join("");
}

/** Let the user choose a column for each role; those with usual names are chosen. Returns what gives the choice, or
 * null until it is complete: the form is not sent before. `onChoice` is called whenever it is complete. */
export function chooseColumns(place, table, task, learned, onChoice) {
  const roles = Object.entries(ROLES[task]).filter(([role]) => learned || !LEARNED.includes(role));
  const selects = roles.map(([role, [title, ...usual]]) => {
    const chosen = usual.find((name) => table.columns.includes(name));
    const select = make("select", { id: `${place.id}-${role}`, required: true, change: look }, make("option", { value: "" }, "choose …"),
      table.columns.map((name) => make("option", { value: name, selected: name === chosen }, name)));
    return [role, select, make("p", {}, make("label", { for: select.id }, `Column: ${title.toLowerCase()}`), select)];
  });
  const choice = () => (selects.every(([, select]) => select.value)
    ? Object.fromEntries(selects.map(([role, select]) => [role, select.value])) : null);
  function look() {
    const found = choice();
    place.classList.toggle("asks", !found);
    if (found) onChoice(found);
  }
  show(place, make("div", { class: "chosen-columns" }, selects.map(([, , row]) => row)));
  look();
  return choice;
}

/** The input for the model in a row, by the columns that are chosen. */
export const inputOf = (row, columns, task) => (task === "pair"
  ? { premise: String(row[columns.text] ?? ""), hypothesis: String(row[columns.pair] ?? "") }
  : { [task === "reply" ? "message" : "text"]: String(row[columns.text] ?? "") });
