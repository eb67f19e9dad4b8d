import { expect } from 'chai'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ensureAuthority } from './authority.js'
import { GatewayLeaf } from './gateway-leaf.js'

const dayMs = 86_400_000

describe('the certificate of the gateway', () => {
  let directory: string
  let leaf: GatewayLeaf
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'btest-leaf-'))
    leaf = await GatewayLeaf.issue(await ensureAuthority(directory, 300), 30 * dayMs)
  })
  afterEach(() => rm(directory, { recursive: true }))

  for (const [name, inDays, inDoubt, renewed] of [
    ['is not renewed in the first two thirds of its lifetime', 10, false, false],
    ['is renewed after two thirds of its lifetime', 21, false, true],
    ['is not renewed after two thirds of its lifetime while the clock is possibly wrong', 21, true, false],
    ['is renewed if it has expired', 31, false, true],
    ['is renewed if it has expired, even if the clock is possibly wrong', 31, true, true],
    ['is renewed if it is not valid yet', -25, false, true],
    ['is renewed if it is not valid yet, even if the clock is possibly wrong', -25, true, true],
  ] as const)
    it(name, async () => {
      const before = leaf.current.serial
      expect(await leaf.renewIfDue(Date.now() + inDays * dayMs, inDoubt)).to.equal(renewed)
      expect(leaf.current.serial !== before).to.equal(renewed)
    })
})
