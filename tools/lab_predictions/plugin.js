// The book's questions in JupyterLab: a field below each cell that asks, its stored result behind a button until it is asked for
// or run, and a line at the takeaways. All of it stands beside the notebook, in the browser, and nothing of it in the file.

const everyBytePlugin = (() => {
  const FOLDED = ["check", "body", "solution"];  // WORDS of book/extensions/folds.py

  const textOf = (outputs) => outputs.toJSON().map(({ text, data }) => [text ?? data?.["text/plain"] ?? ""].flat().join("")).join("\n");

  // Puts the fields of one notebook in their places; called again whenever its cells change.
  const arrange = (panel, known) => {
    const cells = panel.content.widgets, all = [];
    known.forms.clear();
    cells.forEach((cell, index) => {
      if (cell.model.type !== "markdown") return;
      const questions = everyBytePredictions.questionsIn(cell.model.sharedModel.getSource());
      const behind = cells.slice(index + 1).find((one) => one.model.type === "code" && !one.model.getMetadata("tags")?.some((tag) => FOLDED.includes(tag)));
      cell.node.querySelectorAll(":scope > .eb-predict").forEach((old) => old.remove());
      if (!behind) return;
      for (const labels of questions) {
        const key = `${labels.map(({ label }) => label).join("|")} ${all.length}`;
        const one = everyBytePredictions.form(labels, {
          ask: () => show(behind, known),
          result: () => (behind.node.classList.contains("eb-covered") ? "" : textOf(behind.model.outputs)),
          kept: known.kept[key],
          keep: (said) => { known.kept[key] = said; everyByteStorage.set(known.name, JSON.stringify(known.kept)); },
          told: () => known.tell(all),
        });
        for (const event of ["keydown", "mousedown", "dblclick", "contextmenu"]) one.element.addEventListener(event, (e) => e.stopPropagation());
        cell.node.append(one.element);
        all.push(one);
        known.forms.set(behind.model.id, [...(known.forms.get(behind.model.id) ?? []), one]);
        attendResult(behind, known);
      }
    });
    known.line.remove();
    cells.find((cell) => cell.model.type === "markdown" && /^## Takeaways/m.test(cell.model.sharedModel.getSource()))?.node.append(known.line);
    known.tell(all);
  };

  // Shows a result and sets beside it what was typed in the fields that ask for it now.
  const show = (cell, known) => {
    cell.node.classList.remove("eb-covered");
    known.forms.get(cell.model.id)?.forEach((one) => one.settle());
  };

  // Hides a stored result until it is asked for; a run shows it. Once for each cell, however often its forms are made anew.
  const attendResult = (cell, known) => {
    if (known.results.has(cell.model)) return;
    known.results.add(cell.model);
    cell.model.outputs.changed.connect(() => show(cell, known));
    if (known.seen.has(cell.model.id)) return;
    known.seen.add(cell.model.id);
    if (!cell.model.outputs.length) return;
    const button = document.createElement("button");
    button.className = "eb-show-result";
    button.textContent = "Show the result";
    button.addEventListener("click", () => show(cell, known));
    cell.node.classList.add("eb-covered");
    cell.node.append(button);
  };

  const attend = (panel) => {
    const name = `predicted.${panel.context.path.match(/([^/]+)\.ipynb$/)?.[1]}`;
    const known = {
      name, kept: everyByteStorage.getObject(name), ...everyBytePredictions.tallyLine(),
      forms: new Map(),  // those for each result, by its cell's id
      results: new WeakSet(), seen: new Set(),  // models that are attended to; ids of cells, which a moved one keeps
    };
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
