/** Parameters of a client's request for a console, except for the client's identity. */
export interface ConsoleOffer {
  readonly kind: 'ssh' | 'vnc'
  /** Id, uuid or name of the container. */
  readonly container: string
  /** The ticket. `undefined`: the request contains no ticket, or two different tickets. */
  readonly ticket: string | undefined
  readonly mode: 'shell' | 'serial' | 'vnc' | 'run'
  /** True if the client uses the subprotocol `berth.console.v1`. */
  readonly isOwn: boolean
  /** The subprotocol to use. `undefined`: the client has offered no subprotocol. */
  readonly protocol: string | undefined
  readonly size: { readonly columns: number; readonly rows: number }
  /** Id of the console to resume. Empty: a new console must be opened. */
  readonly resume: string
  /** Offset up to which the client has already received the output. `undefined`: the client has sent no offset. */
  readonly received: number | undefined
}

export const ownProtocol = 'berth.console.v1'

const consolePath = /^\/api(?:\/v1)?\/(ssh|vnc)$/
const ticketProtocol = /^(?:[A-Za-z0-9-]+-)?ticket\.([A-Za-z0-9_-]{1,128})$/
const ticketText = /^[A-Za-z0-9_-]{1,128}$/

/** @param path path of a URL without the query */
export function isConsolePath(path: string): boolean {
  return consolePath.test(path)
}

/**
 * Parses a request for a console.
 * @param protocols value of the header Sec-WebSocket-Protocol
 * @returns undefined if the request is malformed
 */
export function readOffer(url: URL, protocols: string | undefined): ConsoleOffer | undefined {
  const { searchParams: query } = url
  const offered = (protocols ?? '').split(',').map((name) => name.trim())
  const text = (name: string): string => query.get(name) ?? ''
  const kind = consolePath.exec(url.pathname)?.[1] as ConsoleOffer['kind'] | undefined
  const mode = kind && readMode(kind, text('mode'))
  const size = readSize(text('cols'), text('rows'))
  const goOn = readResume(text('resume'), text('received'))
  const isOwn = offered.includes(ownProtocol)
  const container = text('container') || text('container_name')
  if (!kind || !mode || !size || !goOn || !mayRun(mode, isOwn, goOn) || container === '' || container.length > 128)
    return undefined
  return {
    kind,
    container,
    mode,
    size,
    ...goOn,
    ticket: readTicket(offered, text('ticket')),
    isOwn,
    protocol: chooseProtocol(offered),
  }
}

/** A program without a terminal requires the protocol berth.console.v1, and cannot be resumed. */
function mayRun(mode: ConsoleOffer['mode'], isOwn: boolean, { resume }: Pick<ConsoleOffer, 'resume'>): boolean {
  return mode !== 'run' || (isOwn && resume === '')
}

function readMode(kind: ConsoleOffer['kind'], text: string): ConsoleOffer['mode'] | undefined {
  if (kind === 'vnc') return 'vnc'
  if (text === '') return 'shell'
  return (['shell', 'serial', 'run'] as const).find((mode) => mode === text)
}

function readResume(resume: string, received: string): Pick<ConsoleOffer, 'resume' | 'received'> | undefined {
  if (!/^[A-Za-z0-9_-]{0,64}$/.test(resume) || !/^\d{0,15}$/.test(received)) return undefined
  return { resume, received: received === '' ? undefined : Number(received) }
}

/** Selects one of the offered protocols. Browsers require exactly one in the answer. */
function chooseProtocol(offered: readonly string[]): string | undefined {
  const known = [ownProtocol, 'binary'].find((name) => offered.includes(name))
  return known ?? offered.find((name) => ticketProtocol.test(name))
}

/** Reads the ticket from protocols and query. Some clients send the ticket in both places. */
function readTicket(offered: readonly string[], inQuery: string): string | undefined {
  const found = new Set(offered.flatMap((name) => ticketProtocol.exec(name)?.[1] ?? []))
  if (inQuery !== '') found.add(inQuery)
  const [ticket] = found
  return found.size === 1 && ticketText.test(ticket ?? '') ? ticket : undefined
}

function readSize(columns: string, rows: string): ConsoleOffer['size'] | undefined {
  const [wide, high] = [readCount(columns, 80), readCount(rows, 24)]
  return wide === undefined || high === undefined ? undefined : { columns: wide, rows: high }
}

/** Parses a number from 1 to 1000. `undefined`: the text is invalid. @param otherwise result for empty text */
function readCount(text: string, otherwise: number): number | undefined {
  if (text === '') return otherwise
  const count = /^\d{1,4}$/.test(text) ? Number(text) : 0
  return count >= 1 && count <= 1000 ? count : undefined
}
