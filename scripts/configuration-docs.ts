/*
 * docs/configuration.md from the commented examples (meaning, default) and the schemas (limits).
 *   node --import tsx scripts/configuration-docs.ts           writes it
 *   node --import tsx scripts/configuration-docs.ts --check   fails when it would be another
 */
import { readFileSync, writeFileSync } from 'node:fs'
import process, { argv } from 'node:process'
import { format } from 'prettier'
import { parse } from 'yaml'
import { AgentConfigSchema } from '../agent/config.js'
import { GatewayConfigSchema } from '../gateway/config.js'

const path = 'docs/configuration.md'

interface Node {
  type?: string
  default?: unknown
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
  maxItems?: number
  anyOf?: { const: string }[]
  properties?: Record<string, Node>
}

interface Row {
  readonly key: string
  readonly meaning: string
}

/** Every key of an example with the comment that stands above it; keys below one comment share it. */
export function parseExample(text: string): Row[] {
  const rows: Row[] = []
  const path: string[] = []
  let comment: string[] = []
  let used = false
  for (const line of text.split('\n')) {
    const [, indent = '', remark, key] = /^( *)(?:# ?(.*)|(\w+):.*)$/.exec(line) ?? []
    if (remark !== undefined) {
      comment = used ? [remark] : [...comment, remark]
      used = false
    } else if (key !== undefined) {
      path.splice(indent.length / 2, path.length, key)
      rows.push({ key: path.join('.'), meaning: comment.join(' ') })
      used = true
    } else if (!used) comment = []
  }
  return rows
}

function findNode(schema: Node, key: string): Node | undefined {
  return key.split('.').reduce<Node | undefined>((at, part) => at?.properties?.[part], schema)
}

function limitsOf({ type, minimum, maximum, exclusiveMinimum, maxItems, anyOf }: Node): string {
  if (anyOf) return anyOf.map((choice) => `\`${choice.const}\``).join(', ')
  if (maxItems !== undefined) return `at most ${maxItems}`
  if (maximum === undefined) return type ?? ''
  return exclusiveMinimum !== undefined
    ? `above ${exclusiveMinimum}, to ${maximum}`
    : `${minimum} to ${maximum}`
}

function table(schema: Node, example: string): string {
  const lines = parseExample(example).flatMap(({ key, meaning }) => {
    const node = findNode(schema, key)
    if (!node || node.properties) return []
    const fallback = `\`${JSON.stringify(node.default)}\``
    return [`| \`${key}\` | ${fallback} | ${limitsOf(node)} | ${meaning.replaceAll('|', '\\|')} |`]
  })
  return ['| key | default | values | meaning |', '|---|---|---|---|', ...lines].join('\n')
}

async function configurationPage(): Promise<string> {
  const agent = readFileSync('systemd/agent.example.yaml', 'utf8')
  const gateway = readFileSync('systemd/gateway.example.yaml', 'utf8')
  const set = (parse(agent) as { images: { prefetch: string[] } }).images.prefetch
  const page = `# Configuration

<!-- Made by scripts/configuration-docs.ts from the examples and schemas; npm run check compares. -->

Both programs read one YAML file, once, at start; \`scripts/up\` again restarts what a changed file concerns. A key that is
left out has its default. An unknown key or a value out of range is refused with the key's name. The files that \`up\`
writes are [agent.example.yaml](../systemd/agent.example.yaml) and [gateway.example.yaml](../systemd/gateway.example.yaml);
they differ from the defaults in \`images.prefetch: ${JSON.stringify(set)}\`.

## /etc/berth/agent.yaml

${table(AgentConfigSchema, agent)}

## /etc/berth/gateway.yaml

${table(GatewayConfigSchema, gateway)}

The environment variable \`BERTH_REDIS_URL\` overrides \`redis.url\`; \`scripts/up\` and the units take it from
\`/etc/berth/gateway.env\`.
`
  return format(page, { parser: 'markdown', printWidth: 110 })
}

async function main(): Promise<void> {
  const page = await configurationPage()
  if (argv[2] !== '--check') return writeFileSync(path, page)
  if (readFileSync(path, 'utf8') === page) return
  console.error(`${path} is not what the examples say: node --import tsx scripts/configuration-docs.ts`)
  process.exitCode = 1
}

if (argv[1]?.endsWith('configuration-docs.ts')) await main()
