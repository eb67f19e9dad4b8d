import { readFile } from 'node:fs/promises'
import { CommandError, runBriefPerl } from '../process/process.js'

type Protocol = 'tcp' | 'udp'

/**
 * Reads the ports on which the host's own programs listen, at any address. A mapping must not divert the traffic of
 * these programs.
 * @returns ports in the form `tcp:22`
 */
export async function readListeningPorts(protocols: readonly Protocol[] = ['tcp', 'udp']): Promise<Set<string>> {
  const lists = await Promise.all(
    protocols.map(async (protocol) => {
      const ports = await (protocol === 'tcp' ? readTcpPorts() : readProcPorts('udp'))
      return ports.map((port) => `${protocol}:${port}`)
    }),
  )
  return new Set(lists.flat())
}

/** Reads the ports of listening TCP sockets by sock_diag(7), with `inet_diag_req_v2` and `inet_diag_msg`. */
async function readTcpPorts(): Promise<number[]> {
  try {
    const { stdout } = await runBriefPerl('listening-sockets')
    return stdout.split('\n').filter(Boolean).map(Number)
  } catch (cause) {
    if (!(cause instanceof CommandError)) throw cause
    return readProcPorts('tcp') // the kernel lacks the module for sock_diag (tcp_diag)
  }
}

async function readProcPorts(protocol: Protocol): Promise<number[]> {
  const texts = await Promise.all(
    ['', '6'].map((family) => readFile(`/proc/net/${protocol}${family}`, 'utf8').catch(emptyWhenMissing)),
  )
  return texts.flatMap((text) => parseListeningPorts(text, protocol))
}

function emptyWhenMissing(cause: NodeJS.ErrnoException): string {
  if (cause.code === 'ENOENT') return '' // IPv6 is switched off in the kernel
  throw cause
}

/** States that count as listening, in hex. UDP has no listening state, so a bound UDP socket (CLOSE) counts. */
const waiting = { tcp: '0A', udp: '07' } as const

/** A socket that waits for connections. */
export interface ListeningSocket {
  readonly port: number
  /** True if connections from other computers reach the socket. False if it only listens on the loopback. */
  readonly isReachable: boolean
}

/**
 * Parses the ports of listening sockets in /proc/net/{tcp,udp}{,6} (proc_net(5)). Columns are slot, local address:port
 * in hex, remote address:port, and state.
 */
export function parseListeningPorts(text: string, protocol: Protocol): number[] {
  return parseListeners(text, protocol).map(({ port }) => port)
}

/** Like `parseListeningPorts`, but also evaluates the sockets' addresses. */
export function parseListeners(text: string, protocol: Protocol): ListeningSocket[] {
  const rows = text
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
  return rows.flatMap(([, local = '', , state]) => {
    const [address = '', port = ''] = local.split(':')
    return state === waiting[protocol] ? [{ port: parseInt(port, 16), isReachable: !isLoopback(address) }] : []
  })
}

/**
 * True if the address is ::1, in 127.0.0.0/8, or the IPv6 form of an address in 127.0.0.0/8. The kernel prints words of
 * 32 bits in the byte order of the processor.
 */
function isLoopback(hex: string): boolean {
  return /^(?:0{16}FFFF0000|0{16}0000FFFF)?(?:[0-9A-F]{6}7F|7F[0-9A-F]{6})$|^0{24}(?:01000000|00000001)$/.test(hex)
}
