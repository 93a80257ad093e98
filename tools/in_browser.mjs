// node in_browser.mjs CODE WHEELS EXAMPLES PACKAGES: lpfuse in Python for browsers, which npm installed beside this file.
// Each argument is a JSON list, of paths or names. Without examples, nothing compiled is fetched.
import { readFileSync } from "node:fs";
import { loadPyodide } from "pyodide";

const [code, wheels, examples, packages] = process.argv.slice(2).map((text) => JSON.parse(text));
const python = await loadPyodide();
for (const wheel of wheels) python.unpackArchive(new Uint8Array(readFileSync(wheel)), "wheel");
await python.runPythonAsync(readFileSync(code[0], "utf8"));
console.log(python.runPython("check_standard_library()"));
if (examples.length) {
  const missing = [];
  await python.loadPackage(packages, { messageCallback: () => {}, errorCallback: (text) => missing.push(text) });
  if (missing.length) {
    console.error(missing.join("\n"));
    process.exit(1);
  }
  const run = python.globals.get("run_examples");
  console.log(run(...examples.map((path) => readFileSync(path, "utf8"))));
}
