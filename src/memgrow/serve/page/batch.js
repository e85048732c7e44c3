// "Many texts at once": a file in, and the same rows with their answers out as CSV.

import { addExamples } from "./answer.js";
import { byId, make, say, show } from "./dom.js";
import { post } from "./service.js";
import { chooseColumns, inputOf, readTable, toCsv } from "./table.js";

const MOST = 256, LONGEST = 400_000; // inputs and characters of a request, within the limits of the service
let task = "text", table = null, chosen = null, address = null;

export const setTask = (name) => { task = name; };

export function startBatch() {
  byId("batch-file").addEventListener("change", () => open().catch((error) => say(byId("batch-result"), error.message, true)));
  byId("batch").addEventListener("submit", (event) => {
    event.preventDefault();
    answerAll();
  });
}

async function open() {
  const file = byId("batch-file").files[0];
  table = null;
  say(byId("batch-result"), null);
  show(byId("batch-columns"));
  if (!file) return;
  table = await readTable(file);
  chosen = chooseColumns(byId("batch-columns"), table, task, false, (columns) => addExamples(table.rows, columns));
}

async function answerAll() {
  const place = byId("batch-result"), button = byId("batch-ask");
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true");
  try {
    if (!table) throw new Error("Choose a file first.");
    const columns = chosen(), inputs = table.rows.map((row) => inputOf(row, columns, task)), rows = [];
    while (rows.length < inputs.length) {
      say(place, `${rows.length.toLocaleString()} of ${inputs.length.toLocaleString()} rows are answered …`);
      const first = rows.length, found = await ask(inputs, first);
      found.predictions.forEach((one, at) => rows.push({ ...table.rows[first + at], ...added(one, found) }));
    }
    offer(place, rows);
  } catch (error) {
    say(place, error.message, true);
  } finally {
    button.removeAttribute("aria-disabled");
  }
}

/** Answers to as many inputs from the first on as a request may have. */
async function ask(inputs, first) {
  let last = first, size = 0;
  while (last < inputs.length && last - first < MOST && (last === first || size < LONGEST)) {
    size += JSON.stringify(inputs[last]).length;
    last += 1;
  }
  try {
    return await post("predict", { inputs: inputs.slice(first, last), top_k: 1 });
  } catch (error) { // the service counts from the first input of the request
    error.message = error.message.replace(/\binput (\d+)/i, (_, number) => `Row ${first + Number(number)}`);
    throw error;
  }
}

const added = (one, found) => ({
  ...("reply" in one ? { predicted: one.reply } : { predicted: one.label, probability: one.probabilities[one.label].toFixed(4) }),
  version: found.version,
});

function offer(place, rows) {
  const columns = [...new Set([...table.columns, ...Object.keys(rows[0])])], versions = [...new Set(rows.map((row) => row.version))];
  if (address) URL.revokeObjectURL(address);
  address = URL.createObjectURL(new Blob([toCsv(columns, rows)], { type: "text/csv" }));
  const name = byId("batch-file").files[0].name.replace(/\.\w+$/, "");
  say(place, `${rows.length.toLocaleString()} rows are answered by version ${versions.join(" and ")}. `);
  place.append(make("a", { href: address, download: `${name}-answers.csv` }, "Save as CSV"));
}
