import { readFile } from 'node:fs/promises'
import { CommandError, runBriefPerl } from './process.js'

type Protocol = 'tcp' | 'udp'

/**
 * Ports the host's own programs wait at, on any address: `tcp:22`, `udp:53`. A mapping of the same port
 * would take their traffic away.
 * @param protocols only these are looked at
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

/*
 * For /proc/net/tcp the kernel walks all buckets of its table of connections, 262,144 on a large host and once for
 * each family: 10 ms to find a handful that wait. Asked over netlink for those alone it looks at nothing else.
 */
const diagnosis = `
  use strict;
  my ($netlink, $raw, $sock_diag, $by_family, $dump, $tcp, $listen) = (16, 3, 4, 20, 0x301, 6, 1 << 10);
  socket(my $socket, $netlink, $raw, $sock_diag) or die "socket: $!\\n";
  setsockopt $socket, 1, 20, pack 'q2', 1, 0; # SO_RCVTIMEO: a second
  for my $family (2, 10) {
    my $request = pack 'LSSLL CCCxL x48', 72, $by_family, $dump, 1, 0, $family, $tcp, 0, $listen;
    defined send $socket, $request, 0, pack 'SSLL', $netlink, 0, 0, 0 or die "send: $!\\n";
    for (my $more = 1; $more;) {
      defined recv $socket, my $messages, 65536, 0 or die "recv: $!\\n";
      while (length $messages >= 16) {
        my ($length, $type) = unpack 'LS', $messages;
        die "an answer of $length bytes\\n" if $length < 16;
        die 'refused: ', unpack('x16 l', $messages), "\\n" if $type == 2;
        $more = 0 if $type == 3;
        print unpack('x20 n', $messages), "\\n" if $type == $by_family;
        $messages = substr $messages, $length + 3 & ~3;
      }
    }
  }
`

/** Source: sock_diag(7); messages are `inet_diag_req_v2` and `inet_diag_msg`. */
async function readTcpPorts(): Promise<number[]> {
  try {
    const { stdout } = await runBriefPerl(diagnosis)
    return stdout.split('\n').filter(Boolean).map(Number)
  } catch (cause) {
    if (!(cause instanceof CommandError)) throw cause
    return readProcPorts('tcp') // a kernel without its module for it
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

/** States of a socket that waits for others; a bound datagram socket is in state "close". */
const waiting = { tcp: '0A', udp: '07' } as const

/**
 * Local ports from the text of /proc/net/{tcp,udp}{,6}.
 * Source: proc_net(5); columns: slot, local address:port in hex, remote, state
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
