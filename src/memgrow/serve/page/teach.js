// "Teach it a new domain": upload a file, watch it train, compare, publish or discard; and go back to a version.

import { addExamples } from "./answer.js";
import { byId, has, make, percent, say, show } from "./dom.js";
import { capital, get, post, upload } from "./service.js";
import { chooseColumns, readTable } from "./table.js";

const MOST = 8; // jobs that are shown, the latest first
const STATES = {
  queued: "waits for its turn",
  training: "is being trained",
  ready: "has been trained; compare, then publish or discard it",
  published: "has been published",
  discarded: "has been discarded",
  failed: "failed",
};
const UPLOAD = "Upload and train", UNCONFIRMED = 428; // the status of a file whose labels are to be confirmed
const UNDER_WAY = ["queued", "training"];
const cards = new Map(); // by job: its element and what it shows, so that a new look at it changes only what is new
let onChange = () => {};
let onRefusal = () => {};
let task = "text", chosen = null, confirmed = false; // of the file: its columns, and that its labels are meant
let notable = 0; // points of forgetting past which publishing asks again

export function startTeaching(changed, refused) {
  onChange = changed;
  onRefusal = refused;
  byId("file").addEventListener("change", choose);
  byId("teach").addEventListener("submit", (event) => {
    event.preventDefault();
    teach();
  });
}

async function choose() {
  const file = byId("file").files[0], place = byId("upload-result");
  chosen = null;
  confirmed = false;
  byId("upload").textContent = UPLOAD;
  say(place, null);
  show(byId("columns"));
  if (!file) return;
  try {
    const table = await readTable(file, true);
    chosen = chooseColumns(byId("columns"), table, task, true, (columns) => addExamples(table.rows, columns));
  } catch { /* the service says what is wrong with the file, and where */ }
}

async function teach() {
  const file = byId("file").files[0], name = byId("domain").value.trim(), place = byId("upload-result");
  if (!file) return say(place, "Choose a file first.", true);
  const publish = byId("teach").elements.publish.value;
  await doing(byId("upload"), place, "Uploading and checking the file …", async () => {
    const form = new FormData();
    form.append("file", file);
    if (name) form.append("name", name);
    if (confirmed) form.append("new_labels", "true");
    for (const [role, column] of Object.entries(chosen?.() ?? {})) form.append(role, column);
    try {
      await upload(`adapt?publish=${publish}`, form);
    } catch (error) {
      confirmed = error.status === UNCONFIRMED;
      if (confirmed) byId("upload").textContent = "Train it with these labels";
      throw error;
    }
    byId("teach").reset();
    await choose();
    await refreshJobs();
    return "The file is checked. Its training is shown below.";
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
  notable = found.notable_points;
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
  const [name, lost] = worst(job), isCostly = what === "publish" && lost > notable;
  const question = isCostly ? `${name} loses ${lost.toFixed(1)} points: publish it anyway?` : null;
  return twice(title, title, what === "discard", question, (button) => doing(button, result, `${title}ing …`, async () => {
    await post(`jobs/${encodeURIComponent(job.id)}/${what}`);
    await refreshJobs();
    await onChange();
  }));
}

/** A button that does something at once or, with a question, when it is pressed a second time. */
function twice(title, label, isQuiet, question, action) {
  const set = (sure, text, spoken) => {
    button.dataset.sure = sure;
    button.textContent = text;
    button.setAttribute("aria-label", spoken);
  };
  const button = make("button", { type: "button", class: isQuiet ? "quiet" : null, click: () => {
    if (question && button.dataset.sure !== "yes") set("yes", question, question);
    else action(button);
  }, blur: () => set("", title, label) });
  set("", title, label);
  return button;
}

/** The earlier domain that lost most, and its points. */
function worst(job) {
  const lost = Object.keys(job.after ?? {}).filter((name) => name !== job.domain && has(job.before ?? {}, name))
    .map((name) => [name, 100 * (job.before[name] - job.after[name])]);
  return lost.reduce((a, b) => (b[1] > a[1] ? b : a), ["", 0]);
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
  const gain = has(before, job.domain) && has(after, job.domain) ? 100 * (after[job.domain] - before[job.domain]) : null;
  const others = Object.keys(after).filter((name) => name !== job.domain && has(before, name));
  const brought = gain === null ? "" : `${job.domain}: ${signed(gain)} points. `;
  if (!others.length) return `${brought}No earlier domain was tested again, so the forgetting is not known.`;
  const [name, lost] = worst(job);
  return brought + (lost > 0.05 ? `${name} loses ${lost.toFixed(1)} points.` : "No earlier domain loses points.");
}

const signed = (points) => `${points < -0.05 ? "−" : points < 0.05 ? "±" : "+"}${Math.abs(points).toFixed(1)}`;

const figure = (scores, name) => make("td", { class: "figure" }, has(scores, name) ? percent(scores[name]) : "–");

export function showVersions(model) {
  task = model.task;
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

/** Going back removes what was learned since, so the button names it and is pressed twice. */
function back(one, model, result) {
  const lost = model.stages.slice(one.number).flatMap((stage) => stage.learned).join(", ");
  return twice("Go back", `Go back to version ${one.number}`, true, `Remove ${lost}: sure?`, (button) => doing(button, result, "Going back …", async () => {
    const { version } = await post("rollback", { version: one.number });
    await onChange();
    return `Version ${version} (${one.domain ?? "unknown"}) is served now. Removed: ${lost}.`;
  }));
}

function date(text) {
  const at = text ? new Date(/Z|[+-]\d\d:?\d\d$/.test(text) ? text : `${text}Z`) : null;
  if (!at || Number.isNaN(at.valueOf())) return "–";
  const isOld = at.getFullYear() !== new Date().getFullYear();
  const shown = at.toLocaleString([], { day: "numeric", month: "short", ...(isOld ? { year: "numeric" } : { hour: "2-digit", minute: "2-digit" }) });
  return make("time", { datetime: at.toISOString(), title: at.toLocaleString() }, shown);
}
