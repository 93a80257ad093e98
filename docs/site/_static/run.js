// Runs the example of this page in the reader's browser. Nothing is fetched before a click asks for it.
(() => {
  const { host, packages, wheels } = document.currentScript.dataset;
  const blocks = [...document.querySelectorAll("article .highlight-Python pre")];
  const title = document.querySelector("article h1");
  if (!blocks.length || !title) return;

  // Figures are drawn into memory, and shown below the output.
  const BEFORE = `
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
plt.show = lambda *arguments, **options: None
plt.close("all")
`;
  const AFTER = `
import base64, io
import matplotlib.pyplot as plt
pictures = []
for number in plt.get_fignums():
    stream = io.BytesIO()
    plt.figure(number).savefig(stream, format="png", dpi=110, bbox_inches="tight")
    pictures.append(base64.b64encode(stream.getvalue()).decode())
pictures
`;

  const box = document.createElement("section");
  box.className = "run-here";
  box.innerHTML = `
    <p>This example can run in your browser. A click fetches Python with its numerical libraries, some tens of
      megabytes, from <code></code>; your browser does the work, and what you type stays in it.</p>
    <button type="button">Run it here</button>
    <textarea hidden spellcheck="false" aria-label="The code, which you may change"></textarea>
    <p role="status"></p>
    <pre hidden tabindex="0" aria-label="What the example prints"></pre>
    <div class="pictures"></div>`;
  const opening = title.nextElementSibling;
  (opening?.tagName === "P" ? opening : title).after(box); // below what the example is about
  const [button, code, status, output, pictures] =
    ["button", "textarea", "[role=status]", "pre", ".pictures"].map((name) => box.querySelector(name));
  box.querySelector("code").textContent = new URL(host).host;

  let python = null;

  async function start() {
    if (location.protocol === "file:") {
      throw new Error("open this page through a server, for instance: python -m http.server, in the folder of the site");
    }
    status.textContent = "Fetching Python …";
    const { loadPyodide } = await import(host + "pyodide.mjs");
    const found = await loadPyodide();
    status.textContent = "Fetching NumPy, SciPy, scikit-learn and Matplotlib …";
    const missing = [];
    await found.loadPackage(packages.split(" ").filter(Boolean), { messageCallback: () => {}, errorCallback: (text) => missing.push(text) });
    if (missing.length) throw new Error(missing.join(" "));
    for (const wheel of wheels.split(" ")) {
      const answer = await fetch(new URL(wheel, location.href));
      if (!answer.ok) throw new Error(`${wheel}: ${answer.status}`);
      found.unpackArchive(await answer.arrayBuffer(), "wheel");
    }
    return found;
  }

  async function run() {
    button.disabled = true;
    if (code.hidden) {
      code.value = blocks.map((block) => block.textContent.trimEnd()).join("\n\n") + "\n";
      code.rows = Math.min(30, code.value.split("\n").length);
      code.hidden = false;
    }
    output.textContent = "";
    pictures.replaceChildren();
    try {
      python ??= await start();
      status.textContent = "Running …";
      output.hidden = false;
      const write = (line) => { output.textContent += line + "\n"; };
      python.setStdout({ batched: write });
      python.setStderr({ batched: write });
      await python.runPythonAsync(BEFORE);
      const names = python.toPy({});
      await python.runPythonAsync(code.value, { globals: names });
      const drawn = (await python.runPythonAsync(AFTER)).toJs();
      drawn.forEach((data, i) => {
        const picture = new Image();
        picture.src = "data:image/png;base64," + data;
        picture.alt = `Figure ${i + 1} that the code above draws`;
        pictures.append(picture);
      });
      status.textContent = "Done. Change the code, and run it again.";
    } catch (error) {
      const told = String(error.message ?? error).trim();
      status.textContent = `It did not run: ${told.split("\n").at(-1)}`;
      output.hidden = false;
      output.textContent += told;
    }
    button.textContent = "Run again";
    button.disabled = false;
  }

  button.addEventListener("click", run);
})();
