// Will my training run fit? Three lists choose among stored answers; a model's are loaded when it is first chosen.

{
  const box = document.querySelector(".fit");
  const form = box.querySelector("form");
  const find = (name) => box.querySelector(`.fit-${name}`);
  const known = new Map();
  const build = (tag, attributes, ...inside) => {
    const element = Object.assign(document.createElement(tag), attributes);
    element.append(...inside);
    return element;
  };

  /** The stored answer of what is chosen, drawn. */
  function draw() {
    const data = known.get(form.model.value);
    const at = data?.at[`${form.batch.value} ${form.card.value}`];
    if (!at) return;
    const mountain = data.mountains[at.mountain];
    find("answer").innerHTML = at.answer;
    find("answer").dataset.over = at.over;
    const group = box.querySelector("svg g");
    group.setAttribute("transform", `translate(0 ${box.querySelector("svg").viewBox.baseVal.height}) scale(1 ${-at.scale})`);
    for (const path of group.children) path.setAttribute("d", mountain.bands[path.dataset.band] ?? "");
    find("room").style.bottom = `${at.room}%`;
    find("room").firstChild.textContent = at.roomWords;
    Object.assign(find("peak").style, { left: `${at.column}%`, bottom: `${100 * at.scale}%` });
    find("peak").firstChild.textContent = at.peakWords;
    find("phases").replaceChildren(...mountain.phases.map(([name, width]) => {
      const phase = build("span", {}, name);
      phase.style.width = `${width}%`;
      return phase;
    }));
    find("owners").replaceChildren(...mountain.owners.map(([name, text, all]) =>
      build("li", {}, build("i", { className: `fit-${name.replaceAll(" ", "-")}` }), `${name} `, build("b", { title: all }, text))));
    const chosen = ["model", "batch", "card"].map((name) => form[name].selectedOptions[0].text);
    find("fixed").textContent = `${chosen[0]}, ${chosen[1]}, on ${chosen[2]}`;
  }

  window.everyByteFit = (model, data) => {
    known.set(model, data);
    draw();
  };

  /** Have the answers of the chosen model, and draw. */
  function choose() {
    const model = form.model.value;
    if (known.has(model)) return draw();
    known.set(model, null);
    document.head.append(build("script", { src: `${box.dataset.scripts}/${model}.js` }));
  }

  form.addEventListener("change", choose);
  form.addEventListener("submit", (event) => event.preventDefault());
  const isAsTold = [...form.querySelectorAll("option")].every((option) => option.selected === option.defaultSelected);
  if (!isAsTold) choose();
}
