// The page of a served model: starts its parts and keeps them up to date.

import { showFields, startAsking } from "./answer.js";
import { byId, say } from "./dom.js";
import { nameDomains } from "./domains.js";
import { showHistory } from "./history.js";
import { get, setToken } from "./service.js";
import { refreshJobs, showVersions, startTeaching } from "./teach.js";

const SOON = 700, LATER = 8000; // milliseconds between two looks at the jobs, while one is under way or not
let shown = null; // the model card on the page, as text

async function refreshModel() {
  const model = await get("model"), text = JSON.stringify(model);
  if (text === shown) return;
  shown = text;
  nameDomains(model);
  say(byId("about"), sentence(model));
  byId("name").textContent = model.name ?? "memgrow";
  document.title = `${model.name ?? "model"} – memgrow`;
  showFields(model);
  showHistory(model);
  showVersions(model);
}

function sentence(model) {
  const kind = { text: "Labels texts", pair: "Labels pairs of texts", reply: "Replies to messages" }[model.task] ?? "A model";
  const count = model.domains.length;
  return `${kind}; has learnt ${count} ${count === 1 ? "domain" : "domains"} by ${model.method}`
    + `${model.encoder ? ` on ${model.encoder}` : ""}. Version ${model.version} is served.`;
}

async function refreshDrift() {
  try {
    const drift = await get("drift");
    say(byId("drift"), drift.sentence);
    byId("drift").classList.toggle("due", Boolean(drift.due));
  } catch (error) {
    if (error.status === undefined) throw error; // a service without a monitor of drift has nothing to say of it
    say(byId("drift"), null);
  }
}

/** Look at everything again, for ever: soon while something trains, and not while nobody sees the page. */
async function watch() {
  let wait = LATER;
  try {
    if (!document.hidden) {
      wait = (await refreshJobs()) ? SOON : LATER;
      await refreshModel();
      await refreshDrift();
    }
    say(byId("problem"), null);
  } catch (error) {
    say(byId("problem"), error.message, true);
  }
  waiting = setTimeout(watch, wait);
}

let waiting;
function lookNow() {
  clearTimeout(waiting);
  return watch();
}

byId("token").addEventListener("input", (event) => setToken(event.target.value));
byId("token-form").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("visibilitychange", () => document.hidden || lookNow());
startAsking(refreshDrift);
startTeaching(refreshModel, (error) => {
  if (error.status === 401) byId("token").focus();
});
refreshModel().catch(() => {}).finally(watch);
