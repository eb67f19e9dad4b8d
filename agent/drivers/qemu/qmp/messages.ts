/*
 * Messages of QEMU and the guest agent: lines of JSON. They are untrusted, because a guest may have taken over its QEMU
 * and always controls its own agent. Sizes are limited, and only the expected form is accepted. Sources:
 * docs/interop/qmp-spec.txt, docs/interop/qemu-ga-ref of QEMU
 */

/** Maximum length of a line in bytes. The longest answer that the driver requests from QEMU has about 100 KB. */
export const mostLineBytes = 1024 * 1024

export type QmpMessage =
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'refusal'; readonly id: number; readonly class: string; readonly reason: string }
  | { readonly kind: 'event'; readonly name: string; readonly data: Readonly<Record<string, unknown>> }
  | { readonly kind: 'greeting' }

/** A line that is not a message of the protocol. */
export class MalformedMessage extends Error {
  override readonly name = 'MalformedMessage'
}

/** Parses a line. @throws {MalformedMessage} */
export function parseQmpMessage(line: string): QmpMessage {
  const message = objectOf(parseJson(line))
  if (!message) throw new MalformedMessage('the message is not a JSON object')
  if ('QMP' in message) return { kind: 'greeting' }
  if (typeof message['event'] === 'string')
    return { kind: 'event', name: message['event'], data: objectOf(message['data']) ?? {} }
  const id = typeof message['id'] === 'number' ? message['id'] : NaN
  if ('return' in message) return { kind: 'answer', id, value: message['return'] }
  const error = objectOf(message['error'])
  if (!error) throw new MalformedMessage('the message is neither an answer nor an event')
  return { kind: 'refusal', id, class: textOf(error['class']), reason: textOf(error['desc']) }
}

export function objectOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : undefined
}

export class Lines {
  #rest: Buffer[] = []
  #restBytes = 0

  constructor(private readonly mostBytes = mostLineBytes) {}

  /** Returns the lines that the chunk completes. @throws {MalformedMessage} if a line is too long */
  take(chunk: Buffer): string[] {
    const lines: string[] = []
    let from = 0
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
      lines.push(this.#join(chunk.subarray(from, end)))
      from = end + 1
    }
    const rest = chunk.subarray(from)
    this.#check(rest.length)
    if (rest.length > 0) this.#rest.push(Buffer.from(rest))
    this.#restBytes += rest.length
    return lines
  }

  #join(last: Buffer): string {
    this.#check(last.length)
    const line = Buffer.concat([...this.#rest, last]).toString('utf8')
    this.#rest = []
    this.#restBytes = 0
    return line
  }

  #check(more: number): void {
    if (this.#restBytes + more > this.mostBytes)
      throw new MalformedMessage(`the message is longer than ${this.mostBytes} bytes`)
  }
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    throw new MalformedMessage('the message is not JSON')
  }
}

/** Returns one short printable line for logs and errors. */
function textOf(value: unknown): string {
  if (typeof value !== 'string') return ''
  return value.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, ' ').slice(0, 300)
}
