// Makes src/generated/*.ts from the two machine-readable descriptions:
//   node scripts/generate.mjs SIDECAR_SCHEMA.json OPENAPI.json
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const HEAD = "// Made by scripts/generate.mjs. Do not edit.\n\n";
const target = join(dirname(fileURLToPath(import.meta.url)), "..", "src", "generated");

/** The TypeScript type of a JSON schema. */
function typeOf(schema, indent = "") {
  if (schema === undefined || schema === true) return "unknown";
  if (schema.$ref !== undefined) return schema.$ref.split("/").at(-1);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) return [...new Set(choices.map((choice) => typeOf(choice, indent)))].join(" | ");
  const kinds = [schema.type ?? "any"].flat();
  return [...new Set(kinds.map((kind) => ofKind(kind, schema, indent)))].join(" | ");
}

function ofKind(kind, schema, indent) {
  switch (kind) {
    case "string":
      return "string";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "null":
      return "null";
    case "array": {
      const item = typeOf(schema.items, indent);
      return item.includes(" | ") || item.includes("{") ? `Array<${item}>` : `${item}[]`;
    }
    case "object":
      return objectType(schema, indent);
    default:
      return "unknown";
  }
}

function objectType(schema, indent) {
  const properties = Object.entries(schema.properties ?? {});
  const others = schema.additionalProperties;
  if (properties.length === 0) {
    if (others === false) return "Record<string, never>";
    return `Record<string, ${typeOf(others, indent)}>`;
  }
  const required = new Set(schema.required ?? []);
  const inner = indent + "  ";
  const lines = properties.map(([name, part]) => {
    const key = /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name);
    return `${remark(part, inner)}${inner}${key}${required.has(name) ? "" : "?"}: ${typeOf(part, inner)};\n`;
  });
  if (others === true) lines.push(`${inner}[other: string]: unknown;\n`);
  return `{\n${lines.join("")}${indent}}`;
}

function remark(schema, indent) {
  return schema?.description === undefined ? "" : `${indent}/** ${schema.description.replaceAll("*/", "* /")} */\n`;
}

function definitions(schemas) {
  return Object.entries(schemas)
    .map(([name, schema]) => `${remark(schema, "")}export type ${name} = ${typeOf(schema)};\n`)
    .join("\n");
}

function sidecar(document) {
  const call = ([name, method]) =>
    `  /** ${method.summary} */\n  ${JSON.stringify(name)}: {\n` +
    `    params: ${typeOf(method.params, "    ")};\n    result: ${typeOf(method.result, "    ")};\n  };\n`;
  const news = ([name, method]) =>
    `  /** ${method.summary} */\n  ${JSON.stringify(name)}: ${typeOf(method.params, "  ")};\n`;
  return (
    `${HEAD}export const PROTOCOL = ${document.protocol};\n\n${definitions(document.$defs)}\n` +
    `export interface Methods {\n${Object.entries(document.methods).map(call).join("")}}\n\n` +
    `export interface Notifications {\n${Object.entries(document.notifications).map(news).join("")}}\n`
  );
}

function parameters(operation, where) {
  const found = (operation.parameters ?? []).filter((parameter) => parameter.in === where);
  const properties = Object.fromEntries(found.map((parameter) => [parameter.name, parameter.schema ?? {}]));
  const required = found.filter((parameter) => parameter.required).map((parameter) => parameter.name);
  return typeOf({ type: "object", properties, required, additionalProperties: false }, "    ");
}

function answer(operation) {
  const good = Object.entries(operation.responses).find(([status]) => status.startsWith("2"))?.[1];
  return typeOf(good?.content?.["application/json"]?.schema, "    ");
}

function daemon(document) {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, operation]) => operation.operationId !== undefined)
      .map(([method, operation]) => [path, method, operation]),
  );
  const lines = operations.map(
    ([path, method, operation]) =>
      `  /** ${operation.summary ?? ""} */\n  ${operation.operationId}: {\n` +
      `    method: ${JSON.stringify(method.toUpperCase())};\n    path: ${JSON.stringify(path)};\n` +
      `    query: ${parameters(operation, "query")};\n` +
      `    body: ${typeOf(operation.requestBody?.content?.["application/json"]?.schema, "    ")};\n` +
      `    answer: ${answer(operation)};\n  };\n`,
  );
  return `${HEAD}${definitions(document.components.schemas)}\nexport interface Operations {\n${lines.join("")}}\n`;
}

const [schemaPath, openapiPath] = process.argv.slice(2);
if (schemaPath === undefined || openapiPath === undefined) {
  console.error("usage: node scripts/generate.mjs SIDECAR_SCHEMA.json OPENAPI.json");
  process.exit(2);
}
mkdirSync(target, { recursive: true });
writeFileSync(join(target, "sidecar.ts"), sidecar(JSON.parse(readFileSync(schemaPath, "utf8"))));
writeFileSync(join(target, "daemon.ts"), daemon(JSON.parse(readFileSync(openapiPath, "utf8"))));
