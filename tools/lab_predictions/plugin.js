// The book's questions in JupyterLab: a field below each cell that asks, its stored result behind a button until it is asked for
// or run, and a line at the takeaways. All of it stands beside the notebook, in the browser, and nothing of it in the file.

const everyBytePlugin = (() => {
  const remembered = (path) => `every-byte.predicted.${path.match(/([^/]+)\.ipynb$/)?.[1]}`;

  const load = (path) => {
    try { return JSON.parse(localStorage.getItem(remembered(path)) ?? "{}"); } catch { return {}; }
  };
  const save = (path, kept) => {
    try { localStorage.setItem(remembered(path), JSON.stringify(kept)); } catch { /* then it lasts as long as the page */ }
  };

  const textOf = (outputs) => outputs.toJSON().map(({ text, data }) => [text ?? data?.["text/plain"] ?? ""].flat().join("")).join("\n");

  // Puts the fields of one notebook in their places; called again whenever its cells change.
  const arrange = (panel, known) => {
    const cells = panel.content.widgets, kept = known.kept;
    let number = 0;
    const forms = [];
    cells.forEach((cell, index) => {
      if (cell.model.type !== "markdown") return;
      const questions = everyBytePredictions.questionsIn(cell.model.sharedModel.getSource());
      const behind = cells.slice(index + 1).find((one) => one.model.type === "code" && !one.model.getMetadata("tags")?.some((tag) => tag === "check" || tag === "body"));
      cell.node.querySelectorAll(":scope > .eb-predict").forEach((old) => old.remove());
      if (!behind) return;
      for (const labels of questions) {
        const key = `${labels.map(({ label }) => label).join("|")} ${number++}`;
        const one = everyBytePredictions.form(labels, {
          ask: () => show(behind),
          result: () => (behind.node.classList.contains("eb-covered") ? "" : textOf(behind.model.outputs)),
          kept: kept[key],
          keep: (said) => { kept[key] = said; save(panel.context.path, kept); },
        });
        for (const event of ["keydown", "mousedown", "dblclick", "contextmenu"]) one.element.addEventListener(event, (e) => e.stopPropagation());
        cell.node.append(one.element);
        forms.push(one);
        cover(behind, one, known);
      }
    });
    count(cells, forms);
  };

  const show = (cell) => cell.node.classList.remove("eb-covered");

  // Hides a stored result until it is asked for; a run shows it.
  const cover = (cell, one, known) => {
    if (!known.covered.has(cell.model.id)) {
      known.covered.add(cell.model.id);
      if (cell.model.outputs.length) cell.node.classList.add("eb-covered");
      const button = document.createElement("button");
      button.className = "eb-show-result";
      button.textContent = "Show the result";
      button.addEventListener("click", () => { show(cell); one.settle(); });
      cell.node.append(button);
    }
    cell.model.outputs.changed.connect(() => { show(cell); one.settle(); });
  };

  const count = (cells, forms) => {
    const end = cells.find((cell) => cell.model.type === "markdown" && /^## Takeaways/m.test(cell.model.sharedModel.getSource()));
    if (!end || !forms.length) return;
    let line = end.node.querySelector(":scope > .eb-tally");
    if (!line) {
      line = document.createElement("p");
      line.className = "eb-tally";
      end.node.append(line);
    }
    const tell = () => { line.textContent = everyBytePredictions.tally(forms); line.hidden = !line.textContent; };
    for (const one of forms) for (const event of ["submit", "click"]) one.element.addEventListener(event, () => setTimeout(tell));
    tell();
  };

  const attend = (panel) => {
    const known = { kept: load(panel.context.path), covered: new Set() };
    let waiting;
    const soon = () => { clearTimeout(waiting); waiting = setTimeout(() => arrange(panel, known), 200); };
    panel.context.ready.then(() => { soon(); panel.content.model.cells.changed.connect(soon); });
  };

  return {
    id: "every-byte:predictions",
    description: "A field for each of the book's predictions.",
    autoStart: true,
    activate: (app) => {
      const seen = new WeakSet();
      const look = () => {
        for (const panel of app.shell.widgets("main")) {
          if (panel.content?.model?.cells && !seen.has(panel)) { seen.add(panel); attend(panel); }
        }
      };
      app.restored.then(() => { look(); app.shell.layoutModified.connect(() => setTimeout(look)); });
    },
  };
})();
