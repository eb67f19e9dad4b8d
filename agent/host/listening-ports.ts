import { readFile } from 'node:fs/promises'
import { readPerlProgram } from './perl-program.js'
import { CommandError, runBriefPerl } from './process.js'

type Protocol = 'tcp' | 'udp'

/**
 * Ports that the host's own programs listen on, at any address: `tcp:22`, `udp:53`. A mapping of such a port would take
 * their traffic away.
 * @param protocols the protocols to read
 */
export async function readListeningPorts(
  protocols: readonly Protocol[] = ['tcp', 'udp'],
): Promise<Set<string>> {
  const lists = await Promise.all(
    protocols.map(async (protocol) => {
      const ports = await (protocol === 'tcp' ? readTcpPorts() : readProcPorts('udp'))
      return ports.map((port) => `${protocol}:${port}`)
    }),
  )
  return new Set(lists.flat())
}

const listeningSockets = readPerlProgram('listening-sockets')

/** Source: sock_diag(7), with `inet_diag_req_v2` and `inet_diag_msg`. */
async function readTcpPorts(): Promise<number[]> {
  try {
    const { stdout } = await runBriefPerl(listeningSockets)
    return stdout.split('\n').filter(Boolean).map(Number)
  } catch (cause) {
    if (!(cause instanceof CommandError)) throw cause
    return readProcPorts('tcp') // the kernel lacks the module
  }
}

async function readProcPorts(protocol: Protocol): Promise<number[]> {
  const texts = await Promise.all(
    ['', '6'].map((family) => readFile(`/proc/net/${protocol}${family}`, 'utf8').catch(emptyWhenMissing)),
  )
  return texts.flatMap((text) => parseListeningPorts(text, protocol))
}

function emptyWhenMissing(cause: NodeJS.ErrnoException): string {
  if (cause.code === 'ENOENT') return '' // IPv6 is switched off
  throw cause
}

/** States of a listening socket; a bound datagram socket is in state "close". */
const waiting = { tcp: '0A', udp: '07' } as const

/**
 * Parses local ports from /proc/net/{tcp,udp}{,6}. Source: proc_net(5); columns: slot, local address:port in hex,
 * remote, state
 */
export function parseListeningPorts(text: string, protocol: Protocol): number[] {
  const rows = text
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
  return rows.flatMap(([, local = '', , state]) =>
    state === waiting[protocol] ? [parseInt(local.slice(local.lastIndexOf(':') + 1), 16)] : [],
  )
}
