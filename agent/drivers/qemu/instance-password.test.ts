import { expect } from 'chai'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPassword, sealPassword } from './instance-password.js'

describe('the initial password of a guest without support for password hashes', () => {
  const directory = mkdtempSync(join(tmpdir(), 'btest-instance-'))
  const [own, another] = [join(directory, 'own.key'), join(directory, 'another.key')]
  after(() => rmSync(directory, { recursive: true }))

  it('can be decrypted only by the host that encrypted it, and only for the same guest', async () => {
    const sealedPassword = await sealPassword(own, 'iid-1', 'p"w\\1')
    expect(sealedPassword).to.not.contain('p"w')
    expect(await openPassword(own, { id: 'iid-1', sealedPassword })).to.equal('p"w\\1')
    expect(await openPassword(own, { id: 'iid-2', sealedPassword })).to.equal(undefined)
    expect(await openPassword(another, { id: 'iid-1', sealedPassword })).to.equal(undefined)
    expect(await openPassword(own, { id: 'iid-1' })).to.equal(undefined)
  })

  for (const sealedPassword of ['', 'x', 'AAAA'.repeat(1000), 5, null, {}])
    it(`is undefined if the stored encrypted password is ${JSON.stringify(sealedPassword)?.slice(0, 12)}`, async () => {
      const told = { id: 'iid-1', sealedPassword: sealedPassword as string }
      expect(await openPassword(own, told)).to.equal(undefined)
    })
})
