// Elements made by script. Text becomes text nodes: a name or a label is shown, and never read as markup.

export const byId = (id) => document.getElementById(id);

/** An element; a property that is a function listens to the event of that name, null leaves an attribute out. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

export function show(place, ...children) {
  place.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
}

/** A sentence in a place that screen readers announce; without one the place is emptied. */
export function say(place, sentence, bad = false) {
  place.textContent = sentence ?? "";
  place.classList.toggle("bad", bad);
  place.hidden = !sentence;
}

export const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)}`;

/** Whether an answer of the service has such a key: a domain may be called as what every object has, "constructor". */
export const has = (value, key) => Object.hasOwn(value, key);
