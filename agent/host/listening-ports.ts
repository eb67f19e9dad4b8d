import { readFile } from 'node:fs/promises'

const tables = [
  { file: 'tcp', protocol: 'tcp' },
  { file: 'tcp6', protocol: 'tcp' },
  { file: 'udp', protocol: 'udp' },
  { file: 'udp6', protocol: 'udp' },
] as const

/**
 * Ports the host's own programs wait at, on any address: `tcp:22`, `udp:53`. A mapping of the same port
 * would take their traffic away.
 */
export async function readListeningPorts(): Promise<Set<string>> {
  const texts = await Promise.all(
    tables.map(({ file }) => readFile(`/proc/net/${file}`, 'utf8').catch(emptyWhenMissing)),
  )
  return new Set(
    tables.flatMap(({ protocol }, index) =>
      parseListeningPorts(texts[index] ?? '', protocol).map((port) => `${protocol}:${port}`),
    ),
  )
}

function emptyWhenMissing(cause: NodeJS.ErrnoException): string {
  if (cause.code === 'ENOENT') return '' // IPv6 is switched off
  throw cause
}

/** States of a socket that waits for others; a bound datagram socket is in state "close". */
const waiting = { tcp: '0A', udp: '07' } as const

/**
 * Local ports from the text of /proc/net/{tcp,udp}{,6}.
 * Source: proc_net(5); columns: slot, local address:port in hex, remote, state
 */
export function parseListeningPorts(text: string, protocol: 'tcp' | 'udp'): number[] {
  const rows = text
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
  return rows.flatMap(([, local = '', , state]) =>
    state === waiting[protocol] ? [parseInt(local.slice(local.lastIndexOf(':') + 1), 16)] : [],
  )
}
