// Which keys are an explorer's own where JupyterLab would take them too.

const OURS = "data-lm-suppress-shortcuts"; // to JupyterLab this must be said by what has the focus itself
const IN_A_FIELD = "acvxyz"; // with Ctrl or Cmd: select, copy, paste, cut, redo and undo what is typed

/** Keeps the arrow keys, Enter and all others for what has the focus within the element; with Ctrl or Cmd held down, as in
 * Ctrl+S, they are JupyterLab's, but for those that edit a field. */
export function keepKeys(element) {
  const decide = ({ target, key, ctrlKey, metaKey }) => {
    if (!element.contains(target)) return;
    target.toggleAttribute(OURS, !(ctrlKey || metaKey) || (target.type === "number" && IN_A_FIELD.includes(key.toLowerCase())));
  };
  // JupyterLab hears a key at the document, before the element does: only the window is earlier
  element.addEventListener("focusin", () => window.addEventListener("keydown", decide, true));
  element.addEventListener("focusout", () => window.removeEventListener("keydown", decide, true));
}
