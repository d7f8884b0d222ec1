// A chapter's questions on its page: a field behind each, its result behind a button until asked for, and a line at the end.

{
  const chapter = location.pathname.match(/\/chapters\/([^/]+)\.html$/)?.[1];
  const article = document.querySelector(".bd-article");
  const name = `predicted.${chapter}`;
  const kept = everyByteStorage.getObject(name);
  const forms = [], { line, tell } = everyBytePredictions.tallyLine();

  const resultBehind = (node) => {
    const outputs = [...article.querySelectorAll("div.cell > .cell_output")];
    return outputs.find((output) => node.compareDocumentPosition(output) & Node.DOCUMENT_POSITION_FOLLOWING);
  };

  const ask = (comment, labels) => {
    const output = resultBehind(comment);
    if (!output) return;
    const key = `${labels.map(({ label }) => label).join("|")} ${forms.length}`;
    const one = everyBytePredictions.form(labels, {
      ask: () => output.dispatchEvent(new Event("every-byte:ask")),
      result: () => (output.hidden ? "" : everyBytePredictions.textOf(output)),
      kept: kept[key],
      keep: (said) => { kept[key] = said; everyByteStorage.set(name, JSON.stringify(kept)); },
      told: () => tell(forms),
    });
    output.dataset.asked = "";
    output.addEventListener("every-byte:shown", one.settle);
    forms.push(one);
    (comment.parentElement.closest("p, li") ?? comment).after(one.element);
  };

  if (chapter && article) {
    const comments = document.createTreeWalker(article, NodeFilter.SHOW_COMMENT);
    const found = [];
    while (comments.nextNode()) found.push(comments.currentNode);
    for (const comment of found) {
      const labels = everyBytePredictions.labelsOf(comment.data);
      if (labels) ask(comment, labels);
    }
    article.querySelector("section#takeaways > :is(h1, h2)")?.after(line);
    tell(forms);
  }
}
