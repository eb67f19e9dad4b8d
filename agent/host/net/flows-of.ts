import { runPerl } from '../process/process.js'

/** A flow that the kernel tracks. `source` is the address that opened it. */
export interface OpenedFlow {
  /** `tcp`, `udp`, `icmp`, or the number of another protocol. */
  readonly protocol: string
  readonly source: string
  readonly target: string
  /** Port from which the flow was opened. 0: the protocol has no ports. */
  readonly sourcePort: number
  readonly targetPort: number
  /** TCP: name of the state, as in conntrack(8). Other protocols: `REPLIED` or `UNREPLIED`. */
  readonly state: string
  /** True if nobody has answered the flow. */
  readonly unreplied: boolean
  /** Seconds until the kernel forgets the flow. */
  readonly leftSeconds: number
  /** Bytes from the side that opened the flow. 0: the kernel does not count them. */
  readonly bytes: number
  readonly replyBytes: number
}

/** Reads the flows that these addresses have opened. Walks the kernel's whole table once for each address. */
export async function readFlowsOf(addresses: readonly string[]): Promise<OpenedFlow[]> {
  return addresses.length === 0 ? [] : read(addresses)
}

/** Reads the unanswered flows of all guests and of the host. */
export async function readUnreplied(): Promise<OpenedFlow[]> {
  return (await read(['unreplied'])).filter(({ unreplied }) => unreplied)
}

async function read(args: readonly string[]): Promise<OpenedFlow[]> {
  const { stdout } = await runPerl('read-flows', args, { maxOutputBytes: 64 * 1024 * 1024 })
  return stdout.split('\n').flatMap((line) => parseFlow(line) ?? [])
}

const protocols: Readonly<Record<string, string>> = { 1: 'icmp', 6: 'tcp', 17: 'udp', 58: 'icmp' }

/** Names of TCP states by number (linux/netfilter/nf_conntrack_tcp.h). */
const tcpStates = [
  'NONE',
  'SYN_SENT',
  'SYN_RECV',
  'ESTABLISHED',
  'FIN_WAIT',
  'CLOSE_WAIT',
  'LAST_ACK',
  'TIME_WAIT',
  'CLOSE',
  'SYN_SENT2',
]
const opening: ReadonlySet<string> = new Set(['SYN_SENT', 'SYN_SENT2'])

/** Parses a line of the output of read-flows.pl. */
export function parseFlow(line: string): OpenedFlow | undefined {
  const [protocol = '', source = '', target = '', sourcePort, targetPort, told = '', left, bytes, replyBytes] =
    line.split(' ')
  if (replyBytes === undefined) return undefined
  const state = told.startsWith('t') ? (tcpStates[Number(told.slice(1))] ?? 'NONE') : told.toUpperCase()
  return {
    protocol: protocols[protocol] ?? protocol,
    source,
    target,
    sourcePort: Number(sourcePort),
    targetPort: Number(targetPort),
    state,
    unreplied: state === 'UNREPLIED' || opening.has(state),
    leftSeconds: Number(left),
    bytes: Number(bytes),
    replyBytes: Number(replyBytes),
  }
}
