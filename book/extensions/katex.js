// Turns LaTeX into HTML: a line of JSON in, {latex, display}, a line of JSON out, {html} or {error}.

const katex = require(process.argv[2]);

const answer = ({ latex, display }) => {
  try {
    return { html: katex.renderToString(latex, { displayMode: display, strict: "error", trust: false }) };
  } catch (error) {
    return { error: error.message };
  }
};

require("node:readline")
  .createInterface({ input: process.stdin })
  .on("line", (line) => process.stdout.write(JSON.stringify(answer(JSON.parse(line))) + "\n"));
