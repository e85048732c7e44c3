// "Try it": a text, a pair or a message and the answer, which is asked again of every new version.

import { byId, make, percent, say, show } from "./dom.js";
import { colourOf, numberOf } from "./domains.js";
import { post } from "./service.js";
import { inputOf } from "./table.js";

const FIELDS = { // by task: the field of an input, and what stands above it
  text: [["text", "Text"]],
  pair: [["premise", "First text (premise)"], ["hypothesis", "Second text (hypothesis)"]],
  reply: [["message", "Message"]],
};
const TEXTS = { text: ["Words"], pair: ["First text", "Second text"], reply: ["Message", "Reply"] };
const ABOVE = 0.5; // a share that is so much larger than an even one, in parts of that, has the full colour
const FAINT = 0.1; // of the full colour: below it a word is not coloured
const MOST = 12; // bars of labels that are shown at once
const REMEMBERED = 50; // texts that are asked again of a new version
const EXAMPLES = { // to try before the user has a text at hand
  text: [["I would buy this again."], ["It broke after two days, and nobody answers."], ["A slow start, but a wonderful ending."]],
  pair: [["A man plays the guitar on a stage.", "Someone makes music."], ["The soup was cold.", "The soup was hot."]],
  reply: [["Hello, how are you?"], ["Where is the station?"]],
};
const FROM_FILE = 3; // examples that a chosen file adds
let task = null;
let model = null; // the card of the version that is served
let asked = 0; // so that the answer to an older question never replaces that to a newer one
let latest = null; // the input whose answer is shown
const memory = new Map(); // by input: the answer of the version that was asked last

export function startAsking(onAnswer) {
  byId("try").addEventListener("submit", (event) => {
    event.preventDefault();
    ask(Object.fromEntries(FIELDS[task].map(([name]) => [name, byId(`input-${name}`).value]))).then(onAnswer);
  });
}

/** The fields that this kind of model reads; what has been typed stays. Another version is asked again. */
export async function showModel(card) {
  const isOther = model !== null && model.digest !== card.digest;
  model = card;
  byId("ask").disabled = false;
  if (isOther) await askAgain();
  if (task === card.task) return;
  task = card.task in FIELDS ? card.task : "text";
  show(byId("inputs"), FIELDS[task].map(([name, title]) => make("p", {},
    make("label", { for: `input-${name}` }, title),
    make("textarea", { id: `input-${name}`, name, rows: 3, required: true, keydown: submitOnEnter }))));
  showExamples(EXAMPLES[task]);
}

function submitOnEnter(event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("try").requestSubmit();
}

function showExamples(examples) {
  show(byId("examples"), "Examples: ", examples.map((texts) => make("button", { type: "button", class: "quiet example",
    title: texts.join(" | "), click: () => {
      FIELDS[task].forEach(([name], at) => { byId(`input-${name}`).value = texts[at] ?? ""; });
      byId("try").requestSubmit();
    } }, texts.join(" | "))));
}

/** The first texts of a file that the user has chosen; they stay in the browser until one is asked. */
export function addExamples(rows, columns) {
  const texts = rows.slice(0, FROM_FILE).map((row) => Object.values(inputOf(row, columns, task)));
  showExamples([...texts.filter((one) => one.every((text) => text.trim())), ...EXAMPLES[task]].slice(0, 2 * FROM_FILE));
}

async function ask(input) {
  const question = ++asked, place = byId("answer");
  byId("ask").setAttribute("aria-busy", "true");
  try {
    const found = await post("explain", { input });
    if (question !== asked) return;
    latest = input;
    remember(input, found, found);
    show(place, answer(found), words(found));
  } catch (error) {
    if (question === asked) say(place.appendChild(emptied(place)), error.message, true);
  } finally {
    if (question === asked) byId("ask").removeAttribute("aria-busy");
  }
}

function remember(input, one, { version, digest }) {
  const key = JSON.stringify(input);
  memory.delete(key); // the latest last
  memory.set(key, { input, version, digest, said: one.reply ?? one.label, share: one.probabilities?.[one.label] });
  if (memory.size > REMEMBERED) memory.delete(memory.keys().next().value);
}

/** Ask the version that is served now what earlier ones were asked, and show which answers differ. */
async function askAgain() {
  const before = [...memory.values()], place = byId("changed");
  if (!before.length) return;
  const found = await post("predict", { inputs: before.map((one) => one.input), top_k: 1 });
  before.forEach((one, at) => remember(one.input, found.predictions[at], found));
  const now = before.map((one) => memory.get(JSON.stringify(one.input)));
  const rows = before.map((one, at) => [one, now[at]]).filter(([old, current]) => old.said !== current.said);
  show(place, make("h3", {}, "Your texts, asked again"),
    make("p", {}, `Version ${found.version}: ${rows.length} of ${before.length} ${before.length === 1 ? "answer differs" : "answers differ"}.`),
    rows.length ? make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Texts whose answer differs" },
      make("table", { class: "plain" },
        make("thead", {}, make("tr", {}, ["text", "before", "now"].map((title) => make("th", { scope: "col" }, title)))),
        make("tbody", {}, rows.map(([old, current]) => make("tr", {},
          make("th", { scope: "row" }, Object.values(old.input).join(" | ")), said(old), said(current)))))) : null);
  if (latest) await ask(latest);
}

const said = (one) => make("td", {}, one.said, make("span", { class: "hint" },
  `${one.share === undefined ? "" : ` ${percent(one.share)} %`} (version ${one.version})`));

/** Which version an answer is from: after a rollback another one may have the same number. */
export const identity = ({ version, digest }) => make("span", { class: "hint version", title: digest },
  ` by version ${version} (${digest.slice(0, 8)})`);

function emptied(place) {
  place.replaceChildren();
  return make("p", { class: "result" });
}

function answer(found) {
  if (typeof found.reply === "string") {
    return make("p", { class: "verdict" }, "Reply: ", make("strong", {}, found.reply || "(nothing)"),
      found.ended === false ? " … (cut)" : null, identity(found));
  }
  const ranked = Object.entries(found.probabilities).sort((a, b) => b[1] - a[1]);
  const rows = ranked.slice(0, MOST).map(([label, share]) => {
    const bar = make("span", { class: "bar" });
    bar.style.width = `${100 * share}%`;
    return make("tr", {},
      make("th", { scope: "row" }, label),
      make("td", { class: "track" }, bar),
      make("td", { class: "figure" }, percent(share), " %"));
  });
  return [
    make("p", { class: "verdict" }, "Label: ", make("strong", {}, found.label), identity(found)),
    make("table", { class: "bars" }, make("caption", {}, "Probability of each label"), make("tbody", {}, rows)),
    ranked.length > MOST ? make("p", { class: "hint" }, `and ${ranked.length - MOST} labels that are less probable`) : null,
  ];
}

/** The words, coloured by the domain whose slots get the largest share of their attention. */
function words(found) {
  if (!found.domains.length) return make("p", { class: "hint note" }, found.note ?? "This model has no slots.");
  // A recurrent model divides its attention among all slots. A pretrained encoder asks each domain by itself.
  const divided = found.words.every((one) => Math.abs(sum(one.shares) - 1) < 0.02);
  const titles = TEXTS[task], last = Math.max(...found.words.map((one) => one.text ?? 0), 0);
  const rows = Array.from({ length: last + 1 }, (_, text) => {
    const own = found.words.filter((one) => (one.text ?? 0) === text);
    return own.length === 0 ? null : make("p", { class: "words" },
      last > 0 ? make("span", { class: "which" }, titles[text] ?? "Text", ": ") : null,
      own.flatMap((one) => [word(one, found.domains, divided), " "]));
  });
  return make("figure", { class: "reading" },
    make("figcaption", {}, "Whose slots each word reads"),
    rows, legend(found),
    make("p", { class: "hint" }, "Colour and number: the domain that is read most; ", divided
      ? "the stronger, the more than an even share; grey: all about alike. " : "the stronger, the more. ",
    "The strip below a word: the share of each domain."),
    table(found));
}

function word(one, domains, divided) {
  const top = Math.max(...one.shares), most = domains[one.shares.indexOf(top)], even = sum(one.shares) / domains.length;
  const strength = domains.length === 1 ? 1 : divided ? (top / even - 1) / ABOVE : top;
  const plain = strength < FAINT;
  const told = domains.map((name, at) => `${name} ${percent(one.shares[at], 0)} %`).join(", ");
  const rest = divided ? 0 : Math.max(domains.length - sum(one.shares), 0);
  const strip = make("span", { class: "strip", "aria-hidden": "true" }, [...one.shares, rest].map((share, at) => {
    const part = make("span", { class: at < domains.length ? colourOf(domains[at]) : "nothing" });
    part.style.flexGrow = share;
    return part;
  }));
  const found = make("span", { class: plain ? "word" : `word ${colourOf(most)}`, title: told },
    one.word, plain ? null : make("sup", {}, numberOf(most)), strip);
  if (!plain) found.style.setProperty("--strength", `${Math.round(12 + 48 * Math.min(strength, 1))}%`);
  return found;
}

const sum = (values) => values.reduce((total, value) => total + value, 0);

function legend(found) {
  const total = found.words.length || 1;
  return make("ul", { class: "legend" }, found.domains.map((name, at) => {
    const mean = sum(found.words.map((one) => one.shares[at])) / total;
    return make("li", { class: colourOf(name) },
      make("span", { class: "swatch" }, numberOf(name)), " ", name, make("span", { class: "hint" }, ` ${percent(mean, 0)} %`));
  }));
}

/** The same in figures, for who cannot see or hover. */
function table(found) {
  const head = make("tr", {}, make("th", { scope: "col" }, "word"),
    found.domains.map((name) => make("th", { scope: "col" }, `${name}, %`)));
  const rows = found.words.map((one) => make("tr", {}, make("th", { scope: "row" }, one.word),
    one.shares.map((share) => make("td", { class: "figure" }, percent(share)))));
  return make("details", {}, make("summary", {}, "As a table"),
    make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Shares by word and domain" },
      make("table", { class: "plain" }, make("thead", {}, head), make("tbody", {}, rows))));
}
