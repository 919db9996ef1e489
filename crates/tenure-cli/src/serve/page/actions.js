// What an operator can do: named, asked for once more, then done.

import { h, put } from "./text.js";

const dialog = document.getElementById("confirm");
const title = document.getElementById("confirm-title");
const what = dialog.querySelector(".what");
const trouble = dialog.querySelector(".trouble");
const [no, yes] = dialog.querySelectorAll("button");
let running = null;

/** A button for an action: { name, danger, title, what: [text], choose: [text], done, act(choice) }. */
export function button(action, told) {
  return h("button", { class: action.danger ? "plain danger" : "plain", onclick: () => ask(action, told) }, action.name);
}

function ask(action, told) {
  const chosen = action.choose && h("select", { "aria-label": "node" }, ...action.choose.map((node) => h("option", {}, node)));
  running = { action, told, chosen };
  put(title, action.title);
  what.replaceChildren(...action.what.map((line) => h("p", {}, line)), ...(chosen ? [chosen] : []));
  put(yes, action.name);
  yes.classList.toggle("danger", Boolean(action.danger));
  yes.disabled = false;
  trouble.hidden = true;
  dialog.showModal();
  // Nothing is done by a key that is pressed too often.
  (chosen ?? no).focus();
}

no.addEventListener("click", () => dialog.close());

dialog.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { action, told, chosen } = running;
  yes.disabled = true;
  try {
    await action.act(chosen?.value);
    dialog.close();
    told(action.done);
  } catch (error) {
    put(trouble, error.message);
    trouble.hidden = false;
    yes.disabled = false;
  }
});

const asking = document.getElementById("token");

/** Asks for a token until there is one. */
export function askToken(refused) {
  const input = asking.querySelector("input");
  const said = asking.querySelector(".trouble");
  put(said, refused ? "That token was refused." : "");
  said.hidden = !refused;
  input.value = "";
  asking.showModal();
  return new Promise((resolve) => {
    asking.oncancel = (event) => event.preventDefault();
    asking.querySelector("form").onsubmit = () => resolve(input.value.trim());
  });
}
