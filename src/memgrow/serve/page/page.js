// The page of a served model: starts its parts and keeps them up to date.

import { showModel, startAsking } from "./answer.js";
import { setTask, startBatch } from "./batch.js";
import { byId, say } from "./dom.js";
import { nameDomains } from "./domains.js";
import { showHistory } from "./history.js";
import { capital, get, setToken } from "./service.js";
import { refreshJobs, showVersions, startTeaching } from "./teach.js";

const SOON = 1000, LATER = 8000; // milliseconds between two looks at the jobs, while one is under way or not
let waiting; // the next look
let shown = null; // the model card on the page, as text

async function refreshModel() {
  const model = await get("model"), text = JSON.stringify(model);
  if (text === shown) return;
  shown = text;
  nameDomains(model);
  say(byId("about"), sentence(model));
  byId("name").textContent = model.name ?? "memgrow";
  document.title = `${model.name ?? "model"} – memgrow`;
  setTask(model.task);
  showHistory(model);
  showVersions(model);
  await showModel(model);
}

function sentence(model) {
  const kind = { text: "Labels texts", pair: "Labels pairs of texts", reply: "Replies to messages" }[model.task] ?? "A model";
  const count = model.domains.length;
  return `${kind}; has learned ${count} ${count === 1 ? "domain" : "domains"} by ${model.method}`
    + `${model.encoder ? ` on ${model.encoder}` : ""}. Version ${model.version} (${model.digest.slice(0, 8)}) is served.`;
}

async function refreshDrift() {
  const drift = await get("drift");
  say(byId("drift"), capital(drift.sentence));
  byId("drift").classList.toggle("due", Boolean(drift.due));
}

/** Look at everything again, for ever: soon while something trains, and not while nobody sees the page. */
async function watch() {
  let isTraining = false;
  if (!document.hidden) {
    const looks = [refreshModel(), refreshJobs().then((found) => { isTraining = found; }), refreshDrift()];
    const failed = (await Promise.allSettled(looks)).find((look) => look.status === "rejected");
    say(byId("problem"), failed?.reason.message, true);
  }
  clearTimeout(waiting);
  waiting = setTimeout(watch, isTraining ? SOON : LATER);
}

byId("token").addEventListener("input", (event) => {
  setToken(event.target.value);
  say(byId("token-result"), null);
});
byId("token-form").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("visibilitychange", () => document.hidden || watch());
startBatch();
startAsking(() => refreshDrift().catch(() => {}));
startTeaching(watch, (error) => {
  if (error.status !== 401) return;
  say(byId("token-result"), byId("token").value ? "The service does not know this token; copy it again." : "Enter the token here, and try again.", true);
  byId("token").focus();
});
watch();
