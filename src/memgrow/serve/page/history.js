// "What it knows": the accuracy matrix as a heat map, and the accuracy of each domain over the stages.

import { byId, draw, has, make, percent, show } from "./dom.js";
import { allDomains, colourOf, dashOf, numberOf } from "./domains.js";

const HEIGHT = 300, LEFT = 52, RIGHT = 48, TOP = 14, BOTTOM = 58; // pixels
const LETTER = 7; // pixels of a letter, about
const FEW = 6; // columns whose names are written from left to right
const MOST_ENDS = 18; // lines with their number at the end: of more, the numbers would cover each other
const MARKS = ["circle", "square", "diamond", "triangle"];

let latest = null;

/** Draw the curves again when their place has another width. */
export function startDrawing() {
  let width = 0;
  new ResizeObserver(([place]) => {
    const now = Math.round(place.contentRect.width);
    if (now !== width && latest) show(byId("curves"), curves(latest.stages, latest.figure));
    width = now;
  }).observe(byId("curves"));
}

export function showHistory(model) {
  const stages = model.matrix;
  latest = null;
  if (!stages.some((row) => Object.keys(row.scores).length)) {
    show(byId("matrix"), make("p", { class: "hint" }, "No domain was tested when it was learnt, so there are no figures."));
    show(byId("curves"));
    return;
  }
  const figure = model.task === "reply" ? "100 / perplexity" : "accuracy, %";
  show(byId("matrix"), heatMap(stages, figure));
  show(byId("curves"), curves(stages, figure));
  latest = { stages, figure };
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
      [["learnt", "learnt in this stage"], ["", "learnt before"], ["zero", "not learnt yet (zero-shot)"]].map(([kind, told]) => [
        make("span", {}, make("span", { class: `key ${kind}` }, "00"), ` ${told}`), " "])));
}

function cell(score, stage, learned, shade) {
  const zero = learned === undefined || stage < learned;
  const found = make("td", { class: zero ? "zero" : stage === learned ? "learnt" : null,
    title: zero ? "zero-shot: not learnt yet" : null }, percent(score), zero ? make("span", { class: "unseen" }, " zero-shot") : null);
  found.style.setProperty("--shade", `${Math.round(100 * shade)}%`);
  return found;
}

function curves(stages, figure) {
  const width = Math.max(byId("curves").clientWidth, 260), inner = width - LEFT - RIGHT - 14;
  const domains = allDomains().filter((name) => stages.some((row) => has(row.scores, name)));
  const all = stages.flatMap((row) => Object.values(row.scores)).map((score) => 100 * score);
  const [low, high, step] = scale(Math.min(...all), Math.max(...all));
  const x = (stage) => stages.length === 1 ? (LEFT + width - RIGHT) / 2
    : LEFT + 14 + stage * inner / (stages.length - 1);
  const y = (value) => TOP + (high - value) * (HEIGHT - TOP - BOTTOM) / (high - low);
  const at = learnedAt(stages);
  const ends = spread(domains.map((name) => lastOf(stages, name)).map((end, index) => ({ ...end, name: domains[index], y: y(end.value) })));
  const svg = draw("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, class: "curves", role: "img",
    "aria-label": `${figure} of each domain over the stages; the figures are in the table above` },
    ticks(low, high, step).map((value) => [
      draw("line", { class: "grid", x1: LEFT, x2: width - RIGHT + 6, y1: y(value), y2: y(value) }),
      draw("text", { class: "tick", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, String(value))]).flat(),
    named(stages, inner).map(([stage, name]) => draw("text", { class: "tick", x: x(stage), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, name)),
    draw("text", { class: "axis", x: (LEFT + width - RIGHT) / 2, y: HEIGHT - BOTTOM + 42, "text-anchor": "middle" }, "after learning (stage)"),
    draw("text", { class: "axis", x: 14, y: (TOP + HEIGHT - BOTTOM) / 2, "text-anchor": "middle",
      transform: `rotate(-90 14 ${(TOP + HEIGHT - BOTTOM) / 2})` }, figure),
    domains.map((name) => line(stages, name, at.get(name) ?? Infinity, x, y)),
    (domains.length > MOST_ENDS ? [] : ends).map((end) => draw("text", { class: `end ${colourOf(end.name)}`, x: x(end.stage) + 10, y: end.y + 4 }, String(numberOf(end.name)))));
  const legend = make("ul", { class: "legend" }, domains.map((name) => make("li", { class: colourOf(name) },
    make("span", { class: "swatch" }, numberOf(name)), " ", name)));
  return make("figure", {}, make("figcaption", {}, "Each domain over the stages"), svg, legend,
    make("p", { class: "hint" }, "A faint dotted line: before the domain was learnt (zero-shot)."));
}

function lastOf(stages, name) {
  const stage = stages.findLastIndex((row) => has(row.scores, name));
  return { stage, value: 100 * stages[stage].scores[name] };
}

/** A line from stage to stage; faint until the domain has been learnt. */
function line(stages, name, learned, x, y) {
  const points = stages.flatMap((row, stage) => has(row.scores, name) ? [{ stage, x: x(stage), y: y(100 * row.scores[name]) }] : []);
  const path = (some) => some.map((point, index) => `${index ? "L" : "M"}${point.x.toFixed(1)} ${point.y.toFixed(1)}`).join("");
  const before = points.filter((point) => point.stage <= learned), since = points.filter((point) => point.stage >= learned);
  return draw("g", { class: colourOf(name) },
    before.length > 1 ? draw("path", { class: "curve before", d: path(before) }) : null,
    since.length > 1 ? draw("path", { class: "curve", d: path(since), "stroke-dasharray": dashOf(name) }) : null,
    points.map((point) => mark(point, MARKS[(numberOf(name) - 1) % MARKS.length], point.stage < learned,
      `${name}, after stage ${point.stage + 1}: ${percent(stages[point.stage].scores[name])}`)));
}

function mark({ x, y }, shape, hollow, told) {
  const path = {
    circle: `M${x - 4.5} ${y}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0`,
    square: `M${x - 4} ${y - 4}h8v8h-8z`,
    diamond: `M${x} ${y - 5.5}l5.5 5.5l-5.5 5.5l-5.5 -5.5z`,
    triangle: `M${x} ${y - 5.5}l5.5 9.5h-11z`,
  }[shape];
  return draw("path", { class: hollow ? "mark hollow" : "mark", d: path }, draw("title", {}, told));
}

/** Round bounds and the step between them, so that about five lines are drawn. */
function scale(least, most) {
  const wish = Math.max((most - least) / 4, 0.5), unit = 10 ** Math.floor(Math.log10(wish));
  const step = [1, 2, 5, 10].map((count) => count * unit).find((size) => size >= wish);
  const low = Math.floor(least / step) * step;
  return [low, Math.max(Math.ceil(most / step) * step, low + step), step];
}

function ticks(low, high, step) {
  return Array.from({ length: Math.round((high - low) / step) + 1 }, (_, index) => Number((low + index * step).toFixed(2)));
}

/** What is written below the stages: number and domain if there is room for all, else numbers; of very many some. */
function named(stages, width) {
  const room = width / Math.max(stages.length - 1, 1) / LETTER, every = Math.max(Math.ceil(4 / room), 1);
  const names = stages.map((row, stage) => `${stage + 1}. ${row.learned.join(" + ")}`);
  const fits = names.every((name) => name.length < room && name.length * LETTER < 2 * RIGHT);
  return names.map((name, stage) => [stage, fits ? name : `${stage + 1}`]).filter(([stage]) => stage % every === 0);
}

/** Numbers at the ends of lines, moved apart so that none covers another. */
function spread(ends) {
  const sorted = [...ends].sort((a, b) => a.y - b.y), gap = Math.min(15, (HEIGHT - TOP - BOTTOM) / Math.max(sorted.length - 1, 1));
  const at = new Map();
  for (const end of sorted) {
    const above = Math.max(...sorted.filter((other) => other.stage === end.stage && at.has(other)).map((other) => at.get(other)), -Infinity);
    at.set(end, Math.max(end.y, above + gap));
  }
  const over = Math.max(...at.values(), 0) - (HEIGHT - BOTTOM);
  if (over > 0) sorted.reduceRight((below, end) => {
    at.set(end, Math.min(at.get(end), below - gap));
    return at.get(end);
  }, HEIGHT - BOTTOM + gap);
  return sorted.map((end) => ({ ...end, y: at.get(end) }));
}
