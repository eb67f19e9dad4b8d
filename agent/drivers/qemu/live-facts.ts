import { Type, type Static } from 'typebox'
import { validateConfig } from '../../../shared/config.js'
import { conflict } from '../../../shared/errors.js'
import { boardPattern } from './plan-command.js'

const word = Type.String({ pattern: '^[\\w.-]{0,100}$' })

const schema = Type.Object({
  /** Version of the running QEMU, for example 7.2.22. */
  version: Type.String({ pattern: '^\\d{1,3}\\.\\d{1,3}(\\.\\d{1,3})?$' }),
  board: Type.String({ pattern: boardPattern.source }),
  acceleration: Type.Union([Type.Literal('kvm'), Type.Literal('tcg')]),
  /** Result of `hashDevices`. */
  devices: word,
  processors: Type.Integer({ minimum: 1, maximum: 1024 }),
  memoryMib: Type.Integer({ minimum: 1, maximum: 2 ** 24 }),
  processor: Type.Object({ vendor: word, model: word, flags: Type.Array(word, { maxItems: 1000 }) }),
  system: Type.Object({
    os: Type.Union([Type.Literal('linux'), Type.Literal('windows')]),
    firmware: Type.Union([Type.Literal('bios'), Type.Literal('uefi')]),
    secureBoot: Type.Boolean(),
    tpm: Type.Boolean(),
  }),
  nic: Type.Object({ ipv4: word, prefixLength: Type.Integer({ minimum: 0, maximum: 32 }), gateway: word }),
  ipv6Addresses: Type.Array(Type.String({ maxLength: 50 }), { maxItems: 1000 }),
})

/** Facts about a running guest that decide whether it can continue on another host. */
export type LiveFacts = Static<typeof schema>

/** Reads facts that another host has sent. @throws {BerthError} `bad_stream` */
export function parseLiveFacts(text: string): LiveFacts {
  try {
    return validateConfig(schema, JSON.parse(text) as unknown, 'live')
  } catch (cause) {
    throw Object.assign(conflict('bad_stream', 'the other host sent malformed facts about the virtual machine'), {
      cause,
    })
  }
}
