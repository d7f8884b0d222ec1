// What waits behind a button: the results that a question asks for, until they are asked for; all of them with "Hide results".

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

    const isHidden = { yes: () => true, no: () => false, null: (output) => "asked" in output.dataset };
    const set = (choice) => {
      outputs.forEach((output) => (isHidden[choice](output) ? hide : show)(output));
      name();
      document.dispatchEvent(new Event("every-byte:layout"));
    };
    const name = () => { toggle.textContent = outputs.some((output) => output.hidden) ? "Show results" : "Hide results"; };
    toggle.addEventListener("click", () => {
      const choice = toggle.textContent === "Hide results" ? "yes" : "no";
      everyByteStorage.set("hide-results", choice);
      set(choice);
    });
    outputs.forEach((output) => {
      output.addEventListener("every-byte:ask", () => show(output));
      output.addEventListener("every-byte:shown", name);
    });
    set(everyByteStorage.get("hide-results"));
  }
}
