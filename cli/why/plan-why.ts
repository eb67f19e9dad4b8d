import { wordingOf } from '../catalog/wording.js'

/* This module turns the result of the API's connection check into text for the terminal. */

export interface Diagnosis {
  readonly reachable: boolean
  readonly steps: readonly { readonly name: string; readonly state: string; readonly message: string }[]
  readonly container_port: number
  readonly source: string
  readonly address: string
  readonly port: number
  readonly listening_ports: readonly number[]
  readonly repair: Repair | null
}

interface Repair {
  readonly action: string
  readonly method: string
  readonly path: string
  readonly body: Readonly<Record<string, unknown>> | null
  /** Value for `If-Match`. Empty: no value. Undefined: an older gateway, which sends no value. */
  readonly if_match?: string
}

/** A sentence with the condition of each step of the connection check, by step. */
const conditions: Readonly<Record<string, string>> = {
  allowed: 'The guest is not suspended, and its quota is not used up',
  running: 'The guest is running',
  listening: 'A program in the guest listens on the port',
  mapping: 'The port can be reached from outside, by a mapping or a public address',
  address: 'The address that customers see leads to the host',
  firewall: 'The firewall of the guest accepts connections from',
  guest: 'The host can connect to the guest',
  connection: 'A connection from outside succeeds',
}

const marks: Readonly<Record<string, string>> = { ok: 'yes', failed: 'NO', skipped: '?' }

/** Returns a line for each step, and the reason below a step that failed. */
export function stepLines({ steps, source }: Diagnosis): string[] {
  return steps.flatMap(({ name, state, message }) => {
    const condition = conditions[name] ?? name
    const line = `${(marks[state] ?? '?').padEnd(4)} ${condition}${name === 'firewall' ? ` ${source}` : ''}`
    return message === '' || state === 'skipped' ? [line] : [line, `     ${wordOf(message)}`]
  })
}

const wordOf = (text: string): string => wordingOf(text, { commands: new Map(), flags: [] })

/** Returns one sentence with the result. @param name name of the guest */
export function verdict({ reachable, container_port, address, port, steps }: Diagnosis, name: string): string {
  const place = `port ${container_port} of ${name}`
  if (!reachable) {
    const reason = steps.find(({ state }) => state === 'failed')?.message
    return `${place} cannot be reached${reason ? `: ${wordOf(reason)}` : ''}`
  }
  const host = address.includes(':') ? `[${address}]` : address || 'any address of the host'
  return port === 0 ? `${place} can be reached` : `${place} can be reached at ${host}, port ${port}`
}

/** Returns what the user can do next; undefined: nothing is known. */
export function nextStep(
  { repair, listening_ports: ports, container_port: port }: Diagnosis,
  name: string,
): string | undefined {
  const hints = [
    ...(ports.length > 0 ? [`the guest listens on: ${ports.join(', ')}`] : []),
    ...(repair ? [`try: ${commandOf(repair, name, port)}`] : []),
  ]
  return hints.length > 0 ? hints.join('\n') : undefined
}

function commandOf({ action, method, path, body, if_match: etag }: Repair, name: string, port: number): string {
  const commands: Readonly<Record<string, string>> = {
    start: `berth guest start ${name}`,
    restart: `berth guest restart ${name}`,
    reset_traffic: `berth guest reset-traffic ${name}`,
    set_expiry: `berth guest set-expiry ${name} --expires-at +30d`,
    add_port_mapping: `berth port add ${name} --guest-port ${port}`,
  }
  const data = body === null ? '' : ` --data ${quoted(JSON.stringify(body))}`
  const condition = etag ? ` --if-match ${quoted(etag)}` : ''
  return commands[action] ?? `berth api ${method} ${path}${condition}${data}`
}

/** Quotes a text for a shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`
