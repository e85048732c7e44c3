// "Teach it a new domain": upload a file, watch it train, compare, publish or discard; and go back to a version.

import { byId, has, make, percent, say, show } from "./dom.js";
import { capital, get, post, upload } from "./service.js";

const MOST = 8; // jobs that are shown, the latest first
const STATES = {
  queued: "waits for its turn",
  training: "is being trained",
  ready: "has been trained; compare, then publish or discard it",
  published: "has been published",
  discarded: "has been discarded",
  failed: "failed",
};
const UNDER_WAY = ["queued", "training"];
const cards = new Map(); // by job: its element and what it shows, so that a new look at it changes only what is new
let onChange = () => {};
let onRefusal = () => {};

export function startTeaching(changed, refused) {
  onChange = changed;
  onRefusal = refused;
  byId("teach").addEventListener("submit", (event) => {
    event.preventDefault();
    teach();
  });
}

async function teach() {
  const file = byId("file").files[0], name = byId("domain").value.trim(), place = byId("upload-result");
  if (!file) return say(place, "Choose a file first.", true);
  const form = new FormData();
  form.append("file", file);
  if (name) form.append("name", name);
  const publish = byId("teach").elements.publish.value;
  await doing(byId("upload"), place, "Uploading and checking the file …", async () => {
    await upload(`adapt?publish=${publish}`, form);
    byId("teach").reset();
    await refreshJobs();
    return "The file is in order. Its training is shown below.";
  });
}

/** Do something at a button's wish, and say what came of it. */
async function doing(button, place, meanwhile, action) {
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true"); // and not disabled, which would lose the keyboard's place
  say(place, meanwhile);
  try {
    say(place, await action());
  } catch (error) {
    say(place, error.message, true);
    onRefusal(error);
  } finally {
    button.removeAttribute("aria-disabled");
  }
}

/** Look at all jobs; whether one of them is under way. */
export async function refreshJobs() {
  const found = await get("jobs"), jobs = found.jobs.slice(0, MOST), place = byId("jobs");
  document.body.classList.toggle("read-only", found.read_only);
  for (const job of jobs) {
    const told = JSON.stringify(job), card = cards.get(job.id);
    if (card?.told === told) continue;
    if (card && card.state !== job.state && job.state === "published") onChange();
    const element = card?.element ?? make("article", { class: "job" });
    fill(element, job, card?.state !== job.state);
    cards.set(job.id, { element, told, state: job.state });
  }
  const elements = jobs.map((job) => cards.get(job.id).element);
  if (elements.length !== place.children.length || elements.some((one, at) => place.children[at] !== one)) show(place, elements);
  return jobs.some((job) => UNDER_WAY.includes(job.state));
}

/** Where the state is the same only the bar moves: the rest keeps the keyboard's place. */
function fill(element, job, isNew) {
  if (!isNew && UNDER_WAY.includes(job.state)) return move(element, job);
  element.dataset.state = job.state;
  const result = make("p", { class: "result", "aria-live": "polite", hidden: true });
  show(element,
    make("h3", { "aria-live": "polite" }, make("span", { class: "domain-name" }, job.domain), " ", STATES[job.state] ?? job.state),
    job.error ? make("p", { class: "bad" }, capital(job.error)) : null,
    UNDER_WAY.includes(job.state) ? [make("progress", { max: 1, "aria-label": "Progress of the training" }), make("p", { class: "hint epoch" })] : null,
    comparison(job),
    make("p", { class: "actions" },
      job.state === "ready" ? decision(job, "publish", "Publish", result) : null,
      UNDER_WAY.includes(job.state) || job.state === "ready" ? decision(job, "discard", "Discard", result) : null),
    result);
  if (UNDER_WAY.includes(job.state)) move(element, job);
}

function move(element, job) {
  element.querySelector("progress").value = job.progress ?? 0;
  element.querySelector(".epoch").textContent = job.state === "queued" ? "One domain is trained at a time."
    : [job.epochs ? `epoch ${job.epoch ?? 0} of at most ${job.epochs}` : "getting ready",
      `${percent(job.progress ?? 0, 0)} %`, job.seconds ? `${Math.round(job.seconds)} s` : null].filter(Boolean).join(" · ");
}

function decision(job, what, title, result) {
  const button = make("button", { type: "button", class: what === "discard" ? "quiet" : null,
    click: () => doing(button, result, `${title}ing …`, async () => {
      await post(`jobs/${encodeURIComponent(job.id)}/${what}`);
      await refreshJobs();
      onChange();
    }) }, title);
  return button;
}

/** What the new domain brought and what it cost, domain by domain. */
function comparison(job) {
  const before = job.before ?? {}, after = job.after ?? {};
  const domains = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  if (!Object.keys(after).length) return null;
  const rows = domains.map((name) => {
    const change = has(before, name) && has(after, name) ? 100 * (after[name] - before[name]) : null;
    return make("tr", {}, make("th", { scope: "row" }, name, name === job.domain ? " (new)" : null),
      figure(before, name), figure(after, name),
      make("td", { class: "figure" }, change === null ? "–" : `${change > 0.05 ? "▲ " : change < -0.05 ? "▼ " : ""}${signed(change)}`));
  });
  return [make("p", {}, verdict(job, before, after)), make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Before and after" },
    make("table", { class: "plain compare" }, make("caption", {}, "Accuracy before and after, %"),
      make("thead", {}, make("tr", {}, ["domain", "before", "after", "change"].map((title) => make("th", { scope: "col" }, title)))),
      make("tbody", {}, rows)))];
}

/** Gain and cost in one sentence, as far as both are known. */
function verdict(job, before, after) {
  const changes = Object.keys(after).filter((name) => has(before, name)).map((name) => [name, 100 * (after[name] - before[name])]);
  const gain = changes.find(([name]) => name === job.domain), others = changes.filter(([name]) => name !== job.domain);
  if (!others.length) return "No earlier domain was tested again, so what this costs them is not known.";
  const mean = others.reduce((total, [, change]) => total + change, 0) / others.length;
  const [worst, most] = others.reduce((a, b) => (b[1] < a[1] ? b : a));
  return [gain ? `${signed(gain[1])} points on ${job.domain}; ` : "", `the earlier domains ${signed(mean)} on average`,
    most < -0.05 ? `, most on ${worst}: ${signed(most)}` : "", "."].join("");
}

const signed = (points) => `${points < -0.05 ? "−" : points < 0.05 ? "±" : "+"}${Math.abs(points).toFixed(1)}`;

const figure = (scores, name) => make("td", { class: "figure" }, has(scores, name) ? percent(scores[name]) : "–");

export function showVersions(model) {
  const versions = [...model.versions].sort((a, b) => b.number - a.number);
  const result = byId("version-result");
  const rows = versions.map((one) => make("tr", { "aria-current": one.number === model.version ? "true" : null },
    make("th", { scope: "row" }, String(one.number)),
    make("td", {}, one.domain ?? "–"),
    make("td", {}, date(one.date)),
    make("td", {}, one.number === model.version ? "served now" : one.number < model.version ? back(one, model, result) : null)));
  show(byId("versions"),
    make("table", { class: "plain versions" },
      make("thead", {}, make("tr", {}, ["version", "learned", "date", ""].map((title) => make("th", { scope: "col" }, title || make("span", { class: "unseen" }, "action"))))),
      make("tbody", {}, rows)),
    versions.some((one) => one.number < model.version) ? null
      : make("p", { class: "hint" }, "No earlier version is kept, so there is none to go back to."));
}

/** Rolling back takes away what was learnt since, so a second press is asked for. */
function back(one, model, result) {
  const lost = model.version - one.number;
  const button = make("button", { type: "button", class: "quiet", "aria-label": `Go back to version ${one.number}`, click: () => {
    if (!button.dataset.sure) {
      button.dataset.sure = "yes";
      button.textContent = `Forget ${lost === 1 ? "the last domain" : `the last ${lost} domains`}: sure?`;
      button.setAttribute("aria-label", button.textContent);
      return;
    }
    doing(button, result, "Going back …", async () => {
      const { version } = await post("rollback", { version: one.number });
      await onChange();
      return `Version ${version} is served now.`;
    });
  }, blur: () => {
    delete button.dataset.sure;
    button.textContent = title;
    button.setAttribute("aria-label", `Go back to version ${one.number}`);
  } });
  const title = "Go back";
  button.textContent = title;
  return button;
}

function date(text) {
  const at = text ? new Date(/Z|[+-]\d\d:?\d\d$/.test(text) ? text : `${text}Z`) : null;
  if (!at || Number.isNaN(at.valueOf())) return "–";
  const isOld = at.getFullYear() !== new Date().getFullYear();
  const shown = at.toLocaleString([], { day: "numeric", month: "short", ...(isOld ? { year: "numeric" } : { hour: "2-digit", minute: "2-digit" }) });
  return make("time", { datetime: at.toISOString(), title: at.toLocaleString() }, shown);
}
