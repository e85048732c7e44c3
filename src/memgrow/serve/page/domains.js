// Each domain has a number, which stands wherever its colour does: colours alone tell nothing to some readers.

const COLOURS = 6; // classes of page.css; after so many domains they come again
let names = [];

/** All domains in the order in which they were learnt, then those that were only tested. */
export function nameDomains(model) {
  const tested = model.matrix.flatMap((row) => [...row.learned, ...Object.keys(row.scores)]);
  names = [...new Set([...model.domains, ...tested])];
}

export const allDomains = () => names;
export const numberOf = (name) => (names.includes(name) ? names : (names = [...names, name])).indexOf(name) + 1;
export const colourOf = (name) => `domain-${(numberOf(name) - 1) % COLOURS}`;
