// "Hide results": each result of a chapter then waits behind a button of its own, for a reader who predicts first.

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
  };

  if (bar && outputs.length && location.pathname.includes("/chapters/")) {
    const toggle = document.createElement("button");
    toggle.type = "button";
    toggle.className = "hide-results";
    bar.prepend(toggle);

    const set = (hidden) => {
      outputs.forEach(hidden ? hide : show);
      toggle.textContent = hidden ? "Show results" : "Hide results";
      document.dispatchEvent(new Event("every-byte:layout"));
    };
    toggle.addEventListener("click", () => {
      const hidden = toggle.textContent === "Hide results";
      everyByteStorage.set("hide-results", hidden ? "yes" : null);
      set(hidden);
    });
    set(everyByteStorage.get("hide-results") === "yes");
  }
}
