// Which keys are an explorer's own where JupyterLab would take them too.

const OURS = "data-lm-suppress-shortcuts"; // to JupyterLab this must be said by what has the focus itself

/** Keeps the arrow keys, Enter and all others for what has the focus within the element; with Ctrl or Cmd held down, as in
 * Ctrl+S, they are JupyterLab's. */
export function keepKeys(element) {
  const keep = (focused, areOurs) => (areOurs ? focused.setAttribute(OURS, "true") : focused.removeAttribute(OURS));
  element.addEventListener("focusin", ({ target }) => keep(target, true));
  element.addEventListener("keydown", ({ target, key }) => {
    if (key === "Control" || key === "Meta") keep(target, false);
  });
  element.addEventListener("keyup", ({ target, ctrlKey, metaKey }) => keep(target, !ctrlKey && !metaKey));
}
