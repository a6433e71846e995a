// Runs the search of a built site: reads questions, one a line, and prints the pages found for each, best first.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const site = process.argv[2];
const page = {
  console,
  Documentation: {},
  DOCUMENTATION_OPTIONS: {},
  SPHINX_HIGHLIGHT_ENABLED: false,
  _: (text) => text,
  _ready: () => {},
  document: { getElementById: () => null },
};
page.window = page;
vm.createContext(page);
const run = (file) => vm.runInContext(fs.readFileSync(path.join(site, file), "utf8"), page, { filename: file });

run("_static/language_data.js");
run("_static/searchtools.js");
vm.runInContext("globalThis.Search = Search", page);
run("searchindex.js");
for (const question of fs.readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const found = page.Search._performSearch(...page.Search._parseQuery(question)).reverse();
  process.stdout.write(JSON.stringify(found.slice(0, 10).map(([name, , anchor]) => name + anchor)) + "\n");
}
