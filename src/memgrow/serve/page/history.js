// "What it knows": the accuracy matrix as a heat map.

import { byId, has, make, percent, show } from "./dom.js";
import { allDomains, colourOf, numberOf } from "./domains.js";

const FEW = 6; // columns whose names are written from left to right

export function showHistory(model) {
  const stages = model.matrix;
  const { level, title, sentence } = model.verdict;
  show(byId("verdict"), make("p", { class: `light ${level}` }, make("strong", {}, `${title}.`), " ", sentence));
  show(byId("matrix"), stages.some((row) => Object.keys(row.scores).length)
    ? heatMap(stages, model.task === "reply" ? "100 / perplexity" : "accuracy, %")
    : make("p", { class: "hint" }, "No domain had test examples, so there are no figures."));
}

/** The stage, from 0, in which each domain was first learnt. */
function learnedAt(stages) {
  const at = new Map();
  stages.forEach((row, stage) => row.learned.forEach((name) => at.has(name) || at.set(name, stage)));
  return at;
}

function heatMap(stages, figure) {
  const domains = allDomains().filter((name) => stages.some((row) => has(row.scores, name)));
  const at = learnedAt(stages);
  const all = stages.flatMap((row) => Object.values(row.scores));
  const low = Math.min(...all), span = Math.max(...all) - low || 1;
  const head = [
    make("tr", {}, make("td", { class: "corner" }), make("th", { class: "axis", scope: "colgroup", colspan: domains.length }, "tested on")),
    make("tr", {}, make("th", { class: "axis", scope: "col" }, "after learning"), domains.map((name) => make("th", { scope: "col" },
      make("span", { class: `swatch ${colourOf(name)}` }, numberOf(name)), make("span", { class: "column" }, name)))),
  ];
  const rows = stages.map((row, stage) => make("tr", {},
    make("th", { scope: "row" }, `${stage + 1}. ${row.learned.join(" + ")}`),
    domains.map((name) => has(row.scores, name) ? cell(row.scores[name], stage, at.get(name), (row.scores[name] - low) / span)
      : make("td", { class: "untested", title: "not tested" }, "–"))));
  const table = make("table", { class: domains.length > FEW ? "heat many" : "heat" }, make("thead", {}, head), make("tbody", {}, rows));
  table.style.setProperty("--columns", domains.length);
  return make("figure", {},
    make("figcaption", {}, `Test figures after each stage (${figure})`),
    make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Accuracy matrix" },
      table),
    make("p", { class: "hint keys" },
      [["learnt", "learned in this stage"], ["", "learned before"], ["zero", "not learned yet (zero-shot)"]].map(([kind, told]) => [
        make("span", {}, make("span", { class: `key ${kind}` }, "00"), ` ${told}`), " "])));
}

function cell(score, stage, learned, shade) {
  const zero = learned === undefined || stage < learned;
  const found = make("td", { class: zero ? "zero" : stage === learned ? "learnt" : null,
    title: zero ? "zero-shot: not learned yet" : null }, percent(score), zero ? make("span", { class: "unseen" }, " zero-shot") : null);
  found.style.setProperty("--shade", `${Math.round(100 * shade)}%`);
  return found;
}
