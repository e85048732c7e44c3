// "Try it": a text, a pair or a message, and what the model makes of it.

import { byId, make, percent, say, show } from "./dom.js";
import { colourOf, numberOf } from "./domains.js";
import { post } from "./service.js";

const FIELDS = { // by task: the field of an input, and what stands above it
  text: [["text", "Text"]],
  pair: [["premise", "First text (premise)"], ["hypothesis", "Second text (hypothesis)"]],
  reply: [["message", "Message"]],
};
const TEXTS = { text: ["Words"], pair: ["First text", "Second text"], reply: ["Message", "Reply"] };
const MOST = 12; // bars of labels that are shown at once
let task = null;
let asked = 0; // so that the answer to an older question never replaces that to a newer one

export function startAsking(onAnswer) {
  byId("try").addEventListener("submit", (event) => {
    event.preventDefault();
    ask(onAnswer);
  });
}

/** The fields that this kind of model reads; what has been typed stays. */
export function showFields(model) {
  byId("ask").disabled = false;
  if (task === model.task) return;
  task = model.task in FIELDS ? model.task : "text";
  show(byId("inputs"), FIELDS[task].map(([name, title]) => make("p", {},
    make("label", { for: `input-${name}` }, title),
    make("textarea", { id: `input-${name}`, name, rows: 3, required: true, keydown: submitOnEnter }))));
}

function submitOnEnter(event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("try").requestSubmit();
}

async function ask(onAnswer) {
  const question = ++asked, place = byId("answer");
  const input = Object.fromEntries(FIELDS[task].map(([name]) => [name, byId(`input-${name}`).value]));
  byId("ask").setAttribute("aria-busy", "true");
  try {
    const found = await post("explain", { input });
    if (question !== asked) return;
    show(place, answer(found), words(found));
    onAnswer(found.version);
  } catch (error) {
    if (question === asked) say(place.appendChild(emptied(place)), error.message, true);
  } finally {
    if (question === asked) byId("ask").removeAttribute("aria-busy");
  }
}

function emptied(place) {
  place.replaceChildren();
  return make("p", { class: "result" });
}

function answer(found) {
  if (typeof found.reply === "string") {
    return make("p", { class: "verdict" }, "Reply: ", make("strong", {}, found.reply || "(nothing)"),
      found.ended === false ? " … (cut)" : null);
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
    make("p", { class: "verdict" }, "Label: ", make("strong", {}, found.label)),
    make("table", { class: "bars" }, make("caption", {}, "Probability of each label"), make("tbody", {}, rows)),
    ranked.length > MOST ? make("p", { class: "hint" }, `and ${ranked.length - MOST} labels that are less probable`) : null,
  ];
}

/** The words, coloured by the domain whose slots get the largest share of their attention. */
function words(found) {
  if (!found.domains.length) return make("p", { class: "hint note" }, found.note ?? "This model has no slots to read.");
  const titles = TEXTS[task], last = Math.max(...found.words.map((one) => one.text ?? 0), 0);
  const rows = Array.from({ length: last + 1 }, (_, text) => {
    const own = found.words.filter((one) => (one.text ?? 0) === text);
    return own.length === 0 ? null : make("p", { class: "words" },
      last > 0 ? make("span", { class: "which" }, titles[text] ?? "Text", ": ") : null,
      own.flatMap((one) => [word(one, found.domains), " "]));
  });
  return make("figure", { class: "reading" },
    make("figcaption", {}, "Whose slots each word reads"),
    rows,
    make("p", { class: "hint" }, "The number and the colour are those of the domain that is read most; the strip below a "
      + "word shows the share of each."),
    legend(found), table(found));
}

function word(one, domains) {
  const most = one.shares.indexOf(Math.max(...one.shares));
  const told = domains.map((name, at) => `${name} ${percent(one.shares[at], 0)} %`).join(", ");
  const strip = make("span", { class: "strip", "aria-hidden": "true" }, one.shares.map((share, at) => {
    const part = make("span", { class: colourOf(domains[at]) });
    part.style.flexGrow = share;
    return part;
  }));
  return make("span", { class: `word ${colourOf(domains[most])}`, title: told },
    one.word, make("sup", {}, numberOf(domains[most])), strip);
}

function legend(found) {
  const total = found.words.length || 1;
  return make("ul", { class: "legend" }, found.domains.map((name, at) => {
    const mean = found.words.reduce((sum, one) => sum + one.shares[at], 0) / total;
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
