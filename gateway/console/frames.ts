export type ClientFrame =
  | { readonly type: 'input'; readonly bytes: Buffer }
  | { readonly type: 'resize'; readonly columns: number; readonly rows: number }
  /** Number of bytes of output that the client has received on this socket. */
  | { readonly type: 'ack'; readonly bytes: number }
  /** End of the input of a program without a terminal. */
  | { readonly type: 'eof' }
  | { readonly type: 'close' }
  | { readonly type: 'nothing' }
  | { readonly type: 'bad' }

const inputTypes: readonly unknown[] = ['input', 'stdin', 'data']

/** Parses a frame of a client with the protocol `berth.console.v1`. Binary frames are input, text frames messages. */
export function readOwnFrame(data: Buffer, isBinary: boolean): ClientFrame {
  if (isBinary) return { type: 'input', bytes: data }
  const message = parseObject(data.toString())
  if (message?.['type'] === 'ack') {
    const { bytes } = message
    return isCount(bytes, Number.MAX_SAFE_INTEGER) ? { type: 'ack', bytes } : { type: 'bad' }
  }
  if (message?.['type'] === 'resize') return readResize(message, 'bad')
  return { type: (['close', 'eof'] as const).find((type) => type === message?.['type']) ?? 'bad' }
}

/**
 * Parses a frame of a terminal client without the subprotocol `berth.console.v1`. Text that is not a
 * known JSON message counts as typed input.
 */
export function readTerminalFrame(data: Buffer, isBinary: boolean): ClientFrame {
  if (isBinary) return { type: 'input', bytes: data }
  const message = parseObject(data.toString())
  if (message?.['type'] === 'resize') return readResize(message, 'nothing')
  if (message && inputTypes.includes(message['type']) && typeof message['data'] === 'string')
    return { type: 'input', bytes: Buffer.from(message['data']) }
  return { type: 'input', bytes: data }
}

/** Parses a frame of a screen client without the subprotocol `berth.console.v1`: input in the protocol RFB. */
export function readScreenFrame(data: Buffer): ClientFrame {
  return { type: 'input', bytes: data }
}

function readResize(message: Record<string, unknown>, otherwise: 'bad' | 'nothing'): ClientFrame {
  const { cols, rows } = message
  if (!isCount(cols, 1000) || !isCount(rows, 1000) || cols === 0 || rows === 0) return { type: otherwise }
  return { type: 'resize', columns: cols, rows }
}

function isCount(value: unknown, most: number): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= most
}

function parseObject(text: string): Record<string, unknown> | undefined {
  if (!text.startsWith('{')) return undefined
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return undefined // text that is not a message was typed by the user
  }
}
