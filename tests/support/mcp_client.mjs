// A client of the TypeScript SDK: connects, lists the tools, calls `echo` for each line of its stdin, then closes.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [sdk, command, ...args] = process.argv.slice(2);
const { Client } = await import(pathToFileURL(`${sdk}/client/index.js`));
const { StdioClientTransport } = await import(pathToFileURL(`${sdk}/client/stdio.js`));

const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");
const client = new Client({ name: "tests", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));

const echo = async (message) => (await client.callTool({ name: "echo", arguments: { message } })).content[0].text;
const { tools } = await client.listTools();
say({ tools: tools.map((tool) => tool.name).sort(), echo: await echo("first") });
for await (const line of createInterface({ input: process.stdin })) say({ echo: await echo(line) });
await client.close();
process.exit(0);
