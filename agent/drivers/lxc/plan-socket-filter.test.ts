import { expect } from 'chai'
import { planSocketFilter } from './plan-socket-filter.js'

interface Call {
  readonly architecture: number
  readonly number: number
  readonly arguments: readonly number[]
}

/** Runs the BPF program like the kernel. @returns the call's errno; 0 if it is allowed */
function run(program: Buffer, { architecture, number, arguments: words }: Call): number {
  const data = Buffer.alloc(64)
  data.writeUInt32LE(number, 0)
  data.writeUInt32LE(architecture, 4)
  words.forEach((word, at) => data.writeBigUInt64LE(BigInt(word), 16 + at * 8))
  let loaded = 0
  for (let at = 0; ; at += 8) {
    const [code, yes, value] = [program.readUInt16LE(at), program[at + 2]!, program.readUInt32LE(at + 4)]
    if (code === 0x20) loaded = data.readUInt32LE(value)
    else if (code === 0x54) loaded = (loaded & value) >>> 0
    else if (code === 0x15) at += loaded === value ? yes * 8 : 0
    else return value === 0x7fff0000 ? 0 : value & 0xffff
  }
}

describe('the seccomp filter for sockets of guests', () => {
  const filter = planSocketFilter([])
  const sockets = { 'x86-64': [0xc000003e, 41], i386: [0x40000003, 359], arm64: [0xc00000b7, 198] } as const
  const [eProtoNoSupport, eAfNoSupport] = [93, 97]

  for (const [name, [architecture, number]] of Object.entries(sockets))
    for (const [what, words, errno] of [
      ['a Unix socket', [1, 1, 0], 0],
      ['an IPv6 socket', [10, 1, 6], 0],
      ['a packet socket', [17, 3, 8], 0],
      ['a vsock socket', [40, 1, 0], eAfNoSupport],
      ['a netlink socket for routes', [16, 3, 0], 0],
      ['a generic netlink socket', [16, 0x80003, 16], 0],
      ['a netlink socket between programs', [16, 3, 2], eProtoNoSupport],
      ['a netlink socket for cryptography', [16, 3, 21], eProtoNoSupport],
      ['a netlink socket whose arguments have more than 32 bits', [2 ** 40 + 16, 3, 2 ** 40 + 2], eProtoNoSupport],
    ] as const)
      it(`${errno === 0 ? 'permits' : 'refuses'} ${what} on ${name}${errno === 0 ? '' : ` (errno ${errno})`}`, () =>
        expect(run(filter, { architecture, number, arguments: words })).to.equal(errno))

  it('permits packet rings and sockets of 32-bit programs only if the settings allow them', () => {
    const ring = { architecture: 0xc000003e, number: 54, arguments: [3, 263, 5] }
    const old = { architecture: 0x40000003, number: 102, arguments: [1] }
    const open = planSocketFilter(['packet-rings', 'sockets-32bit'])
    expect([ring, old].map((call) => run(filter, call))).to.deep.equal([92, 38])
    expect([ring, old].map((call) => run(open, call))).to.deep.equal([0, 0])
  })
})
