import { expect } from 'chai'
import { KnownDevices } from './known-devices.js'

const account = (id: number, generation = 1) => ({ id, generation })

describe('known devices', () => {
  const devices = new KnownDevices(Buffer.alloc(32, 1))
  const cookie = devices.add(undefined, account(7))

  it('are recognized only for accounts that have logged in on them', () => {
    expect(devices.find(cookie, account(7))).to.match(/^[A-Za-z0-9_-]{22}$/)
    expect(devices.find(cookie, account(8))).to.equal(undefined)
    const both = devices.add(cookie, account(8))
    expect([devices.find(both, account(7)), devices.find(both, account(8))]).to.deep.equal(
      Array(2).fill(devices.find(cookie, account(7))),
    )
    expect(devices.add(both, account(8))).to.equal(both)
  })

  for (const [what, made] of [
    ['a request without a cookie', undefined],
    ['an empty cookie', ''],
    ['a cookie of another installation', new KnownDevices(Buffer.alloc(32, 2)).add(undefined, account(7))],
    ['an invented cookie', `${'A'.repeat(22)}.${'A'.repeat(22)}`],
    ['a cookie whose signature belongs to another device', `${'A'.repeat(22)}.${cookie.split('.')[1]}`],
    ['a very long cookie', `${cookie}${'.A'.repeat(10_000)}`],
  ] as const)
    it(`cannot be recognized from ${what}`, () => {
      expect(devices.find(made, account(7))).to.equal(undefined)
    })

  it('are no longer recognized after the account’s password or second factor has changed', () => {
    expect(devices.find(cookie, account(7, 2))).to.equal(undefined)
    expect(devices.find(devices.add(cookie, account(7, 2)), account(7, 2))).to.equal(devices.find(cookie, account(7)))
  })

  it('are no longer recognized for their oldest account if more than eight accounts log in on them', () => {
    let many: string | undefined
    for (let id = 1; id <= 9; id++) many = devices.add(many, account(id))
    expect([1, 2, 9].map((id) => devices.find(many, account(id)) !== undefined)).to.deep.equal([false, true, true])
  })
})
