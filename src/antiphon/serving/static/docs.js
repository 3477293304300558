// Writes openapi.json as a page.

const make = (tag, text, className) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
};

const documentation = await (await fetch("openapi.json")).json();
const schemas = documentation.components.schemas;
const named = (schema) => schema?.$ref?.split("/").pop();

function kind(schema) {
  if (!schema) return "anything";
  if (schema.$ref) return named(schema);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const several = schema.anyOf ?? schema.oneOf;
  if (several) return several.map(kind).join(" | ");
  if (schema.type === "array") return `list of ${kind(schema.items)}`;
  return schema.type ?? "anything";
}

function table(name) {
  const schema = schemas[name];
  const box = make("div", undefined, "scroll");
  const rows = make("table");
  for (const [field, entry] of Object.entries(schema.properties ?? {})) {
    const row = make("tr");
    const is = (schema.required ?? []).includes(field) ? `${field} *` : field;
    row.append(make("td", is), make("td", kind(entry)), make("td", entry.description ?? ""));
    rows.append(row);
  }
  box.append(rows);
  return box;
}

document.getElementById("about").textContent = documentation.info.description;
const routes = document.getElementById("routes");
for (const [path, verbs] of Object.entries(documentation.paths)) {
  for (const [verb, entry] of Object.entries(verbs)) {
    const section = make("section", undefined, "route");
    const title = make("h2");
    title.append(make("span", verb.toUpperCase(), "verb"), path);
    section.append(title, make("p", entry.summary));
    const body = named(entry.requestBody?.content["application/json"].schema);
    if (body) section.append(table(body));
    const answers = Object.entries(entry.responses).map(([status, { description }]) => `${status} ${description}`);
    section.append(make("p", answers.join(" ")));
    routes.append(section);
  }
}
routes.append(make("h2", "Types"));
for (const name of Object.keys(schemas).sort()) {
  const details = make("details");
  details.append(make("summary", name));
  if (schemas[name].description) details.append(make("p", schemas[name].description));
  details.append(table(name));
  routes.append(details);
}
