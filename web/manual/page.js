// The manual of the API, drawn from its OpenAPI document. Everything goes in as text: no markup is ever made of data.
"use strict";

const METHODS = ["get", "post", "put", "delete"];
const key = document.getElementById("key");

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function shown(value) {
  return JSON.stringify(value, null, 2);
}

function resolve(spec, schema) {
  const name = schema && schema.$ref && schema.$ref.split("/").pop();
  return name ? spec.components.schemas[name] : schema || {};
}

function kind(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.map(String).join(" | ");
  if (schema.anyOf) return schema.anyOf.map(kind).join(" | ");
  if (schema.type === "array") return `list of ${kind(schema.items || {})}`;
  return [schema.type || "any", schema.format && `(${schema.format})`].filter(Boolean).join(" ");
}

function fields(spec, schema) {
  const whole = resolve(spec, schema.anyOf ? schema.anyOf[0] : schema);
  const rows = Object.entries(whole.properties || {}).map(([name, part]) =>
    make("tr", {}, make("td", {}, make("code", {}, name)), make("td", {}, kind(part)),
      make("td", {}, (whole.required || []).includes(name) ? "required" : ""), make("td", {}, part.description || "")));
  if (rows.length === 0) return null;
  const head = ["Field", "Type", "", "Meaning"].map((text) => make("th", { scope: "col" }, text));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Fields of the body" },
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)));
}

function parameterField(id, parameter) {
  const input = make("input", { id, name: parameter.name, required: parameter.required, autocomplete: "off",
    placeholder: kind(parameter.schema || {}), "data-place": parameter.in });
  return make("div", { class: "field" },
    make("label", { for: id }, make("code", {}, parameter.name), parameter.required ? " *" : ""), input,
    parameter.description ? make("span", { class: "hint" }, parameter.description) : null);
}

function answers(operation) {
  const rows = Object.entries(operation.responses).map(([status, answer]) => {
    const content = Object.values(answer.content || {})[0];
    const example = content && content.example;
    return make("tr", {}, make("td", {}, make("code", {}, status)), make("td", {}, answer.description),
      make("td", {}, example === undefined ? "" : make("details", {}, make("summary", {}, "Example"), make("pre", {}, shown(example)))));
  });
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Answers" },
    make("table", {}, make("tbody", {}, ...rows)));
}

async function send(form, method, path, output) {
  const query = new URLSearchParams();
  const headers = {};
  let url = path;
  for (const input of form.querySelectorAll("input[data-place]")) {
    if (!input.value) continue;
    if (input.dataset.place === "path") url = url.replace(`{${input.name}}`, encodeURIComponent(input.value));
    else if (input.dataset.place === "query") query.append(input.name, input.value);
    else headers[input.name] = input.value;
  }
  const body = form.querySelector("textarea");
  if (body && body.value.trim()) headers["Content-Type"] = "application/json";
  if (key.value) headers.Authorization = `Bearer ${key.value}`;
  output.textContent = "Sending …";
  try {
    const answer = await fetch(String(query) ? `${url}?${query}` : url, {
      method, headers, body: body && body.value.trim() ? body.value : undefined, credentials: "omit" });
    const text = await answer.text();
    let pretty = text;
    try { pretty = shown(JSON.parse(text)); } catch { /* it is no JSON: as it is */ }
    output.textContent = `${answer.status} ${answer.statusText}\n\n${pretty}`;
  } catch (error) {
    output.textContent = `No answer: ${error.message}`;
  }
}

function tryOut(method, path, operation) {
  const parameters = (operation.parameters || []).map((parameter, number) =>
    parameterField(`${operation.operationId}-${number}`, parameter));
  const content = operation.requestBody && operation.requestBody.content["application/json"];
  const example = content && content.examples && Object.values(content.examples)[0];
  const body = content && make("textarea", { "aria-label": "Body, JSON", spellcheck: "false" },
    example ? shown(example.value) : "{}");
  const output = make("pre", { role: "status", hidden: true });
  const form = make("form", {}, ...parameters, body, make("button", { type: "submit" }, "Send"), output);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    output.hidden = false;
    send(form, method.toUpperCase(), path, output);
  });
  return form;
}

function section(spec, method, path, operation) {
  const verb = method.toUpperCase();
  const box = make("details", { id: operation.operationId, "data-text": `${verb} ${path} ${operation.description}`.toLowerCase() },
    make("summary", {}, make("span", { class: `method ${verb}` }, verb), make("span", { class: "path" }, path),
      make("span", { class: "what" }, operation.summary)));
  box.addEventListener("toggle", () => {
    if (!box.open || box.children.length > 1) return;
    const content = operation.requestBody && operation.requestBody.content["application/json"];
    const inside = make("div", { class: "inside" }, ...operation.description.split("\n\n").map((text) => make("p", {}, text)));
    const table = content && fields(spec, content.schema);
    if (table) inside.append(make("h3", {}, "Body"), table);
    // A stream never ends: it is read with a client, not here.
    if (!(operation.responses["200"] || { content: {} }).content["text/event-stream"]) {
      inside.append(make("h3", {}, "Try it"), tryOut(method, path, operation));
    }
    inside.append(make("h3", {}, "Answers"), answers(operation));
    box.append(inside);
  });
  return box;
}

function draw(spec) {
  document.getElementById("about").textContent = `Version ${spec.info.version}. ${spec.info.description}`;
  const groups = new Map();
  for (const [path, methods] of Object.entries(spec.paths)) {
    for (const method of METHODS.filter((name) => methods[name])) {
      const tag = methods[method].tags[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(section(spec, method, path, methods[method]));
    }
  }
  const main = document.getElementById("operations");
  main.replaceChildren(...[...groups].map(([tag, boxes]) => make("section", {}, make("h2", {}, tag), ...boxes)));
  if (location.hash) {
    const named = document.getElementById(location.hash.slice(1));
    if (named && named.matches("details")) named.open = true;
  }
}

document.getElementById("find").addEventListener("input", (event) => {
  const wanted = event.target.value.trim().toLowerCase();
  for (const part of document.querySelectorAll("main section")) {
    const boxes = [...part.querySelectorAll(":scope > details")];
    for (const box of boxes) box.hidden = !box.dataset.text.includes(wanted);
    part.hidden = boxes.every((box) => box.hidden);
  }
});

fetch("/openapi.json").then((answer) => answer.json()).then(draw).catch((error) => {
  document.getElementById("operations").textContent = `The document cannot be read: ${error.message}`;
});
