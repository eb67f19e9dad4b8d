import { runPerl } from './process.js'

/*
 * Requests to the kernel's packet filter by netlink(7), through a fork of the launcher: a dump of counters costs a
 * third of what nft takes to list them.
 */

export interface NetlinkMessage {
  /** NFNL_SUBSYS_x << 8 | message. */
  readonly type: number
  readonly flags: number
  /** What follows the header: an nfgenmsg and attributes; of an error its number, negative, and the request. */
  readonly body: Buffer
}

export interface NetlinkRequest {
  readonly type: number
  readonly flags: number
  readonly family: number
  readonly attributes: Buffer
}

/** linux/netlink.h */
export const netlink = { error: 2, done: 3, ack: 4, interrupted: 0x10, dump: 0x300 } as const

/**
 * Standard input: strings, each after its length: a pattern, then the requests. Each is sent once the one before has
 * been answered. Answers that the pattern does not match are left out.
 */
const program = String.raw`
  my ($pattern, @requests) = unpack('(N/a*)*', do { local $/; binmode STDIN; <STDIN> });
  my $kernel = pack('S S L L', 16, 0, 0, 0);
  socket(my $socket, 16, 3, 12) or die "socket: $!\n";
  setsockopt($socket, 1, 33, pack('l', 1 << 20)); # SO_RCVBUFFORCE
  bind($socket, $kernel) or die "bind: $!\n";
  binmode STDOUT;
  for my $request (@requests) {
    defined send($socket, $request, 0, $kernel) or die "send: $!\n";
    for (my $more = 1; $more;) {
      defined recv($socket, my $answers, 1 << 18, 0) or die "recv: $!\n";
      for (my $at = 0; $at + 16 <= length $answers;) {
        my ($length, $type) = unpack("\@$at L S", $answers);
        die "an answer of $length bytes\n" if $length < 16;
        my $answer = substr($answers, $at, $length);
        $more = 0 if $type == 2 || $type == 3;
        print $answer, "\0" x (-$length & 3) if $type <= 3 || $pattern eq '' || $answer =~ /$pattern/so;
        $at += $length + 3 & ~3;
      }
    }
  }`

/**
 * @param containing of a dump only what contains one of these is returned; empty: all
 * @returns all answers, errors and ends of dumps among them
 * @throws {CommandError}
 */
export async function askNetfilter(
  requests: readonly NetlinkRequest[],
  containing: readonly Buffer[] = [],
): Promise<NetlinkMessage[]> {
  const hex = (byte: number): string => `\\x${byte.toString(16).padStart(2, '0')}`
  const pattern = containing.map((bytes) => [...bytes].map(hex).join('')).join('|')
  const stdin = Buffer.concat([Buffer.from(pattern), ...requests.map(encode)].map(withLength))
  const maxOutputBytes = 256 * 1024 * 1024
  const { stdout } = await runPerl(program, [], { stdin, maxOutputBytes, encoding: 'latin1' })
  return [...messagesIn(Buffer.from(stdout, 'latin1'))]
}

/** Of an error: the number, 0 for none. */
export function errorIn({ type, body }: NetlinkMessage): number | undefined {
  return type === netlink.error ? -body.readInt32LE(0) : undefined
}

/** Attributes by type; `at` is where they begin. */
export function attributesIn(body?: Buffer, at = 0): Map<number, Buffer> {
  return new Map(eachAttribute(body, at))
}

export function* eachAttribute(body?: Buffer, at = 0): Generator<[type: number, value: Buffer]> {
  const end = body?.length ?? 0
  for (let from = at; body && from + 4 <= end;) {
    const length = body.readUInt16LE(from)
    if (length < 4) break
    yield [body.readUInt16LE(from + 2) & 0x3fff, body.subarray(from + 4, from + length)]
    from += aligned(length)
  }
}

export function attribute(type: number, value: Buffer | string): Buffer {
  const bytes = typeof value === 'string' ? Buffer.from(`${value}\0`) : value
  const encoded = Buffer.alloc(aligned(4 + bytes.length))
  encoded.writeUInt16LE(4 + bytes.length, 0)
  encoded.writeUInt16LE(type, 2)
  bytes.copy(encoded, 4)
  return encoded
}

/** Of the header of a message, and of the nfgenmsg after it. */
const headerBytes = 16
export const familyBytes = 4

function encode({ type, flags, family, attributes }: NetlinkRequest): Buffer {
  const header = Buffer.alloc(headerBytes + familyBytes)
  header.writeUInt32LE(header.length + attributes.length, 0)
  header.writeUInt16LE(type, 4)
  header.writeUInt16LE(flags | 1, 6) // NLM_F_REQUEST
  header.writeUInt8(family, headerBytes)
  return Buffer.concat([header, attributes])
}

function withLength(bytes: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}

function* messagesIn(bytes: Buffer): Generator<NetlinkMessage> {
  for (let at = 0; at + headerBytes <= bytes.length;) {
    const length = bytes.readUInt32LE(at)
    const [type, flags] = [bytes.readUInt16LE(at + 4), bytes.readUInt16LE(at + 6)]
    yield { type, flags, body: bytes.subarray(at + headerBytes, at + length) }
    at += aligned(length)
  }
}

function aligned(length: number): number {
  return (length + 3) & ~3
}
