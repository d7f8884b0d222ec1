// What waits behind a button: the results that a question asks for, until they are asked for; or none of them, or all.

{
  const outputs = [...document.querySelectorAll("div.cell > .cell_output")].filter((output) => output.previousElementSibling);
  const bar = document.querySelector(".article-header-buttons");

  const hide = (output) => {
    if (output.hidden) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "show-result";
    button.textContent = "Show the result";
    button.addEventListener("click", () => {
      show(output);
      output.tabIndex = -1;
      output.focus();
    });
    output.hidden = true;
    output.before(button);
  };

  const show = (output) => {
    output.hidden = false;
    if (output.previousElementSibling.matches(".show-result")) output.previousElementSibling.remove();
    output.dispatchEvent(new Event("every-byte:shown"));
  };

  if (bar && outputs.length && location.pathname.includes("/chapters/")) {
    const toggle = document.createElement("button");
    toggle.type = "button";
    toggle.className = "hide-results";
    bar.prepend(toggle);

    // What a reader may choose, each with what is hidden, and the button that leads to the next, in a circle.
    const CHOICES = {
      asked: { hidden: (output) => "asked" in output.dataset, next: "no", button: "Show results", now: "Predicted results wait" },
      no: { hidden: () => false, next: "yes", button: "Hide results", now: "All results show" },
      yes: { hidden: () => true, next: "asked", button: "Hide only predicted", now: "All results are hidden" },
    };
    const kept = everyByteStorage.get("hide-results");
    let choice = CHOICES[kept] ? kept : "asked";

    const state = () => (outputs.some((output) => output.hidden) ? choice : "no");
    const name = () => {
      const { button, now, next } = CHOICES[state()];
      toggle.textContent = button;
      toggle.title = `${now}. Next: ${CHOICES[next].now.toLowerCase()}; then: ${CHOICES[CHOICES[next].next].now.toLowerCase()}.`;
    };
    const set = () => {
      outputs.forEach((output) => (CHOICES[choice].hidden(output) ? hide : show)(output));
      name();
      document.dispatchEvent(new Event("every-byte:layout"));
    };
    toggle.addEventListener("click", () => {
      choice = CHOICES[state()].next;
      everyByteStorage.set("hide-results", choice === "asked" ? null : choice);
      set();
    });
    outputs.forEach((output) => {
      output.addEventListener("every-byte:ask", () => show(output));
      output.addEventListener("every-byte:shown", name);
    });
    set();
  }
}
