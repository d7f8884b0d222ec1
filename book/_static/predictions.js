// What a reader predicts: a field for each question, what it takes for a number, and how far off that was. For a page and JupyterLab.
//
// A question stands in the text as a comment, <!-- predict: LABEL -->: the answer is the first number behind LABEL in the next
// result. <!-- predict: A | B --> asks for two, <!-- predict: name = A --> names the field, <!-- predict: A @2 --> means the second
// number behind A; <!-- predict --> asks for words, which the reader judges.

const everyBytePredictions = (() => {
  const QUESTION = /^\s*predict\s*(?::([^]*))?$/;
  const NUMBER = /[-+−]?\d+(?:,\d{3})*(?:\.\d+)?/g;
  const UNITS = { b: 1, byte: 1, bytes: 1, kb: 1e3, mb: 1e6, gb: 1e9, kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30, tib: 2 ** 40 };
  const NEAR = 0.1;

  // What a question asks for, [{ name, label, nth }], [] for words; null for another comment.
  const labelsOf = (comment) => {
    const found = comment.match(QUESTION);
    return found && (found[1] ?? "").split("|").map((one) => one.trim()).filter(Boolean).map((one) => {
      const [, name, label, nth] = one.match(/^(?:([^=]*?)\s*=\s*)?(.*?)(?:\s*@(\d+))?$/);
      return { name: name ?? label.replace(/:$/, ""), label, nth: Number(nth ?? 1) };
    });
  };

  // The questions of a text with comments, in order.
  const questionsIn = (text) => [...text.matchAll(/<!--([^]*?)-->/g)].map((found) => labelsOf(found[1])).filter(Boolean);

  // The number that a label stands before in a result; null if there is none.
  const answerIn = (result, { label, nth }) => {
    for (const line of result.split("\n")) {
      const place = line.indexOf(label);
      if (place < 0) continue;
      const number = line.slice(place + label.length).match(NUMBER)?.[nth - 1];
      if (number) return Number(number.replaceAll(",", "").replace("−", "-"));
    }
    return null;
  };

  // The text of a result on a page, each row of a table on a line of its own.
  const textOf = (element) => {
    const copy = element.cloneNode(true);
    copy.querySelectorAll("td, th").forEach((cell) => cell.append(" "));
    copy.querySelectorAll("tr, p, div").forEach((block) => block.append("\n"));
    return copy.textContent;
  };

  // What was typed, as a number: 8,519,680 or 1.5 GiB or 2*8*4096*1024 or 2^20 + 512; null if it is none.
  const parse = (typed) => {
    const signs = { "×": "*", "·": "*", "−": "-", "÷": "/" };
    const text = typed.toLowerCase().replaceAll("**", "^").replace(/[×·−÷]/g, (sign) => signs[sign]).replace(/(\d)[,_\s](?=\d{3}(\D|$))/g, "$1");
    const parts = text.match(/\d*\.?\d+(?:e[+-]?\d+)?|[a-z]+|[-+*/^()]|\S/g) ?? [];
    let at = 0;
    const atom = () => {
      if (parts[at] === "-") { at += 1; return -power(); }
      if (parts[at] === "(") {
        at += 1;
        const value = sum();
        return parts[at++] === ")" ? value : NaN;
      }
      return /^\d*\.?\d/.test(parts[at] ?? "") ? Number(parts[at++]) : NaN;
    };
    const power = () => {
      const base = atom();
      return parts[at] === "^" ? (at += 1, base ** power()) : base;
    };
    const product = () => {  // a unit multiplies all that stands before it: 1/3 GiB
      let value = power();
      for (;;) {
        if (parts[at] === "*") { at += 1; value *= power(); }
        else if (parts[at] === "/") { at += 1; value /= power(); }
        else if (/^[a-z]/.test(parts[at] ?? "")) value *= UNITS[parts[at++]] ?? NaN;
        else return value;
      }
    };
    const sum = () => {
      let value = product();
      while (parts[at] === "+" || parts[at] === "-") value = parts[at++] === "+" ? value + product() : value - product();
      return value;
    };
    const value = sum();
    return at === parts.length && Number.isFinite(value) ? value : null;
  };

  const shown = (number) => number.toLocaleString("en", { maximumFractionDigits: 3 });

  // How far a guess is from what is so: "exact", "near" or "far", and a sentence.
  const compare = (guess, truth) => {
    if (guess === null) return { kind: "unread", words: "a number was asked for, such as 8,192 or 2*4096 or 1.5 MiB" };
    if (guess === truth) return { kind: "exact", words: "exactly" };
    const off = Math.abs(guess - truth), share = truth ? off / Math.abs(truth) : Infinity;
    const kind = share <= NEAR ? "near" : "far";
    const many = truth ? guess / truth : 0;
    if (many >= 3) return { kind, words: `it is ${shown(truth)}: ${shown(Number(many.toPrecision(3)))} times less than you said` };
    if (many > 0 && many <= 1 / 3) return { kind, words: `it is ${shown(truth)}: ${shown(Number((1 / many).toPrecision(3)))} times what you said` };
    const percent = Number.isFinite(share) ? `, ${Number((100 * share).toPrecision(2))}%` : "";
    return { kind, words: `it is ${shown(truth)}: off by ${shown(Number(off.toPrecision(12)))}${percent}` };
  };

  const make = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };

  // A form for one question. ask() wants the result shown; result() gives its text, "" while it is not there;
  // kept is what the reader said before, and keep(what) is called with each change.
  const form = (labels, { ask, result, kept, keep }) => {
    const said = { typed: kept?.typed ?? [], right: kept?.right ?? null };
    const inputs = (labels.length ? labels : [null]).map((label, number) => {
      const name = labels.length > 1 ? label.name : "";
      const input = make("input", { type: "text", autocomplete: "off", spellcheck: false, value: said.typed[number] ?? "" });
      input.setAttribute("aria-label", name ? `Your prediction for ${name}` : "Your prediction");
      const verdict = make("output", { className: "eb-verdict" });
      const row = make("label", { className: "eb-guess" }, ...(name ? [make("span", {}, name)] : []), input, verdict);
      input.classList.toggle("eb-in-words", !labels.length);
      return { label, input, verdict, row };
    });
    const judge = make("span", { className: "eb-judge", hidden: true }, "Were you right? ");
    for (const [word, right] of [["Yes", true], ["No", false]]) {
      const button = make("button", { type: "button" }, word);
      button.addEventListener("click", () => { said.right = right; keep(said); mark(); });
      judge.append(button);
    }
    const element = make("form", { className: "eb-predict" },
      make("span", { className: "eb-predict-name" }, "Your prediction"), ...inputs.map(({ row }) => row),
      make("button", { type: "submit" }, "Compare"), judge);

    const mark = () => judge.querySelectorAll("button").forEach((button, number) => button.setAttribute("aria-pressed", said.right === (number === 0)));

    // Sets what was typed beside the result, once both are there.
    const settle = () => {
      const text = result();
      const typed = inputs.some(({ input }) => input.value.trim());
      judge.hidden = labels.length > 0 || !text || !typed;
      for (const { label, input, verdict } of inputs) {
        const truth = label && text && input.value.trim() ? answerIn(text, label) : null;
        const found = truth === null ? { kind: "", words: "" } : compare(parse(input.value), truth);
        verdict.textContent = found.words;
        verdict.dataset.kind = found.kind;
      }
      mark();
    };
    element.addEventListener("input", () => {
      said.typed = inputs.map(({ input }) => input.value);
      if (!labels.length) said.right = null;
      keep(said);
      inputs.forEach(({ verdict }) => { verdict.textContent = ""; verdict.dataset.kind = ""; });
      judge.hidden = true;
    });
    element.addEventListener("submit", (event) => {
      event.preventDefault();
      ask();
      settle();
    });
    settle();
    return { element, settle, kinds: () => inputs.map(({ verdict }) => verdict.dataset.kind), said };
  };

  // How a reader did with the questions of a chapter, in a sentence; "" before the first answer.
  const tally = (forms) => {
    const asked = forms.reduce((n, { kinds, said }) => n + Math.max(kinds().length, said.typed.length), 0);
    const kinds = forms.flatMap((one) => one.kinds());
    const count = (kind) => kinds.filter((one) => one === kind).length;
    const judged = forms.filter(({ said }) => said.right !== null);
    const n = count("exact") + count("near") + count("far") + judged.length;
    if (!n) return "";
    const parts = [`${count("exact")} exactly`, `${count("near")} within 10%`, `${count("far")} further off`];
    if (judged.length) parts.push(`${judged.filter(({ said }) => said.right).length} of ${judged.length} in words right`);
    return `You predicted ${n} of ${asked} figures of this chapter: ${parts.join(", ")}.`;
  };

  return { labelsOf, questionsIn, answerIn, textOf, parse, compare, form, tally };
})();
