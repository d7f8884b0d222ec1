// What a reader predicts: a field for each question, what it takes for a number, and how far off that was. For a page and JupyterLab.
//
// A question stands in the text as a comment, <!-- predict: LABEL -->: the answer is the first number behind LABEL in the next
// result. <!-- predict: A | B --> asks for two, <!-- predict: name = A --> names the field, <!-- predict: A @2 --> means the second
// number behind A; <!-- predict: A [GiB] --> says that it is in GiB, as the reader then need not; <!-- predict --> asks for words,
// which the reader judges.

const everyBytePredictions = (() => {
  const QUESTION = /^\s*predict\s*(?::([^]*))?$/;
  const NUMBER = /[-+−]?\d+(?:,\d{3})*(?:\.\d+)?/g;
  const UNITS = { b: 1, byte: 1, kb: 1e3, mb: 1e6, gb: 1e9, kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30, tib: 2 ** 40 };
  const SIGNS = { "×": "*", "·": "*", "−": "-", "÷": "/", "²": "^2", "**": "^", percent: "%" };
  const NEAR = 0.1;

  // What a question asks for, [{ name, label, nth, unit }], [] for words; null for another comment.
  const labelsOf = (comment) => {
    const found = comment.match(QUESTION);
    return found && (found[1] ?? "").split("|").map((one) => one.trim()).filter(Boolean).map((one) => {
      const [, name, label, nth, unit] = one.match(/^(?:([^=]*?)\s*=\s*)?(.*?)(?:\s*@(\d+))?(?:\s+\[([^\]]+)\])?$/);
      return { name: name ?? label.replace(/:$/, ""), label, nth: Number(nth ?? 1), unit: unit ?? "" };
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

  const plain = (words) => words.toLowerCase().replace(/[×·−÷²]|\*\*|percent/g, (sign) => SIGNS[sign]).replace(/([a-z]{3})s\b/g, "$1");

  // What was typed, as a number: 8,519,680 or 1.5 GiB or 2*8*4096*1024 or 2^20 + 512; null if it is none. Where a question has a
  // unit it is a number of these, with or without it: 60 or 60%, 1.5 or 1.5 GiB or 1536 MiB.
  const parse = (typed, unit = "") => {
    const own = plain(unit), scale = own ? UNITS[own] : 1;
    const factor = scale ? (word) => UNITS[word] / scale : (word) => (word === "own" ? 1 : NaN);
    const text = (scale ? plain(typed) : plain(typed).replaceAll(own, " own ")).replace(/(\d)[,_\s](?=\d{3}(\D|$))/g, "$1");
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
        else if (/^[a-z]/.test(parts[at] ?? "")) value *= factor(parts[at++]);
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
  const inUnit = (number, unit) => `${number}${unit && unit !== "%" ? " " : ""}${unit}`;

  // How far a guess is from what is so, both numbers of the unit: "exact", "near" or "far", and a sentence.
  const compare = (guess, truth, unit = "") => {
    const such = unit ? `8 or 2*4 or ${inUnit("1.5", unit)}` : "8,192 or 2*4096 or 1.5 MiB";
    if (guess === null) return { kind: "unread", words: `a number was asked for, such as ${such}` };
    if (guess === truth) return { kind: "exact", words: "exactly" };
    const off = Math.abs(guess - truth), share = truth ? off / Math.abs(truth) : Infinity;
    const kind = share <= NEAR ? "near" : "far";
    const many = truth ? guess / truth : 0, so = `it is ${inUnit(shown(truth), unit)}`;
    if (many >= 3) return { kind, words: `${so}: ${shown(Number(many.toPrecision(3)))} times less than you said` };
    if (many > 0 && many <= 1 / 3) return { kind, words: `${so}: ${shown(Number((1 / many).toPrecision(3)))} times what you said` };
    const percent = Number.isFinite(share) ? `, ${Number((100 * share).toPrecision(2))}%` : "";
    return { kind, words: `${so}: off by ${shown(Number(off.toPrecision(12)))}${percent}` };
  };

  const make = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };

  // A form for one question. ask() wants the result shown; result() gives its text, "" while it is not there;
  // kept is what the reader said before; keep(what) is called when that changes, told() when what is said of it may have changed.
  const form = (labels, { ask, result, kept, keep, told }) => {
    const asked = labels.length ? labels : [null];
    const said = { typed: (kept?.typed ?? []).slice(0, asked.length), right: kept?.right ?? null };
    const inputs = asked.map((label, number) => {
      const name = labels.length > 1 ? label.name : "", unit = label?.unit ?? "";
      const input = make("input", { type: "text", autocomplete: "off", spellcheck: false, value: said.typed[number] ?? "" });
      input.setAttribute("aria-label", `Your prediction${name && ` for ${name}`}${unit && `, in ${unit}`}`);
      const verdict = make("output", { className: "eb-verdict" });
      const row = make("label", { className: "eb-guess" });
      row.append(...[name && make("span", {}, name), input, unit && make("span", {}, unit), verdict].filter(Boolean));
      input.classList.toggle("eb-in-words", !labels.length);
      return { label, input, verdict, row };
    });
    const judge = make("span", { className: "eb-judge", hidden: true }, "Were you right? ");
    for (const [word, right] of [["Yes", true], ["No", false]]) {
      const button = make("button", { type: "button" }, word);
      button.addEventListener("click", () => { said.right = right; keep(said); mark(); told(); });
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
        const found = truth === null ? { kind: "", words: "" } : compare(parse(input.value, label.unit), truth, label.unit);
        verdict.textContent = found.words;
        verdict.dataset.kind = found.kind;
      }
      mark();
      told();
    };
    element.addEventListener("input", () => {
      said.typed = inputs.map(({ input }) => input.value);
      if (!labels.length) said.right = null;
      keep(said);
      inputs.forEach(({ verdict }) => { verdict.textContent = ""; verdict.dataset.kind = ""; });
      judge.hidden = true;
      told();
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
    const asked = forms.reduce((n, { kinds }) => n + kinds().length, 0);
    const kinds = forms.flatMap((one) => one.kinds());
    const count = (kind) => kinds.filter((one) => one === kind).length;
    const judged = forms.filter(({ said }) => said.right !== null);
    const n = count("exact") + count("near") + count("far") + judged.length;
    if (!n) return "";
    const parts = [`${count("exact")} exactly`, `${count("near")} within 10%`, `${count("far")} further off`];
    if (judged.length) parts.push(`${judged.filter(({ said }) => said.right).length} of ${judged.length} in words right`);
    return `You predicted ${n} of ${asked} figures of this chapter: ${parts.join(", ")}.`;
  };

  // The line of that sentence, and tell(forms), which says it anew.
  const tallyLine = () => {
    const line = make("p", { className: "eb-tally", hidden: true });
    return { line, tell: (forms) => { line.textContent = tally(forms); line.hidden = !line.textContent; } };
  };

  return { labelsOf, questionsIn, answerIn, textOf, parse, compare, form, tallyLine };
})();
