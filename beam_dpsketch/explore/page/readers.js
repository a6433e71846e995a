// Which reader answers about a release, one for each type of reading, and which releases belong together.
"use strict";

/** @type {Record<string, new (reading: any) => any>} */
const READERS = {
  flat: FlatReader,
  listed: ListedReader,
  groups: GroupsReader,
  factor: FactorReader,
  tree: TreeReader,
};

/**
 * The releases of the page that are chosen as this one is, by some names of lists.
 * @param {any} release
 * @param {string[]} names
 * @returns {any[]}
 */
function releasesLike(release, names) {
  return data.releases.filter((/** @type {any} */ each) =>
    names.every((name) => each.place[name] === release.place[name]),
  );
}

/** @type {WeakMap<object, any>} */
const opened = new WeakMap();

/**
 * The reader of a reading, made once; null where all that the release answers stands in its numbers.
 * @param {any} reading
 */
function makeReader(reading) {
  if (!(reading.type in READERS)) return null;
  if (!opened.has(reading)) opened.set(reading, new READERS[reading.type](reading));
  return opened.get(reading);
}
